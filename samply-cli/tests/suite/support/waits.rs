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
/// lock; waits have these reasons and stacks of their own. `printed` is what the program says of itself.
pub(crate) fn assert_quarters(profile: &Profile, thread: &Thread, printed: impl Fn(&str) -> f64) {
    let quarters = [
        ("spin_quarter", "spin_ns", None),
        ("sleep_quarter", "sleep_ns", Some("[off-CPU: sleep]")),
        ("pipe_quarter", "pipe_ns", Some("[off-CPU: pipe or socket]")),
        ("lock_quarter", "lock_ns", Some("[off-CPU: lock]")),
    ];
    let spent = |function: &str| weight_ms(profile, thread, |names| names.contains(&function));
    let wall: f64 = quarters.iter().map(|(function, ..)| spent(function)).sum();
    for (function, label, reason) in quarters {
        let ms = spent(function);
        let percent = 100.0 * ms / wall;
        assert!(
            (percent - 25.0).abs() <= 3.0,
            "{function}: {percent:.1} %\n{}",
            profile.summary()
        );
        let true_ms = printed(label) / 1e6;
        assert!(
            (ms - true_ms).abs() <= 0.03 * true_ms,
            "{function}: {ms} ms, not {true_ms} ms"
        );
        let waiting = weight_ms(profile, thread, |names| {
            names.contains(&function) && names.last().is_some_and(|leaf| leaf.starts_with("[off-CPU: "))
        });
        let for_reason = weight_ms(profile, thread, |names| {
            names.contains(&function) && names.last().copied() == reason
        });
        assert!(
            (waiting - for_reason).abs() <= 0.01 * ms,
            "{function}: other reasons\n{}",
            profile.summary()
        );
        if reason.is_some() {
            assert!(
                for_reason >= 0.95 * ms,
                "{function}: {for_reason} of {ms} ms\n{}",
                profile.summary()
            );
        } else {
            assert!(waiting <= 0.01 * ms, "{function} does not block\n{}", profile.summary());
        }
    }
}
