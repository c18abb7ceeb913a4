//! The cost of each crate, and of each library that is of none.

use names::rust_crate;
use rustc_hash::FxHashMap;

use super::cost::Cost;
use super::select::Selection;
use super::sums::by_key;
use crate::category::{CATEGORIES, CodeKind, MarkKind};
use crate::data::{Calls, Data, Frame};

/// What kind of place code is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CodeOrigin {
    /// A crate of Rust, or the package of another language's code that cargo compiled.
    Crate,
    /// A file with code that is of no known crate: of C and C++, or of Rust without debug info.
    Library,
    /// The kernel with its modules and BPF programs.
    Kernel,
    /// Code that was compiled at run time.
    Jit,
    /// No code: the frame of a wait or of an incomplete stack.
    Mark,
    /// Code of no known file.
    Unknown,
}

/// A crate or library with samples.
#[derive(Clone, Debug, PartialEq)]
pub struct CrateRow {
    /// What it is.
    pub origin: CodeOrigin,
    /// Its name: `core`, `libc.so.6`; of a mark, the name of its category. Empty for code of no file.
    pub name: String,
    /// Cost of samples in which its code ran, wherever the compiler put the code.
    pub own: Cost,
    /// Cost of samples with its code on the stack. A sample counts once. `None` if the file has no call paths.
    pub total: Option<Cost>,
}

/// All crates and libraries with samples, sorted by self cost, then total cost, largest first, then by name. The self
/// costs add up to that of all samples with a stack.
pub fn crates(selection: &Selection<'_>) -> Vec<CrateRow> {
    let data = selection.data;
    let mut known: FxHashMap<(CodeOrigin, String), u32> = FxHashMap::default();
    let mut names: Vec<(CodeOrigin, String)> = Vec::new();
    let mut of_func: FxHashMap<(u32, u32, u32), u32> = FxHashMap::default();
    let key = data.frames.iter().map(|frame| {
        *of_func
            .entry((frame.func, frame.category, frame.lib))
            .or_insert_with(|| {
                let origin = origin(data, frame);
                *known.entry(origin.clone()).or_insert_with(|| {
                    names.push(origin);
                    names.len() as u32 - 1
                })
            })
    });
    let key: Vec<u32> = key.collect();
    let (own, total) = by_key(selection, names.len(), &key);
    let has_paths = data.calls == Calls::Paths;
    let rows = names.into_iter().zip(own.into_iter().zip(total));
    let mut rows: Vec<CrateRow> = rows
        .filter(|(_, (_, total))| !total.is_zero())
        .map(|((origin, name), (own, total))| CrateRow {
            origin,
            name,
            own,
            total: has_paths.then_some(total),
        })
        .collect();
    let total = |row: &CrateRow| row.total.unwrap_or_default().weight;
    rows.sort_by(|a, b| {
        let by_cost = b
            .own
            .weight
            .total_cmp(&a.own.weight)
            .then(total(b).total_cmp(&total(a)));
        by_cost.then_with(|| (&a.name, a.origin).cmp(&(&b.name, b.origin)))
    });
    rows
}

