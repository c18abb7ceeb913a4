// @ts-check
// What is under the pointer: figures first, then the name, which wraps. The foot of the page says the same of what is chosen.

const tip = make("div", { id: "tip", "aria-hidden": true, hidden: true });

/** Shows these lines beside the pointer. @param {PointerEvent} event @param {string[]} lines */
function showTip(event, lines) {
  // A finger covers it.
  if (event.pointerType === "touch") return;
  const [first, ...rest] = lines.filter((line) => line);
  tip.replaceChildren(make("b", {}, first), ...rest.map((line) => make("div", {}, line)));
  tip.hidden = false;
  document.body.append(tip);
  const { clientX, clientY } = event;
  const { offsetWidth, offsetHeight } = tip;
  tip.style.left = Math.max(4, Math.min(clientX + 12, innerWidth - offsetWidth - 4)) + "px";
  tip.style.top = (clientY + 18 + offsetHeight > innerHeight ? Math.max(4, clientY - offsetHeight - 8) : clientY + 18) + "px";
}

function hideTip() {
  tip.hidden = true;
}
