//! CPU time that the host of a virtual machine takes away from it. Which clocks go on meanwhile (the clock of a
//! program's CPU time, the clock of perf's events, the timers of samples) depends on the kernel: with two thirds taken
//! away, half of the samples were seen that the program's own CPU time promised, and twice its CPU time in events.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::machine;

/// A smaller part than the narrowest bound (2 %) changes no answer.
const HARMLESS: f64 = 0.005;
/// A measurement is made so often at most. Hosts that take time away do so for seconds at a time.
const ATTEMPTS: usize = 3;

/// Measures and asserts, and does so again where an assertion failed while the host took CPU time away. What is right
/// in spite of the host is right.
pub(crate) fn undisturbed_or_right(measure_and_assert: impl Fn()) {
    assert!(machine::is_measuring(), "other tests would be measured");
    for _ in 1..ATTEMPTS {
        let before = CpuTicks::now();
        let Err(failure) = catch_unwind(AssertUnwindSafe(&measure_and_assert)) else {
            return;
        };
        if !before.is_disturbed_since() {
            resume_unwind(failure);
        }
    }
    measure_and_assert();
}

/// Measures. Beside the result: the most milliseconds of CPU time that the host can have taken away meanwhile. The
/// kernel shows whole ticks. A machine from which nothing was ever taken away has no such host. If it took some, a
/// second measurement may have less of it.
pub(crate) fn with_stolen_ms<T>(mut measure: impl FnMut() -> T) -> (T, f64) {
    assert!(machine::is_measuring(), "other tests would be measured");
    let mut measure_once = || {
        let before = CpuTicks::now();
        let measured = measure();
        let stolen = before.since().stolen;
        let is_disturbed = before.is_disturbed_since();
        (measured, stolen, is_disturbed)
    };
    let (mut measured, mut stolen, is_disturbed) = measure_once();
    if is_disturbed {
        let (again, less, _) = measure_once();
        if less < stolen {
            (measured, stolen) = (again, less);
        }
    }
    let ticks = if has_taken_any() { stolen + 1 } else { 0 };
    (measured, ticks as f64 * TICK_MS)
}

/// True if the host took CPU time away since this machine started.
pub(crate) fn has_taken_any() -> bool {
    CpuTicks::now().stolen != 0
}

/// USER_HZ is 100 on every processor (proc_stat(5)).
const TICK_MS: f64 = 10.0;

/// CPU time of all CPUs.
#[derive(Default)]
struct CpuTicks {
    used_or_stolen: u64,
    stolen: u64,
}

impl CpuTicks {
    /// `cpu  user nice system idle iowait irq softirq steal ...` of proc_stat(5).
    fn now() -> CpuTicks {
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let words = stat.lines().next().unwrap_or_default().split_whitespace();
        let numbers: Vec<u64> = words.skip(1).map_while(|word| word.parse().ok()).collect();
        let Some([user, nice, system, _idle, _iowait, irq, softirq, stolen]) = numbers.first_chunk() else {
            return CpuTicks::default();
        };
        CpuTicks {
            used_or_stolen: user + nice + system + irq + softirq + stolen,
            stolen: *stolen,
        }
    }

    fn since(&self) -> CpuTicks {
        let now = CpuTicks::now();
        CpuTicks {
            used_or_stolen: now.used_or_stolen.saturating_sub(self.used_or_stolen),
            stolen: now.stolen.saturating_sub(self.stolen),
        }
    }

    /// True if the host took more than a harmless part of the CPU time since then; says so.
    fn is_disturbed_since(&self) -> bool {
        let since = self.since();
        let share = since.stolen as f64 / since.used_or_stolen.max(1) as f64;
        if share > HARMLESS {
            eprintln!(
                "measured again: the host took {:.1} % of the CPU time away",
                share * 100.0
            );
        }
        share > HARMLESS
    }
}
