// @ts-check
// Machine code of a function with the samples of each instruction. The server disassembles; see the symbolicator's api.

/** @typedef {{start: number, size: number, arch: string, instructions: [number, string][]}} Code */
/** The start of the function at an address, by library and address. @type {Map<string, number | Error>} */
const functionStarts = new Map();
/** By library and start. @type {Map<string, Code | Error>} */
const codes = new Map();
let isAsking = false;

/** Switches between lines and instructions. */
function assemblySwitch() {
  const button = make("button", { type: "button", id: "asm", "aria-pressed": String(state.assembly) }, "Assembly");
  button.addEventListener("click", () => {
    change({ assembly: !state.assembly });
    byId("asm").focus();
  });
  return button;
}

/** Weights by library and address of the samples in the machine code of this function, and of functions inlined into it. @param {number} func */
function weightsOfCode(func) {
  const { places, names } = profile;
  /** @type {Map<number, Map<number, number>>} */
  const byLib = new Map();
  sums().byStack.forEach((weight, stack) => {
    if (!places || stack === 0 || weight === 0 || places.address[stack - 1] === 0) return;
    // All functions of this name, as in `sprof annotate`.
    if (names[places.machine[stack - 1] - 1] !== names[func]) return;
    const [lib, address] = [places.lib[stack - 1], places.address[stack - 1] - 1];
    const of = byLib.get(lib) ?? new Map();
    of.set(address, (of.get(address) ?? 0) + weight);
    byLib.set(lib, of);
  });
  return byLib;
}

/** @returns {{element: HTMLElement, shown: () => void}} */
function assemblyView() {
  const { func } = state;
  const byLib = func < 0 ? new Map() : weightsOfCode(func);
  const note = make("p", { class: "legend" });
  /** @type {{own: number, address: string, text: string}[]} */
  const rows = [];
  const whole = sums().weight;
  if (!profile.places) note.textContent = "A page in a file holds no machine code: `sprof load --viewer` serves it, `sprof annotate` prints it.";
  else if (func < 0) note.textContent = "Choose a function in another view: its machine code is shown here.";
  else if (byLib.size === 0) note.textContent = `None of the selected samples is in machine code of ${profile.names[func]}: it is inlined, or only calls others.`;
  else if (isMissing(byLib)) note.textContent = "Asking for the machine code ...";
  else {
    note.textContent = `${profile.names[func]}, with the functions that are inlined into it`;
    for (const [lib, weights] of byLib) addCode(lib, weights, rows);
  }
  if (byLib.size > 0 && isMissing(byLib)) askForCode(byLib);
  const list = rowList({
    label: "Machine code" + (func < 0 ? "" : " of " + profile.names[func]),
    className: "source asm",
    heads: ["Self", "Address", "Instruction"],
    cells: (row) => {
      const { own, address, text } = rows[row];
      return [own > 0 && address ? shareCell(own, whole) : "", address, make("code", {}, text)];
    },
    mark: (row, element) => {
      const { own, address } = rows[row];
      if (own <= 0 || !address) return;
      element.classList.add("hot");
      element.dataset.own = String(own);
    },
  });
  let hottest = 0;
  rows.forEach((row, at) => {
    if (row.address && row.own > rows[hottest].own) hottest = at;
  });
  return {
    element: make("div", { class: "source-view" }, make("div", { class: "bar" }, assemblySwitch(), note), rows.length > 0 && list.element),
    shown: () => {
      if (rows.length === 0) return;
      list.update(rows.length, hottest);
      list.element.scrollTop = Math.max(0, (hottest - 8) * ROW_PX);
    },
  };
}

/** @param {Map<number, Map<number, number>>} byLib */
function isMissing(byLib) {
  for (const [lib, weights] of byLib) {
    for (const address of weights.keys()) {
      const start = functionStarts.get(lib + " " + address);
      if (start === undefined || (typeof start === "number" && !codes.has(lib + " " + start))) return true;
    }
  }
  return false;
}

