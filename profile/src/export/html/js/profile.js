// @ts-check
// The page's data, as `data.rs` writes them.

/**
 * @typedef {object} Samples The samples of a thread, of one kind.
 * @property {number} thread
 * @property {Float64Array} time Microseconds since the start.
 * @property {Float64Array} stack
 * @property {Float64Array | null} weight `null`: `each`.
 * @property {number} each
 * @property {Float64Array | null} count
 * @property {Float64Array} [variance] Of the weight, of blocks of memory.
 * @property {boolean} sorted
 */
/**
 * @typedef {object} Kind What can be counted.
 * @property {string} name
 * @property {boolean} waits
 * @property {"samples" | "ns" | "bytes" | "count"} unit
 * @property {string | null} unitName
 * @property {number | null} intervalNs
 * @property {number} samples
 * @property {"none" | "weight" | "one"} rowsAre
 * @property {boolean} [isPartOfTime] Weights are parts of the samples' time.
 * @property {boolean} hasTimes
 * @property {number} unusable
 * @property {Samples[]} threads
 * @property {Float64Array | null} totals
 * @property {Float64Array[] | null} arcs caller, callee, calls, cost
 * @property {Measure} [measure] Of the heap.
 */
/** @typedef {{name: string, process: string, pid: string, tid: string, main: boolean, start: number | null, end: number | null}} Thread */
/** @typedef {{name: string, unit: string, rate: boolean, thread: number | null, ofThread: boolean, place: "threads" | "process" | "machine", most: number, time: Float64Array, value: Float64Array}} CounterLine */
/** @typedef {{what: string, count: number | null, ns: number | null, words: string | null}} LimitRow */
/**
 * @typedef {object} Recorded
 * @property {string} event
 * @property {string} kernelCode
 * @property {number | null} askedRateHz
 * @property {number | null} achievedRateHz
 * @property {number | null} [samples]
 * @property {number} lost
 * @property {number} truncated
 * @property {number} unverified
 * @property {number} [stacksBeside]
 * @property {number} [truncatedBeside]
 * @property {number} [unverifiedBeside]
 * @property {object} [heap]
 * @property {{sampledNs: number, parts: number}} [sampled]
 * @property {LimitRow[]} limits
 */
/**
 * @typedef {object} About
 * @property {string} product
 * @property {string} arguments
 * @property {string} by
 * @property {string} os
 * @property {string} cpu
 * @property {number} startMs
 * @property {number | null} durationMs
 * @property {number} processes
 * @property {number} threads
 * @property {boolean} symbolicated
 * @property {boolean} newer
 * @property {boolean} exact
 * @property {Recorded | null} recorded
 * @property {{label: string, rows: [string, string | number | null, string][]}[]} extra
 * @property {string[]} notes
 */
/**
 * @typedef {object} Tree Call paths of functions. A node comes after its parent; node 0 is the root.
 * @property {number} size
 * @property {Int32Array} parent
 * @property {Int32Array} func -1 for the root
 * @property {Int32Array} first First child, or -1.
 * @property {Int32Array} next Next sibling, or -1.
 * @property {Uint8Array} outermost 1 if no caller is the same function.
 * @property {Uint8Array} inlined
 */
