//! Threads that start, end and go on while sprof attaches.

use super::*;

/// CPU time of the threads of this name, ms.
fn cpu_ms_of_thread(pid: &str, name: &str) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let used_ms = threads.filter_map(|thread| {
        let read = |file: &str| std::fs::read_to_string(thread.path().join(file)).ok();
        let is_wanted = read("comm")?.trim_end() == name;
        let used_ns: f64 = read("schedstat")?.split(' ').next()?.parse().ok()?;
        is_wanted.then_some(used_ns / 1e6)
    });
    used_ms.sum()
}

#[test]
fn threads_and_processes_before_and_after_attaching_are_all_there() {
    let Some(()) = perf_events() else { return };
    alone();
    let ((child, recording), stolen_ms) = with_stolen_ms(record_stages);
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
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
    assert!(started("early") <= 0.0 && started("late") > 0.0, "{}", started("late"));
    // While the host has taken the CPU of sprof away, two threads fill the rings with a sample a millisecond each.
    let lost = profile.figure(&["lost"]);
    assert!(lost <= 2.0 * stolen_ms, "{lost} lost, {stolen_ms} ms were taken away");
}

/// Records a program while it starts a thread and a process. Returns the process and the recording.
fn record_stages() -> (String, Recording) {
    let mut target = Target::start(program("attached").unwrap(), &["stages"]);
    assert_eq!(target.line(), "early");
    let running = record().options(&["-p", &target.pid()]).attach();
    running.wait_for_sprof("Ctrl-C ends");
    let works_on = |pid: &str| wait_for_cpu_ms(pid, cpu_ms(pid) + 100.0);
    works_on(&target.pid());
    assert_eq!(target.ask(), "late");
    // By its own time: while the host has taken its CPU away, the other thread has all of the program's.
    wait_until(
        || cpu_ms_of_thread(&target.pid(), "late") >= 100.0,
        || "`late` does not work".to_owned(),
    );
    let child = target.ask().strip_prefix("child=").unwrap().to_owned();
    works_on(&child);
    running.signal_sprof("INT");
    let recording = running.finish();
    assert!(
        is_alive(&target.pid()) && is_alive(&child),
        "Ctrl-C is not for the target"
    );
    target.end();
    (child, recording)
}

#[test]
fn threads_that_start_while_attaching_are_recorded_once_each() {
    let Some(()) = perf_events() else { return };
    alone();
    // One thread a millisecond, with the attaching somewhere in between. They work only when that is over.
    for pause_ms in [0, 30, 60] {
        // A thread works for 20 ms: one pause of the host is half of its samples.
        let ((truth, recording), stolen_ms) = with_stolen_ms(|| {
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
        // What the rings had no room for while the host had taken the CPU of sprof away is counted.
        let lost_ns = profile.figure(&["lost"]) * 5e5;
        let mut sums = (0.0, 0.0);
        for (name, ns) in &truth {
            let recorded: Vec<_> = profile.threads_named(name).collect();
            // A thread without any sample is not there; the lower bound refuses that unless samples were lost.
            assert!(recorded.len() <= 1, "{name} after {pause_ms} ms: {}", recording.stderr);
            let samples: usize = recorded.iter().map(|thread| thread.samples.len()).sum();
            let samples_ns = samples as f64 * 5e5;
            // Half of the samples, or twice as many, is what a part of the events or two of them would give. The kernel
            // takes all that the host took away off the CPU time of whichever thread runs next: with 1 % taken away, a
            // thread of 20 ms ran for 37.
            assert!(
                samples_ns + lost_ns > 0.8 * ns - 2.5e6 && samples_ns < 1.2 * ns + 2.5e6 + stolen_ms * 1e6,
                "{name} used {ns} ns and has samples of {samples_ns} ns, after {pause_ms} ms"
            );
            sums = (sums.0 + samples_ns, sums.1 + ns);
        }
        let (ratio, lost) = (sums.0 / sums.1, lost_ns / sums.1);
        assert!(
            (0.93 - lost..1.03 + stolen_ms * 1e6 / sums.1).contains(&ratio),
            "{ratio} of the CPU time, after {pause_ms} ms; {lost} were lost; {stolen_ms} ms were taken away"
        );
    }
}

#[test]
#[ignore = "long: one attempt has the same rules"]
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
#[ignore = "long: the same attach 200 times; others attach once"]
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
    wait_for_cpu_ms(&target.pid(), cpu_ms(&target.pid()) + 300.0);
    running.signal_sprof("KILL");
    let recording = running.finish();
    assert_eq!(recording.signal, Some(9));
    assert!(is_alive(&target.pid()));
    // Whoever shares the core with this machine takes up to half of the speed, for seconds at a time. A program that is
    // stopped, or traced step by step, is a hundred times slower.
    let mut after = target.speed();
    if after <= 0.5 * before {
        after = target.speed();
    }
    assert!(
        after > 0.5 * before,
        "work per CPU time: {before} before, {after} after"
    );
    // And it can be recorded again.
    let (_, profile) = profile_of_cpu_ms(&target, &[], 400.0);
    assert!(profile.share_of("crowd_work").hits > 100, "{}", profile.summary());
    target.end();
}

#[test]
fn a_program_whose_main_thread_has_ended_is_recorded() {
    let Some(()) = perf_events() else { return };
    let mut target = Target::start(program("attached").unwrap(), &["leaderless", "90000"]);
    assert_eq!(target.line(), "ready");
    // Its first 50 ms are a sleep, until the main thread has ended.
    wait_for_cpu_ms(&target.pid(), 20.0);
    let (_, profile) = profile_of_cpu_ms(&target, &[], 300.0);
    assert!(
        profile.share_of("orphan_work").percent() > 95.0,
        "{}",
        profile.summary()
    );
    assert!(profile.rooted_in("orphan").percent() > 95.0, "{}", profile.summary());
}
