//! Utilization, saturation and errors of counters whose values are known, and what is called short.

use profile::data::Data;
use profile::view::resources::{ResourceRow, resources, shortage};
use profile::view::select::{Filter, select};
use recording::counter::{Counter, DeviceName, UnreadCause};
use recording::event::{Event, Pid, ProcessEvent, RecordingEvent};

use crate::common::*;

/// A recording of a second: values of a process and of the machine at its start, half and end.
fn recorded(of_process: &[(Counter, [u64; 3])], of_machine: &[(Counter, &str, [u64; 3])]) -> Data {
    let mut stream = Stream::with_app();
    stream.sample(1, 1, 1, &[ip(0x1020)]);
    for (number, ms) in [0, 500, 1000].into_iter().enumerate() {
        for (counter, values) in of_process {
            let what = ProcessEvent::Counter(*counter, values[number]);
            stream.event(Event::process(at(ms), Pid(1), what));
        }
        for (counter, device, values) in of_machine {
            let what = RecordingEvent::Counter(*counter, DeviceName::new(device), values[number]);
            stream.event(Event::recording(at(ms), what));
        }
    }
    let unread = RecordingEvent::Unread(Counter::CpuFrequency, UnreadCause::NotThere);
    stream.event(Event::recording(at(0), unread));
    let profile = stream.finish();
    // What is read from the file is the same: `written` compares.
    written(&profile);
    Data::from(&profile)
}

fn shown(data: &Data, filter: &Filter) -> Vec<ResourceRow> {
    resources(&select(data, filter).unwrap())
}

fn short(data: &Data) -> Option<String> {
    shortage(&select(data, &Filter::default()).unwrap()).map(|shortage| shortage.text)
}

fn figure(rows: &[ResourceRow], resource: &str, name: &str) -> Option<f64> {
    let row = rows.iter().find(|row| row.resource == resource)?;
    let mut figures = row.utilization.iter().chain(&row.saturation).chain(&row.errors);
    figures.find(|figure| figure.name == name).map(|figure| figure.value)
}

#[test]
fn figures_are_of_the_selected_time_and_the_shortest_resource_is_first() {
    let data = recorded(
        &[
            (Counter::CpuNanoseconds, [0, 400 * MS, 500 * MS]),
            (Counter::CpuWait, [0, 100 * MS, 500 * MS]),
            (Counter::WrittenBytes, [0, 4096, 8192]),
            (Counter::ResidentBytes, [1 << 20, 3 << 20, 2 << 20]),
        ],
        &[
            (Counter::MachineCpu, "", [7 * MS, 1007 * MS, 1507 * MS]),
            (Counter::RunQueue, "", [0, 4, 4]),
            (Counter::UsedMemory, "", [1 << 30, 1 << 30, 4 << 30]),
            (Counter::DiskBusy, "vda", [0, 0, 100 * MS]),
            (Counter::DiskRequestTime, "vda", [0, 0, 200 * MS]),
            (Counter::DiskRequests, "vda", [0, 0, 50]),
            (Counter::NetDrops, "udp", [0, 5, 5]),
            (Counter::NetPackets, "udp", [0, 95, 95]),
        ],
    );
    let rows = shown(&data, &Filter::default());
    for (resource, name, value) in [
        ("process-cpu", "busy", 0.5),
        ("process-cpu", "waited", 0.5),
        ("process-disks", "written", 8192.0),
        ("process-memory", "memory", f64::from(3 << 20)),
        ("cpus", "busy", 0.75),
        // Nothing said otherwise.
        ("cpus", "stolen", 0.0),
        ("cpus", "pressure", 0.0),
        ("cpus", "run_queue", 3.0),
        ("memory", "used", 0.5),
        ("disk", "busy", 0.1),
        ("disk", "queue", 0.2),
        ("disk", "request_time", 4.0),
        ("network", "dropped", 5.0),
        ("network", "dropped_share", 0.05),
    ] {
        let found = figure(&rows, resource, name).unwrap_or_else(|| panic!("no {name} of {resource}"));
        assert!((found - value).abs() < 1e-9, "{name} of {resource}: {found}");
    }
    assert_eq!(figure(&rows, "cpus", "frequency"), None);
    let worst = rows[0].worst.unwrap();
    assert_eq!(rows[0].resource, "process-cpu");
    assert_eq!((worst.from_ms, worst.to_ms, worst.figure.value), (500.0, 1000.0, 0.8));

    let second = Filter {
        from_ms: Some(500.0),
        ..Filter::default()
    };
    let rows = shown(&data, &second);
    for (name, value) in [("busy", 0.2), ("waited", 0.8)] {
        assert!(
            (figure(&rows, "process-cpu", name).unwrap() - value).abs() < 1e-9,
            "{name}"
        );
    }
    assert!((figure(&rows, "disk", "busy").unwrap() - 0.2).abs() < 1e-9);
}

