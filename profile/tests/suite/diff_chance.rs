//! What `diff` and `check` say of simulated programs whose true change is known: of phases, rounds, random requests, on
//! machines whose speed drifts, recorded whole or in windows.

use profile::data::{Data, Frame, Func, NONE, Samples, Stack, Thread};
use profile::view::diff::rules::{IncreaseRule, LimitedMeasure, Verdict, check};
use profile::view::diff::{Compared, Comparison, DiffLimits, diff};
use profile::{RecordingFacts, RunExtent};

/// splitmix64: the same numbers in every run of the tests.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Of variance 1.
    fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.next()).ln()).sqrt() * (std::f64::consts::TAU * self.next()).cos()
    }

    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.next()).ln()
    }
}

/// Calls of functions in order, each with its CPU time in ms.
type Calls = Vec<(usize, f64)>;

/// `rounds` times each function for its part of `total_ms`.
fn rounds(parts: &[f64], total_ms: f64, rounds: usize) -> Calls {
    let round = parts
        .iter()
        .enumerate()
        .map(|(function, part)| (function, part * total_ms / rounds as f64));
    (0..rounds).flat_map(|_| round.clone()).collect()
}

/// What makes recordings of one program differ.
#[derive(Clone, Copy, Default)]
struct Machine {
    /// Standard deviation of the speed of a recording.
    speed: f64,
    /// Standard deviation of the speed within a recording, which drifts in about 100 ms.
    drift: f64,
    /// Standard deviation of the work of each function of a run.
    work: f64,
}

/// An ordinary machine: what is assumed of it.
const ORDINARY: Machine = Machine {
    speed: 0.015,
    drift: 0.01,
    work: 0.01,
};

impl Machine {
    /// The functions of periodic samples, one each `interval_ms`.
    fn sample(self, calls: &Calls, interval_ms: f64, random: &mut Random) -> Vec<u32> {
        let speed = 1.0 + self.speed * random.normal();
        let functions = calls.iter().map(|(function, _)| function + 1).max().unwrap_or(0);
        let work: Vec<f64> = (0..functions).map(|_| 1.0 + self.work * random.normal()).collect();
        let mut stacks = Vec::new();
        let (mut now, mut next, mut drift) = (0.0, interval_ms * random.next(), self.drift * random.normal());
        for (function, ms) in calls {
            // A loop exactly as long as the interval would be sampled at one place.
            let jitter = if *ms < 1.0 { 0.8 + 0.4 * random.next() } else { 1.0 };
            let mut left = *ms * work[*function] * jitter;
            while left > 0.0 {
                let step = left.min(10.0);
                // First-order autoregressive: of constant variance.
                let stays = (-step / 100.0f64).exp();
                drift = stays * drift + (1.0 - stays * stays).sqrt() * self.drift * random.normal();
                now += step * speed * (1.0 + drift);
                left -= step;
                while next < now {
                    stacks.push(*function as u32 + 1);
                    next += interval_ms;
                }
            }
        }
        stacks
    }
}

/// A recording of one thread and functions `f0`, `f1`...: stack 0 is the first one, which calls the others.
pub(crate) fn of_functions(functions: u32, thread: Thread, extent: RunExtent) -> Data {
    Data {
        texts: (0..functions).map(|function| format!("f{function}").into()).collect(),
        funcs: (0..functions).map(|name| Func::native(name, NONE, NONE)).collect(),
        frames: (0..functions).map(Frame::of).collect(),
        stacks: (0..functions)
            .map(|frame| Stack {
                prefix: if frame == 0 { NONE } else { 0 },
                frame,
            })
            .collect(),
        threads: vec![thread],
        recorded: Some(RecordingFacts {
            extent,
            ..RecordingFacts::default()
        }),
        ..Data::default()
    }
}

