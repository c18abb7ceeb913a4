//! Where perf_event_open is refused, as in most containers, ptrace takes over: the same stacks, statuses and signals.
#![cfg(target_os = "linux")]

use std::collections::HashSet;
use std::time::Duration;

use crate::support;
use crate::support::machine::{alone, one_cpu};
use crate::support::playground::Playground;
use crate::support::run::{Recorder, Running};
use crate::support::schema::parsed;
use crate::support::skip::{IN_NAMESPACE, mount_namespaces, paranoid, perf_events, root};
use crate::support::steal::undisturbed_or_right;
use crate::support::{Profile, Recording, assert_split_of, assert_split_within, program, record, wait_until};

/// sprof under a seccomp filter that answers perf_event_open with this error.
fn refused(error: &str) -> Recorder {
    record().under(&[program("refuse").unwrap().to_str().unwrap(), error])
}

fn start(mode: &str, options: &[&str]) -> Running {
    refused("eperm")
        .options(options)
        .start(program("exits").unwrap(), &[mode])
}

/// sprof under a filter, with 1000 samples a second: a host that takes CPU time away leaves enough of them.
fn refused_at_1000_hz() -> Recorder {
    refused("eperm").options(&["--rate", "1000"])
}

/// A profile with samples of the work that every mode of `exits` does first: 100 ms, 10 samples at 100 Hz. A tracer
/// that waits for its CPU meanwhile takes one.
fn assert_complete(recording: &Recording) {
    let profile = recording.profile();
    let busy = profile.share_of("busy_work");
    assert!(busy.hits > 0, "{busy:?}\n{}\n{}", profile.summary(), recording.stderr);
    assert_eq!(profile.quality()["Event"], "ptrace");
    recording.assert_tidy();
}

#[test]
fn split_of_cpu_time_where_perf_event_open_is_not_permitted() {
    one_cpu();
    undisturbed_or_right(assert_split_by_ptrace);
}

fn assert_split_by_ptrace() {
    let (recording, profile) = refused_at_1000_hz().profile(program("split").unwrap(), &["10000"]);
    // A stopped thread is seen a few microseconds after the moment that was meant. On a slow machine a debug build of
    // sprof takes 500 samples a second, of which a host that takes CPU time away may leave a third. 6.5 points are 5
    // standard deviations of 1500 samples.
    assert_split_within(&profile, "", 1500, 6.5);
    let rooted = profile.rooted_in("main");
    assert!(rooted.percent() >= 99.0, "{}", profile.summary());
    // A stopped thread's stack is copied whole: nothing to complete, nothing to doubt.
    for words in [["unverified"], ["lost"]] {
        assert_eq!(profile.figure(&words), 0.0, "{words:?}: {:?}", profile.quality());
    }
    // Said, with what it costs and what helps.
    for word in [
        "ptrace",
        "stops a thread",
        "kernel functions",
        "--cap-add PERFMON",
        "sprof doctor",
    ] {
        assert!(recording.stderr.contains(word), "no `{word}` in: {}", recording.stderr);
    }
    // And once more where it is looked at: beside the samples, with how much reason for doubt there was.
    let note = profile.quality()["Note"].as_str().unwrap().to_owned();
    for place in [&note, &recording.stderr] {
        assert!(place.contains("enter the kernel have too large a share"), "{place}");
        assert!(place.contains("% of the time that they ran"), "{place}");
    }
    // The samples stand for all the CPU time that the program used by its own account.
    let (sampled_ns, used_ns) = (profile.cpu_ns(), recording.printed("cpu_ns"));
    assert!((sampled_ns / used_ns - 1.0).abs() < 0.02, "{sampled_ns} of {used_ns}");
}

#[test]
fn split_of_cpu_time_on_four_threads_where_there_is_no_perf_event_open() {
    alone();
    undisturbed_or_right(assert_split_on_four_threads);
}

