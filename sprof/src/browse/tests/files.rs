//! Files of many kinds: recordings of a program that never ran, what other profilers write of the same, and files that
//! these wrote.

#[path = "../../../../perf-data/tests/suite/common/mod.rs"]
mod perf_file;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use names::symbol::{AddressInfo, FunctionSymbol, SourceFrame};
use profile::Profile;
use profile::builder::{BuildOptions, Builder};
use profile::data::Data;
use profile::enrich::enrich;
use profile::export::{Picked, PickedTime, dhat, firefox, pprof};
use profile::view::heap::Measure;
use recording::address::Avma;
use recording::clock::{ClockReference, Timestamp};
use recording::counter::{Counter, DeviceName};
use recording::event::{Allocation, Event, Pid, ProcessEvent, RecordingEvent, Role, Sample, Thread, ThreadEvent};
use recording::info::{Host, PeriodUnit, RecordingInfo};
use recording::module::{FileRole, Image, Module, ModuleKind};
use recording::quality::Quality;
use recording::sink::EventSink as _;
use recording::span::Span;
use recording::stack::{Frame, Stack};

use super::golden;

const MS: u64 = 1_000_000;
/// Where the code of the program is: a function each 256 bytes.
const CODE: u64 = 0x1000;
const FUNCTIONS: [&str; 6] = ["main", "parse", "read_line", "write", "hash", "grow"];

/// What cachegrind writes.
const CACHEGRIND: &str = "desc: I1 cache: none\ncmd: ./app\nevents: Ir\nfl=/src/app.c\nfn=main\n3 20\nfn=parse\n7 300\n\
                          9 80\nsummary: 400\n";

/// What massif writes.
const MASSIF: &str = "desc: (none)\ncmd: ./app\ntime_unit: i\n#-----------\nsnapshot=0\n#-----------\ntime=100\n\
                      mem_heap_B=1000\nmem_heap_extra_B=24\nmem_stacks_B=0\nheap_tree=peak\n\
                      n2: 1000 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.\n \
                      n1: 690 0x1091E5: grow (app.c:37)\n  n0: 690 0x109247: main (app.c:8)\n \
                      n0: 310 0x109178: keep (app.c:4)\n";

/// A file of this name: one of the goldens of the reader's tests, or one that is made in the folder.
pub(super) fn file(name: &str, folder: &Path) -> PathBuf {
    let path = folder.join(name);
    let mut out = Vec::new();
    let heap = || Data::from(&recorded(Role::Allocation));
    match name {
        "cpu.json.gz" => firefox::write_gz(&recorded(Role::Running), &mut out).unwrap(),
        "waits.json.gz" => firefox::write_gz(&recorded(Role::Wait), &mut out).unwrap(),
        "heap.json.gz" => firefox::write_gz(&recorded(Role::Allocation), &mut out).unwrap(),
        "app.pb.gz" => {
            let data = Data::from(&recorded(Role::Running));
            pprof::write(&Picked::new(&data, PickedTime::Cpu), &mut out).unwrap();
        }
        "heap.pb.gz" => pprof::write_heap(&heap(), Measure::Retained, &mut out).unwrap(),
        "app.dhat.json" => dhat::write(&heap(), &mut out).unwrap(),
        "perf.data" => out = perf_data(),
        "cachegrind.out" => out.extend(CACHEGRIND.bytes()),
        "massif.out" => out.extend(MASSIF.bytes()),
        _ => return golden(name),
    }
    std::fs::write(&path, out).unwrap();
    path
}

/// A file of `perf record`: two samples of a process.
fn perf_data() -> Vec<u8> {
    let samples = [3, 4].map(|ms| perf_file::sample(ms * MS, 1));
    perf_file::normal_file(&[perf_file::comm(MS, b"app\0\0\0\0\0"), samples.concat()])
}

fn at(ms: u64) -> Timestamp {
    Timestamp((1000 + ms) * MS)
}

