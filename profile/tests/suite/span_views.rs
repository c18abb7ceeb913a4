//! Spans of programs whose truth is known: their times, what threads did in them, and the samples inside of them.

use profile::data::{
    Data, Frame, Func, Marker, MarkerPhase, NONE, RecordingFacts, Samples, SpanFacts, Stack, Thread, WeightUnit,
};
use profile::view::diff::sides::ReadSides;
use profile::view::diff::{Compared, DiffLimits, diff};
use profile::view::functions::functions;
use profile::view::select::{Filter, KeptKinds, SpanPart, keep, select};
use profile::view::spans::{SpanLengths, SpanRow, doubts, lengths_ms, spans};

use crate::common::data::category;
use crate::diff_chance::Random;

const FUNCTIONS: [&str; 5] = ["main", "parse", "rehash", "nanosleep", "idle"];
const REQUEST: u32 = 5;
const PARSE: u32 = 6;

/// A stack of one function each, with the number of its name.
fn tables() -> Data {
    let names = FUNCTIONS.iter().chain(&["request", "parse"]);
    let mut categories = ["Program", "Off-CPU"].map(category);
    categories[1].subcategories = ["Other", "Sleep", "Waiting for a CPU"].map(str::to_owned).to_vec();
    Data {
        interval_ms: 1.0,
        unit: WeightUnit::Milliseconds,
        categories: categories.into(),
        texts: names.map(|name| (*name).into()).collect(),
        funcs: (0..5).map(|name| Func::native(name, NONE, NONE)).collect(),
        frames: (0..5)
            .map(|func| Frame {
                category: u32::from(func == 3),
                subcategory: u16::from(func == 3),
                ..Frame::of(func)
            })
            .collect(),
        stacks: (0..5).map(|frame| Stack { prefix: NONE, frame }).collect(),
        ..Data::default()
    }
}

/// A thread that does one thing after the other.
#[derive(Default)]
struct Script {
    now_ms: f64,
    thread: Thread,
}

impl Script {
    fn new(tid: &str) -> Script {
        let mut script = Script::default();
        script.thread.pid = "1".to_owned();
        script.thread.tid = tid.to_owned();
        script.thread.unit = WeightUnit::Milliseconds;
        script
    }

    fn sample(&mut self, time_ms: f64, stack: u32, weight: f64) {
        self.thread.samples.time_ms.push(time_ms);
        self.thread.samples.stack.push(stack);
        self.thread.samples.weight.get_or_insert_default().push(weight);
    }

    /// Runs for so many ms, with a sample in each.
    fn run(&mut self, stack: u32, ms: u32) {
        for _ in 0..ms {
            self.sample(self.now_ms + 0.5, stack, 1.0);
            self.now_ms += 1.0;
        }
    }

    fn wait(&mut self, ms: f64) {
        self.sample(self.now_ms + 1e-3, 3, ms);
        self.now_ms += ms;
    }

    fn span(&mut self, name: u32, inside: impl FnOnce(&mut Script)) {
        let start_ms = self.now_ms;
        inside(self);
        self.thread.markers.push(Marker::spanning(name, start_ms, self.now_ms));
    }
}

fn data(scripts: Vec<Script>) -> Data {
    Data {
        duration_ms: scripts.iter().map(|script| script.now_ms).reduce(f64::max),
        threads: scripts.into_iter().map(|script| script.thread).collect(),
        ..tables()
    }
}

fn rows(data: &Data, filter: &Filter) -> Vec<SpanRow> {
    spans(&select(data, filter).unwrap(), filter).unwrap()
}

fn inside(name: &str) -> Filter {
    Filter {
        inside: vec![name.to_owned()],
        ..Filter::default()
    }
}

/// Samples by function.
fn samples(data: &Data, filter: &Filter) -> Vec<(String, u64)> {
    let selection = select(data, filter).unwrap();
    let rows = functions(&selection).into_iter();
    let mut found: Vec<(String, u64)> = rows
        .map(|row| (selection.name(row.func).to_owned(), row.own.samples))
        .filter(|(_, samples)| *samples > 0)
        .collect();
    found.sort();
    found
}

