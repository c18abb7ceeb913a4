// @ts-check
// Markers as a table, by time.

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
    open: (row) => {
      const [from, length] = [start[rows[row]], lengths[rows[row]]];
      if (length > 0) change({ range: { from, to: from + length } });
    },
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

/** A text, marked if the search finds it. @param {string} text */
function found(text) {
  return make(state.query && search().test(text) ? "mark" : "span", { title: text }, text);
}

/** @param {number} at */
function markerInWords(at) {
  const { names, texts, name, duration: lengths, text } = profile.markers;
  const parts = [names[name[at]], lengths[at] > 0 && duration(lengths[at] * 1000), texts[text[at]]];
  return parts.filter((part) => part).join(", ");
}
