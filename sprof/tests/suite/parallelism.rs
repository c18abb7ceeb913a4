//! How many threads of a program ran at once, against what the program measured itself.
#![cfg(target_os = "linux")]

use std::path::Path;

use serde_json::Value;

use crate::support::machine::alone;
use crate::support::run::{Recording, output};
use crate::support::schema::parsed;
use crate::support::skip::perf_events;
use crate::support::steal::with_stolen_ms;
use crate::support::{program, record, sprof};

pub(crate) fn report(file: &Path, options: &[&str]) -> Value {
    let mut command = sprof();
    command.arg("report").arg(file).args(options).args(["-f", "json"]);
    parsed(&output(&mut command).stdout)
}

/// Wall time by number of running threads, ms.
fn walls_ms(report: &Value) -> [f64; 3] {
    let rows = report["views"][0]["rows"].as_array().unwrap();
    [0, 1, 2].map(|running| {
        let row = rows
            .iter()
            .find(|row| row["function"].is_null() && row["running"] == running);
        row.map_or(0.0, |row| row["wall_ms"].as_f64().unwrap())
    })
}

/// The least and the most time in which one thread and two threads ran, ms. While both run as long as they can, that is
/// the time of the shorter one; while they have to take turns, it is what is more than the wall time.
fn bounds(recording: &Recording) -> [[f64; 2]; 2] {
    let [serial, parallel, first, second] = ["serial_cpu_ns", "parallel_wall_ns", "first_cpu_ns", "second_cpu_ns"]
        .map(|name| recording.printed(name) / 1e6);
    let two = [(first + second - parallel).max(0.0), first.min(second)];
    let one = two.map(|two| serial + first + second - 2.0 * two);
    [[one[1], one[0]], two]
}

#[test]
fn a_serial_and_a_parallel_phase_have_their_shares_of_wall_time() {
    if perf_events().is_none() {
        return;
    }
    alone();
    // Shares of the work that are serial: 0, 10 and 50 %.
    for (serial_ms, parallel_ms, options) in [
        ("0", "50", &[][..]),
        ("10", "45", &["--parallelism"]),
        ("50", "25", &[]),
        ("50", "25", &["--off-cpu"]),
    ] {
        let (recording, stolen_ms) = with_stolen_ms(|| {
            let record = record().options(options);
            record.run(program("parallel").unwrap(), &["6", serial_ms, parallel_ms])
        });
        let is_exact = !options.is_empty();
        let found = report(&recording.output, &["--view", "parallelism"]);
        let walls = walls_ms(&found);
        let whole: f64 = found["profile"]["duration_ms"].as_f64().unwrap();
        assert!((walls.iter().sum::<f64>() - whole).abs() < 0.01, "{walls:?} of {whole}");
        assert_eq!(found["views"][0]["rows"][0]["exact"], is_exact);
        // A point. Of an estimate also a sample at each of the 24 borders of phases, which chance places: 5 standard
        // deviations. What the host took is in wall times and not in CPU times, or the other way round: once in the
        // time of two threads, and up to three times in the time of one.
        let chance = if is_exact { 0.0 } else { 5.0 * (24.0f64 / 12.0).sqrt() };
        let error = 0.01 * whole + 3.0 * stolen_ms + chance;
        for (number, [least, most]) in (1..).zip(bounds(&recording)) {
            assert!(
                (least - error..=most + error).contains(&walls[number]),
                "{options:?} {serial_ms} {parallel_ms}: {number} ran {} ms, not {least} to {most} \u{b1} {error}: {}",
                walls[number],
                recording.stdout
            );
        }
        // What runs alone counts fully, what runs beside another thread half.
        let latency = report(&recording.output, &["--weigh", "latency", "--view", "functions"]);
        assert_eq!(latency["selection"]["kind"], "latency");
        let weight = latency["selection"]["weight"].as_f64().unwrap();
        let any = walls[1] + walls[2];
        assert!(
            options != ["--parallelism"] || latency["selection"]["other_kind"]["samples"] == 0,
            "waits"
        );
        // Of what was sampled, chance decides how much falls where one thread runs and where two do: 5 standard
        // deviations.
        let cpu = walls[1] + 2.0 * walls[2];
        let sampled = report(&recording.output, &["--view", "functions"])["selection"]["weight"].as_f64();
        let (sampled, at_two) = (sampled.unwrap(), 2.0 * walls[2] / cpu);
        let (expected, error) = match is_exact {
            true => (
                sampled * any / cpu,
                0.01 * any + stolen_ms + 2.5 * (sampled * at_two * (1.0 - at_two)).sqrt(),
            ),
            false => (any, 0.01),
        };
        assert!(
            (weight - expected).abs() < error,
            "{options:?}: {weight}, not {expected} \u{b1} {error}: {walls:?}"
        );
    }
}
