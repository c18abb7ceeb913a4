//! `sprof diff`: two versions of a program compared, and the same version with itself.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support;
use crate::support::machine::{alone, share_again};
use crate::support::run::{Recording, Running};
use crate::support::skip::perf_events;
use crate::support::{program, record, sprof, temp_dir};

/// Half a second's work of the program.
const ROUNDS: &str = "625";
/// Runs of each version. Made profiles in the crate `profile` bound how often chance makes a change of two of them.
const RUNS: usize = 6;
/// Chance makes changes as seldom as five standard deviations.
const CHANCE_PERCENT: &str = "0.00006";
/// Runs whose work took this much longer than the fastest one's had a slower machine.
const AS_FAST: f64 = 1.03;
/// Slow phases of a machine that others use, too, last for seconds to minutes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Records both versions of the program side by side, each on a CPU: the first, and that with a fifth more work in one function.
fn recorded_pair() -> [Recording; 2] {
    let versions: [&[&str]; 2] = [&[ROUNDS], &[ROUNDS, "1", "120"]];
    // Samples enough: a fifth of a function with a fifth of the time is 4 % of all.
    let running = versions.map(|arguments| {
        record()
            .options(&["--rate", "16000"])
            .start(program("versions").unwrap(), arguments)
    });
    let recordings = running.map(Running::finish);
    for recording in &recordings {
        assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    }
    recordings
}

/// Runs of both versions while the machine was equally fast, the fastest first. The work of a version is always the same. A change
/// counts only if both share and time changed, and a machine that is a fifth slower hides that a function is.
fn recorded_in_pairs(dir: &Path) -> Vec<[PathBuf; 2]> {
    let start = Instant::now();
    let mut sides: [Vec<(f64, PathBuf)>; 2] = Default::default();
    for run in 0.. {
        for (number, (side, recording)) in sides.iter_mut().zip(recorded_pair()).enumerate() {
            let file = dir.join(format!("{run}-{number}.json.gz"));
            std::fs::copy(&recording.output, &file).unwrap();
            side.push((recording.profile().cpu_ns(), file));
            side.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        let is_equal = |side: &Vec<(f64, PathBuf)>| side.get(RUNS - 1).is_some_and(|last| last.0 < AS_FAST * side[0].0);
        if sides.iter().all(is_equal) || (run >= RUNS && start.elapsed() > PATIENCE) {
            break;
        }
    }
    let [old, new] = sides.map(|side| side.into_iter().map(|(_, file)| file).take(RUNS));
    old.zip(new).map(|(old, new)| [old, new]).collect()
}

fn diff(arguments: &[&str], old: &[&Path], new: &[&Path]) -> std::process::Output {
    let mut command = sprof();
    command.arg("diff").args(arguments).args(old);
    if new.len() > 1 {
        command.arg("--new");
    }
    let output = command.args(new).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    output
}

fn json(arguments: &[&str], old: &[&Path], new: &[&Path]) -> Value {
    let output = diff(&[&["--format", "json"], arguments].concat(), old, new);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema_version"], 1);
    json
}

#[test]
fn the_same_program_has_no_changes_and_a_slower_function_is_named_first() {
    let Some(()) = perf_events() else { return };
    alone();
    let dir = temp_dir();
    let files = recorded_in_pairs(dir.path());
    share_again();

    let (old, new): (Vec<&Path>, Vec<&Path>) = files.iter().map(|[old, new]| (old.as_path(), new.as_path())).unzip();
    // They are sorted by their time.
    let (even, odd): (Vec<&Path>, Vec<&Path>) = old.chunks_exact(2).map(|pair| (pair[0], pair[1])).unzip();
    let same = json(&["--false-discoveries", CHANCE_PERCENT], &even, &odd);
    assert_eq!(same["changes"].as_array().unwrap().len(), 0, "{same:#}");

    // All functions of this program have the same one inlined, which has their time.
    let compiled = ["--by", "compiled"];
    let first = &json(&compiled, &old, &new)["changes"][0];
    assert!(
        first["function"] == "version_1" && first["share_change"].as_f64().unwrap() > 0.0,
        "{first:#}"
    );

    let text = String::from_utf8(diff(&compiled, &old, &new).stdout).unwrap();
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with(" before: 6 recordings, "), "{text}");
    assert!(lines.next().unwrap().starts_with("  after: 6 recordings, "), "{text}");
    // A fifth more of a fifth.
    let total = lines.next().unwrap();
    assert!(
        total.starts_with("  total: ") && total.contains(" % time (95 % sure: "),
        "{text}"
    );
    let slower: Vec<&str> = lines
        .skip_while(|line| !line.contains("slower, by self"))
        .skip(1)
        .collect();
    assert!(slower[0].contains("version_1  [versions]"), "{text}");
    assert!(slower.last().unwrap().contains("changed"), "{text}");
}

