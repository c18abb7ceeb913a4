// @ts-check
// The page: head, tabs, keys.

/** @type {{id: TabName, name: string, make: () => {element: HTMLElement, shown: () => void}}[]} */
const TABS = [
  { id: "functions", name: "Functions", make: functionsTab },
  { id: "flame", name: "Flame graph", make: flameTab },
  { id: "chart", name: "Stack chart", make: chartTab },
  { id: "tree", name: "Call tree", make: callTreeTab },
  { id: "inverted", name: "Inverted", make: invertedTab },
  { id: "callers", name: "Callers", make: callersTab },
  { id: "source", name: "Source", make: sourceTab },
  { id: "heat", name: "Heat map", make: heatTab },
  { id: "markers", name: "Markers", make: markersTab },
];
if (profile.diff) {
  TABS.splice(TABS.findIndex(({ id }) => id === "source"));
  TABS.splice(TABS.findIndex(({ id }) => id === "chart"), 1);
  TABS[0].make = changesTab;
}

const KEYS = [
  ["/", "search; /.../ is a regular expression; Enter goes to the view"],
  ["Escape", "take back: the search, the zoom, the selected time, the threads, the spans, what is dropped and hidden"],
  ["1 2 3", "in Functions: sort by self, total, name"],
  ["Arrow keys", "move in tables, trees, the flame graph and the timeline; right and left open and close rows of trees"],
  ["*", "in a tree: open the hot path below"],
  ["Enter", "callers and callees of a function; zoom in the flame graph; select a thread, a group or a time; the source of an instruction"],
  ["Space", "in the timeline: add a thread or a group to those that are selected, or take it out"],
  ["Ctrl + wheel", "zoom at a place of the flame graph, as two fingers do; drag moves"],
  ["c  s  a", "callers, source, assembly of the chosen function"],
  ["f", "focus: only stacks with the chosen function"],
  ["h", "hide the chosen function: its callers get its time"],
  ["d", "drop: leave out the stacks with the chosen function, and their time"],
  ["\u2190 \u2192", "in the timeline: close and open a group or a process; at a counter: read its values"],
  ["Shift + \u2190 \u2192", "in the timeline: select a time"],
  ["g", "then f, g, k, t, i, c, s, h or m: go to functions, flame graph, stack chart, tree, inverted, callers, source, heat map, markers"],
];
/** @type {Record<string, TabName>} */
const GO_TO = { f: "functions", g: "flame", k: "chart", t: "tree", i: "inverted", c: "callers", s: "source", h: "heat", m: "markers" };

function showHead() {
  const { about } = profile;
  if (profile.diff) {
    byId("program").textContent = about.product;
    document.title = `${about.product} - sprof`;
    byId("recorded").textContent = about.notes.join(" \u00b7 ");
    return;
  }
  const program = about.product || "Profile";
  byId("program").textContent = about.arguments ? `${program} ${about.arguments}` : program;
  document.title = `${program} - sprof`;
  /** @type {(string | HTMLElement)[]} */
  const parts = [];
  if (about.durationMs) parts.push(`${duration(about.durationMs * 1e6)} long`);
  const sampled = about.recorded?.sampled;
  if (sampled) parts.push(`sampled for ${duration(sampled.sampledNs)} in ${count(sampled.parts, "part", "parts")}`);
  parts.push(count(about.processes, "process", "processes"), count(about.threads, "thread", "threads"));
  const of = kind();
  if (of && of.rowsAre !== "none") parts.push(count(of.samples, of.waits ? "wait" : "sample", of.waits ? "waits" : "samples"));
  if (of && nsPerWeight(of) > 0 && about.recorded?.askedRateHz) parts.push(`${grouped(about.recorded.askedRateHz)} samples a second of CPU time asked`);
  if (about.startMs > 0) parts.push(make("time", {}, new Date(about.startMs).toISOString().slice(0, 19).replace("T", " ") + " UTC"));
  // A version does not stand alone.
  if (about.by) parts.push(about.by.replace(/ (?=\S{1,12}$)/, "\u00a0"));
  const texts = parts.flatMap((part, at) => [at > 0 ? " \u00b7 " : "", part]);
  byId("recorded").replaceChildren(...texts);
}

/** With less of the time than this, the hottest of many functions is not what there is to know. */
const LITTLE = 0.05;

