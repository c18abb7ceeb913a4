//! The program's own functions: code that its author can change.

use names::symbol::ENTRY_POINT;

use super::cost::Cost;
use super::functions::FunctionRow;
use super::select::Selection;
use super::shortfalls::LanguageRuntime;
use super::sums::by_key;
use crate::category::{CATEGORIES, CodeKind, Installed, is_library_source, is_own};
use crate::data::NONE;
use names::symbol::is_nameless;

/// A function with this share of the program's time and no self cost (below [`HARDLY_ANY`]) carries no information:
/// `main`, `run`.
const NEARLY_ALL: f64 = 0.98;
const HARDLY_ANY: f64 = 0.001;
/// Where no other function has this share, the innermost of them says most: `count_words`, whose time is in the
/// standard library.
const SOME: f64 = 0.1;
/// Names in the program's file that are not the author's functions: the kernel's entry point, and instances of standard
/// library code. A file without debug info gives no source for them.
const NOBODYS: &[&str] = &[
    "_start",
    "__libc_start",
    "__rust_",
    "__rustc::",
    "std::",
    "core::",
    "alloc::",
    "__gnu_cxx::",
];

/// Functions of the program's file or of its JIT, inlined ones each on their own, largest total first. Of several
/// programs, the one with the most samples: the others are the shell that started it, and its tools. Left out:
/// functions of dependencies and standard libraries with a known source, and functions on nearly every stack without
/// self cost, unless they are all that there is. If a runtime runs the program, the program's own functions are those
/// that the runtime compiled.
pub fn own_functions(selection: &Selection<'_>) -> Vec<FunctionRow> {
    let OwnRows { key, rows, of_program } = own_rows(selection);
    // The program's time, not all: beside another program with 3 %, `main` has 97 % of all.
    let share = |cost: Cost| cost.weight / of_program;
    let (passed, mut rows): (Vec<FunctionRow>, Vec<FunctionRow>) =
        (rows.into_iter()).partition(|row| share(row.own) < HARDLY_ANY && share(row.total) >= NEARLY_ALL);
    if rows.iter().all(|row| share(row.total) < SOME) {
        rows.extend(innermost(selection, &key, &passed));
    }
    rows.sort_by(|a, b| {
        let by_cost = b.total.weight.total_cmp(&a.total.weight);
        let by_cost = by_cost.then(b.own.weight.total_cmp(&a.own.weight));
        by_cost.then_with(|| (selection.name(a.func), a.func).cmp(&(selection.name(b.func), b.func)))
    });
    rows
}

/// Of the program's functions with at least this share of all, also those that carry no information: the innermost on
/// the stack with the largest cost that is not inlined there. A small function that many call, and that is inlined, has
/// much of the time and says little.
pub(super) fn innermost_with(selection: &Selection<'_>, share: f64) -> Option<FunctionRow> {
    let OwnRows { mut key, mut rows, .. } = own_rows(selection);
    for (key, frame) in key.iter_mut().zip(&selection.data.frames) {
        if frame.is_inlined() {
            *key = NONE;
        }
    }
    rows.retain(|row| row.total.share_of(selection.total) >= share);
    innermost(selection, &key, &rows)
}

/// All functions of the program.
struct OwnRows {
    /// The function of each frame, or [`NONE`] where it is not the program's.
    key: Vec<u32>,
    rows: Vec<FunctionRow>,
    /// The program's weight.
    of_program: f64,
}

