//! Spans of tasks on the runtimes of tokio, of the crate itself and of `tracing`.
#![cfg(target_os = "linux")]

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::cargo::{build_in, cargo};
use crate::support::schema::parsed;
use crate::support::skip::{Need, has};
use crate::support::{Recording, record, sprof, tests_dir};

const TASKS: usize = 20;
/// Times of one clock, read as two.
const CLOCKS_MS: f64 = 0.1;

/// The program `tests/tokio-program`; `None` (after saying so) where crates are not to be had.
fn tasks() -> Option<PathBuf> {
    cargo()?;
    let built = build_in(&tests_dir().join("tokio-program"), "tokio-program");
    has(Need::Crates, built.is_ok(), &format!("tokio can't be built: {built:?}")).then_some(())?;
    Some(built.unwrap().join("debug/tasks"))
}

fn report(recording: &Recording, words: &[&str]) -> Value {
    let output = sprof()
        .args(["report", recording.output.to_str().unwrap(), "--format", "json"])
        .args(words)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    parsed(&output.stdout)
}

#[test]
#[ignore = "long: tokio is built"]
fn tasks_of_both_runtimes_have_their_spans_polls_and_futures() {
    let Some(path) = tasks() else { return };
    for runtime in ["current", "multi"] {
        let (recording, profile) = record().options(&["--off-cpu"]).profile(&path, &[runtime]);
        let truth: Vec<Vec<f64>> = { recording.stdout.lines() }
            .map(|line| line.split(' ').map(|ns| ns.parse::<f64>().unwrap() / 1e6).collect())
            .collect();
        assert_eq!(truth.len(), TASKS, "{}", recording.stderr);
        let tables = profile.json["threads"].as_array().unwrap();
        let spans = |name: &str| -> Vec<(f64, f64, Value)> {
            let of_thread = profile.threads.iter().zip(tables).flat_map(|(thread, table)| {
                let named = (0..thread.marker_names.len()).filter(|at| thread.marker_names[*at] == name);
                named.map(|at| {
                    let time = |column: &str| table["markers"][column][at].as_f64().unwrap();
                    let mut data = table["markers"]["data"][at].clone();
                    data["thread"] = json!(thread.tid);
                    (time("startTime"), time("endTime"), data)
                })
            });
            of_thread.collect()
        };
        // Each task has a lane of its own, though all overlap, and the length that the program saw.
        let mut requests = spans("request");
        requests.sort_by_key(|(.., data)| data["id"].as_u64());
        let mut lanes: Vec<u64> = requests
            .iter()
            .map(|(.., data)| data["lane"].as_u64().unwrap())
            .collect();
        lanes.sort_unstable();
        lanes.dedup();
        assert_eq!(
            (requests.len(), lanes.len()),
            (TASKS, TASKS),
            "{runtime}: {}",
            profile.summary()
        );
        for ((start, end, data), truth) in requests.iter().zip(&truth) {
            let [before, after, before_end, after_end] = truth[..] else {
                panic!("{truth:?}")
            };
            let length = end - start;
            assert!(
                length >= before_end - after - CLOCKS_MS && length <= after_end - before + CLOCKS_MS && length >= 14.0,
                "{runtime}: {length} of {truth:?}, {data}"
            );
        }
        // Of `tracing`, each poll is a span, and the drop of the future. The sleep is in none.
        let (steps, computes) = (spans("step"), spans("compute"));
        let counts = (steps.len(), computes.len());
        assert_eq!(counts, (3 * TASKS, 2 * TASKS), "{runtime}: {}", profile.summary());
        let mut polls = 0;
        for (start, end, data) in &steps {
            let inside = computes
                .iter()
                .filter(|compute| compute.0 >= *start && compute.1 <= *end && compute.2["thread"] == data["thread"]);
            polls += inside.inspect(|(start, end, _)| assert!(end - start >= 2.0)).count();
            let whole = requests.iter().find(|(.., of)| of["id"] == data["id"]).unwrap();
            assert!(
                end - start < whole.1 - whole.0 - 9.0,
                "{runtime}: {start} {end} of {whole:?}"
            );
        }
        assert_eq!(polls, 2 * TASKS, "{runtime}: {steps:?} {computes:?}");
        // The table has the same: what ran in `compute` is CPU time, and of async spans nothing is known.
        let table = report(&recording, &["--view", "spans"]);
        let rows = table["views"][0]["rows"].as_array().unwrap();
        let row = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap();
        assert_eq!(
            [&row("request")["count"], &row("request")["async"]],
            [TASKS, TASKS].map(|count| json!(count)).each_ref()
        );
        let compute = row("compute");
        let of = |key: &str| compute[key].as_f64().unwrap();
        let error_ms = 5.0 * of("on_cpu_ms") / of("samples").sqrt();
        let ran_ms = of("covered_ms") - of("ready_ms");
        assert!((of("on_cpu_ms") - ran_ms).abs() <= error_ms, "{runtime}: {compute}");
        // All that tasks computed is below the future of the task.
        let futures = report(&recording, &["--view", "futures"]);
        let rows = futures["views"][0]["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["function"] == "tasks::request").unwrap();
        let computed = profile.samples().filter_map(|sample| sample.stack).filter(|stack| {
            let names: Vec<&str> = profile.names(*stack).collect();
            names.contains(&"tasks::compute") && !names.contains(&"[off-CPU]")
        });
        let (computed, polled) = (computed.count() as u64, row["self"]["samples"].as_u64().unwrap());
        assert!(polled >= computed && computed > 0, "{runtime}: {computed}: {futures}");
    }
}
