// @ts-check
// Graphs of the rows over time: one canvas as large as the visible part.

/** Sums of a row by pixel, of each set of stacks. @type {Map<string, Float64Array[]>} */
let knownBins = new Map();
let knownBinsOf = "";
/** The time that is being selected, while the pointer is down. @type {TimeSpan | null} */
let dragged = null;

/** @param {CounterLine} line @param {number} value */
function lineAmount(line, value) {
  // A rate of ms of running time.
  if (line.unit === "threads") return (value / 1000).toFixed(1) + " threads";
  if (line.unit === "percent") return (value / 10).toFixed(0) + " %";
  const few = Math.abs(value) < 10 && !Number.isInteger(value);
  const text = line.unit === "bytes" ? bytesText(value) : few ? value.toFixed(2) : grouped(value);
  return text + (line.unit === "Hz" ? " Hz" : "") + (line.rate ? "/s" : "");
}

/** The value of a line at a time, in words, as it is drawn; nothing where the line has none. @param {CounterLine} line @param {number} time */
function valueAt(line, time) {
  const after = firstAt(line.time, time);
  const last = line.time.length - 1;
  if (time < line.time[0] || (line.rate && after > last)) return "";
  const to = Math.min(last, line.rate ? Math.max(1, after) : after);
  const from = Math.max(0, to - 1);
  // A point has the rate since the point before it. Between two levels the line is straight, and the last one holds.
  const part = line.rate || from === to ? 1 : Math.min(1, (time - line.time[from]) / (line.time[to] - line.time[from]));
  return lineAmount(line, ((line.value[from] + part * (line.value[to] - line.value[from])) / 65535) * line.most);
}

/** The time at which the keys read values. */
let valueTime = -1;

/** Reads the value a fiftieth of the visible time later or earlier. @param {TimeRow} row @param {number} step */
function moveValue(row, step) {
  const { from, to } = state.view;
  const before = valueTime < from || valueTime > to ? from : valueTime + (step * (to - from)) / 50;
  valueTime = Math.round(Math.max(from, Math.min(to - 1, before)));
  showValue(row);
  hoverTimeline(valueTime, row, 0);
}

/** Shows the value of a line beside it, or none. @param {TimeRow | null} row */
function showValue(row) {
  const element = byId("value");
  const text = row?.line ? valueAt(row.line, valueTime) : "";
  element.hidden = text === "";
  if (!row || text === "") return;
  const part = (valueTime - state.view.from) / (state.view.to - state.view.from);
  element.textContent = text;
  element.dataset.end = String(part > 0.5);
  element.style.insetInlineStart = 100 * part + "%";
  element.style.top = row.top + "px";
  element.style.height = row.height + "px";
}

/**
 * Weights by pixel of a row's threads, of each set of stacks. A sample stands for the time before it, and is spread over
 * that time: pixels that hold a few samples would differ by one of them where a thread is busy throughout.
 * @param {Kind} of @param {TimeRow} row @param {number} width
 * @param {Uint8Array} setOf By stack: 0 is none, 1 the first set.
 * @param {number} sets @param {string} what Names the sets.
 * @returns {Float64Array[]}
 */
function setsOf(of, row, width, setOf, sets, what) {
  const key = JSON.stringify([state.view, width, state.inside, state.focus, state.dropped]);
  if (knownBinsOf !== key) knownBins = new Map();
  knownBinsOf = key;
  const id = `${kinds().indexOf(of)}:${row.threads.join()}:${what}`;
  const known = knownBins.get(id);
  if (known) return known;
  const bins = Array.from({ length: sets }, () => new Float64Array(width));
  const below = isOpen(row) ? row.below.filter(({ threads }) => threads.length > 0) : [];
  // The bins of a thousand threads would take 60 MB.
  if (below.length > 0 && below.length < MANY_THREADS) {
    for (const part of below) setsOf(of, part, width, setOf, sets, what).forEach((set, at) => set.forEach((bin, x) => (bins[at][x] += bin)));
  } else {
    const isOf = new Set(row.threads);
    for (const samples of of.threads) if (isOf.has(samples.thread)) addToBins(bins, of, samples, setOf, state.view, nsPerWeight(of));
  }
  knownBins.set(id, bins);
  return bins;
}

