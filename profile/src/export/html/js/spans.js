// @ts-check
// Spans: sections that the program marked, as nested boxes below their threads; and the samples inside of them.

const SPAN_PX = 15;
/** Rows of nested spans of a thread at most. */
const MOST_LEVELS = 12;
/** Narrowest box with a name. */
const NAMED_PX = 28;

/** @typedef {{levels: number[][], all: number, count: number}} SpanLanes Numbers of markers by row; `all` rows there are. Spans of a row do not overlap. */

/** By thread: spans, and async spans. @type {Map<number, [SpanLanes, SpanLanes]> | null} */
let knownLanes = null;
/** The kinds with samples inside of spans alone, for a name. @type {{inside: string, kinds: Kind[]}} */
let knownInside = { inside: "", kinds: [] };

/** The spans of a thread: nested ones, and async ones, which may overlap. @param {number} of */
function lanesOf(of) {
  if (knownLanes) return knownLanes.get(of);
  knownLanes = new Map();
  const { thread, start, duration: lengths, kind: kinds } = profile.markers;
  /** @type {Map<number, [number[], number[]]>} */
  const found = new Map();
  kinds.forEach((kind, at) => {
    if (kind === 0) return;
    let both = found.get(thread[at]);
    if (!both) found.set(thread[at], (both = [[], []]));
    both[kind - 1].push(at);
  });
  for (const [at, both] of found) {
    const [nested, async] = both.map((spans) => {
      // The outer one first.
      spans.sort((a, b) => start[a] - start[b] || lengths[b] - lengths[a] || a - b);
      /** @type {number[]} */
      const ends = [];
      /** @type {number[][]} */
      const levels = [];
      let all = 0;
      for (const span of spans) {
        // A nested span is below all that are open, an async one in the first free row.
        if (both[0] === spans) while (ends.length > 0 && ends[ends.length - 1] <= start[span]) ends.pop();
        const free = both[0] === spans ? -1 : ends.findIndex((end) => end <= start[span]);
        const level = free < 0 ? ends.length : free;
        ends[level] = start[span] + lengths[span];
        all = Math.max(all, level + 1);
        if (level < MOST_LEVELS) (levels[level] ??= []).push(span);
      }
      return { levels, all, count: spans.length };
    });
    knownLanes.set(at, [nested, async]);
  }
  return knownLanes.get(of);
}

/** The height of spans in a row. @param {SpanLanes} lanes */
const heightOfSpans = (lanes) => lanes.levels.length * SPAN_PX + 3;

/** Rows of the timeline for the spans of a thread. @param {number} thread @returns {TimeRow[]} */
function spanRows(thread) {
  const lanes = lanesOf(thread) ?? [];
  return lanes.filter(({ count: number }) => number > 0).map((of) => {
    const label = of === lanes[1] ? "async spans" : "spans";
    const more = of.all > MOST_LEVELS ? `, ${MOST_LEVELS} of ${of.all} rows` : "";
    return timeRow({ type: "spans", height: heightOfSpans(of), thread, lanes: of, label, detail: grouped(of.count) + more });
  });
}

/** The kinds, with the samples that are chosen. */
function kinds() {
  const { inside } = state;
  if (!inside) return profile.kinds;
  if (knownInside.inside === inside) return knownInside.kinds;
  const { names, thread, name, start, duration: lengths, kind: isSpan } = profile.markers;
  /** Starts and ends of joined spans, by thread. @type {Map<number, [number[], number[]]>} */
  const times = new Map();
  const order = [...thread.keys()].filter((at) => isSpan[at] > 0 && names[name[at]] === inside).sort((a, b) => start[a] - start[b]);
  for (const at of order) {
    let of = times.get(thread[at]);
    if (!of) times.set(thread[at], (of = [[], []]));
    const [starts, ends] = of;
    const [from, to] = [start[at], start[at] + lengths[at]];
    if (starts.length > 0 && from <= ends[ends.length - 1]) ends[ends.length - 1] = Math.max(to, ends[ends.length - 1]);
    else {
      starts.push(from);
      ends.push(to);
    }
  }
  /** @param {Samples} samples @returns {Samples} */
  const insideOf = (samples) => {
    const [starts, ends] = times.get(samples.thread) ?? [[], []];
    const from = Float64Array.from(starts);
    const isInside = samples.time.map((time) => {
      const before = firstAt(from, time + 0.5) - 1;
      return before >= 0 && time <= ends[before] ? 1 : 0;
    });
    /** @template {Float64Array | null | undefined} T @param {T} values @returns {T} */
    const kept = (values) => /** @type {T} */ (values && values.filter((_, row) => isInside[row] === 1));
    const { time, stack, weight, count: number, variance } = samples;
    return { ...samples, time: kept(time), stack: kept(stack), weight: kept(weight), count: kept(number), variance: kept(variance) };
  };
  // Blocks of memory are chosen by their lives.
  const chosen = profile.kinds.map((of) => (of.measure ? of : { ...of, threads: of.threads.map(insideOf) }));
  knownInside = { inside, kinds: chosen };
  return chosen;
}

