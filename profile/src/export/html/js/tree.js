// @ts-check
// Call trees: rows are made when they are opened.

/** A callee with this part of its caller is opened at first. */
const HOT_PART = 0.5;
const HOT_LEVELS = 40;
const NO_CALLERS = "Nothing calls it in these samples.";
const NO_CALLEES = "It calls nothing in these samples.";

/** @typedef {{branch: Branch, level: number, forks: number, isOpen: boolean}} Line `forks`: levels where a row has siblings. */

/**
 * @param {object} options
 * @param {string} options.label
 * @param {Branch} options.root
 * @param {boolean} [options.withRoot] The root is a row.
 * @param {boolean} [options.isUpwards] Below a row are its callers.
 * @param {boolean} [options.ownIsPart] Rows have a self weight.
 * @param {boolean} [options.changes] Rows are nodes of two sides.
 * @param {(node: number) => boolean} [options.leadsTo] True for nodes to open, in search.
 * @param {string} [options.nothing] Shown where there are no rows.
 */
function treeList({ label, root, withRoot = false, isUpwards = false, ownIsPart = true, changes = false, leadsTo, nothing = "Nothing is selected here." }) {
  /** @type {Line[]} */
  let lines = [];
  const whole = sums().weight;
  const list = rowList({
    label,
    isTree: true,
    className: ownIsPart ? "tree" : "tree tree-total",
    heads: changes ? ["Total", "was", "Change", "Function"] : ["Total", amountHead(), ...(ownIsPart ? ["Self"] : []), "Function"],
    cells: (row) => {
      const { branch, level, forks, isOpen } = lines[row];
      const mark = branch.hasChildren ? (isOpen ? "\u25be" : "\u25b8") : "";
      const twist = make("span", { class: "twist", "aria-hidden": true }, mark);
      const name = nameCell(branch.func);
      name.prepend(twist);
      // A chain of single calls is hardly indented, or deep stacks would leave the page.
      name.style.setProperty("--forks", String(forks));
      name.style.setProperty("--level", String(level));
      if (changes) {
        const [after, before] = sides();
        const sure = surely.nodes.get(branch.node);
        const [is, was] = [shareOf(after, after.total[branch.node]), shareOf(before, before.total[branch.node])];
        return [percent(is, 1), percent(was, 1), changeCell(is - was, sure), name];
      }
      const cells = [shareCell(branch.total, whole), estimate(branch.total, branch.variances[1])];
      if (ownIsPart) cells.push(branch.own > 0 ? percent(branch.own, whole) : "");
      return [...cells, name];
    },
    mark: (row, element) => {
      const { branch, level, isOpen } = lines[row];
      element.setAttribute("aria-level", String(level + 1));
      if (branch.hasChildren) element.setAttribute("aria-expanded", String(isOpen));
      element.dataset.own = String(branch.own);
      element.dataset.total = String(branch.total);
    },
    activate: (row) => {
      const { branch } = lines[row];
      state.func = branch.func;
      chosenPath = pathTo(row);
      noteAddress(["func"]);
      hint(changes ? diffInWords(profile.names[branch.func], branch.node, branch.func) : inWords(branch.func, branch.own, branch.total, branch.variances));
      showActions();
    },
    open: (row) => toggle(row),
    click: (row, event) => {
      const isTwist = event.target instanceof Element && event.target.classList.contains("twist");
      if (isTwist) toggle(row);
      return isTwist;
    },
    key: (row, event) => {
      const { level, isOpen, branch } = lines[row];
      if (event.key === "ArrowRight") {
        if (branch.hasChildren && !isOpen) toggle(row);
        else if (lines[row + 1]?.level > level) list.activate(row + 1);
      } else if (event.key === "ArrowLeft") {
        if (isOpen) toggle(row);
        else {
          let up = row;
          while (up > 0 && lines[up].level >= level) up--;
          if (lines[up].level < level) list.activate(up);
        }
      } else if (event.key === "*") {
        openHot(row);
        list.update(lines.length, row);
      } else return functionKey(branch.func, event);
      return true;
    },
  });
  /** @param {number} row */
  const open = (row) => {
    const line = lines[row];
    if (line.isOpen || !line.branch.hasChildren) return;
    line.isOpen = true;
    const children = line.branch.children();
    const forks = line.forks + (children.length > 1 ? 1 : 0);
    const below = children.map((branch) => ({ branch, level: line.level + 1, forks, isOpen: false }));
    lines = [...lines.slice(0, row + 1), ...below, ...lines.slice(row + 1)];
  };
  /** @param {number} row */
  const toggle = (row) => {
    const line = lines[row];
    if (line.isOpen) {
      let end = row + 1;
      while (end < lines.length && lines[end].level > line.level) end++;
      lines.splice(row + 1, end - row - 1);
      line.isOpen = false;
    } else open(row);
    list.update(lines.length, row);
  };
  /** Opens the row, and its hottest callees as long as they are most of it. @param {number} row */
  const openHot = (row) => {
    for (let levels = 0; levels < HOT_LEVELS; levels++) {
      const { branch, level } = lines[row];
      open(row);
      const next = lines[row + 1];
      if (!next || next.level <= level || next.branch.total < HOT_PART * branch.total) return;
      row++;
    }
  };
  /** Opens the way to the hottest match; returns its row. @param {(node: number) => boolean} leads */
  const openMatch = (leads) => {
    let row = 0;
    while (row < lines.length && !leads(lines[row].branch.node)) row++;
    while (row < lines.length && !search().isMatch(lines[row].branch.func)) {
      const level = lines[row].level;
      open(row);
      let next = row + 1;
      while (next < lines.length && lines[next].level > level && !leads(lines[next].branch.node)) next++;
      if (next >= lines.length || lines[next].level <= level) break;
      row = next;
    }
    return row < lines.length ? row : 0;
  };
  /** The call path of a row, the root first. @param {number} row */
  const pathTo = (row) => {
    const path = [];
    for (let level = lines[row].level; row >= 0; row--) {
      if (lines[row].level !== level) continue;
      path.push(lines[row].branch.func);
      level--;
    }
    return isUpwards ? path : path.reverse();
  };
  const top = withRoot ? [root] : root.children();
  lines = top.map((branch) => ({ branch, level: 0, forks: 0, isOpen: false }));
  return {
    element: lines.length === 0 ? make("p", { class: "empty" }, nothing) : list.element,
    shown: () => {
      let row = 0;
      if (lines.length > 0) {
        if (leadsTo) row = openMatch(leadsTo);
        else openHot(0);
      }
      list.update(lines.length, row);
    },
  };
}

