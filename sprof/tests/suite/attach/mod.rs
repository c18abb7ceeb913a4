//! Recording what runs already: processes that are attached to, and the whole machine.
#![cfg(target_os = "linux")]

mod machine;
mod threads;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support;
use crate::support::machine::alone;
use crate::support::playground::Playground;
use crate::support::schema::parsed;
use crate::support::skip::{Need, has, perf_events, root};
use crate::support::steal::{undisturbed_or_right, with_stolen_ms};
use crate::support::target::{Target, cpu_ms, number_in, wait_for_cpu_ms, wait_for_thread};
use crate::support::{Profile, Recording, copy_program, program, record, sprof, wait_until};

fn attach(pid: &str, options: &[&str]) -> Recording {
    record().options(&["-p", pid]).options(options).attach().finish()
}

fn attached_profile(pid: &str, options: &[&str]) -> Profile {
    let recording = attach(pid, options);
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    recording.assert_tidy();
    recording.profile()
}

fn is_alive(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(") ").unwrap().1.starts_with(['Z', 'X']))
}

/// What a process did in this much CPU time.
fn profile_of_cpu_ms(target: &Target, options: &[&str], used_ms: f64) -> (Recording, Profile) {
    let running = record().options(&["-p", &target.pid()]).options(options).attach();
    let recording = running.finish_after_cpu_ms(&[target.pid()], used_ms);
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    recording.assert_tidy();
    let profile = recording.profile();
    (recording, profile)
}

fn samples_of(profile: &Profile, pid: &str) -> usize {
    let threads = profile.threads.iter().filter(|thread| thread.pid == pid);
    threads.map(|thread| thread.samples.len()).sum()
}

#[test]
fn a_shell_with_two_busy_children_has_the_right_shares() {
    let Some(()) = perf_events() else { return };
    alone();
    // A pause that the host makes counts as CPU time of one child on some kernels, and has no samples.
    undisturbed_or_right(assert_shares_of_two_children);
}

fn assert_shares_of_two_children() {
    // /proc says what both use. On one CPU that is 9 to 1 at all times, by the weights of their niceness. On two it
    // changed with what else ran, and the recording begins later and ends earlier than the two readings of /proc.
    let split = program("split").unwrap();
    let script = format!(
        "taskset -c 0 {0} 600000 & echo $!; nice -n 10 taskset -c 0 {0} 600000 & echo $!; wait",
        split.display()
    );
    let mut shell = Target::start("sh", &["-c", &script]);
    let children = [shell.line(), shell.line()];
    // The shell prints a process id before that process is `taskset`, and then `split`.
    for pid in &children {
        wait_for_thread(pid, "split");
        wait_for_cpu_ms(pid, cpu_ms(pid) + 10.0);
    }
    let before = children.each_ref().map(|pid| cpu_ms(pid));
    // The other child uses nine times as much.
    let running = record().options(&["-p", &shell.pid(), "-r", "4000"]).attach();
    let recording = running.finish_after_cpu_ms(&children, 170.0);
    let used: Vec<f64> = (children.iter().zip(before))
        .map(|(pid, before)| cpu_ms(pid) - before)
        .collect();
    for child in &children {
        assert!(is_alive(child));
        Command::new("kill").arg(child).status().unwrap();
    }
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    let profile = recording.profile();

    let samples = children.each_ref().map(|pid| samples_of(&profile, pid) as f64);
    // Of 6,800: with two thirds of the CPU time taken away by the host there are half of them.
    assert!(samples.iter().sum::<f64>() > 2500.0, "{}", profile.summary());
    let (true_share, share) = (
        100.0 * used[0] / (used[0] + used[1]),
        100.0 * samples[0] / (samples[0] + samples[1]),
    );
    assert!(
        (true_share - share).abs() <= 3.0,
        "{share} % of the samples, {true_share} % of the time"
    );
    let sixty = profile.share(|names| names.contains(&"run_split"), |names| names.contains(&"sixty"));
    // 5 standard deviations of 2,500 samples.
    sixty.assert_is(60.0, 5.0, "sixty", &profile);
    assert!(profile.rooted_in("main").percent() >= 98.0, "{}", profile.summary());
    // The shell itself did nothing; it is there as the parent.
    assert!(profile.pids().contains(&*shell.pid()), "{:?}", profile.pids());
    for thread in profile.threads.iter().filter(|thread| children.contains(&thread.pid)) {
        assert_eq!(thread.process_name, "split");
        assert!(thread.start_ms <= 0.0, "it ran before: {}", thread.start_ms);
    }
}