/// Where a frame's code is from.
fn origin(data: &Data, frame: &Frame) -> (CodeOrigin, String) {
    let func = &data.funcs[frame.func as usize];
    let category = data
        .categories
        .get(frame.category as usize)
        .map(|category| &*category.name);
    let is = |kind: CodeKind| category == Some(CATEGORIES[kind.category(false).0].name);
    let lib = data.lib_name(frame.func).unwrap_or_default();
    if is(CodeKind::Kernel) || lib.starts_with("[kernel") {
        return (CodeOrigin::Kernel, "kernel".to_owned());
    }
    let is_wait = data
        .categories
        .get(frame.category as usize)
        .is_some_and(|category| category.is_wait);
    if let Some(category) = category.filter(|_| is_wait || is(CodeKind::Mark(MarkKind::Truncated))) {
        return (CodeOrigin::Mark, category.to_owned());
    }
    let recorded = Some(data.text(func.krate)).filter(|krate| !krate.is_empty());
    // Profiles of others, and of sprof before it recorded the crate, have sources.
    let source = Some(data.text(func.file)).filter(|file| !file.is_empty());
    let by_source = || rust_crate::of_function("", "", source);
    if let Some(krate) = recorded.map(str::to_owned).or_else(by_source) {
        return (CodeOrigin::Crate, krate);
    }
    if is(CodeKind::Jit) {
        return (CodeOrigin::Jit, "JIT and anonymous".to_owned());
    }
    match lib {
        "" => (CodeOrigin::Unknown, String::new()),
        lib => (CodeOrigin::Library, lib.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::select::{Filter, select};
    use super::*;
    use crate::data::SavedLib;
    use crate::data::{Category, Func, NONE, Samples, Stack, Thread};

    /// (name, category, library, crate, source) of each frame; the stacks, outermost first, with a sample each.
    type Code<'a> = (&'a str, CodeKind, Option<u32>, &'a str, &'a str);

    fn data(code: &[Code<'_>], stacks: &[&[u32]]) -> Data {
        let lib = |name: &str| SavedLib {
            name: Some(name.to_owned()),
            ..SavedLib::default()
        };
        let mut data = Data {
            libs: ["words", "libc.so.6"].map(lib).into(),
            categories: Category::all(),
            ..Data::default()
        };
        let text = |text: &str, texts: &mut Vec<Box<str>>| {
            texts.push(text.into());
            if text.is_empty() { NONE } else { texts.len() as u32 - 1 }
        };
        for (at, (name, kind, lib, krate, source)) in (0..).zip(code) {
            let (category, subcategory) = kind.category(false);
            data.funcs.push(Func {
                krate: text(krate, &mut data.texts),
                ..Func::native(
                    text(name, &mut data.texts),
                    lib.unwrap_or(NONE),
                    text(source, &mut data.texts),
                )
            });
            data.frames.push(Frame {
                category: category as u32,
                subcategory: subcategory as u16,
                lib: lib.unwrap_or(NONE),
                ..Frame::of(at)
            });
        }
        let mut leaves = Vec::new();
        for stack in stacks {
            let mut prefix = NONE;
            for frame in *stack {
                data.stacks.push(Stack { prefix, frame: *frame });
                prefix = data.stacks.len() as u32 - 1;
            }
            leaves.push(prefix);
        }
        data.threads.push(Thread {
            samples: Samples {
                time_ms: vec![0.0; leaves.len()],
                stack: leaves,
                ..Samples::default()
            },
            ..Thread::default()
        });
        data
    }

    fn rows(data: &Data) -> Vec<(CodeOrigin, String, u64, Option<u64>)> {
        let selection = select(data, &Filter::default()).unwrap();
        let rows = crates(&selection).into_iter();
        rows.map(|row| {
            (
                row.origin,
                row.name,
                row.own.samples,
                row.total.map(|total| total.samples),
            )
        })
        .collect()
    }

    #[test]
    fn crates_have_the_samples_of_their_functions_and_each_sample_once() {
        let registry = "/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f";
        let code: &[Code<'_>] = &[
            ("words::main", CodeKind::Program, Some(0), "words", ""),
            ("core::iter::Map<I, F>::next", CodeKind::RustStd, Some(0), "core", ""),
            ("words::merge", CodeKind::Program, Some(0), "words", ""),
            // Before sprof recorded crates.
            (
                "work",
                CodeKind::Dependency,
                Some(0),
                "",
                &format!("{registry}/serde-json-1.0.1/src/de.rs"),
            ),
            (
                "memcpy",
                CodeKind::SystemLibrary,
                Some(1),
                "",
                "/usr/src/string/memcpy.c",
            ),
            ("_start", CodeKind::Program, Some(0), "", ""),
            ("do_sys_openat2", CodeKind::Kernel, None, "", ""),
            ("fib", CodeKind::Jit, None, "", ""),
            ("0x1234", CodeKind::Unknown, None, "", ""),
            ("[truncated]", CodeKind::Mark(MarkKind::Truncated), None, "", ""),
        ];
        let stacks: &[&[u32]] = &[
            // A crate that calls itself through another one.
            &[5, 0, 1, 2],
            &[5, 0, 1, 2, 1],
            &[5, 0, 1],
            &[5, 0, 3, 4],
            &[5, 0, 6],
            &[5, 0, 7],
            &[9, 0],
            &[8],
        ];
        let mut data = data(code, stacks);
        let row = |origin, name: &str, own, total| (origin, name.to_owned(), own, Some(total));
        let expected = [
            row(CodeOrigin::Crate, "words", 2, 7),
            row(CodeOrigin::Crate, "core", 2, 3),
            row(CodeOrigin::Unknown, "", 1, 1),
            row(CodeOrigin::Jit, "JIT and anonymous", 1, 1),
            row(CodeOrigin::Kernel, "kernel", 1, 1),
            row(CodeOrigin::Library, "libc.so.6", 1, 1),
            row(CodeOrigin::Library, "words", 0, 6),
            row(CodeOrigin::Mark, "Incomplete stack", 0, 1),
            row(CodeOrigin::Crate, "serde_json", 0, 1),
        ];
        assert_eq!(rows(&data), expected);
        assert_eq!(expected.iter().map(|row| row.2).sum::<u64>(), stacks.len() as u64);
        // Without call paths there are no totals.
        data.calls = Calls::Unknown;
        assert!(rows(&data).iter().all(|row| row.3.is_none()));
    }
}
