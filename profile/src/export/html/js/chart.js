// @ts-check
// The stack chart: the stacks of threads in the order of time.

const CHART_ROW = 18;
/** Samples of a pixel that are looked at. Of more, every second or third and so on. */
const CHART_SAMPLES = 8;
/** Threads that are shown, the busiest of those that are selected. */
const CHART_THREADS = 12;
/** Height of a row of markers. */
const MARKS_PX = 8;
/** Boxes of a thread that the page says in words, too. */
const CHART_BOXES = 100;

/** @typedef {{func: number, from: number, to: number, row: number}} ChartBox `from` and `to` are pixels. */
/** @typedef {{thread: number, above: number[], rows: number, boxes: ChartBox[], each: number}} ChartBlock `above`: callers that all its stacks have. */

/**
 * The stacks of a thread by pixel. A pixel has the stack that most of its time has: from the root on, at each function the callee with most of it.
 * @param {Samples} samples @param {Kind} of @param {TimeSpan} span @param {number} width
 * @returns {ChartBlock}
 */
function chartOf(samples, of, span, width) {
  const { time, weight, stack } = samples;
  const { focused } = selectedStacks();
  const scale = width / (span.to - span.from);
  const nsEach = nsPerWeight(of);
  const order = samples.sorted ? null : [...time.keys()].sort((a, b) => time[a] - time[b]);
  const first = samples.sorted ? firstAt(time, span.from) : 0;
  const inside = samples.sorted ? firstAt(time, span.to) - first : time.reduce((number, at) => number + (at >= span.from && at < span.to ? 1 : 0), 0);
  const each = Math.max(1, Math.ceil(inside / (width * CHART_SAMPLES)));
  /** For each pixel, stacks and their lengths by turns. @type {number[][]} */
  const pixels = Array.from({ length: width }, () => []);
  for (let at = of.waits ? 0 : first; at < time.length; at += each) {
    const row = order ? order[at] : at;
    if (!focused[stack[row]]) continue;
    const w = weight ? weight[row] : samples.each;
    const length = ((of.waits ? w : of.isPartOfTime ? (of.intervalNs ?? 0) : w * nsEach) / 1000) * scale * each;
    const begin = (time[row] - span.from) * scale - (of.waits ? 0 : length);
    if (begin >= width && samples.sorted && (of.waits || !weight)) break;
    const end = Math.max(begin + length, begin + 0.001);
    for (let pixel = Math.max(0, Math.floor(begin)); pixel < Math.min(width, end); pixel++) {
      pixels[pixel].push(stack[row], Math.min(pixel + 1, end) - Math.max(pixel, begin));
    }
  }
  /** @type {Map<number, number[]>} */
  const known = new Map();
  /** @param {number} node */
  const pathOf = (node) => {
    let path = known.get(node);
    if (!path) {
      path = [];
      for (let at = node; at > 0; at = profile.tree.parent[at]) if (!state.hidden.includes(profile.tree.func[at])) path.unshift(profile.tree.func[at]);
      known.set(node, path);
    }
    return path;
  };
  const columns = pixels.map((parts) => {
    /** @type {Map<number, number>} */
    const ofNodes = new Map();
    for (let at = 0; at < parts.length; at += 2) {
      const node = profile.stackNode[parts[at]];
      ofNodes.set(node, (ofNodes.get(node) ?? 0) + parts[at + 1]);
    }
    /** @type {[number[], number][]} */
    let paths = [...ofNodes].map(([node, length]) => [pathOf(node), length]);
    const column = [];
    while (paths.length > 1) {
      const depth = column.length;
      /** @type {Map<number, number>} */
      const lengths = new Map();
      for (const [path, length] of paths) lengths.set(path[depth] ?? -1, (lengths.get(path[depth] ?? -1) ?? 0) + length);
      const [func] = [...lengths].reduce((most, next) => (next[1] > most[1] ? next : most));
      if (func < 0) return column;
      column.push(func);
      paths = paths.filter(([path]) => path[depth] === func);
    }
    return paths.length === 0 ? column : paths[0][0];
  });
  const stacks = columns.filter((column) => column.length > 0);
  let common = stacks.length > 0 ? stacks[0].length - 1 : 0;
  for (const path of stacks) {
    let same = 0;
    while (same < Math.min(common, path.length - 1) && path[same] === stacks[0][same]) same++;
    common = same;
  }
  const folded = state.whole || common < 2 ? 0 : common;
  /** @type {ChartBox[]} */
  const boxes = [];
  /** @type {ChartBox[]} */
  let open = [];
  let rows = 0;
  columns.forEach((column, pixel) => {
    const path = column.slice(folded);
    let same = 0;
    while (same < Math.min(open.length, path.length) && open[same].func === path[same]) open[same++].to = pixel + 1;
    open = open.slice(0, same);
    for (let row = same; row < path.length; row++) open.push({ func: path[row], from: pixel, to: pixel + 1, row });
    boxes.push(...open.slice(same));
    rows = Math.max(rows, path.length);
  });
  return { thread: samples.thread, above: stacks.length > 0 ? stacks[0].slice(0, folded) : [], rows, boxes, each };
}