/// Requests of 10 ms: 4 on a CPU, 6 asleep; one of a hundred takes 40 ms more, in `rehash`. Between two, 5 ms pass.
fn requests(tid: &str, number: u32) -> Script {
    let mut script = Script::new(tid);
    for request in 0..number {
        script.span(REQUEST, |script| {
            script.run(0, 1);
            script.span(PARSE, |script| script.run(1, 3));
            script.wait(6.0);
            if request % 100 == 7 {
                script.run(2, 40);
            }
        });
        script.run(4, 5);
    }
    script
}

#[test]
fn spans_have_their_times_and_what_threads_did_in_them() {
    let data = data(vec![requests("1", 1000), requests("2", 1000)]);
    let [request, parse] = <[SpanRow; 2]>::try_from(rows(&data, &Filter::default())).unwrap();
    assert_eq!(
        (&*request.name, request.count, request.total_ms),
        ("request", 2000, 20_800.0)
    );
    assert_eq!(
        request.lengths,
        Some(SpanLengths {
            mean_ms: 10.4,
            p50_ms: 10.0,
            p90_ms: 10.0,
            p99_ms: 10.0,
            max_ms: 50.0
        })
    );
    let time = &request.time;
    assert_eq!(
        (time.covered_ms, time.on_cpu_ms, time.samples),
        (20_800.0, Some(8800.0), 8800)
    );
    assert_eq!(time.waits, Some(vec![("Sleep".to_owned(), 12_000.0)]));
    assert_eq!((time.ready_ms, time.rest_ms()), (Some(0.0), Some(0.0)));
    // Two threads, each for 10.4 of 15.4 ms.
    assert_eq!(request.window_ms, Some(15_400.0));
    assert!((request.at_once().unwrap() - 2.0 * 10.4 / 15.4).abs() < 1e-9);
    assert!((request.per_second().unwrap() - 2000.0 / 15.4).abs() < 1e-9);
    assert_eq!(request.most_at_once, Some(2));
    assert_eq!(
        (&*parse.name, parse.total_ms, parse.time.on_cpu_ms),
        ("parse", 6000.0, Some(6000.0))
    );

    // The conditions of all views.
    let one = Filter {
        threads: vec!["2".to_owned()],
        to_ms: Some(150.0),
        ..inside("parse")
    };
    let [parse] = <[SpanRow; 1]>::try_from(rows(&data, &one)).unwrap();
    assert_eq!((parse.count, parse.window_ms), (8, Some(150.0)));
}

#[test]
fn samples_are_inside_or_outside_of_spans_and_the_slow_ones_are_slow_by_one_function() {
    let data = data(vec![requests("1", 1000)]);
    let of = |pairs: &[(&str, u64)]| -> Vec<(String, u64)> {
        pairs
            .iter()
            .map(|(name, number)| ((*name).to_owned(), *number))
            .collect()
    };
    assert_eq!(
        samples(&data, &inside("request")),
        of(&[("main", 1000), ("parse", 3000), ("rehash", 400)])
    );
    assert_eq!(samples(&data, &inside("ars")), of(&[("parse", 3000)]));
    let outside = Filter {
        outside: vec!["parse".to_owned()],
        ..inside("request")
    };
    assert_eq!(samples(&data, &outside), of(&[("main", 1000), ("rehash", 400)]));
    let waits = Filter {
        waits: true,
        ..inside("request")
    };
    assert_eq!(samples(&data, &waits), of(&[("nanosleep", 1000)]));
    let part = |span_part| Filter {
        span_part: Some(span_part),
        ..inside("request")
    };
    let slowest = part(SpanPart::Slowest(1.0));
    assert_eq!(
        samples(&data, &slowest),
        of(&[("main", 10), ("parse", 30), ("rehash", 400)])
    );
    assert_eq!(
        samples(&data, &part(SpanPart::Usual(1.0))),
        of(&[("main", 990), ("parse", 2970)])
    );
    let [slow, others] = <[SpanRow; 2]>::try_from(rows(&data, &slowest)).unwrap();
    assert_eq!(
        (slow.part, slow.count, slow.lengths.unwrap().p50_ms),
        (Some(SpanPart::Slowest(1.0)), 10, 50.0)
    );
    assert_eq!(
        (others.part, others.count, others.lengths.unwrap().max_ms),
        (Some(SpanPart::Usual(1.0)), 990, 10.0)
    );

    // What is kept is what is selected.
    let mut kept = data.clone();
    keep(&mut kept, &slowest, KeptKinds::Both).unwrap();
    assert_eq!(samples(&kept, &Filter::default()), samples(&data, &slowest));

    let (sides, numbers) = ReadSides::of_slowest(&data, &slowest).unwrap();
    assert_eq!(numbers, [990, 10]);
    let compared = diff(&sides.base, &sides.new, Compared::Own, DiffLimits::default());
    let slower: Vec<&str> = { compared.changes.iter() }
        .filter(|change| change.share_delta() > 0.0)
        .map(|change| &*change.function)
        .collect();
    assert_eq!(slower, ["rehash"]);
    // Amounts are those of a span.
    assert!((compared.sides.base.per_run - 4.0).abs() < 1e-9 && (compared.sides.new.per_run - 44.0).abs() < 1e-9);

    let error = select(&data, &inside("reqest")).unwrap_err().to_string();
    assert_eq!(
        error,
        "there is no span \"reqest\" in this profile; it has parse, request"
    );
}

