// @ts-check
// Copies, files and colours, in one menu.

const THEME = "sprof-theme";
/** The call path of the chosen row or frame, the root first; empty where only a function is chosen. @type {number[]} */
let chosenPath = [];

/** Innermost first, as debuggers print stacks. Where only a function is chosen, its stack with most. */
function chosenStack() {
  const { func } = state;
  const { tree, total } = sums();
  let path = chosenPath;
  if (path.length === 0) {
    let most = 0;
    for (let node = 1; node < tree.size; node++) if (tree.func[node] === func && (most === 0 || total[node] > total[most])) most = node;
    path = pathOf(tree, most);
  }
  return path.map((of) => [profile.names[of], placeOf(of)]).reverse();
}

/** The selected stacks, a line each, as `sprof export -f folded` writes them, without the process. */
function foldedStacks() {
  const { tree, own } = sums();
  const names = profile.names.map((name) => name.replace(/;/g, ":").replace(/[\r\n]/g, " "));
  const lines = [];
  for (let node = 1; node < tree.size; node++) if (own[node] > 0) lines.push(`${pathOf(tree, node).map((func) => names[func]).join(";")} ${own[node]}\n`);
  return lines.sort().join("");
}

/** @param {string} text @param {string} what */
async function copy(text, what) {
  // Pages of other machines without TLS have no `clipboard`.
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      return hint(`The browser refuses to copy ${what}.`);
    }
  } else {
    const area = make("textarea", { "aria-hidden": true });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  hint(`Copied: ${what}`);
}

/** @param {string} text @param {string} name */
function save(text, name) {
  const link = make("a", { download: name, href: URL.createObjectURL(new Blob([text], { type: "text/plain" })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** The rows of the view's tables, heads first. */
function shownTables() {
  return [...document.querySelectorAll("#panel .list")].map((list) => rowLists.get(list)?.() ?? []);
}

/** The colours: of the system, or those that the user chose for all pages of this browser. */
function startTheme() {
  const choice = /** @type {HTMLSelectElement} */ (byId("theme"));
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => (document.documentElement.dataset.theme = choice.value || (system.matches ? "dark" : "light"));
  const again = () => {
    apply();
    change({ view: state.view, sort: state.sort });
  };
  try {
    choice.value = localStorage.getItem(THEME) ?? "";
  } catch {
    // The browser keeps nothing.
  }
  choice.addEventListener("change", () => {
    again();
    try {
      localStorage.setItem(THEME, choice.value);
    } catch {
      hint("This browser does not keep the choice.");
    }
  });
  system.addEventListener("change", again);
  apply();
}

function startMenu() {
  const menu = /** @type {HTMLDetailsElement} */ (byId("menu"));
  /** @param {string} id @param {() => void} act */
  const item = (id, act) =>
    byId(id).addEventListener("click", () => {
      menu.open = false;
      act();
    });
  /** @param {(cells: string[], isHead: boolean) => string} line */
  const tables = (line) => shownTables().map((rows) => rows.map((cells, row) => line(cells, row === 0)).join("")).join("\n");
  const markdown = (/** @type {string[]} */ cells) => `| ${cells.map((cell) => cell.replace(/[\\|*_`[\]<>]/g, "\\$&")).join(" | ")} |\n`;
  item("copy-stack", () => copy(chosenStack().map(([name, place]) => (place ? `${name}  ${place}` : name)).join("\n") + "\n", "the stack"));
  item("copy-text", () => copy(tables((cells) => cells.join("\t") + "\n"), "the table"));
  item("copy-markdown", () => copy(tables((cells, isHead) => markdown(cells) + (isHead ? `|${cells.map(() => "---|").join("")}\n` : "")), "the table, as Markdown"));
  item("save-folded", () => save(foldedStacks(), `${(profile.about.product || "profile").replace(/[^\w.-]+/g, "_")}.folded`));
  // Beside the folder of this page.
  const isServed = !document.getElementById("data");
  for (const id of ["save-svg", "save-pprof"]) byId(id).hidden = !isServed || profile.diff !== null;
  menu.addEventListener("toggle", () => {
    const set = (/** @type {string} */ id, /** @type {boolean} */ can) => (/** @type {HTMLButtonElement} */ (byId(id)).disabled = !can);
    set("copy-stack", state.func >= 0 && profile.calls === "paths");
    set("save-folded", profile.calls === "paths" && !profile.diff);
    for (const id of ["copy-text", "copy-markdown"]) set(id, shownTables().length > 0);
  });
  document.addEventListener("click", (event) => {
    if (event.target instanceof Node && !menu.contains(event.target)) menu.open = false;
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary")?.focus();
    event.stopPropagation();
  });
}
