//! The hottest functions, the program's own, and what a result lacks.

use std::sync::Arc;

use crate::common::*;
use names::symbol::{AddressInfo, FunctionSymbol, SourceFrame, SymbolSource};
use profile::Profile;
use profile::enrich::enrich;
use profile::view::headline::headline;
use profile::view::own_code::own_functions;
use profile::view::select::{Filter, select};
use profile::view::shortfalls::{CodeOwner, LanguageRuntime, MissingSamples, shortfalls};
use profile::view::{summed, top};
use recording::quality::Quality;
use recording::sink::ModuleMiss;
use recording::stack::{Frame, Stack, StackMark};

#[test]
fn recursion_counts_once_a_stack() {
    let mut stream = Stream::with_app();
    // main -> f -> f -> f, three times at the leaf of f, once in a callee of it.
    for ms in 0..3 {
        stream.sample(1, 1, ms, &[ip(0x1200), ip(0x1200), ip(0x1200), ip(0x1100)]);
    }
    stream.sample(1, 1, 4, &[ip(0x10_0300), ip(0x1200), ip(0x1100)]);
    let view = top(&stream.finish(), 10);
    assert_eq!(view.samples, 4);
    let rows: Vec<_> = (view.functions.iter())
        .map(|row| {
            (
                row.name.as_str(),
                row.lib.as_deref().unwrap(),
                row.self_samples,
                row.total_samples,
            )
        })
        .collect();
    assert_eq!(rows, [("0x200", "app", 3, 4), ("0x300", "libc.so.6", 1, 1)]);
    assert_eq!(view.functions[0].self_share, 0.75);
}

#[test]
fn a_sample_with_a_tiny_period_has_a_tiny_share() {
    let mut stream = Stream::with_app();
    // As a hardware event starts in a new thread: periods of 1, 2, 4, and so on, all within a few microseconds.
    for power in 0..10 {
        stream.period(1, 1, 1, 1 << power, Stack::Frames(&[ip(0x1100)]));
    }
    for ms in 2..4 {
        stream.period(1, 1, ms, MS, Stack::Frames(&[ip(0x1200)]));
    }
    let profile = stream.finish();
    let view = top(&profile, 10);
    let rows: Vec<_> = (view.functions.iter())
        .map(|row| (row.name.as_str(), row.self_samples, (row.self_share * 100.0).round()))
        .collect();
    assert_eq!(rows, [("0x200", 2, 100.0), ("0x100", 10, 0.0)]);

    // The file says so, too: the front end's shares are those of the weights.
    let samples = &written(&profile)["threads"][0]["samples"];
    assert_eq!(samples["weightType"], "tracing-ms");
    assert_eq!(samples["weight"][0].as_f64(), Some(0.000_001));
    assert_eq!(samples["weight"][10].as_f64(), Some(1.0));
}

#[test]
fn no_samples_give_no_functions() {
    let view = top(&Stream::new().finish(), 5);
    assert_eq!((view.samples, view.functions.len()), (0, 0));
}

fn source(function: &str, file: &str) -> SourceFrame {
    SourceFrame {
        function: Some(function.into()),
        file: Some(file.into()),
        declared_in: None,
        line: Some(1),
        column: None,
        krate: None,
    }
}

/// `main` at 0x000, `hot` at 0x100 with a part of the standard library in it, a dependency's function at 0x200; in libc
/// `memcpy` at 0.
fn symbols(module: &str, address: u64) -> AddressInfo {
    let std = "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/core/src/iter/range.rs";
    let frames = match (module, address) {
        ("app", 0x000..0x100) => vec![source("main", "/src/main.rs")],
        ("app", 0x100..0x200) => vec![source("next", std), source("hot", "/src/hot.rs")],
        ("app", 0x200..0x300) => vec![source(
            "parse",
            "/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/json-1.0/src/lib.rs",
        )],
        ("libc.so.6", _) => vec![source("memcpy", "/build/glibc/memcpy.c")],
        _ => return AddressInfo::default(),
    };
    AddressInfo {
        function: frames.last().map(|frame| FunctionSymbol {
            name: frame.function.clone().unwrap(),
            start: address & !0xff,
            size: Some(0x100),
            is_named: true,
            v8: None,
            krate: None,
        }),
        frames,
    }
}

