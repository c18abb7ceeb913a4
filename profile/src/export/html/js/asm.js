// @ts-check
// Machine code of a function with the samples of each instruction. The server disassembles; see the symbolicator's api.

/** `file`: the number of the path in the profile, or 0. @typedef {{func: string, path: string, line: number, file: number}} CodePlace */
/**
 * @typedef {object} Code
 * @property {number} start
 * @property {number} size
 * @property {string} arch
 * @property {[number, string][]} instructions Offset and text.
 * @property {CodePlace[][]} places Of each instruction, innermost first.
 */
/** @typedef {{own: number, total: number}} Weights */
/**
 * `address`: empty for a title. `at`: the row in its code.
 * @typedef {Weights & {address: string, tokens: TokenLine, places: CodePlace[], jumps: Jump[], at: number}} CodeRow
 */

/** The start of the function at an address, by library and address. @type {Map<string, number | Error>} */
const functionStarts = new Map();
/** By library and start. @type {Map<string, Code | Error>} */
const codes = new Map();
let isAsking = false;

/** Switches between lines and instructions, on a narrow page. */
function assemblySwitch() {
  const button = make("button", { type: "button", id: "asm", "aria-pressed": String(state.assembly) }, "Assembly");
  button.addEventListener("click", () => {
    change({ assembly: !state.assembly });
    byId("asm").focus();
  });
  return button;
}

/** In whose machine code a function ran, the most first: its own, or what it is inlined into. @param {number} func */
function machinesOf(func) {
  const { places, names, stackNode, tree } = profile;
  const totals = totalsByStack(profile, sums());
  const isOurs = names.map((name) => name === names[func]);
  /** @type {Map<string, {machine: number, total: number}>} */
  const found = new Map();
  for (let stack = 1; stack < totals.length; stack++) {
    const machine = (places?.machine[stack - 1] ?? 0) - 1;
    if (totals[stack] === 0 || machine < 0 || !isOurs[tree.func[stackNode[stack]]]) continue;
    const of = found.get(names[machine]);
    if (of) of.total += totals[stack];
    else found.set(names[machine], { machine, total: totals[stack] });
  }
  const isItself = (/** @type {number} */ machine) => (names[machine] === names[func] ? 1 : 0);
  return [...found.values()].sort((a, b) => isItself(b.machine) - isItself(a.machine) || b.total - a.total).map(({ machine }) => machine);
}

/**
 * Weights by library and address of the machine code of this function, and of what is inlined into it. A sample counts
 * once for each instruction.
 * @param {number} func
 */
function weightsOfCode(func) {
  const { places, names, stackCaller } = profile;
  /** @type {Map<number, Map<number, Weights>>} */
  const byLib = new Map();
  if (!places) return byLib;
  const { byStack } = sums();
  const totals = totalsByStack(profile, sums());
  // All functions of this name, as in `sprof annotate`.
  const isOurs = names.map((name) => name === names[func]);
  for (let stack = 1; stack < totals.length; stack++) {
    const [address, lib] = [places.address[stack - 1], places.lib[stack - 1]];
    if (totals[stack] === 0 || address === 0 || !isOurs[places.machine[stack - 1] - 1]) continue;
    const of = byLib.get(lib) ?? new Map();
    byLib.set(lib, of);
    const weights = of.get(address - 1) ?? { own: 0, total: 0 };
    of.set(address - 1, weights);
    weights.own += byStack[stack];
    // An inlined function has the address of the function that it is inlined into.
    let caller = stackCaller[stack];
    while (caller > 0 && !(totals[caller] > 0 && places.address[caller - 1] === address && places.lib[caller - 1] === lib)) caller = stackCaller[caller];
    if (caller === 0) weights.total += totals[stack];
  }
  return byLib;
}

/**
 * @param {() => void} chosen An instruction was chosen.
 * @returns {CodeSide & {show: (func: number, machine: number) => void}}
 */
function codeSide(chosen) {
  const element = make("div", { class: "side" });
  let [func, machine] = [functionOfSource(), -1];
  let follow = () => {};
  let shown = () => {};
  const fill = () => {
    const machines = func < 0 ? [] : machinesOf(func);
    if (!machines.includes(machine)) machine = machines[0] ?? -1;
    const view = machineCode(func, machine, machines, chosen, (other) => show(func, other));
    ({ follow, shown } = view);
    element.replaceChildren(...view.parts);
  };
  /** @param {number} of @param {number} other */
  const show = (of, other) => {
    const isShown = machine >= 0 && profile.names[other] === profile.names[machine];
    [func, machine] = [of, other];
    if (isShown) return;
    fill();
    shown();
  };
  fill();
  return { element, show, shown: () => shown(), follow: () => follow() };
}

