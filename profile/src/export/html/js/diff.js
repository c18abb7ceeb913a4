// @ts-check
// Two sides: each is a kind of its own, on one tree. Shares are of a side's selected samples; how sure a change is comes with the data.

/** @typedef {{least: number, chance: number, nodes: VerdictRow[], own: VerdictRow[], total: VerdictRow[]}} Diff */
/** @typedef {[number, number, number, 0 | 1 | 2]} VerdictRow A node or function, and its [`Sure`]. Others have no change of `least` or more. */
/** @typedef {{low: number, high: number, verdict: 0 | 1 | 2}} Sure The 95 % range of a change of the share, and OF_SHARE, CHANGED or UNDECIDED. */

const AFTER = 0;
const BEFORE = 1;
/** The share changed, the time not surely. */
const OF_SHARE = 0;
/** Share and time changed. */
const CHANGED = 1;
/** It may be chance: the recordings cannot tell. */
const UNDECIDED = 2;
/** Of these sums of one side. @type {{of: Sums, both: [Sums, Sums]} | null} */
let knownSides = null;

/** The sums after and before. */
function sides() {
  const of = sums();
  if (knownSides?.of !== of) {
    const other = sumsOf(profile, { ...state, kind: profile.kinds[state.kind === AFTER ? BEFORE : AFTER] });
    knownSides = { of, both: state.kind === AFTER ? [of, other] : [other, of] };
  }
  return knownSides.both;
}

const surely = (() => {
  const { nodes, own, total } = profile.diff ?? { nodes: [], own: [], total: [] };
  /** @param {VerdictRow[]} rows @returns {Map<number, Sure>} */
  const map = (rows) => new Map(rows.map(([of, low, high, verdict]) => [of, { low, high, verdict }]));
  return { nodes: map(nodes), own: map(own), total: map(total) };
})();

/** Chance is known for all samples, not for a selection of them. */
function isTested() {
  return state.hidden.length + state.focus.length + state.dropped.length === 0;
}

/** @param {Sums} of @param {number} weight */
function shareOf(of, weight) {
  return of.weight > 0 ? weight / of.weight : 0;
}

/** A change of the share in points. @param {number} change */
function points(change) {
  const text = Math.abs(100 * change).toFixed(2);
  return (text === "0.00" ? "" : change < 0 ? "\u2212" : "+") + text;
}

/** How sure a change is, in words, and where chance puts it. @param {number} change @param {Sure | undefined} sure */
function sureInWords(change, sure) {
  if (!isTested()) return `${points(change)} points`;
  const how = ["the share changed for sure, the time maybe not", "changed for sure", "may be chance"];
  const no = `no change of ${percent(profile.diff?.least ?? 0, 1)} or more`;
  const range = sure ? `, with 95 % confidence ${points(sure.low)} to ${points(sure.high)}` : "";
  return `${sure ? how[sure.verdict] : no}: ${points(change)} points${range}`;
}

/** A change; in brackets where it may be chance. @param {number} change @param {Sure | undefined} sure */
function changeCell(change, sure) {
  const isSmall = isTested() ? sure?.verdict !== CHANGED : Math.abs(change) < (profile.diff?.least ?? 0);
  const isUndecided = isTested() && sure?.verdict === UNDECIDED;
  const title = sureInWords(change, sure);
  return make("span", { class: isSmall ? "same" : change > 0 ? "more" : "less", title }, isUndecided ? `(${points(change)})` : points(change));
}

/** What changed of a part, in words. @param {number} after @param {number} before @param {Sure | undefined} sure */
function changeInWords(after, before, sure) {
  const how = after === 0 ? "gone: " : before === 0 ? "new: " : "";
  return `${how}${percent(after, 1)}, was ${percent(before, 1)}; ${sureInWords(after - before, sure)}`;
}

/** A function or call path in words. @param {string} name @param {number} node @param {number} func */
function diffInWords(name, node, func) {
  const [after, before] = sides();
  const of = (/** @type {Sums} */ side) => (node >= 0 ? side.total[node] : side.totalOf[func]);
  const sure = node >= 0 ? surely.nodes.get(node) : surely.total.get(func);
  return `${changeInWords(shareOf(after, of(after)), shareOf(before, of(before)), sure)}: ${name}`;
}

