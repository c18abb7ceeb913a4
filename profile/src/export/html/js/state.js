// @ts-check
// What the user chose, and what follows from it.

/** @typedef {"functions" | "tree" | "inverted" | "flame" | "chart" | "callers" | "source" | "heat" | "markers"} TabName */
/**
 * @typedef {object} State
 * @property {number} kind
 * @property {TimeSpan | null} range
 * @property {TimeSpan} view The visible time.
 * @property {Set<number> | null} threads
 * @property {number[]} hidden
 * @property {number[]} focus
 * @property {number[]} dropped
 * @property {number} code The kind of code that ran, or -1 for all.
 * @property {number} func The chosen function, or -1.
 * @property {string} query
 * @property {string} inside A name: only what threads did inside of spans with it. Empty: all.
 * @property {TabName} tab
 * @property {{column: "own" | "total" | "name", down: boolean}} sort
 * @property {number[]} zoom The zoomed call path of the flame graph, by functions: it stays when the selection changes.
 * @property {TimeSpan | null} part The part of the zoomed frame that the flame graph shows, of its width.
 * @property {boolean} whole Graphs have all callers, each in a row of its own.
 * @property {boolean} assembly Source is shown as instructions.
 * @property {string} rowFilter The timeline has the threads and processes with this text in their names.
 * @property {boolean} byStart Their order; else the busiest are first.
 */

const buffer = /** @type {any} */ (window).sprofData;
const profile = readProfile(buffer);
delete (/** @type {any} */ (window).sprofData);

/** @type {State} */
const state = {
  kind: 0,
  range: null,
  view: { from: 0, to: profile.endUs },
  threads: null,
  hidden: [],
  focus: [],
  dropped: [],
  code: -1,
  func: -1,
  query: "",
  inside: "",
  tab: "functions",
  sort: { column: "own", down: true },
  zoom: [],
  part: null,
  whole: false,
  assembly: false,
  rowFilter: "",
  byStart: false,
};

/** @type {Sums | null} */
let knownSums = null;
/** @type {{query: string, isMatch: (func: number) => boolean, test: (text: string) => boolean, pattern: RegExp | null, error: string} | null} */
let knownSearch = null;
/** By stack, for the times of what is selected. @type {{of: string, focused: Uint8Array, codes: Uint8Array, foundOf: string, found: Uint8Array | null} | null} */
let knownStacks = null;
/** @type {((changed: (keyof State)[]) => void)[]} */
const listeners = [];

/** Changes what is chosen, and shows it. @param {Partial<State>} changes */
function change(changes) {
  const keys = /** @type {(keyof State)[]} */ (Object.keys(changes));
  Object.assign(state, changes);
  if (keys.some((key) => ["kind", "range", "threads", "hidden", "focus", "dropped", "code", "inside"].includes(key))) knownSums = null;
  for (const listener of listeners) listener(keys);
}

/** @returns {Kind | undefined} */
function kind() {
  return kinds()[state.kind];
}

/** @returns {Sums} */
function sums() {
  const of = kind() ?? NOTHING;
  knownSums ??= sumsOf(profile, { ...state, kind: of });
  return knownSums;
}

/** @type {Kind} */
const NOTHING = {
  name: "Nothing",
  waits: false,
  unit: "samples",
  unitName: null,
  intervalNs: null,
  samples: 0,
  rowsAre: "none",
  hasTimes: false,
  unusable: 0,
  threads: [],
  totals: null,
  arcs: null,
};

/** The amount of a weight: a time where it is one. @param {number} weight @param {Kind} [of] */
function amount(weight, of = kind() ?? NOTHING) {
  if (of.unit === "bytes") return bytesText(weight);
  const each = nsPerWeight(of);
  return each > 0 ? duration(weight * each) : grouped(weight);
}

/** The amount of a weight; of blocks of memory with its standard error, as in reports. @param {number} weight @param {number} variance */
function estimate(weight, variance) {
  return amount(weight) + errorOf(weight, variance);
}

/** ` +-7 %`; nothing below half a percent. @param {number} weight @param {number} variance */
function errorOf(weight, variance) {
  const error = (100 * Math.sqrt(variance)) / weight;
  return weight > 0 && error >= 0.5 ? ` \u00b1${error.toFixed(0)} %` : "";
}

/** The head of a column of amounts. */
function amountHead() {
  const of = kind() ?? NOTHING;
  return unitOf(of) + (of.measure ? " \u00b1 error" : "");
}

/** Variances of the sums of a function. @param {number} func @returns {Variances} */
function variancesOfFunction(func) {
  const { variance } = sums();
  return [variance?.ownOf[func] ?? 0, variance?.totalOf[func] ?? 0];
}

/** The time that a weight of 1 stands for, or 0 if weights are no times. @param {Kind} of */
function nsPerWeight(of) {
  return of.unit === "ns" ? 1 : of.unit === "samples" ? (of.intervalNs ?? 0) : 0;
}

/** What is counted, in a word; of events it is their name. @param {Kind} of */
function unitOf(of) {
  if (of.unit === "bytes") return "Bytes";
  if (nsPerWeight(of) > 0) return "Time";
  // A unit that says nothing.
  return of.unitName && of.unitName !== "count" ? of.unitName : of.unit === "samples" ? "samples" : of.name;
}

/** Whether amounts have a unit of their own. @param {Kind} of */
const hasUnit = (of) => nsPerWeight(of) > 0 || of.unit === "bytes";

/** An amount with what is counted, where the amount has no unit of its own. @param {number} weight */
function amountInWords(weight) {
  const of = kind() ?? NOTHING;
  return amount(weight) + (hasUnit(of) ? "" : ` ${unitOf(of)}`);
}

