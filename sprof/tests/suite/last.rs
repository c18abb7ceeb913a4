//! `--last` and `--trigger`: the last seconds of a recording, at its end and while it goes on.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::profile::Profile;
use crate::support::programs::program;
use crate::support::run::{output, record, sprof, wait_until};
use crate::support::skip::{perf_events, root};
use crate::support::temp_dir;

/// Samples in a function.
fn samples(profile: &Profile, function: &str) -> usize {
    let is_in = |stack: usize| profile.names(stack).any(|name| name == function);
    profile
        .samples()
        .filter(|sample| sample.stack.is_some_and(is_in))
        .count()
}

/// How often each trigger came: `A (3 times), B`.
fn counts(text: &str) -> BTreeMap<String, usize> {
    let counts = text.split(", ").map(|trigger| match trigger.split_once(" (") {
        Some((words, times)) => (words.to_owned(), times.trim_end_matches(" times)").parse().unwrap()),
        None => (trigger.to_owned(), 1),
    });
    counts.collect()
}

/// The triggers of each file: `trigger A (3 times), B: saved profile.1.json.gz (9 kB)`.
fn files(stderr: &str) -> Vec<(PathBuf, BTreeMap<String, usize>)> {
    let saved = stderr.lines().filter_map(|line| {
        let (triggers, saved) = line.strip_prefix("sprof: trigger ")?.split_once(": saved ")?;
        Some((saved.rsplit_once(" (")?.0.into(), counts(triggers)))
    });
    saved.collect()
}

/// The ends of markers, ms. `is_it` has their names and their data.
fn ends(profile: &Profile, is_it: impl Fn(&str, &Value) -> bool) -> Vec<f64> {
    let mut ends = Vec::new();
    for thread in &profile.threads {
        for (at, (start, end)) in thread.marker_times.iter().enumerate() {
            if is_it(&thread.marker_names[at], &thread.markers[at]) {
                ends.push(start.max(*end));
            }
        }
    }
    ends
}

#[test]
fn the_last_half_second_is_the_profile_and_each_trigger_has_what_led_to_it() {
    let Some(()) = perf_events() else { return };
    let [beats, memory] = ["beats", "memory"].map(|name| program(name).unwrap());
    let folder = temp_dir();
    let file = folder.path().join("appears");
    let file_trigger = format!("file:{}", file.display());
    let mut triggers = vec![
        "signal",
        &file_trigger,
        "start:memory",
        "end:beats",
        // The program works for 7 % of a second and more. The host may stop the machine for seconds.
        "cpu>1%",
        "memory>20M",
    ];
    let mut options = vec!["--last", "0.5s"];
    if root() {
        options.extend(["--span", "usleep"]);
        triggers.push("span:usleep>100ms");
    }
    options.extend(triggers.iter().flat_map(|trigger| ["--trigger", trigger]));
    let script = format!(
        "{} 100 500; kill -USR2 $PPID; : > {}; exec {} 200",
        beats.display(),
        file.display(),
        memory.display()
    );
    let (recording, profile) = record().options(&options).profile("/bin/sh", &["-c", &script]);
    // Only the last program is in the last half second, and no more of it than that.
    let in_main = samples(&profile, "main");
    assert_eq!(samples(&profile, "work_us"), 0, "{}", profile.summary());
    assert!((1..=510).contains(&in_main), "{in_main}: {}", profile.summary());
    assert!(
        recording.stderr.contains("in the profile: only the last 0.50 s of "),
        "{}",
        recording.stderr
    );
    assert!(!recording.output.with_extension("gz.partial").exists());

    // The program may end in a pause.
    let rest = "sprof: triggers since their last files: ";
    let rest = recording.stderr.lines().find_map(|line| line.strip_prefix(rest));
    let mut came = rest.map(counts).unwrap_or_default();
    let files = files(&recording.stderr);
    let in_folder = fs::read_dir(recording.output.parent().unwrap()).unwrap();
    assert_eq!(in_folder.count(), 1 + files.len(), "{}", recording.stderr);
    for (path, triggers) in &files {
        let profile = Profile::read(path);
        for (words, count) in triggers {
            *came.entry(words.clone()).or_default() += count;
            let marked = ends(&profile, |_, marker| marker["trigger"] == **words);
            assert!(marked.len() >= *count, "{words}: {marked:?}: {}", recording.stderr);
            // The marker stands where that is which it was for.
            let span = words.strip_prefix("span:").and_then(|words| words.split_once('>'));
            if let Some((name, _)) = span {
                let spans = ends(&profile, |of, marker| of == name && marker["type"] == "Span");
                assert!(
                    marked.iter().all(|at| spans.contains(at)),
                    "{words}: {marked:?} {spans:?}"
                );
            } else if words == "end:beats" {
                let mut ends = profile.threads_named("beats").filter_map(|thread| thread.end_ms);
                assert!(ends.any(|end| end == marked[0]), "{marked:?}");
                assert!(samples(&profile, "work_us") > 0, "{}", profile.summary());
            }
        }
    }
    // `memory` sleeps four times.
    let expected = triggers.iter().map(|words| {
        let count = if words.starts_with("span:") { 4 } else { 1 };
        ((*words).to_owned(), count)
    });
    assert_eq!(came, expected.collect(), "{}", recording.stderr);
    assert!(files.len() < came.values().sum(), "{}", recording.stderr);
}