/** Where the time went. A click on a function focuses on it. */
function showHeadline() {
  const { headline, kinds } = profile;
  const of = kinds[0];
  /** @type {(string | HTMLElement)[]} */
  const words = [];
  /** @param {number} func */
  const link = (func) => {
    // A button is a box: what follows its second line would stand below.
    const element = make("a", { href: "#", class: "link", title: `Focus on ${profile.names[func]}` }, shortOf(func));
    element.addEventListener("click", (event) => {
      event.preventDefault();
      change({ focus: [func], func, tab: "flame" });
    });
    return element;
  };
  const whole = (/** @type {number} */ share) => `${(100 * share).toFixed(0)} %`;
  if (headline?.function && of) {
    const [func, share, hottest, part] = headline.function;
    const weight = sumsOf(profile, { kind: of, range: null, threads: null, hidden: [], focus: [], dropped: [], code: -1 }).weight;
    const counted = hasUnit(of) ? `of ${of.name} is` : `${unitOf(of)} are`;
    words.push(`${whole(share)} of ${amount(weight, of)} ${counted} in `, link(func));
    if (hottest === func) words.push(`, ${whole(part)} of that in its own code.`);
    else if (part < LITTLE) words.push(` and what it calls; no function there has more than ${Math.ceil(100 * part)} % of that.`);
    else words.push(" and what it calls, ", `${whole(part)} of that in `, link(hottest), ".");
  }
  if (headline?.short) words.push(` Short: ${headline.short}.`);
  byId("headline").replaceChildren(...words);
}

/** What the words of the quality panel mean. The labels are those of the profile's own table. @type {Record<string, string>} */
const MEANINGS = {
  "Samples": "of threads that ran",
  "Lost records": "samples that never reached the recorder: shares may be wrong",
  "Stacks truncated": "the stack ends before the start of the thread: callers are missing",
  "Stacks unverified": "a caller was found by a guess that nothing confirms: callers may be wrong",
  "Samples without symbols": "what ran has an address instead of a name: its file has no symbols",
  "Of them truncated": "not part of those above",
  "Event": "what takes a sample",
  "Asked rate": "samples a second of CPU time",
  "Achieved rate": "lower than asked: samples are missing",
  "Kernel code": "the part of the stacks in the kernel",
};
/** What is missing or doubtful in less than this share of the samples changes no picture. */
const LIMITED = 0.01;
/** What the badge means. */
const BADGES = { good: "\u2713", limited: "!", unknown: "?" };

/**
 * The quality of the recording: its line, one row a figure, how much is missing or doubtful, and whether that matters.
 * @param {Recorded} recorded
 */
function qualityOf(recorded) {
  // Files of earlier versions have one figure of samples and of waits, and no number of samples.
  const { lost, truncated, unverified, stacksBeside = 0, truncatedBeside = 0, unverifiedBeside = 0 } = recorded;
  const samples = recorded.samples ?? profile.kinds.find((of) => !of.waits)?.samples ?? 0;
  /** @type {(part: number) => string} */
  const ofSamples = (part) => withShare(part, samples + lost);
  /** @type {(part: number) => string} */
  const ofBeside = (part) => withShare(part, stacksBeside);
  const [nameless, named] = profile.nameless ?? [0, 0];
  const [cut, guessed, withoutName] = [truncated - truncatedBeside, unverified - unverifiedBeside, withShare(nameless, named)];
  const parts = [`${ofSamples(lost)} lost, ${ofSamples(cut)} truncated, ${ofSamples(guessed)} unverified, ${withoutName} without symbols`];
  /** @type {[string, string][]} */
  const rows = [
    ["Samples", grouped(samples)],
    ["Lost records", ofSamples(lost)],
    ["Stacks truncated", ofSamples(cut)],
    ["Stacks unverified", ofSamples(guessed)],
    ["Samples without symbols", withoutName],
  ];
  if (stacksBeside > 0) {
    const beside = recorded.heap ? "waits, point events and blocks of memory" : "waits and point events";
    if (truncatedBeside + unverifiedBeside > 0) parts.push(`${beside}: ${ofBeside(truncatedBeside)} truncated, ${ofBeside(unverifiedBeside)} unverified`);
    rows.push(["Stacks of " + beside, grouped(stacksBeside)]);
    rows.push(["Of them truncated", ofBeside(truncatedBeside)], ["Of them unverified", ofBeside(unverifiedBeside)]);
  }
  let missing = lost + cut + guessed;
  let isLimited = missing >= LIMITED * (samples + lost) && missing > 0;
  const besideMissing = truncatedBeside + unverifiedBeside;
  isLimited ||= besideMissing > 0 && besideMissing >= LIMITED * stacksBeside;
  missing += besideMissing;
  for (const { what, count: number, ns, words } of recorded.limits) {
    const value = [typeof number === "number" && grouped(number), typeof ns === "number" && duration(ns), words].filter((part) => part).join(", ");
    rows.push([what, value]);
    missing++;
    if (typeof number === "number" && number < LIMITED * samples) continue;
    isLimited = true;
    parts.push(`${what}: ${value}`);
  }
  rows.push(["Event", recorded.event]);
  if (recorded.askedRateHz) rows.push(["Asked rate", `${recorded.askedRateHz.toFixed(1)} Hz`]);
  if (recorded.achievedRateHz) rows.push(["Achieved rate", `${recorded.achievedRateHz.toFixed(1)} Hz`]);
  rows.push(["Kernel code", recorded.kernelCode]);
  return { line: parts.join("; "), rows, missing, isLimited };
}