/** By pixel what is selected of a row, in all and by kind of code. @param {Kind} of @param {TimeRow} row @param {number} width */
function binsOf(of, row, width) {
  const sets = setsOf(of, row, width, selectedStacks().codes, profile.codes.length + 1, "codes");
  const codes = sets.slice(1).map((set, code) => (state.code < 0 || state.code === code ? set : null));
  const bins = new Float64Array(width);
  for (const set of state.code < 0 ? sets : codes) if (set) for (let x = 0; x < width; x++) bins[x] += set[x];
  return { bins, codes };
}

/** By pixel what the search finds of a row; nothing without a search. @param {Kind} of @param {TimeRow} row @param {number} width */
function foundOf(of, row, width) {
  const { found, foundOf } = selectedStacks();
  return found && setsOf(of, row, width, found, 1, `${foundOf} ${state.code}`)[0];
}

function drawTimeline() {
  const rows = byId("rows");
  const canvas = /** @type {HTMLCanvasElement} */ (byId("rows-canvas"));
  const width = Math.floor(byId("rows-area").clientWidth);
  const height = Math.min(rows.clientHeight, timeRows.reduce((sum, row) => sum + row.height, 0));
  const context = sized(canvas, width, height);
  drawAxis(width);
  if (!context || width <= 0) return;
  const of = kind() ?? NOTHING;
  const waits = waitsBeside(of);
  const [ink, soft, wait, rule, found] = ["--graph", "--graph-soft", "--graph-wait", "--rule", "--found"].map(cssColor);
  const { from, to } = state.view;
  const binNs = ((to - from) * 1000) / width;
  const each = nsPerWeight(of);
  // While there is a search, the colour is that of what it finds.
  const hasCodes = hasCodeColors(of) && state.query === "";
  let most = 0;
  if (each === 0) {
    const ofThreads = timeRows.filter(({ type }) => type === "thread");
    for (const row of ofThreads) for (const bin of binsOf(of, row, width).bins) most = Math.max(most, bin);
  }
  const top = rows.scrollTop;
  /** Weight of the columns of threads, and of closed rows. */
  let drawn = 0;
  const drawnCodes = profile.codes.map(() => 0);
  for (const row of timeRows) {
    const y = row.top - top;
    if (y + row.height < 0 || y > height) continue;
    context.fillStyle = rule;
    context.fillRect(0, y + row.height - 1, width, 1);
    if (row.type === "counter" && row.line) {
      drawLine(context, row.line, y + 3, row.height - 5, width);
      continue;
    }
    if (row.lanes) {
      drawSpans(context, row.lanes, y, width, state.view);
      continue;
    }
    const isLeaf = row.type === "thread" || !isOpen(row);
    const isChosen = !state.threads || row.threads.some((thread) => state.threads?.has(thread));
    const base = y + row.height - 1;
    const room = row.height - 5;
    const { bins, codes } = binsOf(of, row, width);
    // Of several threads 100 % is one CPU for each thread that could use it, up to the busiest moment.
    let full = each > 0 ? binNs / each : most;
    if (row.type !== "thread") for (const bin of bins) full = Math.max(full, bin);
    if (waits && isLeaf) {
      const waiting = binsOf(waits, row, width).bins;
      context.fillStyle = wait;
      for (let x = 0; x < width; x++) {
        const part = Math.min(1, waiting[x] / binNs / row.threads.length);
        if (part > 0.02) context.fillRect(x, base - 4 * part, 1, 4 * part);
      }
    }
    context.globalAlpha = isChosen ? 1 : 0.3;
    const columns = columnsOf(context, width, room, full);
    if (hasCodes && isLeaf) {
      // From the top: each kind of code stands on those before it.
      const heights = bins.slice();
      for (let code = codes.length - 1; code >= 0; code--) {
        const set = codes[code];
        if (!set) continue;
        drawnCodes[code] = set.reduce((sum, bin) => sum + bin, drawnCodes[code]);
        columns.add(heights, codeColor(code), set);
        for (let x = 0; x < width; x++) heights[x] -= set[x];
      }
    } else columns.add(bins, of.waits ? wait : isLeaf ? ink : soft, bins);
    const foundBins = foundOf(of, row, width);
    if (foundBins) columns.add(foundBins, found, foundBins);
    columns.draw(base - room);
    if (isLeaf) drawn = (foundBins ?? bins).reduce((sum, bin) => sum + bin, drawn);
    context.globalAlpha = 1;
    if (row.type === "thread") drawMarks(context, row.thread, y + 1, width, state.view);
  }
  canvas.dataset.drawn = String(drawn);
  canvas.dataset.codes = JSON.stringify(drawnCodes);
  const range = dragged ?? state.range;
  if (range) {
    const [left, right] = [range.from, range.to].map((at) => ((at - from) / (to - from)) * width);
    context.fillStyle = cssColor("--veil");
    context.fillRect(0, 0, Math.max(0, left), height);
    context.fillRect(right, 0, Math.max(0, width - right), height);
    context.fillStyle = cssColor("--accent");
    context.fillRect(left - 1, 0, 2, height);
    context.fillRect(right - 1, 0, 2, height);
  }
}

