//! `sprof diff`: two versions of a program compared, and the same version with itself.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support;
use crate::support::machine::{alone, share_again};
use crate::support::run::{Recording, Running};
use crate::support::schema::parsed;
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

/// Records both versions of the program side by side, each on a CPU: the first, and that with so many percent of the
/// work in one function.
fn recorded_pair(percent: &str) -> [Recording; 2] {
    let versions: [&[&str]; 2] = [&[ROUNDS], &[ROUNDS, "1", percent]];
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

/// Runs of both versions while the machine was equally fast, the fastest first. The work of a version is always the
/// same. A change counts only if both share and time changed, and a machine that is a fifth slower hides that a
/// function is.
fn recorded_in_pairs(dir: &Path) -> Vec<[PathBuf; 2]> {
    let start = Instant::now();
    let mut sides: [Vec<(f64, PathBuf)>; 2] = Default::default();
    for run in 0.. {
        for (number, (side, recording)) in sides.iter_mut().zip(recorded_pair("120")).enumerate() {
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
    let json: Value = parsed(&output.stdout);
    assert_eq!(json["schema_version"], 1);
    json
}

#[test]
#[ignore = "long: waits until the machine is equally fast for twelve runs; others compare fewer, and made ones"]
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
    // One run a side shows no small change.
    let recordings = recorded_pair("200");
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
    // On a virtual machine with other guests, 1.4 times the work of one function, which is 8 % of a run, was not told
    // from the rest: the time of a run was 95 % sure to have changed by -15 to 18 %.
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

/// Whether a profile says that it holds whole runs.
fn extent(profile: &support::Profile) -> &str {
    profile.json["meta"]["sprof"]["recorded"]["extent"]
        .as_str()
        .unwrap_or("nothing")
}

#[test]
fn a_recording_says_whether_it_holds_whole_runs_or_a_window() {
    let Some(()) = perf_events() else { return };
    let rounds = program("rounds").unwrap();
    let work: &[&str] = &["3", "3", "2", "1"];
    for (options, program, arguments, expected) in [
        (&[][..], &*rounds, work, "wholeRuns"),
        (&["--iteration-count", "2"], &rounds, work, "wholeRuns"),
        // A program may end itself with any status.
        (&[], Path::new("/bin/sh"), &["-c", "exit 3"], "wholeRuns"),
        (&[], Path::new("/bin/sh"), &["-c", "kill -TERM $$"], "window"),
        // A shell gives on that a signal ended what it ran.
        (
            &[],
            Path::new("/bin/sh"),
            &["-c", "sh -c 'kill -TERM $$'; exit $?"],
            "window",
        ),
        (&["--duration", "0.2"], Path::new("/bin/sleep"), &["100"], "window"),
    ] {
        let recording = record().options(options).run(program, arguments);
        let profile = recording.profile();
        assert_eq!(
            extent(&profile),
            expected,
            "{options:?} {arguments:?}: {}",
            recording.stderr
        );
    }
    // Ctrl-C: the program ends as if by itself, in the middle of its work.
    let script = "trap 'exit 0' INT; echo ready; while :; do sleep 0.1; done";
    let running = record().start("/bin/sh", &["-c", script]);
    running.wait_for("ready");
    running.signal_group("INT");
    let recording = running.finish();
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    assert_eq!(extent(&recording.profile()), "window");
}

/// Records the program with this work of its three functions, at 4 kHz.
fn recorded_rounds(dir: &Path, name: &str, rounds: &str, work: [&str; 3]) -> PathBuf {
    let recording = record()
        .options(&["--rate", "4000"])
        .run(program("rounds").unwrap(), &[&[rounds], &work[..]].concat());
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    let file = dir.join(name);
    std::fs::copy(&recording.output, &file).unwrap();
    file
}

#[test]
fn phases_and_rounds_hide_no_change_and_make_none() {
    let Some(()) = perf_events() else { return };
    alone();
    let dir = temp_dir();
    let recorded = ["15", "200"].map(|rounds| {
        let record = |name: &str, work| recorded_rounds(dir.path(), &format!("{name}-{rounds}"), rounds, work);
        let [old, same] = ["old", "same"].map(|name| record(name, ["360", "180", "60"]));
        // 50 points of the whole, so that the machine may be twice as fast in one of the recordings.
        [old, same, record("new", ["60", "480", "60"])]
    });
    share_again();
    for [old, same, new] in recorded {
        // The work of all three is inlined. Of a hundred lists one has a further function by chance, if the limit is
        // the usual one.
        let limits = ["--by", "total", "--false-discoveries", "0.01"];
        let changed = json(&limits, &[&old], &[&new]);
        let names: Vec<&str> = (changed["changes"].as_array().unwrap().iter())
            .map(|change| change["function"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["sort", "multiply"], "{changed:#}");
        for change in changed["changes"].as_array().unwrap() {
            let range = &change["share_change_95"];
            assert!(
                range[1].as_f64().unwrap() - range[0].as_f64().unwrap() < 0.1,
                "{change:#}"
            );
        }
        let text = String::from_utf8(diff(&["--by", "total"], &[&old], &[&same]).stdout).unwrap();
        assert!(text.contains("a standard deviation of 1.5 % is assumed"), "{text}");
        // One run a side does not show half a point, and nobody says that it does.
        assert!(text.contains("these recordings cannot tell"), "{text}");
        assert!(
            text.contains("--iteration-count") && !text.contains("No change"),
            "{text}"
        );
        let mut check = sprof();
        // The machine may be half as fast meanwhile.
        let rule = ["check", "--max-increase", "*=150%", "--base"];
        let output = check
            .current_dir(dir.path())
            .args(rule)
            .args([&old, &same])
            .output()
            .unwrap();
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
}

#[test]
fn what_cannot_be_compared_is_said() {
    let dir = temp_dir();
    let file = dir.path().join("empty.json");
    let missing = dir.path().join("missing.json");
    std::fs::write(&file, "").unwrap();
    for (arguments, code, words) in [
        (vec![&file], 2, "1 file is given"),
        (vec![&file, &file, &file], 2, "sprof diff NEW NEW --base OLD OLD"),
        (vec![&file, &file], 125, "empty.json is empty"),
        (vec![&missing, &file], 125, "missing.json"),
    ] {
        let output = sprof().arg("diff").args(&arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains(words), "{words}: {stderr}");
    }
}
