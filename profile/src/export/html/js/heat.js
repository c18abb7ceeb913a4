// @ts-check
// A column a second, a row for each 20 ms of it. What repeats, and what sticks out of it, is seen at once.

const CELL_US = 20_000;
const CELLS = 50;
/** Room for the names of seconds above and of milliseconds beside the cells. */
const HEAT_TOP = 18;
const HEAT_LEFT = 48;

/** @type {{of: Kind, setOf: Uint8Array, threads: Set<number> | null, cells: Float64Array} | null} */
let knownCells = null;

/** Weights by cell. A selected time does not change them. @param {Kind} of @param {Uint8Array} setOf By stack: 1 for what is shown. @param {number} seconds */
function cellsOf(of, setOf, seconds) {
  const { threads } = state;
  if (knownCells?.of === of && knownCells.setOf === setOf && knownCells.threads === threads) return knownCells.cells;
  const cells = new Float64Array(seconds * CELLS);
  for (const samples of samplesOf(profile, of, null, threads)) {
    if (threads && !threads.has(samples.thread)) continue;
    // A sample is in the cell of its time, so that a cell has what its time selects.
    addToBins([cells], of, samples, setOf, { from: 0, to: seconds * 1e6 }, 0);
  }
  knownCells = { of, setOf, threads, cells };
  return cells;
}

/** @returns {{element: HTMLElement, shown: () => void}} */
function heatTab() {
  const of = kind() ?? NOTHING;
  if (!of.hasTimes) {
    return { element: make("p", { class: "empty" }, "The file has no times, so there is no heat map."), shown: () => {} };
  }
  const seconds = Math.ceil(profile.endUs / 1e6);
  const { focused, found } = selectedStacks();
  const cells = cellsOf(of, found ?? focused, seconds);
  const most = cells.reduce((most, cell) => Math.max(most, cell), 0);
  const canvas = make("canvas", { "aria-hidden": true });
  const area = make(
    "div",
    {
      class: "heat",
      tabindex: 0,
      role: "application",
      "aria-label": "Heat map: a column a second, a row for each 20 milliseconds. Arrow keys move, Enter selects the time.",
    },
    canvas,
  );
  const blocks = of.measure ? " A block is in the cell of the time that took it." : "";
  const text = "A column is a second, a row 20 ms of it, from the top. A click selects its time, with Shift up to there." + blocks;
  const only = found ? ` Only stacks with ${state.query}.` : "";
  const scale = make("span", { "data-most": most }, "0", make("span", { class: "scale", "aria-hidden": true }), `${amountInWords(most)} in 20 ms`);
  const element = make("div", { class: "heat-view" }, make("p", { class: "legend" }, make("span", {}, text + only), scale), area);
  let current = 0;
  let [wide, tall] = [10, 8];

  const draw = () => {
    wide = Math.max(4, Math.min(160, Math.floor((area.clientWidth - 2 - HEAT_LEFT) / seconds)));
    tall = Math.max(4, Math.floor((area.clientHeight - 20 - HEAT_TOP) / CELLS));
    const context = sized(canvas, Math.min(16_000, HEAT_LEFT + wide * seconds), HEAT_TOP + tall * CELLS);
    if (!context) return;
    const [cold, hot, accent, soft] = ["--heat-cold", "--heat-hot", "--accent", "--soft"].map(cssColor);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.fillStyle = soft;
    context.textAlign = "right";
    for (let row = 0; row < CELLS; row += 10) context.fillText(`${(row * CELL_US) / 1000} ms`, HEAT_LEFT - 5, HEAT_TOP + (row + 0.5) * tall);
    context.textAlign = "left";
    const everySecond = Math.ceil(48 / wide);
    for (let second = 0; second < seconds; second += everySecond) {
      const label = clock(second * 1e6, 1e6);
      // One at the edge would be cut.
      if (context.measureText(label).width <= (seconds - second) * wide) context.fillText(label, HEAT_LEFT + second * wide, HEAT_TOP / 2);
    }
    // A pixel for each cell, enlarged: a rectangle for each takes ten times as long.
    const columns = Math.min(seconds, Math.floor((16_000 - HEAT_LEFT) / wide));
    const image = context.createImageData(columns, CELLS);
    const [coldRgb, hotRgb] = [cold, hot].map((color) => rgbOf(context, color));
    for (let cell = 0; cell < columns * CELLS; cell++) {
      const part = cells[cell] > 0 ? 0.15 + (0.85 * cells[cell]) / most : 0;
      const pixel = 4 * ((cell % CELLS) * columns + Math.floor(cell / CELLS));
      for (let at = 0; at < 3; at++) image.data[pixel + at] = coldRgb[at] + part * (hotRgb[at] - coldRgb[at]);
      image.data[pixel + 3] = 255;
    }
    context.imageSmoothingEnabled = false;
    context.drawImage(canvasOf(image), HEAT_LEFT, HEAT_TOP, wide * columns, tall * CELLS);
    for (let column = 1; column <= columns; column++) context.clearRect(HEAT_LEFT + column * wide - 1, HEAT_TOP, 1, tall * CELLS);
    for (let row = 1; row <= CELLS; row++) context.clearRect(HEAT_LEFT, HEAT_TOP + row * tall - 1, wide * columns, 1);
    context.strokeStyle = accent;
    context.lineWidth = 2;
    /** Cells of a second. @param {number} first @param {number} after */
    const box = (first, after) =>
      context.strokeRect(HEAT_LEFT + Math.floor(first / CELLS) * wide, HEAT_TOP + (first % CELLS) * tall, wide, tall * (after - first));
    const { range } = state;
    if (range) {
      const after = Math.min(cells.length, Math.ceil(range.to / CELL_US));
      for (let cell = Math.floor(range.from / CELL_US); cell < after; ) {
        const next = Math.min(after, (Math.floor(cell / CELLS) + 1) * CELLS);
        box(cell, next);
        cell = next;
      }
    }
    if (document.activeElement === area) box(current, current + 1);
  };
  /** @param {number} cell */
  const tell = (cell) => hint(`${clock(cell * CELL_US, 1e4)}: ${amountInWords(cells[cell] ?? 0)}`);
  /** @param {number} cell @param {boolean} upTo */
  const pick = (cell, upTo) => {
    current = cell;
    const start = upTo && state.range ? Math.min(state.range.from, cell * CELL_US) : cell * CELL_US;
    change({ range: { from: start, to: (cell + 1) * CELL_US } });
  };
  const cellAt = (/** @type {MouseEvent} */ event) => {
    const place = canvas.getBoundingClientRect();
    const [x, y] = [Math.floor((event.clientX - place.left - HEAT_LEFT) / wide), Math.floor((event.clientY - place.top - HEAT_TOP) / tall)];
    return x >= 0 && x < seconds && y >= 0 && y < CELLS ? x * CELLS + y : -1;
  };
  canvas.addEventListener("click", (event) => {
    const cell = cellAt(event);
    if (cell >= 0) pick(cell, event.shiftKey);
  });
  canvas.addEventListener("mousemove", (event) => {
    const cell = cellAt(event);
    if (cell >= 0) tell(cell);
  });
  area.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, ArrowRight: CELLS, ArrowLeft: -CELLS }[event.key];
    if (step) {
      const next = current + step;
      if (next >= 0 && next < cells.length) current = next;
      tell(current);
      draw();
    } else if (event.key === "Enter") pick(current, event.shiftKey);
    else return;
    event.preventDefault();
  });
  for (const name of ["focus", "blur"]) area.addEventListener(name, draw);
  return { element, shown: drawnBySize(area, draw) };
}