/// 241 ms of a process of two threads and its child, with spans and counters. The role says what else is recorded:
/// with [`Role::Wait`] what the main thread waits for, with [`Role::Allocation`] blocks of memory.
fn recorded(role: Role) -> Profile {
    let clock = ClockReference {
        timestamp: at(0),
        wall: UNIX_EPOCH + Duration::from_secs(1_790_000_000),
    };
    let mut builder = Builder::new(clock, BuildOptions::default());
    let mut send = |event: Event<'_>| builder.on_event(&event);
    let module = Module {
        kind: ModuleKind::File,
        path: "/opt/app".into(),
        readable_path: None,
        build_id: None,
        arch: Some("x86_64"),
    };
    let image = Image {
        start: Avma(CODE),
        end: Avma(CODE + 0x1000),
        base: Avma(CODE),
        module: Arc::new(module),
        role: FileRole::default(),
    };
    for (pid, name) in [(1, "app"), (7, "child")] {
        let parent = (pid != 1).then_some(Pid(1));
        send(Event::process(at(0), Pid(pid), ProcessEvent::Start { parent }));
        send(Event::thread(at(0), Thread::new(pid, pid), ThreadEvent::Start));
        send(Event::process(at(0), Pid(pid), ProcessEvent::Exec(name)));
        send(Event::process(at(0), Pid(pid), ProcessEvent::Image(&image)));
    }
    let [main, worker, child] = [(1, 1), (1, 2), (7, 7)].map(|(pid, tid)| Thread::new(pid, tid));
    send(Event::thread(at(0), worker, ThreadEvent::Start));
    send(Event::thread(at(0), worker, ThreadEvent::Name("worker")));
    let return_to = |function: u64| Frame::ReturnAddress(Avma(CODE + 0x100 * function + 0x21));
    for ms in 1..240 {
        // Leaf first.
        let leaf = Frame::InstructionPointer(Avma(CODE + 0x100 * (1 + ms % 7 % 4) + 0x10 * (ms % 2)));
        let frames = [leaf, return_to(ms % 3), return_to(0)];
        let stack = Stack::Frames(&frames[..if ms % 5 == 0 { 1 } else { 3 }]);
        let thread = [main, worker, child, main][ms as usize % 4];
        let is_waiting = role == Role::Wait && thread == main && ms % 20 >= 10;
        if !is_waiting {
            send(Event::sample(at(ms), thread, Sample::new(Role::Running, MS, stack)));
        }
        match ms % 20 {
            10 if role == Role::Wait => {
                send(Event::sample(at(ms), main, Sample::new(Role::WaitStack, MS, stack)));
                send(Event::thread(at(ms), main, ThreadEvent::SwitchOut { preempted: false }));
            }
            19 if role == Role::Wait => send(Event::thread(at(ms), main, ThreadEvent::SwitchIn)),
            5 | 15 if role == Role::Allocation => {
                let allocation = Allocation {
                    address: 0x10_0000 * ms,
                    size: 1000 * ms,
                    interval: 64 << 10,
                };
                let sample = Sample {
                    allocation: Some(&allocation),
                    ..Sample::new(Role::Allocation, allocation.size, stack)
                };
                send(Event::sample(at(ms), main, sample));
            }
            18 if role == Role::Allocation => {
                let address = 0x10_0000 * (ms - 13);
                send(Event::thread(at(ms), main, ThreadEvent::Freed { address }));
            }
            _ => {}
        }
        if ms % 30 == 0 {
            let name = if ms % 60 == 0 { "request" } else { "flush" };
            let span = Span::new(name, Some(at(ms - ms / 10)));
            send(Event::thread(at(ms), worker, ThreadEvent::Span(span)));
            for (counter, value) in [
                (Counter::CpuNanoseconds, ms * MS / 2),
                (Counter::ResidentBytes, ms << 16),
            ] {
                send(Event::process(at(ms), Pid(1), ProcessEvent::Counter(counter, value)));
            }
            let machine = RecordingEvent::Counter(Counter::MachineCpu, DeviceName::new(""), ms * MS);
            send(Event::recording(at(ms), machine));
        }
    }
    let info = RecordingInfo {
        program: "app".into(),
        args: None,
        clock,
        end: at(241),
        run_starts: Vec::new(),
        whole_runs: None,
        interval_ns: MS,
        event: "cpu-clock".into(),
        unit: PeriodUnit::CpuNanoseconds,
        events: Vec::new(),
        kernel_included: true,
        notes: Vec::new(),
        heap: None,
        host: Host {
            logical_cpus: Some(2),
            ..Host::default()
        },
    };
    let mut profile = builder.finish(info, Quality::default());
    enrich(&mut profile, |_, addresses| {
        Some(addresses.iter().copied().map(named).collect())
    });
    profile
}

/// The function at an address of the program, with a line each 16 bytes.
fn named(address: u64) -> AddressInfo {
    let name = FUNCTIONS[(address >> 8) as usize % FUNCTIONS.len()];
    AddressInfo {
        function: Some(FunctionSymbol {
            is_named: true,
            name: name.to_owned(),
            start: address & !0xff,
            size: Some(0x100),
            v8: None,
            krate: None,
        }),
        frames: vec![SourceFrame {
            function: Some(name.to_owned()),
            file: Some("/src/app/main.c".to_owned()),
            declared_in: None,
            line: Some(10 * (1 + (address >> 8) as u32) + (address as u32 >> 4 & 0xf)),
            column: None,
            krate: None,
        }],
    }
}
