//! What the front end shows of a profile before anybody clicks: which tracks, in which order, how high.

use crate::common::*;
use recording::counter::Counter;
use recording::event::{Event, Pid, ProcessEvent, Role, Sample, Thread};
use recording::info::{EventInfo, PeriodUnit, SampleBy};
use recording::quality::Quality;
use recording::stack::Stack;

#[test]
fn a_new_name_makes_no_track_higher() {
    let mut stream = Stream::with_app();
    stream.thread(1, 2, 1);
    stream.rename(1, 2, "worker", 1);
    stream.rename(1, 2, "other", 2);
    stream.sample(1, 2, 3, &[ip(0x1020)]);
    stream.process(3, Some(1), 4);
    let json = written(&stream.finish());
    assert_eq!(markers(thread(&json, "2")).len(), 2);
    assert_eq!(thread(&json, "2")["showMarkersInTimeline"], false);
    // Its child.
    assert_eq!(thread(&json, "1")["showMarkersInTimeline"], true);
    let schemas = json["meta"]["markerSchema"].as_array().unwrap();
    let renamed = schemas.iter().find(|schema| schema["name"] == "Renamed").unwrap();
    assert_eq!(renamed["display"], serde_json::json!(["marker-chart", "marker-table"]));
}

#[test]
fn processes_are_in_the_order_of_their_starts() {
    let mut stream = Stream::with_app();
    // Found late, but started first.
    stream.process(9, None, 20);
    stream.sample(9, 9, 21, &[ip(0x1020)]);
    stream.process(5, None, 10);
    stream.sample(5, 5, 21, &[ip(0x1020)]);
    let json = written(&stream.finish());
    let pids: Vec<&str> = (json["threads"].as_array().unwrap().iter())
        .map(|thread| thread["pid"].as_str().unwrap())
        .collect();
    assert_eq!(pids, ["1", "5", "9"]);
}

#[test]
fn an_upload_is_careful_by_default() {
    let json = written(&Stream::with_app().finish());
    assert_eq!(json["meta"]["updateChannel"], "release");
}

#[test]
fn an_event_beside_cpu_time_is_a_line_that_leads_to_its_call_tree() {
    let mut stream = Stream::with_app();
    stream.sample(1, 1, 1, &[ip(0x1020)]);
    stream.sample(1, 1, 900, &[ip(0x1020)]);
    for (ms, period) in [(2, 16), (2, 16), (500, 7), (1000, 1)] {
        let stack = [ip(0x1030)];
        let sample = Sample::new(Role::Counted, period, Stack::Frames(&stack));
        stream.event(Event::sample(at(ms), Thread::new(1, 1), sample));
    }
    let mut info = info();
    info.events = vec![EventInfo {
        asked: String::new(),
        name: "page-faults".into(),
        role: Role::Counted,
        unit: PeriodUnit::Counts,
        sample_by: SampleBy::Period(16),
        without_kernel: None,
        fields: Vec::new(),
        counts: None,
    }];
    let json = written(&stream.0.finish(info, Quality::default()));
    let [counter] = &json["counters"].as_array().unwrap()[..] else {
        panic!("{}", json["counters"]);
    };
    assert_eq!(
        (&counter["name"], &counter["pid"]),
        (&"page-faults".into(), &"1".into())
    );
    assert_eq!(counter["display"]["graphType"], "line-rate");
    assert_eq!(counter["display"]["unit"], "page-faults");
    assert_eq!(counter["display"]["label"], "page-faults");
    let track = counter["mainThreadIndex"].as_u64().unwrap() as usize;
    assert_eq!(json["threads"][track]["event"], "page-faults");
    // A block of full height for each sample says nothing: the track itself is one click away.
    assert_eq!(json["meta"]["initialVisibleThreads"], serde_json::json!([0]));

    let points: Vec<(f64, u64)> = (counter["samples"]["time"].as_array().unwrap().iter())
        .zip(counter["samples"]["count"].as_array().unwrap())
        .map(|(time, count)| (time.as_f64().unwrap(), count.as_u64().unwrap()))
        .collect();
    // The front end sets the first count to 0.
    assert_eq!(points[0], (0.0, 0));
    assert!(
        points.windows(2).all(|pair| pair[1].0 - pair[0].0 == 1.0),
        "in steps of 1 ms"
    );
    let counted: Vec<(f64, u64)> = points.into_iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(counted, [(3.0, 32), (501.0, 7), (1001.0, 1)]);
}

/// Without CPU times, the front end draws each sample as high as the track, up to the next: a process that only waits
/// would be busy all the time.
#[test]
fn samples_of_an_event_have_the_cpu_time_that_the_kernel_reported_of_the_process_or_none() {
    let reading = |pid: i32, ms: u64, cpu_ms: u64| {
        let counter = ProcessEvent::Counter(Counter::CpuNanoseconds, cpu_ms * MS);
        Event::process(at(ms), Pid(pid), counter)
    };
    let deltas = |threads: &[i32]| -> Vec<u64> {
        let mut stream = Stream::with_app();
        for &tid in threads {
            stream.thread(1, tid, 1);
        }
        for (ms, cpu_ms) in [(100, 20), (300, 220)] {
            stream.event(reading(1, ms, cpu_ms));
        }
        for ms in [50, 100, 200, 300, 900] {
            stream.period(1, 1, ms, 16, Stack::Frames(&[ip(0x1020)]));
        }
        let mut info = info();
        (info.event, info.unit) = ("page-faults".into(), PeriodUnit::Counts);
        let json = written(&stream.0.finish(info, Quality::default()));
        assert_eq!(json["meta"]["sampleUnits"]["threadCPUDelta"], "ns");
        let deltas = thread(&json, "1")["samples"]["threadCPUDelta"]
            .as_array()
            .unwrap()
            .clone();
        deltas.iter().map(|delta| delta.as_u64().unwrap() / MS).collect()
    };
    assert_eq!(deltas(&[]), [0, 0, 100, 100, 0]);
    // Which thread used it is not known.
    assert_eq!(deltas(&[2]), [0; 5]);
}

#[test]
fn an_event_in_the_place_of_cpu_time_is_a_line_too() {
    let mut stream = Stream::with_app();
    stream.thread(1, 2, 1);
    stream.rename(1, 2, "worker", 1);
    for tid in [1, 2] {
        stream.period(1, tid, 5, 16, Stack::Frames(&[ip(0x1020)]));
    }
    let mut info = info();
    (info.event, info.unit) = ("page-faults".into(), PeriodUnit::Counts);
    let json = written(&stream.0.finish(info, Quality::default()));
    let labels: Vec<&str> = (json["counters"].as_array().unwrap().iter())
        .map(|counter| counter["display"]["label"].as_str().unwrap())
        .collect();
    assert_eq!(labels, ["page-faults", "worker · page-faults"]);
    // The front end calls these samples; the names of the threads say what they are, and are those of the threads in
    // views.
    assert_eq!(thread(&json, "2")["name"], "worker (page-faults)");
    let names: Vec<String> = (read_all(&json).threads.iter())
        .map(|thread| thread.name.clone())
        .collect();
    assert_eq!(names, ["app", "worker"]);
    assert!(written(&Stream::with_app().finish()).get("counters").is_none());
}
