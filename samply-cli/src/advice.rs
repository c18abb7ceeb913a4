//! What helps where a result is poor: a line for each cause.

use profile::view::data::Data;
use profile::view::select::Selection;
use profile::view::shortfalls::{Code, Lack, Runtime, Shortfall};
use recording::symbol::SymbolSource;
use serde_json::{Value, json};

use crate::fit::clean;
use crate::names::why_nameless;

/// A line: how much is concerned, and what to do.
pub(crate) fn line(shortfall: &Shortfall, selection: &Selection<'_>) -> String {
    let percent = 100.0 * shortfall.cost.share_of(selection.total);
    let of_samples = format!("{percent:.0} % of the samples");
    let lib = |lib: u32| lib_name(selection.data, lib);
    match shortfall.lack {
        Lack::Names(Code::Runtime(Runtime::Node)) => {
            format!(
                "{of_samples} have JavaScript functions without names: run `node --perf-prof`, or `--perf-basic-prof`"
            )
        }
        Lack::Names(Code::Runtime(Runtime::Java)) => format!(
            "{of_samples} have Java methods without names: run `java -XX:+UnlockDiagnosticVMOptions \
             -XX:+DumpPerfMapAtExit` (17 or later)"
        ),
        Lack::Names(Code::Runtime(Runtime::Python)) => {
            format!(
                "{of_samples} are in Python code, whose functions are not shown: run `python3 -X perf` (3.12 or later)"
            )
        }
        Lack::Names(Code::Jit) => format!(
            "{of_samples} have functions without names in code that was made while the program ran: have its compiler write \
             a jitdump file or a perf map"
        ),
        Lack::Names(Code::Lib(at, source)) => format!(
            "{of_samples} have functions of {} without names: {}; {}",
            lib(at),
            why_nameless(source),
            remedy(source)
        ),
        Lack::Callers(Code::Runtime(Runtime::Java)) => {
            format!("{of_samples} have truncated stacks in Java methods: run `java -XX:+PreserveFramePointer`")
        }
        Lack::Callers(Code::Runtime(Runtime::Node)) => format!(
            "{of_samples} have truncated stacks in JavaScript functions: run `node --perf-prof --perf-prof-unwinding-info`"
        ),
        Lack::Callers(Code::Runtime(Runtime::Python) | Code::Jit) => format!(
            "{of_samples} have stacks that are truncated in code that was made while the program ran: have its compiler keep \
             frame pointers"
        ),
        Lack::Callers(Code::Lib(at, _)) => format!(
            "{of_samples} have stacks that are truncated in {}: build it with -fasynchronous-unwind-tables or \
             -fno-omit-frame-pointer",
            lib(at)
        ),
        Lack::StackBytes => format!(
            "{of_samples} have stacks deeper than what was copied of them: --stack-size 65528 copies more; root can read the \
             rest from the program's memory"
        ),
        Lack::Depth => format!("{of_samples} have more frames than are followed: their callers are not shown"),
        Lack::DebugInfo(at) => format!(
            "{} has no debug info, so lines and inlined functions are not shown: build it with -g (Cargo: \
             CARGO_PROFILE_RELEASE_DEBUG=limited)",
            lib(at)
        ),
        Lack::Optimisation(at) => format!(
            "{of_samples} are in functions of {} that every optimising compiler inlines: this is a debug build; record one with \
             optimisation (cargo build --release, -O2)",
            lib(at)
        ),
    }
}

fn remedy(source: SymbolSource) -> &'static str {
    match source {
        SymbolSource::Files { .. } | SymbolSource::NotAsked => {
            "build it without -s or strip, or name the folder of its debug file with --symbol-dir"
        }
        SymbolSource::Told => "record again while it says what it makes",
        SymbolSource::NoFile | SymbolSource::OtherBuild => {
            "name a folder that has it with --symbol-dir, or record again"
        }
        SymbolSource::Unreadable => "make it readable",
        SymbolSource::Hidden => "run sprof as root, or `sudo sysctl kernel.kptr_restrict=0`",
    }
}

fn lib_name(data: &Data, lib: u32) -> String {
    let lib = data.libs.get(lib as usize);
    clean(
        lib.and_then(|lib| lib.name.as_deref().or(lib.debug_name.as_deref()))
            .unwrap_or("a library"),
    )
}

/// For machines.
pub(crate) fn json(shortfall: &Shortfall, selection: &Selection<'_>) -> Value {
    let code = |code: Code| match code {
        Code::Runtime(Runtime::Node) => ("node", None),
        Code::Runtime(Runtime::Java) => ("java", None),
        Code::Runtime(Runtime::Python) => ("python", None),
        Code::Jit => ("jit", None),
        Code::Lib(lib, _) => ("library", Some(lib)),
    };
    let (lacks, (of, lib)) = match shortfall.lack {
        Lack::Names(of) => ("names", code(of)),
        Lack::Callers(of) => ("callers", code(of)),
        Lack::StackBytes => ("stack_bytes", ("stacks", None)),
        Lack::Depth => ("depth", ("stacks", None)),
        Lack::DebugInfo(lib) => ("debug_info", ("library", Some(lib))),
        Lack::Optimisation(lib) => ("optimisation", ("library", Some(lib))),
    };
    json!({
        "lacks": lacks,
        "of": of,
        "library": lib.map(|lib| lib_name(selection.data, lib)),
        "share": shortfall.cost.share_of(selection.total),
        "advice": line(shortfall, selection),
    })
}