/**
 * @param {number} func
 * @param {number} machine The function whose machine code is shown, or -1.
 * @param {number[]} machines Among which to choose.
 * @param {() => void} chosen
 * @param {(machine: number) => void} show
 */
function machineCode(func, machine, machines, chosen, show) {
  const note = make("p", { class: "legend" });
  const bar = make("div", { class: "bar" }, note);
  const nothing = { parts: [bar], follow: () => {}, shown: () => {} };
  if (func < 0) {
    note.textContent = "Choose a function: its machine code is shown here.";
    return nothing;
  }
  if (machine < 0) {
    note.textContent = `None of the selected samples is in machine code of ${profile.names[func]}.`;
    return nothing;
  }
  const byLib = weightsOfCode(machine);
  if (isMissing(byLib)) {
    note.textContent = "Asking for the machine code ...";
    askForCode(byLib);
    return nothing;
  }
  /** @type {CodeRow[]} */
  const rows = [];
  for (const [lib, weights] of byLib) addCode(lib, weights, rows);
  if (!rows.some(({ address }) => address)) {
    note.textContent = `${shortOf(machine)}: ${rows.map(({ tokens }) => tokens[0][1]).join(". ")}`;
    return nothing;
  }
  const choice = make("select", { id: "code" }, ...machines.map((of) => make("option", { value: of, selected: of === machine }, shortOf(of))));
  choice.addEventListener("change", () => show(Number(choice.value)));
  bar.prepend(machines.length > 1 ? make("label", {}, "Code of ", choice) : make("span", { title: profile.names[machine] }, `Code of ${shortOf(machine)}`));
  const jumps = [...new Set(rows.flatMap((row) => row.jumps))];
  // A function with several parts has such a loop in each.
  const loops = jumps.filter(({ isHot }) => isHot).map((jump) => loopOf(rows, jump));
  const [loop, ...others] = loops.sort((a, b) => b.own - a.own);
  for (const { jump } of others) jump.isHot = false;
  const whole = sums().weight;
  const isInlined = profile.names[func] !== profile.names[machine];
  const isOurs = (/** @type {CodeRow} */ { places }) => !isInlined || places.some((place) => place.func === profile.names[func]);
  const hottest = (/** @type {number[]} */ among) => among.sort((a, b) => rows[b].own - rows[a].own || rows[b].total - rows[a].total || a - b)[0];
  const instructions = [...rows.keys()].filter((row) => rows[row].address);
  note.textContent = `with what is inlined into it${isInlined ? `, as is ${shortOf(func)}` : ""}.` + (loop ? ` Hottest loop: ${loop.first} to ${loop.last}, self ${percent(loop.own, whole)}.` : "");
  const width = widthOf(jumps);
  let current = hottest(instructions.filter((row) => isOurs(rows[row]))) ?? hottest(instructions);
  const list = rowList({
    label: "Machine code of " + profile.names[machine],
    className: "source asm",
    heads: ["Self", "Total", "Address", "Jumps", "Instruction", "Source"],
    cells: (row) => {
      const { own, total, address, tokens, places, at } = rows[row];
      if (!address) return ["", "", "", "", codeCell(tokens), ""];
      const here = rows[row].jumps;
      const isCurrent = rows[current].jumps === here;
      const cells = [amountCell(own, whole), amountCell(total, whole), address, jumpsCell(here, width, at, isCurrent ? rows[current].at : -1)];
      return [...cells, codeCell(tokens), placeCell(places, rows[row - 1]?.places ?? [])];
    },
    mark: (row, element) => {
      const { own, total, address, places } = rows[row];
      if (!address) return element.classList.add("title");
      if (lineInShownFile(places) === chosenLine && chosenLine > 0) element.classList.add("linked");
      if (own <= 0 && total <= 0) return;
      element.classList.add("hot");
      element.dataset.own = String(own);
      element.dataset.total = String(total);
    },
    activate: (row) => {
      current = row;
      const { own, total, address, places } = rows[row];
      chosenLine = lineInShownFile(places);
      list.update(rows.length, row);
      const weights = own > 0 || total > 0 ? weightsInWords(own, total, [0, 0]) : "no samples";
      if (address) hint(`${weights}: ${address}${places.length > 0 ? `, ${placesInWords(places)}` : ""}`);
      chosen();
    },
    open: (row) => {
      const [place] = rows[row].places;
      if (!place?.file || !place.line) return;
      showFile(place.file);
      chosenLine = place.line;
      chosenFileOf = state.func;
      change({});
    },
    key: (_, event) => functionKey(func, event),
  });
  noteSide(list.element, true);
  list.element.style.setProperty("--code", longest(rows.map(({ tokens }) => tokens.reduce((sum, [, part]) => sum + part.length, 0))));
  list.element.style.setProperty("--jumps", width + "px");
  list.element.style.setProperty("--place", rows.reduce((most, { places }) => Math.max(most, shortPlace(places[0]).length), 6) * 8 + "px");
  list.element.style.setProperty("--address", Math.max(7, ...rows.slice(-1).map(({ address }) => address.length)) * 8.5 + "px");
  const toCurrent = () => {
    const linked = [...rows.keys()].filter((row) => chosenLine > 0 && lineInShownFile(rows[row].places) === chosenLine);
    if (!linked.includes(current)) current = hottest(linked) ?? current;
    showRow(list, rows.length, current);
  };
  return {
    parts: [bar, list.element],
    follow: toCurrent,
    shown: toCurrent,
  };
}

