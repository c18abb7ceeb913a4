//! Spans of the files that samply reads: from what a program writes to the markers of its threads.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::spool::wait_until_written;
use crate::support;
use crate::support::machine::one_cpu;
use crate::support::perf::load;
use crate::support::run::wait_until;
use crate::support::skip::{IN_NAMESPACE, is_root, mount_namespaces, perf_events};
use crate::support::target::Target;
use crate::support::{Profile, program, record};

/// Name, start and end of a span.
type SpanTimes = (String, f64, f64);

/// The spans of each thread, by process and thread.
fn spans(profile: &Profile) -> BTreeMap<(String, String), Vec<SpanTimes>> {
    let mut spans: BTreeMap<_, Vec<SpanTimes>> = BTreeMap::new();
    for (at, thread) in profile.threads.iter().enumerate() {
        let table = &profile.json["threads"][at]["markers"];
        for (row, (data, name)) in thread.markers.iter().zip(&thread.marker_names).enumerate() {
            if data["type"] == "Span" {
                let times = ["startTime", "endTime"].map(|key| table[key][row].as_f64().unwrap());
                let of_thread = spans.entry((thread.pid.clone(), thread.tid.clone())).or_default();
                of_thread.push((name.clone(), times[0], times[1]));
            }
        }
    }
    for of_thread in spans.values_mut() {
        of_thread.sort_by(|a, b| a.2.total_cmp(&b.2));
    }
    spans
}

fn count(profile: &Profile, name: &str) -> usize {
    let all = spans(profile).into_values().flatten();
    all.filter(|span| span.0 == name).count()
}

/// What the files of a folder say, on the clock of the profile.
fn written(folder: &Path, profile: &Profile) -> BTreeMap<(String, String), Vec<SpanTimes>> {
    let zero = profile.json["meta"]["startTimeAsClockMonotonicNanosecondsSinceBoot"]
        .as_u64()
        .unwrap();
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap();
            let (pid, tid) = name.strip_prefix("marker-").unwrap().split_once('-').unwrap();
            let text = fs::read_to_string(&path).unwrap();
            let spans = text.lines().map(|line| {
                let mut words = line.splitn(3, ' ');
                let mut ms = || words.next().unwrap().parse::<u64>().unwrap().saturating_sub(zero) as f64 / 1e6;
                let (began, ended) = (ms(), ms());
                (words.next().unwrap().to_owned(), began, ended)
            });
            ((pid.to_owned(), tid.to_owned()), spans.collect())
        })
        .collect()
}

/// Also of a thread that has ended and of a child. Samples are of the time in which the program computes.
#[test]
fn each_line_is_a_marker_of_its_thread_at_its_time() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    let dir = support::temp_dir();
    let (recording, profile) = record().profile(program("span_files").unwrap(), &[dir.path().to_str().unwrap(), "60"]);
    let spans = spans(&profile);
    assert_eq!(spans, written(dir.path(), &profile));
    assert_eq!(spans.len(), 3, "{spans:?}");
    let names = |name: &str| spans.values().flatten().filter(|span| span.0 == name).count();
    assert_eq!(
        ["early", "child", "request", "compute", "sleep"].map(names),
        [1, 1, 61, 61, 61]
    );
    assert!(!recording.stderr.contains("spans"), "{}", recording.stderr);

    // 61 times 4 ms. A sample may be some microseconds late, and writing takes some.
    let main = profile.threads.iter().find(|thread| thread.is_main).unwrap();
    let of_main = &spans[&(main.pid.clone(), main.tid.clone())];
    let is_in = |name: &str, ms: f64| {
        of_main
            .iter()
            .any(|span| span.0 == name && (span.1..=span.2).contains(&ms))
    };
    let in_rounds: Vec<f64> = main.samples.iter().map(|sample| sample.time_ms).collect();
    let in_rounds: Vec<f64> = in_rounds.into_iter().filter(|ms| is_in("request", *ms)).collect();
    let computing = in_rounds.iter().filter(|ms| is_in("compute", **ms)).count();
    // Where the host of a virtual machine takes two thirds of its CPU time away, half of the samples are there, or
    // fewer.
    assert!(in_rounds.len() > 60, "{}", profile.summary());
    // About a hundredth falls into system calls; by chance, a few more of a small number.
    let elsewhere = in_rounds.len() - computing;
    assert!(
        elsewhere <= in_rounds.len() / 20 + 4,
        "{computing} of {}",
        in_rounds.len()
    );
}

#[test]
fn spans_of_attached_programs_are_those_since_the_recording_began() {
    let Some(()) = perf_events() else { return };
    let dir = support::temp_dir();
    let arguments = [dir.path().to_str().unwrap(), "30", "wait"];
    let mut target = Target::start(program("span_files").unwrap(), &arguments);
    assert_eq!(target.line(), "ready");
    let running = record().options(&["-p", &target.pid()]).attach();
    running.wait_for_sprof("Ctrl-C ends");
    target.ask();
    let profile = running.finish().profile();
    let written = written(dir.path(), &profile);
    let main = (target.pid(), target.pid());
    // Those of the first round ended before.
    assert_eq!(spans(&profile)[&main], written[&main][3..]);
}