/**
 * The stacks that are selected; what ran in those in focus, from 2 on (1: no function); and, while there is a search,
 * the selected ones with a function that it finds. Hidden functions are not found.
 */
function selectedStacks() {
  const { focus, code, dropped, hidden, query } = state;
  const inFocus = focus.map((func) => (/** @type {number} */ other) => other === func);
  const of = JSON.stringify([focus, dropped, code]);
  if (knownStacks?.of !== of) {
    const isIn = stacksWith(profile, inFocus, { code: -1, dropped });
    const codes = codesOfStacks(profile).map((code, stack) => (isIn[stack] ? code + 1 : 0));
    knownStacks = { of, focused: stacksWith(profile, inFocus, state), codes, foundOf: "", found: null };
  }
  const foundOf = JSON.stringify([query, hidden]);
  if (knownStacks.foundOf !== foundOf) {
    const { isMatch } = search();
    const isFound = (/** @type {number} */ func) => isMatch(func) && !hidden.includes(func);
    knownStacks.foundOf = foundOf;
    knownStacks.found = query ? stacksWith(profile, [...inFocus, isFound], state) : null;
  }
  return knownStacks;
}

/** The functions that the search finds: names that contain it, in any case, or `/regular expressions/`. */
function search() {
  if (knownSearch?.query === state.query) return knownSearch;
  let error = "";
  /** @type {RegExp | null} */
  let pattern = null;
  const between = /^\/(.+?)\/?$/.exec(state.query);
  try {
    if (state.query) pattern = new RegExp(between ? between[1] : state.query.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i");
  } catch (problem) {
    error = problem instanceof Error ? problem.message : String(problem);
  }
  const test = (/** @type {string} */ name) => pattern !== null && pattern.test(name);
  const found = new Uint8Array(profile.names.length);
  profile.names.forEach((name, func) => (found[func] = test(name) ? 1 : 0));
  knownSearch = { query: state.query, isMatch: (func) => func >= 0 && found[func] === 1, test, pattern, error };
  return knownSearch;
}

/** Weight of the samples with a found function on their stack. */
function matchedWeight() {
  const { isMatch } = search();
  const { tree, total, own, ownOf } = sums();
  if (profile.calls !== "paths") return ownOf.reduce((sum, weight, func) => sum + (isMatch(func) ? weight : 0), 0);
  const below = new Uint8Array(tree.size);
  let sum = 0;
  for (let node = 1; node < tree.size; node++) {
    const isBelow = below[tree.parent[node]] === 1;
    const isFound = isMatch(tree.func[node]);
    if (isFound && !isBelow) sum += total[node];
    below[node] = isBelow || isFound ? 1 : 0;
  }
  return own.length ? sum : 0;
}

/** The colour of a function, as in sprof's other flame graphs: see color.rs. */
const colorOf = (() => {
  /** @type {Map<number, string>} */
  const known = new Map();
  return (/** @type {number} */ func, /** @type {boolean} */ inlined = false) => {
    const key = func * 2 + (inlined ? 1 : 0);
    let color = known.get(key);
    if (!color) {
      const [, hue, saturation, lightness] = profile.codes[profile.code[func]] ?? ["", 220, 0.06, 0.76];
      const shade = (hashOf(profile.names[func]) % 1024) / 1024 - 0.5;
      const light = Math.min(1, lightness - 0.1 * shade + (inlined ? 0.1 : 0));
      color = `hsl(${(hue + 14 * shade).toFixed(1)} ${(saturation * 100).toFixed(0)}% ${(light * 100).toFixed(1)}%)`;
      known.set(key, color);
    }
    return color;
  };
})();

/** The name of a function without return type, parameters and types of generics. @param {number} func */
const shortOf = (func) => profile.shorts[func] ?? profile.names[func];

/** Short names that several functions have. */
const sharedShorts = (() => {
  const [seen, shared] = [new Set(), new Set()];
  for (const short of Object.values(profile.shorts)) (seen.has(short) ? shared : seen).add(short);
  return shared;
})();

/** The place of a function: its file, or else its library; without what its name says. @param {number} func */
function placeOf(func) {
  const file = profile.files[profile.file[func] - 1];
  const lib = profile.libs[profile.lib[func] - 1];
  const path = file ? (file[1] ?? file[0]) : (lib?.[0] ?? "");
  // V8 ends a name with file, line and column.
  const [, inName] = / ([^ ]+):\d+:\d+$/.exec(profile.names[func]) ?? [];
  return inName && path.endsWith(inName) ? path.slice(0, -inName.length).replace(/\/$/, "") : path;
}

/** Says something at the foot of the page, also to screen readers. @param {string} text */
function hint(text) {
  const foot = byId("hint");
  if (foot.textContent !== text) foot.textContent = text;
}

/** Total and self in words. @param {number} own @param {number} total @param {Variances} variances */
function weightsInWords(own, total, variances) {
  const whole = sums().weight;
  const [self, all] = [estimate(own, variances[0]), amountInWords(total) + errorOf(total, variances[1])];
  return `total ${all}, ${percent(total, whole)}; self ${self}, ${percent(own, whole)}`;
}

/** Weights, name and place of a function. @param {number} func @param {number} own @param {number} total @param {Variances} variances */
function inLines(func, own, total, variances) {
  return [weightsInWords(own, total, variances), func < 0 ? "all" : profile.names[func], func < 0 ? "" : placeOf(func)];
}

/** The same in one line. @param {number} func @param {number} own @param {number} total @param {Variances} variances */
function inWords(func, own, total, variances) {
  const [weights, name, place] = inLines(func, own, total, variances);
  // The figures come first: a name of a template fills lines.
  return `${weights}: ${name}` + (place ? ` (${place})` : "");
}
