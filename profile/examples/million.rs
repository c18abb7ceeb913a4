//! Measures building, symbols, writing and reading: one million samples of about 30 frames, 200,000 distinct stacks, 8 threads.
//!
//! `cargo run --release -p profile --example million -- [OUT.json.gz]`

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use profile::build::{BuildOptions, Builder};
use profile::enrich::enrich;
use profile::export::firefox;
use recording::address::Avma;
use recording::clock::{ClockReference, Timestamp};
use recording::event::{Event, Pid, Sample, Tid};
use recording::info::{Host, PeriodUnit, RecordingInfo};
use recording::module::{BuildId, Image, Module, ModuleKind};
use recording::quality::Quality;
use recording::sink::EventSink;
use recording::stack::{Frame, Stack};
use recording::symbol::{AddressInfo, FunctionSymbol, SourceFrame};

const SAMPLES: u64 = 1_000_000;
const STACKS: u64 = 200_000;
const DEPTH: u64 = 30;
const THREADS: i32 = 8;
const CODE: u64 = 0x1000_0000;

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

/// Stacks that grow out of each other, as those of a program do: each differs from an earlier one in its last 1-8 frames.
/// They use 50,000 addresses.
fn stacks() -> Vec<Vec<Frame>> {
    let mut random = Random(88_172_645_463_325_252);
    let mut stacks: Vec<Vec<Frame>> = vec![
        (0..DEPTH)
            .map(|at| Frame::ReturnAddress(Avma(CODE + at * 64)))
            .collect(),
    ];
    while (stacks.len() as u64) < STACKS {
        let mut stack = stacks[random.below(stacks.len() as u64) as usize].clone();
        let change = 1 + random.below(8) as usize;
        for frame in &mut stack[..change] {
            *frame = Frame::ReturnAddress(Avma(CODE + random.below(50_000) * 16));
        }
        stacks.push(stack);
    }
    stacks
}