const imageCanvas = document.createElement("canvas");

/** The pixels as what another canvas can draw enlarged. @param {ImageData} image */
function canvasOf(image) {
  if (imageCanvas.width !== image.width) imageCanvas.width = image.width;
  if (imageCanvas.height !== image.height) imageCanvas.height = image.height;
  imageCanvas.getContext("2d")?.putImageData(image, 0, 0);
  return imageCanvas;
}

/** Red, green and blue of any colour, 0 to 255. @param {CanvasRenderingContext2D} context @param {string} color */
function rgbOf(context, color) {
  // As `#rrggbb`, whatever it was.
  context.fillStyle = color;
  const rgb = parseInt(String(context.fillStyle).slice(1), 16);
  return [rgb >> 16, (rgb >> 8) & 0xff, rgb & 0xff];
}

/**
 * Columns of a row, as pixels: a rectangle for each takes ten times as long.
 * @param {CanvasRenderingContext2D} context @param {number} width @param {number} room @param {number} full What fills the room.
 */
function columnsOf(context, width, room, full) {
  const scale = window.devicePixelRatio || 1;
  const [across, down] = [Math.round(width * scale), Math.round(room * scale)];
  const image = context.createImageData(across, down);
  const pixels = new Uint32Array(image.data.buffer);
  return {
    /** @param {Float64Array} heights @param {string} color @param {Float64Array} where Not where this is 0. */
    add(heights, color, where) {
      const [red, green, blue] = rgbOf(context, color);
      // In the byte order of all that browsers run on.
      const pixel = 0xff000000 | (blue << 16) | (green << 8) | red;
      for (let x = 0; x < across; x++) {
        const bin = Math.min(width - 1, Math.floor(x / scale));
        // What is left of a difference is no column.
        if (heights[bin] <= 1e-6 * full || where[bin] === 0) continue;
        const tall = Math.max(Math.round(scale), Math.round(Math.min(1, heights[bin] / full) * down));
        for (let y = down - tall; y < down; y++) pixels[y * across + x] = pixel;
      }
    },
    /** @param {number} top */
    draw(top) {
      context.drawImage(canvasOf(image), 0, top, width, room);
    },
  };
}

