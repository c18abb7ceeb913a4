//! The program's own functions: what its author can change.

use super::cost::Cost;
use super::data::NONE;
use super::functions::FunctionRow;
use super::names::is_nameless;
use super::select::Selection;
use super::shortfalls::Runtime;
use super::sums::by_key;
use crate::category::{is_library_source, is_own};

/// What has this share of all and none itself tells nothing: `main`, `run`.
const NEARLY_ALL: f64 = 0.98;
/// Names in the program's file that nobody's own function has: where the kernel enters, and instances of what standard libraries
/// define, of which a file without debug info tells no source.
const NOBODYS: &[&str] = &[
    "_start",
    "__libc_start",
    "__rust_",
    "std::",
    "core::",
    "alloc::",
    "__gnu_cxx::",
];

/// Functions of the program's own file, or made by its JIT, largest total first. What was inlined into a function is its own cost:
/// inlined calls are no rows. Functions of dependencies and standard libraries are left out where their source tells, and
/// so is what is on nearly every stack and ran nothing itself. Where a runtime runs the program, its own is what the runtime
/// compiled.
pub fn own_functions(selection: &Selection<'_>) -> Vec<FunctionRow> {
    let data = selection.data;
    let own_categories: Vec<bool> = data.categories.iter().map(|name| is_own(name)).collect();
    let runtimes: Vec<bool> = data.libs.iter().map(|lib| Runtime::of(lib).is_some()).collect();
    let key: Vec<u32> = (data.frames.iter())
        .map(|frame| {
            let name = data.func_name(frame.func);
            let is_own = !frame.inlined
                && own_categories.get(frame.category as usize).is_some_and(|own| *own)
                && !runtimes.get(frame.lib as usize).is_some_and(|runtime| *runtime)
                && !is_nameless(name)
                && !NOBODYS.iter().any(|start| name.starts_with(start))
                && !is_library_source(data.text(data.funcs[frame.func as usize].file));
            if is_own {
                selection.representative(frame.func)
            } else {
                NONE
            }
        })
        .collect();
    let (_, total) = by_key(selection, data.funcs.len(), &key);
    let mut own = vec![Cost::default(); data.funcs.len()];
    for (stack, cost) in (0..).zip(&selection.own).filter(|(_, cost)| !cost.is_zero()) {
        if let Some(own) = own.get_mut(key[data.frame_with_code(stack) as usize] as usize) {
            *own += *cost;
        }
    }
    let rows = (0..).zip(own.into_iter().zip(total));
    let mut rows: Vec<FunctionRow> = rows
        .map(|(func, (own, total))| FunctionRow { func, own, total })
        .filter(|row| !row.total.is_zero())
        .filter(|row| !row.own.is_zero() || row.total.share_of(selection.total) < NEARLY_ALL)
        .collect();
    rows.sort_by(|a, b| {
        let by_cost = b.total.weight.total_cmp(&a.total.weight);
        let by_cost = by_cost.then(b.own.weight.total_cmp(&a.own.weight));
        by_cost.then_with(|| (selection.name(a.func), a.func).cmp(&(selection.name(b.func), b.func)))
    });
    rows
}
