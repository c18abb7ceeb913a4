//! Makes a large profile to read: ten threads, 24 million samples of about 30 frames, 400,000 distinct stacks.
//!
//! `cargo run --release -p sprof-profile --example large -- ours|samply OUT.json.gz [MILLION-SAMPLES]`
//!
//! `ours` is as sprof saves it, with symbols; `samply` is as samply saves it without, by its own writer. Each is more
//! than 500 MB of JSON. What reading one costs, the example `whole` measures.

mod synthetic;

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;

use flate2::Compression;
use flate2::write::GzEncoder;
use fxprof_processed_profile as samply;
use profile::enrich::enrich;
use profile::export::firefox;
use recording::clock::Timestamp;
use recording::event::{Event, Role, Sample, Thread};
use recording::quality::Quality;
use recording::sink::EventSink;
use recording::stack::{Frame, Stack};
use samply::debugid::DebugId;
use samply::{CategoryHandle, CpuDelta, FrameFlags, FrameInfo, LibraryInfo, SamplingInterval};
use synthetic::{CLOCK, CODE, PID, Random, builder, hot, info, stacks, symbols};

const STACKS: u64 = 400_000;
const THREADS: u64 = 10;
const MS: u64 = 1_000_000;

const USAGE: &str = "usage: large ours|samply OUT.json.gz [MILLION-SAMPLES]";

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(shape), Some(path)) = (args.next(), args.next()) else {
        return Err(USAGE.into());
    };
    let samples = args.next().map_or(Ok(24), |samples| samples.parse::<u64>())? * 1_000_000;
    let out = BufWriter::new(File::create(path)?);
    match shape.as_str() {
        "ours" => ours(samples, out),
        "samply" => theirs(samples, out),
        _ => Err(USAGE.into()),
    }
}

/// Thread, time and stack of each sample: a thread has one about every millisecond.
fn samples(count: u64) -> impl Iterator<Item = (u64, u64, usize)> {
    let mut random = Random(42);
    (0..count).map(move |at| {
        let time = at / THREADS * MS + random.below(MS / 50);
        (at % THREADS, time, hot(&mut random, STACKS) as usize)
    })
}

fn ours(count: u64, mut out: BufWriter<File>) -> Result<(), Box<dyn Error>> {
    let stacks = stacks(STACKS);
    let mut builder = builder();
    for (thread, time, stack) in samples(count) {
        let sample = Sample::new(Role::Running, MS, Stack::Frames(&stacks[stack]));
        let thread = Thread::new(PID.0, PID.0 + thread as i32);
        builder.on_event(&Event::sample(Timestamp(CLOCK + time), thread, sample));
    }
    let mut profile = builder.finish(info(Timestamp(CLOCK + count / THREADS * MS)), Quality::default());
    enrich(&mut profile, |_, addresses| {
        Some(addresses.iter().map(|&address| symbols(address)).collect())
    });
    firefox::write_gz(&profile, &mut out)?;
    Ok(())
}

fn theirs(count: u64, out: BufWriter<File>) -> Result<(), Box<dyn Error>> {
    let stacks = stacks(STACKS);
    let zero = samply::Timestamp::from_nanos_since_reference(0);
    let began = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_790_000_000);
    let mut profile = samply::Profile::new("million", began.into(), SamplingInterval::from_millis(1));
    let process = profile.add_process("million", PID.0 as u32, zero);
    let lib = profile.add_lib(LibraryInfo {
        name: "million".into(),
        debug_name: "million".into(),
        path: "/opt/million".into(),
        debug_path: "/opt/million".into(),
        debug_id: DebugId::nil(),
        code_id: None,
        arch: None,
        symbol_table: None,
    });
    profile.add_lib_mapping(process, lib, CODE, CODE * 2, 0);
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| profile.add_thread(process, PID.0 as u32 + thread as u32, zero, thread == 0))
        .collect();
    for (thread, time, stack) in samples(count) {
        let thread = threads[thread as usize];
        let frames = stacks[stack].iter().rev().filter_map(|frame| match frame {
            Frame::ReturnAddress(address) => Some(FrameInfo {
                frame: samply::Frame::ReturnAddress(address.0),
                category_pair: CategoryHandle::OTHER.into(),
                flags: FrameFlags::empty(),
            }),
            _ => None,
        });
        let stack = profile.intern_stack_frames(thread, frames);
        let time = samply::Timestamp::from_nanos_since_reference(time);
        profile.add_sample(thread, time, stack, CpuDelta::from_nanos(MS), 1);
    }
    let mut gz = GzEncoder::new(out, Compression::fast());
    serde_json::to_writer(&mut gz, &profile)?;
    gz.finish()?;
    Ok(())
}
