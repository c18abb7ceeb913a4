// @ts-check
// Goes to the UI if this browser reaches it, and else to the viewer. The UI's server learns what it learns from opening the UI.
(() => {
  /** A busy network answers in that time; one that drops packets never does. */
  const PATIENCE_MS = 4000;
  /** @param {string} id */
  const link = (id) => /** @type {HTMLAnchorElement} */ (document.getElementById(id));
  const [ui, viewer] = [link("ui"), link("viewer")];
  const patience = new AbortController();
  setTimeout(() => patience.abort(), PATIENCE_MS);
  fetch(ui.dataset.test ?? "", {
    method: "HEAD",
    // Whatever the answer is, there is one.
    mode: "no-cors",
    credentials: "omit",
    cache: "no-store",
    signal: patience.signal,
  }).then(
    () => location.replace(ui.href),
    () => location.replace(viewer.href),
  );
})();
