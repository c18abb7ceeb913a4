//! Event streams to build from, and a check of the written file that all tests share.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

pub(crate) mod check;
pub(crate) mod data;
pub(crate) mod exports;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use profile::Profile;
use profile::builder::{BuildOptions, Builder};
use profile::data::{Data, NONE, SavedData};
use profile::read::{ReadError, ReadLimits, everything, whole};
use recording::address::Avma;
use recording::clock::{ClockReference, Timestamp};
use recording::event::{Event, Mapping, Pid, ProcessEvent, Role, Sample, Thread, ThreadEvent};
use recording::info::{Host, PeriodUnit, RecordingInfo};
use recording::module::{BuildId, FileRole, Image, Module, ModuleKind};
use recording::quality::Quality;
use recording::sink::EventSink;
use recording::stack::{Frame, Stack};
use serde_json::Value;

pub(crate) const ZERO: u64 = 5_000_000_000;
pub(crate) const MS: u64 = 1_000_000;

pub(crate) fn clock() -> ClockReference {
    ClockReference {
        timestamp: Timestamp(ZERO),
        wall: UNIX_EPOCH + Duration::from_millis(1_790_000_000_123),
    }
}

/// A time, in ms after time zero.
pub(crate) fn at(ms: u64) -> Timestamp {
    Timestamp(ZERO + ms * MS)
}

pub(crate) fn info() -> RecordingInfo {
    RecordingInfo {
        program: "app".into(),
        args: None,
        clock: clock(),
        end: at(1000),
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
            cpu_name: Some("Test CPU".into()),
            logical_cpus: Some(2),
            physical_cpus: Some(1),
            memory_bytes: Some(8 << 30),
            os: Some("Linux 6.18".into()),
        },
    }
}

pub(crate) fn module(path: &str, kind: ModuleKind) -> Arc<Module> {
    Arc::new(Module {
        kind,
        path: PathBuf::from(path),
        readable_path: None,
        build_id: Some(BuildId(path.bytes().cycle().take(20).collect())),
        arch: Some("x86_64"),
    })
}

pub(crate) fn image(path: &str, start: u64, len: u64) -> Image {
    Image {
        start: Avma(start),
        end: Avma(start + len),
        base: Avma(start),
        module: module(path, ModuleKind::File),
        role: FileRole::default(),
    }
}

pub(crate) fn ip(address: u64) -> Frame {
    Frame::InstructionPointer(Avma(address))
}

pub(crate) fn ret(address: u64) -> Frame {
    Frame::ReturnAddress(Avma(address))
}

pub(crate) struct Stream(pub Builder);

impl Stream {
    pub(crate) fn new() -> Self {
        Stream(Builder::new(clock(), BuildOptions::default()))
    }

    /// One process, one thread, the program at 0x1000 and libc at 0x100000.
    pub(crate) fn with_app() -> Self {
        Stream::with_app_and(BuildOptions::default())
    }

    pub(crate) fn with_app_and(options: BuildOptions) -> Self {
        let mut stream = Stream(Builder::new(clock(), options));
        stream.process(1, None, 0);
        stream.exec(1, "app", 0);
        stream.map(1, image("/opt/app", 0x1000, 0x1000), 0);
        stream.map(1, image("/lib/libc.so.6", 0x10_0000, 0x10000), 0);
        stream
    }

    pub(crate) fn event(&mut self, event: Event<'_>) {
        self.0.on_event(&event);
    }

    pub(crate) fn process(&mut self, pid: i32, parent: Option<i32>, ms: u64) {
        let (pid, parent) = (Pid(pid), parent.map(Pid));
        self.event(Event::process(at(ms), pid, ProcessEvent::Start { parent }));
        self.event(Event::thread(at(ms), Thread::main(pid), ThreadEvent::Start));
    }

    pub(crate) fn thread(&mut self, pid: i32, tid: i32, ms: u64) {
        self.event(Event::thread(at(ms), Thread::new(pid, tid), ThreadEvent::Start));
    }

