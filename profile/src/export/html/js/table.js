// @ts-check
// A list of rows of which only the visible ones are elements: a grid, or a tree as a grid.

const ROW_PX = 26;
/** Rows of a list that are copied. Of 100,000, copying would take a minute. */
const MOST_COPIED = 1000;
/** The texts of the heads and rows of a list. @type {WeakMap<Element, () => string[][]>} */
const rowLists = new WeakMap();

/**
 * @typedef {object} RowListOptions
 * @property {string} label For screen readers.
 * @property {string} className Has the widths of the columns.
 * @property {(HTMLElement | string)[]} heads
 * @property {boolean} [isTree]
 * @property {(row: number) => (HTMLElement | string)[]} cells
 * @property {(row: number, element: HTMLElement) => void} [mark] Adds attributes to a row.
 * @property {(row: number) => void} [open] Enter or double click.
 * @property {(row: number, event: KeyboardEvent) => boolean} [key] True if the key was used.
 * @property {(row: number) => void} [activate] The row became the current one.
 * @property {(row: number, event: MouseEvent) => boolean} [click] True if the click was used.
 */

/**
 * Draws an element again when it has another size. What is returned draws it at first: the observer's first report is of that size.
 * @param {HTMLElement} element @param {() => void} draw
 */
function drawnBySize(element, draw) {
  let size = "";
  const isNew = () => size !== (size = `${element.clientWidth} ${element.clientHeight}`);
  new ResizeObserver(() => isNew() && draw()).observe(element);
  return () => {
    isNew();
    draw();
  };
}

/** @param {RowListOptions} options */
function rowList(options) {
  const body = make("div", { class: "list-body", role: "rowgroup" });
  const head = make(
    "div",
    { class: "list-row list-head", role: "row", "aria-rowindex": 1 },
    ...options.heads.map((cell) => {
      const element = make("div", { class: "cell", role: "columnheader" }, cell);
      const order = typeof cell === "string" ? null : cell.dataset.order;
      if (order) element.setAttribute("aria-sort", order);
      return element;
    }),
  );
  const element = make(
    "div",
    {
      class: "list " + options.className,
      role: options.isTree ? "treegrid" : "grid",
      tabindex: 0,
      "aria-label": options.label,
    },
    head,
    body,
  );
  const id = "list" + ++rowListCount;
  let count = 0;
  let active = 0;

  const draw = () => {
    const height = element.clientHeight || 600;
    const from = Math.max(0, Math.floor(element.scrollTop / ROW_PX) - 4);
    const to = Math.min(count, from + Math.ceil(height / ROW_PX) + 8);
    const rows = [];
    for (let row = from; row < to; row++) {
      const cells = options.cells(row).map((cell) => make("div", { class: "cell", role: "gridcell" }, cell));
      const line = make(
        "div",
        { class: "list-row", role: "row", id: `${id}-${row}`, "aria-rowindex": row + 2, "data-row": row },
        ...cells,
      );
      line.style.top = row * ROW_PX + "px";
      if (row === active) line.setAttribute("aria-selected", "true");
      options.mark?.(row, line);
      rows.push(line);
    }
    body.replaceChildren(...rows);
    if (active >= from && active < to) element.setAttribute("aria-activedescendant", `${id}-${active}`);
    else element.removeAttribute("aria-activedescendant");
  };
  const show = () => {
    const top = active * ROW_PX;
    const room = element.clientHeight - ROW_PX;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + ROW_PX > element.scrollTop + room) element.scrollTop = top + ROW_PX - room;
  };
  /** @param {number} row */
  const activate = (row) => {
    active = Math.max(0, Math.min(count - 1, row));
    show();
    draw();
    if (count > 0) options.activate?.(active);
    // The foot may have taken more lines.
    show();
  };
  /** @param {Event} event */
  const rowAt = (event) => {
    const target = event.target instanceof Element ? event.target.closest("[data-row]") : null;
    return target instanceof HTMLElement ? Number(target.dataset.row) : -1;
  };
  element.addEventListener("scroll", draw);
  element.addEventListener("click", (event) => {
    const row = rowAt(event);
    if (row >= 0 && !options.click?.(row, event)) activate(row);
  });
  element.addEventListener("dblclick", (event) => {
    const row = rowAt(event);
    if (row >= 0) options.open?.(row);
  });
  element.addEventListener("keydown", (event) => {
    if (event.target !== element || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(element.clientHeight / ROW_PX) - 2);
    /** @type {Record<string, number>} */
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -count, End: count };
    if (count > 0 && options.key?.(active, event)) event.preventDefault();
    else if (event.key in steps) {
      event.preventDefault();
      activate(active + steps[event.key]);
    } else if (event.key === "Enter" && count > 0) {
      event.preventDefault();
      options.open?.(active);
    }
  });
  const drawAtFirst = drawnBySize(element, draw);
  /** A name is whole, and indented as its row. @param {HTMLElement | string} cell */
  const textOf = (cell) => {
    if (typeof cell === "string") return cell;
    const { name } = cell.dataset;
    return name === undefined ? (cell.textContent ?? "") : "\u00a0\u00a0".repeat(Number(cell.style.getPropertyValue("--level"))) + name;
  };
  rowLists.set(element, () => {
    const heads = options.heads.map((head) => (typeof head === "string" ? head : (head.firstChild?.textContent ?? "")));
    const rows = Array.from({ length: Math.min(count, MOST_COPIED) }, (_, row) => options.cells(row).map(textOf));
    const others = count > MOST_COPIED ? [[`${grouped(count - MOST_COPIED)} more rows`]] : [];
    return [heads, ...rows, ...others];
  });
  return {
    element,
    activate,
    /** Shows so many rows. @param {number} rows @param {number} [row] the current one */
    update(rows, row = active) {
      count = rows;
      active = Math.max(0, Math.min(rows - 1, row));
      body.style.height = rows * ROW_PX + "px";
      element.setAttribute("aria-rowcount", String(rows + 1));
      show();
      drawAtFirst();
    },
  };
}
let rowListCount = 0;

