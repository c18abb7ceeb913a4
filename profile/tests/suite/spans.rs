//! Spans: from events to markers of the file.

use profile::RecordingLimit;
use profile::builder::BuildOptions;
use profile::data::{Data, SPAN_SCHEMA, SpanFacts};
use recording::clock::Timestamp;
use recording::event::{Event, Pid, ProcessEvent, Thread, ThreadEvent};
use recording::span::{Span, SpanFieldsBuffer, SpanFlow, SpanValue};
use serde_json::{Value, json};

use crate::common::{MS, Stream, ZERO, at, ip, written};

impl Stream {
    fn span(&mut self, pid: i32, tid: i32, began_ms: Option<u64>, ended_ms: u64, span: Span<'_>) {
        let span = Span {
            began: began_ms.map(at),
            ..span
        };
        let event = Event::thread(at(ended_ms), Thread::new(pid, tid), ThreadEvent::Span(span));
        self.event(event);
    }

    /// A span without fields.
    fn plain(&mut self, pid: i32, tid: i32, began_ms: u64, ended_ms: u64, name: &str) {
        self.span(pid, tid, Some(began_ms), ended_ms, Span::new(name, None));
    }
}

/// (name, start, end, phase, data) of the spans of a thread.
fn spans(json: &Value, thread: usize) -> Vec<(String, Value, Value, Value, Value)> {
    let markers = &json["threads"][thread]["markers"];
    let texts = &json["shared"]["stringArray"];
    let count = markers["length"].as_u64().unwrap() as usize;
    (0..count)
        .filter(|at| markers["data"][at]["type"] == SPAN_SCHEMA)
        .map(|at| {
            let name = markers["name"][at].as_u64().unwrap() as usize;
            (
                texts[name].as_str().unwrap().to_owned(),
                markers["startTime"][at].clone(),
                markers["endTime"][at].clone(),
                markers["phase"][at].clone(),
                markers["data"][at].clone(),
            )
        })
        .collect()
}

fn names(json: &Value, thread: usize) -> Vec<String> {
    spans(json, thread).into_iter().map(|span| span.0).collect()
}