/// The slowest of equal spans differ from the others by chance alone: 100 programs, 1 % each.
#[test]
fn the_slowest_of_equal_spans_differ_from_the_others_by_nothing() {
    let mut random = Random(41);
    let found = (0..100).filter(|_| {
        let mut script = Script::new("1");
        for _ in 0..300 {
            script.span(REQUEST, |script| {
                for _ in 0..random.exponential(10.0) as u32 {
                    let stack = (random.exponential(1.0) * 1.5) as u32;
                    script.run(stack.min(2), 1);
                }
            });
        }
        let filter = Filter {
            span_part: Some(SpanPart::Slowest(20.0)),
            ..inside("request")
        };
        let (sides, _) = ReadSides::of_slowest(&data(vec![script]), &filter).unwrap();
        !diff(&sides.base, &sides.new, Compared::Own, DiffLimits::default())
            .changes
            .is_empty()
    });
    // 1, and five times the square root.
    let found = found.count();
    assert!(found <= 6, "{found}");
}

#[test]
fn spans_inside_of_one_of_their_name_count_their_time_once() {
    let mut script = Script::new("1");
    script.span(PARSE, |script| {
        script.run(1, 2);
        script.span(PARSE, |script| {
            script.span(PARSE, |script| script.run(1, 4));
            script.wait(3.0);
        });
    });
    let [parse] = <[SpanRow; 1]>::try_from(rows(&data(vec![script]), &Filter::default())).unwrap();
    assert_eq!((parse.count, parse.total_ms, parse.most_at_once), (3, 20.0, Some(3)));
    assert_eq!((parse.time.covered_ms, parse.time.on_cpu_ms), (9.0, Some(6.0)));
    assert_eq!(parse.time.waiting_ms(), Some(3.0));
}

/// Two requests at once on one thread.
#[test]
fn when_async_spans_ran_is_not_known_and_said() {
    let mut script = Script::new("1");
    script.span(REQUEST, |script| script.run(1, 2));
    script.run(2, 7);
    script
        .thread
        .markers
        .extend([(0.0, 9.0), (1.0, 9.0)].map(|(start_ms, end_ms)| Marker {
            is_async: true,
            ..Marker::spanning(REQUEST, start_ms, end_ms)
        }));
    let data = data(vec![script]);
    let [request] = <[SpanRow; 1]>::try_from(rows(&data, &Filter::default())).unwrap();
    assert_eq!(
        (request.count, request.count_async, request.most_at_once),
        (3, 2, Some(3))
    );
    assert_eq!((request.time.covered_ms, request.time.on_cpu_ms), (2.0, Some(2.0)));
    let selection = select(&data, &inside("request")).unwrap();
    assert_eq!(selection.total.samples, 9);
    let doubts = doubts(&selection);
    assert!(
        doubts.len() == 1 && doubts[0].starts_with("2 of the spans are async"),
        "{doubts:?}"
    );
}