/** The instructions of a loop. @param {CodeRow[]} rows @param {Jump} jump From its end to its start. */
function loopOf(rows, jump) {
  const start = rows.findIndex(({ jumps }) => jumps.includes(jump));
  const inside = rows.slice(start + jump.to, start + jump.from + 1);
  const own = inside.reduce((sum, row) => sum + row.own, 0);
  return { jump, own, first: inside[0].address, last: inside[inside.length - 1].address };
}

/** The innermost line in the shown file, or 0. @param {CodePlace[]} places */
function lineInShownFile(places) {
  return places.find(({ file }) => file === chosenFile)?.line ?? 0;
}

/** `merge.rs:12`; a path of Rust's library ends with a commit. @param {CodePlace | undefined} place */
function shortPlace(place) {
  return place?.line ? `${/[^/\\:]*(?=(:[\da-f]+)?$)/.exec(place.path)?.[0]}:${place.line}` : "";
}

/**
 * The source of an instruction, unless it is that of the one before.
 * @param {CodePlace[]} places @param {CodePlace[]} before
 */
function placeCell(places, before) {
  const place = shortPlace(places[0]);
  if (!place || place === shortPlace(before[0])) return "";
  const isSameFile = places[0].path === before[0]?.path;
  return make("span", { class: "place", title: placesInWords(places) }, isSameFile ? ":" + places[0].line : place);
}

/** `push (vec.rs:10), inlined into work (a.rs:42)` @param {CodePlace[]} places */
function placesInWords(places) {
  return places.map((place) => `${place.func} (${shortPlace(place) || "no line"})`).join(", inlined into ");
}

/** @param {Map<number, Map<number, Weights>>} byLib */
function isMissing(byLib) {
  for (const [lib, weights] of byLib) {
    for (const address of weights.keys()) {
      const start = functionStarts.get(lib + " " + address);
      if (start === undefined || (typeof start === "number" && !codes.has(lib + " " + start))) return true;
    }
  }
  return false;
}

/**
 * Appends a title and the instructions of each part.
 * @param {number} lib @param {Map<number, Weights>} weights @param {CodeRow[]} rows
 */