fn assert_split_on_four_threads() {
    let (_, profile) = refused("enosys")
        .options(&["--rate", "1000"])
        .profile(program("split").unwrap(), &["1250", "4"]);
    // On a slow machine a debug build of sprof takes half of the 5000 samples, and fewer where the host takes CPU time
    // away. 8 points are 5 standard deviations of 1000 samples.
    assert_split_within(&profile, "", 1000, 8.0);
    assert!(
        profile.rooted_in("thread_main").percent() >= 99.0,
        "{}",
        profile.summary()
    );
    for i in 0..4 {
        let name = format!("splitter-{i}");
        let threads: Vec<_> = profile.threads_named(&name).collect();
        assert_eq!(threads.len(), 1, "{name}");
        let cpu_ms = threads[0]
            .samples
            .iter()
            .filter_map(|sample| sample.cpu_delta)
            .sum::<f64>()
            / 1e6;
        assert!(
            (1125.0..=1375.0).contains(&cpu_ms),
            "{name} used 1250 ms of CPU time, its samples say {cpu_ms}"
        );
        assert!(threads[0].is_monotonic());
    }
}

#[test]
fn an_ordinary_user_in_a_container_records_all_the_same() {
    if !root() {
        return;
    }
    one_cpu();
    let playground = Playground::new(&["split", "refuse"]);
    let path = playground.path("profile.json.gz");
    let mut command = playground.as_nobody(playground.path("refuse"));
    command.arg("eperm").arg(playground.path("sprof"));
    command
        .args(["record", "--save-only", "--rate", "1000", "-o"])
        .arg(&path);
    command.arg("--").arg(playground.path("split")).arg("5000");
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let profile = Profile::read(&path);
    // An ordinary user's tracer waits for a CPU: it may take a tenth of the 5000 samples. 11 points are 5 standard
    // deviations of 500. On a busy machine more samples are in system calls (`ptrace/policy.rs`). The three make none.
    let loops = ["sixty", "thirty", "ten"];
    let share = |function: &str| {
        profile.share(
            |names| loops.iter().any(|name| names.contains(name)),
            |names| names.contains(&function),
        )
    };
    assert_split_of(share, 500, 11.0, || profile.summary());
    assert!(profile.rooted_in("main").percent() >= 99.0, "{}", profile.summary());
}

#[test]
fn the_rate_falls_to_100_hz_unless_asked_otherwise() {
    let (recording, profile) = refused("eperm").profile(program("split").unwrap(), &["2000"]);
    assert!(recording.stderr.contains("100 Hz"), "{}", recording.stderr);
    assert_eq!(profile.figure(&["asked", "rate"]), 100.0);
    let samples = profile.sample_count();
    // A host that takes CPU time away takes samples, and adds none.
    assert!((30..=400).contains(&samples), "{samples} samples of 2 s at 100 Hz");

    let (recording, profile) = refused("eperm")
        .options(&["--rate", "20000"])
        .profile(program("split").unwrap(), &["200"]);
    assert!(
        recording.stderr.contains("1000 Hz is the highest"),
        "{}",
        recording.stderr
    );
    assert_eq!(profile.figure(&["asked", "rate"]), 1000.0);
}

#[test]
fn forks_and_execs_are_followed() {
    let (recording, profile) = refused_at_1000_hz().profile(program("processes").unwrap(), &["fork", "1000"]);
    let child = recording.printed("child").to_string();
    assert_eq!(profile.pids().len(), 2, "{:?}", profile.pids());
    let in_function = |function: &str, of_child: bool| {
        let threads = profile
            .threads
            .iter()
            .filter(|thread| (thread.pid == child) == of_child);
        let stacks = threads
            .flat_map(|thread| &thread.samples)
            .filter_map(|sample| sample.stack);
        stacks
            .filter(|&stack| profile.names(stack).any(|name| name == function))
            .count()
    };
    assert!(in_function("child_work", true) > 30, "{}", profile.summary());
    assert!(in_function("parent_work", false) > 30, "{}", profile.summary());
    assert_eq!(
        (in_function("child_work", false), in_function("parent_work", true)),
        (0, 0)
    );

    let (recording, profile) = refused_at_1000_hz().profile(program("processes").unwrap(), &["exec", "1000"]);
    let child = recording.printed("child").to_string();
    let busy = profile
        .threads
        .iter()
        .max_by_key(|thread| thread.samples.len())
        .unwrap();
    let is_child = profile
        .threads_of(&child, &busy.process_name)
        .any(|thread| thread.pid == busy.pid);
    assert!(is_child && busy.is_main && ["exe", "processes"].contains(&&*busy.process_name));
    let rooted = profile.share(|names| names.contains(&"exec_work"), |names| names.contains(&"main"));
    assert!(rooted.hits > 30 && rooted.hits == rooted.of, "{}", profile.summary());
}

