// @ts-check
// Processes and threads over time. Labels are elements, graphs are one canvas as large as the visible part.

const PROCESS_PX = 24;
const THREAD_PX = 28;
const COUNTER_PX = 34;

/**
 * @typedef {object} TimeRow
 * @property {"process" | "thread" | "spans" | "counter"} type
 * @property {number} top
 * @property {number} height
 * @property {string} pid
 * @property {number} thread
 * @property {number[]} threads
 * @property {CounterLine | null} line
 * @property {SpanLanes | null} lanes
 * @property {boolean} folds It stands for its process.
 * @property {string} label
 * @property {string} detail
 * @property {HTMLElement | null} element
 */

/** Processes whose threads are not shown, by pid. @type {Set<string>} */
const folded = new Set();
/** @type {TimeRow[]} */
let timeRows = [];
/** Sums of a row by pixel, of each set of stacks. @type {Map<string, Float64Array[]>} */
let knownBins = new Map();
let knownBinsOf = "";
/** The time that is being selected, while the pointer is down. @type {TimeSpan | null} */
let dragged = null;

/** Weight of each thread in the whole time. @param {Kind} of */
function weightOfThreads(of) {
  const weights = new Float64Array(profile.threads.length);
  for (const samples of of.threads) {
    if (samples.weight) for (const weight of samples.weight) weights[samples.thread] += weight;
    else weights[samples.thread] += samples.each * samples.time.length;
  }
  return weights;
}

function layTimeline() {
  const of = kind() ?? NOTHING;
  const weights = weightOfThreads(of);
  // A thread that only waits is a row, too.
  const waits = waitsBeside(of);
  const waiting = waits ? weightOfThreads(waits) : new Float64Array(profile.threads.length);
  /** @type {Map<string, {pid: string, name: string, threads: number[], weight: number, lines: CounterLine[]}>} */
  const processes = new Map();
  const marked = new Set(profile.markers.thread);
  profile.threads.forEach((thread, at) => {
    let process = processes.get(thread.pid);
    if (!process) {
      process = { pid: thread.pid, name: thread.process, threads: [], weight: 0, lines: [] };
      processes.set(thread.pid, process);
    }
    if (thread.main && thread.process) process.name = thread.process;
    if (weights[at] > 0 || waiting[at] > 0 || marked.has(at)) process.threads.push(at);
    process.weight += weights[at];
  });
  for (const line of profile.counters) {
    const thread = line.thread === null ? undefined : profile.threads[line.thread];
    if (thread && line.place !== "machine") processes.get(thread.pid)?.lines.push(line);
  }
  const busiest = [...processes.values()].filter((process) => process.threads.length > 0);
  busiest.sort((a, b) => b.weight - a.weight);
  timeRows = [];
  let top = 0;
  /** @param {Partial<TimeRow> & {type: TimeRow["type"], height: number}} row */
  const add = (row) => {
    timeRows.push({ pid: "", thread: -1, threads: [], line: null, lanes: null, folds: false, label: "", detail: "", element: null, top, ...row });
    top += row.height;
  };
  /** @param {CounterLine} line @param {string} pid */
  const addLine = (line, pid) => {
    add({ type: "counter", height: COUNTER_PX, pid, line, label: line.name, detail: `up to ${lineAmount(line, line.most)}` });
  };
  for (const process of busiest) {
    const { pid, threads } = process;
    threads.sort((a, b) => weights[b] - weights[a] || waiting[b] - waiting[a] || a - b);
    const label = process.name || (pid ? `process ${pid}` : "process");
    // A process with one thread is the row of that thread.
    const isOne = threads.length === 1;
    const detail = isOne ? `${pid}, ${amount(process.weight)}` : `${pid}, ${count(threads.length, "thread", "threads")}, ${amount(process.weight)}`;
    if (isOne) add({ type: "thread", height: THREAD_PX, pid, thread: threads[0], threads, label, detail, folds: true });
    else add({ type: "process", height: PROCESS_PX, pid, threads, label, detail, folds: true });
    if (folded.has(pid)) continue;
    /** @param {(line: CounterLine) => boolean} isHere */
    const addLines = (isHere) => {
      for (const line of process.lines.filter(isHere)) addLine(line, pid);
    };
    addLines((line) => !line.ofThread && line.place === "threads");
    for (const thread of threads) {
      const { name, tid } = profile.threads[thread];
      if (!isOne) add({ type: "thread", height: THREAD_PX, pid, thread, threads: [thread], label: name || `thread ${tid}`, detail: `${tid}, ${amount(weights[thread])}` });
      for (const row of spanRows(thread)) add({ pid, ...row });
      addLines((line) => line.ofThread && line.thread === thread);
    }
    addLines((line) => line.ofThread && !threads.includes(line.thread ?? -1));
    addLines((line) => line.place === "process");
  }
  for (const line of profile.counters) if (line.place === "machine") addLine(line, "");
  const labels = byId("rows-labels");
  labels.replaceChildren(
    ...timeRows.map((row, at) => {
      const element = make(
        "div",
        { class: `row-label row-${row.type}${row.folds ? " row-process" : ""}`, role: "option", tabindex: at === 0 ? 0 : -1, title: `${row.label} (${row.detail})`, "data-at": at },
        row.folds && make("span", { class: "twist", "aria-hidden": true }, folded.has(row.pid) ? "\u25b8" : "\u25be"),
        make("span", { class: "text" }, row.label),
        make("span", { class: "after" }, " " + row.detail),
      );
      element.style.height = row.height + "px";
      row.element = element;
      return element;
    }),
  );
  byId("rows-area").style.height = top + "px";
  knownBins = new Map();
  markRows();
}

