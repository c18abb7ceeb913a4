//! A recording that went to disk and came back is the same recording, as far as the format can hold it.

use std::fs::File;
use std::io::{self, BufReader};
use std::time::{Duration, SystemTime};

use perf_data::import::{Import, SavedFiles};
use perf_data::spool::{MAX_CHAIN, SpoolSink};
use recording::address::Avma;
use recording::clock::{ClockReference, Timestamp};
use recording::counter::{Counter, DeviceName, UnreadCause};
use recording::event::{
    Allocation, BpfProgram, Event, EventKind, LostCause, Mapping, Pid, ProcessEvent, RecordingEvent, Role, Sample,
};
use recording::event::{Thread, ThreadEvent};
use recording::heap::HeapCoverage;
use recording::info::{Host, PeriodUnit, RecordingInfo};
use recording::module::BuildId;
use recording::quality::Quality;
use recording::sink::{Completion, EventSink, NoMemory};
use recording::span::{Span, SpanFieldsBuffer, SpanFlow, SpanValue};
use recording::stack::{Frame, FurtherRegisters, MissingStack, Registers, Snapshot, Stack, StackMark};
use recording::wait::WaitReason;
use unwind::{UnwindEngine, UnwindOptions, Unwinder};

/// Events as text, which can be compared; of mappings and samples what matters.
#[derive(Default)]
struct Log(Vec<String>);

impl EventSink for Log {
    fn on_event(&mut self, event: &Event<'_>) {
        let lines = &mut self.0;
        match event.kind {
            EventKind::Thread(Thread { pid, tid }, ThreadEvent::Sample(sample)) => {
                let Stack::Frames(frames) = sample.stack else {
                    panic!("not frames")
                };
                let (time, Sample { cpu, period, .. }) = (event.time.0, sample);
                let block = sample.allocation;
                lines.push(format!(
                    "sample {time} {} {} {cpu} {period} {block:?} {frames:?}",
                    pid.0, tid.0
                ));
            }
            _ => lines.push(format!("{event:?}")),
        }
    }

    fn end_round(&mut self, _: Timestamp) -> Completion {
        Completion::default()
    }
}

fn info() -> RecordingInfo {
    RecordingInfo {
        program: "app".into(),
        args: Some(vec!["--fast".into()]),
        clock: ClockReference {
            timestamp: Timestamp(1000),
            wall: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
        },
        end: Timestamp(1000),
        run_starts: Vec::new(),
        whole_runs: None,
        interval_ns: 1_000_000,
        event: "cpu-clock".into(),
        unit: PeriodUnit::CpuNanoseconds,
        events: Vec::new(),
        kernel_included: true,
        notes: Vec::new(),
        heap: Some(HeapCoverage {
            interval: 512 << 10,
            ..HeapCoverage::default()
        }),
        host: Host {
            cpu_name: Some("a CPU".into()),
            logical_cpus: Some(3),
            memory_bytes: Some(1 << 30),
            ..Host::default()
        },
    }
}

fn at(address: u64) -> Avma {
    Avma(address)
}

fn sample<'a>(time: u64, frames: &'a [Frame]) -> Event<'a> {
    with_role(Role::Running, time, frames)
}

fn wait_stack<'a>(time: u64, frames: &'a [Frame]) -> Event<'a> {
    with_role(Role::WaitStack, time, frames)
}

fn with_role<'a>(role: Role, time: u64, frames: &'a [Frame]) -> Event<'a> {
    let sample = Sample {
        cpu: 2,
        ..Sample::new(role, 1_000_000, Stack::Frames(frames))
    };
    Event::sample(Timestamp(time), Thread::new(7, 8), sample)
}

fn no_errors() -> Box<dyn FnOnce(&io::Error) + Send> {
    Box::new(|error| panic!("{error}"))
}

