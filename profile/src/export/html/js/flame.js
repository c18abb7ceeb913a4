// @ts-check
// The flame graph, the root at the top. The call tree is the same as a table.

const FLAME_ROW = 20;
/** Narrower frames are not drawn. */
const LEAST_PX = 0.4;
/** The smallest part of a frame that is shown in its place. */
const LEAST_PART = 1e-6;
/** How much larger a pixel of a wheel makes, and the most pixels of a turn: mice turn by 100, touchpads by 1 to 20. */
const WHEEL = { scale: 0.01, most: 25 };
/** A pointer that moves less is a click. */
const CLICK_PX = 4;

/**
 * @typedef {object} FlameBox
 * @property {number} node
 * @property {number} x
 * @property {number} y
 * @property {number} width
 * @property {number} [below] The row stands for several functions, each the only callee of the one before: the callee of the last one.
 */

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
  const { totalOf } = sums();
  const isShown = (/** @type {number} */ code) => totalOf.some((weight, func) => weight > 0 && profile.code[func] === code);
  const codes = profile.codes.filter((_, code) => isShown(code));
  const colors = codes.map(([name, hue, saturation, lightness]) => [`hsl(${hue} ${saturation * 100}% ${lightness * 100}%)`, name]);
  for (const [color, name] of profile.diff ? changeLegend() : colors) {
    const swatch = make("span", { class: "swatch", "aria-hidden": true });
    swatch.style.background = color;
    legend.append(make("span", {}, swatch, name), " ");
  }
  const out = make("button", { type: "button", title: "Ctrl and the wheel, or two fingers, zoom at a place; drag moves" }, "Zoom out");
  const whole = make("button", { type: "button", "aria-pressed": String(state.whole), title: "Give each caller that all stacks have in common a row of its own" }, "Whole stacks");
  const bar = make("div", { class: "bar" }, out, whole, legend);
  const element = make("div", { class: "flame-view" }, bar, area);
  let zoomed = nodeAt(tree, state.zoom, total);
  let current = zoomed;
  /** @type {FlameBox[]} */
  let boxes = [];

  const paint = profile.diff ? changeColor : (/** @type {number} */ node, /** @type {boolean} */ inlined) => colorOf(tree.func[node], inlined);
  /** Figures, name and place. @param {number} node */
  const lines = (node) => {
    const folded = foldAt(node);
    if (folded) return [`${callersInWords(functionsOf(folded))}; Enter or a click shows each`];
    const func = tree.func[node];
    return profile.diff && func >= 0 ? [diffInWords(profile.names[func], node, func)] : inLines(func, own[node], total[node], variancesOf(sums(), node));
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
    let row = 0;
    /** @param {FlameBox} box */
    const add = (box) => boxes.push(box);
    above.forEach((node, depth) => {
      const isFolded = !state.whole && above.length > 3 && depth > 0 && depth < above.length - 1;
      if (!isFolded) add({ node, x: 0, y: row++ * FLAME_ROW, width });
      else if (depth === 1) add({ node, x: 0, y: row++ * FLAME_ROW, width, below: above[above.length - 1] });
    });
    const { from, to } = state.part ?? { from: 0, to: 1 };
    const full = width / (to - from);
    const open = [{ node: zoomed, x: -from * full, y: row * FLAME_ROW, width: full }];
    let deepest = 0;
    for (let box = open.pop(); box; box = open.pop()) {
      boxes.push(box);
      deepest = Math.max(deepest, box.y);
      // What is below the visible part only counts for the height.
      let x = box.x;
      const scale = total[box.node] > 0 ? box.width / total[box.node] : 0;
      for (let child = tree.first[box.node]; child >= 0; child = tree.next[child]) {
        const wide = total[child] * scale;
        const y = box.y + FLAME_ROW;
        // The same at each zoom: rows would jump.
        const below = box.node === 0 && !state.whole ? onlyCallee(child, width / total[0]) : child;
        if (x + wide < 0 || x > width) {
          x += wide;
          continue;
        }
        if (below !== child) {
          add({ node: child, x, y, width: wide, below });
          open.push({ node: below, x, y: y + FLAME_ROW, width: total[below] * scale });
        } else if (wide >= LEAST_PX) open.push({ node: child, x, y, width: wide });
        x += wide;
      }
    }
    spacer.style.height = deepest + FLAME_ROW + "px";
    const [text, dim, found, line, root] = ["--on-frame", "--on-dim", "--found", "--accent", "--root"].map(cssColor);
    const isSearch = state.query !== "";
    for (const box of boxes) {
      const { node, y } = box;
      const [x, end] = [Math.max(0, box.x), Math.min(width, box.x + box.width)];
      const [wide, at] = [end - x, y - top];
      if (at + FLAME_ROW < 0 || at > height) continue;
      const func = tree.func[node];
      const isCaller = above.includes(node);
      const isFound = isSearch && functionsOf(box).some(isMatch);
      const isDim = isCaller || (isSearch && !isFound);
      context.globalAlpha = isDim ? 0.4 : 1;
      context.fillStyle = isFound ? found : func < 0 || box.below ? root : paint(node, tree.inlined[node] === 1);
      context.fillRect(x, at, Math.max(0.5, wide - 0.5), FLAME_ROW - 1);
      context.globalAlpha = 1;
      const label = fitted(context, box.below ? callersInWords(functionsOf(box)) : func < 0 ? "all" : shortOf(func), wide - 8, narrow);
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
    out.disabled = zoomed === 0 && !state.part;
    canvas.style.cursor = state.part ? "grab" : "pointer";
    element.dataset.part = [from, to].map((end) => end.toFixed(4)).join();
    element.dataset.folded = String(boxes.filter((box) => box.below).length);
  };
  /** The first node from this one on that has more than one callee, if two before it have no more and nothing of their own. @param {number} node @param {number} scale */
  const onlyCallee = (node, scale) => {
    let [last, folded] = [node, 0];
    while (own[last] * scale < LEAST_PX) {
      let [only, number] = [-1, 0];
      for (let child = tree.first[last]; child >= 0; child = tree.next[child]) {
        if (total[child] * scale >= LEAST_PX) [only, number] = [child, number + 1];
      }
      if (number !== 1) break;
      [last, folded] = [only, folded + 1];
    }
    return folded > 1 ? last : node;
  };
  /** The row that stands for several functions from this one on. @param {number} node */
  const foldAt = (node) => boxes.find((box) => box.node === node && box.below);
  /** The functions that a row stands for. @param {FlameBox} box */
  const functionsOf = ({ node, below }) => {
    if (!below) return [tree.func[node]];
    const folded = [];
    for (let at = tree.parent[below]; at !== tree.parent[node]; at = tree.parent[at]) folded.unshift(tree.func[at]);
    return folded;
  };
  /** @param {boolean} isWhole */
  const unfold = (isWhole) => {
    state.whole = isWhole;
    whole.setAttribute("aria-pressed", String(isWhole));
    noteAddress(["whole"]);
    draw();
  };
  /** @param {number} node */
  const zoom = (node) => {
    if (foldAt(node)) return unfold(true);
    zoomed = current = node;
    state.zoom = pathOf(tree, node);
    state.part = null;
    noteAddress(["zoom"]);
    area.scrollTop = 0;
    element.dataset.zoomed = node > 0 ? profile.names[tree.func[node]] : "";
    draw();
    tell(node);
  };
  /** @param {number} node */
  const tell = (node) => {
    state.func = tree.func[node];
    chosenPath = pathOf(tree, node);
    noteAddress(["func"]);
    const [figures, name, place] = lines(node);
    hint(figures + (name ? `: ${name}` : "") + (place ? ` (${place})` : ""));
    showActions();
  };
  /** @param {number} node */
  const go = (node) => {
    if (node < 0) return;
    current = node;
    const isVisible = (/** @type {FlameBox} */ { x, width }) => x + width > 0 && x < area.clientWidth;
    if (!boxes.some((box) => box.node === node && isVisible(box))) show(0, 1);
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
  /** Shows this part of the zoomed frame. @param {number} from @param {number} length */
  const show = (from, length) => {
    const start = Math.max(0, Math.min(1 - length, from));
    state.part = length < 1 ? { from: start, to: start + length } : null;
    noteAddress(["part"]);
    hideTip();
    draw();
  };
  const partNow = () => state.part ?? { from: 0, to: 1 };
  /** Makes what is at this place larger, or smaller. @param {number} clientX @param {number} factor Of the part that is shown. */
  const scaleAt = (clientX, factor) => {
    const { from, to } = partNow();
    const place = canvas.getBoundingClientRect();
    const share = (clientX - place.left) / Math.max(1, place.width);
    const length = Math.max(LEAST_PART, Math.min(1, (to - from) * factor));
    show(from + share * (to - from - length), length);
  };
  /** @param {number} px */
  const move = (px) => {
    const { from, to } = partNow();
    show(from - (px / Math.max(1, area.clientWidth)) * (to - from), to - from);
  };
  area.addEventListener(
    "wheel",
    (event) => {
      const isSideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
      // Without a key, the wheel scrolls: the graph, or the page.
      if (event.ctrlKey || event.metaKey) scaleAt(event.clientX, Math.exp(WHEEL.scale * Math.max(-WHEEL.most, Math.min(WHEEL.most, event.deltaY))));
      else if (state.part && isSideways) move(-event.deltaX);
      else return hideTip();
      event.preventDefault();
    },
    { passive: false },
  );
  /** Buttons and fingers that are down. @type {Map<number, PointerEvent>} */
  const down = new Map();
  let moved = 0;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    if (down.size === 0) moved = 0;
    down.set(event.pointerId, event);
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = down.get(event.pointerId);
    if (!before) {
      const box = boxAt(event);
      if (box) showTip(event, lines(box.node));
      else hideTip();
      return;
    }
    down.set(event.pointerId, event);
    const by = event.clientX - before.clientX;
    moved += Math.abs(by);
    if (moved < CLICK_PX) return;
    const other = [...down.values()].find(({ pointerId }) => pointerId !== event.pointerId);
    if (!other) return move(by);
    const apart = (/** @type {PointerEvent} */ of) => Math.max(1, Math.hypot(of.clientX - other.clientX, of.clientY - other.clientY));
    scaleAt((event.clientX + other.clientX) / 2, apart(before) / apart(event));
  });
  for (const name of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(name, (event) => down.delete(/** @type {PointerEvent} */ (event).pointerId));
  }
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("click", (event) => {
    if (moved >= CLICK_PX) return;
    const box = boxAt(event);
    hideTip();
    area.focus();
    if (box) zoom(box.node);
  });
  area.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowUp") go((boxes.find((box) => box.below === current) ?? { node: tree.parent[current] }).node);
    else if (event.key === "ArrowDown") go(foldAt(current)?.below ?? hottest(tree, total, current));
    else if (event.key === "ArrowLeft") go(sibling(tree, total, current, -1));
    else if (event.key === "ArrowRight") go(sibling(tree, total, current, 1));
    else if (event.key === "Enter") zoom(current);
    else if (!functionKey(tree.func[current], event)) return;
    event.preventDefault();
  });
  out.addEventListener("click", () => zoom(0));
  whole.addEventListener("click", () => unfold(!state.whole));
  for (const name of ["focus", "blur", "scroll"]) area.addEventListener(name, draw);
  element.dataset.zoomed = zoomed > 0 ? profile.names[tree.func[zoomed]] : "";
  return { element, shown: drawnBySize(area, draw) };
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
