//! Waits beside the scheduled truth.

use std::collections::BTreeMap;

use recording::wait::WaitReason;

use crate::events::{MS, record_with};
use crate::xnu::fault::Faults;
use crate::xnu::machine::{Behaviour, Machine};

/// In the order of the simulated system calls.
const REASONS: [WaitReason; 5] = [
    WaitReason::Lock,
    WaitReason::Channel,
    WaitReason::Poll,
    WaitReason::Io,
    WaitReason::PageFault,
];

/// Records threads that wait for such times. Returns found and true number and sum of the waits by reason, and the
/// number in truth.
fn compare(seed: u64, threads: usize, wait_ns: (u64, u64)) -> BTreeMap<WaitReason, (u64, u64, u64)> {
    let behaviour = Behaviour {
        run_ns: (20_000, 2 * MS),
        wait_ns,
        waits: 40,
        calls: 20,
        changes: 0,
        holes: 0,
    };
    let mut machine = Machine::new(seed, 4);
    machine.start(None, threads, behaviour);
    let (sampled, mut sink, xnu) = record_with(machine, Faults::default(), MS, 20_000 * MS, true);
    sink.end_waits(sampled.unwrap().end_ns);
    let mut compared: BTreeMap<WaitReason, (u64, u64, u64)> = BTreeMap::new();
    for (reason, ns) in &sink.waits {
        let sums = compared.entry(*reason).or_default();
        *sums = (sums.0 + 1, sums.1 + ns, sums.2);
    }
    for thread in &xnu.lock().machine.threads {
        for (reason, ns) in REASONS.iter().zip(thread.waited_ns) {
            compared.entry(*reason).or_default().2 += ns;
        }
    }
    println!("{compared:?}");
    compared
}

/// Each wait begins and ends up to a tick late: a tick more or less, at most.
#[test]
fn waits_of_several_ticks_are_right_to_a_tick() {
    let compared = compare(1, 4, (5 * MS, 40 * MS));
    assert_eq!(compared.len(), REASONS.len());
    for (reason, (count, found, truth)) in compared {
        let chance_ns = 5.0 * MS as f64 * (count as f64).sqrt();
        assert!(
            count > 100 && (found as f64 - truth as f64).abs() < chance_ns,
            "{reason:?}"
        );
    }
}

/// Each of so many ticks finds a wait or does not.
#[test]
fn the_sum_of_waits_shorter_than_a_tick_is_right() {
    for (reason, (count, found, truth)) in compare(2, 4, (50_000, 800_000)) {
        let chance_ns = 5.0 * MS as f64 * (count as f64).sqrt();
        assert!(
            count > 100 && (found as f64 - truth as f64).abs() < chance_ns,
            "{reason:?}"
        );
    }
}