/// Sends the events through a spool in `dir`. Returns what came out behind it, and the file.
fn spool(dir: &tempfile::TempDir, events: &[Event<'_>]) -> (Vec<String>, File) {
    let path = dir.path().join("p.partial");
    let mut sink = SpoolSink::new(Log::default());
    let create = || File::create_new(&path);
    let kernel = Some((0xffff_ffff_8100_0000, Some(BuildId((1..=20).collect()))));
    sink.start(create, Timestamp(1000), &info(), true, kernel, no_errors())
        .unwrap();
    for event in events {
        sink.on_event(event);
    }
    let (log, is_whole) = sink.finish();
    assert!(is_whole);
    (log.0, File::open(&path).unwrap())
}

#[test]
fn events_come_back_as_they_went() {
    let dir = tempfile::tempdir().unwrap();
    let time = Timestamp(2000);
    let pid = Pid(7);
    let user = [
        Frame::InstructionPointer(at(0x1010)),
        Frame::ReturnAddress(at(0x1020)),
        Frame::ReturnAddress(at(0x1030)),
    ];
    let in_kernel = [
        Frame::KernelInstructionPointer(at(0xffff_ffff_8100_0010)),
        Frame::KernelReturnAddress(at(0xffff_ffff_8100_0020)),
        Frame::InstructionPointer(at(0x1010)),
        Frame::ReturnAddress(at(0x1020)),
    ];
    let marked = [
        Frame::InstructionPointer(at(0x1010)),
        Frame::Mark(StackMark::Unverified),
        Frame::ReturnAddress(at(0x1020)),
        Frame::Mark(StackMark::TruncatedNoMemory),
    ];
    let missing = [
        Frame::KernelInstructionPointer(at(0xffff_ffff_8100_0010)),
        Frame::Mark(StackMark::Missing(MissingStack::NoUserSpace)),
    ];
    let known_wait = [
        Frame::Mark(StackMark::Waiting(WaitReason::Lock)),
        Frame::ReturnAddress(at(0x1011)),
        Frame::ReturnAddress(at(0x1020)),
    ];
    let only_mark = [Frame::Mark(StackMark::Missing(MissingStack::Abi32))];
    let map = |build_id: Option<BuildId>| Mapping {
        start: 0x1000,
        len: 0x1000,
        file_offset: 0,
        path: b"/usr/bin/app",
        inode: build_id.is_none().then_some((8, 1, 77)),
        build_id,
    };
    let (with_id, without) = (map(Some(BuildId((1..=20).collect()))), map(None));
    let lost =
        |time, count, role, cause| Event::recording(Timestamp(time), RecordingEvent::Lost { count, role, cause });
    let worker = |time, what| Event::thread(Timestamp(time), Thread::new(7, 8), what);
    let child = |time, what| Event::thread(Timestamp(time), Thread::new(9, 9), what);
    let unwound = RecordingEvent::Unwound {
        completed_live: 3,
        by_frame_pointer: 4,
        by_code: 5,
        by_framehop: 6,
    };
    let program = BpfProgram {
        start: 0xffff_ffff_c002_2064,
        len: 0x1234,
        name: "bpf_prog_6deef7357e7b4530_count",
        is_loaded: true,
    };
    let unloaded = BpfProgram {
        is_loaded: false,
        ..program
    };
    let block = Allocation {
        address: 0x7f00_0000_1230,
        size: 1000,
        interval: 512 << 10,
    };
    let taken = Sample {
        allocation: Some(&block),
        ..Sample::new(Role::Allocation, block.size, Stack::Frames(&user))
    };
    let mut fields = SpanFieldsBuffer::default();
    assert!(fields.push("len", SpanValue::Unsigned(7)));
    let span = Span {
        fields: fields.fields(),
        lane: Some(3),
        flow: Some(SpanFlow { id: 4, ends: true }),
        ..Span::new("parse", Some(Timestamp(2001)))
    };
    let events = [
        Event::process(time, pid, ProcessEvent::Start { parent: None }),
        Event::thread(time, Thread::main(pid), ThreadEvent::Start),
        Event::process(time, pid, ProcessEvent::Exec("app")),
        Event::process(time, pid, ProcessEvent::Map(&with_id)),
        Event::process(time, pid, ProcessEvent::Map(&without)),
        worker(2000, ThreadEvent::Start),
        worker(2000, ThreadEvent::Name("worker")),
        sample(2001, &user),
        Event::bpf(Timestamp(2001), program),
        sample(2002, &in_kernel),
        Event::bpf(Timestamp(2002), unloaded),
        sample(2003, &marked),
        sample(2004, &missing),
        sample(2005, &only_mark),
        lost(2006, 5, Role::Running, LostCause::RingFull),
        lost(2006, 6, Role::Running, LostCause::QueueFull),
        lost(2006, 7, Role::Running, LostCause::SamplesRingFull),
        lost(2006, 8, Role::Running, LostCause::NoPid),
        Event::recording(
            Timestamp(2006),
            RecordingEvent::Malformed("record dropped while recording"),
        ),
        Event::recording(Timestamp(2006), unwound),
        Event::recording(Timestamp(2006), RecordingEvent::Sampling(false)),
        Event::recording(Timestamp(2006), RecordingEvent::Sampling(true)),
        Event::process(
            Timestamp(2006),
            pid,
            ProcessEvent::Counter(Counter::ResidentBytes, 1 << 40),
        ),
        Event::process(Timestamp(2006), pid, ProcessEvent::Counter(Counter::CpuNanoseconds, 77)),
        Event::recording(
            Timestamp(2006),
            RecordingEvent::Counter(Counter::DiskBusy, DeviceName::new("nvme0n1"), u64::MAX),
        ),
        Event::recording(
            Timestamp(2006),
            RecordingEvent::Unread(Counter::IoPressure, UnreadCause::Refused),
        ),
        Event::recording(Timestamp(2007), RecordingEvent::Throttled),
        wait_stack(2007, &in_kernel),
        worker(2007, ThreadEvent::SwitchOut { preempted: false }),
        worker(2008, ThreadEvent::SwitchIn),
        wait_stack(2008, &known_wait),
        worker(2008, ThreadEvent::SwitchOut { preempted: false }),
        worker(2008, ThreadEvent::SwitchIn),
        worker(2008, ThreadEvent::SwitchOut { preempted: true }),
        lost(2008, 6, Role::Switch, LostCause::RingFull),
        worker(2008, ThreadEvent::Sample(taken)),
        worker(2008, ThreadEvent::Freed { address: block.address }),
        lost(2008, 7, Role::Allocation, LostCause::RingFull),
        worker(2008, ThreadEvent::Span(span)),
        worker(2008, ThreadEvent::Span(Span::new("instant", None))),
        Event::process(Timestamp(2008), pid, ProcessEvent::Plot("queue", -0.5)),
        lost(2008, 7, Role::Span, LostCause::NotUnderstood),
        Event::process(Timestamp(2008), Pid(9), ProcessEvent::Start { parent: Some(pid) }),
        child(2008, ThreadEvent::Start),
        child(2009, ThreadEvent::End),
        Event::process(Timestamp(2009), Pid(9), ProcessEvent::End),
        child(
            2010,
            ThreadEvent::Sample(Sample::new(Role::Running, 1_000_000, Stack::Frames(&missing))),
        ),
    ];
    let (passed, file) = spool(&dir, &events);
    let import = Import::open(BufReader::new(file), None, None).unwrap();
    let kernel = import.kernel().unwrap();
    assert_eq!(kernel.text, 0xffff_ffff_8100_0000);
    assert_eq!(kernel.build_id, Some(BuildId((1..=20).collect())));
    let mut log = Log::default();
    let imported = import.run(&mut log).unwrap();
    assert_eq!(log.0, passed);

    let expected = info();
    let info = imported.info;
    assert_eq!((info.program, info.args), (expected.program, expected.args));
    assert_eq!(info.clock.timestamp, expected.clock.timestamp);
    assert_eq!(info.clock.wall, expected.clock.wall);
    assert_eq!(
        (info.interval_ns, info.event, info.unit),
        (1_000_000, expected.event, expected.unit)
    );
    let heap = info.heap.unwrap();
    assert_eq!(
        (heap.interval, heap.blocks, heap.frees, heap.lost),
        (512 << 10, 1, 1, None)
    );
    assert_eq!(info.host.cpu_name, expected.host.cpu_name);
    assert_eq!(info.host.logical_cpus, Some(3));
    assert!(
        imported.notes[0].contains("when it was stopped"),
        "{:?}",
        imported.notes
    );
}

/// A signal handler's caller is no return address: read back it is one, of the instruction after it, which leads to the
/// same function.
#[test]
fn an_interrupted_function_is_looked_up_at_the_same_place() {
    let dir = tempfile::tempdir().unwrap();
    let frames = [
        Frame::InstructionPointer(at(0x1010)),
        Frame::InstructionPointer(at(0x2000)),
    ];
    let (_, file) = spool(&dir, &[sample(2000, &frames)]);
    let mut log = Log::default();
    Import::open(BufReader::new(file), None, None)
        .unwrap()
        .run(&mut log)
        .unwrap();
    let same_place = [Frame::InstructionPointer(at(0x1010)), Frame::ReturnAddress(at(0x2001))];
    assert_eq!(same_place[1].lookup_address(), frames[1].lookup_address());
    assert!(
        log.0.last().unwrap().ends_with(&format!("{same_place:?}")),
        "{:?}",
        log.0
    );
}

#[test]
fn a_stack_too_deep_for_a_record_is_marked() {
    let dir = tempfile::tempdir().unwrap();
    let frames: Vec<Frame> = (0..20_000)
        .map(|depth| Frame::ReturnAddress(at(0x1000 + depth)))
        .collect();
    let (_, file) = spool(&dir, &[sample(2000, &frames)]);
    struct Last(Option<Frame>, usize);
    impl EventSink for Last {
        fn on_event(&mut self, event: &Event<'_>) {
            if let EventKind::Thread(_, ThreadEvent::Sample(sample)) = event.kind
                && let Stack::Frames(frames) = sample.stack
            {
                *self = Last(frames.last().copied(), frames.len());
            }
        }

        fn end_round(&mut self, _: Timestamp) -> Completion {
            Completion::default()
        }
    }
    let mut last = Last(None, 0);
    Import::open(BufReader::new(file), None, None)
        .unwrap()
        .run(&mut last)
        .unwrap();
    assert_eq!(
        (last.0, last.1),
        (Some(Frame::Mark(StackMark::TruncatedDepth)), MAX_CHAIN)
    );
}

/// Stacks of three threads, whose frames are of all kinds and mostly those of the thread's last stack.
#[test]
fn stacks_come_back_whatever_they_share_with_the_last_one() {
    let mut state = 7u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let mut stacks = [const { Vec::new() }; 3];
    let mut samples: Vec<(u64, usize, Role, Vec<Frame>)> = Vec::new();
    for time in 2000..5000 {
        let thread = random(3) as usize;
        let stack: &mut Vec<Frame> = &mut stacks[thread];
        // Rootmost first. In a file all but the leaf are return addresses, and the kernel's are leafwards.
        stack.truncate(random(stack.len() as u64 + 1) as usize);
        for _ in 0..random(9) {
            stack.push(match random(8) {
                0 => Frame::Mark(StackMark::Unverified),
                _ => Frame::ReturnAddress(at(0x1000 + random(1 << 40))),
            });
        }
        let mut frames = Vec::new();
        if random(2) == 0 {
            frames.push(Frame::KernelInstructionPointer(at(0xffff_ffff_8200_0000)));
            frames.extend((0..random(3)).map(|_| Frame::KernelReturnAddress(at(0xffff_ffff_8100_0000 + random(9)))));
        }
        frames.push(Frame::InstructionPointer(at(random(1 << 40))));
        frames.extend(stack.iter().rev());
        let role = if random(5) == 0 { Role::WaitStack } else { Role::Running };
        samples.push((time, thread, role, frames));
    }
    let events: Vec<Event<'_>> = samples
        .iter()
        .map(|(time, thread, role, frames)| {
            let sample = Sample::new(*role, 1_000_000, Stack::Frames(frames));
            Event::sample(Timestamp(*time), Thread::new(7, 7 + *thread as i32), sample)
        })
        .collect();
    let dir = tempfile::tempdir().unwrap();
    let (passed, file) = spool(&dir, &events);
    assert!(file.metadata().unwrap().len() < 150_000, "{:?}", file.metadata());
    let mut log = Log::default();
    (Import::open(BufReader::new(file), None, None).unwrap())
        .run(&mut log)
        .unwrap();
    log.0.retain(|line| line.starts_with("sample"));
    assert_eq!(log.0.len(), passed.len());
    assert!(log.0 == passed);
}

/// Two threads by turns, in code of their own; a record in the middle can't be read.
#[test]
fn a_damaged_record_takes_half_a_second_and_gives_no_sample_to_another_thread() {
    const STEP: u64 = 50_000_000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.partial");
    let mut sink = SpoolSink::new(Log::default());
    sink.start(
        || File::create_new(&path),
        Timestamp(STEP),
        &info(),
        false,
        None,
        no_errors(),
    )
    .unwrap();
    let code = |thread: u64| {
        [
            Frame::InstructionPointer(at(thread << 20)),
            Frame::ReturnAddress(at(0x1010)),
        ]
    };
    for time in 1..=100 {
        // Each is twice on the CPU: the record of the second sample says no thread.
        let thread = 7 + time / 2 % 2;
        let frames = code(thread);
        let sample = Sample::new(Role::Running, 1_000_000, Stack::Frames(&frames));
        let thread = Thread::new(7, thread as i32);
        sink.on_event(&Event::sample(Timestamp(time * STEP), thread, sample));
        sink.end_round(Timestamp(time * STEP));
    }
    let (Log(passed), true) = sink.finish() else {
        panic!("not whole")
    };
    let bytes = std::fs::read(&path).unwrap();
    let places: Vec<usize> = { 0..bytes.len() }
        .filter(|at| bytes[*at..].starts_with(b"SS\0\0"))
        .collect();
    assert_eq!(places.len(), 100);
    let mut malformed = Vec::new();
    for place in [places[41], places[42], places[43], places[44]] {
        let mut damaged = bytes.clone();
        let size = u16::from_ne_bytes([damaged[place + 6], damaged[place + 7]]);
        damaged[place + 8..place + usize::from(size)].fill(0xff);
        let mut log = Log::default();
        let import = Import::open(io::Cursor::new(damaged), None, None).unwrap();
        import.run(&mut log).unwrap();
        let samples: Vec<&String> = log.0.iter().filter(|line| line.starts_with("sample")).collect();
        assert!(samples.iter().all(|sample| passed.contains(sample)), "{samples:?}");
        let lost = passed.len() - samples.len();
        malformed.push(log.0.iter().filter(|line| line.contains("Malformed")).count());
        assert_eq!(malformed.last(), Some(&lost));
    }
    // The samples of half a second, 50 ms each, from the damaged one on.
    assert!(malformed.iter().all(|lost| (1..=11).contains(lost)), "{malformed:?}");
    assert!(malformed.iter().any(|lost| *lost > 1), "{malformed:?}");
}

#[test]
fn a_round_writes_what_is_half_a_second_old() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.partial");
    let mut sink = SpoolSink::new(Log::default());
    let second = 1_000_000_000;
    sink.start(
        || File::create_new(&path),
        Timestamp(0),
        &info(),
        false,
        None,
        no_errors(),
    )
    .unwrap();
    let head = path.metadata().unwrap().len();
    sink.on_event(&sample(second, &[Frame::InstructionPointer(at(0x1010))]));
    // The start of the run, at 0, is older than half a second: it is written with the sample.
    sink.end_round(Timestamp(second));
    let written = || path.metadata().unwrap().len();
    let waits = std::time::Instant::now();
    while written() == head && waits.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let before = written();
    assert!(before > head);
    for time in [2 * second, 2 * second + second / 4] {
        sink.on_event(&sample(time, &[Frame::InstructionPointer(at(0x1010))]));
        sink.end_round(Timestamp(time));
    }
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(written(), before);
    sink.end_round(Timestamp(2 * second + second / 2));
    while written() == before && waits.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(written() > before);
    assert!(sink.finish().1);
}