/** @returns {{element: HTMLElement, shown: () => void}} */
function chartTab() {
  const of = kind() ?? NOTHING;
  if (profile.calls !== "paths") return withoutPaths();
  if (!of.hasTimes || of.unit === "bytes" || (nsPerWeight(of) === 0 && !of.waits && !of.isPartOfTime)) {
    const why = of.hasTimes ? `${of.name} are no time, so there is no stack chart.` : "The file has no times, so there is no stack chart.";
    return { element: make("p", { class: "empty" }, why), shown: () => {} };
  }
  const canvas = make("canvas", { "aria-hidden": true });
  const spacer = make("div", { class: "spacer" });
  const area = make("div", { class: "flame", tabindex: 0, role: "img", "aria-label": "Stack chart. The call tree has the functions of a selected time as a table." }, canvas, spacer);
  const legend = make("p", { class: "legend" });
  const whole = make("button", { type: "button", "aria-pressed": String(state.whole), title: "Give each caller that all stacks have in common a row of its own" }, "Whole stacks");
  whole.addEventListener("click", () => change({ whole: !state.whole }));
  const element = make("div", { class: "flame-view" }, make("div", { class: "bar" }, whole, legend), area);
  const weights = weightOfThreads(of);
  const threads = of.threads.filter(({ thread }) => weights[thread] > 0 && (!state.threads || state.threads.has(thread)));
  threads.sort((a, b) => weights[b.thread] - weights[a.thread]);
  const shown = threads.slice(0, CHART_THREADS);
  const span = state.range ?? state.view;
  /** @type {ChartBlock[]} */
  let blocks = [];
  let width = 0;
  /** Spans of a thread. @param {ChartBlock} block */
  const lanesIn = (block) => (lanesOf(block.thread) ?? []).filter(({ count: number }) => number > 0);
  /** The height of its markers and spans. @param {ChartBlock} block */
  const marksPx = (block) => lanesIn(block).reduce((sum, lanes) => sum + heightOfSpans(lanes), marksOf(block.thread).length > 0 ? MARKS_PX : 0);
  /** The height of its label, its markers and spans, and the row of callers that all stacks have. @param {ChartBlock} block */
  const headPx = (block) => marksPx(block) + CHART_ROW * (block.above.length > 0 ? 2 : 1);
  /** @param {ChartBlock} block */
  const blockPx = (block) => headPx(block) + (block.rows + 1) * CHART_ROW;
  /** @param {number} pixel */
  const timeAt = (pixel) => span.from + (pixel / Math.max(1, width)) * (span.to - span.from);

  const draw = () => {
    const height = area.clientHeight;
    const context = sized(canvas, area.clientWidth, height);
    if (!context || area.clientWidth === 0) return;
    if (width !== area.clientWidth) blocks = [];
    width = area.clientWidth;
    const before = blocks.length;
    let bottom = blocks.reduce((sum, block) => sum + blockPx(block), 0);
    // The stacks of a thread are looked at when it comes into view.
    while (blocks.length < shown.length && bottom < area.scrollTop + height) {
      blocks.push(chartOf(shown[blocks.length], of, span, width));
      bottom += blockPx(blocks[blocks.length - 1]);
    }
    if (blocks.length > before || blocks.length === 0) {
      const names = (/** @type {ChartBox} */ { func, from, to, row }) => [profile.names[func], from, to, row];
      area.dataset.blocks = JSON.stringify(blocks.map(({ above, boxes }) => [above.length, boxes.slice(0, CHART_BOXES).map(names)]));
      spacer.style.height = bottom + (blocks.length < shown.length ? height : 0) + "px";
      const most = blocks.reduce((most, { each }) => Math.max(most, each), 1);
      legend.textContent =
        `${clock(span.from, 1000)} to ${clock(span.to, 1000)}. A pixel has the stack that most of its samples have. Drag to select a time.` +
        (most > 1 ? ` One of ${most} samples is drawn: select a shorter time for all.` : "") +
        (threads.length > shown.length ? ` The busiest ${shown.length} of ${threads.length} threads.` : "");
    }
    const { isMatch } = search();
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    const narrow = context.measureText("il:").width / 3;
    const [text, dim, found, soft, root] = ["--on-frame", "--on-dim", "--found", "--soft", "--root"].map(cssColor);
    let y = -area.scrollTop;
    for (const block of blocks) {
      const { name, tid, process } = profile.threads[block.thread];
      context.fillStyle = soft;
      context.fillText(`${process && process !== name ? process + ", " : ""}${name || "thread"} (${tid})`, 4, y + CHART_ROW / 2);
      let lane = y + CHART_ROW;
      if (marksOf(block.thread).length > 0) {
        drawMarks(context, block.thread, lane + 2, width, span);
        lane += MARKS_PX;
      }
      for (const lanes of lanesIn(block)) {
        drawSpans(context, lanes, lane, width, span);
        lane += heightOfSpans(lanes);
      }
      context.font = "12px system-ui, sans-serif";
      if (block.above.length > 0) {
        context.fillStyle = root;
        context.fillRect(0, lane, width, CHART_ROW - 1);
        context.fillStyle = text;
        context.fillText(fitted(context, callersInWords(block.above), width - 8, narrow), 4, lane + CHART_ROW / 2);
      }
      y += headPx(block);
      for (const { func, from, to, row } of block.boxes) {
        const top = y + row * CHART_ROW;
        if (top + CHART_ROW < 0 || top > height) continue;
        const isFound = state.query !== "" && isMatch(func);
        const isDim = state.query !== "" && !isFound;
        context.globalAlpha = isDim ? 0.4 : 1;
        context.fillStyle = isFound ? found : colorOf(func);
        context.fillRect(from, top, to - from > 2 ? to - from - 0.5 : to - from, CHART_ROW - 1);
        context.globalAlpha = 1;
        const label = fitted(context, shortOf(func), to - from - 6, narrow);
        if (!label) continue;
        context.fillStyle = isDim ? dim : text;
        context.fillText(label, from + 3, top + CHART_ROW / 2);
      }
      y += (block.rows + 1) * CHART_ROW;
    }
  };
  /** The box, or the marker or span (-1: none) at a place. @param {MouseEvent} event @returns {{box?: ChartBox, marker: number}} */
  const foundAt = (event) => {
    const place = canvas.getBoundingClientRect();
    const x = event.clientX - place.left;
    let y = event.clientY - place.top + area.scrollTop;
    const block = blocks.find((block) => y < blockPx(block) || ((y -= blockPx(block)), false));
    if (!block) return { marker: -1 };
    const row = Math.floor((y - headPx(block)) / CHART_ROW);
    if (row >= 0) return { box: block.boxes.find((box) => box.row === row && x >= box.from && x < box.to), marker: -1 };
    const near = ((span.to - span.from) / width) * 3;
    let lane = y - CHART_ROW;
    if (marksOf(block.thread).length > 0) {
      if (lane >= 0 && lane < MARKS_PX) return { marker: markAt(block.thread, timeAt(x), near) };
      lane -= MARKS_PX;
    }
    for (const lanes of lanesIn(block)) {
      if (lane >= 0 && lane < heightOfSpans(lanes)) return { marker: spanAt(lanes, lane, timeAt(x), near) };
      lane -= heightOfSpans(lanes);
    }
    return { marker: -1 };
  };
  let start = -1;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    start = event.clientX;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (start >= 0 && Math.abs(event.clientX - start) >= 3) {
      const left = canvas.getBoundingClientRect().left;
      dragged = rangeOf(timeAt(start - left), timeAt(event.clientX - left));
      showRange();
      drawTimeline();
      return;
    }
    const { box, marker } = foundAt(event);
    const isSpan = marker >= 0 && profile.markers.kind[marker] > 0;
    canvas.title = box ? profile.names[box.func] : marker >= 0 ? markerInWords(marker) : "";
    if (marker >= 0) hint(isSpan ? spanInWords(marker) : `Marker ${markerInWords(marker)}`);
    if (!box) return;
    const { ownOf, totalOf } = sums();
    const what = inWords(box.func, ownOf[box.func], totalOf[box.func], variancesOfFunction(box.func));
    hint(`${clock(timeAt(box.from), 1000)} to ${clock(timeAt(box.to), 1000)}: ${profile.names[box.func]}; in all that is selected ${what}`);
  });
  canvas.addEventListener("pointerup", (event) => {
    const range = dragged;
    [dragged, start] = [null, -1];
    if (range && range.to > range.from) return change({ range });
    const { box, marker } = foundAt(event);
    if (box) choose(box.func);
    if (marker < 0) return;
    if (profile.markers.kind[marker] > 0) chooseInside(marker);
    else chooseTimeOf(marker);
  });
  canvas.addEventListener("pointercancel", () => ([dragged, start] = [null, -1]));
  area.addEventListener("keydown", (event) => {
    if (functionKey(state.func, event)) event.preventDefault();
  });
  area.addEventListener("scroll", draw);
  return { element, shown: drawnBySize(area, draw) };
}

/** Callers that are one row. @param {number[]} funcs */
function callersInWords(funcs) {
  const names = funcs.map(shortOf);
  return `${names.length} callers: ${names[0]} \u2026 ${names[names.length - 1]}`;
}
