//! What reading a profile whole costs, beside a scan of the same file for its JSON.
//!
//! `cargo run --release -p profile --example whole -- PROFILE`

#![allow(clippy::print_stdout, reason = "a benchmark")]

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use profile::read::{ReadLimits, open, whole};

fn main() -> Result<(), Box<dyn Error>> {
    let path = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: whole PROFILE")?);
    for _ in 0..3 {
        let start = Instant::now();
        let saved = open(&path, ReadLimits::default())?;
        let scanned = start.elapsed();
        let start = Instant::now();
        let data = whole(&path, ReadLimits::default())?;
        let read = start.elapsed();
        println!(
            "{} bytes of JSON: scanned in {scanned:.1?}, read in {read:.1?} ({:.2} times): {} samples, {} stacks",
            saved.json_bytes,
            read.as_secs_f64() / scanned.as_secs_f64(),
            data.threads.iter().map(|thread| thread.samples.len()).sum::<usize>(),
            data.stacks.len(),
        );
    }
    Ok(())
}