#[test]
fn four_hundred_short_processes_are_followed_to_their_ends() {
    alone();
    let (_, profile) = refused("eperm").profile(program("processes").unwrap(), &["many", "400"]);
    assert_eq!(profile.figure(&["processes"]), 401.0);
}

#[test]
fn a_thread_that_calls_exec_becomes_the_process() {
    let recording = refused_at_1000_hz().run(program("traced").unwrap(), &["thread-exec", "500"]);
    assert_eq!(recording.code, Some(4), "{}", recording.stderr);
    let profile = recording.profile();
    // A process with a sample before the call is two: 7 and 7.1.
    let pids = profile.pids();
    let numbers: HashSet<&str> = pids.iter().filter_map(|pid| pid.split('.').next()).collect();
    assert_eq!(numbers.len(), 1, "{pids:?}");
    let share = profile.share_of("exec_work");
    assert!(share.hits > 20 && share.percent() > 90.0, "{}", profile.summary());
}

#[test]
fn a_child_of_vfork_is_followed_and_its_parent_gets_its_status() {
    let (recording, profile) = refused_at_1000_hz().profile(program("traced").unwrap(), &["vfork", "500"]);
    assert_eq!(recording.printed("status"), 4.0);
    assert!(profile.share_of("exec_work").hits > 20, "{}", profile.summary());
    assert_eq!(profile.figure(&["processes"]), 2.0);
}

#[test]
fn a_library_that_is_loaded_later_has_its_stacks_and_names() {
    one_cpu();
    let library = program("library.so").unwrap();
    // After a reading of the mappings, the next one is 20 times as late as the reading took (`ptrace/maps.rs`). A host
    // that takes the CPU away meanwhile makes it take long.
    undisturbed_or_right(|| {
        let arguments = [library.to_str().unwrap(), "1000"];
        let (_, profile) = refused_at_1000_hz().profile(program("dlopen").unwrap(), &arguments);
        let rooted = profile.share(
            |names| names.contains(&"library_work"),
            |names| names.contains(&"through_library") && names.contains(&"main"),
        );
        assert!(
            rooted.of > 50 && rooted.hits == rooted.of,
            "{rooted:?}\n{}",
            profile.summary()
        );
    });
}

#[test]
fn statuses_are_those_of_the_program() {
    for (arguments, status) in [
        (&["status", "0"][..], 0),
        (&["status", "3"], 3),
        (&["segv"], 139),
        (&["abort"], 134),
    ] {
        let recording = refused("eperm").run(program("exits").unwrap(), arguments);
        assert_eq!(recording.code, Some(status), "{arguments:?}: {}", recording.stderr);
        assert_complete(&recording);
    }
    let recording = refused("eperm").run::<&str>("/no/such/program", &[]);
    assert_eq!(recording.code, Some(127), "{}", recording.stderr);

    let dir = support::temp_dir();
    let script = dir.path().join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    let recording = refused("eperm").run::<&str>(&script, &[]);
    assert_eq!(recording.code, Some(126), "{}", recording.stderr);
    assert!(recording.stderr.contains("interpreter"), "{}", recording.stderr);
}

