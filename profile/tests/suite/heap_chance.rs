//! What `diff` and `check` say of simulated heaps whose true change is known.

use profile::RunExtent;
use profile::data::{Allocations, Data, HeapFacts, HeapLosses, NONE, Thread};
use profile::view::diff::rules::{IncreaseRule, LimitedMeasure, UnknownReason, Verdict, check};
use profile::view::diff::{Compared, Comparison, DiffLimits, diff};
use profile::view::heap::Measure;
use profile::view::select::Filter;

use crate::diff_chance::{Random, of_functions};

const MIB: f64 = 1048576.0;

/// A function that takes blocks of one size.
#[derive(Clone, Copy)]
struct Site {
    size: f64,
    bytes: f64,
}

/// Sites of all sizes, from one with few samples to one with many.
fn program() -> Vec<Site> {
    let sizes = [16.0, 200.0, 4096.0, 65_536.0, 524_288.0, 4.0 * MIB];
    let amounts = [4.0, 64.0, 256.0];
    let sites = sizes.iter().flat_map(|size| amounts.map(|mib| (*size, mib * MIB)));
    sites.map(|(size, bytes)| Site { size, bytes }).collect()
}

/// A recording by chance: bytes are chosen at exponential distances, and their blocks are samples.
fn recording(sites: &[Site], interval: f64, measure: Measure, random: &mut Random) -> Data {
    let mut table = Allocations {
        address: Some(Vec::new()),
        size: Some(Vec::new()),
        ..Allocations::default()
    };
    for (function, site) in (1..).zip(sites) {
        let chance = 1.0 - (-site.size / interval).exp();
        let mut at = random.exponential(interval);
        while at < site.bytes {
            table.time_ms.push(table.weight.len() as f64 / 100.0);
            table.weight.push((site.size / chance).round().max(site.size));
            table.stack.push(function);
            (table.address.as_mut().unwrap()).push(Some(table.weight.len() as u64));
            table.size.as_mut().unwrap().push(Some(site.size as u64));
            at = ((at / site.size).floor() + 1.0) * site.size + random.exponential(interval);
        }
    }
    let thread = Thread {
        allocations: Some(table),
        ..Thread::default()
    };
    let mut data = of_functions(1 + sites.len() as u32, thread, RunExtent::WholeRuns);
    data.keep_measure(measure, &Filter::default(), true).unwrap();
    data
}

fn side(number: usize, sites: &[Site], interval: f64, measure: Measure, random: &mut Random) -> Vec<Data> {
    (0..number)
        .map(|_| recording(sites, interval, measure, random))
        .collect()
}

fn compare(base: &[Data], new: &[Data]) -> Comparison {
    diff(base, new, Compared::Own, DiffLimits::default())
}

const INTERVAL: f64 = 524_288.0;

#[test]
fn equal_heaps_differ_in_at_most_two_of_a_hundred_comparisons() {
    let mut random = Random(1);
    for measure in [Measure::Allocated, Measure::Peak, Measure::Blocks] {
        for (number, pairs) in [(1, 100), (3, 50)] {
            let listed = (0..pairs).filter(|_| {
                let mut side = || side(number, &program(), INTERVAL, measure, &mut random);
                !compare(&side(), &side()).changes.is_empty()
            });
            let listed = listed.count();
            assert!(
                listed * 50 <= pairs,
                "{measure:?}, {number} a side: {listed} of {pairs}"
            );
        }
    }
}

#[test]
fn a_fifth_more_is_found_and_nothing_else_is_named() {
    let mut random = Random(2);
    // 16 bytes, 256 MiB; its share of all grows by 3 points.
    let mut more = program();
    more[2].bytes *= 1.2;
    let (mut found, mut others, mut right) = (0, 0, 0);
    for _ in 0..50 {
        let base = side(1, &program(), INTERVAL / 8.0, Measure::Allocated, &mut random);
        let new = side(1, &more, INTERVAL / 8.0, Measure::Allocated, &mut random);
        let compared = compare(&base, &new);
        found += usize::from(compared.changes.iter().any(|change| change.function == "f3"));
        others += compared.changes.iter().filter(|change| change.function != "f3").count();
        for change in compared.changes.iter().filter(|change| change.function == "f3") {
            let truth = 0.2 * 256.0 * MIB / compared.sides.base.per_run.max(compared.sides.new.per_run);
            right += usize::from(change.range.0 < truth && truth < change.range.1);
        }
    }
    assert!(found >= 49 && others <= 1 && right >= 45, "{found}, {others}, {right}");
}

/// All of a heap is one function's: its share stays.
#[test]
fn a_fifth_more_of_all_is_found_although_no_share_changes() {
    let mut random = Random(3);
    let site = |mib: f64| {
        [Site {
            size: 64.0,
            bytes: mib * MIB,
        }]
    };
    let mut side = |mib| side(1, &site(mib), INTERVAL / 8.0, Measure::Retained, &mut random);
    let compared = compare(&side(256.0), &side(307.2));
    assert_eq!(compared.changes.len(), 1, "{compared:?}");
}