/** Appends a title and the instructions of each part. @param {number} lib @param {Map<number, number>} weights @param {{own: number, address: string, text: string}[]} rows */
function addCode(lib, weights, rows) {
  /** @type {Map<number, Map<number, number>>} */
  const byStart = new Map();
  for (const [address, weight] of weights) {
    const start = functionStarts.get(lib + " " + address);
    if (typeof start !== "number") {
      rows.push({ own: 0, address: "", text: `no machine code at 0x${address.toString(16)}: ${start?.message}` });
      continue;
    }
    byStart.set(start, (byStart.get(start) ?? new Map()).set(address, weight));
  }
  const name = profile.libs[lib - 1]?.[0] ?? "";
  for (const [start, of] of [...byStart].sort((a, b) => a[0] - b[0])) {
    const code = codes.get(lib + " " + start);
    const place = `0x${start.toString(16)} in ${name}`;
    if (!code || code instanceof Error) {
      rows.push({ own: 0, address: "", text: `no machine code at ${place}: ${code?.message}` });
      continue;
    }
    const { instructions } = code;
    const own = new Float64Array(instructions.length);
    let [all, behind] = [0, 0];
    for (const [address, weight] of of) {
      all += weight;
      const offset = address - code.start;
      // An address belongs to the last instruction that starts before or at it.
      let [low, high] = [0, instructions.length];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (instructions[middle][0] <= offset) low = middle + 1;
        else high = middle;
      }
      if (offset < code.size) own[Math.max(0, low - 1)] += weight;
      else behind += weight;
    }
    rows.push({ own: 0, address: "", text: `${place}, ${code.size} bytes of ${code.arch}: ${percent(all, sums().weight)}` });
    instructions.forEach(([offset, text], at) => {
      rows.push({ own: own[at], address: (code.start + offset).toString(16), text });
    });
    if (behind > 0) rows.push({ own: 0, address: "", text: `${percent(behind, sums().weight)} are behind: the function is too large` });
  }
}

/** @param {string} path @param {object} body */
async function post(path, body) {
  const answer = await (await fetch("../" + path, { method: "POST", body: JSON.stringify(body) })).json();
  if (answer.error) throw new Error(answer.error);
  return answer;
}

/** Asks the server that the page is from. @param {Map<number, Map<number, number>>} byLib */
async function askForCode(byLib) {
  if (isAsking) return;
  isAsking = true;
  const failed = (/** @type {unknown} */ problem) => (problem instanceof Error ? problem : new Error(String(problem)));
  for (const [lib, weights] of byLib) {
    const [, debugName, debugId] = profile.libs[lib - 1];
    const addresses = [...weights.keys()];
    try {
      const { results } = await post("symbolicate/v5", {
        memoryMap: [[debugName ?? "", debugId ?? ""]],
        stacks: [addresses.map((address) => [0, address])],
      });
      const [why] = Object.values(results[0].module_errors ?? {});
      addresses.forEach((address, at) => {
        const offset = Number(results[0].stacks[0][at].function_offset ?? 0);
        functionStarts.set(lib + " " + address, why ? new Error(String(why)) : address - offset);
      });
    } catch (problem) {
      for (const address of addresses) functionStarts.set(lib + " " + address, failed(problem));
    }
    /** The last sampled address of each function. @type {Map<number, number>} */
    const last = new Map();
    for (const address of addresses) {
      const start = functionStarts.get(lib + " " + address);
      if (typeof start === "number") last.set(start, Math.max(last.get(start) ?? 0, address));
    }
    for (const [start, end] of last) {
      const hex = (/** @type {number} */ number) => "0x" + number.toString(16);
      try {
        const answer = await post("asm/v1", {
          debugName,
          debugId,
          startAddress: hex(start),
          size: hex(end - start + 1),
          continueUntilFunctionEnd: true,
        });
        const { startAddress, size, arch, instructions } = answer;
        codes.set(lib + " " + start, { start: Number(startAddress), size: Number(size), arch, instructions });
      } catch (problem) {
        codes.set(lib + " " + start, failed(problem));
      }
    }
  }
  isAsking = false;
  if (state.tab === "source" && state.assembly) change({});
}
