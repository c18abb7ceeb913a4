//! Recording what runs already: processes that are attached to, and the whole machine.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support;
use crate::support::machine::alone;
use crate::support::playground::Playground;
use crate::support::skip::{Need, has, perf_events, root};
use crate::support::steal::undisturbed;
use crate::support::target::Target;
use crate::support::{Profile, Recording, program, record, sprof};

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

/// CPU time of a process of one thread, ns: the first number of /proc/PID/schedstat.
fn cpu_ns(pid: &str) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

fn samples_of(profile: &Profile, pid: &str) -> usize {
    let threads = profile.threads.iter().filter(|thread| thread.pid == pid);
    threads.map(|thread| thread.samples.len()).sum()
}

#[test]
fn a_shell_with_two_busy_children_has_the_right_shares() {
    let Some(()) = perf_events() else { return };
    alone();
    // /proc says what both use. On one CPU that is 9 to 1 at all times, by the weights of their niceness. On two it
    // changed with what else ran, and the recording begins later and ends earlier than the two readings of /proc.
    let split = program("split").unwrap();
    let script = format!(
        "taskset -c 0 {0} 600000 & echo $!; nice -n 10 taskset -c 0 {0} 600000 & echo $!; wait",
        split.display()
    );
    let mut shell = Target::start("sh", &["-c", &script]);
    let children = [shell.line(), shell.line()];
    let before = children.each_ref().map(|pid| cpu_ns(pid));
    let recording = attach(&shell.pid(), &["-d", "1.5", "-r", "4000"]);
    let used: Vec<f64> = (children.iter().zip(before))
        .map(|(pid, before)| cpu_ns(pid) - before)
        .collect();
    for child in &children {
        assert!(is_alive(child));
        Command::new("kill").arg(child).status().unwrap();
    }
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    let profile = recording.profile();

    let samples = children.each_ref().map(|pid| samples_of(&profile, pid) as f64);
    assert!(samples.iter().sum::<f64>() > 450.0, "{}", profile.summary());
    let (true_share, share) = (
        100.0 * used[0] / (used[0] + used[1]),
        100.0 * samples[0] / (samples[0] + samples[1]),
    );
    assert!(
        (true_share - share).abs() <= 3.0,
        "{share} % of the samples, {true_share} % of the time"
    );
    let sixty = profile.share(|names| names.contains(&"run_split"), |names| names.contains(&"sixty"));
    assert!(
        (sixty.percent() - 60.0).abs() <= 3.0,
        "{sixty:?}\n{}",
        profile.summary()
    );
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
    let script = ["-c", "sleep 0.5; echo of the command; exit 3"];
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
fn threads_and_processes_before_and_after_attaching_are_all_there() {
    let Some(()) = perf_events() else { return };
    alone();
    let mut target = Target::start(program("attached").unwrap(), &["stages"]);
    assert_eq!(target.line(), "early");
    let running = record().options(&["-p", &target.pid()]).attach();
    running.wait_for_sprof("Ctrl-C ends");
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(target.ask(), "late");
    std::thread::sleep(Duration::from_millis(700));
    let child = target.ask().strip_prefix("child=").unwrap().to_owned();
    std::thread::sleep(Duration::from_millis(700));
    running.signal_sprof("INT");
    let recording = running.finish();
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    assert!(
        is_alive(&target.pid()) && is_alive(&child),
        "Ctrl-C is not for the target"
    );
    target.end();

    let profile = recording.profile();
    for (thread, function) in [
        ("early", "early_work"),
        ("late", "late_work"),
        ("attached", "child_work"),
    ] {
        // The main thread of the first process has the name of the child's. It forks and prints, and may be sampled.
        let of_thread = profile
            .threads_named(thread)
            .filter(|thread| !thread.samples.is_empty() && (!thread.is_main || thread.pid == child));
        let of_thread: Vec<_> = of_thread.collect();
        assert_eq!(of_thread.len(), 1, "{thread}: {}", profile.summary());
        let stacks = of_thread[0].samples.iter().filter_map(|sample| sample.stack);
        let hits = stacks
            .filter(|stack| profile.names(*stack).any(|name| name == function))
            .count();
        assert!(
            hits as f64 >= 0.95 * of_thread[0].samples.len() as f64 && hits > 5,
            "{hits} in {function}: {}",
            profile.summary()
        );
    }
    assert!(samples_of(&profile, &child) > 5, "{}", profile.summary());
    let started = |name: &str| profile.threads_named(name).next().unwrap().start_ms;
    assert!(
        started("early") <= 0.0 && started("late") > 500.0,
        "{}",
        started("late")
    );
    let lost = profile.figure(&["lost"]);
    assert_eq!(lost, 0.0);
}

#[test]
fn threads_that_start_while_attaching_are_recorded_once_each() {
    let Some(()) = perf_events() else { return };
    alone();
    // One thread a millisecond, with the attaching somewhere in between. They work only when that is over.
    for pause_ms in [0, 30, 60] {
        // A thread works for 20 ms: one pause of the host is half of its samples.
        let (truth, recording) = undisturbed(|| {
            let mut target = Target::start(program("attached").unwrap(), &["burst", "120", "20"]);
            assert_eq!(target.line(), "ready");
            std::thread::sleep(Duration::from_millis(pause_ms));
            let running = record().options(&["-r", "2000", "-p", &target.pid()]).attach();
            running.wait_for_sprof("Ctrl-C ends");
            let first = target.ask();
            let lines = [first].into_iter().chain((1..120).map(|_| target.line()));
            let truth: BTreeMap<String, f64> = lines
                .map(|line| {
                    let (name, ns) = line.split_once('=').unwrap();
                    (name.to_owned(), ns.parse().unwrap())
                })
                .collect();
            target.end();
            (truth, running.finish())
        });
        assert_eq!(recording.code, Some(0), "{}", recording.stderr);
        let profile = recording.profile();
        assert_eq!(truth.len(), 120);
        let mut sums = (0.0, 0.0);
        for (name, ns) in &truth {
            let recorded: Vec<_> = profile.threads_named(name).collect();
            assert_eq!(recorded.len(), 1, "{name} after {pause_ms} ms: {}", recording.stderr);
            let samples_ns = recorded[0].samples.len() as f64 * 5e5;
            // Half of the samples, or twice as many, is what a part of the events or two of them would give.
            assert!(
                samples_ns > 0.8 * ns - 2.5e6 && samples_ns < 1.2 * ns + 2.5e6,
                "{name} used {ns} ns and has samples of {samples_ns} ns, after {pause_ms} ms"
            );
            sums = (sums.0 + samples_ns, sums.1 + ns);
        }
        let ratio = sums.0 / sums.1;
        assert!(
            (0.93..1.03).contains(&ratio),
            "{ratio} of the CPU time, after {pause_ms} ms"
        );
    }
}

#[test]
fn a_program_that_starts_threads_all_the_time_is_recorded_in_every_attempt() {
    let Some(()) = perf_events() else { return };
    alone();
    let mut target = Target::start(program("attached").unwrap(), &["churn"]);
    assert_eq!(target.line(), "ready");
    // One attempt of fifty had the first threads alone: three quarters of such tests would find it. Samples are few,
    // for the kernel begins a new period where it swaps the contexts of two threads.
    for attempt in 0..60 {
        let recording = attach(&target.pid(), &["--no-symbolicate", "-d", "0.06"]);
        assert_eq!(recording.code, Some(0), "{}", recording.stderr);
        let profile = recording.profile();
        let threads = profile.figure(&["threads"]);
        assert!(threads > 60.0, "attempt {attempt}: {threads}\n{}", recording.stderr);
    }
    target.end();
}

#[test]
fn attaching_two_hundred_times_leaves_a_crowd_of_threads_as_it_was() {
    let Some(()) = perf_events() else { return };
    alone();
    // It has what sprof leaves. Else sprof waits for its turn two hundred times.
    let crowd = ["-i", "0"].map(|word| OsStr::new(word).to_owned()).into_iter();
    let crowd = crowd.chain([program("attached").unwrap().into(), "crowd".into(), "64".into()]);
    let mut target = Target::start("chrt", &crowd.collect::<Vec<_>>());
    assert_eq!(target.line(), "ready");
    let before = target.speed();
    let dir = support::temp_dir();
    let attach = |round: u32| {
        sprof()
            .args([
                "record",
                "-s",
                "--no-symbolicate",
                "-d",
                "0.01",
                "-p",
                &target.pid(),
                "-o",
            ])
            .arg(dir.path().join(format!("{round}.json.gz")))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    // Two at once: one leaves a CPU idle.
    for round in 0..100 {
        for attached in [attach(2 * round), attach(2 * round + 1)] {
            let output = attached.wait_with_output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "round {round}: {stderr}");
            assert!(stderr.contains("(1 process, 65 threads)"), "round {round}: {stderr}");
        }
        assert!(is_alive(&target.pid()), "round {round}");
    }
    let after = target.speed();
    assert!(
        after > 0.8 * before,
        "work per CPU time: {before} before, {after} after"
    );
    target.end();
}

#[test]
fn a_target_goes_on_when_sprof_is_killed() {
    let Some(()) = perf_events() else { return };
    alone();
    let mut target = Target::start(program("attached").unwrap(), &["crowd", "8"]);
    assert_eq!(target.line(), "ready");
    let before = target.speed();
    let running = record().options(&["-p", &target.pid()]).attach();
    running.wait_for_sprof("Ctrl-C ends");
    std::thread::sleep(Duration::from_millis(300));
    running.signal_sprof("KILL");
    let recording = running.finish();
    assert_eq!(recording.signal, Some(9));
    assert!(is_alive(&target.pid()));
    let after = target.speed();
    assert!(
        after > 0.8 * before,
        "work per CPU time: {before} before, {after} after"
    );
    // And it can be recorded again.
    let profile = attached_profile(&target.pid(), &["-d", "0.3"]);
    assert!(profile.share_of("crowd_work").hits > 100, "{}", profile.summary());
    target.end();
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
    let exits = program("exits").unwrap();
    let targets = ["700", "1500"].map(|ms| Target::start(&exits, &["busy", ms]));
    let pids = targets.each_ref().map(Target::pid);
    // The targets end on their own; only then does somebody wait for them.
    let reaper = std::thread::spawn(move || targets.map(|mut target| target.child.wait().unwrap().success()));
    let recording = attach(&pids.join(","), &["--json"]);
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    assert_eq!(reaper.join().unwrap(), [true, true]);
    let summary: serde_json::Value = serde_json::from_str(&recording.stdout).unwrap();
    assert_eq!(summary["ended_by"], "program");
    assert!(summary["exit"].is_null(), "{summary}");
    assert_eq!(summary["program"], "exits, exits");
    let profile = recording.profile();
    for pid in &pids {
        assert!(samples_of(&profile, pid) > 10, "{}", profile.summary());
        let thread = profile.threads.iter().find(|thread| thread.pid == *pid).unwrap();
        assert!(thread.end_ms.is_some());
    }
}

#[test]
fn a_program_whose_main_thread_has_ended_is_recorded() {
    let Some(()) = perf_events() else { return };
    let mut target = Target::start(program("attached").unwrap(), &["leaderless", "9000"]);
    assert_eq!(target.line(), "ready");
    std::thread::sleep(Duration::from_millis(200));
    let profile = attached_profile(&target.pid(), &["-d", "1"]);
    assert!(
        profile.share_of("orphan_work").percent() > 95.0,
        "{}",
        profile.summary()
    );
    assert!(profile.rooted_in("orphan").percent() > 95.0, "{}", profile.summary());
}

#[test]
fn static_programs_are_recorded() {
    let Some(()) = perf_events() else { return };
    let Some(split) = program("split_static") else { return };
    let target = Target::start(split, &["60000"]);
    let profile = attached_profile(&target.pid(), &["-d", "1", "-r", "4000"]);
    let sixty = profile.share_of("sixty");
    assert!(sixty.of > 500, "{}", profile.summary());
    sixty.assert_is(60.0, 4.0, "sixty", &profile);
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
    let recording = attach("1", &["-d", "0.3"]);
    match recording.code {
        Some(0) => {
            let profile = recording.profile();
            let sprof = profile.threads.iter().filter(|thread| thread.process_name == "sprof");
            assert_eq!(sprof.count(), 0, "sprof records itself");
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

/// Copies of a program under two names, so that the machine has processes which no one else started.
fn busy_under(name: &str, dir: &Path) -> Target {
    let path = dir.join(name);
    std::fs::copy(program("split").unwrap(), &path).unwrap();
    Target::start(path, &["600000"])
}

#[test]
fn the_whole_machine_has_every_process_by_its_name_and_no_idle_time() {
    let Some(()) = perf_events() else { return };
    alone();
    if !root() {
        return;
    }
    let dir = support::temp_dir();
    let found = busy_under("was-there-first", dir.path());
    let running = record().options(&["-a", "-d", "1.5"]).attach();
    running.wait_for_sprof("whole machine");
    let new = busy_under("came-later", dir.path());
    let recording = running.finish();
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    let profile = recording.profile();
    for (target, name) in [(&found, "was-there-first"), (&new, "came-later")] {
        let pid = target.pid();
        let threads: Vec<_> = profile.threads_of(&pid, name).collect();
        assert_eq!(threads.len(), 1, "{name}: {}", profile.summary());
        // Others may run the same program.
        let samples = &threads[0].samples;
        let stacks = samples.iter().filter_map(|sample| sample.stack);
        let rooted = stacks
            .filter(|stack| profile.names(*stack).any(|name| name == "main"))
            .count();
        assert!(
            samples.len() > 100 && rooted as f64 > 0.98 * samples.len() as f64,
            "{rooted} of {}: {}",
            samples.len(),
            profile.summary()
        );
    }
    for thread in &profile.threads {
        assert!(thread.pid != "0" && thread.tid != "0", "the idle task: {}", thread.name);
        assert!(
            !thread.process_name.starts_with("Process ") && !thread.name.starts_with("Thread "),
            "a process without a name: {} {}",
            thread.process_name,
            thread.name
        );
    }
    // Samples of tasks on their last steps belong to nobody any more. They are counted; with hundreds of processes a
    // second they were 0.6 % of all.
    let unused = profile
        .quality()
        .get("Lost, no pid at the end of an exit: samples")
        .map_or(0, |count| count.as_u64().unwrap());
    assert!(
        !profile.quality().contains_key("Malformed records"),
        "{:?}",
        profile.quality()
    );
    assert!(
        (unused as f64) < 0.03 * profile.sample_count() as f64,
        "{:?}",
        profile.quality()
    );
}

/// Linux 6.18 reports the end of a process before it takes the memory back.
#[test]
fn on_the_whole_machine_all_of_an_exit_is_the_program_s() {
    let Some(()) = perf_events() else { return };
    if !root() {
        return;
    }
    let (_, profile) = record()
        .options(&["-a", "--rate", "4000"])
        .profile(program("exits").unwrap(), &["memory", "256"]);
    let is_exiting = |stack: &usize| profile.names(*stack).any(|name| name == "exit_mmap");
    let mut exiting = 0;
    for thread in profile.threads_named("exits") {
        exiting += { thread.samples.iter() }
            .filter_map(|sample| sample.stack)
            .filter(is_exiting)
            .count();
        let last = thread.samples.last().map_or(0.0, |sample| sample.time_ms);
        assert!(
            thread.end_ms.is_none_or(|end| end >= last - 0.001),
            "{last}: {:?}",
            thread.end_ms
        );
    }
    // 65,536 pages at a tenth of a microsecond each are 26 samples.
    assert!(exiting >= 10, "{exiting} samples\n{}", profile.summary());
}

#[test]
fn on_the_whole_machine_a_set_user_id_program_is_one_process_with_all_its_samples() {
    let Some(()) = perf_events() else { return };
    alone();
    if !root() {
        return;
    }
    let playground = Playground::new(&[]);
    let Some(of_root) = playground.processes_of_root("of-root", 0o4755) else {
        return;
    };
    // Names of all that runs on a machine may take minutes.
    let running = record().options(&["-a", "--no-symbolicate"]).attach();
    running.wait_for_sprof("whole machine");
    let mut command = playground.as_nobody_with_rights(of_root);
    let mut child = command.args(["work", "500"]).stdout(Stdio::null()).spawn().unwrap();
    let pid = child.id().to_string();
    assert!(child.wait().unwrap().success());
    running.signal_sprof("INT");
    let recording = running.finish();
    let profile = recording.profile();
    // Before that, the process was a copy of this test, then setpriv.
    let own: Vec<_> = profile.threads_of(&pid, "of-root").collect();
    assert!(
        own.len() == 1 && own[0].samples.len() > 300,
        "{pid}: {}",
        profile.summary()
    );
    assert!(!recording.stderr.contains("not recorded"), "{}", recording.stderr);
}

#[test]
fn in_a_pid_namespace_all_that_is_outside_is_one_process_without_user_stacks() {
    let Some(()) = perf_events() else { return };
    alone();
    let namespaces = Command::new("unshare").args(["-p", "-f", "true"]).status();
    if !root()
        || !has(
            Need::Namespaces,
            namespaces.is_ok_and(|status| status.success()),
            "unshare -p is not permitted",
        )
    {
        return;
    }
    let split = program("split").unwrap();
    let _outside = Target::start(&split, &["60000"]);
    let script = format!("{} 60000 & \"$@\"; kill $!", split.display());
    let recording = record()
        .under(&["unshare", "-p", "-f", "--mount-proc", "sh", "-c", &script, "sh"])
        .options(&["-a", "-d", "1", "-r", "4000"])
        .attach()
        .finish();
    let profile = recording.profile();
    assert!(recording.stderr.contains("PID namespace"), "{}", recording.stderr);
    let outside = profile.threads.iter().find(|thread| thread.pid == "0").unwrap();
    assert_eq!(outside.process_name, "(outside of this PID namespace)");
    let mark = "[no user stack: outside of this PID namespace]";
    let stacks = || outside.samples.iter().map(|sample| sample.stack.unwrap());
    assert!(stacks().count() > 300, "{}", profile.summary());
    assert!(stacks().all(|stack| profile.names(stack).any(|name| name == mark)));
    // Inside all is as ever.
    let sixty = profile.share(|names| names.contains(&"run_split"), |names| names.contains(&"sixty"));
    assert!(sixty.of > 300, "{sixty:?}\n{}", profile.summary());
    sixty.assert_is(60.0, 8.0, "sixty", &profile);
    let rooted = profile.share(|names| names.contains(&"run_split"), |names| names.contains(&"main"));
    assert!(rooted.percent() > 98.0, "{rooted:?}\n{}", profile.summary());
}

#[test]
fn per_cpu_threads_are_a_track_for_each_cpu_with_the_process_at_the_root() {
    let Some(()) = perf_events() else { return };
    alone();
    // Two programs, each on a CPU of its own where there are two.
    let split = program("split").unwrap();
    let script = format!("{0} 1500 & {0} 1500 & wait", split.display());
    let (recording, profile) = record().options(&["--per-cpu-threads"]).profile("sh", &["-c", &script]);
    let with_samples: Vec<_> = profile
        .threads
        .iter()
        .filter(|thread| !thread.samples.is_empty())
        .collect();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    assert!((1..=cpus).contains(&with_samples.len()), "{}", with_samples.len());
    for thread in &with_samples {
        assert!(thread.name.starts_with("CPU "), "{}", thread.name);
        assert!(thread.is_monotonic());
    }
    let roots: std::collections::BTreeSet<String> = profile
        .samples()
        .filter_map(|sample| profile.names(sample.stack?).next().map(str::to_owned))
        .filter(|name| name.starts_with("split ("))
        .collect();
    assert_eq!(roots.len(), 2, "one a process: {roots:?}");
    let sixty = profile.share(|names| names.contains(&"run_split"), |names| names.contains(&"sixty"));
    assert!(sixty.of > 2500, "{}", profile.summary());
    sixty.assert_is(60.0, 3.0, "sixty", &profile);
    // CPUs are neither threads nor processes.
    if with_samples.len() > 1 {
        assert!(recording.stderr.contains("share  CPUs\n"), "{}", recording.stderr);
    }
    assert!(!recording.stderr.contains("share  processes"), "{}", recording.stderr);
    for view in ["threads", "processes", "summary"] {
        let output = (sprof().arg("report").arg(&recording.output))
            .args(["--view", view])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(!text.contains("pid cpu-") && !text.contains("\nProcesses"), "{text}");
        assert!(view == "summary" || text.contains("\nCPUs\n"), "{text}");
    }
}

#[test]
fn a_program_of_32_bits_is_counted_and_what_is_missing_is_said() {
    let Some(()) = perf_events() else { return };
    let Some(spin) = program("spin_32") else { return };
    let target = Target::start(spin, &["-"]);
    let recording = attach(&target.pid(), &["-d", "1"]);
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    let profile = recording.profile();
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
        std::thread::sleep(Duration::from_millis(200));
        let profile = attached_profile(&target.pid(), &["-d", "1", "-r", "4000"]);
        let sixty = profile.share(
            |names| names.contains(&function),
            |names| names.iter().any(|name| name.ends_with("sixty")),
        );
        assert!(sixty.of > 1000, "{name}: {sixty:?} {}", profile.summary());
        sixty.assert_is(60.0, 4.0, name, &profile);
    }
}
