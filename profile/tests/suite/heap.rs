//! Blocks of memory: from events to the file, to measures and to the table.

use profile::builder::BuildOptions;
use profile::data::{Data, SavedData, WeightUnit};
use profile::export::{Picked, PickedTime, dhat};
use profile::read::{self, ForeignFormat, ReadLimits};
use profile::view::functions::functions;
use profile::view::heap::{Measure, NoMeasure, SiteSums, heap_sites};
use profile::view::select::{Filter, KeptKinds, keep, select};
use recording::clock::Timestamp;
use recording::counter::Counter;
use recording::event::{Allocation, Event, Pid, ProcessEvent, Role, Sample, Thread, ThreadEvent};
use recording::heap::{HeapCoverage, HeapGrowth, MemoryOwner, UnseenCause};
use recording::quality::Quality;
use recording::stack::{Frame, Stack};
use serde_json::json;

use crate::common::{MS, Stream, assert_same_when_read_again, at, image, info, ip, read_all, ret, written};

/// Mean distance of sampled bytes. Blocks of 1 MiB and more then stand for little more than themselves.
const INTERVAL: u64 = 64 << 10;
const MIB: u64 = 1 << 20;

impl Stream {
    fn take(&mut self, pid: i32, tid: i32, ms: u64, address: u64, size: u64, frames: &[Frame]) {
        let allocation = Allocation {
            address,
            size,
            interval: INTERVAL,
        };
        let sample = Sample {
            allocation: Some(&allocation),
            ..Sample::new(Role::Allocation, size, Stack::Frames(frames))
        };
        self.event(Event::sample(at(ms), Thread::new(pid, tid), sample));
    }

    /// Frees half a millisecond later.
    fn free(&mut self, pid: i32, tid: i32, ms: u64, address: u64) {
        let half = Timestamp(at(ms).0 + MS / 2);
        let freed = ThreadEvent::Freed { address };
        self.event(Event::thread(half, Thread::new(pid, tid), freed));
    }

    /// A reading of the anonymous memory.
    fn memory(&mut self, pid: i32, ms: u64, bytes: u64) {
        let counter = ProcessEvent::Counter(Counter::AnonymousBytes, bytes);
        self.event(Event::process(at(ms), Pid(pid), counter));
    }
}

/// Process 1 of two threads. 3 MiB are kept by 0x1100, 5 MiB live from 20 to 60 ms for 0x1200, 7 MiB are temporary.
pub(crate) fn app() -> Stream {
    let mut stream = Stream::with_app();
    stream.thread(1, 2, 0);
    stream.sample(1, 1, 1, &[ip(0x1010), ret(0x1020)]);
    stream.take(1, 1, 10, 0xa000, 3 * MIB, &[ip(0x1100), ret(0x1020)]);
    stream.sample(1, 1, 11, &[ip(0x1010), ret(0x1020)]);
    stream.take(1, 2, 20, 0xb000, 5 * MIB, &[ip(0x1200), ret(0x1030)]);
    stream.take(1, 2, 30, 0xc000, 7 * MIB, &[ip(0x1300), ret(0x1030)]);
    stream.free(1, 1, 30, 0xc000);
    // Another thread frees it.
    stream.free(1, 1, 60, 0xb000);
    stream.take(1, 1, 70, 0xb000, MIB, &[ip(0x1100), ret(0x1020)]);
    stream.take(1, 1, 95, 0xd000, 2 * MIB, &[ip(0x1100), ret(0x1020)]);
    stream
}

fn measured(data: &Data, measure: Measure, filter: &Filter) -> f64 {
    let mut data = data.clone();
    data.keep_measure(measure, filter, false).unwrap();
    keep(&mut data, filter, KeptKinds::One).unwrap();
    let selection = select(&data, &Filter::default()).unwrap();
    assert_eq!(data.counted_name(), Some(measure.name()));
    selection.total.weight
}

