//! What a report of a profile costs, beside gunzip and a plain JSON scan of the same file: time, and memory beside that
//! of the columns that are read.
//!
//! `cargo run --release -p sprof-profile --example whole -- PROFILE`
//!
//! A profile that is large enough makes the example `large`. The scan is serde_json's, which keeps nothing: as a
//! stream, and of all the JSON in memory, which is faster and takes as much memory as the file inflates to. It, too, is
//! given what inflates fastest, and each round measures all, so that load on the machine hits all alike.

#![allow(clippy::print_stdout, reason = "a benchmark")]

use std::error::Error;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flate2::read::MultiGzDecoder;
use profile::data::Data;
use profile::read::{ReadLimits, whole};
use profile::view::select::{Filter, select};
use profile::view::{breakdown, buckets, functions, tree};
use serde::Deserialize;
use serde::de::IgnoredAny;

fn main() -> Result<(), Box<dyn Error>> {
    let path = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: whole PROFILE")?);
    for _ in 0..5 {
        let start = Instant::now();
        scan(&path)?;
        let scanned = start.elapsed();
        let start = Instant::now();
        scan_in_memory(&path)?;
        let scanned_in_memory = start.elapsed();
        forget_peak()?;
        let start = Instant::now();
        let data = whole(&path, ReadLimits::default())?;
        let read = start.elapsed();
        let selection = select(&data, &Filter::default())?;
        let found = functions::functions(&selection).len();
        let least = selection.total.weight * 0.01;
        let nodes = tree::top_down_where(&selection, |total| total.weight >= least)
            .nodes
            .len();
        let known = buckets::buckets(&selection).len() + breakdown::threads(&selection).len();
        let all = start.elapsed();
        let times = |of: Duration| all.as_secs_f64() / of.as_secs_f64();
        println!(
            "gunzip and scan {scanned:.2?}, in memory {scanned_in_memory:.2?}; read {read:.2?}, with views {all:.2?}: \
             {:.2} and {:.2} times; peak {} MB, columns {} MB; {found} functions, {nodes} nodes, {known} others",
            times(scanned),
            times(scanned_in_memory),
            peak_bytes() / 1_000_000,
            columns(&data) / 1_000_000,
        );
    }
    Ok(())
}

fn inflated(path: &Path) -> std::io::Result<Box<dyn Read>> {
    let file = BufReader::with_capacity(64 << 10, File::open(path)?);
    Ok(match path.extension().is_some_and(|extension| extension == "gz") {
        true => Box::new(MultiGzDecoder::new(file)),
        false => Box::new(file),
    })
}

/// As little as can be done with the file.
fn scan(path: &Path) -> Result<(), Box<dyn Error>> {
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(128 << 10, inflated(path)?));
    IgnoredAny::deserialize(&mut json)?;
    Ok(json.end()?)
}

/// The same where memory does not matter.
fn scan_in_memory(path: &Path) -> Result<(), Box<dyn Error>> {
    let mut json = Vec::new();
    inflated(path)?.read_to_end(&mut json)?;
    serde_json::from_slice::<IgnoredAny>(&json)?;
    Ok(())
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

/// Linux forgets what the most was: proc(5), clear_refs.
fn forget_peak() -> std::io::Result<()> {
    std::fs::write("/proc/self/clear_refs", "5")
}

/// The most memory that was used since: /proc/self/status, VmHWM.
fn peak_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    kib.unwrap_or_default() * 1024
}