/** A share as a bar with its text. @param {number} part @param {number} whole */
function shareCell(part, whole) {
  const bar = make("span", { class: "share" }, percent(part, whole));
  bar.style.setProperty("--share", (whole > 0 ? (100 * part) / whole : 0).toFixed(2) + "%");
  return bar;
}

/** A function's name, with what the search found in it, and the whole name where the short one is another function's, too. @param {number} func */
function nameCell(func) {
  const [name, shown] = func < 0 ? ["all", "all"] : [profile.names[func], shortOf(func)];
  const place = func < 0 ? "" : placeOf(func);
  const swatch = make("span", { class: "swatch", "aria-hidden": true });
  if (func >= 0) swatch.style.background = colorOf(func);
  const isFound = state.query !== "" && search().isMatch(func);
  return make(
    "span",
    { class: "name", title: place ? `${name}\n${place}` : name, "data-name": name },
    func >= 0 && swatch,
    isFound ? make("mark", {}, shown) : make("span", { class: "text" }, shown),
    shown !== name && sharedShorts.has(shown) && make("span", { class: "after" }, name),
  );
}

/** The head of a column. @param {"own" | "total" | "name"} column @param {string} text */
function sorter(column, text) {
  const { sort } = state;
  const button = make("button", { type: "button", class: "sorter", tabindex: -1 }, text);
  if (sort.column === column) {
    button.dataset.order = sort.down ? "descending" : "ascending";
    button.append(make("span", { "aria-hidden": true }, sort.down ? " \u25bc" : " \u25b2"));
  }
  button.addEventListener("click", () => sortBy(column));
  return button;
}

