//! `--span FUNCTION`: a program measures its calls, and each is a span of that length.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use crate::probes::breakpoints;
use crate::support::playground::Playground;
use crate::support::run::{PATIENCE, Recording};
use crate::support::{Profile, program, record, skip};
use serde_json::Value;

/// A span: start and end, ms.
struct Span<'a> {
    start: f64,
    end: f64,
    data: &'a Value,
}

/// The spans of a name, by thread.
fn spans<'a>(profile: &'a Profile, name: &str) -> BTreeMap<&'a str, Vec<Span<'a>>> {
    let mut spans: BTreeMap<&str, Vec<Span<'_>>> = BTreeMap::new();
    for thread in &profile.threads {
        for (index, found) in thread.marker_names.iter().enumerate() {
            if found == name {
                let (start, end) = thread.marker_times[index];
                let data = &thread.markers[index];
                spans.entry(&thread.tid).or_default().push(Span { start, end, data });
            }
        }
    }
    spans
        .values_mut()
        .for_each(|of_thread| of_thread.sort_by(|a, b| a.start.total_cmp(&b.start)));
    spans
}

/// Each call is a span of its thread. It is as long as what passed inside of the function at least, and as what passed
/// around the call at most.
fn assert_calls_are_spans(profile: &Profile, stdout: &str, stderr: &str, calls: usize) {
    let mut measured: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for line in stdout.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [inside, around] = [1, 2].map(|at| words[at].parse::<f64>().unwrap() / 1e6);
        measured.entry(words[0]).or_default().push((inside, around));
    }
    let spans = spans(profile, "sleeps");
    assert_eq!(
        spans.keys().collect::<Vec<_>>(),
        measured.keys().collect::<Vec<_>>(),
        "{stderr}"
    );
    assert_eq!(measured.len(), 4);
    for (thread, measured) in &measured {
        assert_eq!((measured.len(), spans[thread].len()), (calls, calls), "{stderr}");
        for ((inside, around), span) in measured.iter().zip(&spans[thread]) {
            let took = span.end - span.start;
            // The file has microseconds, of start and end.
            assert!(
                *inside <= took + 0.002 && took <= *around + 0.002,
                "{inside} {took} {around}"
            );
        }
    }
    let of_library = self::spans(profile, "usleep");
    for (thread, spans) in &spans {
        let inner = &of_library[thread];
        assert_eq!(inner.len(), calls, "{stderr}");
        for (number, (outer, inner)) in spans.iter().zip(inner).enumerate() {
            assert!(outer.start <= inner.start && inner.end <= outer.end, "{stderr}");
            assert!(inner.end - inner.start >= (1 + number % 3) as f64, "{stderr}");
        }
    }
}

/// In the main thread, in two that it starts and in a child: by uprobes as root, by breakpoints for others, and of a
/// program that runs.
#[test]
fn each_call_of_a_function_is_a_span_of_its_length() {
    let Some(()) = breakpoints() else { return };
    let Some(path) = program("called") else { return };
    // What it calls is in libc.
    let options = ["--span", "sleeps", "--span", "usleep"];
    let (recording, profile) = record().options(&options).profile(&path, &["sleeps", "20"]);
    assert_calls_are_spans(&profile, &recording.stdout, &recording.stderr, 20);
    if !skip::root() {
        return;
    }
    let playground = Playground::new(&["called"]);
    let (output, path) = playground.record(&options, "called", &["sleeps", "20"]);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_calls_are_spans(&Profile::read(&path), &text(&output.stdout), &text(&output.stderr), 20);

    let mut target = playground.as_nobody(playground.path("called"));
    let target = target.args(["wait", "20"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut target = target.spawn().unwrap();
    let out = playground.path("attached.json.gz");
    let pid = target.id().to_string();
    let mut recorder = playground.as_nobody(playground.path("sprof"));
    recorder
        .args(["record", "-s", "-o"])
        .arg(&out)
        .args(["-p", &pid])
        .args(options);
    let mut recorder = recorder.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(recorder.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("recording called") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "sprof ended");
    }
    drop(target.stdin.take());
    let output = target.wait_with_output().unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(recorder.wait().unwrap().success(), "{rest}");
    assert_calls_are_spans(&Profile::read(&out), &text(&output.stdout), &rest, 20);
}

/// The spans of one function in the main thread.
fn of_main<'a>(profile: &'a Profile, name: &str, recording: &Recording) -> Vec<Span<'a>> {
    let mut spans = spans(profile, name);
    assert_eq!(spans.len(), 1, "{name}\n{}", recording.stderr);
    spans.pop_first().unwrap().1
}

#[test]
fn recursion_nests_and_a_call_without_a_return_has_no_span() {
    let Some(()) = breakpoints() else { return };
    let Some(path) = program("called") else { return };
    let functions = ["down", "jumps", "throws", "tail", "chosen"];
    let options = functions.map(|name| ["--span", name]);
    let (recording, profile) = record().options(&options.concat()).profile(&path, &["ways"]);
    let of_main = |name| of_main(&profile, name, &recording);
    let down = of_main("down");
    assert_eq!(down.len(), 10);
    assert!(down.is_sorted_by(|outer, inner| outer.start <= inner.start && inner.end <= outer.end));
    for name in ["jumps", "throws"] {
        assert_eq!(of_main(name).len(), 5, "{}", recording.stderr);
        let note = format!("5 of 10 calls of {name} have no span");
        assert!(recording.stderr.contains(&note), "{}", recording.stderr);
    }
    let tail = of_main("tail");
    assert_eq!(tail.len(), 10);
    assert!(tail.iter().all(|span| span.data["end"] == "a jump to another function"));
    assert!(
        recording.stderr.contains("calls of tail can end with a jump to other"),
        "{}",
        recording.stderr
    );
    // Which of its six ends was meant.
    assert_eq!(of_main("chosen").len(), 10);
    if skip::root() {
        let playground = Playground::new(&["called"]);
        let both = ["--span", "jumps", "--span", "throws"];
        let (output, path) = playground.record(&both, "called", &["ways"]);
        let (profile, stderr) = (Profile::read(&path), String::from_utf8_lossy(&output.stderr));
        for name in ["jumps", "throws"] {
            assert_eq!(spans(&profile, name).pop_first().unwrap().1.len(), 5, "{stderr}");
            assert!(
                stderr.contains(&format!("5 of 10 calls of {name} have no span")),
                "{stderr}"
            );
        }
    }
}