/** @param {CounterLine} line @param {number} value */
function lineAmount(line, value) {
  // A rate of ms of running time.
  if (line.unit === "threads") return (value / 1000).toFixed(1) + " threads";
  if (line.unit === "percent") return (value / 10).toFixed(0) + " %";
  return (line.unit === "bytes" ? bytesText(value) : grouped(value)) + (line.rate ? " a second" : "");
}

/** Waits, where CPU time is counted beside them. @param {Kind} of */
function waitsBeside(of) {
  return of.waits || of !== kinds()[0] ? undefined : kinds().find((other) => other.waits);
}

function markRows() {
  for (const row of timeRows) {
    const isChosen = row.threads.length > 0 && row.threads.every((thread) => state.threads?.has(thread));
    row.element?.setAttribute("aria-selected", String(isChosen));
  }
}

/** Selects a row's threads, or adds them. @param {TimeRow} row @param {boolean} more */
function chooseRow(row, more) {
  if (row.threads.length === 0 || profile.calls === "arcs") return;
  const isChosen = row.threads.every((thread) => state.threads?.has(thread));
  const chosen = new Set(more ? state.threads : []);
  const isOnly = isChosen && (more || state.threads?.size === row.threads.length);
  for (const thread of row.threads) isOnly ? chosen.delete(thread) : chosen.add(thread);
  change({ threads: chosen.size > 0 ? chosen : null });
}

/** @param {TimeRow} row */
function foldRow(row) {
  if (folded.has(row.pid)) folded.delete(row.pid);
  else folded.add(row.pid);
  layTimeline();
  const at = timeRows.findIndex((other) => other.folds && other.pid === row.pid);
  timeRows[at].element?.focus();
  drawTimeline();
}

/**
 * Selected weights by pixel of some threads, of each set of stacks. A sample stands for the time before it, and is spread over that time: pixels that hold a few
 * samples would differ by one of them where a thread is busy throughout.
 * @param {Kind} of @param {number[]} threads @param {number} width @param {Uint8Array} setOf By stack: 0 is none, 1 the first set. @param {number} [sets]
 */