fn named(mut profile: Profile) -> Profile {
    enrich(&mut profile, |module, addresses| {
        Some(
            addresses
                .iter()
                .map(|address| symbols(&module.name(), *address))
                .collect(),
        )
    });
    profile
}

#[test]
fn inlined_functions_have_their_own_cost_among_the_program_s_functions() {
    let mut stream = Stream::with_app();
    for ms in 0..6 {
        // main -> hot, in `next`, which is inlined there.
        stream.sample(1, 1, ms, &[ip(0x1110), ret(0x1010)]);
    }
    for ms in 6..10 {
        // main -> hot -> parse -> memcpy
        stream.sample(1, 1, ms, &[ip(0x10_0010), ret(0x1210), ret(0x1110), ret(0x1010)]);
    }
    let data = summed(&named(stream.finish()));
    let selection = select(&data, &Filter::default()).unwrap();
    let rows: Vec<_> = (own_functions(&selection).iter())
        .map(|row| (selection.name(row.func).to_owned(), row.own.samples, row.total.samples))
        .collect();
    // `main` and `hot` are on every stack and ran nothing, and `hot` is the inner one. `next`, `parse` and `memcpy` are
    // others'.
    assert_eq!(rows, [("hot".to_owned(), 0, 10)]);
    assert_eq!(shortfalls(&selection), []);
}

#[test]
fn the_first_words_are_of_the_hottest_function_where_none_is_the_program_s() {
    let mut stream = Stream::with_app();
    for ms in 0..200 {
        // `parse` of a dependency, which calls `memcpy` in every fourth sample.
        let frames: &[Frame] = match ms % 4 {
            0 => &[ip(0x10_0010), ret(0x1210)],
            _ => &[ip(0x1210)],
        };
        stream.sample(1, 1, ms, frames);
    }
    let data = summed(&named(stream.finish()));
    let selection = select(&data, &Filter::default()).unwrap();
    let found = headline(&selection).unwrap();
    assert_eq!(selection.name(found.func), "parse");
    assert_eq!((found.share, found.hottest, found.part), (1.0, found.func, 0.75));
}

fn lacks(profile: &Profile, sources: &[SymbolSource]) -> Vec<(MissingSamples, u64)> {
    let mut data = summed(profile);
    for (lib, source) in data.libs.iter_mut().zip(sources) {
        lib.symbol_source = *source;
    }
    let selection = select(&data, &Filter::default()).unwrap();
    let found = shortfalls(&selection);
    found.iter().map(|found| (found.lack, found.cost.samples)).collect()
}

#[test]
fn code_of_no_file_is_the_runtime_s_of_its_process() {
    let mut stream = Stream::with_app();
    stream.map(1, image("/usr/lib/jvm/libjvm.so", 0x20_0000, 0x1000), 0);
    stream.map_code(1, 0x7000_0000, 0x1000, 0);
    stream.thread(1, 2, 0);
    // Interpreted and compiled methods end the stack: no frame pointers.
    let cut = Frame::Mark(StackMark::TruncatedNoRule);
    for ms in 0..50 {
        stream.sample(1, 1, ms, &[ip(0x7000_0000 + ms), cut]);
    }
    // Another thread shows whose process it is.
    for ms in 0..50 {
        stream.sample(1, 2, ms, &[ip(0x20_0010), ret(0x1010)]);
    }
    let java = CodeOwner::Runtime(LanguageRuntime::Java);
    let found = lacks(&named(stream.finish()), &[]);
    assert!(found.contains(&(MissingSamples::Names(java), 50)), "{found:?}");
    assert!(found.contains(&(MissingSamples::Callers(java), 50)), "{found:?}");
}

#[test]
fn an_address_without_code_is_no_code_that_was_made_while_the_program_ran() {
    let mut stream = Stream::with_app();
    stream.map_code(1, 0x7000_0000, 0x1000, 0);
    for ms in 0..100 {
        let caller = if ms < 60 { 0x7000_1010 } else { 0x7000_0010 };
        stream.sample(1, 1, ms, &[ip(0x1110), ret(caller)]);
    }
    let found = lacks(&named(stream.finish()), &[]);
    let jit = MissingSamples::Names(CodeOwner::Jit);
    assert_eq!(found, [(MissingSamples::Unmapped, 60), (jit, 40)]);
}