/** Self and total of all functions. */
function functionsTab() {
  /** @type {number[]} */
  let rows = [];
  const { ownOf, totalOf, weight } = sums();
  const unit = amountHead();
  const list = rowList({
    label: "Functions",
    className: profile.calls === "unknown" ? "functions functions-own" : "functions",
    heads: [sorter("own", "Self"), unit, sorter("total", "Total"), unit, sorter("name", "Function"), "File or library"],
    cells: (row) => {
      const func = rows[row];
      const [ofOwn, ofTotal] = variancesOfFunction(func);
      return [
        shareCell(ownOf[func], weight),
        estimate(ownOf[func], ofOwn),
        shareCell(totalOf[func], weight),
        estimate(totalOf[func], ofTotal),
        nameCell(func),
        make("span", { class: "place", title: placeOf(func) }, placeOf(func)),
      ];
    },
    mark: (row, element) => {
      const func = rows[row];
      element.dataset.own = String(ownOf[func]);
      element.dataset.total = String(totalOf[func]);
    },
    open: (row) => change({ func: rows[row], tab: "callers" }),
    activate: (row) => choose(rows[row]),
    key: (row, event) => functionKey(rows[row], event) || sortKey(event),
  });
  const { isMatch } = search();
  const funcs = [...totalOf.keys()].filter((func) => totalOf[func] > 0 || ownOf[func] > 0);
  rows = state.query ? funcs.filter(isMatch) : funcs;
  const { column, down } = state.sort;
  const sign = down ? -1 : 1;
  const byName = (/** @type {number} */ a, /** @type {number} */ b) => profile.byName[a] - profile.byName[b];
  if (column === "name") rows.sort((a, b) => -sign * byName(a, b));
  else {
    const [first, second] = column === "own" ? [ownOf, totalOf] : [totalOf, ownOf];
    rows.sort((a, b) => sign * (first[a] - first[b]) || second[b] - second[a] || byName(a, b));
  }
  return {
    element: rows.length === 0 ? nothingFound() : list.element,
    shown: () => list.update(rows.length, chosenRow(rows, funcs)),
  };
}

/** The row of the chosen function, or the first one. What is selected may be without the function: none is chosen then. @param {number[]} rows @param {number[]} funcs */
function chosenRow(rows, funcs) {
  if (state.func >= 0 && !funcs.includes(state.func)) choose(-1);
  return Math.max(0, rows.indexOf(state.func));
}

/** @param {"own" | "total" | "name"} column */
function sortBy(column) {
  const { sort } = state;
  change({ sort: { column, down: sort.column === column ? !sort.down : true } });
}

/** @param {KeyboardEvent} event */
function sortKey(event) {
  const column = /** @type {const} */ ({ 1: "own", 2: "total", 3: "name" })[event.key];
  if (column) sortBy(column);
  return column !== undefined;
}

/** Keys of all views for a function. @param {number} func @param {KeyboardEvent} event */
function functionKey(func, event) {
  if (func < 0) return false;
  if (event.key === "h") hide(func);
  else if (event.key === "d") drop(func);
  else if (event.key === "f") focusOn(func);
  else if (event.key === "c" && profile.calls !== "unknown") change({ func, tab: "callers" });
  else if (!profile.diff && (event.key === "s" || event.key === "a")) showSource(func, event.key === "a");
  else return false;
  return true;
}

/** @param {number} func @param {boolean} assembly */
function showSource(func, assembly) {
  change({ func, tab: "source", assembly });
}

/** @param {number} func */
function hide(func) {
  if (profile.calls !== "paths") return hint("this profile has no call paths, so nothing can be hidden from them");
  if (!state.hidden.includes(func)) change({ hidden: [...state.hidden, func] });
}

/** @param {number} func */
function drop(func) {
  if (profile.calls !== "paths") return hint("this profile has no call paths, so no stacks can be dropped");
  if (!state.dropped.includes(func)) change({ dropped: [...state.dropped, func] });
}

/** @param {number} func */
function focusOn(func) {
  if (profile.calls !== "paths") return hint("this profile has no call paths to focus on");
  if (!state.focus.includes(func)) change({ focus: [...state.focus, func], func });
}

/** Makes it the chosen function; the view stays. @param {number} func */
function choose(func) {
  state.func = func;
  chosenPath = [];
  noteAddress(["func"]);
  const { ownOf, totalOf } = sums();
  const time = profile.kinds.some((of) => of.hasTimes) ? " Drag in the timeline: a time." : "";
  if (func < 0) hint(`Click a function: its callers, source and stacks.${time} ? lists the keys.`);
  else hint(profile.diff ? diffInWords(profile.names[func], -1, func) : inWords(func, ownOf[func], totalOf[func], variancesOfFunction(func)));
  showActions();
}

function nothingFound() {
  const why = state.query ? `No function matches ${state.query}.` : "Nothing is selected here.";
  return make("p", { class: "empty" }, why);
}
