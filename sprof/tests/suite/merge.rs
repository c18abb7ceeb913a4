//! `sprof merge`: files of any kind as one profile, whose figures are the sum of theirs.
#![cfg(target_os = "linux")]

use std::path::Path;

use crate::support::client::Client;
use crate::support::schema::parsed;
use crate::support::skip::perf_events;
use crate::support::{program, record, sprof, temp_dir};
use serde_json::Value;

fn sprof_says(words: &[&str], files: &[&Path]) -> (String, String) {
    let output = sprof().args(words).args(files).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words:?}: {stderr}");
    (String::from_utf8(output.stdout).unwrap(), stderr)
}

/// (samples, ms) of all threads together.
fn total(file: &Path) -> (f64, f64) {
    let (json, _) = sprof_says(&["report", "--view", "functions", "--format", "json"], &[file]);
    let report: Value = parsed(&json);
    let number = |place: &str| report.pointer(place).and_then(Value::as_f64).unwrap();
    let each_ms = if report["unit"] == "ms" {
        1.0
    } else {
        number("/profile/interval_ms")
    };
    (number("/selection/samples"), number("/selection/weight") * each_ms)
}

#[test]
fn recordings_and_a_file_of_perf_are_one_profile_with_the_samples_of_all() {
    let Some(()) = perf_events() else { return };
    let dir = temp_dir();
    let (first, second) = (
        record()
            .options(&["--unwinder", "framehop"])
            .run(program("split").unwrap(), &["300"]),
        record().run(program("threads").unwrap(), &["2", "50"]),
    );
    // A program that ends at once has samples by chance only.
    assert_eq!((first.code, second.code), (Some(0), Some(0)), "{}", second.stderr);
    let script = dir.path().join("perf.txt");
    sprof_says(
        &["export", "-f", "perf-script", "-o", script.to_str().unwrap()],
        &[&first.output],
    );
    let merged = dir.path().join("all.json.gz");
    let files = [first.output.as_path(), second.output.as_path(), script.as_path()];
    let (_, said) = sprof_says(&["merge", "-o", merged.to_str().unwrap()], &files);
    assert!(said.contains("merged 3 profiles: "), "{said}");
    let parts = files.map(total);
    let whole = total(&merged);
    assert_eq!(whole.0, parts.iter().map(|part| part.0).sum::<f64>());
    let time: f64 = parts.iter().map(|part| part.1).sum();
    assert!((whole.1 - time).abs() < 0.001, "{whole:?} {parts:?}");
    let both = dir.path().join("both.json.gz");
    sprof_says(&["merge", "-o", both.to_str().unwrap()], &files[..2]);
    let (report, _) = sprof_says(&["report"], &[&both]);
    assert!(report.contains(" stacks unwound by framehop, "), "{report}");
    // A file is an input again.
    let twice = dir.path().join("twice.json.gz");
    sprof_says(
        &["merge", "--align", "start", "-o", twice.to_str().unwrap()],
        &[&merged, &merged],
    );
    assert_eq!(total(&twice).0, 2.0 * whole.0);
    let Some(client) = Client::load(merged.to_str().unwrap()) else {
        return;
    };
    // Any thread: what the host takes away from a worker counts as its CPU time, and may make it the busiest one.
    let threads = client.threads();
    let has_sixty = threads.iter().any(|thread| {
        client.run(&["thread", "select", thread.as_str()]);
        let answer = client.run(&["thread", "functions", "--limit", "0"]);
        let mut functions = answer["functions"].as_array().unwrap().iter();
        functions.any(|function| function["name"] == "sixty")
    });
    assert!(has_sixty, "{threads:?}");
}