#[test]
fn the_program_owns_the_standard_streams() {
    let recording = refused("eperm")
        .stdin(b"one\ntwo\n")
        .run(program("exits").unwrap(), &["stdin"]);
    assert_eq!(
        (recording.code, &*recording.stdout),
        (Some(0), "one\ntwo\n"),
        "{}",
        recording.stderr
    );
}

#[test]
fn ctrl_c_goes_to_the_program_and_the_profile_is_finished() {
    let running = start("catch-int", &[]);
    running.wait_for("ready");
    running.signal_group("INT");
    let recording = running.finish();
    assert_eq!(recording.code, Some(7), "{}", recording.stderr);
    assert!(recording.stdout.contains("caught"), "{}", recording.stdout);
    assert_complete(&recording);

    let running = start("catch-int", &[]);
    running.wait_for("ready");
    running.signal_sprof("INT");
    let recording = running.finish();
    assert_eq!(recording.code, Some(7), "to sprof alone: {}", recording.stderr);
    assert_complete(&recording);
}

#[test]
fn a_second_ctrl_c_stops_a_program_that_ignores_the_first() {
    let running = start("ignore-int", &[]);
    running.wait_for("ready");
    running.signal_group("INT");
    running.wait_until_interrupted();
    running.signal_group("INT");
    let recording = running.finish();
    assert_ne!(recording.code, Some(0), "{}", recording.stderr);
    assert_complete(&recording);
}

#[test]
fn sigterm_goes_to_the_program_and_the_profile_is_written() {
    let running = start("sleep", &[]);
    running.wait_for("ready");
    running.signal_sprof("TERM");
    let recording = running.finish();
    assert_eq!(recording.code, Some(143), "{}", recording.stderr);
    assert_complete(&recording);
}

#[test]
fn a_duration_ends_the_program_with_its_children_even_if_they_ignore_it() {
    let running = ["sleep", "tree", "ignore-term"].map(|mode| start(mode, &["--duration", "3"]));
    for recording in running.map(Running::finish) {
        assert_complete(&recording);
    }
}

#[test]
fn keep_running_leaves_the_program_running_and_untraced() {
    let running = start("sleep", &["--duration", "3", "--keep-running"]);
    running.wait_for("ready");
    let program = running.targets()[0];
    // While the profile is written the program lives on; sprof ends when it is.
    wait_until_untraced(program);
    // It may not have come to its sleep yet. A program that was left stopped never does.
    let state = || status_line(program, "State:");
    wait_until(
        || state().is_some_and(|state| state.starts_with('S')),
        || format!("the program sleeps: {:?}", state()),
    );
    let recording = running.finish();
    assert_eq!(recording.left_behind().len(), 1, "{:?}", recording.left_behind());
}

#[test]
fn a_program_outlives_sprof_that_is_killed() {
    let running = start("sleep", &[]);
    running.wait_for("ready");
    let program = running.targets()[0];
    assert_ne!(status_line(program, "TracerPid:").as_deref(), Some("0"));
    running.signal_sprof("KILL");
    wait_until_untraced(program);
    let state = status_line(program, "State:").unwrap_or_default();
    assert!(state.starts_with('S') || state.starts_with('R'), "{state}");
    let recording = running.finish();
    assert_eq!(recording.left_behind().len(), 1, "it went down with sprof");
}

#[test]
fn a_program_that_is_stopped_stays_so_until_it_is_continued() {
    let running = refused_at_1000_hz().start(program("traced").unwrap(), &["stop", "500"]);
    running.wait_for("ready");
    let program = running.targets()[0];
    // A traced thread in its group-stop is in the state t, tracing stop.
    let is_stopped = || status_line(program, "State:").is_some_and(|state| state.to_lowercase().starts_with('t'));
    wait_until(is_stopped, || {
        format!("the program is stopped: {:?}", status_line(program, "State:"))
    });
    std::thread::sleep(Duration::from_millis(200));
    assert!(is_stopped(), "the ticks must not wake it");
    let pid = program.to_string();
    assert!(
        std::process::Command::new("kill")
            .args(["-s", "CONT", &pid])
            .status()
            .unwrap()
            .success()
    );
    let recording = running.finish();
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    assert!(recording.stdout.contains("continued"));
    let profile = recording.profile();
    for function in ["before_stop", "after_stop"] {
        assert!(
            profile.share_of(function).hits > 20,
            "{function}: {}",
            profile.summary()
        );
    }
}