    pub(crate) fn thread_end(&mut self, pid: i32, tid: i32, ms: u64) {
        self.event(Event::thread(at(ms), Thread::new(pid, tid), ThreadEvent::End));
    }

    pub(crate) fn end(&mut self, pid: i32, ms: u64) {
        self.event(Event::process(at(ms), Pid(pid), ProcessEvent::End));
    }

    pub(crate) fn exec(&mut self, pid: i32, name: &str, ms: u64) {
        self.event(Event::process(at(ms), Pid(pid), ProcessEvent::Exec(name)));
    }

    pub(crate) fn rename(&mut self, pid: i32, tid: i32, name: &str, ms: u64) {
        self.event(Event::thread(at(ms), Thread::new(pid, tid), ThreadEvent::Name(name)));
    }

    pub(crate) fn map(&mut self, pid: i32, image: Image, ms: u64) {
        self.event(Event::process(at(ms), Pid(pid), ProcessEvent::Image(&image)));
    }

    /// Maps executable memory of no file.
    pub(crate) fn map_code(&mut self, pid: i32, start: u64, len: u64, ms: u64) {
        let mapping = Mapping {
            start,
            len,
            file_offset: 0,
            path: b"//anon",
            build_id: None,
            inode: None,
        };
        self.event(Event::process(at(ms), Pid(pid), ProcessEvent::Map(&mapping)));
    }

    pub(crate) fn sample(&mut self, pid: i32, tid: i32, ms: u64, frames: &[Frame]) {
        self.stack(pid, tid, ms, Stack::Frames(frames));
    }

    pub(crate) fn stack(&mut self, pid: i32, tid: i32, ms: u64, stack: Stack<'_>) {
        self.period(pid, tid, ms, MS, stack);
    }

    pub(crate) fn period(&mut self, pid: i32, tid: i32, ms: u64, period: u64, stack: Stack<'_>) {
        let sample = Sample::new(Role::Running, period, stack);
        self.event(Event::sample(at(ms), Thread::new(pid, tid), sample));
    }

    pub(crate) fn finish(self) -> Profile {
        self.0.finish(info(), Quality::default())
    }
}

/// Writes the profile, reads the file with serde_json and checks it; what views see of the file is what they see
/// without it.
pub(crate) fn written(profile: &Profile) -> Value {
    let mut bytes = Vec::new();
    profile::export::firefox::write(profile, &mut bytes).unwrap();
    let mut file = tempfile::Builder::new().prefix("sprof-written-").tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    let mut again = Vec::new();
    let all = everything(file.path(), ReadLimits::default()).unwrap();
    profile::export::firefox::write_data(&all, &mut again).unwrap();
    let differs_at = again.iter().zip(&bytes).position(|(a, b)| a != b);
    let differs_at = differs_at.or((again.len() != bytes.len()).then_some(again.len().min(bytes.len())));
    if let Some(at) = differs_at {
        let part = |bytes: &[u8]| {
            let range = at.saturating_sub(200)..(at + 200).min(bytes.len());
            String::from_utf8_lossy(&bytes[range]).into_owned()
        };
        panic!("written again:\n{}\nwritten first:\n{}", part(&again), part(&bytes));
    }
    let mut read = whole(file.path(), ReadLimits::default()).unwrap();
    let mut without_file = Data::from(profile);
    // What no view is of.
    (without_file.symbols, without_file.scripts) = (Vec::new(), Vec::new());
    for frame in &mut without_file.frames {
        (frame.column, frame.symbol) = (NONE, NONE);
    }
    without_file.funcs.iter_mut().for_each(|func| func.script = NONE);
    for (read, exact) in read.threads.iter_mut().zip(&without_file.threads) {
        same_numbers(&mut read.samples.time_ms, &exact.samples.time_ms);
        let weights = read.samples.weight.iter_mut().zip(&exact.samples.weight);
        weights.for_each(|(read, exact)| same_numbers(read, exact));
        if let (Some(read), Some(exact)) = (&mut read.allocations, &exact.allocations) {
            same_numbers(&mut read.time_ms, &exact.time_ms);
            same_numbers(read.end_ms.as_mut_slice(), exact.end_ms.as_slice());
        }
        for (read, exact) in read.markers.iter_mut().zip(&exact.markers) {
            same_number(&mut read.start_ms, exact.start_ms);
            same_number(&mut read.end_ms, exact.end_ms);
        }
    }
    same_number(&mut read.interval_ms, without_file.interval_ms);
    same_number(&mut read.start_ms, without_file.start_ms);
    assert_eq!(read, without_file);
    let json: Value = serde_json::from_slice(&bytes)
        .unwrap_or_else(|error| panic!("not JSON: {error}\n{}", String::from_utf8_lossy(&bytes)));
    check::check(&json);
    json
}

