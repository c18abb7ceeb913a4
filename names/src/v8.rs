//! V8's names for code that it compiles at run time: of Node.js, Deno and Chrome.
//!
//! `JS:*fib /path/busy.js:1:13` has a kind of code, the mark of a tier, a function and its place. `CodeEventLogger`
//! (src/logging/log.cc in V8) writes such names into perf maps and jitdump files, `CodeKindToMarker`
//! (src/objects/code-kind.cc) has the marks.

use std::borrow::Cow;

/// A longer name stays as it is.
const MAX_BYTES: usize = 64 << 10;

/// What runs the code of a function, by V8's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tier {
    /// Ignition, and its handlers of bytecodes.
    Interpreter,
    /// Sparkplug, or Liftoff for WebAssembly.
    Baseline,
    /// The first optimising compiler. Node.js 16 has another one with the same mark, Turboprop, which no default
    /// enables.
    Maglev,
    /// The last optimising compiler.
    TurboFan,
    /// Functions that V8 ships, and stubs between kinds of code.
    Builtin,
    /// Regular expressions.
    RegExp,
}

impl Tier {
    /// All, in the order of their numbers.
    pub const ALL: [Tier; 6] = [
        Tier::Interpreter,
        Tier::Baseline,
        Tier::Maglev,
        Tier::TurboFan,
        Tier::Builtin,
        Tier::RegExp,
    ];

    /// Its name in profiles.
    pub const fn name(self) -> &'static str {
        match self {
            Tier::Interpreter => "Interpreter",
            Tier::Baseline => "Baseline",
            Tier::Maglev => "Maglev",
            Tier::TurboFan => "TurboFan",
            Tier::Builtin => "Builtin",
            Tier::RegExp => "RegExp",
        }
    }
}

/// Where a function starts in its script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Start {
    /// From 1.
    pub line: u32,
    /// From 1. V8 before version 9 records no column.
    pub column: Option<u32>,
}

/// Properties of code, from its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Code {
    /// `None`: V8 wrote no mark, as for interpreted functions that it may not optimise.
    pub tier: Option<Tier>,
    /// Only functions of JavaScript have one.
    pub start: Option<Start>,
}

/// A name of V8, in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// The name, equal for all tiers: `fib busy.js:1:13`.
    pub name: Cow<'a, str>,
    /// The tier and the start.
    pub code: Code,
    /// The script as V8 names it: a path, an URL, `node:fs`; empty for code of `eval`.
    pub script: &'a str,
}

impl Named<'_> {
    /// Path of the script's file, or a name such as `node:fs`. `None` if the script has no name.
    pub fn file(&self) -> Option<Cow<'_, str>> {
        (!self.script.is_empty()).then(|| path_of(self.script))
    }
}

/// The parts of a name of V8; `None` for names of other compilers. Only for names of code that was compiled at run
/// time.
pub fn parse(name: &str) -> Option<Named<'_>> {
    let (tag, rest) = name.split_once(':').filter(|_| name.len() <= MAX_BYTES)?;
    let whole = |tier| Named {
        name: Cow::Borrowed(name),
        code: Code {
            tier: Some(tier),
            start: None,
        },
        script: "",
    };
    match tag {
        "JS" | "LazyCompile" | "Function" | "Eval" | "Script" => javascript(rest).or_else(|| webassembly(rest)),
        "Builtin" | "Stub" => Some(whole(Tier::Builtin)),
        "BytecodeHandler" => Some(whole(Tier::Interpreter)),
        // V8 12 writes `RegExp.> src: 'a+b' flags: ''`.
        "RegExp" | "RegExp.> src" => Some(whole(Tier::RegExp)),
        _ => None,
    }
}

/// The function of a readable name without its place, which changes with each line that is added above: `fib` of `fib
/// busy.js:1:13`.
pub fn without_place(name: &str) -> &str {
    let place = name
        .rsplit_once(' ')
        .filter(|(_, place)| number_at_end(place).is_some());
    place.map_or(name, |(function, _)| function)
}

