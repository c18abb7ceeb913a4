// @ts-check
// A column a second, a row for each 20 ms of it. What repeats, and what sticks out of it, is seen at once.

const CELL_US = 20_000;
const CELLS = 50;
/** Room for the names of seconds above and of milliseconds beside the cells. */
const HEAT_TOP = 18;
const HEAT_LEFT = 48;

/** @returns {{element: HTMLElement, shown: () => void}} */
function heatTab() {
  const of = kind() ?? NOTHING;
  if (!of.hasTimes) {
    return { element: make("p", { class: "empty" }, "The file has no times, so there is no heat map."), shown: () => {} };
  }
  const seconds = Math.ceil(profile.endUs / 1e6);
  const cells = new Float64Array(seconds * CELLS);
  const { focused, found } = selectedStacks();
  for (const samples of samplesOf(profile, of, null, state.threads)) {
    if (state.threads && !state.threads.has(samples.thread)) continue;
    // A sample is in the cell of its time, so that a cell has what its time selects.
    addToBins([cells], of, samples, found ?? focused, { from: 0, to: seconds * 1e6 }, 0);
  }
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
  const scale = make("span", { "data-most": most }, "0", make("span", { class: "scale", "aria-hidden": true }), `${amount(most)} in 20 ms`);
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
    const everySecond = Math.ceil(40 / wide);
    for (let second = 0; second < seconds; second += everySecond) context.fillText(clock(second * 1e6, 1e6), HEAT_LEFT + second * wide, HEAT_TOP / 2);
    cells.forEach((weight, cell) => {
      const [x, y] = [HEAT_LEFT + Math.floor(cell / CELLS) * wide, HEAT_TOP + (cell % CELLS) * tall];
      context.globalAlpha = 1;
      context.fillStyle = cold;
      context.fillRect(x, y, wide - 1, tall - 1);
      if (weight <= 0) return;
      context.globalAlpha = 0.15 + (0.85 * weight) / most;
      context.fillStyle = hot;
      context.fillRect(x, y, wide - 1, tall - 1);
    });
    context.globalAlpha = 1;
    context.strokeStyle = accent;
    context.lineWidth = 2;
    const box = (/** @type {number} */ cell) =>
      context.strokeRect(HEAT_LEFT + Math.floor(cell / CELLS) * wide, HEAT_TOP + (cell % CELLS) * tall, wide, tall);
    const { range } = state;
    if (range) for (let cell = Math.floor(range.from / CELL_US); cell * CELL_US < range.to && cell < cells.length; cell++) box(cell);
    if (document.activeElement === area) box(current);
  };
  /** @param {number} cell */
  const tell = (cell) => hint(`${clock(cell * CELL_US, 1e4)}: ${amount(cells[cell] ?? 0)}`);
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
  new ResizeObserver(draw).observe(area);
  return { element, shown: draw };
}
