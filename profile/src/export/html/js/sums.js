// @ts-check
// Sums of the selected samples. Weights come with the data: nothing is estimated here.

/** @typedef {{from: number, to: number}} TimeSpan Microseconds; `to` is exclusive. */
/**
 * @typedef {object} Selected What is selected.
 * @property {Kind} kind
 * @property {TimeSpan | null} range
 * @property {Set<number> | null} threads
 * @property {number[]} hidden Functions that are left out of stacks.
 * @property {number[]} focus Functions of which each one must be on the stack.
 * @property {number[]} dropped Functions of which none may be on the stack.
 * @property {number} code The kind of code that ran, or -1.
 */
/**
 * @typedef {object} Sums
 * @property {Tree} tree
 * @property {Float64Array} own By node.
 * @property {Float64Array} total By node.
 * @property {number} weight Of all selected samples.
 * @property {number} samples
 * @property {Float64Array} ownOf By function.
 * @property {Float64Array} totalOf By function.
 * @property {number[]} hidden Functions that are left out.
 * @property {Float64Array} byStack By stack of the profile, with its lines. Those of hidden functions are 0.
 * @property {Sums | null} variance Of all of these, of measures of the heap.
 */

/** The first row at this time or later. @param {Float64Array} times @param {number} at */
function firstAt(times, at) {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * @param {Profile} profile
 * @param {Selected} selected
 * @returns {Sums}
 */
function sumsOf(profile, selected) {
  const samples = samplesOf(profile, selected.kind, selected.range, selected.threads);
  return { ...addUp(profile, selected, samples, false), variance: selected.kind.measure ? addUp(profile, selected, samples, true) : null };
}

/**
 * @param {Profile} profile
 * @param {Selected} selected
 * @param {Samples[]} samples
 * @param {boolean} isVariance Adds up the variances of the weights.
 * @returns {Sums}
 */
function addUp(profile, selected, samples, isVariance) {
  const { kind, range, threads } = selected;
  const byStack = new Float64Array(profile.stackNode.length);
  const counts = new Float64Array(profile.stackNode.length);
  for (const of of samples) {
    if (threads && !threads.has(of.thread)) continue;
    const { stack, each, count: number } = of;
    const weight = isVariance ? (of.variance ?? null) : of.weight;
    const [one, ofWeight] = [kind.rowsAre === "one" ? 1 : 0, kind.rowsAre === "weight" ? 1 : 0];
    // A call for each of a million samples takes twice as long.
    const { time, sorted } = of;
    const [first, last] = sorted && range ? [firstAt(time, range.from), firstAt(time, range.to)] : [0, time.length];
    for (let row = first; row < last; row++) {
      if (range && !sorted && (time[row] < range.from || time[row] >= range.to)) continue;
      const at = stack[row];
      const w = weight ? weight[row] : each;
      byStack[at] += w;
      counts[at] += number ? number[row] : one + ofWeight * w;
    }
  }
  const base = profile.tree;
  if (selected.focus.length > 0 || selected.dropped.length > 0 || selected.code >= 0) {
    const isSelected = stacksWith(profile, selected.focus.map((func) => (of) => of === func), selected);
    for (let stack = 0; stack < byStack.length; stack++) {
      if (!isSelected[stack]) byStack[stack] = counts[stack] = 0;
    }
  }
  let weight = 0;
  let count = 0;
  let own = new Float64Array(base.size);
  for (let stack = 0; stack < byStack.length; stack++) {
    own[profile.stackNode[stack]] += byStack[stack];
    weight += byStack[stack];
    count += counts[stack];
  }
  let tree = base;
  if (selected.hidden.length > 0) {
    ({ tree, own } = without(profile, base, own, selected.hidden));
    // A caller's stack is of a node before.
    for (let stack = byStack.length - 1; stack > 0; stack--) {
      if (!selected.hidden.includes(base.func[profile.stackNode[stack]])) continue;
      byStack[profile.stackCaller[stack]] += byStack[stack];
      byStack[stack] = 0;
    }
  }
  const total = own.slice();
  for (let node = tree.size - 1; node > 0; node--) total[tree.parent[node]] += total[node];
  const ownOf = new Float64Array(profile.names.length);
  const totalOf = new Float64Array(profile.names.length);
  for (let node = 1; node < tree.size; node++) {
    ownOf[tree.func[node]] += own[node];
    if (tree.outermost[node]) totalOf[tree.func[node]] += total[node];
  }
  if (kind.totals) totalOf.set(kind.totals);
  return { tree, own, total, weight, samples: count, ownOf, totalOf, byStack, hidden: selected.hidden, variance: null };
}

/**
 * For each stack, 1 if each of these tests holds for a function on the stack, none is dropped, and its innermost function is of the kind of code.
 * @param {Profile} profile @param {((func: number) => boolean)[]} tests @param {{dropped: number[], code: number}} selected
 */
function stacksWith(profile, tests, { dropped, code }) {
  const { tree, stackNode } = profile;
  const isSelected = new Uint8Array(stackNode.length).fill(1);
  /** @param {(func: number) => boolean} test @param {0 | 1} wanted */
  const keep = (test, wanted) => {
    const isOn = new Uint8Array(tree.size);
    for (let node = 1; node < tree.size; node++) {
      if (isOn[tree.parent[node]] || test(tree.func[node])) isOn[node] = 1;
    }
    stackNode.forEach((node, stack) => {
      if (isOn[node] !== wanted) isSelected[stack] = 0;
    });
  };
  for (const test of tests) keep(test, 1);
  if (dropped.length > 0) keep((func) => dropped.includes(func), 0);
  if (code >= 0) codesOfStacks(profile).forEach((of, stack) => (isSelected[stack] &= of === code + 1 ? 1 : 0));
  return isSelected;
}

/** @type {Uint8Array | null} */
let knownCodes = null;

/** The kind of code of each stack's innermost function, plus one; 0 without a function. @param {Profile} profile */
function codesOfStacks({ stackNode, tree, code }) {
  if (knownCodes) return knownCodes;
  const codes = new Uint8Array(stackNode.length);
  stackNode.forEach((node, stack) => (codes[stack] = node > 0 ? code[tree.func[node]] + 1 : 0));
  return (knownCodes = codes);
}

/**
 * Adds the weights of a thread's samples to bins of time.
 * @param {Float64Array[]} sets Bins of equal length.
 * @param {Kind} kind
 * @param {Samples} samples
 * @param {Uint8Array} setOf By stack: 0 is no bins, 1 the first ones.
 * @param {TimeSpan} span Of all bins.
 * @param {number} nsPerWeight How long before its time a sample is spread, for each unit of weight; 0 adds it to the bin of its time. A wait always
 * spreads over the time that it lasts.
 */
function addToBins(sets, kind, samples, setOf, span, nsPerWeight) {
  const { time, stack, weight, each, sorted } = samples;
  const number = sets[0].length;
  const scale = number / (span.to - span.from);
  for (let row = sorted && !kind.waits ? firstAt(time, span.from) : 0; row < time.length; row++) {
    const set = setOf[stack[row]];
    if (set === 0) continue;
    const bins = sets[set - 1];
    const w = weight ? weight[row] : each;
    const at = (time[row] - span.from) * scale;
    const ns = kind.waits ? w : kind.isPartOfTime ? (kind.intervalNs ?? 0) : w * nsPerWeight;
    const length = (ns / 1000) * scale;
    if (length <= 0) {
      const bin = Math.floor(at);
      if (bin >= 0 && bin < number) bins[bin] += w;
      continue;
    }
    const start = kind.waits ? at : at - length;
    if (start >= number && sorted && (kind.waits || !weight)) break;
    const end = start + length;
    const first = Math.floor(start);
    // Most samples are of one bin.
    if (end <= first + 1) {
      if (first >= 0 && first < number) bins[first] += w;
      continue;
    }
    for (let bin = Math.max(0, first); bin < Math.min(number, end); bin++) {
      bins[bin] += (w * (Math.min(bin + 1, end) - Math.max(bin, start))) / length;
    }
  }
}

/**
 * The tree without these functions. Their callers get their weight.
 * @param {Profile} profile
 * @param {Tree} base
 * @param {Float64Array} baseOwn
 * @param {number[]} hidden
 */
function without(profile, base, baseOwn, hidden) {
  const isHidden = new Uint8Array(profile.names.length);
  for (const func of hidden) isHidden[func] = 1;
  const funcs = profile.names.length;
  const kept = new Int32Array(base.size);
  /** @type {Map<number, number>} */
  const children = new Map();
  const parents = [-1];
  const ofNode = [-1];
  const inlined = [0];
  const own = [baseOwn[0]];
  for (let node = 1; node < base.size; node++) {
    const parent = kept[base.parent[node]];
    const func = base.func[node];
    if (isHidden[func]) {
      kept[node] = parent;
      own[parent] += baseOwn[node];
      continue;
    }
    const key = parent * funcs + func;
    let at = children.get(key);
    if (at === undefined) {
      at = parents.length;
      children.set(key, at);
      parents.push(parent);
      ofNode.push(func);
      inlined.push(1);
      own.push(0);
    }
    inlined[at] &= base.inlined[node];
    own[at] += baseOwn[node];
    kept[node] = at;
  }
  const tree = emptyTree(parents.length);
  tree.parent.set(parents);
  tree.func.set(ofNode);
  tree.inlined.set(inlined);
  // Siblings in the order of their names.
  const order = [...parents.keys()].slice(1);
  order.sort((a, b) => profile.byName[ofNode[b]] - profile.byName[ofNode[a]]);
  for (const node of order) {
    tree.next[node] = tree.first[parents[node]];
    tree.first[parents[node]] = node;
  }
  markOutermost(tree, funcs);
  return { tree, own: Float64Array.from(own) };
}

/**
 * @typedef {object} Branch A row of a call tree, and what is below it.
 * @property {number} func -1 for the root.
 * @property {number} own
 * @property {number} total
 * @property {Variances} variances
 * @property {() => Branch[]} children
 * @property {boolean} hasChildren
 * @property {number} node Of the tree, if it is one.
 */

/** @typedef {[number, number]} Variances Of self and of total; 0 where nothing is estimated. */

/** @param {Sums} sums @param {number} node @returns {Variances} */
const variancesOf = ({ variance }, node) => [variance?.own[node] ?? 0, variance?.total[node] ?? 0];

/** Largest total first, then by name. @param {Profile} profile @param {Branch[]} branches */
function sorted(profile, branches) {
  return branches.sort((a, b) => b.total - a.total || profile.byName[a.func] - profile.byName[b.func]);
}

/**
 * From the roots.
 * @param {Profile} profile
 * @param {Sums} sums
 * @param {number} [node]
 * @returns {Branch}
 */
function topDown(profile, sums, node = 0) {
  const { tree, own, total } = sums;
  return {
    func: tree.func[node],
    own: own[node],
    total: total[node],
    variances: variancesOf(sums, node),
    node,
    hasChildren: hasWeightBelow(sums, node),
    children: () => {
      const found = [];
      for (let child = tree.first[node]; child >= 0; child = tree.next[child]) {
        if (total[child] > 0) found.push(topDown(profile, sums, child));
      }
      return sorted(profile, found);
    },
  };
}

/** @param {Sums} sums @param {number} node */
function hasWeightBelow(sums, node) {
  return sums.total[node] > sums.own[node];
}

/**
 * The paths from nodes to their roots, by function. `nodes` and `ends` are of equal length.
 * @param {Profile} profile
 * @param {Sums} sums
 * @param {number} func
 * @param {number} own
 * @param {number[]} nodes Where the paths go on; 0 is the end.
 * @param {number[]} ends The nodes whose weight it is.
 * @param {"own" | "total"} which Of their weights.
 * @returns {Branch}
 */
function upwards(profile, sums, func, own, nodes, ends, which) {
  const { tree, variance } = sums;
  let [total, ofTotal] = [0, 0];
  for (const end of ends) {
    total += sums[which][end];
    ofTotal += variance?.[which][end] ?? 0;
  }
  return {
    func,
    own,
    total,
    variances: [ofTotal, ofTotal],
    node: -1,
    hasChildren: nodes.some((node) => node > 0),
    children: () => {
      /** @type {Map<number, [number[], number[]]>} */
      const groups = new Map();
      nodes.forEach((node, at) => {
        if (node <= 0) return;
        const of = tree.func[node];
        let group = groups.get(of);
        if (!group) groups.set(of, (group = [[], []]));
        group[0].push(tree.parent[node]);
        group[1].push(ends[at]);
      });
      const found = [];
      for (const [of, [parents, parts]] of groups) found.push(upwards(profile, sums, of, 0, parents, parts, which));
      return sorted(profile, found);
    },
  };
}

/** Functions by self, with their callers below. @param {Profile} profile @param {Sums} sums */
function bottomUp(profile, sums) {
  const nodes = [];
  for (let node = 1; node < sums.tree.size; node++) if (sums.own[node] > 0) nodes.push(node);
  const root = upwards(profile, sums, -1, 0, nodes, nodes, "own");
  const children = root.children;
  // What a function is here for is its self weight.
  root.children = () => children().map((branch) => ({ ...branch, own: branch.total }));
  return root;
}

/**
 * The callers of a function. The outermost call counts.
 * @param {Profile} profile @param {Sums} sums @param {number} func
 */
function callersOf(profile, sums, func) {
  const { tree, total } = sums;
  const nodes = [];
  const ends = [];
  for (let node = 1; node < tree.size; node++) {
    if (tree.func[node] === func && tree.outermost[node] && total[node] > 0) {
      nodes.push(tree.parent[node]);
      ends.push(node);
    }
  }
  return upwards(profile, sums, func, 0, nodes, ends, "total");
}

/**
 * The callees of a function. The innermost call counts.
 * @param {Profile} profile @param {Sums} sums @param {number} func
 * @returns {Branch}
 */
function calleesOf(profile, sums, func) {
  const { tree, own, variance } = sums;
  const inner = own.slice();
  const ofInner = variance?.own.slice();
  const roots = [];
  for (let node = tree.size - 1; node > 0; node--) {
    if (tree.func[node] === func) roots.push(node);
    else {
      inner[tree.parent[node]] += inner[node];
      if (ofInner) ofInner[tree.parent[node]] += ofInner[node];
    }
  }
  /** @param {number} of @param {number[]} nodes @returns {Branch} */
  const branch = (of, nodes) => {
    let [self, total, ofSelf, ofTotal] = [0, 0, 0, 0];
    for (const node of nodes) {
      self += own[node];
      total += inner[node];
      ofSelf += variance?.own[node] ?? 0;
      ofTotal += ofInner?.[node] ?? 0;
    }
    return {
      func: of,
      own: self,
      total,
      variances: [ofSelf, ofTotal],
      node: -1,
      hasChildren: total > self,
      children: () => {
        /** @type {Map<number, number[]>} */
        const groups = new Map();
        for (const node of nodes) {
          for (let child = tree.first[node]; child >= 0; child = tree.next[child]) {
            if (inner[child] <= 0 || tree.func[child] === func) continue;
            const group = groups.get(tree.func[child]);
            if (group) group.push(child);
            else groups.set(tree.func[child], [child]);
          }
        }
        return sorted(profile, [...groups].map(([callee, group]) => branch(callee, group)));
      },
    };
  };
  return branch(func, roots);
}

/**
 * The file of the line of a stack's innermost function, from 1, or 0: that of the function, or another one that holds some of its lines.
 * @param {Profile} profile
 * @param {number} stack
 */
const fileOf = (profile, stack) => profile.stackFile[stack] || profile.file[profile.tree.func[profile.stackNode[stack]]];

/** Both sides of the source view need them. @type {{of: Float64Array, totals: Float64Array} | null} */
let knownTotals = null;

/**
 * Weight of the samples of each stack and of its callees; 0 for hidden functions.
 * @param {Profile} profile @param {Sums} sums
 */
function totalsByStack({ stackCaller, stackNode, tree }, { byStack, hidden }) {
  if (knownTotals?.of === byStack) return knownTotals.totals;
  const total = byStack.slice();
  // A caller's stack is of a node before.
  for (let stack = total.length - 1; stack > 0; stack--) total[stackCaller[stack]] += total[stack];
  const totals = hidden.length === 0 ? total : total.map((of, stack) => (hidden.includes(tree.func[stackNode[stack]]) ? 0 : of));
  knownTotals = { of: byStack, totals };
  return totals;
}

/**
 * `parts`: total by function, and by the one whose machine code it is.
 * @typedef {{own: number, total: number, parts: Map<number, number>}} SourceLine
 */

/**
 * Self and total by line of a file, of all functions in it. A sample counts once for each line.
 * @param {Profile} profile
 * @param {Sums} sums
 * @param {number} file From 1.
 * @returns {Map<number, SourceLine>}
 */
function linesOf(profile, sums, file) {
  const { stackLine, stackCaller, stackNode, tree, names } = profile;
  /** @param {number} stack */
  const isOf = (stack) => stack > 0 && fileOf(profile, stack) === file;
  const total = totalsByStack(profile, sums);
  /** @type {Map<number, SourceLine>} */
  const lines = new Map();
  for (let stack = 1; stack < total.length; stack++) {
    if (!isOf(stack) || total[stack] === 0 || stackLine[stack] === 0) continue;
    const line = stackLine[stack];
    let row = lines.get(line);
    if (!row) lines.set(line, (row = { own: 0, total: 0, parts: new Map() }));
    row.own += sums.byStack[stack];
    let caller = stackCaller[stack];
    while (caller > 0 && !(total[caller] > 0 && stackLine[caller] === line && isOf(caller))) caller = stackCaller[caller];
    if (caller > 0) continue;
    row.total += total[stack];
    let machine = stackNode[stack];
    while (tree.inlined[machine] && tree.parent[machine] > 0) machine = tree.parent[machine];
    const part = tree.func[stackNode[stack]] * names.length + tree.func[machine];
    row.parts.set(part, (row.parts.get(part) ?? 0) + total[stack]);
  }
  return lines;
}