#[test]
fn spans_are_markers_with_their_fields_in_the_order_of_time() {
    let mut stream = Stream::with_app();
    stream.sample(1, 1, 1, &[ip(0x1010)]);
    let mut fields = SpanFieldsBuffer::default();
    for (key, value) in [
        ("len", SpanValue::Unsigned(42)),
        ("share", SpanValue::Float(0.5)),
        ("path", SpanValue::Text("a file")),
        ("type", SpanValue::Bool(true)),
        ("lane", SpanValue::Signed(-1)),
        ("big", SpanValue::Unsigned(u64::MAX)),
    ] {
        assert!(fields.push(key, value));
    }
    let parse = Span {
        fields: fields.fields(),
        lane: Some(3),
        flow: Some(SpanFlow { id: 0x1f, ends: false }),
        ..Span::new("parse", None)
    };
    stream.span(1, 1, Some(20), 30, parse);
    stream.plain(1, 1, 10, 40, "request");
    stream.span(1, 1, None, 25, Span::new("tick", None));
    let json = written(&stream.finish());
    let texts = json["shared"]["stringArray"].as_array().unwrap();
    let flow = texts.iter().position(|text| text == "1:1f").unwrap();
    let data = json!({
        "type": "Span", "len": 42, "share": 0.5, "path": "a file", "type_": "true", "lane_": -1,
        "big": u64::MAX.to_string(), "lane": 3, "flow": flow,
    });
    let plain = json!({"type": "Span"});
    assert_eq!(
        spans(&json, 0),
        [
            ("request".to_owned(), json!(10), json!(40), json!(1), plain.clone()),
            ("parse".to_owned(), json!(20), json!(30), json!(1), data),
            ("tick".to_owned(), json!(25), json!(null), json!(0), plain),
        ]
    );
    let schemas = json["meta"]["markerSchema"].as_array().unwrap();
    let schema = schemas.iter().find(|schema| schema["name"] == "Span").unwrap();
    let formats: Vec<_> = schema["fields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|field| [&field["key"], &field["format"]].map(|text| text.as_str().unwrap()))
        .collect();
    assert_eq!(
        formats[..6],
        [
            ["len", "integer"],
            ["share", "decimal"],
            ["path", "string"],
            ["type_", "string"],
            ["lane_", "integer"],
            ["big", "string"],
        ]
    );
    assert_eq!(json["threads"][0]["showMarkersInTimeline"], true);
}

#[test]
fn spans_are_on_their_thread_whatever_happened_to_it_and_threads_without_samples_have_a_track() {
    let mut stream = Stream::with_app();
    stream.sample(1, 1, 1, &[ip(0x1010)]);
    stream.thread(1, 2, 10);
    stream.rename(1, 2, "worker", 10);
    stream.thread_end(1, 2, 20);
    // The number of the thread is used again.
    stream.thread(1, 2, 30);
    stream.rename(1, 2, "second", 30);
    stream.process(5, Some(1), 40);
    stream.end(5, 50);
    // They come late, and in any order.
    stream.plain(5, 5, 41, 49, "of the child");
    stream.plain(1, 2, 31, 32, "of the second");
    stream.plain(1, 2, 11, 12, "of the worker");
    stream.plain(1, 77, 11, 12, "of nobody");
    stream.plain(6, 7, 11, 12, "of no process");
    let json = written(&stream.finish());
    let threads = json["threads"].as_array().unwrap();
    let of = |name: &str| threads.iter().position(|thread| thread["name"] == name).unwrap();
    assert_eq!(names(&json, 0), ["of nobody"]);
    assert_eq!(names(&json, of("worker")), ["of the worker"]);
    assert_eq!(names(&json, of("second")), ["of the second"]);
    let child = threads.iter().position(|thread| thread["pid"] == "5").unwrap();
    assert_eq!(names(&json, child), ["of the child"]);
    let unknown = threads.iter().position(|thread| thread["pid"] == "6").unwrap();
    assert_eq!(names(&json, unknown), ["of no process"]);
}

#[test]
fn what_lies_outside_the_recording_is_cut_or_left_out_and_does_not_stretch_the_time_line() {
    let mut stream = Stream::with_app();
    stream.sample(1, 1, 1, &[ip(0x1010)]);
    let times = [
        ("before", 1, 2),
        ("into", ZERO - 100 * MS, ZERO + 5 * MS),
        ("out", ZERO + 995 * MS, u64::MAX),
        ("over", 0, ZERO + 2000 * MS),
        ("after", ZERO + 1001 * MS, ZERO + 1002 * MS),
        ("turned around", ZERO + 9 * MS, ZERO + 8 * MS),
    ];
    for (name, began, ended) in times {
        let span = Span::new(name, Some(Timestamp(began)));
        stream.event(Event::thread(
            Timestamp(ended),
            Thread::new(1, 1),
            ThreadEvent::Span(span),
        ));
    }
    let profile = stream.finish();
    assert_eq!((profile.counts().spans, profile.counts().spans_left_out), (5, 1));
    let json = written(&profile);
    let found: Vec<_> = spans(&json, 0)
        .into_iter()
        .map(|(name, start, end, _, data)| (name, start, end, data["cut"].clone()))
        .collect();
    let early = "began before the recording";
    let late = "ended after the recording";
    assert_eq!(
        found,
        [
            (
                "over".to_owned(),
                json!(0),
                json!(1000),
                json!(format!("{early}, {late}"))
            ),
            ("into".to_owned(), json!(0), json!(5), json!(early)),
            ("turned around".to_owned(), json!(8), json!(8), json!(null)),
            ("out".to_owned(), json!(995), json!(1000), json!(late)),
        ]
    );
}

#[test]
fn values_of_a_counter_are_a_line_of_the_process_in_the_order_of_time() {
    let mut stream = Stream::with_app();
    stream.sample(1, 1, 1, &[ip(0x1010)]);
    for (ms, value) in [(30, 4.0), (10, 2.0), (20, -0.5), (40, f64::NAN)] {
        stream.event(Event::process(at(ms), Pid(1), ProcessEvent::Plot("queue", value)));
    }
    for number in 0..150 {
        stream.event(Event::process(
            at(50),
            Pid(1),
            ProcessEvent::Plot(&format!("counter {number}"), 1.0),
        ));
    }
    let profile = stream.finish();
    assert_eq!(profile.counts().plots_left_out, 51);
    let json = written(&profile);
    let counters = json["counters"].as_array().unwrap();
    let of_program = counters.iter().filter(|counter| counter["category"] == "Program");
    assert_eq!(of_program.count(), 100);
    let queue = counters.iter().find(|counter| counter["name"] == "queue").unwrap();
    let samples = &queue["samples"];
    assert_eq!(samples["time"], json!([10, 10, 20, 30]));
    assert_eq!(samples["number"], json!([0, 2, -0.5, 4]));
    assert_eq!(samples["count"], json!([0, 2, -2.5, 4.5]));
    assert_eq!(
        (&queue["pid"], &queue["display"]["label"]),
        (&json!("1"), &json!("queue"))
    );
}

#[test]
fn spans_of_other_than_main_threads_are_left_out_with_their_samples() {
    let mut stream = Stream::with_app_and(BuildOptions {
        main_thread_only: true,
        ..BuildOptions::default()
    });
    stream.sample(1, 1, 1, &[ip(0x1010)]);
    stream.thread(1, 2, 1);
    stream.plain(1, 2, 3, 4, "worker");
    stream.plain(1, 1, 3, 4, "main");
    let json = written(&stream.finish());
    assert_eq!(
        (names(&json, 0), json["threads"].as_array().unwrap().len()),
        (vec!["main".to_owned()], 1)
    );
}

#[test]
fn names_with_too_many_spans_are_counted_as_a_whole_and_the_file_says_so() {
    let mut stream = Stream::with_app();
    stream.sample(1, 1, 1, &[ip(0x1010)]);
    let count = 400_000;
    for at in 0..count {
        let began = ZERO + MS + at * 1000;
        let span = Span::new("often", Some(Timestamp(began)));
        let event = Event::thread(Timestamp(began + 500), Thread::new(1, 1), ThreadEvent::Span(span));
        stream.event(event);
    }
    stream.plain(1, 1, 2, 3, "seldom");
    let profile = stream.finish();
    let left_out = profile.counts().spans_left_out;
    assert!((100_000..400_000).contains(&left_out), "{left_out}");
    let data = Data::from(&profile);
    let facts = data.recorded.as_ref().unwrap();
    let often = SpanFacts {
        name: Some("often".to_owned()),
        count,
        kept: count - left_out,
        intervals: count,
        total_ns: count * 500,
        longest_ns: 500,
    };
    assert_eq!(facts.thinned_spans, [often]);
    let is_limit = |limit: &&RecordingLimit| limit.what == "Spans without a marker, chosen by chance";
    assert_eq!(facts.limits.iter().find(is_limit).unwrap().count, Some(left_out));
    let markers = &data.threads[0].markers;
    assert_eq!(markers.len() as u64, count - left_out + 1);
    let seldom = markers
        .iter()
        .filter(|marker| &*data.texts[marker.name as usize] == "seldom");
    assert_eq!(seldom.count(), 1);
}
