// @ts-check
// Jumps inside a function, as lines left of its instructions.

/** Rows of instructions. Without room for a line, the lane is -1. @typedef {{from: number, to: number, lane: number, isHot: boolean}} Jump */

const LANES = 7;
const LANE_PX = 6;
/** From the first line to the instructions. */
const ARROW_PX = 10;

/** @param {Jump[]} jumps */
const widthOf = (jumps) => jumps.reduce((most, { lane }) => Math.max(most, lane), 4) * LANE_PX + LANE_PX + ARROW_PX;

/**
 * The jumps, short ones next to the instructions. The hottest loop is the shortest one around the hottest instruction.
 * @param {string[]} texts Of instructions: `L2: jne 0x1140 -> L1`.
 * @param {ArrayLike<number>} own
 * @returns {Jump[]}
 */
function jumpsOf(texts, own) {
  /** @type {Map<string, number>} */
  const labels = new Map();
  texts.forEach((text, row) => {
    const label = /^(L\d+):/.exec(text)?.[1];
    if (label) labels.set(label, row);
  });
  /** @type {Jump[]} */
  const jumps = [];
  texts.forEach((text, from) => {
    const to = labels.get(/-> (L\d+)$/.exec(text)?.[1] ?? "");
    if (to !== undefined) jumps.push({ from, to, lane: -1, isHot: false });
  });
  const length = (/** @type {Jump} */ { from, to }) => Math.abs(from - to);
  jumps.sort((a, b) => length(a) - length(b) || a.from - b.from);
  let hottest = 0;
  for (let row = 1; row < own.length; row++) if (own[row] > own[hottest]) hottest = row;
  const loop = jumps.find(({ from, to }) => own[hottest] > 0 && to <= hottest && hottest <= from);
  if (loop) loop.isHot = true;
  const taken = Array.from({ length: LANES }, () => new Uint8Array(texts.length));
  for (const jump of jumps) {
    const [first, last] = [Math.min(jump.from, jump.to), Math.max(jump.from, jump.to)];
    jump.lane = taken.findIndex((lane) => !lane.subarray(first, last + 1).includes(1));
    if (jump.lane >= 0) taken[jump.lane].fill(1, first, last + 1);
    else if (jump.isHot) jump.lane = LANES;
  }
  return jumps;
}

/**
 * The part of the lines beside one row.
 * @param {Jump[]} jumps @param {number} width @param {number} row @param {number} chosen The current row.
 */
function jumpsCell(jumps, width, row, chosen) {
  const name = (/** @type {string} */ tag) => document.createElementNS("http://www.w3.org/2000/svg", tag);
  const svg = name("svg");
  for (const [key, value] of Object.entries({ width, height: ROW_PX, "aria-hidden": true })) svg.setAttribute(key, String(value));
  const middle = ROW_PX / 2;
  for (const { from, to, lane, isHot } of jumps) {
    const [first, last] = [Math.min(from, to), Math.max(from, to)];
    const isEnd = row === from || row === to;
    if (row < first || row > last || (lane < 0 && !isEnd)) continue;
    const x = width - ARROW_PX - LANE_PX * Math.max(0, lane);
    let line = "";
    if (lane >= 0 && first < last) line += `M${x} ${row === first ? middle : 0}V${row === last ? middle : ROW_PX}`;
    if (isEnd) line += `M${x} ${middle}H${width - 2}`;
    if (row === to) line += `m-4 -3.5l4 3.5l-4 3.5`;
    const path = name("path");
    path.setAttribute("d", line);
    path.setAttribute("class", `jump${isHot ? " jump-hot" : ""}${chosen === from || chosen === to ? " jump-chosen" : ""}`);
    // What is chosen, and the hottest loop, lie above the others.
    if (isHot || chosen === from || chosen === to) svg.append(path);
    else svg.prepend(path);
  }
  return /** @type {any} */ (svg);
}
