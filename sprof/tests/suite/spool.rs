//! What is left of a recording when sprof, the disk or the user ends it early.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::perf::load;
use crate::support::run::output;
use crate::support::skip::{Need, has, is_root, kernel_samples, perf_events};
use crate::support::target::{Target, cpu_ms, wait_for_thread};
use crate::support::{Profile, program, record, sprof, temp_dir, wait_until};

/// `<output>.partial`.
fn partial(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

/// Waits until the file of a recording that goes on has enough.
pub(crate) fn wait_until_written(spool: &Path, is_enough: impl Fn(&Profile) -> bool) {
    let dir = temp_dir();
    let (copy, saved) = (dir.path().join("copy.partial"), dir.path().join("saved.json.gz"));
    let mut load = sprof();
    load.args(["load", "--save-only", "-o"]).arg(&saved).arg(&copy);
    let load = std::cell::RefCell::new(load);
    let has_enough = || {
        let is_loaded = fs::copy(spool, &copy).is_ok() && output(&mut load.borrow_mut()).status.success();
        is_loaded && is_enough(&Profile::read(&saved))
    };
    wait_until(has_enough, || format!("{} has too little", spool.display()));
}

#[test]
fn killed_recordings_are_there_up_to_the_last_write() {
    let Some(()) = perf_events() else { return };
    let running = record().start(program("split").unwrap(), &["60000", "2"]);
    running.wait_for_cpu_ms(1500.0);
    let [pid] = running.targets()[..] else {
        panic!("{:?}", running.targets())
    };
    let used_ms = cpu_ms(&pid.to_string());
    let spool = partial(running.output());
    let is_whole = |profile: &Profile| profile.cpu_ns() / 1e6 > 0.97 * used_ms;
    // What was read of the process and of the machine: seldom, where a reading takes long.
    let points_of = |profile: &Profile, name: &str| {
        let counters = profile.json["counters"].as_array().into_iter().flatten();
        let points = counters.filter(|counter| counter["name"] == name);
        points
            .map(|counter| counter["samples"]["length"].as_u64().unwrap())
            .max()
    };
    let counters = ["memory", "cpu", "cpu-wait", "machine-cpu"];
    let has_points = |profile: &Profile| counters.into_iter().all(|name| points_of(profile, name) > Some(3));
    wait_until_written(&spool, |profile| is_whole(profile) && has_points(profile));
    running.signal_sprof("KILL");
    let dir = temp_dir();
    let kept = dir.path().join("killed.partial");
    fs::copy(&spool, &kept).unwrap_or_else(|error| panic!("{}: {error}", spool.display()));
    let recording = running.finish();
    assert_eq!(recording.signal, Some(9), "{}", recording.stderr);
    // sprof was asked to leave nothing behind, but not by its last signal.
    assert!(!recording.left_behind().is_empty());

    let (profile, stderr) = load(&kept, &[]);
    // Nothing is missing in between either.
    assert!(is_whole(&profile), "{used_ms} ms of CPU time\n{stderr}");
    for (function, expected) in [("sixty", 60.0), ("thirty", 30.0), ("ten", 10.0)] {
        let share = profile.share(|names| names.contains(&"run_split"), |names| names.contains(&function));
        share.assert_is(expected, 8.0, function, &profile);
    }
    assert_eq!(profile.threads_named("splitter-1").count(), 1, "{}", profile.summary());
    assert!(stderr.contains("when it was stopped"), "{stderr}");
    for name in counters {
        let points = points_of(&profile, name);
        assert!(points > Some(3), "{points:?} points of {name}");
    }
}

/// Kills sprof once the file of its recording with these options has enough of some work, and loads what it left.
fn killed(options: &[&str], work: impl FnOnce(), is_enough: impl Fn(&Profile) -> bool) -> Profile {
    let running = record().options(options).attach();
    running.wait_for_sprof("Ctrl-C ends");
    work();
    let spool = partial(running.output());
    wait_until_written(&spool, is_enough);
    running.signal_sprof("KILL");
    let _recording = running.finish();
    let left = fs::read_dir(spool.parent().unwrap()).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["profile.json.gz.partial"]);
    load(&spool, &[]).0
}

