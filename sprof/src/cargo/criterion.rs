//! Reads Criterion's results: it writes `<target>/criterion/<id>/new/benchmark.json` after each benchmark.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use profile::harness::MeasuredBenchmark;
use serde::Deserialize;

/// Folders below each other: group, function and parameter.
const MAX_DEPTH: usize = 6;
const MAX_FOLDERS: usize = 20_000;
const MAX_BYTES: u64 = 1 << 16;

#[derive(Deserialize)]
struct Benchmark {
    full_id: String,
}

/// The benchmarks measured since a time, in the order of their ends.
pub(crate) fn results(folder: &Path, since: SystemTime) -> Vec<MeasuredBenchmark> {
    let mut results = Vec::new();
    let mut folders: Vec<(PathBuf, usize)> = vec![(folder.to_owned(), 0)];
    let mut seen = 0;
    while let Some((folder, depth)) = folders.pop() {
        seen += 1;
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            if entry.file_name() == "new" {
                results.extend(read(&path.join("benchmark.json"), since));
            } else if depth < MAX_DEPTH && seen < MAX_FOLDERS && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push((path, depth + 1));
            }
        }
    }
    results.sort_by_key(|result| result.at);
    results
}

fn read(path: &Path, since: SystemTime) -> Option<MeasuredBenchmark> {
    let metadata = std::fs::metadata(path).ok()?;
    let at = metadata.modified().ok().filter(|at| *at >= since)?;
    if metadata.len() > MAX_BYTES {
        return None;
    }
    let benchmark: Benchmark = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    Some(MeasuredBenchmark {
        name: benchmark.full_id,
        at,
    })
}