/// Which stack each sample has.
fn orders() -> [(&'static str, Vec<u32>); 2] {
    let mut random = Random(42);
    let any = (0..SAMPLES).map(|_| random.below(STACKS) as u32).collect();
    // Nine of ten samples are in one stack of a hundred, as in a program with hot loops.
    let hot = (0..SAMPLES)
        .map(|_| {
            let among = if random.below(10) == 0 { STACKS } else { STACKS / 100 };
            random.below(among) as u32
        })
        .collect();
    [("hot loops", hot), ("worst case: stacks in random order", any)]
}

const CLOCK: u64 = 1_000_000_000;
const PID: Pid = Pid(100);

fn clock() -> ClockReference {
    ClockReference {
        timestamp: Timestamp(CLOCK),
        wall: UNIX_EPOCH + Duration::from_secs(1_790_000_000),
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new(clock(), BuildOptions::default());
    let (time, pid) = (Timestamp(CLOCK), PID);
    builder.on_event(&Event::ProcessStart {
        time,
        pid,
        parent: None,
    });
    let module = Arc::new(Module {
        kind: ModuleKind::File,
        path: "/opt/million".into(),
        readable_path: None,
        build_id: Some(BuildId(vec![7; 20])),
        arch: Some("x86_64"),
    });
    let (start, end) = (Avma(CODE), Avma(CODE * 2));
    let image = Image {
        start,
        end,
        base: start,
        module,
    };
    builder.on_event(&Event::Image { time, pid, image });
    builder
}

fn feed(builder: &mut Builder, order: &[u32], stacks: &[Vec<Frame>]) {
    for (at, &stack) in order.iter().enumerate() {
        builder.on_event(&Event::Sample(Sample {
            time: Timestamp(CLOCK + at as u64 * 125_017),
            pid: PID,
            tid: Tid(100 + at as i32 % THREADS),
            cpu: 0,
            period: 1_000_000,
            stack: Stack::Frames(&stacks[stack as usize]),
        }));
    }
}

fn info() -> RecordingInfo {
    RecordingInfo {
        program: "million".into(),
        args: None,
        clock: clock(),
        end: Timestamp(CLOCK + SAMPLES * 125_017),
        run_starts: Vec::new(),
        interval_ns: 1_000_000,
        event: "cpu-clock".into(),
        unit: PeriodUnit::CpuNanoseconds,
        events: Vec::new(),
        kernel_included: true,
        notes: Vec::new(),
        host: Host::default(),
    }
}

/// A function every 256 bytes, with two more inlined into the odd ones.
fn symbols(address: u64) -> AddressInfo {
    let start = address & !0xff;
    let frame = |depth: u64| SourceFrame {
        function: Some(format!("crate_name::module::function_{start:x}_{depth}")),
        file: Some(format!("/home/me/project/src/module_{}.rs", start % 97)),
        line: Some(address as u32 & 0xff),
        column: Some(9),
    };
    AddressInfo {
        function: Some(FunctionSymbol {
            name: format!("crate_name::module::function_{start:x}_0"),
            start,
            size: Some(0x100),
        }),
        frames: (0..=(start >> 8) % 2 * 2).rev().map(frame).collect(),
    }
}

fn touch(frames: &[Frame]) -> usize {
    frames
        .iter()
        .filter(|frame| frame.lookup_address() != Some(Avma(1)))
        .count()
}

#[allow(clippy::print_stdout, reason = "its output is its purpose")]
fn main() -> std::io::Result<()> {
    let stacks = stacks();
    let orders = orders();
    let before = resident_bytes();
    let mut builders = Vec::new();
    for (name, order) in &orders {
        builders.clear();
        let mut builder = builder();
        // The unwinder hands over frames that are in the cache; here they come from 100 MB of memory. What that costs is
        // measured without the builder, and taken off.
        let begin = cpu_time();
        let read: usize = order.iter().map(|&stack| touch(&stacks[stack as usize])).sum();
        std::hint::black_box(read);
        let reading = cpu_time() - begin;
        let begin = cpu_time();
        feed(&mut builder, order, &stacks);
        let build = (cpu_time() - begin).saturating_sub(reading);
        println!("build  {:>6.3} us a sample ({name})", micros(build) / SAMPLES as f64);
        builders.push(builder);
    }
    let Some(builder) = builders.pop() else { return Ok(()) };
    let profile = builder.finish(info(), Quality::default());
    println!(
        "memory {:>6.1} MB, {:.1} MB at most",
        mb(resident_bytes().saturating_sub(before)),
        mb(peak_bytes().saturating_sub(before))
    );

    let begin = cpu_time();
    let mut gz = Vec::new();
    firefox::write_gz(&profile, &mut gz)?;
    println!("write  {:>6.3} s, {:.1} MB gzip", seconds(begin), mb(gz.len()));
    let begin = cpu_time();
    let mut json = Count(0);
    firefox::write(&profile, &mut json)?;
    println!("plain  {:>6.3} s, {:.1} MB JSON", seconds(begin), mb(json.0));
    let begin = cpu_time();
    let top = profile::view::top(&profile, 5);
    println!(
        "top    {:>6.3} s, first has {} samples",
        seconds(begin),
        top.functions[0].self_samples
    );

    let mut profile = profile;
    let begin = cpu_time();
    enrich(&mut profile, |_, addresses| {
        Some(addresses.iter().map(|&address| symbols(address)).collect())
    });
    println!(
        "enrich {:>6.3} s, {:.1} MB at most",
        seconds(begin),
        mb(peak_bytes().saturating_sub(before))
    );
    let begin = cpu_time();
    let mut gz = Vec::new();
    firefox::write_gz(&profile, &mut gz)?;
    println!(
        "write  {:>6.3} s, {:.1} MB gzip, with symbols",
        seconds(begin),
        mb(gz.len())
    );

    let path = std::env::args_os().nth(1);
    let Some(path) = path.map(std::path::PathBuf::from) else {
        return Ok(());
    };
    std::fs::write(&path, gz)?;
    let begin = cpu_time();
    let saved = profile::read::open(&path, profile::read::ReadLimits::default()).map_err(std::io::Error::other)?;
    println!(
        "read   {:>6.3} s, {:.1} MB JSON",
        seconds(begin),
        mb(saved.json_bytes as usize)
    );
    Ok(())
}

struct Count(usize);

impl std::io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// CPU time of this process (one thread), which other load on the machine does not stretch. /proc/pid/schedstat, first field.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let ns = stat.split_whitespace().next().and_then(|field| field.parse().ok());
    Duration::from_nanos(ns.unwrap_or_default())
}

fn seconds(since: Duration) -> f64 {
    (cpu_time() - since).as_secs_f64()
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn mb(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}

fn resident_bytes() -> usize {
    status("VmRSS:")
}

fn peak_bytes() -> usize {
    status("VmHWM:")
}

/// A line of /proc/self/status, in bytes; 0 where there is none.
fn status(key: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    kib.unwrap_or_default() * 1024
}
