// @ts-check
// Words and elements.

/**
 * An element with attributes and children. Texts become text nodes, so no name is ever taken for HTML.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, string | number | boolean | null | undefined>} [attributes]
 * @param {...(Node | string | null | undefined | false)} children
 * @returns {HTMLElementTagNameMap[K]}
 */
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  for (const child of children) if (child) element.append(child);
  return element;
}

/**
 * The page's element with this id.
 * @param {string} id
 * @returns {HTMLElement}
 */
function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error("no element " + id);
  return found;
}

const GROUPED = new Intl.NumberFormat("en-US");

/** `1,234` @param {number} number */
function grouped(number) {
  return GROUPED.format(Math.round(number));
}

/** `1.23 s`, `12.3 ms`, `8 ns`, as in reports. @param {number} ns */
function duration(ns) {
  const ms = ns / 1e6;
  if (Math.abs(ms) >= 1000) return (ms / 1000).toFixed(2) + " s";
  if (Math.abs(ms) >= 100 || ms === 0) return ms.toFixed(0) + " ms";
  if (Math.abs(ms) >= 0.1) return ms.toFixed(1) + " ms";
  return Math.abs(ns) < 999.5 ? ns.toFixed(0) + " ns" : (ms * 1000).toFixed(0) + " \u00b5s";
}

/** A time of the axis, with as many digits as a step has. @param {number} us @param {number} stepUs */
function clock(us, stepUs) {
  const digits = stepUs >= 1e6 ? 0 : stepUs >= 1e5 ? 1 : stepUs >= 1e4 ? 2 : stepUs >= 1e3 ? 3 : 6;
  return (us / 1e6).toFixed(digits) + " s";
}

/** `123 B`, `1.2 MB` @param {number} size */
function bytesText(size) {
  const of = Math.abs(size);
  if (of >= 1e9) return (size / 1e9).toFixed(1) + " GB";
  if (of >= 1e6) return (size / 1e6).toFixed(1) + " MB";
  if (of >= 1e3) return (size / 1e3).toFixed(1) + " kB";
  return size.toFixed(0) + " B";
}

/** `12.34 %` @param {number} part @param {number} whole */
function percent(part, whole) {
  return (whole > 0 ? (100 * part) / whole : 0).toFixed(2) + " %";
}

/** `79 (12.3 %)`, `0`, as in reports. @param {number} part @param {number} whole */
function withShare(part, whole) {
  const of = (100 * part) / Math.max(whole, 1);
  return part === 0 ? "0" : `${grouped(part)} (${of < 0.01 ? "< 0.01" : of.toFixed(of < 1 ? 2 : 1)} %)`;
}

/** `1 thread`, `2 threads` @param {number} number @param {string} one @param {string} many */
function count(number, one, many) {
  return grouped(number) + " " + (number === 1 ? one : many);
}

/**
 * FNV-1a, 32 bits, of the name's UTF-8: the shade of other flame graphs of sprof.
 * @param {string} name
 */
function hashOf(name) {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(name)) hash = Math.imul(hash ^ byte, 0x01000193);
  hash >>>= 0;
  return (hash ^ (hash >>> 15)) >>> 0;
}

/** The text. No line ends inside of an option of a command. @param {string} text */
function withOptions(text) {
  return text.split(/(\S*--\S+)/).map((part, at) => (at % 2 === 1 ? make("span", { class: "option" }, part) : part));
}

/** A colour of the style sheet. @param {string} name */
function cssColor(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