#[test]
#[ignore = "long: the copies take turns after more than a second"]
fn a_killed_recording_leaves_the_last_seconds_on_disk() {
    let Some(()) = perf_events() else { return };
    let running = record()
        .options(&["--last", "0.2s"])
        .start(program("threads").unwrap(), &["1", "60000"]);
    let partial = running.output().with_file_name("profile.json.gz.partial");
    let inode = || fs::metadata(&partial).map_or(0, |file| file.ino());
    wait_until(|| inode() != 0, || "there is no copy".to_owned());
    for _ in 0..2 {
        let before = inode();
        wait_until(|| inode() != before, || "no other copy took its place".to_owned());
    }
    running.signal_sprof("KILL");
    let kept = tempfile::NamedTempFile::with_suffix(".partial").unwrap();
    fs::copy(&partial, kept.path()).unwrap();
    let recording = running.finish();
    assert_eq!(recording.signal, Some(9), "{}", recording.stderr);
    let report = output(sprof().arg("report").arg(kept.path()));
    let text = String::from_utf8_lossy(&report.stdout);
    assert!(text.contains("thread_work"), "{text}");
}

#[test]
fn what_has_no_meaning_is_refused_with_what_has() {
    for (options, words) in [
        (&["--trigger", "signal"][..], "--last <TIME>"),
        (&["--last", "30s", "--trigger", "SIGUSR2"], "'span:NAME>100ms'"),
        (&["--last", "30s", "--heap"], "cannot be used with"),
        (&["--last", "30s", "--iteration-count", "2"], "cannot be used with"),
        (&["--last", "1d"], "30s, 5m or 1h"),
    ] {
        let refused = record().options(options).run("true", &[""; 0]);
        assert_eq!(refused.code, Some(2), "{options:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(words), "{options:?}: {}", refused.stderr);
    }
}

/// Memory of a process in RAM, without what it shares, in bytes.
fn anonymous(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find(|line| line.starts_with("RssAnon:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
}

#[test]
#[ignore = "it records for two minutes"]
fn memory_depends_on_the_time_that_is_kept_and_not_on_how_long_sprof_records() {
    let Some(()) = perf_events() else { return };
    let threads = program("threads").unwrap();
    let options = [
        "--last",
        "5s",
        "--trigger",
        "signal",
        "-d",
        "120",
        "-r",
        "1000",
        "--off-cpu",
    ];
    let running = record().options(&options).start(threads, &["8", "100000000"]);
    let started = Instant::now();
    // Between files: while one is written, memory is larger for a moment.
    let mut between = Vec::new();
    while let Some(bytes) = anonymous(running.sprof_pid()).filter(|_| started.elapsed() < Duration::from_secs(110)) {
        if started.elapsed().as_secs() >= 20 * (between.len() as u64 + 1) {
            between.push(bytes);
            running.signal_sprof("USR2");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let files = between.len();
    let output = running.output().to_owned();
    let written = (1..=files).filter(|number| output.with_file_name(format!("profile.{number}.json.gz")).exists());
    assert_eq!(written.count(), files);
    let recording = running.finish();
    println!("{between:?}; {}", recording.stderr);
    // Each thread that writes a file keeps some 128 kB.
    assert!(between[files - 1] < between[1] + (2 << 20), "{between:?}");
}
