//! Everything that may go wrong, at any call.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestError, TestRunner};

use crate::events::{MS, record_with};
use crate::xnu::fault::{At, CALLS, Fault, Faults};
use crate::xnu::machine::{Behaviour, Chance, Machine};

/// Sums over runs.
#[derive(Debug, Default)]
struct Sums {
    suspends: u64,
    samples: u64,
    /// See [`Checked::places`](crate::events::Checked::places).
    places: [u64; 3],
}

impl Sums {
    fn add(&mut self, more: Sums) {
        self.suspends += more.suspends;
        self.samples += more.samples;
        self.places
            .iter_mut()
            .zip(more.places)
            .for_each(|(sum, more)| *sum += more);
    }
}

fn run(seed: u64, faults: Faults) -> Sums {
    let mut chance = Chance::new(seed);
    let behaviour = Behaviour {
        run_ns: (1_000, 1 + chance.below(3 * MS)),
        wait_ns: (1_000, 1 + chance.below(5 * MS)),
        waits: chance.below(50),
        calls: chance.below(50),
        changes: chance.below(50),
        holes: chance.below(50),
    };
    let mut machine = Machine::new(seed, 1 + chance.below(4) as usize);
    let root = machine.start(None, 1 + chance.below(6) as usize, behaviour);
    machine.fork(root);
    // Of a third of the runs, only programs are reached that announce themselves.
    if seed.is_multiple_of(3) {
        machine.give_library(root);
    }
    let (sampled, sink, xnu) = record_with(machine, faults, MS, 12 * MS, seed % 2 == 1);
    let kernel = xnu.lock();
    if let Some(sampled) = sampled {
        let machine = &kernel.machine;
        let is_ours = |process: usize| !machine.processes[process].is_stranger;
        let ours = machine.threads.iter().filter(|thread| is_ours(thread.process));
        let truth: u64 = ours.map(|thread| thread.cpu_ns).sum();
        assert!(
            sampled.totals.cpu_ns <= truth,
            "{} of {truth} ns",
            sampled.totals.cpu_ns
        );
        let by_samples: u64 = sink.samples.iter().map(|sample| sample.period).sum();
        // Weights, and what the recorder says that they lack, are the CPU time that the kernel counted.
        let totals = sampled.totals;
        let accounted = by_samples + totals.unsampled_ns + totals.unseen_ns;
        assert!(accounted <= truth, "{accounted} of {truth} ns");
        assert!(
            accounted.abs_diff(totals.cpu_ns) <= totals.cpu_ns / 100,
            "{accounted} ns: {totals:?}"
        );
    }
    let mut sampled_ns: BTreeMap<usize, u64> = BTreeMap::new();
    for sample in &sink.samples {
        if let Some(serial) = sample.serial {
            *sampled_ns.entry(serial).or_default() += sample.period;
        }
    }
    for (serial, ns) in sampled_ns {
        let thread = &kernel.machine.threads[serial];
        assert!(
            !kernel.machine.processes[thread.process].is_stranger,
            "a process of somebody else"
        );
        assert!(
            ns <= thread.cpu_ns,
            "thread {serial}: {ns} ns in samples, {} ns in truth",
            thread.cpu_ns
        );
    }
    Sums {
        suspends: kernel.suspends,
        samples: sink.samples.len() as u64,
        places: sink.places,
    }
}

/// How many runs; `SPROF_FAULTY_RUNS=10000` for all that the design asks for.
fn runs() -> u64 {
    let number = std::env::var("SPROF_FAULTY_RUNS").ok();
    number.and_then(|number| number.parse().ok()).unwrap_or(400)
}

#[test]
fn faulty_runs_leave_nothing_suspended_and_hold_no_right() {
    let mut sums = Sums::default();
    for seed in 0..runs() {
        // Seeds are of all rates, however few they are.
        let rate = seed.wrapping_mul(7919) % 300;
        sums.add(run(seed, Faults::random(rate)));
    }
    println!("{sums:?}");
    assert!(sums.suspends > 10 * runs() && sums.samples > 5 * runs());
    let [right, unknown, wrong] = sums.places;
    let all = (right + unknown + wrong) as f64;
    // An image may be unloaded between a sample and the look at the list.
    assert!(right as f64 / all > 0.97 && (wrong as f64) < 0.001 * all, "{sums:?}");
}

fn any_fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        Just(Fault::KillThread),
        Just(Fault::KillProcess),
        Just(Fault::Exec),
        Just(Fault::Spawn),
        Just(Fault::Fork),
        Just(Fault::Load),
        Just(Fault::Unload),
        Just(Fault::Fail),
        Just(Fault::Unmap),
        (0u16..20_000).prop_map(Fault::Late),
        (0u16..5_000).prop_map(Fault::Preempt),
    ]
}

fn any_order() -> impl Strategy<Value = Vec<At>> {
    let call = prop::sample::select(&CALLS[..]);
    let at = (call, 1u32..30, any_fault()).prop_map(|(call, nth, fault)| At { call, nth, fault });
    prop::collection::vec(at, 0..20)
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(14),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(600))]

    /// Faults at any calls in any order. What fails is printed as the shortest order of faults that fails.
    #[test]
    fn any_order_of_faults(seed in 0u64..1000, order in any_order()) {
        run(seed, Faults::in_order(order));
    }
}

/// The search would print two faults where two are needed: here an exec, and a failure later than that.
#[test]
fn an_order_of_faults_that_fails_is_shortened_to_the_faults_that_matter() {
    let mut runner = TestRunner::new(ProptestConfig {
        max_shrink_iters: 20_000,
        ..config(2000)
    });
    let fails = |order: &[At]| {
        let place = |fault| order.iter().position(|at| at.fault == fault);
        place(Fault::Exec).is_some_and(|exec| place(Fault::Fail).is_some_and(|fail| exec < fail))
    };
    let result = runner.run(&any_order(), |order| {
        prop_assert!(!fails(&order));
        Ok(())
    });
    let Err(TestError::Fail(_, order)) = result else {
        panic!("{result:?}")
    };
    let faults: Vec<Fault> = order.iter().map(|at| at.fault).collect();
    assert_eq!(faults, [Fault::Exec, Fault::Fail], "{order:?}");
}

/// A fault comes at the call that the order names, and each name is that of a call.
#[test]
fn faults_come_at_the_calls_that_the_order_names() {
    let mut machine = Machine::new(1, 2);
    machine.start(None, 1, Behaviour::RUNS);
    let kill = At {
        call: "registers",
        nth: 3,
        fault: Fault::KillThread,
    };
    let (_, sink, _) = record_with(machine, Faults::in_order(vec![kill]), MS, 100 * MS, false);
    assert_eq!(sink.samples.len(), 2);
    let methods = include_str!("xnu/calls.rs");
    for call in CALLS {
        assert!(methods.contains(&format!("    fn {call}(&self")), "{call}");
    }
}