/** @returns {{element: HTMLElement, shown: () => void}} */
function callTreeTab() {
  if (profile.calls !== "paths") return withoutPaths();
  const { tree } = sums();
  /** @type {((node: number) => boolean) | undefined} */
  let leadsTo;
  if (state.query) {
    const { isMatch } = search();
    const leads = new Uint8Array(tree.size);
    for (let node = tree.size - 1; node > 0; node--) {
      if (isMatch(tree.func[node])) leads[node] = 1;
      if (leads[node]) leads[tree.parent[node]] = 1;
    }
    leadsTo = (node) => leads[node] === 1;
  }
  return treeList({ label: "Call tree, from the roots", root: topDown(profile, sums()), changes: profile.diff !== null, leadsTo });
}

/** @returns {{element: HTMLElement, shown: () => void}} */
function invertedTab() {
  if (profile.calls !== "paths") return withoutPaths();
  return treeList({ label: "Functions by self, with their callers", root: bottomUp(profile, sums()), isUpwards: true, ownIsPart: false });
}

function withoutPaths() {
  const text = `${profile.about.by || "The file"} has no call paths, so there is no call tree.`;
  return { element: make("p", { class: "empty" }, text), shown: () => {} };
}

/** Callers and callees of the chosen function. @returns {{element: HTMLElement, shown: () => void}} */
function callersTab() {
  const { func } = state;
  if (func < 0) {
    const text = "Choose a function in another view: its callers and callees are shown here.";
    return { element: make("p", { class: "empty" }, text), shown: () => {} };
  }
  if (profile.calls === "unknown") return withoutPaths();
  const { ownOf, totalOf } = sums();
  const heading = make(
    "p",
    { class: "chosen", "data-own": ownOf[func], "data-total": totalOf[func] },
    nameCell(func),
    make("span", { class: "after" }, `${weightsInWords(ownOf[func], totalOf[func], variancesOfFunction(func))}${placeOf(func) && ` (${placeOf(func)})`}`),
  );
  /** @param {string} title @param {{element: HTMLElement, shown: () => void}} list */
  const part = (title, list) => make("section", { class: "half" }, make("h3", {}, title), list.element);
  const [callers, callees] =
    profile.calls === "arcs" ? [arcList(func, 1), arcList(func, 0)] : pathLists(func);
  const element = make(
    "div",
    { class: "callers" },
    heading,
    make("div", { class: "halves" }, part("Callers", callers), part("Callees", callees)),
  );
  return {
    element,
    shown: () => {
      callers.shown();
      callees.shown();
    },
  };
}

/** @param {number} func */
function pathLists(func) {
  return [
    treeList({ label: "Callers", root: callersOf(profile, sums(), func), isUpwards: true, ownIsPart: false, nothing: NO_CALLERS }),
    treeList({ label: "Callees", root: calleesOf(profile, sums(), func), nothing: NO_CALLEES }),
  ];
}

/** Of files with calls and no call paths. @param {number} func @param {0 | 1} side of the function in the calls */
function arcList(func, side) {
  const [caller, callee, , cost] = (kind() ?? NOTHING).arcs ?? [[], [], [], []];
  const [here, there] = side === 1 ? [callee, caller] : [caller, callee];
  /** @type {Branch[]} */
  const found = [];
  here.forEach((/** @type {number} */ of, /** @type {number} */ row) => {
    if (of !== func || there[row] === func) return;
    const total = cost[row];
    found.push({ func: there[row], own: 0, total, variances: [0, 0], node: -1, hasChildren: false, children: () => [] });
  });
  /** @type {Branch} */
  const root = { func: -1, own: 0, total: 0, variances: [0, 0], node: -1, hasChildren: true, children: () => sorted(profile, found) };
  return treeList({ label: side === 1 ? "Callers" : "Callees", root, ownIsPart: false, nothing: side === 1 ? NO_CALLERS : NO_CALLEES });
}
