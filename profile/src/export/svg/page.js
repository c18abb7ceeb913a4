// The picture in a browser. The state is in the address: `#zoom=12&search=alloc`, so that it can be sent and goes back.
"use strict";
(function () {
  const svg = document.documentElement;
  if (svg.tagName !== "svg") return;
  const NS = "http://www.w3.org/2000/svg";
  const frames = document.getElementById("frames");
  const details = document.getElementById("details");
  const CHAR_PIXELS = 7.25;
  const UNITS = 10000;

  // Edges as whole numbers: the file writes them with four decimals.
  const units = (rect, name) => Math.round(parseFloat(rect.getAttribute(name)) * UNITS);
  const rows = parseFloat(frames.getAttribute("height")) / ROW;
  // Levels are rows from the root. Below rows that are opened, a frame is `shift` rows farther.
  function frameOf(g, index) {
    const [title, rect, text] = g.children;
    // A row of several functions has a line for each.
    const words = title.textContent, at = words.lastIndexOf(" (");
    const name = words.slice(0, at), figures = words.slice(at + 2, -1);
    const row = parseFloat(rect.getAttribute("y")) / ROW;
    return (g.frame = { g, rect, text, figures, name, index, x: units(rect, "x"), width: units(rect, "width"),
                        level: INVERTED ? row : rows - 1 - row, shift: 0, found: false });
  }
  const all = Array.from(frames.children, frameOf);
  const root = all[0];
  // In a picture of two profiles, what only the first of them has stands at the right end, beside what shares are of.
  const gone = GONE === null ? null : all[GONE];

  // A row of several functions opens to a row for each. Numbers of frames in an address stay.
  let number = all.length;
  for (const [index, functions] of FOLDS) {
    const fold = all.find((frame) => frame.index === index);
    fold.parts = fold.name.split("\n").map((name, at) => {
      const [figures, color, isInlined] = functions[at];
      const g = fold.g.cloneNode(true);
      g.children[0].textContent = `${name} (${isInlined ? "inlined, " : ""}${figures})`;
      g.children[1].setAttribute("fill", color);
      g.classList.toggle("i", isInlined);
      return Object.assign(frameOf(g, number++), { level: fold.level + at, fold });
    });
    for (const frame of all) {
      const isInside = frame.x >= fold.x && frame.x + frame.width <= fold.x + fold.width;
      if (isInside && frame.level > fold.level && !frame.fold) frame.shift = fold.parts.length - 1;
    }
    all.splice(all.indexOf(fold) + 1, 0, ...fold.parts);
    fold.g.after(...fold.parts.map(({ g }) => g));
  }
  const openRows = all.reduce((most, { level, shift }) => Math.max(most, level + shift + 1), 0);

  function fit(name, pixels) {
    const room = Math.floor((pixels - 6) / CHAR_PIXELS);
    if (room < 3) return "";
    const forms = FORMS.get(name) || [name];
    const form = forms.find((form) => form.length <= room);
    return form || forms[forms.length - 1].slice(0, room - 1) + "\u2026";
  }

  let zoomed = root, isOpen = false, added = 0;
  const levelOf = (frame) => frame.level + (isOpen ? frame.shift : 0);

  function layOut() {
    const pixels = svg.getBoundingClientRect().width - 2 * MARGIN;
    frames.setAttribute("width", Math.max(pixels, 1));
    const left = zoomed.x, right = zoomed.x + zoomed.width;
    const isBelow = (frame) => levelOf(frame) >= levelOf(zoomed);
    for (const frame of all) {
      const { g, rect, text } = frame;
      const end = frame.x + frame.width;
      const isThere = isOpen ? !frame.parts : !frame.fold;
      const isInside = isThere && isBelow(frame) && frame.x >= left && end <= right && (frame.width > 0 || zoomed === root);
      const isOuter = isThere && !isBelow(frame) && frame.x <= left && end >= right;
      g.classList.toggle("outer", isOuter);
      g.classList.toggle("hidden", !isInside && !isOuter);
      if (!isInside && !isOuter) continue;
      const x = isOuter ? 0 : (100 * (frame.x - left)) / zoomed.width;
      const width = isOuter ? 100 : (100 * frame.width) / zoomed.width;
      const y = ROW * (INVERTED ? levelOf(frame) : rows + added / ROW - 1 - levelOf(frame));
      rect.setAttribute("y", y);
      text.setAttribute("y", y + 12);
      rect.setAttribute("x", x + "%");
      rect.setAttribute("width", width + "%");
      text.setAttribute("x", x + "%");
      text.textContent = fit(frame.name, (width * pixels) / 100);
    }
    reset.classList.toggle("hidden", zoomed === root && !isOpen && !state().get("search"));
  }

  function search(pattern) {
    let expression = null;
    input.classList.remove("wrong");
    try {
      if (pattern) expression = new RegExp(pattern, "im");
    } catch {
      input.classList.add("wrong");
    }
    // Of what is shown; a match below a match is not counted again. Frames are in the order of a walk from the root.
    let covered = zoomed.x, sum = 0;
    const end = zoomed === root && gone ? gone.x : zoomed.x + zoomed.width;
    frames.classList.toggle("searched", expression !== null);
    for (const frame of all) {
      frame.found = expression !== null && expression.test(frame.name);
      frame.g.classList.toggle("found", frame.found);
      if (!frame.found || frame.g.classList.contains("hidden")) continue;
      const from = Math.max(frame.x, covered);
      const to = Math.min(frame.x + frame.width, end);
      if (to > from) { sum += to - from; covered = to; }
    }
    matched.textContent = expression === null ? "" : "matched: " + ((100 * sum) / Math.max(end - zoomed.x, 1)).toFixed(2) + " %";
    button.textContent = expression === null ? "search" : "search: " + pattern;
  }

  const state = () => new URLSearchParams(location.hash.slice(1));
  function change(entries) {
    const next = state();
    for (const [key, value] of Object.entries(entries)) value ? next.set(key, value) : next.delete(key);
    const hash = next.toString();
    if (hash !== location.hash.slice(1)) location.hash = hash;
    apply();
  }
  function apply() {
    isOpen = state().has("open") && FOLDS.length > 0;
    const before = added;
    added = isOpen ? ROW * (openRows - rows) : 0;
    const named = Number(state().get("zoom"));
    zoomed = all.find((frame) => frame.index === named) || root;
    if (zoomed.width === 0) zoomed = root;
    if (isOpen && zoomed.parts) zoomed = zoomed.parts[0];
    if (!isOpen && zoomed.fold) zoomed = zoomed.fold;
    svg.setAttribute("height", height + added);
    frames.setAttribute("height", ROW * rows + added);
    layOut();
    // The root stays where it is.
    if (!INVERTED) window.scrollBy(0, added - before);
    stick();
    search(state().get("search"));
  }

  function put(parent, name, attributes) {
    const element = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    parent.append(element);
    return element;
  }
  const head = document.getElementById("head"), foot = document.getElementById("foot");
  const button = put(head, "text", { class: "button", x: "100%", dx: -MARGIN, y: 24 });
  button.textContent = "search";
  const reset = put(head, "text", { class: "button hidden", x: "100%", dx: -MARGIN, y: 42 });
  reset.textContent = "show all";
  const bottom = details.getAttribute("y");
  const matched = put(foot, "text", { id: "matched", x: "100%", dx: -MARGIN, y: bottom, "text-anchor": "end" });

  // HTML inside of SVG: made here, so that programs which only draw never meet it.
  const box = put(head, "foreignObject", { class: "hidden", width: 260, height: 28, y: 8 });
  const input = document.createElementNS("http://www.w3.org/1999/xhtml", "input");
  input.placeholder = "regular expression";
  box.append(input);
  function ask() {
    box.setAttribute("x", svg.getBoundingClientRect().width - 260 - MARGIN);
    box.classList.remove("hidden");
    button.classList.add("hidden");
    input.value = state().get("search") || "";
    input.focus();
    input.select();
  }
  function answered() {
    box.classList.add("hidden");
    button.classList.remove("hidden");
  }
  input.addEventListener("input", () => search(input.value));
  input.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Escape") { answered(); search(state().get("search")); }
    if (event.key === "Enter") { change({ search: input.value }); answered(); }
  });
  input.addEventListener("blur", () => {
    if (!box.classList.contains("hidden")) { change({ search: input.value }); answered(); }
  });

  button.addEventListener("click", ask);
  reset.addEventListener("click", () => change({ zoom: null, search: null, open: null }));
  frames.addEventListener("click", (event) => {
    const frame = event.target.closest("g")?.frame;
    if (frame?.parts) change({ open: 1 });
    else if (frame) change({ zoom: frame === root ? null : frame.index });
  });
  frames.addEventListener("mouseover", (event) => {
    const frame = event.target.closest("g")?.frame;
    // The figures come first: the name of a template fills the line.
    details.textContent = frame ? `${frame.figures}: ${frame.name.replaceAll("\n", " \u203a ")}` : " ";
  });
  frames.addEventListener("mouseleave", () => { details.textContent = " "; });
  window.addEventListener("keydown", (event) => {
    if (event.key === "Escape") change({ zoom: null, search: null, open: null });
    const isFind = (event.ctrlKey || event.metaKey) && event.key === "f";
    if (isFind || event.key === "/") { event.preventDefault(); ask(); }
  });
  window.addEventListener("hashchange", apply);
  window.addEventListener("resize", layOut);

  // Head and foot stay in sight while a deep graph scrolls.
  const height = parseFloat(svg.getAttribute("height"));
  function stick() {
    const lower = added + Math.min(0, window.scrollY + window.innerHeight - height - added);
    head.setAttribute("transform", `translate(0 ${Math.max(0, window.scrollY)})`);
    foot.setAttribute("transform", `translate(0 ${lower})`);
  }
  window.addEventListener("scroll", stick);
  window.addEventListener("resize", stick);

  svg.removeAttribute("viewBox");
  svg.setAttribute("width", "100%");
  apply();
  if (!INVERTED) window.scrollTo(0, height);
  stick();
})();