#[test]
fn blocks_and_what_is_freed_are_in_the_main_thread_in_the_order_of_time() {
    let json = written(&app().finish());
    let table = &json["threads"][0]["nativeAllocations"];
    let mib = MIB as f64;
    let weights = [3.0, 5.0, 7.0, -7.0, -5.0, 1.0, 2.0].map(|weight| weight * mib);
    assert_eq!(table["weight"], json!(weights.map(|weight| weight as i64)));
    assert_eq!(table["weightType"], "bytes");
    assert_eq!(table["time"], json!([10, 20, 30, 30.5, 60.5, 70, 95]));
    let addresses = [0xa000, 0xb000, 0xc000, 0xc000, 0xb000, 0xb000, 0xd000];
    assert_eq!(table["memoryAddress"], json!(addresses));
    assert_eq!(table["threadId"], json!([1, 2, 2, 1, 1, 1, 1]));
    assert_eq!(table["size"][0], json!(3 * MIB));
    assert_eq!((&table["size"][3], &table["stack"][3]), (&json!(null), &json!(null)));
    assert_eq!(table["length"], 7);
    assert!(json["threads"][1]["nativeAllocations"].is_null());
    // The graph of the heap: its deltas add up to what is retained.
    let counters = json["counters"].as_array().unwrap();
    let counter = counters.iter().find(|counter| counter["name"] == "heap").unwrap();
    assert_eq!(counter["category"], "Memory");
    let samples = &counter["samples"];
    let counts = samples["count"]
        .as_array()
        .unwrap()
        .iter()
        .map(|count| count.as_f64().unwrap());
    assert_eq!(counts.sum::<f64>(), 6.0 * mib);
    let numbers = samples["number"]
        .as_array()
        .unwrap()
        .iter()
        .map(|number| number.as_f64().unwrap());
    assert_eq!(numbers.fold(0.0, f64::max), 15.0 * mib);
    // Nothing is taken from 30.5 to 60.5 ms, and from 95 ms to the end.
    let numbers = |from: f64, to: f64| {
        let times = samples["time"]
            .as_array()
            .unwrap()
            .iter()
            .map(|time| time.as_f64().unwrap());
        let points = times.zip(samples["number"].as_array().unwrap());
        let points = points.filter(|(time, _)| (from..=to).contains(time));
        points
            .map(|(_, number)| number.as_f64().unwrap() / mib)
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers(60.0, 60.499_999), [8.0]);
    assert_eq!(numbers(95.1, 1000.0), [6.0]);
    // CPU samples have nothing of it.
    assert_eq!(json["threads"][0]["samples"]["length"], 2);
}

#[test]
fn each_measure_is_the_sum_of_its_blocks() {
    let data = Data::from(&app().finish());
    let all = Filter::default();
    let mib = |measure, filter: &Filter| measured(&data, measure, filter) / MIB as f64;
    assert_eq!(mib(Measure::Allocated, &all), 18.0);
    assert_eq!(mib(Measure::Retained, &all), 6.0);
    assert_eq!(mib(Measure::Peak, &all), 15.0);
    assert_eq!(mib(Measure::Temporary, &all), 7.0);
    assert_eq!(measured(&data, Measure::Blocks, &all).round(), 5.0);

    // What lives at the end of a range is retained, if it was taken in it.
    let range = |from_ms, to_ms| Filter {
        from_ms: Some(from_ms),
        to_ms: Some(to_ms),
        ..Filter::default()
    };
    assert_eq!(mib(Measure::Retained, &range(15.0, 50.0)), 5.0);
    assert_eq!(mib(Measure::Retained, &range(0.0, 50.0)), 8.0);
    assert_eq!(mib(Measure::Peak, &range(65.0, 100.0)), 3.0);
    let thread = Filter {
        threads: vec!["1".into()],
        ..Filter::default()
    };
    assert_eq!(mib(Measure::Allocated, &thread), 6.0);
    assert_eq!(mib(Measure::Peak, &thread), 6.0);

    let mut blocks = data.clone();
    blocks.keep_measure(Measure::Blocks, &all, false).unwrap();
    assert_eq!(blocks.unit, WeightUnit::Counts);
    let mut none = Data::from(&Stream::with_app().finish());
    assert_eq!(none.keep_measure(Measure::Peak, &all, false), Err(NoMeasure::NoHeap));
}

