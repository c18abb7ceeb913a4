// @ts-check
// The flame graph, the root at the top. The call tree is the same as a table.

const FLAME_ROW = 20;
/** Narrower frames are not drawn. */
const LEAST_PX = 0.4;

/** @typedef {{node: number, x: number, y: number, width: number}} FlameBox */

/** @returns {{element: HTMLElement, shown: () => void}} */
function flameTab() {
  if (profile.calls !== "paths") return withoutPaths();
  const { tree, total, own } = sums();
  const canvas = make("canvas", { "aria-hidden": true });
  const spacer = make("div", { class: "spacer" });
  const area = make(
    "div",
    {
      class: "flame",
      tabindex: 0,
      role: "application",
      "aria-label": "Flame graph. Arrow keys move, Enter zooms, Escape zooms out. The call tree has the same as a table.",
    },
    canvas,
    spacer,
  );
  const legend = make("p", { class: "legend" });
  const colors = profile.codes.map(([name, hue, saturation, lightness]) => [`hsl(${hue} ${saturation * 100}% ${lightness * 100}%)`, name]);
  for (const [color, name] of profile.diff ? changeLegend() : colors) {
    const swatch = make("span", { class: "swatch", "aria-hidden": true });
    swatch.style.background = color;
    legend.append(make("span", {}, swatch, name), " ");
  }
  const out = make("button", { type: "button" }, "Zoom out");
  const bar = make("div", { class: "bar" }, out, legend);
  const element = make("div", { class: "flame-view" }, bar, area);
  let zoomed = nodeAt(tree, state.zoom, total);
  let current = zoomed;
  /** @type {FlameBox[]} */
  let boxes = [];

  const paint = profile.diff ? changeColor : (/** @type {number} */ node, /** @type {boolean} */ inlined) => colorOf(tree.func[node], inlined);
  const words = (/** @type {number} */ node) => {
    const func = tree.func[node];
    return profile.diff && func >= 0 ? diffInWords(profile.names[func], node, func) : inWords(func, own[node], total[node], variancesOf(sums(), node));
  };
  const draw = () => {
    const { isMatch } = search();
    const [width, height] = [area.clientWidth, area.clientHeight];
    const context = sized(canvas, width, height);
    if (!context || width === 0) return;
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    // Of the narrowest letters, so that it is an upper bound of how many fit.
    const narrow = context.measureText("il:").width / 3;
    const top = area.scrollTop;
    boxes = [];
    /** The zoomed node's callers, the root first. @type {number[]} */
    const above = [];
    for (let node = tree.parent[zoomed]; node >= 0; node = tree.parent[node]) above.unshift(node);
    above.forEach((node, depth) => boxes.push({ node, x: 0, y: depth * FLAME_ROW, width }));
    const open = [{ node: zoomed, x: 0, y: above.length * FLAME_ROW, width }];
    let deepest = 0;
    for (let box = open.pop(); box; box = open.pop()) {
      boxes.push(box);
      deepest = Math.max(deepest, box.y);
      // What is below the visible part only counts for the height.
      let x = box.x;
      const scale = total[box.node] > 0 ? box.width / total[box.node] : 0;
      for (let child = tree.first[box.node]; child >= 0; child = tree.next[child]) {
        const wide = total[child] * scale;
        if (wide >= LEAST_PX) open.push({ node: child, x, y: box.y + FLAME_ROW, width: wide });
        x += wide;
      }
    }
    spacer.style.height = deepest + FLAME_ROW + "px";
    const [text, dim, found, line, root] = ["--on-frame", "--on-dim", "--found", "--accent", "--root"].map(cssColor);
    const isSearch = state.query !== "";
    for (const { node, x, y, width: wide } of boxes) {
      const at = y - top;
      if (at + FLAME_ROW < 0 || at > height) continue;
      const func = tree.func[node];
      const isCaller = node !== zoomed && wide === width && above.includes(node);
      const isFound = isSearch && isMatch(func);
      const isDim = isCaller || (isSearch && !isFound);
      context.globalAlpha = isDim ? 0.4 : 1;
      context.fillStyle = isFound ? found : func < 0 ? root : paint(node, tree.inlined[node] === 1);
      context.fillRect(x, at, Math.max(0.5, wide - 0.5), FLAME_ROW - 1);
      context.globalAlpha = 1;
      const label = fitted(context, func < 0 ? "all" : profile.names[func], wide - 8, narrow);
      if (label) {
        context.fillStyle = isDim ? dim : text;
        context.fillText(label, x + 4, at + FLAME_ROW / 2);
      }
      if (node === current && document.activeElement === area) {
        context.strokeStyle = line;
        context.lineWidth = 2;
        context.strokeRect(x + 1, at + 1, Math.max(1, wide - 2), FLAME_ROW - 3);
      }
    }
    out.disabled = zoomed === 0;
  };
  /** @param {number} node */
  const zoom = (node) => {
    zoomed = current = node;
    state.zoom = pathOf(tree, node);
    noteAddress(["zoom"]);
    area.scrollTop = 0;
    element.dataset.zoomed = node > 0 ? profile.names[tree.func[node]] : "";
    draw();
    tell(node);
  };
  /** @param {number} node */
  const tell = (node) => {
    state.func = tree.func[node];
    noteAddress(["func"]);
    hint(words(node));
    showActions();
  };
  /** @param {number} node */
  const go = (node) => {
    if (node < 0) return;
    current = node;
    const box = boxes.find((box) => box.node === node);
    if (box && (box.y < area.scrollTop || box.y + FLAME_ROW > area.scrollTop + area.clientHeight)) {
      area.scrollTop = Math.max(0, box.y - area.clientHeight / 2);
    }
    draw();
    tell(node);
  };
  /** @param {MouseEvent} event */
  const boxAt = (event) => {
    const place = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - place.left, event.clientY - place.top + area.scrollTop];
    return boxes.find((box) => x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + FLAME_ROW);
  };
  canvas.addEventListener("mousemove", (event) => {
    const box = boxAt(event);
    canvas.style.cursor = box ? "pointer" : "";
    canvas.title = box && box.node > 0 ? words(box.node) : "";
    if (box) hint(words(box.node));
  });
  canvas.addEventListener("click", (event) => {
    const box = boxAt(event);
    area.focus();
    if (box) zoom(box.node);
  });
  area.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowUp") go(tree.parent[current]);
    else if (event.key === "ArrowDown") go(hottest(tree, total, current));
    else if (event.key === "ArrowLeft") go(sibling(tree, total, current, -1));
    else if (event.key === "ArrowRight") go(sibling(tree, total, current, 1));
    else if (event.key === "Enter") zoom(current);
    else if (event.key === "Escape" && zoomed !== 0) {
      event.stopPropagation();
      zoom(0);
    } else if (!functionKey(tree.func[current], event)) return;
    event.preventDefault();
  });
  out.addEventListener("click", () => zoom(0));
  for (const name of ["focus", "blur", "scroll"]) area.addEventListener(name, draw);
  new ResizeObserver(draw).observe(area);
  element.dataset.zoomed = zoomed > 0 ? profile.names[tree.func[zoomed]] : "";
  return { element, shown: draw };
}

