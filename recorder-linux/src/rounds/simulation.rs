//! Drives [`RoundRule`] with busy threads whose callers change by chance, one thread for each of 1 to 256 CPUs.
//!
//! The table in the module's documentation is printed by
//! `cargo test -p sprof-recorder-linux rounds::simulation -- --nocapture`.

use std::time::Duration;

use recording::info::PeriodUnit;

use super::{Jitter, MANY_CPUS, RoundFindings, RoundRule};
use crate::open::RingBytes;

const RATE_HZ: f64 = 1000.0;
const SECONDS: f64 = 20.0;
/// CPU time of a wake-up, measured on 2 CPUs.
const WAKE_UP_SECONDS: f64 = 300e-6;
/// A thread's phases by turns: mean length in seconds, changes of callers a second.
const PHASES: [(f64, f64); 2] = [(2.0, 0.05), (0.05, 20.0)];

/// Uniform numbers; the same ones in each run.
struct Chance(Jitter);

impl Chance {
    /// Seconds until an event that comes `per_second` times a second: a Poisson process.
    fn seconds(&mut self, per_second: f64) -> f64 {
        // From (0, 1].
        let uniform = (self.0.next_factor() - 0.75) * 4.0;
        -uniform.max(1e-12).ln() / per_second
    }
}

struct SimulatedThread {
    phase: usize,
    phase_end: f64,
    next_change: f64,
}

impl SimulatedThread {
    /// A thread somewhere in its phases.
    fn new(chance: &mut Chance) -> SimulatedThread {
        let mut thread = SimulatedThread {
            phase: 0,
            phase_end: 0.0,
            next_change: f64::INFINITY,
        };
        let before = chance.seconds(1.0) * PHASES[0].0;
        thread.phase_end = -before;
        thread.enter(-before, chance);
        thread.is_changed_until(0.0, chance);
        thread
    }

    fn enter(&mut self, at: f64, chance: &mut Chance) {
        let (mean_seconds, changes) = PHASES[self.phase];
        self.phase_end = at + chance.seconds(1.0 / mean_seconds);
        self.next_change = at + chance.seconds(changes);
    }

    /// Runs on. True if callers changed.
    fn is_changed_until(&mut self, now: f64, chance: &mut Chance) -> bool {
        let mut is_changed = false;
        while now > self.phase_end.min(self.next_change) {
            if self.next_change < self.phase_end {
                is_changed = true;
                self.next_change += chance.seconds(PHASES[self.phase].1);
            } else {
                self.phase = 1 - self.phase;
                self.enter(self.phase_end, chance);
            }
        }
        is_changed
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Simulated {
    rounds_a_second: f64,
    unverified_percent: f64,
}

/// `rule_cpus`: the number of CPUs that the rule knows of.
fn simulate(cpus: u32, rule_cpus: usize) -> Simulated {
    let mut chance = Chance(Jitter(u64::from(cpus)));
    let mut jitter = Jitter(1);
    let mut threads: Vec<SimulatedThread> = (0..cpus).map(|_| SimulatedThread::new(&mut chance)).collect();
    let bytes = RingBytes {
        ring_bytes: 16 << 20,
        stack_bytes: 16 << 10,
    };
    let mut rule = RoundRule::new(bytes, RATE_HZ, PeriodUnit::CpuNanoseconds, rule_cpus);
    let (mut now, mut rounds, mut all, mut unverified) = (0.0, 0.0, 0.0, 0.0);
    while now < SECONDS {
        let round = rule.sleep(&mut jitter).as_secs_f64();
        now += round;
        // All samples of a thread that changed its callers in the round are unverified.
        let changed = { threads.iter_mut() }
            .filter_map(|thread| thread.is_changed_until(now, &mut chance).then_some(()))
            .count();
        let of_thread = (round * RATE_HZ).round().max(1.0) as u64;
        let found = RoundFindings {
            has_records: true,
            opens_file: false,
            deep: of_thread * u64::from(cpus),
            unverified: of_thread * changed as u64,
            fill: 0.0,
        };
        rounds += 1.0;
        all += found.deep as f64;
        unverified += found.unverified as f64;
        rule = rule.after(found, Duration::ZERO);
    }
    Simulated {
        rounds_a_second: rounds / SECONDS,
        unverified_percent: 100.0 * unverified / all,
    }
}

#[test]
fn many_cpus_have_fewer_rounds_and_no_more_unverified_stacks_than_two() {
    let at_two = simulate(2, 2);
    for cpus in (0..=8).map(|power| 1 << power) {
        let [any, share] = [1, cpus].map(|rule_cpus| simulate(cpus, rule_cpus as usize));
        let cell = |of: fn(&Simulated) -> f64| format!("{:.2}, {:.2}", of(&any), of(&share));
        println!(
            "//! | {cpus} | {} | {} % | {} % |",
            cell(|simulated| simulated.rounds_a_second),
            cell(|simulated| 100.0 * WAKE_UP_SECONDS * simulated.rounds_a_second),
            cell(|simulated| simulated.unverified_percent),
        );
        if (cpus as usize) < MANY_CPUS {
            assert_eq!(any, share, "{cpus} CPUs");
        } else {
            assert!(share.rounds_a_second < any.rounds_a_second / 2.0, "{cpus} CPUs");
            assert!(share.unverified_percent < at_two.unverified_percent, "{cpus} CPUs");
        }
    }
}
