// @ts-check
// The rows of the timeline: processes and threads, and which of them are one row.

const PROCESS_PX = 24;
const THREAD_PX = 28;
const COUNTER_PX = 28;
/** From so many on, threads or processes with the same name are one row, and idle ones are. */
const LEAST_GROUP = 5;
/** Threads are idle below this part of the mean of those beside them. All idle ones have less than this part of the whole. */
const IDLE_PART = 0.1;
/** From so many threads on, a filter and an order stand above the rows. */
const MANY_THREADS = 20;

/**
 * @typedef {object} TimeRow
 * @property {"group" | "process" | "thread" | "spans" | "counter"} type
 * @property {number} top
 * @property {number} height
 * @property {number} level
 * @property {string} key Names a row that opens.
 * @property {TimeRow[]} below Rows that are shown when this one is open.
 * @property {boolean} isClosed At first.
 * @property {number} size Threads or processes of a group.
 * @property {number} weight
 * @property {number} waiting
 * @property {number} start
 * @property {number} thread
 * @property {number[]} threads
 * @property {CounterLine | null} line
 * @property {SpanLanes | null} lanes
 * @property {string} label
 * @property {string} detail
 * @property {HTMLElement | null} element
 */

/** What the user opened (true) and closed, by key. @type {Map<string, boolean>} */
const openedRows = new Map();
/** The visible rows. @type {TimeRow[]} */
let timeRows = [];

/** @param {Partial<TimeRow> & {type: TimeRow["type"], height: number}} row @returns {TimeRow} */
function timeRow(row) {
  const empty = { top: 0, level: 0, key: "", isClosed: false, size: 1, weight: 0, waiting: 0, start: 0, thread: -1, line: null, lanes: null };
  return { ...empty, label: "", detail: "", element: null, threads: [], below: [], ...row };
}

/** @param {TimeRow} row */
const isOpen = (row) => row.below.length > 0 && (openedRows.get(row.key) ?? (state.rowFilter !== "" || !row.isClosed));

/** Weight of each thread in the whole time. @param {Kind} of */
function weightOfThreads(of) {
  const weights = new Float64Array(profile.threads.length);
  for (const samples of of.threads) {
    if (samples.weight) for (const weight of samples.weight) weights[samples.thread] += weight;
    else weights[samples.thread] += samples.each * samples.time.length;
  }
  return weights;
}

/** Waits, where CPU time is counted beside them. @param {Kind} of */
function waitsBeside(of) {
  return of.waits || of !== kinds()[0] ? undefined : kinds().find((other) => other.waits);
}

/** @param {CounterLine} line */
const counterRow = (line) => timeRow({ type: "counter", height: COUNTER_PX, line, label: line.name, detail: `up to ${lineAmount(line, line.most)}` });

/** All rows, as a tree. @param {Kind} of @returns {TimeRow[]} */
function rowTree(of) {
  const weights = weightOfThreads(of);
  // A thread that only waits is a row, too.
  const waits = waitsBeside(of);
  const waiting = waits ? weightOfThreads(waits) : new Float64Array(profile.threads.length);
  const marked = new Set(profile.markers.thread);
  // Files that do not say when a thread started have its first sample.
  const first = new Map(of.threads.map(({ thread, time }) => [thread, time[0]]));
  const filter = state.rowFilter.toLowerCase();
  /** @type {Map<string, {name: string, threads: number[], lines: CounterLine[]}>} */
  const processes = new Map();
  profile.threads.forEach((thread, at) => {
    let process = processes.get(thread.pid);
    if (!process) processes.set(thread.pid, (process = { name: thread.process, threads: [], lines: [] }));
    if (thread.main && thread.process) process.name = thread.process;
    const isFound = thread.pid === filter || thread.tid === filter || `${thread.process}\n${thread.name}`.toLowerCase().includes(filter);
    if (isFound && (weights[at] > 0 || waiting[at] > 0 || marked.has(at))) process.threads.push(at);
  });
  // The graph of a thread is the line of what is counted.
  const lines = profile.counters.filter((line) => line.unit !== of.name);
  /** @type {Map<number, CounterLine[]>} */
  const ofThreads = new Map();
  for (const line of lines) {
    const thread = line.thread === null ? undefined : profile.threads[line.thread];
    if (!thread || line.thread === null || line.place === "machine") continue;
    const process = processes.get(thread.pid);
    // A thread without samples has no row.
    if (!line.ofThread || !process?.threads.includes(line.thread)) process?.lines.push(line);
    else ofThreads.set(line.thread, [...(ofThreads.get(line.thread) ?? []), line]);
  }
  const isMany = processes.size >= LEAST_GROUP;
  const rows = [...processes].filter(([, { threads }]) => threads.length > 0).map(([pid, process]) => {
    const label = process.name || (pid ? `process ${pid}` : "process");
    const threads = process.threads.map((thread) => {
      const { name, tid, start } = profile.threads[thread];
      const below = [...spanRows(thread), ...(ofThreads.get(thread) ?? []).map(counterRow)];
      const sums = { weight: weights[thread], waiting: waiting[thread], start: start || (first.get(thread) ?? 0) };
      return timeRow({ type: "thread", height: THREAD_PX, key: `${pid} ${thread}`, thread, threads: [thread], label: name || `thread ${tid}`, detail: tid, below, ...sums });
    });
    const ofProcess = (/** @type {string} */ place) => (filter ? [] : process.lines.filter((line) => line.place === place).map(counterRow));
    const around = (/** @type {TimeRow[]} */ below) => [...ofProcess("threads"), ...below, ...ofProcess("process")];
    // A process with one thread is the row of that thread.
    if (threads.length === 1) return { ...threads[0], key: pid, label, detail: pid, below: around(threads[0].below), isClosed: isMany };
    const below = groupsOf(threads, pid, "threads");
    const detail = `${grouped(threads.length)} threads, ${pid}`;
    const row = rowOfAll("process", threads, { key: pid, label, detail, below: around(below), isClosed: isMany, size: 1 });
    // One group would have the graph of the process.
    const group = below[0]?.label ?? "";
    const both = group.startsWith(`${label} \u00b7 `) ? group : `${label}, ${group}`;
    return below.length === 1 ? { ...row, label: both, detail: pid, below: around(below[0].below), isClosed: true } : row;
  });
  const ofMachine = lines.filter((line) => line.place === "machine" && !filter);
  return [...groupsOf(rows, "", "processes"), ...ofMachine.map(counterRow)];
}