#[test]
fn memory_is_not_worst_after_the_process_has_ended() {
    let mut stream = Stream::with_app();
    stream.sample(1, 1, 1, &[ip(0x1020)]);
    for (ms, bytes) in [(100, 1 << 20), (400, 2 << 20), (700, 2 << 20)] {
        let what = ProcessEvent::Counter(Counter::ResidentBytes, bytes);
        stream.event(Event::process(at(ms), Pid(1), what));
    }
    stream.sample(1, 1, 4000, &[ip(0x1020)]);
    let data = Data::from(&stream.finish());
    let rows = shown(&data, &Filter::default());
    let memory = rows.iter().find(|row| row.resource == "process-memory").unwrap();
    let worst = memory.worst.unwrap();
    assert_eq!((worst.from_ms, worst.figure.value), (0.0, f64::from(2 << 20)));
    assert!(worst.to_ms <= 1001.0, "{worst:?}");
    let later = Filter {
        from_ms: Some(2000.0),
        ..Filter::default()
    };
    assert_eq!(figure(&shown(&data, &later), "process-memory", "memory"), None);
}

#[test]
fn there_is_a_line_only_where_something_was_short() {
    let waits = |ms: u64| {
        recorded(
            &[
                (Counter::CpuNanoseconds, [0, MS, 1000 * MS]),
                (Counter::CpuWait, [0, 0, ms * MS]),
            ],
            &[],
        )
    };
    assert_eq!(short(&waits(100)), None);
    let expected = "waited for a CPU 20 % of the time that it wanted one";
    assert_eq!(short(&waits(250)).as_deref(), Some(expected));
    // Not 100 %: it ran.
    let expected = "waited for a CPU more than 99 % of the time that it wanted one";
    assert_eq!(short(&waits(999_000)).as_deref(), Some(expected));
    // A tenth of a second in all.
    let little = recorded(
        &[
            (Counter::CpuNanoseconds, [0, MS, 50 * MS]),
            (Counter::CpuWait, [0, 0, 99 * MS]),
        ],
        &[],
    );
    assert_eq!(short(&little), None);

    let disk = |busy_ms: u64, written: u64| {
        recorded(
            &[(Counter::WrittenBytes, [0, 0, written])],
            &[
                (Counter::DiskBusy, "vda", [0, 0, busy_ms * MS]),
                (Counter::DiskRequestTime, "vda", [0, 0, 1400 * MS]),
                (Counter::DiskRequests, "vda", [0, 0, 100]),
            ],
        )
    };
    assert_eq!(short(&disk(790, 4096)), None);
    let expected = "disk vda was busy 97 %, a request took 14.0 ms";
    assert_eq!(short(&disk(970, 4096)).as_deref(), Some(expected));
    // Others used it.
    assert_eq!(short(&disk(970, 0)), None);

    let dropped = |drops: u64| {
        recorded(
            &[],
            &[
                (Counter::NetDrops, "eth0", [0, 0, drops]),
                (Counter::NetPackets, "eth0", [0, 0, 9900]),
            ],
        )
    };
    assert_eq!(short(&dropped(99)), None);
    assert_eq!(
        short(&dropped(101)).as_deref(),
        Some("network: eth0 dropped 101 packets, 1 %")
    );
    let memory = |ms: u64| recorded(&[], &[(Counter::MemoryPressure, "", [0, 0, ms * MS])]);
    assert_eq!(short(&memory(99)), None);
    assert!(
        short(&memory(230))
            .unwrap()
            .contains("something waited for it 23 % of the time")
    );
}
