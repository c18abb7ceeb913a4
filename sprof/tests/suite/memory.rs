//! What a long recording keeps in memory.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use perf_data::spool::SpoolSink;
use profile::builder::{BuildOptions, Builder};
use recording::address::Avma;
use recording::clock::{ClockReference, Timestamp};
use recording::event::{Event, Mapping, Pid, Role, Sample, Thread};
use recording::info::{Host, PeriodUnit, RecordingInfo};
use recording::sink::{EventSink, ModuleFile, ModuleFiles, ModuleMiss, NoMemory};
use recording::stack::{Frame, Stack};
use unwind::{UnwindOptions, Unwinder};

use crate::support::machine::share;

/// An hour of one busy CPU at 1 kHz.
const SAMPLES: u64 = 3_600_000;
/// Distinct stacks, of [`DEPTH`] frames at 50,000 addresses; as many as `profile/examples/million.rs` has.
const STACKS: usize = 200_000;
const DEPTH: usize = 30;

struct NoFiles;

impl ModuleFiles for NoFiles {
    fn open(&mut self, _pid: Pid, _mapping: &Mapping<'_>) -> Result<ModuleFile, ModuleMiss> {
        Err(ModuleMiss::NotFound)
    }
}

/// xorshift64: the same stacks in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// A figure of /proc/self/status in bytes.
fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// A file that waits for no disk. The hour passes in ten seconds here: what would wait for a slow disk in memory is 360
/// times what it is in a real hour. No resident memory of the process is the file's: it is not mapped.
fn file() -> File {
    rustix::fs::memfd_create("hour", rustix::fs::MemfdFlags::CLOEXEC)
        .unwrap()
        .into()
}

/// Each differs from an earlier one in its last 1-8 frames.
fn stacks(random: &mut Random) -> Vec<[u16; DEPTH]> {
    let mut stacks = vec![[0; DEPTH]];
    while stacks.len() < STACKS {
        let mut stack = stacks[random.below(stacks.len() as u64) as usize];
        let change = 1 + random.below(8) as usize;
        stack[..change].fill_with(|| random.below(50_000) as u16);
        stacks.push(stack);
    }
    stacks
}

/// True in a process that has this test alone. Elsewhere it runs such a process: the peak is that of the whole of it.
fn is_in_own_process(test: &str) -> bool {
    const CHILD: &str = "TEST_OF_MEMORY";
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    share();
    let mut child = Command::new(std::env::current_exe().unwrap());
    let output = child
        .args(["--exact", test, "--nocapture", "--include-ignored"])
        .env(CHILD, "1")
        .output();
    let output = output.unwrap();
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    let passed = output.status.success() && said.contains("memory grew by");
    // Its results, at the start of a line, would be counted as this process's.
    assert!(passed, "{}", said.replace('\n', "\n    "));
    false
}

/// All stacks are seen in the first quarter of an hour. Then memory no longer grows.
#[test]
#[ignore = "long: 3.6 million samples"]
fn an_hour_of_samples_takes_no_more_memory_than_its_stacks() {
    if !is_in_own_process("memory::an_hour_of_samples_takes_no_more_memory_than_its_stacks") {
        return;
    }
    let mut random = Random(88_172_645_463_325_252);
    let stacks = stacks(&mut random);
    let before = status("VmRSS");
    let clock = ClockReference {
        timestamp: Timestamp(0),
        wall: UNIX_EPOCH + Duration::from_secs(1_790_000_000),
    };
    let info = RecordingInfo {
        program: "hour".into(),
        args: None,
        clock,
        end: Timestamp(0),
        run_starts: Vec::new(),
        whole_runs: None,
        interval_ns: 1_000_000,
        event: "cpu-clock".into(),
        unit: PeriodUnit::CpuNanoseconds,
        events: Vec::new(),
        kernel_included: true,
        notes: Vec::new(),
        heap: None,
        host: Host::default(),
    };
    let mut builder = Builder::new(clock, BuildOptions::default());
    builder.spill_to(file());
    let mut sink = SpoolSink::new(builder);
    let spool = file();
    let of_sink = spool.try_clone().unwrap();
    sink.start(
        || Ok(of_sink),
        Timestamp(0),
        &info,
        false,
        None,
        Box::new(|error| panic!("{error}")),
    )
    .unwrap();
    let mut unwinder = Unwinder::new(sink, NoMemory, NoFiles, UnwindOptions::default());
    let mut frames = [Frame::ReturnAddress(Avma(0)); DEPTH];
    let mut rest = stacks.iter();
    let mut after_a_quarter = 0;
    for at in 0..SAMPLES {
        // The threads that write have time to keep up, as they have in a real hour.
        if at % 3600 == 0 {
            std::thread::sleep(Duration::from_millis(3));
        }
        if at == SAMPLES / 4 {
            assert_eq!(rest.len(), 0);
            after_a_quarter = status("RssAnon");
        }
        // Most samples are in one stack of a hundred, as in a program with hot loops.
        let among = if random.below(10) == 0 { STACKS } else { STACKS / 100 };
        let known = &stacks[random.below(among as u64) as usize];
        let new = if at % 4 == 0 { rest.next() } else { None };
        let stack = new.unwrap_or(known);
        for (frame, address) in frames.iter_mut().zip(stack) {
            *frame = Frame::ReturnAddress(Avma(0x1000_0000 + u64::from(*address) * 16));
        }
        let (time, thread) = (Timestamp(at * 1_000_017), Thread::new(100, 100 + (at % 4) as i32));
        let sample = Sample::new(Role::Running, 1_000_000, Stack::Frames(&frames));
        unwinder.on_event(&Event::sample(time, thread, sample));
    }
    // Pages of the program come and go with the kernel's need of memory.
    let grown_later = status("RssAnon").saturating_sub(after_a_quarter);
    let (sink, quality) = unwinder.finish();
    let (mut builder, _) = sink.finish();
    assert_eq!(quality.samples, SAMPLES);
    let grown = status("VmHWM").saturating_sub(before);
    let spooled = spool.metadata().unwrap().len();
    println!(
        "memory grew by {} KiB, {} of them after the first quarter; the spool has {} KiB",
        grown >> 10,
        grown_later >> 10,
        spooled >> 10
    );
    assert!(grown < 50_000_000, "{grown} bytes");
    assert!(grown_later < 2_000_000, "{grown_later} bytes");
    builder.read_back().unwrap();
    println!("at the end: {} KiB", (status("VmHWM").saturating_sub(before)) >> 10);
}
