//! The hottest functions. Waits are no heat: only samples of running threads count.

use std::cmp::Reverse;

use crate::model::Profile;
use crate::model::stacks::StackId;
use crate::model::tables::{FuncId, FuncRow};

/// The hottest functions of all threads.
#[derive(Clone, Debug, PartialEq)]
pub struct TopView {
    /// Samples of running threads in the profile, also those without a stack: what shares are of.
    pub samples: u64,
    /// Most self samples first.
    pub functions: Vec<TopFunction>,
}

/// One function.
#[derive(Clone, Debug, PartialEq)]
pub struct TopFunction {
    /// Its name; the library-relative address in hex where there is none.
    pub name: String,
    /// File name of its library.
    pub lib: Option<String>,
    /// Samples in which it was running.
    pub self_samples: u64,
    /// Samples in which it was on the stack, each counted once however often it was there.
    pub total_samples: u64,
    /// `self_samples` of all samples, 0 to 1.
    pub self_share: f64,
    /// `total_samples` of all samples, 0 to 1.
    pub total_share: f64,
}

/// The `n` functions with the most self samples. Where these are equal, more total samples come first, then the name.
pub fn top(profile: &Profile, n: usize) -> TopView {
    let per_stack = samples_per_stack(profile);
    let (own, total) = samples_per_func(profile, per_stack);
    let name = |func: usize| {
        let row: &FuncRow = profile.tables.func(FuncId(func as u32));
        (profile.strings.get(row.name), row.lib)
    };
    let mut hot: Vec<usize> = (0..own.len()).filter(|&func| own[func] > 0).collect();
    hot.sort_by_key(|&func| (Reverse((own[func], total[func])), name(func)));
    hot.truncate(n);

    let samples: u64 = profile
        .threads
        .iter()
        .map(|thread| thread.samples.on_cpu() as u64)
        .sum();
    let share = |count: u64| count as f64 / samples.max(1) as f64;
    let functions = (hot.into_iter())
        .map(|func| {
            let (name, lib) = name(func);
            TopFunction {
                name: name.to_owned(),
                lib: lib.map(|lib| profile.strings.get(profile.tables.lib(lib).name).to_owned()),
                self_samples: own[func],
                total_samples: total[func],
                self_share: share(own[func]),
                total_share: share(total[func]),
            }
        })
        .collect();
    TopView { samples, functions }
}

fn samples_per_stack(profile: &Profile) -> Vec<u64> {
    let mut counts = vec![0u64; profile.stacks.len()];
    let samples = profile.threads.iter().flat_map(|thread| thread.samples.iter());
    for sample in samples.filter(|sample| !sample.off_cpu) {
        if let Some(stack) = sample.stack {
            counts[stack.0 as usize] += 1;
        }
    }
    counts
}

/// Self and total samples of each function. A function counts once a stack: where it is on the stack already
/// (recursion), only its rootmost call counts.
fn samples_per_func(profile: &Profile, mut counts: Vec<u64>) -> (Vec<u64>, Vec<u64>) {
    let stacks = &profile.stacks;
    let funcs = profile.tables.funcs.len();
    let func_of = |stack: usize| profile.tables.frame(stacks.frame(StackId(stack as u32))).func.0 as usize;
    let mut own = vec![0u64; funcs];
    let mut total = vec![0u64; funcs];
    for (stack, &count) in counts.iter().enumerate() {
        own[func_of(stack)] += count;
    }

    // Children come after their parents: one pass backwards adds up subtrees, and links children into lists.
    const NONE: u32 = u32::MAX;
    let mut first_child = vec![NONE; counts.len()];
    let mut next_sibling = vec![NONE; counts.len()];
    let mut first_root = NONE;
    for stack in (0..counts.len()).rev() {
        let siblings = match stacks.prefix(StackId(stack as u32)) {
            Some(StackId(parent)) => {
                counts[parent as usize] += counts[stack];
                &mut first_child[parent as usize]
            }
            None => &mut first_root,
        };
        next_sibling[stack] = *siblings;
        *siblings = stack as u32;
    }

    // Depth first, counting how often each function is on the path.
    let mut on_path = vec![0u32; funcs];
    let mut path: Vec<u32> = Vec::new();
    let mut next = first_root;
    loop {
        if next != NONE {
            let stack = next as usize;
            let func = func_of(stack);
            if on_path[func] == 0 {
                total[func] += counts[stack];
            }
            on_path[func] += 1;
            path.push(next);
            next = first_child[stack];
        } else if let Some(done) = path.pop() {
            on_path[func_of(done as usize)] -= 1;
            next = next_sibling[done as usize];
        } else {
            return (own, total);
        }
    }
}