/// A recording of the functions of samples.
fn recording(runs: Vec<Vec<u32>>, interval_ms: f64, extent: RunExtent) -> Data {
    let functions = 1 + runs.iter().flatten().max().copied().unwrap_or(0);
    let mut starts = vec![0];
    starts.extend(runs.iter().scan(0, |end, run| {
        *end += run.len();
        Some(*end)
    }));
    starts.pop();
    let stacks = runs.concat();
    let samples = Samples {
        time_ms: (0..stacks.len()).map(|at| at as f64 * interval_ms).collect(),
        stack: stacks,
        ..Samples::default()
    };
    let thread = Thread {
        samples,
        ..Thread::default()
    };
    let mut data = of_functions(functions, thread, extent);
    data.interval_ms = interval_ms;
    if let (Some(recorded), 2..) = (&mut data.recorded, starts.len()) {
        recorded.run_starts_ms = starts.iter().map(|start| (*start as f64 - 0.5) * interval_ms).collect();
    }
    data
}

/// `number` recordings of one whole run each.
fn whole(calls: &Calls, interval_ms: f64, number: usize, machine: Machine, random: &mut Random) -> Vec<Data> {
    let one = |random: &mut Random| vec![machine.sample(calls, interval_ms, random)];
    (0..number)
        .map(|_| recording(one(random), interval_ms, RunExtent::WholeRuns))
        .collect()
}

fn compare(base: &[Data], new: &[Data]) -> Comparison {
    diff(base, new, Compared::Own, DiffLimits::default())
}

/// A program, before and after: the parts of its functions of 2.5 s.
const BEFORE: [f64; 3] = [0.6, 0.3, 0.1];
const AFTER: [f64; 3] = [0.5, 0.4, 0.1];
/// 4 kHz: 10,000 samples.
const INTERVAL_MS: f64 = 0.25;
const TOTAL_MS: f64 = 2500.0;
/// Few long phases, rounds of each length, and many calls between two samples.
const ROUNDS: [usize; 5] = [1, 5, 15, 200, 3000];

#[test]
fn a_change_of_ten_points_is_found_each_time_in_any_order_of_the_work() {
    let mut random = Random(1);
    let (mut right, mut all) = (0, 0);
    for number in [1, 3] {
        for count in ROUNDS {
            for _ in 0..10 {
                let mut side = |parts: &[f64]| {
                    let calls = rounds(parts, TOTAL_MS, count);
                    whole(&calls, INTERVAL_MS, number, ORDINARY, &mut random)
                };
                let compared = compare(&side(&BEFORE), &side(&AFTER));
                let names: Vec<&str> = compared.changes.iter().map(|change| &*change.function).collect();
                assert_eq!(names, ["f2", "f1"], "{number} recordings, {count} rounds: {compared:?}");
                for (change, delta) in compared.changes.iter().zip([0.1, -0.1]) {
                    let (low, high) = change.range;
                    all += 1;
                    right += usize::from(low < delta && delta < high);
                    assert!(high - low < 0.12, "{change:?}");
                }
            }
        }
    }
    // 95 %.
    assert!(right * 100 >= all * 90, "{right} of {all}");
}

#[test]
fn equal_programs_differ_seldom_and_nothing_is_claimed_of_what_is_not_known() {
    let mut random = Random(2);
    for number in [1, 3] {
        for count in ROUNDS {
            let (mut listed, mut pairs) = (0, 0);
            let calls = rounds(&BEFORE, TOTAL_MS, count);
            for _ in 0..if number == 1 { 40 } else { 10 } {
                let mut side = || whole(&calls, INTERVAL_MS, number, ORDINARY, &mut random);
                let compared = compare(&side(), &side());
                listed += usize::from(!compared.changes.is_empty());
                pairs += 1;
                if number == 1 {
                    // What one run is assumed to differ by is more than half a point.
                    assert!(
                        compared.undecided.is_some_and(|undecided| undecided.runs > Some(3)),
                        "{count} rounds"
                    );
                }
            }
            assert!(listed <= 3, "{number} recordings, {count} rounds: {listed} of {pairs}");
        }
    }
}