#[test]
fn dhat_s_format_has_the_measures_of_each_call_path() {
    let mut data = Data::from(&app().finish());
    data.duration_ms = Some(100.0);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    dhat::write(&data, &mut file).unwrap();
    let text = std::fs::read_to_string(file.path()).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(read::kind(file.path()), Some(ForeignFormat::Dhat));
    for (measure, sum) in [
        (Measure::Allocated, "total-bytes"),
        (Measure::Peak, "at-gmax-bytes"),
        (Measure::Retained, "at-end-bytes"),
        (Measure::Blocks, "total-blocks"),
    ] {
        let found = read::foreign(file.path(), ForeignFormat::Dhat, Some(sum), ReadLimits::default());
        let by_function = |data: &Data| {
            let selection = select(data, &Filter::default()).unwrap();
            let functions = functions(&selection).into_iter().filter(|row| row.total.weight > 0.0);
            // An address without a name has its library's.
            let name = |func: u32| data.func_name(func).trim_start_matches("app+").to_owned();
            let rows = functions.map(|row| (name(row.func), row.total.weight.round()));
            let mut rows: Vec<_> = rows.collect();
            rows.sort_by(|a, b| a.0.cmp(&b.0));
            rows
        };
        let mut measured = data.clone();
        measured.keep_measure(measure, &Filter::default(), false).unwrap();
        assert_eq!(by_function(&found.unwrap().data), by_function(&measured), "{sum}");
    }
    assert_eq!((&json["te"], &json["tg"]), (&json!(100_000), &json!(30_000)));
    // 3, 1 and 2 MiB live at the end of 100 ms, for 90, 30 and 5 ms.
    let kept = json["pps"]
        .as_array()
        .unwrap()
        .iter()
        .max_by_key(|point| point["eb"].as_u64());
    let kept = kept.unwrap();
    assert_eq!(
        (&kept["mb"], &kept["gb"], &kept["tl"]),
        (&json!(6 * MIB), &json!(3 * MIB), &json!(125_000))
    );
    assert_eq!(json["ftbl"][0], "[root]");
}

#[test]
fn the_table_names_the_code_that_wanted_the_memory_and_leaks_are_older_than_the_last_tenth() {
    let data = Data::from(&app().finish());
    let mut data = data;
    data.duration_ms = Some(100.0);
    let selection = select(&data, &Filter::default()).unwrap();
    let heap = heap_sites(&selection);
    assert_eq!(heap.peak_ms, Some(30.0));
    let mib = |estimate: profile::view::heap::HeapEstimate| estimate.sum / MIB as f64;
    assert_eq!(mib(heap.total.allocated), 18.0);
    assert_eq!((mib(heap.total.retained), mib(heap.total.leaked)), (6.0, 4.0));
    assert_eq!(mib(heap.total.at_peak), 15.0);
    let allocated: Vec<f64> = heap.sites.iter().map(|site| mib(site.sums.allocated)).collect();
    assert_eq!(allocated, [7.0, 6.0, 5.0]);
    let lives: Vec<f64> = heap.sites.iter().map(|site| site.median_life_ms).collect();
    assert_eq!(lives, [0.5, f64::INFINITY, 40.5]);
}

#[test]
fn the_library_that_records_the_heap_wants_no_memory() {
    let mut stream = Stream::with_app();
    let library = "/var/cache/sprof/sprof-heap-0123456789abcdef.so";
    stream.map(1, image(library, 0x20_0000, 0x1000), 0);
    let stack = [ip(0x20_0100), ret(0x20_0200), ret(0x1100), ret(0x1020)];
    stream.take(1, 1, 10, 0xa000, 3 * MIB, &stack);
    let data = Data::from(&stream.finish());
    let selection = select(&data, &Filter::default()).unwrap();
    let heap = heap_sites(&selection);
    let sites: Vec<_> = heap.sites.iter().map(|site| data.lib_name(site.func)).collect();
    assert_eq!(sites, [Some("app")]);
}

