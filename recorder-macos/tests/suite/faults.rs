//! Everything that may go wrong, at any call.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::events::{MS, record_with};
use crate::xnu::fault::{Fault, Faults};
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
        assert!(by_samples + sampled.totals.unsampled_ns + sampled.totals.unseen_ns <= truth);
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, rng_seed: RngSeed::Fixed(14), failure_persistence: None, ..ProptestConfig::default() })]

    /// Faults at any calls in any order.
    #[test]
    fn any_order_of_faults(seed in 0u64..1000, script in prop::collection::btree_map(1u64..400, any_fault(), 0..40)) {
        run(seed, Faults::scripted(script));
    }
}