fn own_rows(selection: &Selection<'_>) -> OwnRows {
    let data = selection.data;
    let own_categories: Vec<bool> = data.categories.iter().map(|category| is_own(&category.name)).collect();
    let runtimes: Vec<bool> = data
        .libs
        .iter()
        .map(|lib| LanguageRuntime::from_lib(lib).is_some())
        .collect();
    let (program, of_program) = match busiest_program(selection) {
        Some((lib, weight)) => (Some(lib), weight),
        None => (None, selection.total.weight),
    };
    let functions = data.funcs.iter().map(|func| {
        let file = data.libs.get(func.lib as usize).and_then(|lib| lib.name.as_deref());
        (file.unwrap_or_default(), data.text(func.name), data.text(func.file))
    });
    let installed = Installed::of(functions);
    let is_jit = |category: u32| {
        data.categories
            .get(category as usize)
            .is_some_and(|category| category.name == CATEGORIES[CodeKind::Jit.category(false).0].name)
    };
    // Stubs of other libraries, and the names of HotSpot and V8 for their own code in perf maps.
    const OF_RUNTIME: &[&str] = &["StubRoutines (", "Builtin:", "BytecodeHandler:"];
    let is_glue = |name: &str, category: u32| {
        let is_of_runtime = || name == "Interpreter" || OF_RUNTIME.iter().any(|start| name.starts_with(start));
        name.ends_with("@plt") || is_jit(category) && is_of_runtime()
    };
    let key: Vec<u32> = (data.frames.iter())
        .map(|frame| {
            let name = data.func_name(frame.func);
            let source = data.text(data.funcs[frame.func as usize].file);
            let is_own = own_categories.get(frame.category as usize).is_some_and(|own| *own)
                && (is_jit(frame.category) || program.is_none_or(|program| frame.lib == program))
                && !runtimes.get(frame.lib as usize).is_some_and(|runtime| *runtime)
                && !is_nameless(name)
                && name != ENTRY_POINT
                && !NOBODYS.iter().any(|start| name.starts_with(start))
                && !is_glue(name, frame.category)
                && (!is_library_source(source) || installed.has(source))
                && !installed.is_of_go(source);
            if is_own {
                selection.representative(frame.func)
            } else {
                NONE
            }
        })
        .collect();
    let (own, total) = by_key(selection, data.funcs.len(), &key);
    let rows = (0..).zip(own.into_iter().zip(total));
    let rows = rows.map(|(func, (own, total))| FunctionRow { func, own, total });
    let rows = rows.filter(|row| !row.total.is_zero()).collect();
    OwnRows { key, rows, of_program }
}

/// The innermost of these functions on the stack with the largest cost. `key`: each frame's function.
fn innermost(selection: &Selection<'_>, key: &[u32], of: &[FunctionRow]) -> Option<FunctionRow> {
    let costs = (0u32..).zip(&selection.own);
    let (mut at, _) = costs.max_by(|a, b| a.1.weight.total_cmp(&b.1.weight))?;
    while let Some(stack) = selection.stacks.get(at as usize) {
        let func = key[stack.frame as usize];
        if let Some(row) = of.iter().find(|row| row.func == func) {
            return Some(*row);
        }
        at = stack.prefix;
    }
    None
}

/// The library of the program that runs in the most samples, and their weight; `None` if no stack shows one.
fn busiest_program(selection: &Selection<'_>) -> Option<(u32, f64)> {
    let data = selection.data;
    let name = CATEGORIES[CodeKind::Program.category(false).0].name;
    let is_program: Vec<bool> = data.categories.iter().map(|category| category.name == name).collect();
    let mut costs = vec![0.0; data.libs.len()];
    let mut programs: Vec<u32> = Vec::with_capacity(selection.stacks.len());
    for (stack, own) in selection.stacks.iter().zip(&selection.own) {
        let frame = data.frames[stack.frame as usize];
        let caller = programs.get(stack.prefix as usize).copied().unwrap_or(NONE);
        let program = match is_program.get(frame.category as usize) {
            Some(true) if caller == NONE => frame.lib,
            _ => caller,
        };
        if let Some(cost) = costs.get_mut(program as usize) {
            *cost += own.weight;
        }
        programs.push(program);
    }
    let busiest = (0..).zip(costs).filter(|(_, cost)| *cost > 0.0);
    busiest.max_by(|a, b| a.1.total_cmp(&b.1))
}

#[cfg(test)]
mod tests {
    use super::super::select::{Filter, select};
    use super::*;
    use crate::data::SavedLib;
    use crate::data::{Category, Data, Frame, Func, Samples, Stack, Thread};

    /// The program's own functions among these (category, name, source), with one sample each.
    fn own(funcs: &[(&str, &str, &str)]) -> Vec<String> {
        let mut data = Data {
            libs: vec![SavedLib {
                name: Some("my-rg".to_owned()),
                ..SavedLib::default()
            }],
            ..Data::default()
        };
        for (at, (category, name, source)) in (0..).zip(funcs) {
            data.categories.push(Category::named(category));
            data.texts.extend([(*name).into(), (*source).into()]);
            data.funcs.push(Func::native(2 * at, 0, 2 * at + 1));
            data.frames.push(Frame {
                category: at,
                lib: 0,
                ..Frame::of(at)
            });
            data.stacks.push(Stack {
                prefix: NONE,
                frame: at,
            });
        }
        data.threads.push(Thread {
            samples: Samples {
                time_ms: vec![0.0; funcs.len()],
                stack: (0..funcs.len() as u32).collect(),
                ..Samples::default()
            },
            ..Thread::default()
        });
        let selection = select(&data, &Filter::default()).unwrap();
        let rows = own_functions(&selection);
        rows.iter().map(|row| selection.name(row.func).to_owned()).collect()
    }