/// 0x1100 leaks evenly, 0x1200 fills at the start, 0x1300 frees all, 0x1400 always has some blocks of a page, and
/// others each time.
#[test]
fn a_leak_that_grows_differs_from_what_is_filled_at_the_start_or_freed() {
    let mut stream = Stream::with_app();
    for step in 0..100 {
        let (ms, address) = (step * 10, 0x1000_0000 + step * 0x1000_0000);
        stream.take(1, 1, ms, address, MIB, &[ip(0x1100), ret(0x1020)]);
        if step < 8 {
            stream.take(1, 1, ms, address + 1, 9 * MIB, &[ip(0x1200), ret(0x1020)]);
        }
        if step < 60 {
            stream.take(1, 1, ms, address + 2, MIB, &[ip(0x1300), ret(0x1020)]);
        } else if step < 80 {
            for freed in 0..3 {
                stream.free(1, 1, ms, 0x1000_0000 + ((step - 60) * 3 + freed) * 0x1000_0000 + 2);
            }
        }
        stream.take(1, 1, ms, address + 3, 4096, &[ip(0x1400), ret(0x1020)]);
        if step >= 8 {
            stream.free(1, 1, ms, address + 3 - 8 * 0x1000_0000);
        }
    }
    let mut data = Data::from(&stream.finish());
    data.duration_ms = Some(1000.0);
    let selection = select(&data, &Filter::default()).unwrap();
    let heap = heap_sites(&selection);
    assert_eq!(heap.moments_ms, Some([100.0, 300.0, 500.0, 700.0, 900.0]));
    assert_eq!(heap.growth_ms(), Some([500.0, 900.0]));
    let live = |sums: &SiteSums| sums.live.map(|live| (live.sum / MIB as f64).round());
    let mut sites: Vec<_> = heap.sites.iter().collect();
    sites.sort_by_key(|site| site.func);
    let found: Vec<_> = sites
        .iter()
        .map(|site| (live(&site.sums), site.sums.is_growing()))
        .collect();
    assert_eq!(
        found,
        [
            ([11.0, 31.0, 51.0, 71.0, 91.0], true),
            ([72.0; 5], false),
            ([11.0, 31.0, 51.0, 30.0, 0.0], false),
            // Eight or nine, each for 16.
            ([1.0; 5], false),
        ]
    );
    let growth = sites[0].sums.growth;
    assert_eq!((growth.samples, (growth.sum / MIB as f64).round()), (40, 40.0));
    let steady = sites[3].sums.growth;
    assert!(
        steady.sum.abs() <= 2.0 * INTERVAL as f64 && steady.error() > 3.0 * INTERVAL as f64,
        "{steady:?}"
    );

    // What is taken in a part of the time: the first moment is 10 % of it.
    let part = Filter {
        from_ms: Some(500.0),
        to_ms: Some(600.0),
        ..Filter::default()
    };
    let selection = select(&data, &part).unwrap();
    let heap = heap_sites(&selection);
    assert_eq!(heap.growth_ms(), Some([550.0, 590.0]));
    let growing: Vec<_> = heap
        .sites
        .iter()
        .filter(|site| site.sums.is_growing())
        .map(|site| live(&site.sums))
        .collect();
    assert_eq!(growing, [[2.0, 4.0, 6.0, 8.0, 10.0]; 2]);
}

#[test]
fn small_blocks_stand_for_many_and_have_an_error() {
    let mut stream = Stream::with_app();
    for at in 0..100 {
        stream.take(1, 1, at, 0x10_0000 + at * 64, 64, &[ip(0x1100)]);
    }
    let data = Data::from(&stream.finish());
    let selection = select(&data, &Filter::default()).unwrap();
    let total = heap_sites(&selection).total;
    // Each stands for about an interval of bytes; 100 samples have an error of 10 %.
    assert!((total.allocated.sum / (100 * INTERVAL) as f64 - 1.0).abs() < 0.001);
    assert!((total.allocated.error() / total.allocated.sum - 0.1).abs() < 0.001);
    assert!((total.blocks.sum / (100 * INTERVAL / 64) as f64 - 1.0).abs() < 0.001);
}

/// A block of 8 KiB stands for 8.5.
#[test]
fn exported_numbers_of_blocks_are_whole_and_their_sum_is_right() {
    let mut stream = Stream::with_app();
    for at in 0..100 {
        stream.take(1, 1, at, 0x10_0000 + at * 8192, 8192, &[ip(0x1100)]);
    }
    let mut data = Data::from(&stream.finish());
    data.keep_measure(Measure::Blocks, &Filter::default(), false).unwrap();
    let expected = 100.0 / (1.0 - (-8192.0 / INTERVAL as f64).exp());
    let exported = Picked::new(&data, PickedTime::Cpu).totals().weight as f64;
    assert!((exported - expected).abs() < 1.0, "{exported}, not {expected}");
}