function binsOf(of, threads, width, setOf, sets = 1) {
  const key = `${state.view.from} ${state.view.to} ${width} ${state.inside} ${selectedStacks().of}`;
  if (knownBinsOf !== key) knownBins = new Map();
  knownBinsOf = key;
  const id = `${kinds().indexOf(of)}:${threads.join()}:${setOf === selectedStacks().found}:${sets}`;
  const known = knownBins.get(id);
  if (known) return known;
  const bins = Array.from({ length: sets }, () => new Float64Array(width));
  const isOf = new Set(threads);
  for (const samples of of.threads) {
    if (isOf.has(samples.thread)) addToBins(bins, of, samples, setOf, state.view, nsPerWeight(of));
  }
  knownBins.set(id, bins);
  return bins;
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
  const [ink, soft, wait, rule, dot, found] = ["--graph", "--graph-soft", "--graph-wait", "--rule", "--marker", "--found"].map(cssColor);
  const { from, to } = state.view;
  const binNs = ((to - from) * 1000) / width;
  const each = nsPerWeight(of);
  const stacks = selectedStacks();
  // While there is a search, the colour is that of what it finds.
  const hasCodes = hasCodeColors(of) && !stacks.found;
  let most = 0;
  if (each === 0) {
    for (const row of timeRows) if (row.type === "thread") for (const bin of binsOf(of, row.threads, width, stacks.focused)[0]) most = Math.max(most, bin);
  }
  const top = rows.scrollTop;
  /** Weight of the threads' columns. */
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
      drawSpans(context, row.lanes, y, width);
      continue;
    }
    const isChosen = !state.threads || row.threads.some((thread) => state.threads?.has(thread));
    const base = y + row.height - 1;
    const room = row.height - 5;
    const [bins] = binsOf(of, row.threads, width, stacks.focused);
    // Of a process 100 % is one CPU for each thread that could use it, up to the busiest moment.
    let full = each > 0 ? binNs / each : most;
    if (row.type === "process") for (const bin of bins) full = Math.max(full, bin);
    if (waits && row.type === "thread") {
      const [waiting] = binsOf(waits, row.threads, width, stacks.focused);
      context.fillStyle = wait;
      for (let x = 0; x < width; x++) {
        const part = Math.min(1, waiting[x] / binNs);
        if (part > 0.02) context.fillRect(x, base - 4 * part, 1, 4 * part);
      }
    }
    context.globalAlpha = isChosen ? 1 : 0.3;
    /** @param {Float64Array} heights @param {string} color */
    const columns = (heights, color) => {
      context.fillStyle = color;
      for (let x = 0; x < width; x++) {
        // What is left of a difference is no column.
        if (heights[x] <= 1e-6 * full) continue;
        const tall = Math.max(1, Math.min(1, heights[x] / full) * room);
        context.fillRect(x, base - tall, 1, tall);
      }
    };
    if (hasCodes && row.type === "thread") {
      // From the top: each kind of code stands on those before it.
      const sets = binsOf(of, row.threads, width, stacks.codes, profile.codes.length);
      const heights = bins.slice();
      sets.forEach((set, code) => (drawnCodes[code] = set.reduce((sum, bin) => sum + bin, drawnCodes[code])));
      for (let code = sets.length - 1; code >= 0; code--) {
        columns(heights, codeColor(code));
        for (let x = 0; x < width; x++) heights[x] -= sets[code][x];
      }
    } else columns(bins, of.waits ? wait : row.type === "process" ? soft : ink);
    const foundBins = stacks.found && binsOf(of, row.threads, width, stacks.found)[0];
    if (foundBins) columns(foundBins, found);
    if (row.type === "thread") drawn = (foundBins ?? bins).reduce((sum, bin) => sum + bin, drawn);
    context.globalAlpha = 1;
  }
  canvas.dataset.drawn = String(drawn);
  canvas.dataset.codes = JSON.stringify(drawnCodes);
  drawMarkers(context, top, height, width, dot);
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

/** @param {CanvasRenderingContext2D} context @param {CounterLine} line @param {number} y @param {number} height @param {number} width */
function drawLine(context, line, y, height, width) {
  const { from, to } = state.view;
  context.beginPath();
  context.strokeStyle = cssColor("--counter");
  context.lineWidth = 1.25;
  let isFirst = true;
  line.time.forEach((time, at) => {
    const x = ((time - from) / (to - from)) * width;
    const level = y + height - (line.value[at] / 65535) * (height - 2) - 1;
    if (isFirst) context.moveTo(x, level);
    else context.lineTo(x, level);
    isFirst = false;
  });
  context.stroke();
}

/** @param {CanvasRenderingContext2D} context @param {number} top @param {number} height @param {number} width @param {string} color */
function drawMarkers(context, top, height, width, color) {
  const { thread, start, duration: lengths, kind: isSpan } = profile.markers;
  if (thread.length === 0) return;
  const { from, to } = state.view;
  const rowOf = new Map(timeRows.filter((row) => row.type === "thread").map((row) => [row.thread, row]));
  context.fillStyle = color;
  /** One dot a pixel. @type {Map<TimeRow, number>} */
  const last = new Map();
  for (let at = 0; at < thread.length; at++) {
    const row = isSpan[at] > 0 ? undefined : rowOf.get(thread[at]);
    if (!row || row.top - top > height || row.top + row.height < top) continue;
    const x = Math.round(((start[at] - from) / (to - from)) * width);
    const wide = (lengths[at] / (to - from)) * width;
    if (x + wide < 0 || x > width || (wide < 1 && last.get(row) === x)) continue;
    last.set(row, x);
    context.fillRect(x - 1, row.top - top + 1, Math.max(2, wide), 3);
  }
}