/// All of a profile in this JSON.
pub(crate) fn read_all(json: &Value) -> SavedData {
    read_all_of(&serde_json::to_vec(json).unwrap())
}

fn read_all_of(json: &[u8]) -> SavedData {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(json).unwrap();
    everything(file.path(), ReadLimits::default()).unwrap()
}

/// The same in version 55.
pub(crate) fn as_v55(profile: &Value) -> Result<Value, ReadError> {
    let mut file = tempfile::Builder::new().prefix("sprof-whole-").tempfile().unwrap();
    file.write_all(&serde_json::to_vec(profile).unwrap()).unwrap();
    let data = everything(file.path(), ReadLimits::default())?;
    let mut written = Vec::new();
    profile::export::firefox_v55::write(&data, &mut written).unwrap();
    Ok(serde_json::from_slice(&written).unwrap())
}

/// Written and read again, everything is as it was read first.
pub(crate) fn assert_same_when_read_again(mut first: SavedData) {
    let mut bytes = Vec::new();
    profile::export::firefox::write_data(&first, &mut bytes).unwrap();
    let json: Value = serde_json::from_slice(&bytes).unwrap();
    first.meta["preprocessedProfileVersion"] = json["meta"]["preprocessedProfileVersion"].clone();
    // What is not known is not a number, and equal to none.
    assert_eq!(format!("{:?}", read_all_of(&bytes)), format!("{first:?}"));
}

/// A file has decimal numbers, and differences of times: both are right to the last digits.
fn same_number(read: &mut f64, exact: f64) {
    assert!((*read - exact).abs() <= 1e-9 * exact.abs().max(1.0), "{read} {exact}");
    *read = exact;
}

fn same_numbers(read: &mut [f64], exact: &[f64]) {
    read.iter_mut()
        .zip(exact)
        .for_each(|(read, exact)| same_number(read, *exact));
}

/// The stack of a sample as function names, root first.
pub(crate) fn stack_names(json: &Value, thread: usize, sample: usize) -> Vec<String> {
    let shared = &json["shared"];
    let mut stack = json["threads"][thread]["samples"]["stack"][sample].as_u64();
    let mut names = Vec::new();
    while let Some(id) = stack {
        let frame = index(&shared["stackTable"]["frame"], id);
        let func = index(&shared["frameTable"]["func"], frame);
        let name = index(&shared["funcTable"]["name"], func);
        names.push(shared["stringArray"][name as usize].as_str().unwrap().to_owned());
        let offset = index(&shared["stackTable"]["prefixOffset"], id);
        stack = (offset > 0).then(|| id - offset);
    }
    names.reverse();
    names
}

/// The thread with this tid.
pub(crate) fn thread<'a>(json: &'a Value, tid: &str) -> &'a Value {
    (json["threads"].as_array().unwrap().iter())
        .find(|thread| thread["tid"] == tid)
        .unwrap_or_else(|| panic!("no thread {tid}"))
}

/// (type, data) of a thread's markers.
pub(crate) fn markers(thread: &Value) -> Vec<(&str, &Value)> {
    (thread["markers"]["data"].as_array().unwrap().iter())
        .map(|data| (data["type"].as_str().unwrap(), data))
        .collect()
}

fn index(column: &Value, row: u64) -> u64 {
    column[row as usize].as_u64().unwrap()
}