#[test]
fn blocks_of_an_ended_process_are_retained_and_not_at_a_later_peak() {
    let mut stream = Stream::with_app();
    stream.process(7, Some(1), 10);
    stream.exec(7, "tool", 11);
    stream.take(7, 7, 20, 0xa000, 4 * MIB, &[ip(0x1100)]);
    stream.end(7, 30);
    stream.take(1, 1, 50, 0xa000, 5 * MIB, &[ip(0x1200)]);
    stream.free(1, 1, 60, 0xa000);
    let profile = stream.finish();
    written(&profile);
    let data = Data::from(&profile);
    let mib = |measure| measured(&data, measure, &Filter::default()) / MIB as f64;
    assert_eq!(mib(Measure::Retained), 4.0);
    assert_eq!(mib(Measure::Peak), 5.0);
}

#[test]
fn a_program_that_is_executed_has_a_heap_of_its_own_and_a_child_frees_only_its_copy() {
    let mut stream = Stream::with_app();
    stream.take(1, 1, 10, 0xa000, 4 * MIB, &[ip(0x1100)]);
    stream.process(7, Some(1), 20);
    // A copy of the parent's block.
    stream.free(7, 7, 21, 0xa000);
    stream.exec(1, "next", 30);
    // The block of the program before is gone: this one nobody took.
    stream.free(1, 1, 40, 0xa000);
    stream.take(1, 1, 41, 0xa000, MIB, &[ip(0x1100)]);
    stream.take(1, 1, 42, 0xa000, 2 * MIB, &[ip(0x1100)]);
    let profile = stream.finish();
    let counts = profile.counts();
    assert_eq!(
        (
            counts.blocks,
            counts.inherited_blocks_freed,
            counts.unknown_blocks_freed,
            counts.blocks_on_others
        ),
        (3, 1, 1, 1)
    );
    let data = Data::from(&profile);
    let retained = measured(&data, Measure::Retained, &Filter::default());
    assert_eq!(retained / MIB as f64, 6.0);
}

#[test]
fn blocks_wait_in_the_queue_with_the_samples_of_their_thread() {
    let options = BuildOptions {
        main_thread_only: true,
        ..BuildOptions::default()
    };
    let mut stream = Stream::with_app_and(options);
    for ms in 0..2000 {
        let frames = [ip(0x1000 + ms % 7), ret(0x1020 + ms % 3), ret(0x1030)];
        stream.sample(1, 1, ms, &frames);
        stream.take(
            1,
            1,
            ms,
            0x10_0000 + ms * 16,
            2 * MIB,
            &[ip(0x1100 + ms % 5), ret(0x1030)],
        );
        stream.take(1, 9, ms, 0x90_0000, 2 * MIB, &[ip(0x1400)]);
    }
    let data = Data::from(&stream.finish());
    assert_eq!(data.threads.len(), 1);
    let leaf = |stack: u32| {
        let frame = data.frames[data.stacks[stack as usize].frame as usize];
        frame.address
    };
    let table = data.threads[0].allocations.as_ref().unwrap();
    let samples = &data.threads[0].samples;
    assert_eq!((table.stack.len(), samples.len()), (2000, 2000));
    for ms in 0..2000 {
        assert_eq!(leaf(table.stack[ms]), Some(0x100 + ms as u64 % 5));
        assert_eq!(leaf(samples.stack[ms]), Some(ms as u64 % 7));
    }
}

