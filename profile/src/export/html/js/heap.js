// @ts-check
// Sampled blocks of memory as samples of a measure, by the rules of view/heap/measure.rs.

/** @typedef {"allocated" | "retained" | "peak" | "temporary" | "blocks"} Measure */
/**
 * @typedef {object} Blocks What a thread took. Times are ns since the start.
 * @property {number} thread
 * @property {number} end Of its process.
 * @property {Float64Array} time
 * @property {Float64Array} freed Infinity: never.
 * @property {Float64Array} stack
 * @property {Float64Array} weight Bytes that the block stands for.
 * @property {Float64Array} chance To be a sample; NaN if it is not known.
 */

/** What a measure counts. @type {Record<Measure, string>} */
const MEASURES = {
  allocated: "Bytes that were taken in the time",
  retained: "Bytes that were taken in the time and not freed by its end",
  peak: "Bytes of the blocks that lived when those of the time were most",
  temporary: "Bytes that were taken in the time and freed within 1 ms",
  blocks: "Blocks that were taken in the time",
};

/**
 * The samples of a kind; of a measure, those of the range and the threads. They may have others, too.
 * @param {Profile} profile @param {Kind} kind @param {TimeSpan | null} range @param {Set<number> | null} threads
 * @returns {Samples[]}
 */
function samplesOf(profile, kind, range, threads) {
  return kind.measure && (range || threads) ? measured(profile.heap, kind.measure, range, threads) : kind.threads;
}

/**
 * Calls `each` with the blocks that are taken in the range by the threads.
 * @param {Blocks[]} heap @param {TimeSpan | null} range @param {Set<number> | null} threads @param {(of: Blocks, row: number) => void} each
 */
function eachBlock(heap, range, threads, each) {
  const [from, to] = nsOf(range);
  for (const of of heap) {
    if (threads && !threads.has(of.thread)) continue;
    for (let row = 0; row < of.time.length; row++) if (of.time[row] >= from && of.time[row] < to) each(of, row);
  }
}

/** @param {TimeSpan | null} range */
const nsOf = (range) => (range ? [range.from * 1000, range.to * 1000] : [-Infinity, Infinity]);

let knownPeak = { of: "", at: NaN };

/** When the selected blocks that live are most, ns. @param {Blocks[]} heap @param {TimeSpan | null} range @param {Set<number> | null} threads */
function peakOf(heap, range, threads) {
  const key = JSON.stringify([range, threads && [...threads]]);
  if (knownPeak.of === key) return knownPeak.at;
  const to = nsOf(range)[1];
  /** @type {[number, number][]} */
  const changes = [];
  eachBlock(heap, range, threads, ({ time, freed, weight, end }, row) => {
    changes.push([time[row], weight[row]]);
    const until = Math.min(freed[row] < to ? freed[row] : Infinity, end);
    if (until < Infinity) changes.push([until, -weight[row]]);
  });
  changes.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let [sum, most, at] = [0, -Infinity, NaN];
  for (const [time, change] of changes) {
    sum += change;
    if (sum > most) [most, at] = [sum, time];
  }
  knownPeak = { of: key, at };
  return at;
}

/**
 * @param {Blocks[]} heap @param {Measure} measure @param {TimeSpan | null} range @param {Set<number> | null} threads
 * @returns {Samples[]}
 */
function measured(heap, measure, range, threads) {
  const to = nsOf(range)[1];
  const peak = measure === "peak" ? peakOf(heap, range, threads) : NaN;
  /** @type {Map<Blocks, number[]>} */
  const kept = new Map();
  eachBlock(heap, range, threads, (of, row) => {
    const [time, freed] = [of.time[row], of.freed[row]];
    if (measure === "retained" && freed < to) return;
    if (measure === "peak" && !(time <= peak && Math.min(freed, of.end) > peak)) return;
    // In ms, as files have the times.
    if (measure === "temporary" && !(freed / 1e6 - time / 1e6 < 1)) return;
    const rows = kept.get(of);
    if (rows) rows.push(row);
    else kept.set(of, [row]);
  });
  return [...kept].map(([of, rows]) => {
    const column = (/** @type {(row: number) => number} */ value) => Float64Array.from(rows, value);
    // A block of no bytes stands for itself.
    const blocks = column((row) => 1 / (of.chance[row] || 1));
    const isBytes = measure !== "blocks";
    const weight = isBytes ? column((row) => of.weight[row]) : blocks;
    return {
      thread: of.thread,
      time: column((row) => Math.floor(of.time[row] / 1000)),
      stack: column((row) => of.stack[row]),
      weight,
      each: 0,
      count: null,
      // Where the chance is not known, the block counts as a rare one.
      variance: weight.map((w, at) => (isBytes ? w * w * (1 - (of.chance[rows[at]] || 0)) : w * (w - 1))),
      sorted: true,
    };
  });
}

/** @param {Blocks[]} heap @param {Measure} measure @returns {Kind} */
function kindOfMeasure(heap, measure) {
  const threads = measured(heap, measure, null, null);
  return {
    name: "Heap: " + measure,
    waits: false,
    unit: measure === "blocks" ? "count" : "bytes",
    unitName: measure === "blocks" ? "blocks" : null,
    intervalNs: null,
    samples: threads.reduce((sum, of) => sum + of.time.length, 0),
    rowsAre: "one",
    hasTimes: true,
    unusable: 0,
    threads,
    totals: null,
    arcs: null,
    measure,
  };
}