#[test]
fn a_function_whose_ends_are_not_certain_is_refused() {
    let Some(()) = breakpoints() else { return };
    let Some(path) = program("called") else { return };
    let refused = |name: &str, reason: &str| {
        let recording = record().options(&["--span", name]).run(&path, &["ways"]);
        assert_eq!(recording.code, Some(125), "{}", recording.stderr);
        assert!(recording.stderr.contains(reason), "{}", recording.stderr);
    };
    refused("loops", "it jumps to its own beginning");
    refused("nothing", "has no function nothing");
    refused("nothing", "(nor have its ");
    if skip::root() {
        // Six ends and a beginning.
        let playground = Playground::new(&["called"]);
        let (output, _) = playground.record(&["--span", "chosen"], "called", &["ways"]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("too few breakpoint registers for 7"), "{stderr}");
    }
    let cargo = record().options(&["--span", "main"]).run("cargo", &["run"]);
    assert!(
        cargo.stderr.contains("name the one that cargo builds"),
        "{}",
        cargo.stderr
    );
    let all = Command::new(env!("CARGO_BIN_EXE_sprof"))
        .args(["record", "-s", "-a", "-d", "1", "--span", "down"])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&all.stderr).contains("name them with -p"));
}

#[test]
fn a_function_that_is_called_too_often_is_switched_off() {
    let Some(()) = breakpoints() else { return };
    let Some(path) = program("called") else { return };
    let (recording, profile) = record()
        .options(&["--span", "often"])
        .profile(&path, &["often", "3000000"]);
    assert!(
        recording
            .stderr
            .contains("often was called more than 5,000 times a second"),
        "{}",
        recording.stderr
    );
    let spans = of_main(&profile, "often", &recording);
    // A slow machine takes some seconds until there are as many calls in one.
    let seconds = (spans.last().unwrap().end - spans[0].start) / 1e3;
    let most = 5_000.0 * (seconds.ceil() + 1.0);
    let count = spans.len();
    // Calls are dropped where sprof has no CPU for a while, and are counted.
    let lost = recording.stderr.split_once(" calls of often were lost");
    let lost = lost.and_then(|(before, _)| before.split_whitespace().next_back()?.parse::<usize>().ok());
    assert!(
        count + lost.unwrap_or_default() >= 4_000 && count as f64 <= most,
        "{count} in {seconds} s\n{}",
        recording.stderr
    );
}

/// sprof is stopped until its rings are full, and goes on while four threads are in calls: an end that is of another
/// call than its beginning would make a span of seconds.
#[test]
fn where_records_are_lost_no_span_is_longer_than_the_longest_call() {
    let Some(()) = breakpoints() else { return };
    if program("called").is_none() || !skip::root() {
        return;
    }
    // An ordinary user has small rings: 512 KiB for each CPU.
    let playground = Playground::new(&["called"]);
    let out = playground.path("lost.json.gz");
    let mut recorder = playground.as_nobody("taskset");
    recorder.args(["-c", "0"]).arg(playground.path("sprof"));
    recorder
        .args(["record", "-s", "-o"])
        .arg(&out)
        .args(["--span", "naps", "--"]);
    recorder.arg(playground.path("called")).args(["naps", "2000"]);
    recorder.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut recorder = recorder.spawn().unwrap();
    let (sender, lines) = mpsc::channel();
    let stdout = BufReader::new(recorder.stdout.take().unwrap());
    std::thread::spawn(move || stdout.lines().try_for_each(|line| sender.send(line.unwrap())));
    let pid = recorder.id().to_string();
    let signal = |name: &str| {
        assert!(
            Command::new("kill")
                .args(["-s", name, &pid])
                .status()
                .unwrap()
                .success()
        );
    };
    // A stopped sprof keeps the pipe open when the program has ended.
    let next_line = || {
        let line = lines.recv_timeout(PATIENCE);
        line.inspect_err(|_| signal("KILL")).unwrap()
    };
    assert_eq!(next_line(), "start");
    signal("STOP");
    assert_eq!(next_line(), "half");
    signal("CONT");
    let longest: f64 = next_line().strip_prefix("longest=").unwrap().parse().unwrap();
    let output = recorder.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let profile = Profile::read(&out);
    let spans = spans(&profile, "naps");
    let spans: Vec<&Span<'_>> = spans.values().flatten().collect();
    let of_spans = spans.iter().map(|span| span.end - span.start).fold(0.0, f64::max);
    assert!(
        of_spans <= longest / 1e6 + 0.002,
        "{of_spans} ms, {longest} ns\n{stderr}"
    );
    let (_, lost) = stderr.split_once("quality:").unwrap();
    assert!(lost.contains(" calls of naps were lost"), "{stderr}");
    assert!(spans.len() < 4 * 2300, "{}", spans.len());
}