/** A row that stands for all of these. @param {"group" | "process"} type @param {TimeRow[]} rows @param {Partial<TimeRow>} more */
function rowOfAll(type, rows, more) {
  const sum = (/** @type {(row: TimeRow) => number} */ of) => rows.reduce((sum, row) => sum + of(row), 0);
  const threads = rows.flatMap((row) => row.threads);
  const start = rows.reduce((first, row) => Math.min(first, row.start), Infinity);
  const height = type === "group" ? THREAD_PX : PROCESS_PX;
  return timeRow({ type, height, threads, start, weight: sum((row) => row.weight), waiting: sum((row) => row.waiting), size: sum((row) => row.size), ...more });
}

/**
 * The rows in their order. Those with one name but for digits are one, and idle ones are the last one.
 * @param {TimeRow[]} rows @param {string} key @param {"threads" | "processes"} many
 */
function groupsOf(rows, key, many) {
  /** @type {Map<string, TimeRow[]>} */
  const alike = new Map();
  for (const row of rows) {
    const name = row.label.replace(/\d+/g, "*");
    const of = alike.get(name);
    if (of) of.push(row);
    else alike.set(name, [row]);
  }
  const joined = [...alike].flatMap(([pattern, of]) => {
    if (of.length < LEAST_GROUP) return of;
    const name = of.every(({ label }) => label === of[0].label) ? of[0].label : pattern;
    const inGroup = `${key}\n${pattern}`;
    return [rowOfAll("group", of, { key: inGroup, label: `${name} \u00b7 ${grouped(of.length)} ${many}`, below: withoutIdle(of, inGroup, many), isClosed: true })];
  });
  return withoutIdle(joined, key, many);
}

/** The rows in their order, idle ones as the last row. @param {TimeRow[]} rows @param {string} key @param {"threads" | "processes"} many */
function withoutIdle(rows, key, many) {
  rows.sort((a, b) => (state.byStart ? a.start - b.start : 0) || b.weight - a.weight || b.waiting - a.waiting || a.threads[0] - b.threads[0]);
  const { weight, size } = rowOfAll("group", rows, {});
  const limit = (IDLE_PART * weight) / size;
  const idle = rows.filter((row) => row.weight < limit * row.size);
  const all = rowOfAll("group", idle, { key: key + "\nidle", below: idle, isClosed: true });
  if (state.rowFilter || all.size < LEAST_GROUP) return rows;
  // A short process may have been busy.
  const word = many === "threads" ? "idle" : "small";
  const group = { ...all, label: `${grouped(all.size)} ${word} ${many}`, detail: `each below ${amount(limit)}` };
  return [...rows.filter((row) => !idle.includes(row)), group];
}

function layTimeline() {
  const of = kind() ?? NOTHING;
  timeRows = [];
  let top = 0;
  /** @param {TimeRow[]} rows @param {number} level */
  const add = (rows, level) => {
    for (const row of rows) {
      Object.assign(row, { top, level });
      timeRows.push(row);
      top += row.height;
      if (isOpen(row)) add(row.below, level + 1);
    }
  };
  add(rowTree(of), 0);
  const none = make("div", { class: "row-label", role: "treeitem", tabindex: 0 }, `No thread or process is called ${state.rowFilter}.`);
  byId("rows-labels").replaceChildren(...(timeRows.length > 0 ? timeRows.map(labelOf) : [none]));
  byId("rows-area").style.height = top + "px";
  const isMany = profile.threads.length >= MANY_THREADS;
  const filter = /** @type {HTMLInputElement} */ (byId("row-filter"));
  if (document.activeElement !== filter) filter.value = state.rowFilter;
  filter.hidden = !isMany && state.rowFilter === "";
  const order = /** @type {HTMLSelectElement} */ (byId("row-order"));
  order.hidden = !isMany;
  order.value = state.byStart ? "start" : "busiest";
  markRows();
}