function showQuality() {
  const { about } = profile;
  const of = kind();
  const [nameless, named] = profile.nameless ?? [0, 0];
  /** Of the file or of the recorder; none where nobody says. */
  const known = about.recorded && !about.newer ? qualityOf(about.recorded) : null;
  const rows = known?.rows ?? [];
  const withoutName = `${withShare(nameless, named)} without symbols`;
  let line = `the file does not say what was lost or guessed; ${withoutName}`;
  if (about.exact) line = "each was counted, none sampled";
  if (about.newer) line = "a newer sprof wrote the file; update sprof to read what was lost or guessed";
  const machine = [about.os, about.cpu].filter((part) => part).join(", ");
  if (machine) rows.push(["Machine", machine]);
  if (!known && nameless > 0) rows.push(["Samples without symbols", withShare(nameless, named)]);
  if (of?.unusable) rows.push(["Samples without a usable weight, left out", grouped(of.unusable)]);
  if (profile.markers.leftOut > 0) rows.push(["Markers that are left out of the timeline", grouped(profile.markers.leftOut)]);
  const hasNames = nameless === 0 || nameless < LIMITED * named;
  const isLimited = known?.isLimited || !hasNames || about.notes.length > 0 || (of?.unusable ?? 0) > 0;
  const state = isLimited ? "limited" : known || about.exact ? "good" : "unknown";
  if (known) {
    const isWhole = known.missing + nameless === 0;
    line = `${isLimited ? "part is missing or doubtful" : isWhole ? "nothing is missing" : "less than 1 % is missing or doubtful"}; ${known.line}`;
  }
  byId("quality").dataset.state = state;
  const others = about.notes.length > 1 ? `; ${count(about.notes.length - 1, "further note", "further notes")}` : "";
  const note = about.notes.length > 0 ? ` \u00b7 ${about.notes[0]}${others}` : "";
  byId("quality-line").replaceChildren(make("span", { class: "badge", "aria-hidden": true }, BADGES[state]), ...withOptions(`Quality: ${line}${note}`));
  const table = (/** @type {[string, string][]} */ of) =>
    make("dl", {}, ...of.map(([label, value]) => make("div", {}, make("dt", {}, label, MEANINGS[label] && make("small", {}, MEANINGS[label])), make("dd", {}, value))));
  const parts = [...about.notes.map((note) => make("p", {}, ...withOptions(note))), table(rows)];
  // sprof repeats its facts there for the Firefox Profiler.
  const shown = new Set(rows.map(([label]) => label));
  for (const section of about.extra) {
    /** @type {[string, string][]} */
    const of = section.rows.filter(([label]) => !shown.has(label)).map(([label, value, format]) => [
      label,
      typeof value !== "number" ? (value ?? "") : format === "duration" ? duration(value * 1e6) : format === "bytes" ? bytesText(value) : value.toLocaleString("en-US"),
    ]);
    if (of.length > 0) parts.push(make("h3", {}, section.label), table(of));
  }
  byId("quality-rows").replaceChildren(...parts);
}

function showKinds() {
  const choice = /** @type {HTMLSelectElement} */ (byId("kind"));
  const names = profile.kinds.map((of, at) => make("option", { value: at }, of.name));
  choice.replaceChildren(...names);
  choice.addEventListener("change", () => change({ kind: Number(choice.value) }));
}

