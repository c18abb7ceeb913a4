//! The hottest functions. Waits are no heat: only samples of running threads count.

use std::cmp::Reverse;

use crate::model::Profile;
use crate::model::samples::Sample;
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
    /// Share of all periods that were its own, 0 to 1: of all samples, where each stands for the same time.
    pub self_share: f64,
    /// Share of all periods in which it was on the stack, 0 to 1.
    pub total_share: f64,
}

/// The `n` functions with the largest share of their own. Where these are equal, the larger total comes first, then the
/// name.
pub fn top(profile: &Profile, n: usize) -> TopView {
    let (own, total) = per_func(profile, per_stack(profile, |_| 1));
    let weights = profile
        .periods_differ()
        .then(|| per_func(profile, per_stack(profile, |sample| sample.period)));
    let (own_weight, total_weight) = weights.as_ref().map_or((&own, &total), |(own, total)| (own, total));
    let name = |func: usize| {
        let row: &FuncRow = profile.tables.func(FuncId(func as u32));
        (profile.strings.get(row.name), row.lib)
    };
    let mut hot: Vec<usize> = (0..own.len()).filter(|&func| own[func] > 0).collect();
    hot.sort_by_key(|&func| (Reverse((own_weight[func], total_weight[func])), name(func)));
    hot.truncate(n);

    let samples: u64 = profile
        .main_threads()
        .map(|thread| thread.samples.on_cpu() as u64)
        .sum();
    let all: u64 = match weights {
        Some(_) => (profile.main_threads()).fold(0, |sum: u64, thread| sum.saturating_add(thread.samples.period_sum())),
        None => samples,
    };
    let share = |weight: u64| weight as f64 / all.max(1) as f64;
    let functions = (hot.into_iter())
        .map(|func| {
            let (name, lib) = name(func);
            TopFunction {
                name: name.to_owned(),
                lib: lib.map(|lib| profile.strings.get(profile.tables.lib(lib).name).to_owned()),
                self_samples: own[func],
                total_samples: total[func],
                self_share: share(own_weight[func]),
                total_share: share(total_weight[func]),
            }
        })
        .collect();
    TopView { samples, functions }
}

fn per_stack(profile: &Profile, weight: impl Fn(&Sample) -> u64) -> Vec<u64> {
    let mut counts = vec![0u64; profile.stacks.len()];
    let samples = profile.main_threads().flat_map(|thread| thread.samples.iter());
    for sample in samples.filter(|sample| !sample.off_cpu) {
        if let Some(stack) = sample.stack {
            let sum = &mut counts[stack.0 as usize];
            *sum = sum.saturating_add(weight(&sample));
        }
    }
    counts
}

/// Self and total of each function, from that of the stacks. A function counts once a stack: where it is on the stack already
/// (recursion), only its rootmost call counts.
fn per_func(profile: &Profile, mut counts: Vec<u64>) -> (Vec<u64>, Vec<u64>) {
    let stacks = &profile.stacks;
    let funcs = profile.tables.funcs.len();
    let func_of = |stack: usize| profile.tables.frame(stacks.frame(StackId(stack as u32))).func.0 as usize;
    let mut own = vec![0u64; funcs];
    let mut total = vec![0u64; funcs];
    for (stack, &count) in counts.iter().enumerate() {
        let own = &mut own[func_of(stack)];
        *own = own.saturating_add(count);
    }

    // Children come after their parents: one pass backwards adds up subtrees, and links children into lists.
    const NONE: u32 = u32::MAX;
    let mut first_child = vec![NONE; counts.len()];
    let mut next_sibling = vec![NONE; counts.len()];
    let mut first_root = NONE;
    for stack in (0..counts.len()).rev() {
        let siblings = match stacks.prefix(StackId(stack as u32)) {
            Some(StackId(parent)) => {
                counts[parent as usize] = counts[parent as usize].saturating_add(counts[stack]);
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
                total[func] = total[func].saturating_add(counts[stack]);
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