#[test]
fn what_is_called_unchanged_is() {
    // The true change is a point, twice the limit.
    let mut random = Random(3);
    for number in [1, 4] {
        for count in ROUNDS {
            let (mut wrong, mut pairs) = (0, 0);
            for _ in 0..10 {
                let mut side = |parts: &[f64]| {
                    let calls = rounds(parts, TOTAL_MS, count);
                    whole(&calls, INTERVAL_MS, number, ORDINARY, &mut random)
                };
                let compared = compare(&side(&[0.6, 0.3, 0.1]), &side(&[0.59, 0.31, 0.1]));
                let others = compared.tested - compared.changes.len();
                let undecided = compared.undecided.map_or(0, |undecided| undecided.number);
                // The third function did not change.
                wrong += usize::from(others - undecided > 1);
                pairs += 1;
            }
            assert!(wrong <= 2, "{number} recordings, {count} rounds: {wrong} of {pairs}");
        }
    }
}

#[test]
fn many_runs_decide_what_one_cannot() {
    let mut random = Random(4);
    let calls = rounds(&BEFORE, TOTAL_MS, 5);
    let machine = Machine {
        work: 0.001,
        drift: 0.002,
        ..ORDINARY
    };
    let decided = (0..10).filter(|_| {
        let mut side = || whole(&calls, INTERVAL_MS, 24, machine, &mut random);
        let compared = compare(&side(), &side());
        compared.changes.is_empty() && compared.undecided.is_none()
    });
    let decided = decided.count();
    assert!(decided >= 9, "{decided} of 10");
}

/// A server's requests: of four kinds, each some ms long, in random order; now and then a batch.
fn requests(ms: f64, weights: &[f64; 4], random: &mut Random) -> Calls {
    let mut calls = Calls::new();
    let mut total = 0.0;
    while total < ms {
        let mut choice = random.next() * weights.iter().sum::<f64>();
        let kind = weights.iter().position(|weight| {
            choice -= weight;
            choice < 0.0
        });
        let kind = kind.unwrap_or(0);
        let number = if random.next() < 0.02 { 20 } else { 1 };
        for _ in 0..number {
            let length = random.exponential([2.0, 5.0, 10.0, 0.5][kind]);
            calls.push((kind, length));
            total += length;
        }
    }
    calls
}

fn window(calls: &Calls, random: &mut Random) -> Vec<Data> {
    vec![recording(
        vec![ORDINARY.sample(calls, 1.0, random)],
        1.0,
        RunExtent::Window,
    )]
}

#[test]
fn windows_of_a_random_server_differ_seldom_and_a_change_is_found() {
    let mut random = Random(5);
    let (mut listed, mut found) = (0, 0);
    for _ in 0..50 {
        let mut side = |weights| {
            let calls = requests(20_000.0, &weights, &mut random);
            window(&calls, &mut random)
        };
        let base = side([4.0, 3.0, 2.0, 8.0]);
        listed += usize::from(!compare(&base, &side([4.0, 3.0, 2.0, 8.0])).changes.is_empty());
        // The third kind comes three times as often: 43 % become 70 %.
        let compared = compare(&base, &side([4.0, 3.0, 6.0, 8.0]));
        found += usize::from(compared.changes.first().is_some_and(|change| change.function == "f3"));
    }
    assert!(listed <= 3, "{listed} of 50");
    assert!(found >= 46, "{found} of 50");
}

#[test]
fn a_whole_run_of_random_work_needs_several_recordings() {
    // The same requests as a program that ends: one recording a side does not show that they are random, three do.
    let mut random = Random(6);
    let listed = (0..40).filter(|_| {
        let mut side = || -> Vec<Data> {
            let run =
                |random: &mut Random| ORDINARY.sample(&requests(3000.0, &[4.0, 3.0, 2.0, 8.0], random), 1.0, random);
            (0..4)
                .map(|_| recording(vec![run(&mut random)], 1.0, RunExtent::WholeRuns))
                .collect()
        };
        !compare(&side(), &side()).changes.is_empty()
    });
    let listed = listed.count();
    assert!(listed <= 4, "{listed} of 40");
}

