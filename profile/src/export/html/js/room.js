// @ts-check
// The room of the timeline: its lower edge moves, and it folds.

/** The most that it takes of the window. */
const MOST_ROOM = 0.7;

function startRoom() {
  const [rows, edge, fold] = ["rows", "edge", "fold"].map(byId);
  /** @param {number} height */
  const give = (height) => {
    const room = Math.max(PROCESS_PX, Math.min(innerHeight * MOST_ROOM, height));
    rows.style.maxHeight = room + "px";
    // What the user asks for does not give way to the view below.
    rows.style.flexShrink = "0";
    edge.setAttribute("aria-valuenow", String(Math.round((100 * room) / innerHeight)));
  };
  let from = -1;
  let height = 0;
  edge.addEventListener("pointerdown", (event) => {
    [from, height] = [event.clientY, rows.clientHeight];
    edge.setPointerCapture(event.pointerId);
  });
  edge.addEventListener("pointermove", (event) => {
    if (from >= 0) give(height + event.clientY - from);
  });
  for (const name of ["pointerup", "pointercancel"]) edge.addEventListener(name, () => (from = -1));
  edge.addEventListener("keydown", (event) => {
    const step = { ArrowDown: PROCESS_PX, ArrowUp: -PROCESS_PX }[event.key];
    if (!step) return;
    give(rows.clientHeight + step);
    event.preventDefault();
  });
  fold.addEventListener("click", () => {
    const isFolded = !rows.hidden;
    for (const part of [rows, edge, byId("time-axis")]) part.hidden = isFolded;
    fold.setAttribute("aria-expanded", String(!isFolded));
    fold.textContent = isFolded ? "Unfold" : "Fold";
  });
}