/// `*fib /path/busy.js:1:13`: mark, function, script, line and column.
fn javascript(rest: &str) -> Option<Named<'_>> {
    // V8 14 marks code for a running loop: `o+`, `o*`.
    let rest = match rest.strip_prefix('o') {
        Some(marked) if marked.starts_with(['+', '*']) => marked,
        _ => rest,
    };
    let mark = |(mark, tier)| Some((rest.strip_prefix(mark)?, Some(tier)));
    let marks = [
        ('~', Tier::Interpreter),
        ('^', Tier::Baseline),
        ('+', Tier::Maglev),
        ('*', Tier::TurboFan),
    ];
    let (rest, tier) = marks.into_iter().find_map(mark).unwrap_or((rest, None));
    // V8 14 also writes `+'` and `*'`.
    let rest = match tier {
        Some(Tier::Maglev | Tier::TurboFan) => rest.strip_prefix('\'').unwrap_or(rest),
        _ => rest,
    };
    let (before, last) = number_at_end(rest)?;
    let (place, start) = match number_at_end(before) {
        Some((place, line)) => (place, (line, Some(last))),
        None => (before, (last, None)),
    };
    let (function, script) = split_script(place)?;
    let function = if function.is_empty() { "(anonymous)" } else { function };
    let (line, column) = start;
    let column_text = column.map_or_else(String::new, |column| format!(":{column}"));
    Some(Named {
        name: format!("{function} {}:{line}{column_text}", base_name(script)).into(),
        code: Code {
            tier,
            start: Some(Start { line, column }),
        },
        script,
    })
}

/// `fib-0-liftoff`: function, its index, compiler. Two functions may have one name.
fn webassembly(rest: &str) -> Option<Named<'_>> {
    let (rest, compiler) = rest.rsplit_once('-')?;
    let tier = match compiler {
        "liftoff" => Tier::Baseline,
        "turbofan" => Tier::TurboFan,
        _ => return None,
    };
    let (function, index) = rest.rsplit_once('-')?;
    let unnamed = format!("wasm-function[{index}]");
    Some(Named {
        name: match function == unnamed {
            true => unnamed.into(),
            false => format!("{function} {unnamed}").into(),
        },
        code: Code {
            tier: Some(tier),
            start: None,
        },
        script: "",
    })
}

/// (`a`, 12) of `a:12`.
fn number_at_end(text: &str) -> Option<(&str, u32)> {
    let (before, digits) = text.rsplit_once(':')?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    Some((before, digits.parse().ok().filter(|_| is_number)?))
}

/// (`get size`, `/my path/busy.js`) of `get size /my path/busy.js`: both may have spaces.
fn split_script(place: &str) -> Option<(&str, &str)> {
    let is_script = |at: &usize| {
        let script = &place[at + 1..];
        script.is_empty() || script.starts_with('/') || scheme(script).is_some()
    };
    let absolute = place.match_indices(' ').map(|(at, _)| at).find(is_script);
    let at = absolute.or_else(|| place.rfind(' '))?;
    Some((&place[..at], &place[at + 1..]))
}

/// `node` of `node:fs`, `file` of `file:///a.mjs`.
fn scheme(script: &str) -> Option<&str> {
    let (scheme, _) = script.split_once(':')?;
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme.then_some(scheme)
}

/// The last part of the script's path. Modules of Node.js itself keep theirs: `node:internal/fs/utils`.
fn base_name(script: &str) -> Cow<'_, str> {
    if script.is_empty() {
        // As in V8's stack traces.
        return "<anonymous>".into();
    }
    if script.starts_with("node:") {
        return script.into();
    }
    const SEPARATORS: [char; 2] = ['/', '\\'];
    let last = |path: &str| {
        let at = path.rfind(SEPARATORS).map_or(0, |at| at + 1);
        match &path[at..] {
            // `https://example.com/`
            "" => 0,
            // Each package has its own.
            name if name.starts_with("index.") => {
                let folder = path[..at].trim_end_matches(SEPARATORS);
                folder.rfind(SEPARATORS).map_or(0, |at| at + 1)
            }
            _ => at,
        }
    };
    match path_of(script) {
        Cow::Borrowed(path) => path[last(path)..].into(),
        Cow::Owned(path) => path[last(&path)..].to_owned().into(),
    }
}