#[test]
fn a_thousand_signals_a_second_all_arrive() {
    alone();
    let (recording, profile) = refused("eperm").profile(program("traced").unwrap(), &["signals", "1000"]);
    // A pause that the host makes counts as CPU time here and there, and one signal comes after it.
    assert!(recording.printed("ticks") > 100.0, "{}", recording.stdout);
    let rooted = profile.share(|names| names.contains(&"exec_work"), |names| names.contains(&"main"));
    assert!(
        rooted.of > 20 && rooted.percent() > 98.0,
        "{rooted:?}\n{}",
        profile.summary()
    );
}

#[test]
fn a_program_without_any_allowed_way_to_be_recorded_is_told_why_and_what_helps() {
    let refuse = program("refuse").unwrap();
    let recording = record()
        .under(&[refuse.to_str().unwrap(), "eperm", "ptrace"])
        .run(program("exits").unwrap(), &["status", "0"]);
    assert_eq!(recording.code, Some(125), "{}", recording.stderr);
    for word in [
        "perf_event_open",
        "ptrace",
        "--cap-add PERFMON",
        "SYS_PTRACE",
        "sprof doctor",
    ] {
        assert!(recording.stderr.contains(word), "no `{word}` in: {}", recording.stderr);
    }
    recording.assert_nothing_left();
}

/// What `sprof doctor` says, with `--json` and without.
fn doctor(run: impl Fn(&[&str]) -> std::process::Output) -> (String, serde_json::Value) {
    let text = run(&["doctor"]);
    assert_eq!(text.status.code(), Some(0), "{text:?}");
    let text = String::from_utf8(text.stdout).unwrap();
    // Prose is wrapped; commands are not.
    let prose = text.lines().filter(|line| !line.trim_start().starts_with('>'));
    assert!(prose.clone().all(|line| line.chars().count() <= 80), "{text}");
    let json = run(&["doctor", "--json"]).stdout;
    let json: serde_json::Value = parsed(&json);
    assert_eq!(
        (json["schema"].as_str(), json["schema_version"].as_u64()),
        (Some("sprof-doctor"), Some(1))
    );
    (text, json)
}

/// State and mends of a way to record.
fn way(json: &serde_json::Value, id: &str) -> (String, String) {
    let ways = json["ways"].as_array().unwrap();
    let way = ways
        .iter()
        .find(|way| way["id"] == id)
        .unwrap_or_else(|| panic!("no {id} in {json}"));
    (way["state"].as_str().unwrap().to_owned(), way["mends"].to_string())
}

#[test]
fn the_doctor_in_a_container_names_ptrace_and_what_gives_back_perf_event() {
    let refuse = program("refuse").unwrap();
    for error in ["eperm", "enosys"] {
        let (text, json) = doctor(|arguments| {
            let mut command = std::process::Command::new(&refuse);
            command.arg(error).arg(support::sprof().get_program()).args(arguments);
            command.output().unwrap()
        });
        assert_eq!(json["used"], "ptrace", "{text}");
        assert_eq!(way(&json, "ptrace").0, "works");
        for id in ["perf-kernel", "perf-user"] {
            let (state, mends) = way(&json, id);
            assert_eq!(state, "fails", "{id}");
            assert_eq!(mends.contains("--cap-add PERFMON"), error == "eperm", "{id}: {mends}");
        }
        assert!(text.contains("`sprof record` uses ptrace"), "{text}");
    }
}