/// What the unwinder has seen and frames do not show, and when the runs began.
#[test]
fn figures_of_quality_and_starts_of_runs_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.partial");
    let code = Mapping {
        start: 0x1000,
        len: 0x1000,
        file_offset: 0,
        path: b"//anon",
        inode: None,
        build_id: None,
    };
    // A frame record, which leads to the caller's; that one is the last.
    let stack: Vec<u8> = [0u64, 0x8018, 0x1080, 0, 0]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    let snapshot = Snapshot {
        kernel: &[],
        registers: Registers::X86_64 {
            ip: 0x1040,
            sp: 0x8000,
            bp: 0x8008,
        },
        further: FurtherRegisters::default(),
        stack_bytes: &stack,
        next_copy: None,
    };
    let sample = Sample::new(Role::Running, 1_000_000, Stack::Snapshot(snapshot));
    let sink = SpoolSink::new(Log::default());
    let options = UnwindOptions {
        engine: UnwindEngine::Framehop,
        ..UnwindOptions::default()
    };
    let mut unwinder = Unwinder::new(sink, NoMemory, SavedFiles::default(), options);
    for run in 0..2 {
        let start = Timestamp(1000 + run * 1000);
        let create = || File::create_new(&path);
        (unwinder.next_mut())
            .start(create, start, &info(), false, None, no_errors())
            .unwrap();
        unwinder.on_event(&Event::process(start, Pid(7), ProcessEvent::Map(&code)));
        unwinder.on_event(&Event::sample(start, Thread::new(7, 7), sample));
        unwinder.on_event(&Event::recording(start, RecordingEvent::Malformed("x")));
        unwinder.next_mut().stop();
    }
    let quality = unwinder.finish().1;
    let counts = |quality: &Quality| (quality.by_frame_pointer, quality.by_framehop, quality.malformed);
    assert_eq!(counts(&quality), (2, 2, 2));

    let import = Import::open(BufReader::new(File::open(&path).unwrap()), None, None).unwrap();
    let mut again = Unwinder::new(
        Log::default(),
        NoMemory,
        SavedFiles::default(),
        UnwindOptions::default(),
    );
    let imported = import.run(&mut again).unwrap();
    let read = again.finish().1;
    assert_eq!(counts(&read), (2, 2, 2));
    assert_eq!((read.samples, read.rooted), (quality.samples, quality.rooted));
    assert_eq!(imported.info.run_starts, [Timestamp(1000), Timestamp(2000)]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_cannot_be_written_is_told_and_events_go_on() {
    let mut sink = SpoolSink::new(Log::default());
    // full(4): each write fails with ENOSPC.
    let create = || File::options().write(true).open("/dev/full");
    let started = sink.start(create, Timestamp(1000), &info(), false, None, no_errors());
    assert_eq!(started.unwrap_err().kind(), io::ErrorKind::StorageFull);
    sink.on_event(&sample(2000, &[Frame::InstructionPointer(at(0x1010))]));
    let (log, is_whole) = sink.finish();
    assert_eq!((log.0.len(), is_whole), (1, false));
}