/// The path in a `file:` URL; other names stay.
fn path_of(script: &str) -> Cow<'_, str> {
    let Some(path) = script.strip_prefix("file://").filter(|path| path.starts_with('/')) else {
        return script.into();
    };
    // `import('./a.mjs?again')` loads a file once more.
    let path = &path[..path.find(['?', '#']).unwrap_or(path.len())];
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let escaped = hex.filter(|hex| first == b'%' && hex.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let byte = escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(bytes).map_or(script.into(), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marks as of Node.js 20, and Maglev's of Node.js 22.
    #[test]
    fn a_function_has_one_name_in_all_tiers() {
        for (mark, tier) in [
            ("~", Some(Tier::Interpreter)),
            ("^", Some(Tier::Baseline)),
            ("+", Some(Tier::Maglev)),
            ("*", Some(Tier::TurboFan)),
            // V8 14, in Chromium 156.
            ("+'", Some(Tier::Maglev)),
            ("o+", Some(Tier::Maglev)),
            ("o*", Some(Tier::TurboFan)),
            ("", None),
        ] {
            let raw = format!("JS:{mark}fib /tmp/busy.js:1:13");
            let named = parse(&raw).unwrap();
            let (line, column) = (1, Some(13));
            assert_eq!((&*named.name, named.script), ("fib busy.js:1:13", "/tmp/busy.js"));
            assert_eq!(
                (named.code.tier, named.code.start),
                (tier, Some(Start { line, column }))
            );
        }
        let of_v8_8 = parse("LazyCompile:*fib /tmp/busy.js:1").unwrap();
        assert_eq!(of_v8_8.name, "fib busy.js:1");
        assert_eq!(of_v8_8.code.start, Some(Start { line: 1, column: None }));
    }

    #[test]
    fn scripts_of_one_name_keep_what_tells_them_apart() {
        for (script, place) in [
            ("/app/a/index.js", "a/index.js"),
            ("file:///app/b/index.mjs", "b/index.mjs"),
            ("index.js", "index.js"),
            ("/index.js", "/index.js"),
            ("https://example.com/", "https://example.com/"),
        ] {
            let named = parse(&format!("JS:~ {script}:1:1")).unwrap().name.into_owned();
            assert_eq!(named, format!("(anonymous) {place}:1:1"));
        }
    }

    /// All but the one of Windows are from Node.js 20.
    #[test]
    fn functions_and_scripts_may_have_no_name_spaces_and_urls() {
        let fs = "node:internal/fs/utils";
        for (raw, name, file) in [
            ("* /tmp/a b.js:8:7", "(anonymous) a b.js:8:7", "/tmp/a b.js"),
            ("~get n /tmp/a b.js:2:3", "get n a b.js:2:3", "/tmp/a b.js"),
            (
                "~<static_initializer> /a.js:2:1",
                "<static_initializer> a.js:2:1",
                "/a.js",
            ),
            ("~a.b node:internal/fs/utils:9:1", "a.b node:internal/fs/utils:9:1", fs),
            ("*sum :1:18", "sum <anonymous>:1:18", ""),
            ("*get n :1:18", "get n <anonymous>:1:18", ""),
            ("*f vm.<anonymous>:1:2", "f vm.<anonymous>:1:2", "vm.<anonymous>"),
            (
                "~ file:///a%20%C3%A9.mjs?x=1:1:1",
                "(anonymous) a é.mjs:1:1",
                "/a é.mjs",
            ),
            ("*f C:\\x\\y.js:2:1", "f y.js:2:1", "C:\\x\\y.js"),
        ] {
            for tag in ["JS", "Eval", "Script"] {
                let raw = format!("{tag}:{raw}");
                let named = parse(&raw).unwrap();
                assert_eq!(named.name, name, "{raw}");
                assert_eq!(named.file().as_deref().unwrap_or_default(), file, "{raw}");
            }
            assert_eq!(parse(name), None, "once is enough");
            assert!(
                name.starts_with(without_place(name)) && without_place(name) != name,
                "{name}"
            );
        }
    }

    #[test]
    fn code_without_a_script_has_a_tier() {
        for (raw, name, tier) in [
            ("Builtin:ArrayMap", "Builtin:ArrayMap", Tier::Builtin),
            ("Stub:js-to-wasm:i:i", "Stub:js-to-wasm:i:i", Tier::Builtin),
            ("BytecodeHandler:LdaZero", "BytecodeHandler:LdaZero", Tier::Interpreter),
            ("RegExp:a+:1:2", "RegExp:a+:1:2", Tier::RegExp),
            ("RegExp.> src: 'a'", "RegExp.> src: 'a'", Tier::RegExp),
            ("JS:wasm-function[12]-12-liftoff", "wasm-function[12]", Tier::Baseline),
            ("Function:a-b-3-turbofan", "a-b wasm-function[3]", Tier::TurboFan),
        ] {
            let named = parse(raw).unwrap();
            let code = (named.code.tier, named.code.start);
            assert_eq!((&*named.name, code), (name, (Some(tier), None)), "{raw}");
        }
    }

    #[test]
    fn names_of_others_stay() {
        let with_numbers = ["JS:*f:1:2", "JS:*f /a.js:99999999999:x", ":1:2", "main.go:12"];
        let others = [
            "JS:~x",
            "JS:",
            "JS:*f a.js",
            "Function:f",
            "Interpreter",
            "a::b",
            "Lx;:y",
            "",
        ];
        for name in with_numbers.into_iter().chain(others) {
            assert_eq!(parse(name), None, "{name}");
            assert!(name.contains("/a.js") || without_place(name) == name, "{name}");
        }
    }
}
