//! CPU time that the host of a virtual machine takes away from it. Which clocks go on meanwhile (that of a program's
//! CPU time, that of perf's events, the timers of samples) is the kernel's doing: seen, with two thirds taken away,
//! were half of the samples that the program's own CPU time promised, and twice its CPU time in events. Nothing can be
//! measured then.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use super::machine;

/// A smaller part than the narrowest bound (2 %) changes no answer.
const HARMLESS: f64 = 0.005;
/// Hosts that take time away do so for seconds at a time; a minute has had quiet ones between them.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures again where the host took CPU time away meanwhile. The last attempt counts whatever happened: bounds stay
/// what they are.
pub(crate) fn undisturbed<T>(mut measure: impl FnMut() -> T) -> T {
    assert!(machine::is_measuring(), "other tests would be measured, too");
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        let before = ticks();
        let measured = measure();
        let Some(share) = before.and_then(stolen_since).filter(|share| *share > HARMLESS) else {
            return measured;
        };
        tell(share);
    }
    measure()
}

/// Measures and asserts, and does so again where an assertion failed while the host took CPU time away. What holds all
/// the same is right, so that a machine of which a little is taken all the time is no reason to wait.
pub(crate) fn undisturbed_or_right(measure_and_assert: impl Fn()) {
    assert!(machine::is_measuring(), "other tests would be measured, too");
    let start = Instant::now();
    loop {
        let before = ticks();
        let Err(failure) = catch_unwind(AssertUnwindSafe(&measure_and_assert)) else {
            return;
        };
        let stolen = before.and_then(stolen_since).filter(|share| *share > HARMLESS);
        match stolen {
            Some(share) if start.elapsed() < PATIENCE => tell(share),
            _ => resume_unwind(failure),
        }
    }
}

fn tell(share: f64) {
    eprintln!(
        "measured again: the host took {:.1} % of the CPU time away",
        share * 100.0
    );
}

/// (CPU time used or taken away, CPU time taken away), in ticks.
type Ticks = (u64, u64);

fn stolen_since(before: Ticks) -> Option<f64> {
    let now = ticks()?;
    Some((now.1.saturating_sub(before.1)) as f64 / now.0.saturating_sub(before.0).max(1) as f64)
}

/// `cpu  user nice system idle iowait irq softirq steal ...` of proc_stat(5).
fn ticks() -> Option<Ticks> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let words: Vec<u64> = (stat.lines().next()?.split_whitespace().skip(1))
        .map_while(|word| word.parse().ok())
        .collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, steal] = words.get(..8)?.try_into().ok()?;
    Some((user + nice + system + irq + softirq + steal, steal))
}
