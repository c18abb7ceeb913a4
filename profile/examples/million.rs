//! Measures building, symbols, writing and reading: one million samples of about 30 frames, 200,000 distinct stacks, 8
//! threads.
//!
//! `cargo run --release -p sprof-profile --example million -- [OUT.json.gz]`

mod synthetic;

use std::time::Duration;

use profile::builder::Builder;
use profile::enrich::enrich;
use profile::export::firefox;
use recording::address::Avma;
use recording::clock::Timestamp;
use recording::event::{Event, Role, Sample, Thread};
use recording::quality::Quality;
use recording::sink::EventSink;
use recording::stack::{Frame, Stack};
use synthetic::{CLOCK, PID, Random, builder, hot, info, stacks, symbols};

const SAMPLES: u64 = 1_000_000;
const STACKS: u64 = 200_000;
const THREADS: i32 = 8;

/// Which stack each sample has.
fn orders() -> [(&'static str, Vec<u32>); 2] {
    let mut random = Random(42);
    let any = (0..SAMPLES).map(|_| random.below(STACKS) as u32).collect();
    let hot = (0..SAMPLES).map(|_| hot(&mut random, STACKS)).collect();
    [("hot loops", hot), ("worst case: stacks in random order", any)]
}

fn feed(builder: &mut Builder, order: &[u32], stacks: &[Vec<Frame>]) {
    for (at, &stack) in order.iter().enumerate() {
        let time = Timestamp(CLOCK + at as u64 * 125_017);
        let thread = Thread::new(PID.0, 100 + at as i32 % THREADS);
        let sample = Sample::new(Role::Running, 1_000_000, Stack::Frames(&stacks[stack as usize]));
        builder.on_event(&Event::sample(time, thread, sample));
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
    let stacks = stacks(STACKS);
    let orders = orders();
    let before = resident_bytes();
    let mut builders = Vec::new();
    for (name, order) in &orders {
        builders.clear();
        let mut builder = builder();
        // The unwinder hands over frames that are in the cache; here they come from 100 MB of memory. What that costs
        // is measured without the builder, and taken off.
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
    let profile = builder.finish(info(Timestamp(CLOCK + SAMPLES * 125_017)), Quality::default());
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

/// CPU time of this process (one thread), which other load on the machine does not stretch. /proc/pid/schedstat, first
/// field.
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
