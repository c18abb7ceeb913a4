//! `--last` and `--trigger`: the last seconds of a recording, at its end and while it goes on.
#![cfg(target_os = "linux")]

use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use crate::support::profile::Profile;
use crate::support::programs::program;
use crate::support::run::{output, record, sprof, wait_until};
use crate::support::skip::perf_events;

/// Samples in a function.
fn samples(profile: &Profile, function: &str) -> usize {
    let is_in = |stack: usize| profile.names(stack).any(|name| name == function);
    profile
        .samples()
        .filter(|sample| sample.stack.is_some_and(is_in))
        .count()
}

#[test]
fn the_last_half_second_is_the_profile_and_each_trigger_has_what_led_to_it() {
    let Some(()) = perf_events() else { return };
    let [beats, work] = ["beats", "work"].map(|name| program(name).unwrap());
    let script = format!(
        "{} 100 500; kill -USR2 $PPID; exec {} 500",
        beats.display(),
        work.display()
    );
    let (recording, profile) = record()
        .options(&["--last", "0.5s", "--trigger", "signal", "--trigger", "start:work"])
        .profile("/bin/sh", &["-c", &script]);
    // Only the second phase is in the last half second, and no more of it than that.
    let in_work = samples(&profile, "fixed_work");
    assert_eq!(samples(&profile, "work_us"), 0, "{}", profile.summary());
    assert!((1..=510).contains(&in_work), "{in_work}: {}", profile.summary());
    assert!(
        recording.stderr.contains("in the profile: only the last 0.50 s of "),
        "{}",
        recording.stderr
    );
    assert!(!recording.output.with_extension("gz.partial").exists());

    let mut words = Vec::new();
    for number in 1..=2 {
        let path = recording.output.with_file_name(format!("profile.{number}.json.gz"));
        if !path.exists() {
            break;
        }
        let triggered = Profile::read(&path);
        assert!(samples(&triggered, "work_us") > 0, "{}", triggered.summary());
        let markers = triggered.threads.iter().flat_map(|thread| &thread.markers);
        words.extend(markers.filter_map(|marker| marker["trigger"].as_str().map(str::to_owned)));
    }
    words.sort();
    words.dedup();
    assert_eq!(words, ["signal", "start:work"], "{}", recording.stderr);
}

#[test]
#[ignore = "long: the copies take turns after more than a second"]
fn a_killed_recording_leaves_the_last_seconds_on_disk() {
    let Some(()) = perf_events() else { return };
    let running = record()
        .options(&["--last", "0.2s"])
        .start(program("threads").unwrap(), &["1", "60000"]);
    let partial = running.output().with_file_name("profile.json.gz.partial");
    let inode = || std::fs::metadata(&partial).map_or(0, |file| file.ino());
    wait_until(|| inode() != 0, || "there is no copy".to_owned());
    for _ in 0..2 {
        let before = inode();
        wait_until(|| inode() != before, || "no other copy took its place".to_owned());
    }
    running.signal_sprof("KILL");
    let kept = tempfile::NamedTempFile::with_suffix(".partial").unwrap();
    std::fs::copy(&partial, kept.path()).unwrap();
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
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
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
    let (mut early, mut late, mut files) = (0, 0, 0);
    while let Some(bytes) = anonymous(running.sprof_pid()).filter(|_| started.elapsed() < Duration::from_secs(110)) {
        let seconds = started.elapsed().as_secs();
        match seconds {
            20..60 => early = early.max(bytes),
            60.. => late = late.max(bytes),
            _ => {}
        }
        if seconds >= 20 * (files + 1) {
            files += 1;
            running.signal_sprof("USR2");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let output = running.output().to_owned();
    let written = (1..=files).filter(|number| output.with_file_name(format!("profile.{number}.json.gz")).exists());
    assert_eq!(written.count() as u64, files);
    let recording = running.finish();
    println!("{} MB, then {} MB; {}", early >> 20, late >> 20, recording.stderr);
    assert!(late < early + early / 8, "{early} bytes, then {late}");
}