#[test]
fn what_less_than_a_tenth_of_the_samples_lack_is_not_worth_a_line() {
    let nameless = |without: u64| {
        let mut stream = Stream::with_app();
        for ms in 0..100 {
            // Beyond all symbols of the program, as if it was stripped.
            let leaf = if ms < without { 0x1810 } else { 0x1110 };
            stream.sample(1, 1, ms, &[ip(leaf), ret(0x1010)]);
        }
        let stripped = SymbolSource::Files {
            symbol_table: false,
            debug_info: false,
        };
        (lacks(&named(stream.finish()), &[stripped]), stripped)
    };
    assert_eq!(nameless(9).0, []);
    let (found, stripped) = nameless(10);
    assert_eq!(found, [(MissingSamples::Names(CodeOwner::Lib(0, stripped)), 10)]);
}

#[test]
fn nameless_code_counts_where_it_runs() {
    let mut stream = Stream::with_app();
    for ms in 0..100 {
        // A function without a name, which calls one that has one.
        stream.sample(1, 1, ms, &[ip(0x1110), ret(0x1810), ret(0x1010)]);
    }
    assert_eq!(lacks(&named(stream.finish()), &[]), []);
}

#[test]
fn code_without_rules_in_a_library_that_has_some_is_another_cause() {
    let cut = Frame::Mark(StackMark::TruncatedNoRule);
    let of = |unwound: u64| {
        let mut stream = Stream::with_app();
        stream.map(1, image("/usr/lib/libx264.so.164", 0x20_0000, 0x1000), 0);
        for ms in 0..100 {
            let stack = match ms < unwound {
                true => vec![ip(0x20_0010), ret(0x1010)],
                false => vec![ip(0x20_0110), cut],
            };
            stream.sample(1, 1, ms, &stack);
        }
        lacks(&named(stream.finish()), &[])
    };
    let (some, none) = (of(50), of(0));
    let is_part = |(lack, _): &(MissingSamples, u64)| matches!(lack, MissingSamples::CallersOfPart(_));
    let is_all = |(lack, _): &(MissingSamples, u64)| matches!(lack, MissingSamples::Callers(CodeOwner::Lib(..)));
    assert!(some.iter().any(is_part) && !some.iter().any(is_all), "{some:?}");
    assert!(none.iter().any(is_all) && !none.iter().any(is_part), "{none:?}");
}

/// What can't be read because of the limit has rules for all that is known.
#[test]
fn files_that_were_not_opened_for_a_limit_are_not_to_be_built_anew() {
    let cut = Frame::Mark(StackMark::TruncatedNoRule);
    let of = |arch: Option<&'static str>, over_limit: u64| {
        let mut stream = Stream::with_app();
        // By frame pointer, one of its functions has a caller.
        let mut library = image("/opt/liba.so", 0x20_0000, 0x1000);
        Arc::make_mut(&mut library.module).arch = arch;
        stream.map(1, library, 0);
        for ms in 0..100 {
            let stack = match ms < 10 {
                true => vec![ip(0x20_0010), ret(0x1010)],
                false => vec![ip(0x20_0110), cut],
            };
            stream.sample(1, 1, ms, &stack);
        }
        let mut quality = Quality::default();
        quality.module_misses.insert(ModuleMiss::TooManyOpen, over_limit);
        let found = lacks(&named(stream.0.finish(info(), quality)), &[]);
        let samples = |is_it: fn(MissingSamples) -> bool| {
            let found = found.iter().find(|(lack, _)| is_it(*lack));
            found.map_or(0, |(_, samples)| *samples)
        };
        [
            samples(|lack| lack == MissingSamples::OpenFiles),
            samples(|lack| matches!(lack, MissingSamples::CallersOfPart(_))),
            samples(|lack| matches!(lack, MissingSamples::Names(_))),
        ]
    };
    // Names were not looked up: nothing in the library has one.
    assert_eq!(of(None, 2), [100, 0, 0]);
    assert_eq!(of(None, 0), [0, 90, 100]);
    // It was read, and has neither.
    assert_eq!(of(Some("x86_64"), 2), [0, 90, 100]);
}
