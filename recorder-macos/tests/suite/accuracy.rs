//! Samples beside the scheduled truth.

use crate::events::{MS, cpu_ns, record, shares};
use crate::xnu::fault::Faults;
use crate::xnu::machine::{Behaviour, Machine};

/// Threads with short functions, system calls and waits.
const BUSY: Behaviour = Behaviour {
    run_ns: (20_000, 2 * MS),
    wait_ns: (50_000, 5 * MS),
    waits: 20,
    calls: 20,
    changes: 0,
    holes: 0,
};

fn machine(seed: u64, cpus: usize, threads: usize, behaviour: Behaviour) -> Machine {
    let mut machine = Machine::new(seed, cpus);
    machine.start(None, threads, behaviour);
    machine
}

fn compare(seed: u64, cpus: usize, threads: usize, behaviour: Behaviour, seconds: u64) {
    let (sampled, sink, xnu) = record(
        machine(seed, cpus, threads, behaviour),
        Faults::default(),
        MS,
        seconds * 1000 * MS,
    );
    let totals = sampled.unwrap().totals;
    let (sum, truth) = cpu_ns(&sink, &xnu);
    let (by_samples, scheduled) = shares(&sink, &xnu);
    println!(
        "{cpus} CPUs, {threads} threads, {} samples: {sum} of {truth} ns; {totals:?}",
        sink.samples.len()
    );
    for (function, (sampled, scheduled)) in by_samples.iter().zip(scheduled).enumerate() {
        println!("  {function}: {:.2} % of {:.2} %", 100.0 * sampled, 100.0 * scheduled);
    }
    let [right, unknown, wrong] = sink.places;
    assert!(right > 0 && unknown + wrong == 0, "{:?}", sink.places);
    assert!(sink.points > 0);
    assert!((sum as f64 / truth as f64 - 1.0).abs() < 0.01, "{sum} of {truth} ns");
    assert!((totals.cpu_ns as f64 / truth as f64 - 1.0).abs() < 0.01);
    // With one CPU no thread is ever found on it.
    let displaced_share = totals.displaced_samples as f64 / totals.samples as f64;
    assert!(
        if cpus == 1 {
            displaced_share > 0.95
        } else {
            displaced_share < 0.05
        },
        "{totals:?}"
    );
    assert!(
        (totals.queued_samples as f64) < 0.01 * totals.samples as f64,
        "{totals:?}"
    );
    for (sampled, scheduled) in by_samples.iter().zip(scheduled) {
        assert!((sampled - scheduled).abs() < 0.01);
    }
}

#[test]
fn as_many_threads_as_cpus() {
    compare(1, 4, 3, BUSY, 20);
}

#[test]
fn more_threads_than_cpus() {
    compare(2, 2, 12, BUSY, 20);
}

#[test]
fn one_cpu_for_all() {
    compare(3, 1, 3, BUSY, 20);
}

#[test]
fn one_cpu_for_many_threads_that_mostly_wait() {
    let behaviour = Behaviour { waits: 60, ..BUSY };
    compare(6, 1, 12, behaviour, 60);
}

#[test]
fn one_cpu_for_one_thread() {
    compare(7, 1, 1, BUSY, 20);
}

#[test]
fn threads_that_mostly_wait() {
    let behaviour = Behaviour { waits: 60, ..BUSY };
    compare(4, 4, 6, behaviour, 20);
}

#[test]
fn threads_that_never_enter_the_kernel() {
    let behaviour = Behaviour {
        waits: 0,
        calls: 0,
        ..BUSY
    };
    compare(5, 4, 5, behaviour, 15);
}