/// The file is nowhere else, and gone when the program has ended.
#[test]
fn a_file_in_another_mount_namespace_is_read() {
    let Some(()) = perf_events() else { return };
    if !mount_namespaces() {
        return;
    }
    let (dir, other) = (support::temp_dir(), support::temp_dir());
    let stdin = other.path().join("stdin");
    let made = Command::new("mkfifo").arg(&stdin).status();
    assert!(made.unwrap().success());
    // A pipe that is opened for both does not wait for the other side.
    let mut tell = fs::File::options().read(true).write(true).open(&stdin).unwrap();
    let script = format!(
        "mount -t tmpfs none {0}; exec {1} {0} 10 wait <{2}",
        dir.path().display(),
        program("span_files").unwrap().display(),
        stdin.display()
    );
    let running = record().start("unshare", &[IN_NAMESPACE, &[&script]].concat());
    running.wait_for("ready");
    let kept = || {
        let open = fs::read_dir(format!("/proc/{}/fd", running.sprof_pid()))
            .unwrap()
            .flatten();
        let paths = open.filter_map(|file| fs::read_link(file.path()).ok());
        paths.filter(|path| path.starts_with(dir.path())).count()
    };
    wait_until(|| kept() == 3, || format!("sprof has opened {} files of spans", kept()));
    tell.write_all(b"\n").unwrap();
    let profile = running.finish().profile();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "the mount is seen here");
    assert_eq!(
        ["early", "child", "request"].map(|name| count(&profile, name)),
        [1, 1, 11]
    );
}

/// Without perf_event there are no events of mappings.
#[test]
fn with_ptrace_files_are_found_while_they_are_open() {
    let Some(refuse) = program("refuse") else { return };
    let dir = support::temp_dir();
    let arguments = [dir.path().to_str().unwrap(), "60"];
    let refused = [refuse.to_str().unwrap(), "eperm"];
    let (recording, profile) = record()
        .under(&refused)
        .profile(program("span_files").unwrap(), &arguments);
    assert!(recording.stderr.contains("ptrace"), "{}", recording.stderr);
    let main = profile.threads.iter().find(|thread| thread.is_main).unwrap();
    let main = (main.pid.clone(), main.tid.clone());
    assert_eq!(spans(&profile)[&main], written(dir.path(), &profile)[&main]);
}

/// sprof is killed while the program writes: the part that is in the file by then is there.
#[test]
fn spans_are_read_with_what_is_left_of_a_killed_recording() {
    let Some(()) = perf_events() else { return };
    let dir = support::temp_dir();
    // A minute, if nobody ends it.
    let running = record().start(program("span_files").unwrap(), &[dir.path().to_str().unwrap(), "6000"]);
    let partial = PathBuf::from(format!("{}.partial", running.output().display()));
    // The program writes blocks of 4 KiB: some 35 rounds. They are read up to what sprof has written, which on a busy
    // machine is late.
    wait_until_written(&partial, |profile| count(profile, "request") > 30);
    running.signal_sprof("KILL");
    running.signal_group("KILL");
    wait_until(|| running.targets().is_empty(), || "the program goes on".to_owned());
    let (profile, said) = load(&partial, &[]);
    let requests = count(&profile, "request");
    assert!(requests > 30, "{requests} requests: {said}");
}

#[test]
fn files_of_something_else_and_of_others_are_counted_and_not_read() {
    let Some(()) = perf_events() else { return };
    let dir = support::temp_dir();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let far = u64::MAX;
    let mut files = vec![
        // From the boot to the year 2554: cut to the recording. Names have control characters.
        file(
            "marker-1.txt",
            &format!("0 {far} \x1b[31mlong\u{7}\n5 3 turned\nx y z\n1 2 before\n{far} {far} late\n7 8 cu"),
        ),
        file(
            "marker-2-3.txt",
            &format!("0 {far} {}\n0 {far} behind\n", "x".repeat(1 << 20)),
        ),
        file("marker-x.txt", &format!("0 {far} other name\n")),
        file("marker-4.txt", &"nothing\n".repeat(1 << 17)),
    ];
    // A link is as good as what it leads to, and a file counts once.
    let link = dir.path().join("marker-5.txt");
    std::os::unix::fs::symlink(dir.path().join("marker-1.txt"), &link).unwrap();
    files.push(link.to_str().unwrap().to_owned());
    let others = file("marker-6.txt", &format!("0 {far} secret\n"));
    if is_root() {
        chown(&others, Some(65534), None).unwrap();
        files.push(others);
    }
    let mapped = ["map"].into_iter().chain(files.iter().map(String::as_str));
    let (_, profile) = record().profile(program("span_files").unwrap(), &mapped.collect::<Vec<_>>());
    let all: Vec<SpanTimes> = spans(&profile).into_values().flatten().collect();
    let [(name, start, end)] = &all[..] else {
        panic!("{all:?}")
    };
    assert_eq!((name.as_str(), *start), ("\x1b[31mlong\u{7}", 0.0));
    let last = profile.samples().map(|sample| sample.time_ms).fold(0.0, f64::max);
    let recorded = profile.json["meta"]["profilingEndTime"].as_f64().unwrap();
    assert!((last..=recorded + 0.001).contains(end), "{end} of {last} to {recorded}");
    let quality = profile.quality();
    // Of the first file three lines, of the second one; of the fourth not many more than a thousand.
    let lines = quality["Lost, spans that made no sense"].as_u64().unwrap();
    assert!((1004..10_000).contains(&lines), "{quality:?}");
    assert_eq!(quality["Spans without a marker, chosen by chance"], 1, "{quality:?}");
    let refused = quality.get("Files of spans not read, permission denied");
    assert_eq!(refused.and_then(Value::as_u64), is_root().then_some(1), "{quality:?}");
}