/** @param {TimeRow} row @param {number} at */
function labelOf(row, at) {
  const sum = row.threads.length > 0 ? amount(row.weight) : "";
  const isParent = row.below.length > 0;
  const open = isParent ? isOpen(row) : null;
  row.element = make(
    "div",
    {
      class: `row-label row-${row.type}${row.level === 0 && row.threads.length > 0 ? " row-process" : ""}`,
      role: "treeitem",
      "aria-level": row.level + 1,
      "aria-expanded": open === null ? null : String(open),
      tabindex: at === 0 ? 0 : -1,
      title: [row.label, sum, row.detail].filter((part) => part).join(", "),
      "data-at": at,
    },
    make("span", { class: "twist", "aria-hidden": true }, open === null ? "" : open ? "\u25be" : "\u25b8"),
    make("span", { class: "text" }, row.label),
    make("span", { class: "after" }, row.detail),
    make("span", { class: "sum-of-row" }, sum),
  );
  row.element.style.height = row.height + "px";
  row.element.style.setProperty("--level", String(row.level));
  return row.element;
}

function markRows() {
  for (const row of timeRows) {
    const isChosen = row.threads.length > 0 && row.threads.every((thread) => state.threads?.has(thread));
    row.element?.setAttribute("aria-selected", String(isChosen));
  }
}

/** Selects a row's threads, or adds them, and opens a group. @param {TimeRow} row @param {boolean} more */
function chooseRow(row, more) {
  if (row.threads.length === 0 || profile.calls === "arcs") return;
  const isChosen = row.threads.every((thread) => state.threads?.has(thread));
  const chosen = new Set(more ? state.threads : []);
  const isOnly = isChosen && (more || state.threads?.size === row.threads.length);
  for (const thread of row.threads) isOnly ? chosen.delete(thread) : chosen.add(thread);
  if (row.type === "group" && !isOnly && !isOpen(row)) layOpened(row, true);
  change({ threads: chosen.size > 0 ? chosen : null });
}

/** @param {TimeRow} row @param {boolean} open */
function layOpened(row, open) {
  openedRows.set(row.key, open);
  layTimeline();
  timeRows.find(({ key }) => key === row.key)?.element?.focus();
}

/** @param {TimeRow} row @param {boolean} open */
function openRow(row, open) {
  if (row.below.length === 0) return;
  layOpened(row, open);
  drawTimeline();
}

function startRows() {
  const labels = byId("rows-labels");
  const filter = /** @type {HTMLInputElement} */ (byId("row-filter"));
  const order = /** @type {HTMLSelectElement} */ (byId("row-order"));
  listeners.push((changed) => {
    if (!changed.includes("rowFilter") && !changed.includes("byStart")) return;
    layTimeline();
    drawTimeline();
  });
  filter.addEventListener("input", () => change({ rowFilter: filter.value }));
  filter.addEventListener("keydown", (event) => {
    if (event.key === "Enter") timeRows[0]?.element?.focus();
    else if (event.key === "Escape") change({ rowFilter: (filter.value = "") });
    else return;
    event.preventDefault();
  });
  order.addEventListener("change", () => change({ byStart: order.value === "start" }));
  labels.addEventListener("click", (event) => {
    const element = event.target instanceof Element ? event.target.closest("[data-at]") : null;
    if (!(element instanceof HTMLElement)) return;
    const row = timeRows[Number(element.dataset.at)];
    element.focus();
    if (event.target instanceof Element && event.target.classList.contains("twist")) openRow(row, !isOpen(row));
    else chooseRow(row, event.ctrlKey || event.metaKey || event.shiftKey);
  });
  labels.addEventListener("focusin", (event) => {
    for (const row of timeRows) if (row.element) row.element.tabIndex = row.element === event.target ? 0 : -1;
  });
  labels.addEventListener("focusout", () => showValue(null));
  labels.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = timeRows.findIndex((row) => row.element === event.target);
    const row = timeRows[at];
    if (!row) return;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step && event.shiftKey) moveRange(step);
    else if (step && row.line) moveValue(row, step);
    else if (step) {
      if (isOpen(row) !== step > 0) openRow(row, step > 0);
    } else if (event.key === "ArrowDown") timeRows[at + 1]?.element?.focus();
    else if (event.key === "ArrowUp") timeRows[at - 1]?.element?.focus();
    else if (event.key === "Home") timeRows[0].element?.focus();
    else if (event.key === "End") timeRows[timeRows.length - 1].element?.focus();
    else if (event.key === "Enter" || event.key === " ") chooseRow(row, event.key === " ");
    else return;
    event.preventDefault();
  });
}