/** @param {number} width */
function drawAxis(width) {
  const axis = byId("time-axis");
  const { from, to } = state.view;
  const most = Math.max(1, Math.floor(width / 90));
  const raw = (to - from) / most;
  const power = 10 ** Math.floor(Math.log10(Math.max(1, raw)));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= raw) ?? raw;
  const ticks = [];
  for (let at = Math.ceil(from / step) * step; at < to; at += step) {
    const tick = make("span", { class: "tick" }, clock(at, step));
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
  const ran = new Set(codesOfStacks(profile));
  const buttons = profile.codes.map(([name], code) => {
    const button = make("button", { type: "button", class: "code", "aria-pressed": String(state.code === code) }, make("span", { class: "swatch", "aria-hidden": true }), name);
    /** @type {HTMLElement} */ (button.firstChild).style.background = codeColor(code);
    button.addEventListener("click", () => change({ code: state.code === code ? -1 : code }));
    return button;
  });
  byId("codes").replaceChildren(...(hasCodeColors(of) ? buttons.filter((_, code) => ran.has(code + 1)) : []));
}

/** Rounded to whole microseconds, from left to right. @param {number} a @param {number} b @returns {TimeSpan} */
function rangeOf(a, b) {
  const clamp = (/** @type {number} */ at) => Math.round(Math.max(0, Math.min(profile.endUs, at)));
  return { from: clamp(Math.min(a, b)), to: clamp(Math.max(a, b)) };
}

function startTimeline() {
  const rows = byId("rows");
  const area = byId("rows-area");
  const labels = byId("rows-labels");
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
    if (startX < 0) return hoverTimeline(timeAt(event), rowAt(event), event.clientY - area.getBoundingClientRect().top);
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
      if (span >= 0) chooseInside(profile.markers.names[profile.markers.name[span]]);
    } else if (wasDown && row) chooseRow(row, event.ctrlKey || event.metaKey || event.shiftKey);
  });
  area.addEventListener("pointercancel", () => {
    [dragged, startX] = [null, -1];
    drawTimeline();
  });
  labels.addEventListener("click", (event) => {
    const element = event.target instanceof Element ? event.target.closest("[data-at]") : null;
    if (!(element instanceof HTMLElement)) return;
    const row = timeRows[Number(element.dataset.at)];
    element.focus();
    if (event.target instanceof Element && event.target.classList.contains("twist")) foldRow(row);
    else chooseRow(row, event.ctrlKey || event.metaKey || event.shiftKey);
  });
  labels.addEventListener("focusin", (event) => {
    for (const row of timeRows) if (row.element) row.element.tabIndex = row.element === event.target ? 0 : -1;
  });
  labels.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = timeRows.findIndex((row) => row.element === event.target);
    const row = timeRows[at];
    if (!row) return;
    if (event.shiftKey && (event.key === "ArrowLeft" || event.key === "ArrowRight")) {
      moveRange(event.key === "ArrowRight" ? 1 : -1);
    } else if (event.key === "ArrowDown") timeRows[at + 1]?.element?.focus();
    else if (event.key === "ArrowUp") timeRows[at - 1]?.element?.focus();
    else if (event.key === "Home") timeRows[0].element?.focus();
    else if (event.key === "End") timeRows[timeRows.length - 1].element?.focus();
    else if (event.key === "ArrowLeft" && row.folds && !folded.has(row.pid)) foldRow(row);
    else if (event.key === "ArrowRight" && row.folds && folded.has(row.pid)) foldRow(row);
    else if (event.key === "Enter" || event.key === " ") chooseRow(row, event.key === " ");
    else return;
    event.preventDefault();
  });
  rows.addEventListener("scroll", drawTimeline);
  new ResizeObserver(drawTimeline).observe(rows);
  byId("range-reset").addEventListener("click", () => change({ range: null }));
  byId("zoom-in").addEventListener("click", () => state.range && change({ view: state.range }));
  byId("zoom-out").addEventListener("click", () => change({ view: { from: 0, to: profile.endUs } }));
}

/** Moves the end of the selection by a fiftieth of the visible time. @param {1 | -1} step */
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
  const { thread, start, duration: lengths, kind: isSpan } = profile.markers;
  const near = nearby();
  let found = "";
  for (let at = 0; at < thread.length && row.type === "thread"; at++) {
    if (thread[at] !== row.thread || isSpan[at] > 0 || start[at] > time + near || start[at] + lengths[at] < time - near) continue;
    found = `; marker ${markerInWords(at)}`;
  }
  const span = row.lanes ? spanAt(row.lanes, y - row.top, time, near) : -1;
  if (span >= 0) found = `: ${markerInWords(span)}; click: only what threads did inside of such spans`;
  if (row.line && time >= row.line.time[0]) {
    const at = firstAt(row.line.time, time + 1) - 1;
    found = `: ${lineAmount(row.line, (row.line.value[at] / 65535) * row.line.most)}`;
  }
  hint(`${row.label} at ${clock(time, 1000)}${found}`);
}