#[test]
fn what_ran_before_the_recording_is_told_and_does_not_lengthen_it() {
    let Some(()) = perf_events() else { return };
    let split = Target::start(program("split").unwrap(), &["60000", "1"]);
    // The loader has done its work, and the thread has its name.
    wait_for_thread(&split.pid(), "splitter-0");
    let by_framehop = |profile: &Profile| profile.json["meta"]["sprof"]["recorded"]["byFramehop"].as_u64();
    let options = ["--unwinder", "framehop", "-p", &split.pid()];
    let profile = killed(&options, || (), |profile| by_framehop(profile) > Some(1000));
    assert_eq!(profile.json["meta"]["product"], "split");
    assert_eq!(profile.threads_named("splitter-0").count(), 1, "{}", profile.summary());
    assert!(
        profile.rooted_in("thread_main").percent() > 95.0,
        "{}",
        profile.summary()
    );
    assert!(profile.json["meta"]["profilingEndTime"].as_f64().unwrap() < 60_000.0);
    assert!(by_framehop(&profile) > Some(1000), "{}", profile.summary());
}

#[test]
fn waits_are_there_too() {
    let Some(()) = kernel_samples() else { return };
    let mut waits = Target::start(program("waits").unwrap(), &["4", "50", "told", "forever"]);
    let pid = waits.pid();
    let has_waits = |profile: &Profile| {
        let reasons = ["[off-CPU: sleep]", "[off-CPU: pipe or socket]"];
        reasons.iter().all(|reason| profile.share_of(reason).hits > 3)
    };
    let profile = killed(&["--off-cpu", "-p", &pid], || drop(waits.ask()), has_waits);
    assert!(has_waits(&profile), "{}", profile.summary());
}

#[test]
fn a_whole_recording_leaves_no_spool() {
    let Some(()) = perf_events() else { return };
    // The program ends once its spool was seen.
    let dir = temp_dir();
    let go_on = dir.path().join("go-on");
    let script = format!(
        "until [ -e {} ]; do sleep 0.01; done; exec {} 100",
        go_on.display(),
        program("split").unwrap().display()
    );
    let running = record().start("sh", &["-c", &script]);
    let spool = partial(running.output());
    wait_until(|| spool.exists(), || format!("no {}", spool.display()));
    fs::write(&go_on, "").unwrap();
    let recording = running.finish();
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    recording.assert_tidy();
}

#[test]
fn a_recording_that_a_signal_ends_leaves_no_spool() {
    let Some(()) = perf_events() else { return };
    for signals in [&["INT", "INT"][..], &["TERM"]] {
        let running = record().start(program("split").unwrap(), &["20000"]);
        running.wait_for_cpu_ms(300.0);
        for signal in signals {
            running.signal_group(signal);
            running.wait_until_interrupted();
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
    // Of 3 s of CPU time: a host that takes two thirds of it away leaves half. The spool ended in the first second.
    let profile = Profile::read(&output);
    let end_ms = profile.json["meta"]["profilingEndTime"].as_f64().unwrap();
    let later = profile.samples().filter(|sample| sample.time_ms > end_ms / 2.0).count();
    assert!(
        profile.cpu_ns() > 0.9e9 && later as f64 > 0.1 * profile.sample_count() as f64,
        "{} ns, {later} samples in the second half\n{}",
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
    wait_until_written(&spool, |profile| profile.sample_count() > 500);
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
    // The program ends once there is no space, or with the test.
    let elsewhere = temp_dir();
    let wait = elsewhere.path().join("wait");
    fs::write(&wait, "").unwrap();
    let recorded = format!(
        "{} 700 2; while [ -e {} ]; do sleep 0.01; done",
        program("split").unwrap().display(),
        wait.display()
    );
    let child = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_sprof")])
        .args(["record", "-s", "-o"])
        .arg(&output)
        .args(["--", "sh", "-c", &recorded])
        .env("TMPDIR", "/nonexistent")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until_written(&partial(&output), |profile| profile.share_of("run_split").hits > 0);
    // All of the rest: that this fails in the end is what is wanted.
    let _ = fs::write(disk.0.path().join("filler"), vec![1; 8 << 20]);
    fs::remove_file(&wait).unwrap();
    let result = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&result.stderr);
    assert_eq!(result.status.code(), Some(125), "{stderr}");
    assert!(
        stderr.contains("Nothing was saved") && stderr.contains("is still in"),
        "{stderr}"
    );
    assert!(!output.exists());
    // There is no space beside it.
    let kept = elsewhere.path().join("kept.partial");
    fs::copy(partial(&output), &kept).unwrap();
    let (profile, _) = load(&kept, &[]);
    assert!(profile.share_of("run_split").hits > 0, "{}", profile.summary());
}
