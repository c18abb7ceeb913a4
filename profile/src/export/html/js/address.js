// @ts-check
// What is chosen, in the page's address: Back, a reload and a copied link show the same.

/** Browsers refuse many changes of the address within seconds, and arrow keys make many. */
const ADDRESS_MS = 150;
/** Of parts of a width. */
const PART_DIGITS = 9;
/** Changes that Back takes back. @type {(keyof State)[]} */
const STEPS = ["kind", "range", "view", "threads", "inside", "hidden", "focus", "dropped", "code", "tab", "zoom", "whole", "assembly"];

let addressTimer = 0;
let isStep = false;

/** Functions and threads are numbers in an address. The same numbers mean others in another profile. */
function numbersOf() {
  const { names, threads, stackNode } = profile;
  const each = Math.ceil(names.length / 1000);
  const some = names.filter((_, func) => func % each === 0);
  return hashOf([names.length, threads.length, stackNode.length, ...some].join("\n")).toString(36);
}

/** `1,4-6`: a group may have a thousand threads. @param {number[]} numbers */
function runsOf(numbers) {
  /** @type {[number, number][]} */
  const runs = [];
  for (const number of numbers.sort((a, b) => a - b)) {
    const last = runs[runs.length - 1];
    if (last && last[1] + 1 === number) last[1] = number;
    else runs.push([number, number]);
  }
  return runs.map(([from, to]) => (from === to ? from : `${from}-${to}`)).join();
}

/** The state as the fragment of an address; what is as at the start is left out. */
function addressOf() {
  const { range, view, threads, inside, hidden, focus, dropped, code, func, query, tab, sort, zoom, part, whole, assembly, rowFilter, byStart } = state;
  const said = new URLSearchParams();
  const time = (/** @type {TimeSpan} */ span) => `${span.from}-${span.to}`;
  if (tab !== TABS[0].id) said.set("tab", tab);
  if (state.kind > 0) said.set("count", String(state.kind));
  if (range) said.set("time", time(range));
  if (view.from > 0 || view.to < profile.endUs) said.set("view", time(view));
  if (threads) said.set("threads", runsOf([...threads]));
  if (focus.length > 0) said.set("focus", focus.join());
  if (code >= 0) said.set("code", String(code));
  if (hidden.length > 0) said.set("hide", hidden.join());
  if (dropped.length > 0) said.set("drop", dropped.join());
  if (zoom.length > 0) said.set("zoom", zoom.join());
  if (part) said.set("part", `${part.from.toFixed(PART_DIGITS)}-${part.to.toFixed(PART_DIGITS)}`);
  if (func >= 0) said.set("function", String(func));
  if (inside) said.set("inside", inside);
  if (query) said.set("search", query);
  if (sort.column !== "own" || !sort.down) said.set("sort", sort.column + (sort.down ? "" : "-up"));
  if (whole) said.set("whole", "");
  if (assembly) said.set("assembly", "");
  if (rowFilter) said.set("rows", rowFilter);
  if (byStart) said.set("order", "start");
  const address = said.toString();
  return address && `${address}&of=${numbersOf()}`;
}

/** The state that an address names. @returns {Partial<State>} */
function stateOfAddress() {
  const address = new URLSearchParams(location.hash.slice(1));
  const said = address.get("of") === numbersOf() ? address : new URLSearchParams();
  /** Whole numbers below a limit. @param {string} key @param {number} limit */
  const numbers = (key, limit) => (said.get(key) ?? "").split(",").filter((text) => /^\d+$/.test(text)).map(Number).filter((at) => at < limit);
  /** @param {string} key @returns {TimeSpan | null} */
  const time = (key) => {
    const [from, to] = (/^(\d+)-(\d+)$/.exec(said.get(key) ?? "") ?? []).slice(1).map(Number);
    return from < to && from < profile.endUs ? { from, to } : null;
  };
  const [partFrom, partTo] = (/^([01]\.\d+)-([01]\.\d+)$/.exec(said.get("part") ?? "") ?? []).slice(1).map(Number);
  const funcs = profile.names.length;
  const threads = (said.get("threads") ?? "").split(",").flatMap((run) => {
    const [from, to = from] = /^\d+(-\d+)?$/.test(run) ? run.split("-").map(Number) : [1, 0];
    return [...profile.threads.keys()].slice(from, to + 1);
  });
  const [column, up] = (said.get("sort") ?? "own").split("-");
  return {
    kind: numbers("count", profile.kinds.length)[0] ?? 0,
    range: time("time"),
    view: time("view") ?? { from: 0, to: profile.endUs },
    threads: threads.length > 0 ? new Set(threads) : null,
    hidden: numbers("hide", funcs),
    focus: numbers("focus", funcs),
    dropped: numbers("drop", funcs),
    code: numbers("code", profile.codes.length)[0] ?? -1,
    zoom: numbers("zoom", funcs),
    part: partFrom < partTo && partTo <= 1 ? { from: partFrom, to: partTo } : null,
    func: numbers("function", funcs)[0] ?? -1,
    query: said.get("search") ?? "",
    inside: spanNames().find(([name]) => name === said.get("inside"))?.[0] ?? "",
    tab: (TABS.find(({ id }) => id === said.get("tab")) ?? TABS[0]).id,
    sort: { column: column === "total" || column === "name" ? column : "own", down: up !== "up" },
    whole: said.has("whole"),
    assembly: said.has("assembly"),
    rowFilter: said.get("rows") ?? "",
    byStart: said.get("order") === "start",
  };
}

/** Notes a change, for the address. @param {(keyof State)[]} changed */
function noteAddress(changed) {
  isStep ||= changed.some((key) => STEPS.includes(key));
  clearTimeout(addressTimer);
  addressTimer = setTimeout(() => {
    const address = "#" + addressOf();
    if (address !== (location.hash || "#")) history[isStep ? "pushState" : "replaceState"](null, "", address);
    isStep = false;
  }, ADDRESS_MS);
}

/** Shows what the address names. */
function showAddress() {
  const named = stateOfAddress();
  /** @type {HTMLInputElement} */ (byId("search")).value = named.query ?? "";
  /** @type {HTMLSelectElement} */ (byId("kind")).value = String(named.kind);
  change(named);
  clearTimeout(addressTimer);
  isStep = false;
  if (location.hash && addressOf() === "") hint("The address names parts of another profile. All of this one is shown.");
}
