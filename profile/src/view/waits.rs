//! The places of the longest waits.

use std::cmp::Reverse;

use recording::wait::WaitReason;
use rustc_hash::FxHashMap;

use crate::category::CodeKind;
use crate::recorded::Profile;
use crate::recorded::stacks::StackId;
use crate::recorded::tables::FuncId;

/// Waits for one reason in one function, in all threads.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitPlace {
    /// The reason of the wait.
    pub reason: WaitReason,
    /// The innermost function outside the kernel, or without a name its library-relative address in hex. `None` without
    /// a stack.
    pub function: Option<String>,
    /// File name of its library.
    pub lib: Option<String>,
    /// Duration, ns.
    pub ns: u64,
    /// True if some of these stacks are guesses.
    pub guessed: bool,
}

/// The `n` places with the longest off-CPU time, longest first.
pub fn wait_places(profile: &Profile, n: usize) -> Vec<WaitPlace> {
    let mut per_stack: FxHashMap<StackId, u64> = FxHashMap::default();
    let samples = profile.main_threads().flat_map(|thread| thread.samples.iter());
    for sample in samples.filter(|sample| sample.off_cpu) {
        if let Some(stack) = sample.stack {
            *per_stack.entry(stack).or_default() += sample.period;
        }
    }
    let mut places: FxHashMap<(WaitReason, Option<FuncId>), (u64, bool)> = FxHashMap::default();
    for (stack, ns) in per_stack {
        let Some((reason, func, guessed)) = place(profile, stack) else {
            continue;
        };
        let sum = places.entry((reason, func)).or_default();
        sum.0 += ns;
        sum.1 |= guessed;
    }
    let mut places: Vec<WaitPlace> = (places.into_iter())
        .map(|((reason, func), (ns, guessed))| {
            let row = func.map(|func| profile.tables.func(func));
            let lib = row.and_then(|row| row.lib).map(|lib| profile.tables.lib(lib).name);
            WaitPlace {
                reason,
                function: row.map(|row| profile.strings.get(row.name).to_owned()),
                lib: lib.map(|name| profile.strings.get(name).to_owned()),
                ns,
                guessed,
            }
        })
        .collect();
    places.sort_by(|a, b| (Reverse(a.ns), a.reason, &a.function).cmp(&(Reverse(b.ns), b.reason, &b.function)));
    places.truncate(n);
    places
}

/// Reads a wait's stack from its leaf: the reason, the frame of waits, the optional mark of a guess, the kernel, the
/// program.
fn place(profile: &Profile, leaf: StackId) -> Option<(WaitReason, Option<FuncId>, bool)> {
    let frame = |stack: StackId| profile.tables.frame(profile.stacks.frame(stack));
    let CodeKind::Wait(Some(reason)) = frame(leaf).kind else {
        return None;
    };
    let mut guessed = false;
    let mut next = profile.stacks.prefix(leaf);
    while let Some(stack) = next {
        match frame(stack).kind {
            CodeKind::Mark(mark) => guessed |= mark == crate::category::MarkKind::Guess,
            CodeKind::Wait(_) | CodeKind::Kernel => {}
            _ => return Some((reason, Some(frame(stack).func), guessed)),
        }
        next = profile.stacks.prefix(stack);
    }
    Some((reason, None, guessed))
}