/** @param {CanvasRenderingContext2D} context @param {CounterLine} line @param {number} y @param {number} height @param {number} width */
function drawLine(context, line, y, height, width) {
  const { from, to } = state.view;
  context.beginPath();
  context.strokeStyle = cssColor("--counter");
  context.lineWidth = 1.25;
  const xOf = (/** @type {number} */ time) => ((time - from) / (to - from)) * width;
  let [before, level] = [0, 0];
  line.time.forEach((time, at) => {
    const x = xOf(time);
    level = y + height - (line.value[at] / 65535) * (height - 2) - 1;
    if (at === 0) context.moveTo(x, level);
    // A rate is that of the time since the point before.
    if (line.rate) context.lineTo(at === 0 ? x : before, level);
    context.lineTo(x, level);
    before = x;
  });
  // Files leave out what does not change. A process may have ended.
  if (!line.rate && line.place === "machine") context.lineTo(xOf(profile.endUs), level);
  context.stroke();
}

/** A letter of a tick is no wider. */
const TICK_LETTER_PX = 8;

/** @param {number} width */
function drawAxis(width) {
  const axis = byId("time-axis");
  const { from, to } = state.view;
  const of = JSON.stringify([from, to, width]);
  if (axis.dataset.of === of) return;
  axis.dataset.of = of;
  const most = Math.max(1, Math.floor(width / 90));
  const raw = (to - from) / most;
  const power = 10 ** Math.floor(Math.log10(Math.max(1, raw)));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= raw) ?? raw;
  const ticks = [];
  for (let at = Math.ceil(from / step) * step; at < to; at += step) {
    const text = clock(at, step);
    // One at the edge would be cut.
    if (((to - at) / (to - from)) * width < TICK_LETTER_PX * text.length) break;
    const tick = make("span", { class: "tick" }, text);
    tick.style.insetInlineStart = (100 * (at - from)) / (to - from) + "%";
    ticks.push(tick);
  }
  axis.replaceChildren(...ticks);
}

function showRange() {
  const of = kind() ?? NOTHING;
  const { range, view } = state;
  const shown = dragged ?? range;
  const text = byId("range");
  text.dataset.from = String(shown?.from ?? "");
  text.dataset.to = String(shown?.to ?? "");
  text.textContent = shown
    ? `${clock(shown.from, 1000)} to ${clock(shown.to, 1000)}: ${duration((shown.to - shown.from) * 1000)}`
    : `Drag to select a time.${waitsBeside(of) ? " The low line in gold: waiting." : ""}`;
  if (of.measure) {
    const peak = of.measure === "peak" ? peakOf(profile.heap, range, state.threads) / 1000 : NaN;
    text.textContent += `${shown ? "." : ""} ${MEASURES[of.measure]}${peak >= 0 ? ", at " + clock(peak, 1000) : ""}.`;
  }
  const isWhole = view.from === 0 && view.to === profile.endUs;
  byId("zoom-in").hidden = !range;
  byId("zoom-out").hidden = isWhole;
  byId("range-reset").hidden = !range;
}

/** Whether the graphs of threads have the colours of what ran. @param {Kind} of */
const hasCodeColors = (of) => !of.waits && profile.codes.length > 1;

/** @param {number} code */
function codeColor(code) {
  const [, hue, saturation, lightness] = profile.codes[code];
  return `hsl(${hue} ${saturation * 100}% ${lightness * 100}%)`;
}

/** The legend of the graphs. A kind of code is chosen by a click. @param {Kind} of */
function showCodes(of) {
  const codes = codesOfStacks(profile);
  const hasRun = new Uint8Array(profile.codes.length + 1);
  // A selected time may have a peak, and retained blocks, of other code than the whole.
  for (const { stack } of of.measure ? profile.heap : of.threads) for (const at of stack) hasRun[codes[at]] = 1;
  const buttons = profile.codes.map(([name], code) => {
    const button = make("button", { type: "button", class: "code", "data-code": code }, make("span", { class: "swatch", "aria-hidden": true }), name);
    /** @type {HTMLElement} */ (button.firstChild).style.background = codeColor(code);
    button.addEventListener("click", () => change({ code: state.code === code ? -1 : code }));
    return button;
  });
  byId("codes").replaceChildren(...(hasCodeColors(of) ? buttons.filter((_, code) => hasRun[code + 1]) : []));
}

