//! What a report of a profile costs, beside gunzip and a plain JSON scan of the same file: time, and memory beside that of the
//! columns that are read.
//!
//! `cargo run --release -p profile --example whole -- PROFILE`

#![allow(clippy::print_stdout, reason = "a benchmark")]

use std::error::Error;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Instant;

use flate2::read::MultiGzDecoder;
use profile::read::{ReadLimits, whole};
use profile::view::data::Data;
use profile::view::select::{Filter, select};
use profile::view::{breakdown, buckets, functions, tree};
use serde::Deserialize;
use serde::de::IgnoredAny;

fn main() -> Result<(), Box<dyn Error>> {
    let path = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: whole PROFILE")?);
    for _ in 0..3 {
        let start = Instant::now();
        scan(&path)?;
        let scanned = start.elapsed();
        let start = Instant::now();
        let data = whole(&path, ReadLimits::default())?;
        let read = start.elapsed();
        let selection = select(&data, &Filter::default())?;
        let found = functions::functions(&selection).len();
        let nodes = tree::top_down(&selection).nodes.len();
        let known = buckets::buckets(&selection).len() + breakdown::threads(&selection).len();
        let all = start.elapsed();
        println!(
            "gunzip and scan {scanned:.2?}; read {read:.2?}, with views {all:.2?}: {:.2} times; peak {} MB, columns {} MB; \
             {found} functions, {nodes} nodes, {known} others",
            all.as_secs_f64() / scanned.as_secs_f64(),
            peak_bytes() / 1_000_000,
            columns(&data) / 1_000_000,
        );
    }
    Ok(())
}

/// As little as can be done with the file.
fn scan(path: &Path) -> Result<(), Box<dyn Error>> {
    let file = BufReader::new(File::open(path)?);
    let json: Box<dyn Read> = match path.extension().is_some_and(|extension| extension == "gz") {
        true => Box::new(MultiGzDecoder::new(file)),
        false => Box::new(file),
    };
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(128 << 10, json));
    IgnoredAny::deserialize(&mut json)?;
    Ok(json.end()?)
}

fn columns(data: &Data) -> usize {
    let samples = data.threads.iter().map(|thread| {
        let weight = thread.samples.weight.as_ref().map_or(0, |_| 8);
        thread.samples.len() * (12 + weight)
    });
    samples.sum::<usize>()
        + size_of_val(&*data.stacks)
        + size_of_val(&*data.frames)
        + size_of_val(&*data.funcs)
        + data
            .texts
            .iter()
            .map(|text| text.len() + size_of::<Box<str>>())
            .sum::<usize>()
}

/// The most memory that was used so far: /proc/self/status, VmHWM.
fn peak_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    kib.unwrap_or_default() * 1024
}