/** Names of spans, the most frequent first, with their numbers. @returns {[string, number][]} */
function spanNames() {
  const { names, name, kind: isSpan } = profile.markers;
  /** @type {Map<string, number>} */
  const counts = new Map();
  isSpan.forEach((kind, at) => kind > 0 && counts.set(names[name[at]], (counts.get(names[name[at]]) ?? 0) + 1));
  return [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
}

/**
 * Draws the spans of a row.
 * @param {CanvasRenderingContext2D} context @param {SpanLanes} lanes @param {number} top @param {number} width @param {TimeSpan} span
 */
function drawSpans(context, lanes, top, width, { from, to }) {
  const { names, texts, name, start, duration: lengths, text } = profile.markers;
  const scale = width / (to - from);
  const { test } = search();
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  lanes.levels.forEach((spans, level) => {
    const y = top + 1 + level * SPAN_PX;
    let drawnTo = -1;
    for (let row = firstEnding(spans, from); row < spans.length && start[spans[row]] <= to; row++) {
      const at = spans[row];
      const left = Math.max(0, (start[at] - from) * scale);
      const right = Math.min(width, (start[at] + lengths[at] - from) * scale);
      // Of many in one pixel the first is drawn.
      if (right <= drawnTo) continue;
      const x = Math.max(left, drawnTo);
      const wide = Math.max(1, right - x);
      drawnTo = Math.max(right, Math.floor(x) + 1);
      const of = names[name[at]];
      const isFound = state.query !== "" && (test(of) || test(texts[text[at]]));
      context.globalAlpha = state.inside && state.inside !== of ? 0.35 : 1;
      context.fillStyle = isFound ? cssColor("--found") : spanColor(of);
      context.fillRect(x, y, wide > 3 ? wide - 0.5 : wide, SPAN_PX - 1);
      if (wide < NAMED_PX) continue;
      context.save();
      context.beginPath();
      context.rect(x, y, wide - 2, SPAN_PX - 1);
      context.clip();
      context.globalAlpha = 1;
      context.fillStyle = cssColor(state.inside && state.inside !== of ? "--on-dim" : "--on-frame");
      context.fillText(of, x + 3, y + SPAN_PX / 2);
      context.restore();
    }
  });
  context.globalAlpha = 1;
}

/** The first of these spans that ends at a time or later. @param {number[]} spans @param {number} time */
function firstEnding(spans, time) {
  const { start, duration: lengths } = profile.markers;
  let [low, high] = [0, spans.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (start[spans[middle]] + lengths[spans[middle]] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** @param {string} name */
const spanColor = (name) => `hsl(${hashOf(name) % 360} 55% 68%)`;

/** The span at a place of a row, or -1. @param {SpanLanes} lanes @param {number} y From the row's top. @param {number} time @param {number} near */
function spanAt(lanes, y, time, near) {
  const { start, duration: lengths } = profile.markers;
  const spans = lanes.levels[Math.floor((y - 1) / SPAN_PX)] ?? [];
  const row = firstEnding(spans, time - near);
  const at = spans[row];
  return at !== undefined && start[at] <= time + near && start[at] + lengths[at] >= time - near ? at : -1;
}

/** Chooses the samples inside of spans with the name of this one, or all again. @param {number} span */
function chooseInside(span) {
  const name = profile.markers.names[profile.markers.name[span]];
  change({ inside: state.inside === name ? "" : name });
}

/** @param {number} span */
const spanInWords = (span) => `${markerInWords(span)}; click: only what threads did inside of such spans`;
