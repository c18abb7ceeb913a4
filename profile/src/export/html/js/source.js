// @ts-check
// Source and machine code, side by side where there is room: lines of a file with their samples, and the
// instructions of a function.

/** Where both sides have room. */
const WIDE = "(min-width: 1024px)";
/**
 * By number of the file, from 1: an error says why there is no text, `null` is asked for.
 * @type {Map<number, string | Error | null>}
 */
const texts = new Map();
/** By number of the file. @type {Map<number, TokenLine[]>} */
const tokens = new Map();
/** The shown file if no function is chosen, or another one than the function's. */
let chosenFile = 0;
let chosenFileOf = -2;
/** The line of the shown file that is marked on both sides, or 0. */
let chosenLine = 0;

/**
 * @typedef {object} CodeSide
 * @property {HTMLElement} element
 * @property {() => void} shown
 * @property {() => void} follow Marks the chosen line, and has it in view.
 */

/** @returns {{element: HTMLElement, shown: () => void}} */
function sourceTab() {
  const files = filesByWeight();
  if (chosenFileOf !== state.func) {
    const ofFunction = state.func >= 0 ? profile.file[state.func] : 0;
    const withText = files.find((row) => row.own > 0 && profile.sources.has(row.file - 1));
    const first = state.func < 0 ? (chosenFile || (withText ?? files[0])?.file) : 0;
    showFile(ofFunction || first || 0);
    chosenFileOf = state.func;
    chosenLine = 0;
  }
  const isWide = matchMedia(WIDE).matches;
  /** @type {CodeSide | null} */
  let lines = null;
  /** @type {CodeSide & {show: (func: number, machine: number) => void} | null} */
  let code = null;
  if (isWide || !state.assembly || !profile.places) {
    lines = linesSide(files, (func, machine) => {
      if (func >= 0) code?.show(func, machine);
      code?.follow();
    });
  }
  if (profile.places && (isWide || state.assembly)) code = codeSide(() => lines?.follow());
  const parts = [
    profile.places && !isWide && make("div", { class: "bar" }, assemblySwitch()),
    !profile.places &&
      make("div", { class: "legend bar" }, make("div", {}, ...withOptions("A page in a file has no machine code: `sprof load --viewer` serves it, `sprof annotate` prints it."))),
    // Without its text, a file is a line above the code.
    make("div", { class: lines && code && !lines.element.querySelector(".list") ? "sides stacked" : "sides" }, lines?.element, code?.element),
  ];
  return {
    element: make("div", { class: "source-view" }, ...parts),
    shown: () => {
      lines?.shown();
      code?.shown();
    },
  };
}

/** @param {number} file */
function showFile(file) {
  if (file !== chosenFile) chosenLine = 0;
  chosenFile = file;
}

/** The side that has the keys: on a narrow page the only one. @param {HTMLElement} list @param {boolean} assembly */
function noteSide(list, assembly) {
  if (state.assembly === assembly) list.dataset.first = "";
  list.addEventListener("focus", () => {
    state.assembly = assembly;
    noteAddress([]);
  });
}

/** The function whose lines or code are shown: the chosen one, or the hottest of the shown file. */
function functionOfSource() {
  if (state.func >= 0) return state.func;
  const { ownOf } = sums();
  let hottest = -1;
  ownOf.forEach((own, func) => {
    if (own > 0 && profile.file[func] === chosenFile && own > (ownOf[hottest] ?? 0)) hottest = func;
  });
  return hottest;
}

/**
 * @param {{file: number, own: number}[]} files
 * @param {(func: number, machine: number) => void} chosen A line was chosen, and the function with most of it, or -1.
 * @returns {CodeSide}
 */