/// As perf has it: `perf record -ag -- sleep 10`.
#[test]
fn a_command_beside_p_or_a_says_how_long_and_has_its_status() {
    let Some(()) = perf_events() else { return };
    let mut target = Target::start(program("attached").unwrap(), &["stages"]);
    assert_eq!(target.line(), "early");
    // Until the target has used 100 ms more of CPU time (field 14 of proc_pid_stat(5)): half a second on the wall may
    // hold none.
    let script = format!(
        "used() {{ cut -d' ' -f14 /proc/{}/stat; }}; end=$(($(used) + 10)); \
         until [ \"$(used)\" -ge $end ]; do sleep 0.02; done; echo of the command; exit 3",
        target.pid()
    );
    let script = ["-c", &script];
    let whom: [&[&str]; 2] = [&["-g", "-p", &target.pid()], &["-ag"]];
    for options in whom {
        if options[0] == "-ag" && !root() {
            continue;
        }
        let recording = record().options(options).run("sh", &script);
        assert_eq!(recording.code, Some(3), "{options:?}: {}", recording.stderr);
        assert_eq!(recording.stdout, "of the command\n", "{options:?}");
        recording.assert_tidy();
        assert!(is_alive(&target.pid()), "{options:?}: what was recorded was ended");
        let profile = recording.profile();
        assert!(
            samples_of(&profile, &target.pid()) > 20,
            "{options:?}\n{}",
            profile.summary()
        );
    }
    // What can't be run is said, and nothing is left.
    let recording = record()
        .options(&["-p", &target.pid()])
        .run::<&str>("/no/such/program", &[]);
    assert_eq!(recording.code, Some(127), "{}", recording.stderr);
    // The first Ctrl-C ends the recording, and the command with it.
    let running = record().options(&["-p", &target.pid()]).start("sleep", &["100"]);
    running.wait_for_sprof("recording");
    running.signal_sprof("INT");
    let recording = running.finish();
    assert!(recording.stderr.contains("ended by Ctrl-C"), "{}", recording.stderr);
    recording.assert_tidy();
    assert!(is_alive(&target.pid()));
}

#[test]
fn one_thread_is_singular() {
    let Some(()) = perf_events() else { return };
    let target = Target::start("sleep", &["100"]);
    let recording = attach(&target.pid(), &["-d", "0.2"]);
    assert!(
        recording.stderr.contains("recording sleep (1 process, 1 thread);"),
        "{}",
        recording.stderr
    );
}

#[test]
fn recording_ends_when_all_targets_have_ended() {
    let Some(()) = perf_events() else { return };
    // They work, and end, once sprof has attached, however long that takes.
    let attached = program("attached").unwrap();
    let mut targets = ["100", "200"].map(|cpu_ms| Target::start(&attached, &["burst", "1", cpu_ms]));
    for target in &mut targets {
        assert_eq!(target.line(), "ready");
    }
    let pids = targets.each_ref().map(Target::pid);
    let running = record().options(&["-p", &pids.join(","), "--json"]).attach();
    running.wait_for_sprof("Ctrl-C ends");
    let worked_ms = targets
        .each_mut()
        .map(|target| number_in(&target.ask(), "burst-000") / 1e6);
    // The targets end on their own; only then does somebody wait for them.
    let reaper = std::thread::spawn(move || targets.map(|mut target| target.child.wait().unwrap().success()));
    let recording = running.finish();
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    assert_eq!(reaper.join().unwrap(), [true, true]);
    let summary: serde_json::Value = parsed(&recording.stdout);
    assert_eq!(summary["ended_by"], "program");
    assert!(summary["exit"].is_null(), "{summary}");
    assert_eq!(summary["program"], "attached, attached");
    let profile = recording.profile();
    for (pid, worked_ms) in pids.iter().zip(worked_ms) {
        // A sample a millisecond, but in pauses that the host makes. The program prints its time without long ones.
        let samples = samples_of(&profile, pid) as f64;
        assert!(
            samples > 0.1 * worked_ms,
            "{samples} samples in {worked_ms} ms\n{}",
            profile.summary()
        );
        let thread = profile.threads.iter().find(|thread| thread.pid == *pid).unwrap();
        assert!(thread.end_ms.is_some());
    }
}

#[test]
fn static_programs_are_recorded() {
    let Some(()) = perf_events() else { return };
    let Some(split) = program("split_static") else { return };
    let target = Target::start(split, &["60000"]);
    let (_, profile) = profile_of_cpu_ms(&target, &["-r", "4000"], 1000.0);
    let sixty = profile.share_of("sixty");
    // Of 4,000: a host that takes two thirds of the CPU time away leaves half. 6.5 is 5 standard deviations of 1,500.
    assert!(sixty.of > 1500, "{}", profile.summary());
    sixty.assert_is(60.0, 6.5, "sixty", &profile);
    assert!(profile.rooted_in("main").percent() > 98.0, "{}", profile.summary());
}