function addCode(lib, weights, rows) {
  /** @param {string} text */
  const title = (text) => rows.push({ own: 0, total: 0, address: "", tokens: [["", text]], places: [], jumps: [], at: 0 });
  /** @type {Map<number, Map<number, Weights>>} */
  const byStart = new Map();
  /** Self by reason. @type {Map<string, number>} */
  const without = new Map();
  for (const [address, weight] of weights) {
    const start = functionStarts.get(lib + " " + address);
    if (typeof start === "number") byStart.set(start, (byStart.get(start) ?? new Map()).set(address, weight));
    else without.set(`${start?.message}`, (without.get(`${start?.message}`) ?? 0) + weight.own);
  }
  const name = profile.libs[lib - 1]?.[0] ?? "";
  for (const [why, own] of without) title(`no machine code of self ${percent(own, sums().weight)} in ${name}: ${why}`);
  for (const [start, of] of [...byStart].sort((a, b) => a[0] - b[0])) {
    const code = codes.get(lib + " " + start);
    const place = `${hex(start)} in ${name}`;
    if (!code || code instanceof Error) {
      title(`no machine code at ${place}: ${code?.message}`);
      continue;
    }
    const { instructions } = code;
    const [own, total] = [new Float64Array(instructions.length), new Float64Array(instructions.length)];
    let [all, behind] = [0, 0];
    for (const [address, weight] of of) {
      all += weight.own;
      const offset = address - code.start;
      // An address belongs to the last instruction that starts before or at it.
      let [low, high] = [0, instructions.length];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (instructions[middle][0] <= offset) low = middle + 1;
        else high = middle;
      }
      if (offset >= code.size) behind += weight.own;
      else {
        own[Math.max(0, low - 1)] += weight.own;
        total[Math.max(0, low - 1)] += weight.total;
      }
    }
    title(`${place}, ${code.size} bytes of ${code.arch}: self ${percent(all, sums().weight)}`);
    const jumps = jumpsOf(instructions.map(([, text]) => text), own);
    instructions.forEach(([offset, text], at) => {
      const address = (code.start + offset).toString(16);
      rows.push({ own: own[at], total: total[at], address, tokens: tokensOfInstruction(text), places: code.places[at], jumps, at });
    });
    if (behind > 0) title(`${percent(behind, sums().weight)} are behind: the function is too large`);
  }
}

/** @param {number} number */
const hex = (number) => "0x" + number.toString(16);
/** @param {unknown} problem */
const failure = (problem) => (problem instanceof Error ? problem : new Error(String(problem)));

/** Asks the server that the page is from. @param {string} path @param {object} body */
async function post(path, body) {
  const answer = await (await fetch("../" + path, { method: "POST", body: JSON.stringify(body) })).json();
  if (answer.error) throw new Error(answer.error);
  return answer;
}

/** What the symbols say of addresses of a library. @param {number} lib @param {number[]} addresses */
async function describe(lib, addresses) {
  const [, debugName, debugId] = profile.libs[lib - 1];
  const { results } = await post("symbolicate/v5", { memoryMap: [[debugName ?? "", debugId ?? ""]], stacks: [addresses.map((address) => [0, address])] });
  const [why] = Object.values(results[0].module_errors ?? {});
  if (why) throw new Error(String(why));
  return results[0].stacks[0];
}

/** The lines of an address, innermost function first. @param {any} answer @param {Map<string, number>} files */
function placesOf(answer, files) {
  const frames = [...(answer.inlines ?? []), answer];
  return frames.map((/** @type {any} */ { function: func = "", file = "", line = 0 }) => ({ func, path: file, line, file: files.get(file) ?? 0 }));
}

/** @param {Map<number, Map<number, Weights>>} byLib */
async function askForCode(byLib) {
  if (isAsking) return;
  isAsking = true;
  const files = new Map(profile.files.map(([path], at) => [path, at + 1]));
  for (const [lib, weights] of byLib) {
    const [, debugName, debugId] = profile.libs[lib - 1];
    const addresses = [...weights.keys()];
    try {
      const answers = await describe(lib, addresses);
      addresses.forEach((address, at) => functionStarts.set(lib + " " + address, address - Number(answers[at].function_offset ?? 0)));
    } catch (problem) {
      for (const address of addresses) functionStarts.set(lib + " " + address, failure(problem));
    }
    /** The last sampled address of each function. @type {Map<number, number>} */
    const last = new Map();
    for (const address of addresses) {
      const start = functionStarts.get(lib + " " + address);
      if (typeof start === "number") last.set(start, Math.max(last.get(start) ?? 0, address));
    }
    for (const [start, end] of last) {
      try {
        const asked = { debugName, debugId, startAddress: hex(start), size: hex(end - start + 1), continueUntilFunctionEnd: true };
        const { startAddress, size, arch, instructions } = await post("asm/v1", asked);
        const answers = await describe(lib, instructions.map((/** @type {[number, string]} */ [offset]) => Number(startAddress) + offset));
        const places = answers.map((/** @type {any} */ answer) => placesOf(answer, files));
        codes.set(lib + " " + start, { start: Number(startAddress), size: Number(size), arch, instructions, places });
      } catch (problem) {
        codes.set(lib + " " + start, failure(problem));
      }
    }
  }
  isAsking = false;
  if (state.tab === "source") change({});
}