/** As in the flame graph of `sprof diff`: see of_change in color.rs. @param {number} node @param {boolean} inlined */
function changeColor(node, inlined) {
  const [after, before] = sides();
  const [is, was] = [shareOf(after, after.total[node]), shareOf(before, before.total[node])];
  const least = profile.diff?.least ?? 0;
  const sure = isTested() ? surely.nodes.get(node) : Math.abs(is - was) >= least ? { verdict: CHANGED } : undefined;
  const strength = sure?.verdict === CHANGED ? Math.min(1, 0.3 + 0.7 * Math.abs(Math.log2(is / was))) : 0;
  const light = inlined ? 4 : 0;
  if (sure?.verdict === UNDECIDED && node !== 0) return `hsl(52 75% ${84 + light}%)`;
  if (!sure || node === 0 || is === was) return `hsl(40 8% ${84 + light}%)`;
  return is > was ? `hsl(6 90% ${86 - 24 * strength + light}%)` : `hsl(212 85% ${86 - 22 * strength + light}%)`;
}

/** @returns {[string, string][]} Colours and words. */
function changeLegend() {
  const chance = isTested() ? "no change" : "a small change; chance is not tested in a selection";
  /** @type {[string, string][]} */
  const undecided = isTested() ? [["hsl(52 75% 84%)", "may be chance"]] : [];
  return [
    ["hsl(6 90% 69%)", "grew for sure"],
    ["hsl(212 85% 71%)", "shrank for sure"],
    ["hsl(6 90% 86%)", "larger share, maybe no more time"],
    ["hsl(212 85% 86%)", "smaller share, maybe no less time"],
    ["hsl(40 8% 84%)", chance],
    ...undecided,
  ];
}

/** Functions of both sides, by the size of the change. */
function changesTab() {
  const [after, before] = sides();
  const { isMatch } = search();
  const { sort } = state;
  const funcs = [...profile.names.keys()].filter((func) => after.totalOf[func] > 0 || before.totalOf[func] > 0);
  const change = (/** @type {"ownOf" | "totalOf"} */ of, /** @type {number} */ func) =>
    shareOf(after, after[of][func]) - shareOf(before, before[of][func]);
  const sign = sort.down ? -1 : 1;
  const size = (/** @type {number} */ func) => Math.abs(change(sort.column === "total" ? "totalOf" : "ownOf", func));
  const byName = (/** @type {number} */ a, /** @type {number} */ b) => profile.byName[a] - profile.byName[b];
  const rows = state.query ? funcs.filter(isMatch) : funcs;
  rows.sort((a, b) => (sort.column === "name" ? -sign * byName(a, b) : sign * (size(a) - size(b)) || byName(a, b)));
  const list = rowList({
    label: "Functions and their changes",
    className: "changes",
    heads: ["Self", "was", sorter("own", "Change"), "Total", "was", sorter("total", "Change"), sorter("name", "Function"), "Place"],
    cells: (row) => {
      const func = rows[row];
      const place = placeOf(func);
      return [
        percent(after.ownOf[func], after.weight),
        percent(before.ownOf[func], before.weight),
        changeCell(change("ownOf", func), surely.own.get(func)),
        percent(after.totalOf[func], after.weight),
        percent(before.totalOf[func], before.weight),
        changeCell(change("totalOf", func), surely.total.get(func)),
        nameCell(func),
        make("span", { class: "place", title: place }, place),
      ];
    },
    mark: (row, element) => {
      const func = rows[row];
      element.dataset.sides = JSON.stringify([after, before].flatMap((side) => [shareOf(side, side.ownOf[func]), shareOf(side, side.totalOf[func])]));
      element.dataset.sure = JSON.stringify([surely.own.get(func)?.verdict === CHANGED, surely.total.get(func)?.verdict === CHANGED]);
    },
    open: (row) => focusOn(rows[row]),
    activate: (row) => choose(rows[row]),
    key: (row, event) => functionKey(rows[row], event) || sortKey(event),
  });
  const chance = isTested()
    ? `In colour: changed for sure; at most ${percent(profile.diff?.chance ?? 0, 1)} of these are chance after all. In brackets: may be chance, or a share that only changed because that of others did; more recordings can tell. Grey: no change of ${percent(profile.diff?.least ?? 0, 1)} or more.`
    : "Chance is not tested in a selection.";
  const legend = make("p", { class: "legend" }, `Shares after and before; changes in points. ${chance}`);
  return {
    element: rows.length === 0 ? nothingFound() : make("div", { class: "source-view" }, make("div", { class: "bar" }, legend), list.element),
    shown: () => list.update(rows.length, chosenRow(rows, funcs)),
  };
}
