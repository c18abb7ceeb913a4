//! The whole machine.

use super::*;

/// Copies of a program under two names, so that the machine has processes which no one else started.
fn busy_under(name: &str, dir: &Path) -> Target {
    let path = dir.join(name);
    copy_program(program("split").unwrap(), &path);
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
    let running = record().options(&["-a"]).attach();
    running.wait_for_sprof("whole machine");
    let new = busy_under("came-later", dir.path());
    for pid in [found.pid(), new.pid()] {
        // The loader's part of `came-later` is a few samples.
        wait_for_cpu_ms(&pid, cpu_ms(&pid) + 800.0);
    }
    running.signal_sprof("INT");
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
    // Who reads what the program has mapped at that moment, as the sprof of another test may, holds its memory last and
    // takes it back (seen with `cat /proc/PID/smaps`).
    alone();
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
    // 65,536 pages at a tenth of a microsecond each are 26 samples. Fewer on a fast machine, and where the host takes
    // CPU time away. None where the samples after the reported end belong to nobody.
    assert!(
        exiting >= 4,
        "{exiting} samples, {:?}\n{}",
        profile.quality(),
        profile.summary()
    );
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
    // Of 500: a host that takes two thirds of the CPU time away leaves half.
    assert!(
        own.len() == 1 && own[0].samples.len() > 150,
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
    // Beside the program that sprof starts, one that runs in the namespace already.
    let script = format!("{} 60000 & \"$@\"; status=$?; kill $!; exit $status", split.display());
    let (recording, profile) = record()
        .under(&["unshare", "-p", "-f", "--mount-proc", "sh", "-c", &script, "sh"])
        .options(&["-a", "-r", "4000"])
        .profile(&split, &["1000"]);
    assert!(recording.stderr.contains("PID namespace"), "{}", recording.stderr);
    let outside = profile.threads.iter().find(|thread| thread.pid == "0").unwrap();
    assert_eq!(outside.process_name, "(outside of this PID namespace)");
    let mark = "[no user stack: outside of this PID namespace]";
    let stacks = || outside.samples.iter().map(|sample| sample.stack.unwrap());
    assert!(stacks().count() > 300, "{}", profile.summary());
    assert!(stacks().all(|stack| profile.names(stack).any(|name| name == mark)));
    // Inside all is as ever.
    let inside = profile.threads.iter().filter(|thread| thread.pid != "0");
    let with_split = inside.filter(|thread| {
        let mut stacks = thread.samples.iter().filter_map(|sample| sample.stack);
        stacks.any(|stack| profile.names(stack).any(|name| name == "run_split"))
    });
    let processes: std::collections::HashSet<&str> = with_split.map(|thread| thread.pid.as_str()).collect();
    assert!(processes.len() >= 2, "{processes:?}\n{}", profile.summary());
    let sixty = profile.share(|names| names.contains(&"run_split"), |names| names.contains(&"sixty"));
    // Of 4,000 or more: a host that takes two thirds of the CPU time away leaves half.
    assert!(sixty.of > 1500, "{sixty:?}\n{}", profile.summary());
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
    let (recording, profile) = record()
        .options(&["--per-cpu-threads", "-r", "4000"])
        .profile("sh", &["-c", &script]);
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
    // Of 12,000: a host that takes two thirds of the CPU time away leaves half. 4 is 5 standard deviations of 3,750.
    assert!(sixty.of > 3750, "{}", profile.summary());
    sixty.assert_is(60.0, 4.0, "sixty", &profile);
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