function linesSide(files, chosen) {
  const file = chosenFile;
  const note = make("p", { class: "legend" });
  const choice = make("select", { id: "file" });
  const known = file === 0 || files.some((row) => row.file === file) ? files : [{ file, own: 0 }, ...files];
  if (file === 0) choice.append(make("option", { value: 0, selected: true }, "another file ..."));
  for (const row of known.slice(0, 500)) {
    const [path, short] = profile.files[row.file - 1];
    choice.append(make("option", { value: row.file, selected: row.file === file }, `${short ?? path} (self ${percent(row.own, sums().weight)})`));
  }
  choice.addEventListener("change", () => {
    showFile(Number(choice.value));
    change({});
  });
  const bar = make("div", { class: "bar" }, known.length > 0 && make("label", {}, "File ", choice), note);
  const element = make("div", { class: "side" }, bar);
  /** @type {CodeSide} */
  const withoutLines = { element, shown: () => {}, follow: () => {} };
  if (file === 0) {
    const of = state.func < 0 ? "" : ` of ${shortOf(state.func)}${libraryOf(state.func)}`;
    note.textContent = `No source line is known${of}: compile with debug info, and keep it where the profile is made.`;
    return withoutLines;
  }
  const lines = linesOf(profile, sums(), file);
  const text = texts.get(file) ?? profile.sources.get(file - 1);
  if (typeof text !== "string") {
    note.textContent = missingText(file, text, lines);
    if (profile.places && !texts.has(file)) askForSource(file);
    return withoutLines;
  }
  note.textContent = "Figures are of all functions with code on a line: choose one to see which.";
  const shown = tokens.get(file) ?? tokensOf(text, profile.files[file - 1][0]);
  tokens.set(file, shown);
  const whole = sums().weight;
  const hasTotal = profile.calls === "paths";
  // Of the chosen function, if one is.
  const { names } = profile;
  const isOurs = (/** @type {SourceLine} */ line) => state.func < 0 || partsOf(line).some(({ func }) => names[func] === names[state.func]);
  const ours = [...lines].filter(([number, line]) => number <= shown.length && isOurs(line));
  const [[first] = [1]] = ours.sort(([, a], [, b]) => b.own - a.own || b.total - a.total);
  const list = rowList({
    label: "Lines of " + profile.files[file - 1][0],
    className: "source" + (hasTotal ? "" : " source-own"),
    heads: ["Self", ...(hasTotal ? ["Total"] : []), "Line", "Source"],
    cells: (row) => {
      const line = lines.get(row + 1);
      const cells = [amountCell(line?.own ?? 0, whole), ...(hasTotal ? [amountCell(line?.total ?? 0, whole)] : [])];
      return [...cells, String(row + 1), codeCell(shown[row])];
    },
    mark: (row, element) => {
      const line = lines.get(row + 1);
      if (row + 1 === chosenLine) element.classList.add("linked");
      if (!line) return;
      element.classList.add("hot");
      element.dataset.own = String(line.own);
      element.dataset.total = String(line.total);
    },
    activate: (row) => {
      chosenLine = row + 1;
      const line = lines.get(chosenLine);
      const parts = partsOf(line);
      if (line && parts.length > 0 && parts[0].func !== state.func) {
        // The file stays, though it may not be the function's.
        chosenFileOf = parts[0].func;
        choose(parts[0].func);
      }
      hint(line ? `${weightsInWords(line.own, line.total, [0, 0])}: line ${chosenLine} of ${partsInWords(parts)}` : `line ${chosenLine}: no samples`);
      list.update(shown.length, row);
      chosen(parts[0]?.func ?? -1, parts[0]?.machine ?? -1);
    },
    key: (row, event) => functionKey(partsOf(lines.get(row + 1))[0]?.func ?? state.func, event),
  });
  noteSide(list.element, false);
  list.element.style.setProperty("--code", longest(shown.map((line) => line.reduce((sum, [, part]) => sum + part.length, 0))));
  element.append(list.element);
  const at = () => (chosenLine > 0 ? Math.min(chosenLine, shown.length) : first) - 1;
  const toLine = () => showRow(list, shown.length, at());
  return { element, shown: toLine, follow: toLine };
}

/**
 * Makes it the current row, and has it and what is around it in view.
 * @param {ReturnType<rowList>} list @param {number} rows @param {number} row
 */