#[test]
fn what_cannot_be_attached_to_is_said_with_the_next_step() {
    // A zombie: ended, and not waited for.
    let mut zombie = Command::new("true").spawn().unwrap();
    let zombie_pid = zombie.id().to_string();
    while is_alive(&zombie_pid) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut target = Target::start(program("attached").unwrap(), &["crowd", "1"]);
    assert_eq!(target.line(), "ready");
    let thread = std::fs::read_dir(format!("/proc/{}/task", target.pid()))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .find(|tid| *tid != target.pid())
        .unwrap();
    let use_process = format!("-p {}", target.pid());
    for (pid, words) in [
        ("4194304", &["no process 4194304", "ps -e"][..]),
        (&*zombie_pid, &["zombie", "parent", &std::process::id().to_string()]),
        (&*thread, &["is a thread of process", &use_process]),
    ] {
        let recording = attach(pid, &["-d", "5"]);
        assert_eq!(recording.code, Some(125), "{pid}: {}", recording.stderr);
        for word in words {
            assert!(recording.stderr.contains(word), "{pid}, {word}: {}", recording.stderr);
        }
        assert!(!recording.output.exists());
        recording.assert_tidy();
    }
    zombie.wait().unwrap();
    for usage in [&["-p", "x"][..], &["-p", "0"], &["-p", "1", "-a"], &["-p", "1", "2"]] {
        let output = sprof().arg("record").args(usage).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{usage:?}");
    }
    target.end();
}

#[test]
fn process_one_gives_a_profile_or_a_reason() {
    let Some(()) = perf_events() else { return };
    let running = record().options(&["-p", "1", "-d", "0.3"]).attach();
    let own = running.sprof_pid().to_string();
    let recording = running.finish();
    match recording.code {
        Some(0) => {
            // By its process id: below process 1 there may be the sprof of another test.
            let profile = recording.profile();
            let mut pids = profile.threads.iter().map(|thread| thread.pid.split('.').next());
            assert!(!pids.any(|pid| pid == Some(&*own)), "sprof records itself");
        }
        Some(125) => assert!(recording.stderr.contains("process 1 ("), "{}", recording.stderr),
        other => panic!("{other:?}: {}", recording.stderr),
    }
    recording.assert_tidy();
}

#[test]
fn kernel_threads_are_recorded_with_whole_stacks() {
    let Some(()) = perf_events() else { return };
    alone();
    if !root() {
        return;
    }
    // kthreadd, whose children are all threads of the kernel. They may have nothing to do.
    let is_kthreadd = std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n");
    if !has(Need::Attach, is_kthreadd, "no kernel threads in this PID namespace") {
        return;
    }
    let profile = attached_profile("2", &["-d", "1"]);
    assert_eq!(profile.threads[0].process_name, "kthreadd");
    let marked = profile.share(
        |_| true,
        |names| names.iter().any(|name| support::profile::is_mark(name)),
    );
    assert_eq!(marked.hits, 0, "{}", profile.summary());
}

#[test]
fn a_program_of_32_bits_is_counted_and_what_is_missing_is_said() {
    let Some(()) = perf_events() else { return };
    let Some(spin) = program("spin_32") else { return };
    let target = Target::start(spin, &["-"]);
    let (recording, profile) = profile_of_cpu_ms(&target, &[], 400.0);
    let missing = profile.share(|_| true, |names| names.contains(&"[no user stack: 32-bit task]"));
    assert!(missing.of > 100 && missing.percent() > 98.0, "{}", profile.summary());
    assert!(
        recording.stderr.contains("samples have no user stack"),
        "{}",
        recording.stderr
    );
}

#[test]
fn statically_linked_musl_and_go_programs_are_recorded() {
    let Some(()) = perf_events() else { return };
    // Go compresses its unwind tables. By frame pointer, `sixty`, which has no frame, would lose its caller
    // `main.main`.
    for (name, function) in [("split_musl", "run_split"), ("split_go", "main.main")] {
        let Some(split) = program(name) else { continue };
        let target = Target::start(split, &["60000"]);
        let (_, profile) = profile_of_cpu_ms(&target, &["-r", "4000"], 1000.0);
        let sixty = profile.share(
            |names| names.contains(&function),
            |names| names.iter().any(|name| name.ends_with("sixty")),
        );
        // As above.
        assert!(sixty.of > 1500, "{name}: {sixty:?} {}", profile.summary());
        sixty.assert_is(60.0, 6.5, name, &profile);
    }
}
