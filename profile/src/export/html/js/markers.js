// @ts-check
// Markers: as dots in a row of their thread, and as a table by time.

/** By thread, in the order of time: markers that are no spans. @type {Map<number, number[]> | null} */
let knownMarks = null;

/** @param {number} of @returns {number[]} */
function marksOf(of) {
  if (!knownMarks) {
    knownMarks = new Map();
    const { thread, start, kind: isSpan } = profile.markers;
    const marks = [...thread.keys()].filter((at) => isSpan[at] === 0).sort((a, b) => start[a] - start[b]);
    for (const at of marks) {
      const known = knownMarks.get(thread[at]);
      if (known) known.push(at);
      else knownMarks.set(thread[at], [at]);
    }
  }
  return knownMarks.get(of) ?? [];
}

/**
 * Draws the markers of a thread.
 * @param {CanvasRenderingContext2D} context @param {number} of @param {number} top @param {number} width @param {TimeSpan} span
 */
function drawMarks(context, of, top, width, { from, to }) {
  const { start, duration: lengths } = profile.markers;
  context.fillStyle = cssColor("--marker");
  // One dot a pixel.
  let last = -1;
  for (const at of marksOf(of)) {
    const x = Math.round(((start[at] - from) / (to - from)) * width);
    const wide = (lengths[at] / (to - from)) * width;
    if (x + wide < 0 || x > width || (wide < 1 && last === x)) continue;
    last = x;
    context.fillRect(x - 1, top, Math.max(2, wide), 3);
  }
}

/** The marker of a thread at a time, the last one of several, or -1. @param {number} of @param {number} time @param {number} near */
function markAt(of, time, near) {
  const { start, duration: lengths } = profile.markers;
  return marksOf(of).reduce((found, at) => (start[at] <= time + near && start[at] + lengths[at] >= time - near ? at : found), -1);
}

/** @returns {{element: HTMLElement, shown: () => void}} */
function markersTab() {
  const { names, texts, leftOut, thread, name, start, duration: lengths, text } = profile.markers;
  const { range, threads } = state;
  const { test } = search();
  /** @param {number} at */
  const isShown = (at) =>
    (!threads || threads.has(thread[at])) &&
    (!range || (start[at] < range.to && start[at] + lengths[at] >= range.from)) &&
    (!state.query || test(names[name[at]]) || test(texts[text[at]]));
  const rows = [...thread.keys()].filter(isShown).sort((a, b) => start[a] - start[b] || a - b);
  const list = rowList({
    label: "Markers",
    className: "markers",
    heads: ["Time", "Duration", "Thread", "Name", "Fields"],
    cells: (row) => {
      const at = rows[row];
      return [
        clock(start[at], 1),
        lengths[at] > 0 ? duration(lengths[at] * 1000) : "",
        profile.threads[thread[at]]?.name ?? "",
        found(names[name[at]]),
        found(texts[text[at]]),
      ];
    },
    activate: (row) => hint(markerInWords(rows[row])),
    open: (row) => chooseTimeOf(rows[row]),
  });
  const left = leftOut > 0 ? `; ${grouped(leftOut)} shorter ones are not in the page` : "";
  const spans = spanNames();
  const choice = make("select", { id: "inside" }, make("option", { value: "" }, "any time"), ...spans.map(([of, number]) => make("option", { value: of, selected: of === state.inside }, `${of} (${grouped(number)})`)));
  choice.addEventListener("change", () => change({ inside: /** @type {HTMLSelectElement} */ (choice).value }));
  const legend = make("p", { class: "legend" }, count(rows.length, "marker", "markers") + left);
  const none = state.query ? `No marker matches ${state.query}.` : "There are no markers here.";
  return {
    element: make("div", { class: "markers-view" }, make("div", { class: "bar" }, legend, spans.length > 0 && make("label", {}, "Only inside", choice)), rows.length > 0 ? list.element : make("p", { class: "empty" }, none)),
    shown: () => list.update(rows.length),
  };
}

/** Selects the time that a marker lasts. @param {number} at */
function chooseTimeOf(at) {
  const { start, duration: lengths } = profile.markers;
  if (lengths[at] > 0) change({ range: { from: start[at], to: start[at] + lengths[at] } });
}

/** A text in which what the search finds is marked. @param {string} text */
function found(text) {
  const element = make("span", { title: text });
  const { pattern } = search();
  let at = 0;
  for (const { 0: part, index } of pattern ? text.matchAll(new RegExp(pattern, "gi")) : []) {
    if (part) element.append(text.slice(at, index), make("mark", {}, part));
    at = index + part.length;
  }
  element.append(text.slice(at));
  return element;
}

/** @param {number} at */
function markerInWords(at) {
  const { names, texts, name, duration: lengths, text } = profile.markers;
  const parts = [names[name[at]], lengths[at] > 0 && duration(lengths[at] * 1000), texts[text[at]]];
  return parts.filter((part) => part).join(", ");
}