/**
 * The name, or its beginning, as long as it fits; "" if not even three letters do.
 * @param {CanvasRenderingContext2D} context @param {string} name @param {number} width @param {number} narrow Width of the narrowest letter.
 */
function fitted(context, name, width, narrow) {
  let letters = Math.min(name.length, Math.floor(width / narrow));
  while (letters >= 3) {
    const label = letters < name.length ? name.slice(0, letters - 1) + "\u2026" : name;
    const wide = context.measureText(label).width;
    if (wide <= width) return label;
    // In proportion, so that a long name takes a few measurements.
    letters = Math.min(letters - 1, Math.ceil((letters * width) / wide));
  }
  return "";
}

/** @param {Tree} tree @param {Float64Array} total @param {number} node */
function hottest(tree, total, node) {
  let found = -1;
  for (let child = tree.first[node]; child >= 0; child = tree.next[child]) {
    if (total[child] > 0 && (found < 0 || total[child] > total[found])) found = child;
  }
  return found;
}

/** The next node of the same caller, with weight. @param {Tree} tree @param {Float64Array} total @param {number} node @param {1 | -1} step */
function sibling(tree, total, node, step) {
  if (node === 0) return -1;
  const all = [];
  for (let child = tree.first[tree.parent[node]]; child >= 0; child = tree.next[child]) {
    if (total[child] > 0) all.push(child);
  }
  return all[all.indexOf(node) + step] ?? -1;
}

/** @param {Tree} tree @param {number} node */
function pathOf(tree, node) {
  const path = [];
  for (; node > 0; node = tree.parent[node]) path.unshift(tree.func[node]);
  return path;
}

/** The node of this path, or of as much of it as there is. @param {Tree} tree @param {number[]} path @param {Float64Array} total */
function nodeAt(tree, path, total) {
  let node = 0;
  for (const func of path) {
    let child = tree.first[node];
    while (child >= 0 && !(tree.func[child] === func && total[child] > 0)) child = tree.next[child];
    if (child < 0) break;
    node = child;
  }
  return node;
}

/**
 * A cleared canvas of this size, in the pixels of the screen.
 * @param {HTMLCanvasElement} canvas @param {number} width @param {number} height
 */
function sized(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  const [across, down] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== across || canvas.height !== down) {
    canvas.width = across;
    canvas.height = down;
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
  }
  const context = canvas.getContext("2d");
  context?.setTransform(scale, 0, 0, scale, 0, 0);
  context?.clearRect(0, 0, width, height);
  return context;
}