/**
 * @typedef {object} Profile
 * @property {About} about
 * @property {"paths" | "arcs" | "unknown"} calls
 * @property {{function: [number, number, number, number] | null, short: string | null} | null} headline A function of the program, its share of
 * all, the hottest function in it, and that one's self as a share of the first; what was short.
 * @property {[number, number] | null} nameless Samples in code without a name, and all, of the first kind.
 * @property {Kind[]} kinds
 * @property {Blocks[]} heap
 * @property {Thread[]} threads
 * @property {CounterLine[]} counters
 * @property {{names: string[], texts: string[], leftOut: number, thread: Float64Array, name: Float64Array, start: Float64Array, duration: Float64Array, text: Float64Array, kind: Float64Array}} markers `kind`: 1 a span, 2 an async span, 0 another marker.
 * @property {string[]} names Of functions.
 * @property {Record<number, string>} shorts Of functions: names as people write them, where these are shorter.
 * @property {Int32Array} lib Of functions; 0 is none.
 * @property {Int32Array} file Of functions; 0 is none.
 * @property {Int32Array} code Kind of code of functions.
 * @property {{address: Float64Array, lib: Float64Array, machine: Float64Array} | null} places The instruction of each stack but the first: address
 * plus one, library, function of the machine code plus one; 0 is none. Only of a served profile.
 * @property {[string, number, number, number][]} codes Name, hue, saturation, lightness.
 * @property {[string, string?, string?][]} libs Name, debug name, debug id.
 * @property {[string, string | null, [number, number] | null][]} files Path, short path, and of a served profile code of the file: library and address.
 * @property {Map<number, string>} sources By number of the file, from 0.
 * @property {Tree} tree
 * @property {Int32Array} stackNode
 * @property {Int32Array} stackLine 0 is none.
 * @property {Int32Array} stackFile The file of the line, where that is not the function's; from 1, 0 is none.
 * @property {Int32Array} stackCaller
 * @property {Diff | null} diff Of a comparison.
 * @property {Int32Array} byName Rank of each function's name.
 * @property {number} endUs
 */

/**
 * @param {ArrayBuffer} buffer
 * @returns {Profile}
 */
function readProfile(buffer) {
  const headLength = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, headLength)));
  const bytes = new Uint8Array(buffer, 4 + headLength);

  /** LEB128 numbers; see columns.rs. @param {number} at */
  const column = (at) => {
    const [offset, length, isDelta] = head.columns[at];
    const out = new Float64Array(length);
    let from = offset;
    let before = 0;
    for (let row = 0; row < length; row++) {
      let byte = bytes[from++];
      let number = byte & 0x7f;
      // 28 bits fit into a shift; what is longer is multiplied.
      for (let shift = 7; byte & 0x80; shift += 7) {
        byte = bytes[from++];
        number += shift < 28 ? (byte & 0x7f) << shift : (byte & 0x7f) * 2 ** shift;
      }
      if (isDelta) {
        before += number % 2 ? -(number + 1) / 2 : number / 2;
        number = before;
      }
      out[row] = number;
    }
    return out;
  };
  /** @param {number} at */
  const ints = (at) => Int32Array.from(column(at));

  const { tree, stackNode, stackLine, stackCaller } = readTree(head.stacks, column);
  const stackFile = new Int32Array(stackLine.length);
  if (head.lineFile !== undefined) stackFile.set(column(head.lineFile), 1);
  const kinds = head.kinds.map((/** @type {any} */ kind) => ({
    ...kind,
    totals: kind.totals === null ? null : column(kind.totals),
    arcs: kind.arcs && kind.arcs.map(column),
    threads: kind.threads.map((/** @type {any} */ of) => {
      const time = column(of.time);
      const isEach = typeof of.weight === "object";
      return {
        thread: of.thread,
        time,
        stack: column(of.stack),
        weight: isEach ? null : column(of.weight),
        each: isEach ? of.weight.each : 0,
        count: of.count === null ? null : column(of.count),
        sorted: isSorted(time),
      };
    }),
  }));
  /** @type {Blocks[]} */
  const heap = head.heap.threads.map((/** @type {any} */ of) => {
    const [time, life, weight, size] = [of.time, of.life, of.weight, of.size].map(column);
    return {
      thread: of.thread,
      end: of.end ?? Infinity,
      time,
      freed: time.map((at, row) => (life[row] === 0 ? Infinity : at + life[row] - 1)),
      stack: column(of.stack),
      weight,
      chance: weight.map((of, row) => (size[row] === 0 ? NaN : of > 0 ? Math.min(1, (size[row] - 1) / of) : 1)),
    };
  });
  kinds.push(...head.heap.measures.map((/** @type {Measure} */ measure) => kindOfMeasure(heap, measure)));
  const names = head.funcs.name.map((/** @type {string} */ name) => name || "[unknown]");
  const order = [...names.keys()].sort((a, b) => (names[a] < names[b] ? -1 : names[a] > names[b] ? 1 : a - b));
  const byName = new Int32Array(names.length);
  order.forEach((func, rank) => (byName[func] = rank));
  let endUs = (head.about.durationMs ?? 0) * 1000;
  for (const kind of kinds) {
    for (const of of kind.threads) {
      const last = of.time.length - 1;
      endUs = Math.max(endUs, of.time[last] + (kind.waits ? (of.weight?.[last] ?? of.each) / 1000 : 0));
    }
  }
  return {
    about: head.about,
    headline: head.headline,
    nameless: head.nameless,
    calls: head.calls,
    kinds,
    heap,
    threads: head.threads,
    counters: head.counters.map((/** @type {any} */ line) => ({
      ...line,
      time: column(line.time),
      value: column(line.value),
    })),
    markers: {
      ...head.markers,
      thread: column(head.markers.thread),
      name: column(head.markers.name),
      start: column(head.markers.start),
      duration: column(head.markers.duration),
      text: column(head.markers.text),
      kind: column(head.markers.kind),
    },
    names,
    shorts: head.funcs.short,
    lib: ints(head.funcs.lib),
    file: ints(head.funcs.file),
    code: ints(head.funcs.code),
    places: head.places === null ? null : { address: column(head.places[0]), lib: column(head.places[1]), machine: column(head.places[2]) },
    diff: head.diff,
    codes: head.code,
    libs: head.libs,
    files: head.files,
    sources: new Map(Object.entries(head.sources).map(([file, text]) => [Number(file), String(text)])),
    tree,
    stackNode,
    stackLine,
    stackFile,
    stackCaller,
    byName,
    endUs: Math.max(1, Math.ceil(endUs)),
  };
}