/** Names what is selected, with a button each to take it back. */
function showFilters() {
  const { hidden, focus, dropped, code, threads, query, inside } = state;
  const bar = byId("filters");
  const what = kind();
  /** @param {string} what @param {() => void} undo @param {string} [after] */
  const crumb = (what, undo, after = "") => {
    const label = `${what}${after && `, ${after}`}: take back`;
    const cross = make("span", { class: "cross", "aria-hidden": true }, " \u00d7");
    const button = make("button", { type: "button", class: "crumb", title: label, "aria-label": label }, make("span", { class: "text" }, what), after && make("span", { class: "after" }, ` (${after})`), cross);
    button.addEventListener("click", undo);
    return button;
  };
  const parts = [];
  if (state.range) parts.push(crumb(`${clock(state.range.from, 1000)} to ${clock(state.range.to, 1000)}`, () => change({ range: null })));
  if (threads) parts.push(crumb(count(threads.size, "thread", "threads"), () => change({ threads: null })));
  if (inside) parts.push(crumb(`inside ${inside}${what?.measure ? " (not of blocks)" : ""}`, () => change({ inside: "" })));
  if (code >= 0) parts.push(crumb(`only ${profile.codes[code][0]}`, () => change({ code: -1 })));
  for (const func of focus) parts.push(crumb(`only stacks with ${shortOf(func)}`, () => change({ focus: focus.filter((of) => of !== func) })));
  for (const func of hidden) parts.push(crumb(`hidden: ${shortOf(func)}`, () => change({ hidden: hidden.filter((of) => of !== func) }), "callers keep its time"));
  for (const func of dropped) parts.push(crumb(`without stacks with ${shortOf(func)}`, () => change({ dropped: dropped.filter((of) => of !== func) })));
  const of = sums();
  const isOfSamples = what && what.rowsAre !== "none" && (what.unit !== "samples" || nsPerWeight(what) > 0);
  const number = isOfSamples ? ` in ${count(of.samples, what.waits ? "wait" : "sample", what.waits ? "waits" : "samples")}` : "";
  let text = (parts.length > 0 ? "Selected: " : "") + amountInWords(of.weight) + errorOf(of.weight, of.variance?.weight ?? 0) + number;
  if (query) {
    const { error } = search();
    text += error ? `; ${error}` : `; stacks with ${query}: ${percent(matchedWeight(), of.weight)}`;
  }
  const sum = make("span", { class: "sum", role: "status", "data-weight": of.weight, "data-samples": of.samples, "data-matched": query ? matchedWeight() : "" }, text);
  const actions = make("span", { id: "actions" });
  bar.replaceChildren(sum, ...parts, actions);
  bar.hidden = false;
  showActions();
}

/** What can be done with the chosen function. */
function showActions() {
  const actions = document.getElementById("actions");
  if (!actions) return;
  const { func } = state;
  if (func < 0) return actions.replaceChildren();
  const name = profile.names[func];
  /** @param {string} what @param {string} key @param {() => void} act @param {string} [does] */
  const action = (what, key, act, does = what) => {
    const button = make("button", { type: "button", title: `${does}: ${name} (${key})` }, what);
    button.addEventListener("click", act);
    return button;
  };
  const isPaths = profile.calls === "paths";
  actions.replaceChildren(
    make("span", { class: "text", title: name }, shortOf(func)),
    ...(isPaths
      ? [
          action("Focus", "f", () => focusOn(func), "Only stacks with it"),
          action("Hide", "h", () => hide(func), "Remove it from stacks; its callers get its time"),
          action("Drop", "d", () => drop(func), "Leave out the stacks with it, and their time"),
        ]
      : []),
    ...(profile.calls === "unknown" ? [] : [action("Callers", "c", () => change({ tab: "callers" }))]),
    ...(profile.diff ? [] : [action("Source", "s", () => showSource(func, false))]),
  );
}

function startTabs() {
  const tabs = byId("tabs");
  const buttons = TABS.map(({ id, name }) => make("button", { type: "button", role: "tab", id: "tab-" + id, "aria-controls": "panel" }, name));
  tabs.replaceChildren(...buttons);
  buttons.forEach((button, at) => {
    button.addEventListener("click", () => change({ tab: TABS[at].id }));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = (at + step + TABS.length) % TABS.length;
      change({ tab: TABS[next].id });
      buttons[next].focus();
    });
  });
}

function showPanel() {
  for (const { id } of TABS) {
    const button = byId("tab-" + id);
    const isShown = id === state.tab;
    button.setAttribute("aria-selected", String(isShown));
    button.tabIndex = isShown ? 0 : -1;
  }
  const tab = TABS.find(({ id }) => id === state.tab) ?? TABS[0];
  const panel = byId("panel");
  const hadFocus = panel.contains(document.activeElement);
  hideTip();
  const view = tab.make();
  panel.setAttribute("aria-labelledby", "tab-" + tab.id);
  panel.dataset.tab = tab.id;
  // An error takes room.
  panel.style.setProperty("--amount", kind()?.measure ? "8.5rem" : "5rem");
  panel.replaceChildren(view.element);
  view.shown();
  if (hadFocus) goToPanel();
}