#[test]
fn a_machine_that_is_slower_changes_nothing_but_the_time() {
    let mut random = Random(7);
    let calls = rounds(&BEFORE, TOTAL_MS, 15);
    let slower: Calls = calls.iter().map(|(function, ms)| (*function, ms * 1.2)).collect();
    let listed = (0..50).filter(|_| {
        let base = whole(&calls, INTERVAL_MS, 1, ORDINARY, &mut random);
        let new = whole(&slower, INTERVAL_MS, 1, ORDINARY, &mut random);
        !compare(&base, &new).changes.is_empty()
    });
    let listed = listed.count();
    assert!(listed <= 3, "{listed} of 50");
}

fn verdict(base: &[Data], new: &[Data], function: Option<&str>, limit_percent: f64) -> Verdict {
    let rule = IncreaseRule {
        function: function.map(str::to_owned),
        measure: LimitedMeasure::Time,
        limit_percent,
    };
    check(base, new, Compared::Total, &[rule], DiffLimits::default()).1[0].verdict
}

#[test]
fn equal_runs_of_phases_keep_a_rule_and_slower_ones_break_it() {
    let mut random = Random(8);
    for count in [1, 6, 15, 200] {
        for _ in 0..30 {
            // 1,350 samples.
            let mut side = |first: f64| {
                let calls = rounds(&[first, 1.0 / 3.0], 1350.0, count);
                whole(&calls, 1.0, 1, ORDINARY, &mut random)
            };
            let (base, equal, slower) = (side(2.0 / 3.0), side(2.0 / 3.0), side(4.0 / 3.0));
            for function in [Some("*"), Some("f1"), Some("f2"), None] {
                assert_eq!(
                    verdict(&base, &equal, function, 20.0),
                    Verdict::Kept,
                    "{count} {function:?}"
                );
            }
            for function in [Some("*"), Some("f1"), None] {
                assert_eq!(
                    verdict(&base, &slower, function, 20.0),
                    Verdict::Broken,
                    "{count} {function:?}"
                );
            }
        }
    }
}

#[test]
fn equal_runs_break_a_rule_of_no_increase_seldom() {
    let mut random = Random(9);
    for number in [1, 3] {
        let calls = rounds(&BEFORE, 1000.0, 15);
        let mut broken = 0;
        for _ in 0..100 {
            let mut side = || whole(&calls, 1.0, number, ORDINARY, &mut random);
            let (base, new) = (side(), side());
            let is_broken = |function| verdict(&base, &new, function, 0.0) == Verdict::Broken;
            broken += usize::from([Some("*"), Some("f1"), None].into_iter().any(is_broken));
        }
        // 1 % each.
        assert!(broken <= 8, "{number} recordings: {broken} of 100");
    }
}

#[test]
fn a_chain_of_ten_thousand_functions_is_compared_in_linear_time() {
    // Others may have the CPU meanwhile. The kernel brings the account of a running thread up to date where it yields.
    let cpu_ns = || {
        std::thread::yield_now();
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        text.split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let ns_of = |depth: u32| {
        let mut data = recording(vec![(0..depth).collect()], 1.0, RunExtent::WholeRuns);
        for (stack, of) in data.stacks.iter_mut().enumerate().skip(1) {
            of.prefix = stack as u32 - 1;
        }
        let side = [data];
        let compare = |_| {
            let start = cpu_ns();
            for what in [Compared::Own, Compared::Total, Compared::Paths, Compared::Lines] {
                assert_eq!(diff(&side, &side, what, DiffLimits::default()).changes, []);
            }
            cpu_ns() - start
        };
        // The least of three: what the host takes while the thread has the CPU may count as the thread's.
        (0..3).map(compare).min().unwrap() as f64
    };
    // Each function above each sample was 50 million steps, which took 100 times as long as 500,000.
    let [short, long] = [1_000, 10_000].map(ns_of);
    assert!(long < 40.0 * short, "{long} and {short} ns");
}