#[test]
fn the_doctor_where_nothing_works_ends_with_status_125() {
    let output = std::process::Command::new(program("refuse").unwrap())
        .args(["eperm", "ptrace"])
        .arg(support::sprof().get_program())
        .arg("doctor")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(125), "{text}");
    assert!(
        text.contains("SYS_PTRACE") && text.contains("Nothing can be recorded"),
        "{text}"
    );
}

#[test]
fn the_doctor_of_an_ordinary_user_tells_how_to_see_the_kernel() {
    if !root() || paranoid() != Some(2) {
        return;
    }
    let playground = Playground::new(&[]);
    let (text, json) = doctor(|arguments| {
        let mut command = playground.as_nobody(playground.path("sprof"));
        command.args(arguments).output().unwrap()
    });
    assert_eq!(json["used"], "perf-user", "{text}");
    let (state, mends) = way(&json, "perf-kernel");
    assert_eq!(state, "fails");
    assert!(
        mends.contains("kernel.perf_event_paranoid=1") && mends.contains("cap_perfmon"),
        "{mends}"
    );
}

#[test]
fn the_doctor_of_root_finds_all_ways_open() {
    if !root() || paranoid().is_none() {
        return;
    }
    let (text, json) = doctor(|arguments| support::sprof().args(arguments).output().unwrap());
    assert_eq!(json["used"], "perf-kernel", "{text}");
    for id in ["perf-kernel", "perf-user", "ptrace"] {
        assert_eq!(way(&json, id).0, "works", "{id}: {text}");
    }
    let limits = json["limits"].as_array().unwrap();
    let ids: Vec<&str> = limits.iter().map(|limit| limit["id"].as_str().unwrap()).collect();
    let expected = [
        "perf-event-paranoid",
        "pmu",
        "memlock",
        "kptr-restrict",
        "breakpoints",
        "uprobes",
        "kprobes",
        "kernel-symbols",
        "libc-symbols",
    ];
    assert_eq!(ids, expected);
    // Debian's libc6-dbg puts the debug file where only the build id leads to.
    let installed = std::process::Command::new("dpkg-query")
        .args(["-W", "-f", "${Status}", "libc6-dbg"])
        .output();
    if installed.is_ok_and(|output| output.stdout.ends_with(b"ok installed")) {
        let libc = limits.last().unwrap();
        assert_eq!(libc["state"], "works", "{text}");
        assert!(text.contains("source lines"), "{text}");
    }
}

/// A field of /proc/PID/status.
fn status_line(pid: u32, field: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    Some(line.trim().to_owned())
}

fn wait_until_untraced(program: u32) {
    wait_until(
        || status_line(program, "TracerPid:").as_deref() == Some("0"),
        || format!("the program is untraced: {:?}", status_line(program, "TracerPid:")),
    );
}

/// An empty folder as the root (chroot(2)) has neither.
#[test]
fn without_proc_and_sysfs_perf_event_records_and_ptrace_says_what_it_needs() {
    let Some(()) = perf_events() else { return };
    if !mount_namespaces() {
        return;
    }
    let without = "mount -t tmpfs none /proc; mount -t tmpfs none /sys; exec \"$@\"";
    let (exits, refuse) = (program("exits").unwrap(), program("refuse").unwrap());
    let under = [&["unshare"], IN_NAMESPACE, &[without, "sh"]].concat();
    // 100 ms of CPU time, of which a host may take away two thirds.
    let (recording, profile) = record().under(&under).profile(&exits, &["status", "0"]);
    let busy = profile.share_of("busy_work");
    assert!(busy.hits > 5, "{busy:?}\n{}", recording.stderr);
    assert!(
        recording.stderr.contains("/proc is not mounted"),
        "{}",
        recording.stderr
    );

    let refused = [&under[..], &[refuse.to_str().unwrap(), "eperm"]].concat();
    let recording = record().under(&refused).run(&exits, &["status", "0"]);
    assert_eq!(recording.code, Some(125), "{}", recording.stderr);
    assert!(
        recording.stderr.contains("mount -t proc proc /proc"),
        "{}",
        recording.stderr
    );
}