function showRow(list, rows, row) {
  list.update(rows);
  const { scrollTop, clientHeight } = list.element;
  const top = row * ROW_PX;
  if (top < scrollTop || top > scrollTop + clientHeight - 2 * ROW_PX) list.element.scrollTop = Math.max(0, top - clientHeight / 3);
  list.update(rows, row);
}

/** The width of the longest line of code. @param {number[]} lengths */
function longest(lengths) {
  const columns = lengths.reduce((most, length) => Math.max(most, length), 20);
  return Math.min(columns, 160) * 7.6 + "px";
}

/** A share, with its amount as a title; empty for nothing. @param {number} part @param {number} whole */
function amountCell(part, whole) {
  if (part <= 0) return "";
  const cell = shareCell(part, whole);
  cell.title = amount(part);
  return cell;
}

/** The functions of a line, the largest total first. @param {SourceLine | undefined} line */
function partsOf(line) {
  const funcs = profile.names.length;
  const parts = [...(line?.parts ?? [])].sort((a, b) => b[1] - a[1]);
  return parts.map(([key, total]) => ({ func: Math.floor(key / funcs), machine: key % funcs, total }));
}

/** `push inlined into work (12.30 %), work (1.20 %)` @param {ReturnType<partsOf>} parts */
function partsInWords(parts) {
  const words = parts.slice(0, 5).map(({ func, machine, total }) => {
    const inlined = func === machine ? "" : ` inlined into ${shortOf(machine)}`;
    return `${shortOf(func)}${inlined} (${percent(total, sums().weight)})`;
  });
  if (parts.length > words.length) words.push(count(parts.length - words.length, "further function", "further functions"));
  return words.join(", ");
}

/** @param {number} func */
function libraryOf(func) {
  const lib = profile.libs[profile.lib[func] - 1]?.[0];
  return lib ? ` in ${lib}` : "";
}

/**
 * Why a file is not shown, and what is known of it.
 * @param {number} file @param {Error | undefined} text @param {Map<number, SourceLine>} lines
 */
function missingText(file, text, lines) {
  const [path, short, code] = profile.files[file - 1];
  const lib = code ? profile.libs[code[0] - 1]?.[0] : undefined;
  if (profile.places && !text) return "Asking for the text of this file ...";
  const why = text
    ? text.message
    : "the page holds no text of it. Export or record with --embed-sources, or let `sprof load --viewer` serve it";
  const hot = [...lines].filter(([, { own }]) => own > 0).sort((a, b) => b[1].own - a[1].own || a[0] - b[0]);
  const some = hot.slice(0, 3).map(([line, { own }]) => `${line} (${percent(own, sums().weight)})`);
  const known = some.length > 0 ? ` Most self: line ${some.join(", ")}.` : "";
  return `No source of ${short ?? path}${lib ? ` in ${lib}` : ""}: ${why}.${known}`;
}

/** Files with self weight, the largest first. */
function filesByWeight() {
  const weights = new Float64Array(profile.files.length + 1);
  const { byStack, totalOf } = sums();
  const isThere = new Uint8Array(weights.length);
  totalOf.forEach((total, func) => {
    if (total > 0) isThere[profile.file[func]] = 1;
  });
  byStack.forEach((own, stack) => {
    if (stack === 0 || own === 0) return;
    weights[fileOf(profile, stack)] += own;
    isThere[fileOf(profile, stack)] = 1;
  });
  const found = [...weights.keys()].slice(1).filter((file) => isThere[file]).map((file) => ({ file, own: weights[file] }));
  return found.sort((a, b) => b.own - a.own || a.file - b.file);
}

/** Asks the server that the page is from. @param {number} file */
async function askForSource(file) {
  const [path, , code] = profile.files[file - 1];
  const lib = code ? profile.libs[code[0] - 1] : undefined;
  if (!code || !lib?.[1]) {
    texts.set(file, new Error("no address of it is known"));
    return change({});
  }
  texts.set(file, null);
  try {
    const { source } = await post("source/v1", { debugName: lib[1], debugId: lib[2], moduleOffset: hex(code[1]), file: path });
    texts.set(file, source);
  } catch (problem) {
    texts.set(file, failure(problem));
  }
  if (state.tab === "source") change({});
}