/// Of 1,000 spans every tenth is in the profile, and one of these is cut.
#[test]
fn sums_of_spans_that_are_not_all_in_the_profile_are_estimates_or_the_recorder_s() {
    let mut data = data(vec![requests("1", 100)]);
    data.threads[0].markers[1].is_cut = true;
    let facts = SpanFacts {
        name: Some("request".to_owned()),
        count: 1000,
        kept: 100,
        intervals: 1000,
        total_ns: 10_500_000_000,
        longest_ns: 90_000_000,
    };
    data.recorded = Some(RecordingFacts {
        thinned_spans: vec![facts],
        ..RecordingFacts::default()
    });
    let all = rows(&data, &Filter::default());
    let request = &all[0];
    assert_eq!(
        (request.count, request.kept, request.count_cut, request.most_at_once),
        (1000, Some(100), 1, None)
    );
    assert_eq!((request.total_ms, request.lengths.unwrap().max_ms), (10_500.0, 90.0));
    assert_eq!(
        (request.time.covered_ms, request.time.on_cpu_ms),
        (10_400.0, Some(4400.0))
    );
    assert_eq!(request.time.waiting_ms(), Some(6000.0));
    let half = Filter {
        to_ms: Some(data.duration_ms.unwrap() / 2.0),
        ..Filter::default()
    };
    let half = rows(&data, &half);
    assert!(
        (half[0].count as f64 - 500.0).abs() <= 30.0 && half[0].lengths.unwrap().max_ms == 50.0,
        "{half:?}"
    );
    let doubts = doubts(&select(&data, &inside("request")).unwrap());
    assert_eq!(
        doubts,
        [
            "of 1,000 spans request the profile has 100, chosen by chance: what is inside of the others counts as outside"
        ]
    );
}

#[test]
fn a_start_and_an_end_are_a_span_and_what_sprof_noted_is_none() {
    let mut script = Script::new("1");
    script.run(1, 10);
    let half = |phase, ms| Marker {
        phase,
        ..Marker::spanning(PARSE, ms, ms)
    };
    script.thread.markers = vec![
        half(MarkerPhase::Start, 1.0),
        half(MarkerPhase::Start, 2.0),
        half(MarkerPhase::End, 4.0),
        half(MarkerPhase::End, 9.0),
        half(MarkerPhase::Start, 9.5),
        half(MarkerPhase::Instant, 3.0),
        Marker {
            is_own: true,
            ..Marker::spanning(REQUEST, 0.0, 10.0)
        },
    ];
    let data = data(vec![script]);
    assert_eq!(lengths_ms(&data, &Filter::default(), "parse"), [8.0, 2.0]);
    assert_eq!(rows(&data, &Filter::default()).len(), 1);
}

/// A recording without waits, of counts, without a length.
#[test]
fn what_a_file_does_not_have_is_not_known_and_not_0() {
    let mut script = Script::new("1");
    script.span(REQUEST, |script| script.run(1, 10));
    let mut data = data(vec![script]);
    let [request] = <[SpanRow; 1]>::try_from(rows(&data, &Filter::default())).unwrap();
    assert_eq!(
        (request.time.on_cpu_ms, &request.time.waits, request.time.ready_ms),
        (Some(10.0), &None, None)
    );
    data.threads[0].unit = WeightUnit::Counts;
    data.unit = WeightUnit::Counts;
    let [request] = <[SpanRow; 1]>::try_from(rows(&data, &Filter::default())).unwrap();
    assert_eq!((request.time.on_cpu_ms, request.time.rest_ms()), (None, None));
    data.duration_ms = None;
    data.threads[0].samples = Samples::default();
    let [request] = <[SpanRow; 1]>::try_from(rows(&data, &Filter::default())).unwrap();
    assert_eq!(
        (request.per_second(), request.at_once(), request.time.on_cpu_ms),
        (None, None, None)
    );
}
