//! Where the threads of a profile waited.

use super::Profile;
use super::profile::Thread;

/// Milliseconds of the samples of a thread for which `what` holds; it sees function names, root first.
pub(crate) fn weight_ms(profile: &Profile, thread: &Thread, what: impl Fn(&[&str]) -> bool) -> f64 {
    let names = |stack: Option<usize>| stack.map_or(Vec::new(), |stack| profile.names(stack).collect::<Vec<_>>());
    let samples = thread.samples.iter().filter(|sample| what(&names(sample.stack)));
    samples.map(|sample| sample.weight).sum()
}

/// The one of the first process.
pub(crate) fn main_thread(profile: &Profile) -> &Thread {
    profile.threads.iter().find(|thread| thread.is_main).unwrap()
}

/// The main thread of the program `waits` spent a quarter each on spinning, sleeping, reading a pipe and waiting for a
/// lock; waits have these reasons and stacks of their own. `printed` is what the program measured, ns. What the host
/// took away meanwhile (`stolen_ms`, and pauses that the program noticed) is in no sample.
pub(crate) fn assert_quarters(profile: &Profile, thread: &Thread, printed: impl Fn(&str) -> f64, stolen_ms: f64) {
    let quarters = [
        ("spin_quarter", "spin_ns", None),
        ("sleep_quarter", "sleep_ns", Some("[off-CPU: sleep]")),
        ("pipe_quarter", "pipe_ns", Some("[off-CPU: pipe or socket]")),
        ("lock_quarter", "lock_ns", Some("[off-CPU: lock]")),
    ];
    for (function, label, reason) in quarters {
        let spent = |is_leaf: &dyn Fn(&str) -> bool| {
            weight_ms(profile, thread, |names| {
                names.contains(&function) && names.last().is_some_and(|leaf| is_leaf(leaf))
            })
        };
        let (ms, true_ms) = (spent(&|_| true), printed(label) / 1e6);
        // The clock of samples may stand still while the host has the CPU. Waits have the times of their switches.
        let unseen_ms = match reason {
            None => stolen_ms.min(0.05 * true_ms) + printed("paused_ns") / 1e6,
            Some(_) => 0.0,
        };
        assert!(
            (0.97 * true_ms - unseen_ms..=1.03 * true_ms).contains(&ms),
            "{function}: {ms} ms, not {true_ms} ms; the host took {stolen_ms} ms\n{}",
            profile.summary()
        );
        let waiting = spent(&|leaf| leaf.starts_with("[off-CPU: "));
        let for_reason = spent(&|leaf| Some(leaf) == reason);
        assert!(
            (waiting - for_reason).abs() <= 0.01 * ms,
            "{function}: other reasons\n{}",
            profile.summary()
        );
        if reason.is_some() {
            // Others may use the CPU when the wait has ended.
            let until_woken_ms = ms - spent(&|leaf| leaf == "[waiting for a CPU]");
            assert!(
                until_woken_ms >= 0.97 * printed("least_ns") / 1e6 && for_reason >= 0.95 * until_woken_ms,
                "{function}: {for_reason} of {until_woken_ms} ms\n{}",
                profile.summary()
            );
        } else {
            assert!(waiting <= 0.01 * ms, "{function} does not block\n{}", profile.summary());
        }
    }
}
