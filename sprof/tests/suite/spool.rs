//! What is left of a recording when sprof, the disk or the user ends it early.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::support::perf::load;
use crate::support::skip::{Need, has, is_root, kernel_samples, perf_events};
use crate::support::{Profile, program, record, sprof, temp_dir};

/// `<output>.partial`.
fn partial(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

/// When the recording started, in ms since 1970.
fn start_ms(profile: &Profile) -> f64 {
    profile.json["meta"]["startTime"].as_f64().unwrap()
}

/// The time of the last sample, in ms since 1970.
fn last_sample_ms(profile: &Profile) -> f64 {
    let last = profile.samples().map(|sample| sample.time_ms).fold(0.0, f64::max);
    start_ms(profile) + last
}

/// User and system time that a process has had.
fn cpu_seconds(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The command's name may hold anything; after it come the state as field 3, utime and stime as 14 and 15, in 10 ms.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = after_name
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

/// Records the split program for that long and until it has used 2 s of CPU time, kills sprof, and returns the file
/// with when that was, in ms since 1970.
fn killed_recording(dir: &Path, seconds: u64) -> (PathBuf, f64) {
    let running = record().start(program("split").unwrap(), &["60000", "2"]);
    let spool = partial(running.output());
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(seconds)
        || running.targets().into_iter().map(cpu_seconds).sum::<f64>() < 2.0
            && start.elapsed() < Duration::from_secs(60)
    {
        std::thread::sleep(Duration::from_millis(100));
    }
    let killed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64() * 1000.0;
    running.signal_sprof("KILL");
    let kept = dir.join("killed.partial");
    fs::copy(&spool, &kept).unwrap_or_else(|error| panic!("{}: {error}", spool.display()));
    let recording = running.finish();
    assert_eq!(recording.signal, Some(9), "{}", recording.stderr);
    // sprof was asked to leave nothing behind, but not by its last signal.
    assert!(!recording.left_behind.is_empty());
    (kept, killed)
}

#[test]
fn killed_recordings_are_there_up_to_the_last_second() {
    let Some(()) = perf_events() else { return };
    let dir = temp_dir();
    let (file, killed) = killed_recording(dir.path(), 3);
    let (profile, stderr) = load(&file, &[]);
    let recovered = last_sample_ms(&profile) - start_ms(&profile);
    assert!(recovered > 2000.0, "{recovered:.0} ms\n{}", profile.summary());
    let missing = killed - last_sample_ms(&profile);
    assert!(missing < 1000.0, "{missing:.0} ms are missing\n{stderr}");
    let first = profile.samples().map(|sample| sample.time_ms).fold(f64::MAX, f64::min);
    assert!(first < 1000.0, "the first sample is {first:.0} ms after the start");
    // Nothing is missing in between either, as far as two busy threads get a CPU beside others.
    let mut times: Vec<f64> = profile.samples().map(|sample| sample.time_ms).collect();
    times.sort_by(f64::total_cmp);
    let longest_gap = times.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
    assert!(longest_gap < 500.0, "nothing for {longest_gap:.0} ms");
    assert!(profile.sample_count() > 1000, "{}", profile.summary());
    for (function, expected) in [("sixty", 60.0), ("thirty", 30.0), ("ten", 10.0)] {
        let share = profile.share(|names| names.contains(&"run_split"), |names| names.contains(&function));
        share.assert_is(expected, 8.0, function, &profile);
    }
    assert_eq!(profile.threads_named("splitter-1").count(), 1, "{}", profile.summary());
    assert!(stderr.contains("when it was stopped"), "{stderr}");
    // What was read of the process and of the machine, up to the end.
    for (name, least) in [("memory", 20), ("cpu", 20), ("cpu-wait", 3), ("machine-cpu", 3)] {
        let counters = profile.json["counters"].as_array().unwrap().iter();
        let of_name: Vec<_> = counters.filter(|counter| counter["name"] == name).collect();
        assert!(!of_name.is_empty(), "no {name}");
        let points = of_name[0]["samples"]["length"].as_u64().unwrap();
        assert!(points > least, "{points} points of {name}");
    }
}

/// Kills sprof after some seconds of a recording with these arguments, and loads what it left.
fn killed(arguments: &[&str]) -> Profile {
    let dir = temp_dir();
    let output = dir.path().join("p.json.gz");
    let mut child = sprof()
        .args(["record", "-s", "-o"])
        .arg(&output)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(4));
    child.kill().unwrap();
    child.wait().unwrap();
    let left: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["p.json.gz.partial"]);
    load(&partial(&output), &[]).0
}