/** The buttons stay: a new one would not have the focus. */
function markCodes() {
  for (const button of byId("codes").querySelectorAll("button")) button.setAttribute("aria-pressed", String(state.code === Number(button.dataset.code)));
}

/** Rounded to whole microseconds, from left to right. @param {number} a @param {number} b @returns {TimeSpan} */
function rangeOf(a, b) {
  const clamp = (/** @type {number} */ at) => Math.round(Math.max(0, Math.min(profile.endUs, at)));
  return { from: clamp(Math.min(a, b)), to: clamp(Math.max(a, b)) };
}

function startTimeline() {
  const rows = byId("rows");
  const area = byId("rows-area");
  startRows();
  const timeAt = (/** @type {PointerEvent | MouseEvent} */ event) => {
    const place = area.getBoundingClientRect();
    return state.view.from + ((event.clientX - place.left) / place.width) * (state.view.to - state.view.from);
  };
  const rowAt = (/** @type {MouseEvent} */ event) => {
    const y = event.clientY - area.getBoundingClientRect().top;
    return timeRows.find((row) => y >= row.top && y < row.top + row.height);
  };
  let start = 0;
  let startX = -1;
  area.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    [start, startX] = [timeAt(event), event.clientX];
    area.setPointerCapture(event.pointerId);
  });
  area.addEventListener("pointermove", (event) => {
    if (startX < 0) {
      valueTime = timeAt(event);
      showValue(rowAt(event) ?? null);
      return hoverTimeline(valueTime, rowAt(event), event.clientY - area.getBoundingClientRect().top);
    }
    if (Math.abs(event.clientX - startX) < 3 && !dragged) return;
    dragged = rangeOf(start, timeAt(event));
    showRange();
    drawTimeline();
  });
  area.addEventListener("pointerup", (event) => {
    const range = dragged;
    const wasDown = startX >= 0;
    [dragged, startX] = [null, -1];
    const row = rowAt(event);
    if (range && range.to > range.from) change({ range });
    else if (wasDown && row?.lanes) {
      const span = spanAt(row.lanes, event.clientY - area.getBoundingClientRect().top - row.top, timeAt(event), nearby());
      if (span >= 0) chooseInside(span);
    } else if (wasDown && row) chooseRow(row, event.ctrlKey || event.metaKey || event.shiftKey);
  });
  area.addEventListener("pointerleave", () => showValue(null));
  area.addEventListener("pointercancel", () => {
    [dragged, startX] = [null, -1];
    drawTimeline();
  });
  rows.addEventListener("scroll", drawTimeline);
  new ResizeObserver(drawTimeline).observe(rows);
  byId("range-reset").addEventListener("click", () => change({ range: null }));
  byId("zoom-in").addEventListener("click", () => state.range && change({ view: state.range }));
  byId("zoom-out").addEventListener("click", () => change({ view: { from: 0, to: profile.endUs } }));
}

/** Moves the end of the selection by a fiftieth of the visible time. @param {number} step */
function moveRange(step) {
  const { from, to } = state.view;
  const by = (to - from) / 50;
  const range = state.range ?? { from, to: from };
  const next = rangeOf(range.from, Math.max(range.from, range.to + step * by));
  change({ range: next.to > next.from ? next : null });
}

/** The time of three pixels. */
const nearby = () => ((state.view.to - state.view.from) / Math.max(1, byId("rows-area").clientWidth)) * 3;

/** @param {number} time @param {TimeRow | undefined} row @param {number} y */
function hoverTimeline(time, row, y) {
  if (!row) return;
  const near = nearby();
  const mark = row.type === "thread" ? markAt(row.thread, time, near) : -1;
  let found = mark >= 0 ? `; marker ${markerInWords(mark)}` : "";
  const span = row.lanes ? spanAt(row.lanes, y - row.top, time, near) : -1;
  if (span >= 0) found = `: ${spanInWords(span)}`;
  if (row.line) found = `: ${valueAt(row.line, time) || "no value"}`;
  hint(`${row.label} at ${clock(time, 1000)}${found}`);
}