#[test]
fn a_part_of_a_profile_has_the_blocks_of_that_part() {
    let json = written(&app().finish());
    let trimmed = |filter: Filter| {
        let mut data = read_all(&json);
        let part = profile::trim::ProfilePart { filter, min_samples: 0 };
        profile::trim::trim(&mut data, &part).unwrap();
        let mut bytes = Vec::new();
        profile::export::firefox::write_data(&data, &mut bytes).unwrap();
        let again = read_all(&serde_json::from_slice(&bytes).unwrap());
        let table = |data: &SavedData| {
            data.threads
                .iter()
                .map(|thread| thread.allocations.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(table(&data), table(&again));
        data
    };
    let weights = |data: &SavedData| {
        let tables = data.threads.iter().filter_map(|thread| thread.allocations.as_ref());
        let weights = tables.flat_map(|table| &table.weight);
        weights.map(|weight| weight / MIB as f64).collect::<Vec<_>>()
    };
    let range = Filter {
        from_ms: Some(15.0),
        to_ms: Some(50.0),
        ..Filter::default()
    };
    assert_eq!(weights(&trimmed(range)), [5.0, 7.0, -7.0]);
    let thread = Filter {
        threads: vec!["2".into()],
        ..Filter::default()
    };
    assert_eq!(weights(&trimmed(thread)), [5.0, 7.0, -7.0, -5.0]);
}

#[test]
fn what_a_browser_sampled_without_addresses_is_only_allocated() {
    let mut json = written(&app().finish());
    let table = &mut json["threads"][0]["nativeAllocations"];
    for own in ["memoryAddress", "threadId", "size"] {
        table.as_object_mut().unwrap().remove(own);
    }
    table["argument"] = json!([1, null, 3, 4, 5, 6, 7]);
    let data = read_all(&json);
    assert_same_when_read_again(data.clone());
    let allocated = measured(&data, Measure::Allocated, &Filter::default());
    assert_eq!(allocated / MIB as f64, 18.0);
    for measure in [Measure::Retained, Measure::Peak, Measure::Temporary, Measure::Blocks] {
        let error = data.clone().keep_measure(measure, &Filter::default(), false);
        assert!(matches!(error, Err(NoMeasure::Lacks(_))), "{measure:?}");
    }
    let selection = select(&data, &Filter::default()).unwrap();
    let heap = heap_sites(&selection);
    assert_eq!(
        (heap.total.retained.samples, heap.peak_ms, heap.moments_ms),
        (0, None, None)
    );
    assert!(heap.sites.iter().all(|site| site.median_life_ms.is_nan()));
    json["threads"][0]["nativeAllocations"]["stack"][1] = json!(99);
    let fault = crate::common::as_v55(&json).unwrap_err().to_string();
    assert!(
        fault.contains("threads[0].nativeAllocations.stack[1] is 99, but there are"),
        "{fault}"
    );
}

#[test]
fn what_was_seen_of_the_growth_in_memory_is_a_sum_over_processes() {
    let mut stream = app();
    // The blocks that lived at once, and less than the process has in the end.
    stream.memory(1, 5, MIB);
    stream.memory(1, 40, 20 * MIB);
    stream.memory(1, 50, 18 * MIB);
    // A fork: what it has from its parent is no growth. What it takes and does not touch is not seen.
    stream.process(2, Some(1), 50);
    stream.memory(2, 51, 18 * MIB);
    stream.take(2, 2, 52, 0xe000, 50 * MIB, &[ip(0x1100)]);
    stream.memory(2, 53, 20 * MIB);
    // An interpreter: its memory before the exec is not its own.
    stream.process(3, Some(1), 50);
    stream.memory(3, 51, 500 * MIB);
    stream.exec(3, "python3", 52);
    stream.map(3, image("/usr/bin/python3.11", 0x10_0000, 0x1000), 52);
    stream.take(3, 3, 53, 0xe000, 4 * MIB, &[ip(0x10_0010)]);
    stream.memory(3, 54, 130 * MIB);
    // Not read, and read too early.
    stream.process(4, Some(3), 60);
    stream.process(5, Some(1), 60);
    stream.memory(5, 61, 18 * MIB);
    stream.take(5, 5, 62, 0xf000, 50 * MIB, &[ip(0x1100)]);

    let info = recording::info::RecordingInfo {
        heap: Some(HeapCoverage::default()),
        ..info()
    };
    let profile = stream.0.finish(info, Quality::default());
    let coverage = profile.info().heap.as_ref().unwrap();
    let growth = HeapGrowth {
        seen: (15 + 2 + 4) * MIB,
        grown: (20 + 2 + 130) * MIB,
        processes: 3,
        unmeasured: 2,
    };
    assert_eq!(coverage.growth, Some(growth));
    let unseen: Vec<_> = { coverage.unseen.iter() }
        .map(|program| (program.pid.0, program.name.as_str(), &program.cause))
        .collect();
    let python = UnseenCause::OtherMemory(Some(MemoryOwner::Python));
    assert_eq!(unseen, [(3, "python3", &python)]);
    let facts = Data::from(&profile).recorded.unwrap().heap.unwrap().growth.unwrap();
    assert_eq!(
        facts.text().unwrap(),
        "heap seen: 22.0 MB of the 159.4 MB that memory grew by (3 processes, each at its peak); 2 processes ended before that was read"
    );
}