#[test]
fn what_ran_before_the_recording_is_told_and_does_not_lengthen_it() {
    let Some(()) = perf_events() else { return };
    let split = program("split").unwrap();
    let mut running = Command::new(split)
        .args(["60000", "1"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // The loader has done its work, and the thread has its name.
    std::thread::sleep(Duration::from_millis(500));
    let profile = killed(&["--unwinder", "framehop", "-p", &running.id().to_string()]);
    running.kill().unwrap();
    running.wait().unwrap();
    assert_eq!(profile.json["meta"]["product"], "split");
    assert_eq!(profile.threads_named("splitter-0").count(), 1, "{}", profile.summary());
    assert!(
        profile.rooted_in("thread_main").percent() > 95.0,
        "{}",
        profile.summary()
    );
    assert!(profile.json["meta"]["profilingEndTime"].as_f64().unwrap() < 60_000.0);
    let by_framehop = &profile.json["meta"]["sprof"]["recorded"]["byFramehop"];
    assert!(by_framehop.as_u64() > Some(1000), "{by_framehop}");
}

#[test]
fn waits_are_there_too() {
    let Some(()) = kernel_samples() else { return };
    // 15 rounds of four times 100 ms.
    let waits = program("waits").unwrap();
    let profile = killed(&["--off-cpu", "--", waits.to_str().unwrap(), "15", "100"]);
    for reason in ["[off-CPU: sleep]", "[off-CPU: pipe or socket]"] {
        assert!(profile.share_of(reason).hits > 3, "{reason}\n{}", profile.summary());
    }
}

#[test]
fn a_whole_recording_leaves_no_spool() {
    let Some(()) = perf_events() else { return };
    let running = record().start(program("split").unwrap(), &["500"]);
    let spool = partial(running.output());
    let start = Instant::now();
    while !spool.exists() {
        assert!(start.elapsed() < Duration::from_secs(20), "no {}", spool.display());
        std::thread::sleep(Duration::from_millis(5));
    }
    let recording = running.finish();
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    recording.assert_tidy();
}

#[test]
fn a_recording_that_a_signal_ends_leaves_no_spool() {
    let Some(()) = perf_events() else { return };
    for signals in [&["INT", "INT"][..], &["TERM"]] {
        let running = record().start(program("split").unwrap(), &["20000"]);
        std::thread::sleep(Duration::from_millis(700));
        for signal in signals {
            running.signal_group(signal);
            std::thread::sleep(Duration::from_millis(100));
        }
        let recording = running.finish();
        assert!(recording.output.exists(), "{}", recording.stderr);
        recording.assert_tidy();
    }
}

#[test]
fn a_program_that_cannot_be_run_leaves_no_spool() {
    let Some(()) = perf_events() else { return };
    let recording = record().run("/no/such/program", &[] as &[&str]);
    assert_eq!(recording.code, Some(127), "{}", recording.stderr);
    recording.assert_tidy();
}

#[test]
fn what_an_earlier_crash_left_is_kept_and_named() {
    let Some(()) = perf_events() else { return };
    let dir = temp_dir();
    let output = dir.path().join("p.json.gz");
    fs::write(partial(&output), "of an earlier one").unwrap();
    let result = sprof()
        .args(["record", "-s", "-o"])
        .arg(&output)
        .arg(program("split").unwrap())
        .arg("300")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "{stderr}");
    let kept = dir.path().join("p.json.gz.partial.2");
    assert_eq!(fs::read(&kept).unwrap(), b"of an earlier one");
    assert!(
        stderr.contains("was cut short") && stderr.contains(kept.to_str().unwrap()),
        "{stderr}"
    );
    assert!(!partial(&output).exists());
}

/// A small file system of its own, unmounted in the end.
pub(crate) struct SmallDisk(pub(crate) tempfile::TempDir);

impl SmallDisk {
    pub(crate) fn mount(kilobytes: u32) -> Option<SmallDisk> {
        let dir = temp_dir();
        let mounted = is_root()
            && Command::new("mount")
                .args(["-t", "tmpfs", "-o", &format!("size={kilobytes}k"), "tmpfs"])
                .arg(dir.path())
                .status()
                .is_ok_and(|status| status.success());
        has(Need::FullDisk, mounted, "a small file system cannot be mounted here").then_some(SmallDisk(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_disk_that_is_full_ends_the_spool_and_not_the_recording() {
    let Some(()) = perf_events() else { return };
    let Some(disk) = SmallDisk::mount(1024) else { return };
    let (output, filler) = (disk.0.path().join("p.json.gz"), disk.0.path().join("filler"));
    // Two pages are left: enough for the head of the spool.
    fs::write(&filler, vec![1; 1024 * 1024 - 8192]).unwrap();
    let mut child = sprof()
        .args(["record", "-s", "-r", "4000", "-o"])
        .arg(&output)
        .arg(program("split").unwrap())
        .args(["1500", "2"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut stderr = String::new();
    while !stderr.contains("recording goes on") && said.read_line(&mut stderr).unwrap() > 0 {}
    // There is room again for the profile.
    fs::remove_file(&filler).unwrap();
    said.read_to_string(&mut stderr).unwrap();
    let status = child.wait().unwrap();
    assert!(status.success(), "{stderr}");
    assert_eq!(stderr.matches("recording goes on").count(), 1, "{stderr}");
    assert!(stderr.contains("No space left"), "{stderr}");
    let profile = Profile::read(&output);
    assert!(
        profile.cpu_ns() > 2.75e9,
        "{} ns\n{}",
        profile.cpu_ns(),
        profile.summary()
    );
    assert!(!partial(&output).exists());
}

#[test]
fn ctrl_backslash_leaves_a_word_about_what_was_recorded() {
    let Some(()) = perf_events() else { return };
    let running = record().start(program("split").unwrap(), &["60000"]);
    let spool = partial(running.output());
    let start = Instant::now();
    while running.targets().into_iter().map(cpu_seconds).sum::<f64>() < 1.5 && start.elapsed() < Duration::from_secs(60)
    {
        std::thread::sleep(Duration::from_millis(50));
    }
    // A terminal sends it to all.
    running.signal_group("QUIT");
    let recording = running.finish();
    // SIGQUIT ends it as ever.
    assert_eq!(recording.signal, Some(3), "{}", recording.stderr);
    let command = format!("{} load {}", env!("CARGO_BIN_EXE_sprof"), spool.display());
    assert!(recording.stderr.contains(&command), "{}", recording.stderr);
    let (profile, _) = load(&spool, &[]);
    assert!(profile.sample_count() > 500, "{}", profile.summary());
}

#[test]
fn a_profile_that_can_be_written_nowhere_leaves_the_spool() {
    let Some(()) = perf_events() else { return };
    let Some(disk) = SmallDisk::mount(4096) else { return };
    let output = disk.0.path().join("p.json.gz");
    // Neither of the other places where a profile would be saved takes one.
    let script = "mount -t tmpfs -o ro tmpfs /dev/shm && exec \"$@\"";
    let child = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_sprof")])
        .args(["record", "-s", "-o"])
        .arg(&output)
        .arg(program("split").unwrap())
        .args(["1500", "2"])
        .env("TMPDIR", "/nonexistent")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while fs::metadata(partial(&output)).map_or(0, |file| file.len()) < 4096 {
        assert!(start.elapsed() < Duration::from_secs(60), "no spool");
        std::thread::sleep(Duration::from_millis(20));
    }
    // All of the rest: that this fails in the end is what is wanted.
    let _ = fs::write(disk.0.path().join("filler"), vec![1; 8 << 20]);
    let result = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&result.stderr);
    assert_eq!(result.status.code(), Some(125), "{stderr}");
    assert!(
        stderr.contains("Nothing was saved") && stderr.contains("is still in"),
        "{stderr}"
    );
    assert!(!output.exists());
    // There is no space beside it.
    let elsewhere = temp_dir();
    let kept = elsewhere.path().join("kept.partial");
    fs::copy(partial(&output), &kept).unwrap();
    let (profile, _) = load(&kept, &[]);
    assert!(profile.share_of("run_split").hits > 0, "{}", profile.summary());
}