/** A call for each of a million times takes four times as long. @param {Float64Array} times */
function isSorted(times) {
  for (let row = 1; row < times.length; row++) if (times[row - 1] > times[row]) return false;
  return true;
}

/**
 * See stacks.rs.
 * @param {any} head
 * @param {(at: number) => Float64Array} column
 */
function readTree(head, column) {
  const depth = column(head.depth);
  const funcs = column(head.func);
  const inlines = column(head.inlined);
  const stacks = column(head.stacks);
  const lines = column(head.line);
  const callers = column(head.caller);
  const size = depth.length + 1;
  const tree = emptyTree(size);
  const firstStack = new Int32Array(size);
  const stackNode = new Int32Array(lines.length + 1);
  const stackLine = new Int32Array(lines.length + 1);
  const stackCaller = new Int32Array(lines.length + 1);
  /** The path to the node, and each depth's last child so far. */
  const path = [0];
  const last = new Int32Array(size).fill(-1);
  let stack = 1;
  for (let node = 1; node < size; node++) {
    const parent = path[depth[node - 1] - 1];
    path.length = depth[node - 1];
    path.push(node);
    tree.parent[node] = parent;
    tree.func[node] = funcs[node - 1];
    tree.inlined[node] = inlines[node - 1];
    if (last[parent] < 0) tree.first[parent] = node;
    else tree.next[last[parent]] = node;
    last[parent] = node;
    firstStack[node] = stack;
    for (let left = stacks[node - 1]; left > 0; left--, stack++) {
      stackNode[stack] = node;
      stackLine[stack] = lines[stack - 1];
      stackCaller[stack] = firstStack[parent] + callers[stack - 1];
    }
  }
  markOutermost(tree, funcs.reduce((most, func) => Math.max(most, func), -1) + 1);
  return { tree, stackNode, stackLine, stackCaller };
}

/** @param {number} size @returns {Tree} */
function emptyTree(size) {
  return {
    size,
    parent: new Int32Array(size).fill(-1),
    func: new Int32Array(size).fill(-1),
    first: new Int32Array(size).fill(-1),
    next: new Int32Array(size).fill(-1),
    outermost: new Uint8Array(size),
    inlined: new Uint8Array(size),
  };
}

/** A recursive function counts once for each sample. @param {Tree} tree @param {number} funcs */
function markOutermost(tree, funcs) {
  const onPath = new Int32Array(funcs);
  let node = tree.first[0];
  const path = [];
  while (true) {
    if (node >= 0) {
      tree.outermost[node] = onPath[tree.func[node]]++ === 0 ? 1 : 0;
      path.push(node);
      node = tree.first[node];
    } else {
      const done = path.pop();
      if (done === undefined) return;
      onPath[tree.func[done]]--;
      node = tree.next[done];
    }
  }
}
