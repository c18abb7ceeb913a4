// @ts-check
// Colours of source text and machine code. A text is cut into tokens as a whole, since comments and strings may have
// many lines.

/** @typedef {"comment" | "string" | "number" | "keyword" | "type" | ""} TokenKind */
/** @typedef {[TokenKind, string][]} TokenLine */

const C_WORDS =
  "auto bool break case char const continue default do double else enum extern false float for goto if inline int long register return short signed sizeof static struct switch true typedef union unsigned void volatile while NULL";
/** Endings of files, and the words of their language. */
const LANGUAGES = [
  ["c h m", C_WORDS + " restrict"],
  [
    "cc cpp cxx hh hpp hxx inl ipp tcc cu mm java kt swift cs scala d ",
    C_WORDS +
      " abstract alignas alignof boolean byte catch class concept const_cast consteval constexpr constinit co_await co_return co_yield decltype delete dynamic_cast explicit extends final finally friend implements import instanceof interface mutable namespace new noexcept null nullptr operator override package private protected public reinterpret_cast requires static_assert static_cast super template this thread_local throw throws try typeid typename using virtual",
  ],
  [
    "rs",
    "as async await bool break char const continue crate dyn else enum extern f32 f64 false fn for i128 i16 i32 i64 i8 if impl in isize let loop macro_rules match mod move mut pub ref return self static str struct super trait true type u128 u16 u32 u64 u8 unsafe use usize where while yield",
  ],
  [
    "go",
    "any bool break byte case chan const continue default defer else error fallthrough false float32 float64 for func go goto if import int int16 int32 int64 int8 interface iota map nil package range return rune select string struct switch true type uint uint16 uint32 uint64 uint8 uintptr var",
  ],
  [
    "js cjs mjs jsx ts tsx",
    "as async await break case catch class const continue default delete do else export extends false finally for from function if import in instanceof interface let new null of return static super switch this throw true try typeof undefined var void while yield",
  ],
  ["py pyx", "and as assert async await break class continue def del elif else except False finally for from global if import in is lambda None nonlocal not or pass raise return True try while with yield"],
];

/** A language's tokens: a group each for comments, strings, numbers and words. @param {string} ending */
function patternOf(ending) {
  const [isRust, isPython] = [ending === "rs", ending.startsWith("py")];
  const comment = isPython ? "#[^\\n]*" : "\\/\\/[^\\n]*|\\/\\*[^]*?(?:\\*\\/|(?![^]))";
  const strings = [
    // Raw ones of Rust, C++, and Go and JavaScript.
    '\\b[bc]?r(?<hashes>#*)"[^]*?"\\k<hashes>',
    '\\b(?:u8|[LuU])?R"(?<mark>[^\\s()\\\\]*)\\([^]*?\\)\\k<mark>"',
    "`(?:[^`\\\\]|\\\\[^])*`?",
    isPython ? "(?<quotes>\"\"\"|''')[^]*?(?:\\k<quotes>|(?![^]))" : "",
    `"(?:[^"\\\\${isRust ? "" : "\\n"}]|\\\\[^])*"?`,
    // Rust has lifetimes, which no quote ends.
    isRust ? "'(?:[^'\\\\\\n]|\\\\[^'\\n]+|\\\\')'" : "'(?:[^'\\\\\\n]|\\\\[^])*'?",
  ];
  const words = (isRust || isPython ? "" : "^[ \\t]*#[ \\t]*\\w+|") + "[A-Za-z_$][\\w$]*";
  return new RegExp(`(?<comment>${comment})|(?<string>${strings.filter((one) => one).join("|")})|(?<number>\\b\\d(?:[\\w']|\\.\\d)*)|(?<word>${words})`, "gm");
}

/**
 * The lines of a text, in tokens. Those of an unknown language have no colours.
 * @param {string} text @param {string} path @returns {TokenLine[]}
 */
function tokensOf(text, path) {
  const ending = (/\.(\w+)$/.exec(path)?.[1] ?? "").toLowerCase();
  const [, known] = LANGUAGES.find(([endings]) => endings.split(" ").includes(ending)) ?? [];
  /** @type {TokenLine[]} */
  const lines = [[]];
  /** @param {TokenKind} kind @param {string} part */
  const add = (kind, part) =>
    part.split("\n").forEach((line, at) => {
      if (at > 0) lines.push([]);
      if (line) lines[lines.length - 1].push([kind, line]);
    });
  const plain = text.replace(/\r\n?/g, "\n");
  if (!known) {
    add("", plain);
    return lines;
  }
  const words = new Set(known.split(" "));
  let done = 0;
  for (const found of plain.matchAll(patternOf(ending))) {
    const { comment, string, number, word } = found.groups ?? {};
    /** @type {TokenKind} */
    let kind = comment ? "comment" : string ? "string" : number ? "number" : "";
    if (word) {
      if (words.has(word) || word.includes("#")) kind = "keyword";
      else if (/^[A-Z]\w*[a-z]|_t$/.test(word)) kind = "type";
    }
    if (!kind) continue;
    add("", plain.slice(done, found.index));
    add(kind, found[0]);
    done = found.index + found[0].length;
  }
  add("", plain.slice(done));
  return lines;
}

/** An instruction as the server has it: `L2: jne 0x1140 -> L1`. @param {string} text @returns {TokenLine} */
function tokensOfInstruction(text) {
  const [, label, name, rest] = /^((?:L\d+:)?\s*)(\S*)(.*)$/.exec(text) ?? ["", "", text, ""];
  /** @type {TokenLine} */
  const tokens = [
    ["type", label],
    ["keyword", name],
  ];
  let done = 0;
  for (const found of rest.matchAll(/(<.*>$|-> L\d+$)|\b(0x[\da-f]+|\d+)\b/g)) {
    tokens.push(["", rest.slice(done, found.index)], [found[1] ? "type" : "number", found[0]]);
    done = found.index + found[0].length;
  }
  tokens.push(["", rest.slice(done)]);
  return tokens.filter(([, part]) => part);
}

/** @param {TokenLine} tokens */
function codeCell(tokens) {
  // A line of generated code may have megabytes.
  let room = 2000;
  const parts = tokens.slice(0, room).map(([kind, part]) => {
    const text = part.slice(0, room);
    room -= text.length;
    return kind ? make("span", { class: "token-" + kind }, text) : text;
  });
  return make("code", {}, ...parts);
}