fn verdict(base: &[Data], new: &[Data], function: Option<&str>) -> Verdict {
    let rule = IncreaseRule {
        function: function.map(str::to_owned),
        measure: LimitedMeasure::Time,
        limit_percent: 5.0,
    };
    let (_, checked) = check(base, new, Compared::Total, &[rule], DiffLimits::default());
    checked[0].verdict
}

#[test]
fn a_rule_is_broken_kept_or_unknown_as_far_as_the_blocks_show() {
    let mut random = Random(4);
    let site = |size: f64, mib: f64| [Site { size, bytes: mib * MIB }];
    let mut verdicts_of = |size, before, after, interval: f64, times: usize| {
        let mut counts = [0; 4];
        for _ in 0..times {
            let mut side = |mib| side(1, &site(size, mib), interval, Measure::Peak, &mut random);
            let (base, new) = (side(before), side(after));
            for function in [None, Some("f1"), Some("f*")] {
                counts[match verdict(&base, &new, function) {
                    Verdict::Broken => 0,
                    Verdict::Kept => 1,
                    Verdict::Unknown(UnknownReason::TooWide) => 2,
                    Verdict::Unknown(_) => 3,
                }] += 1;
            }
        }
        counts
    };
    // Each block is a sample: no chance.
    assert_eq!(verdicts_of(4096.0, 8.0, 8.0, 1.0, 1), [0, 3, 0, 0]);
    assert_eq!(verdicts_of(4096.0, 8.0, 9.6, 1.0, 1), [3, 0, 0, 0]);
    // Three large blocks, each a sample.
    assert_eq!(verdicts_of(64.0 * MIB, 192.0, 192.0, INTERVAL, 1), [0, 3, 0, 0]);
    assert_eq!(verdicts_of(64.0 * MIB, 192.0, 256.0, INTERVAL, 1), [3, 0, 0, 0]);
    // An error of 11 % a side.
    let wide = verdicts_of(1000.0, 40.0, 40.0, INTERVAL, 100);
    assert!(wide[0] <= 6 && wide[2] + wide[3] > 250, "{wide:?}");
    // A true increase by the limit is called broken in at most one of a hundred cases; twice the size in all.
    let at_the_limit = verdicts_of(1000.0, 1000.0, 1050.0, INTERVAL, 100);
    assert!(at_the_limit[0] <= 6, "{at_the_limit:?}");
    assert_eq!(verdicts_of(1000.0, 256.0, 512.0, INTERVAL, 10), [30, 0, 0, 0]);
    // Nothing on one side.
    assert_eq!(verdicts_of(1000.0, 0.0, 100.0, INTERVAL, 1)[0], 3);
    assert_eq!(verdicts_of(1000.0, 0.0, 0.0, INTERVAL, 1), [0, 0, 0, 3]);
}

/// The figures are equal and exact, but who knows what was lost.
#[test]
fn nothing_is_claimed_of_what_was_lost() {
    let mut random = Random(6);
    let mut side = |lost: f64| {
        let mut data = side(1, &program()[6..9], 1.0, Measure::Peak, &mut random);
        data[0].recorded.as_mut().unwrap().heap = Some(HeapFacts {
            lost: Some(HeapLosses {
                bytes: (lost * MIB) as u64,
                ..HeapLosses::default()
            }),
            ..HeapFacts::default()
        });
        data
    };
    let (none, few, many) = (side(0.0), side(1.0), side(300.0));
    assert_eq!(verdict(&none, &few, None), Verdict::Kept);
    assert_eq!(verdict(&none, &many, None), Verdict::Unknown(UnknownReason::TooWide));
    assert_eq!(verdict(&many, &none, None), Verdict::Unknown(UnknownReason::TooWide));
    assert!(compare(&none, &many).undecided.is_some());
}

#[test]
fn each_run_of_a_recording_has_a_peak() {
    // The first run frees its ten blocks at its end.
    let of = |first: f64, freed: f64, second: f64| [[first; 10], [freed; 10], [second; 10]].concat();
    let mut data = recording(&[], 1.0, Measure::Allocated, &mut Random(5));
    data.texts = vec!["f".into()];
    let addresses = (0..30).map(|row| Some(row % 10)).collect();
    let size = |row| {
        if (10..20).contains(&row) {
            None
        } else {
            Some(MIB as u64)
        }
    };
    data.threads[0].allocations = Some(Allocations {
        time_ms: of(1.0, 9.0, 11.0),
        weight: of(MIB, -MIB, MIB),
        stack: of(0.0, NONE.into(), 0.0).iter().map(|stack| *stack as u32).collect(),
        address: Some(addresses),
        size: Some((0..30).map(size).collect()),
        ..Allocations::default()
    });
    data.recorded.as_mut().unwrap().run_starts_ms = vec![0.0, 10.0];
    let side = |of_each_run: bool| {
        let mut data = data.clone();
        data.keep_measure(Measure::Peak, &Filter::default(), of_each_run)
            .unwrap();
        diff(&[data.clone()], &[data], Compared::Own, DiffLimits::default())
            .sides
            .base
    };
    let (each, all) = (side(true), side(false));
    assert_eq!((each.runs, each.per_run, each.samples), (2, 10.0 * MIB, 20));
    assert_eq!((all.runs, all.per_run, all.samples), (2, 5.0 * MIB, 10));
}