/// Ten runs in one file, each of a shell and two processes of the program.
fn recorded_runs(dir: &Path, name: &str, arguments: &str) -> PathBuf {
    let versions = program("versions").unwrap();
    let file = dir.join(name);
    let script = format!(
        "{0} 100 {arguments} & {0} 100 {arguments} & wait; exit 0",
        versions.display()
    );
    let (recording, _) = record()
        .options(&["--rate", "4000", "--iteration-count", "10"])
        .profile(Path::new("/bin/sh"), &["-c", &script]);
    std::fs::copy(&recording.output, &file).unwrap();
    file
}

#[test]
fn a_function_that_calls_more_is_listed_with_all_that_it_calls() {
    let Some(()) = perf_events() else { return };
    alone();
    let recordings = recorded_pair();
    let [old, new] = recordings.each_ref().map(|recording| &*recording.output);
    let text = String::from_utf8(diff(&[], &[old], &[new]).stdout).unwrap();
    let (own, total) = text.split_once("slower, with all that it calls").expect(&text);
    // All the work is in `xorshift`, which is inlined into all versions.
    assert!(
        total.contains("version_1  [versions]") && !own.contains("version_1"),
        "{text}"
    );
    assert_eq!(json(&[], &[old], &[new])["by"], "inlined");
    let compiled = String::from_utf8(diff(&["--by", "compiled"], &[old], &[new]).stdout).unwrap();
    let (own, _) = compiled.split_once("No change").unwrap_or((&compiled, ""));
    assert!(
        own.contains("slower, by self with what is inlined") && own.contains("version_1  [versions]"),
        "{compiled}"
    );
    // Lists of one kind have no second.
    let text = String::from_utf8(diff(&["--by", "paths"], &[old], &[new]).stdout).unwrap();
    assert!(
        text.contains("> version_1 > xorshift") && !text.contains("with all that"),
        "{text}"
    );
}

#[test]
fn runs_in_one_recording_count_as_recordings() {
    let Some(()) = perf_events() else { return };
    alone();
    let dir = temp_dir();
    let old = recorded_runs(dir.path(), "old.json.gz", "");
    // On a virtual machine with other guests, 1.4 times the work of one function, which is 8 % of a run, was not told from the rest: the time of a
    // run was 95 % sure to have changed by -15 to 18 %.
    let new = recorded_runs(dir.path(), "new.json.gz", "1 300");
    let json = json(&["--by", "compiled"], &[&old], &[&new]);
    for side in ["base", "new"] {
        assert_eq!(
            (&json[side]["recordings"], &json[side]["runs"]),
            (&1.into(), &10.into()),
            "{json:#}"
        );
    }
    let first = &json["changes"][0];
    assert!(
        first["function"] == "version_1" && first["share_change"].as_f64().unwrap() > 0.0,
        "{json:#}"
    );
    // All processes of a run are that run's: its time is both programs'.
    let text = String::from_utf8(diff(&[], &[&old], &[&new]).stdout).unwrap();
    assert!(text.starts_with(" before: 10 runs in 1 recording, "), "{text}");
    let profile = support::Profile::read(&old);
    let cpu_ms = profile.cpu_ns() / 1e6;
    let per_run = json["base"]["per_run"].as_f64().unwrap();
    assert!(
        (per_run * 10.0 - cpu_ms).abs() < 0.1 * cpu_ms,
        "{per_run} * 10, {cpu_ms}"
    );
}

#[test]
fn what_cannot_be_compared_is_said() {
    let dir = temp_dir();
    let file = dir.path().join("empty.json");
    let missing = dir.path().join("missing.json");
    std::fs::write(&file, "").unwrap();
    for (arguments, code, words) in [
        (vec![&file], 2, "1 file is given"),
        (vec![&file, &file, &file], 2, "sprof diff OLD OLD --new NEW NEW"),
        (vec![&file, &file], 125, "empty.json is empty"),
        (vec![&missing, &file], 125, "missing.json"),
    ] {
        let output = sprof().arg("diff").args(&arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains(words), "{words}: {stderr}");
    }
}
