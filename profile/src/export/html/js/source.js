// @ts-check
// Lines of a source file with their samples; with their text, if the profile or the server has it.

/** Texts by number of the file, from 1; a text that could not be had is an error. @type {Map<number, string | Error>} */
const texts = new Map();
/** The shown file if no function is chosen, or another one than the function's. */
let chosenFile = 0;
let chosenFileOf = -2;

/** @returns {{element: HTMLElement, shown: () => void}} */
function sourceTab() {
  if (state.assembly) return assemblyView();
  const files = filesByWeight();
  if (files.length === 0) {
    const text = "No source lines are known: compile with debug info, and keep it where the profile is made.";
    const bar = make("div", { class: "bar" }, assemblySwitch(), make("p", { class: "legend" }, text));
    return { element: make("div", { class: "source-view" }, bar), shown: () => {} };
  }
  if (chosenFileOf !== state.func) {
    const ofFunction = state.func >= 0 ? profile.file[state.func] : 0;
    const withText = files.find((row) => row.own > 0 && profile.sources.has(row.file - 1));
    chosenFile = ofFunction || chosenFile || (withText ?? files[0]).file;
    chosenFileOf = state.func;
  }
  const file = chosenFile || files[0].file;
  const choice = make("select", { id: "file" });
  const known = files.some((row) => row.file === file) ? files : [{ file, own: 0 }, ...files];
  for (const row of known.slice(0, 500)) {
    const [path, short] = profile.files[row.file - 1];
    choice.append(make("option", { value: row.file, selected: row.file === file }, `${short ?? path} (self ${percent(row.own, sums().weight)})`));
  }
  choice.addEventListener("change", () => {
    chosenFile = Number(choice.value);
    change({});
  });
  const lines = linesOf(profile, sums(), file);
  const text = texts.get(file) ?? profile.sources.get(file - 1);
  const known_lines = typeof text === "string" ? text.split(/\r\n|\r|\n/) : null;
  const numbers = known_lines ? known_lines.map((_, at) => at + 1) : [...lines.keys()].sort((a, b) => a - b);
  const whole = sums().weight;
  const list = rowList({
    label: "Lines of " + profile.files[file - 1][0],
    className: "source",
    heads: ["Self", "Total", "Line", "Source"],
    cells: (row) => {
      const line = lines.get(numbers[row]);
      return [
        line && line.own > 0 ? shareCell(line.own, whole) : "",
        line && line.total > 0 ? shareCell(line.total, whole) : "",
        String(numbers[row]),
        make("code", {}, (known_lines?.[numbers[row] - 1] ?? "").replace(/\t/g, "    ").slice(0, 2000)),
      ];
    },
    mark: (row, element) => {
      const line = lines.get(numbers[row]);
      if (!line) return;
      element.classList.add("hot");
      element.dataset.own = String(line.own);
      element.dataset.total = String(line.total);
    },
  });
  const note = make("p", { class: "legend" });
  if (!known_lines) {
    note.textContent =
      text instanceof Error
        ? `The text of this file can't be had: ${text.message}`
        : profile.address
          ? "Asking for the text of this file ..."
          : "The page does not hold the text of this file: record or export with --embed-sources.";
    if (profile.address && !texts.has(file)) askForSource(file);
  }
  if (state.func >= 0 && !profile.file[state.func]) note.prepend(`No source line is known of ${profile.names[state.func]}; this is another file. `);
  const bar = make("div", { class: "bar" }, make("label", {}, "File ", choice), assemblySwitch(), note);
  let hottest = 0;
  numbers.forEach((number, row) => {
    if ((lines.get(number)?.own ?? 0) > (lines.get(numbers[hottest])?.own ?? 0)) hottest = row;
  });
  return {
    element: make("div", { class: "source-view" }, bar, list.element),
    shown: () => {
      list.update(numbers.length, hottest);
      list.element.scrollTop = Math.max(0, (hottest - 8) * ROW_PX);
    },
  };
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
  if (!lib || !lib[1]) {
    texts.set(file, new Error("no address of it is known"));
    return change({});
  }
  texts.set(file, new Error("the server has not answered yet"));
  try {
    const answer = await fetch("../source/v1", {
      method: "POST",
      body: JSON.stringify({
        debugName: lib[1],
        debugId: lib[2],
        moduleOffset: "0x" + (code?.[1] ?? 0).toString(16),
        file: path,
      }),
    });
    const { source, error } = await answer.json();
    texts.set(file, typeof source === "string" ? source : new Error(error ?? "the server has no answer"));
  } catch (problem) {
    texts.set(file, problem instanceof Error ? problem : new Error(String(problem)));
  }
  if (state.tab === "source") change({});
}