    #[test]
    fn what_others_wrote_is_not_the_program_s() {
        let of_file = |name, source| ("Program", name, source);
        let funcs = [
            of_file("main.digest", "/home/me/go/src/server/main.go"),
            of_file("runtime.goexit", "/usr/lib/go-1.19/src/runtime/asm_amd64.s"),
            of_file("net/http.(*conn).serve", "/usr/lib/go-1.19/src/net/http/server.go"),
            of_file("example.org/x.F", "/home/me/go/pkg/mod/example.org/x@v1.0.0/x.go"),
            of_file("net/http.(*onceCloseListener).Accept", "./<autogenerated>"),
            of_file("strcmp@plt", ""),
            ("JIT and anonymous", "Interpreter", ""),
            ("JIT and anonymous", "StubRoutines (1)", ""),
            ("JIT and anonymous", "Builtin:ArrayMap", ""),
            ("JIT and anonymous", "readSync node:fs:7:1", "node:fs"),
            (
                "JIT and anonymous",
                "map lodash.js:2:5",
                "/app/node_modules/lodash/lodash.js",
            ),
            ("JIT and anonymous", "serve app.js:1:9", "/app/app.js"),
            of_file("Interpreter", "/home/me/interpreter.c"),
            of_file("__rustc::__rust_dealloc", ""),
            of_file("EntryPoint", ""),
        ];
        assert_eq!(own(&funcs), ["Interpreter", "main.digest", "serve app.js:1:9"]);
    }

    /// The functions of a program whose `main` calls `run`, which calls `work` of this category: 97 samples. `tool` of
    /// another program has 3.
    fn of_calls(category_of_work: u32) -> Vec<String> {
        let lib = |name: &str| SavedLib {
            name: Some(name.to_owned()),
            ..SavedLib::default()
        };
        let mut data = Data {
            libs: vec![lib("app"), lib("tool")],
            categories: vec![Category::named("Program"), Category::named("System library")],
            ..Data::default()
        };
        for (at, (name, lib)) in (0..).zip([("main", 0), ("run", 0), ("work", 0), ("tool", 1)]) {
            data.texts.extend([name.into(), "".into()]);
            data.funcs.push(Func::native(2 * at, lib, 2 * at + 1));
            data.frames.push(Frame {
                category: if at == 2 { category_of_work } else { 0 },
                lib,
                ..Frame::of(at)
            });
            let prefix = if at == 1 || at == 2 { at - 1 } else { NONE };
            data.stacks.push(Stack { prefix, frame: at });
        }
        data.threads.push(Thread {
            samples: Samples {
                time_ms: vec![0.0; 100],
                stack: (0..100).map(|at| if at < 97 { 2 } else { 3 }).collect(),
                ..Samples::default()
            },
            ..Thread::default()
        });
        let selection = select(&data, &Filter::default()).unwrap();
        let rows = own_functions(&selection);
        rows.iter().map(|row| selection.name(row.func).to_owned()).collect()
    }

    #[test]
    fn what_all_the_time_of_the_program_passes_through_is_left_out_beside_another_program() {
        assert_eq!(of_calls(0), ["work"]);
    }

    #[test]
    fn where_all_the_time_is_in_libraries_the_function_that_calls_them_is_there() {
        assert_eq!(of_calls(1), ["run"]);
    }

    #[test]
    fn what_cargo_installed_is_no_dependency() {
        let of_package = |name, source| ("Program", name, source);
        let funcs = [
            of_package(
                "my_rg::main",
                "/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/my-rg-14.1.1/src/main.rs",
            ),
            of_package(
                "my_rg::search",
                "/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/my-rg-14.1.1/src/search.rs",
            ),
            of_package(
                "memchr::find",
                "/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/memchr-2.7.0/src/lib.rs",
            ),
        ];
        assert_eq!(own(&funcs), ["my_rg::main", "my_rg::search"]);
        assert_eq!(own(&funcs[2..]), Vec::<String>::new());
    }
}
