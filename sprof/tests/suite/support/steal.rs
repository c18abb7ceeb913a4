//! CPU time that the host of a virtual machine takes away from it. Which clocks go on meanwhile (the clock of a
//! program's CPU time, the clock of perf's events, the timers of samples) depends on the kernel: with two thirds taken
//! away, half of the samples were seen that the program's own CPU time promised, and twice its CPU time in events.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{Child, Command, Stdio};

use super::{machine, program};

/// A smaller part than the narrowest bound (2 %) changes no answer.
const HARMLESS: f64 = 0.005;
/// A measurement is made so often at most. Hosts that take time away do so for seconds at a time.
const ATTEMPTS: usize = 3;

/// Measures and asserts, and does so again where an assertion failed while the host took CPU time away. What is right
/// in spite of the host is right.
pub(crate) fn undisturbed_or_right(measure_and_assert: impl Fn()) {
    assert!(machine::is_measuring(), "other tests would be measured");
    for _ in 1..ATTEMPTS {
        let host = Host::watch();
        let came = catch_unwind(AssertUnwindSafe(&measure_and_assert));
        let taken = host.taken();
        match came {
            Ok(()) => return,
            Err(failure) if !taken.is_disturbing() => resume_unwind(failure),
            Err(_) => {}
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
        let host = Host::watch();
        let measured = measure();
        (measured, host.taken())
    };
    let (mut measured, mut taken) = measure_once();
    if taken.is_disturbing() {
        let (again, less) = measure_once();
        if less.ms() < taken.ms() {
            (measured, taken) = (again, less);
        }
    }
    let tick = if has_taken_any() { TICK_MS } else { 0.0 };
    (measured, taken.ms() + tick)
}

/// True if the host took CPU time away since this machine started.
pub(crate) fn has_taken_any() -> bool {
    CpuTicks::now().stolen != 0
}

/// USER_HZ is 100 on every processor (proc_stat(5)).
const TICK_MS: f64 = 10.0;

/// What the host does while something is measured.
struct Host {
    before: CpuTicks,
    pauses: Vec<Child>,
}

impl Host {
    fn watch() -> Host {
        let pauses = cfg!(target_os = "linux").then(|| program("pauses").unwrap());
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let of_cpu = |cpu: usize| {
            let mut command = Command::new(pauses.as_ref()?);
            command.arg(cpu.to_string()).stdin(Stdio::piped());
            Some(command.stdout(Stdio::piped()).spawn().unwrap())
        };
        Host {
            before: CpuTicks::now(),
            pauses: (0..cpus).filter_map(of_cpu).collect(),
        }
    }

    fn taken(self) -> Taken {
        let pauses = self.pauses.into_iter().map(|child| child.wait_with_output().unwrap());
        let now = CpuTicks::now();
        let taken = Taken {
            stolen_ms: now.stolen.saturating_sub(self.before.stolen) as f64 * TICK_MS,
            // Where it could not measure, it says nothing.
            paused_ms: pauses
                .filter_map(|output| String::from_utf8_lossy(&output.stdout).trim().parse::<f64>().ok())
                .sum(),
            used_ms: now.used.saturating_sub(self.before.used) as f64 * TICK_MS,
        };
        if taken.is_disturbing() {
            eprintln!("the host took CPU time away: {taken:?}");
        }
        taken
    }
}

/// CPU time of all CPUs, ms.
#[derive(Debug)]
struct Taken {
    /// What the kernel knows of.
    stolen_ms: f64,
    /// Pauses of some milliseconds and more. The kernel does not count all of them as stolen (seen: 184 ms in two
    /// seconds, and 10 ms stolen).
    paused_ms: f64,
    used_ms: f64,
}

impl Taken {
    /// Pauses may be in both.
    fn ms(&self) -> f64 {
        self.stolen_ms + self.paused_ms
    }

    /// True if it is more than a harmless part.
    fn is_disturbing(&self) -> bool {
        self.ms() > HARMLESS * (self.used_ms + self.stolen_ms).max(TICK_MS)
    }
}

/// CPU time of all CPUs, in ticks.
#[derive(Default)]
struct CpuTicks {
    used: u64,
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
            used: user + nice + system + irq + softirq,
            stolen: *stolen,
        }
    }
}