function goToPanel() {
  const panel = byId("panel");
  const first = panel.querySelector("[data-first]") ?? panel.querySelector("[tabindex='0']");
  (first instanceof HTMLElement ? first : panel).focus();
}

/** Takes back the last kind of choice. */
function takeBack() {
  if (state.query) {
    /** @type {HTMLInputElement} */ (byId("search")).value = "";
    change({ query: "" });
  } else if (state.part && state.tab === "flame") change({ part: null });
  else if (state.zoom.length > 0 && state.tab === "flame") change({ zoom: [] });
  else if (state.range) change({ range: null });
  else if (state.threads) change({ threads: null });
  else if (state.code >= 0) change({ code: -1 });
  else if (state.inside) change({ inside: "" });
  else if (state.dropped.length > 0) change({ dropped: state.dropped.slice(0, -1) });
  else if (state.hidden.length > 0) change({ hidden: state.hidden.slice(0, -1) });
  else if (state.focus.length > 0) change({ focus: state.focus.slice(0, -1) });
  else if (state.view.from > 0 || state.view.to < profile.endUs) change({ view: { from: 0, to: profile.endUs } });
}

function startKeys() {
  const field = /** @type {HTMLInputElement} */ (byId("search"));
  const help = /** @type {HTMLDialogElement} */ (byId("help"));
  const menu = /** @type {HTMLDetailsElement} */ (byId("menu"));
  byId("help-keys").replaceChildren(
    ...KEYS.map(([key, does]) => make("div", {}, make("dt", {}, make("kbd", {}, key)), make("dd", {}, does))),
  );
  byId("help-open").addEventListener("click", () => help.showModal());
  let timer = 0;
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => change({ query: field.value }), 120);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      clearTimeout(timer);
      change({ query: field.value });
      goToPanel();
    } else if (event.key === "Escape") {
      event.preventDefault();
      clearTimeout(timer);
      field.value = "";
      change({ query: "" });
      goToPanel();
    }
    event.stopPropagation();
  });
  let isGoing = false;
  document.addEventListener("keydown", (event) => {
    if (help.open || menu.open || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target instanceof HTMLSelectElement || event.target instanceof HTMLInputElement) return;
    const wasGoing = isGoing;
    isGoing = false;
    if (wasGoing && event.key in GO_TO) {
      change({ tab: GO_TO[event.key] });
      goToPanel();
    } else if (event.key === "g") isGoing = true;
    else if (event.key === "/") field.focus();
    else if (event.key === "?") help.showModal();
    else if (event.key === "Escape") takeBack();
    else return;
    event.preventDefault();
  }, true);
}

function start() {
  byId("loading").remove();
  const hasTimes = profile.kinds.some((of) => of.hasTimes);
  byId("timeline").hidden = !hasTimes;
  // Its figures are those of one recording.
  byId("quality").hidden = profile.diff !== null;
  startTheme();
  startMenu();
  showKinds();
  showHeadline();
  startTabs();
  startTimeline();
  startRoom();
  startKeys();
  byId("app").hidden = false;
  if (profile.kinds.length === 0) hint("The profile has no samples.");
  listeners.push((changed) => {
    const has = (/** @type {keyof State} */ key) => changed.includes(key);
    if (has("kind")) {
      showHead();
      showQuality();
      layTimeline();
    }
    if (has("kind")) showCodes(kind() ?? NOTHING);
    if (has("kind") || has("code")) markCodes();
    if (has("threads")) markRows();
    const isOther = ["kind", "range", "threads", "inside", "focus", "code", "hidden", "dropped"].some((key) => has(/** @type {keyof State} */ (key)));
    if (isOther || has("view")) showRange();
    // The foot has the figures of what was selected before.
    if (isOther || has("tab")) choose(state.func);
    showFilters();
    if (!(changed.length === 1 && has("view")) || state.tab === "chart") showPanel();
    // The last one, because it asks for its size: what changes after that would be laid out twice.
    if (isOther || has("view") || has("query")) drawTimeline();
    noteAddress(changed);
  });
  showAddress();
  addEventListener("popstate", showAddress);
  for (const query of ["(min-resolution: 1.5dppx)", WIDE]) {
    matchMedia(query).addEventListener("change", () => change({ view: state.view, sort: state.sort }));
  }
  // See start.js: this browser does not reach the UI that was to be opened.
  if (location.search === "?instead") hint("This is sprof's own viewer: this browser does not reach the Firefox Profiler.");
  document.body.dataset.ready = "true";
}

start();
