//! As an ordinary user at perf_event_paranoid 2, the default of the kernel: user-only stacks, announced.
#![cfg(target_os = "linux")]

use std::process::{Command, Output, Stdio};

use crate::support;
use crate::support::Profile;
use crate::support::machine::alone;
use crate::support::playground::{NOBODY, Playground};
use crate::support::schema::parsed;
use crate::support::skip::{Need, has, paranoid, perf_events, root};
use crate::support::steal::with_stolen_ms;
use crate::support::target::{wait_for_state, wait_for_thread};
use crate::support::wait_until;

/// A process that is ended with the test.
struct Target(std::process::Child);

impl Target {
    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Root, so that there is someone to become, and a kernel that allows an ordinary user to record itself. Alone: all
/// recordings of one user share what that user may lock in memory.
fn can_become_nobody() -> Option<()> {
    perf_events()?;
    alone();
    let level_allows = paranoid().is_some_and(|level| level <= 2);
    (root() && has(Need::PerfEvents, level_allows, "perf_event_paranoid is above 2")).then_some(())
}

#[test]
fn an_ordinary_user_records_user_stacks_and_is_told_so() {
    let Some(()) = can_become_nobody() else { return };
    let playground = Playground::new(&["split"]);
    let (output, path) = playground.record(&["-r", "4000"], "split", &["1000", "2"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let profile = Profile::read(&path);
    let sixty = profile.share(|names| names.contains(&"run_split"), |names| names.contains(&"sixty"));
    // Of 8,000: a host that takes two thirds of the CPU time away leaves half. 5 is 5 standard deviations of 2,500.
    assert!(sixty.of > 2500, "{}", profile.summary());
    sixty.assert_is(60.0, 5.0, "sixty", &profile);
    let rooted = profile.rooted_in("thread_main");
    assert!(rooted.percent() > 98.0, "{}", profile.summary());
    if paranoid() == Some(2) {
        let kernel = profile
            .frames
            .iter()
            .filter(|frame| frame.category.to_lowercase().contains("kernel"))
            .count();
        assert_eq!(kernel, 0, "kernel frames at perf_event_paranoid 2");
        assert!(stderr.contains("kernel"), "not announced: {stderr}");
        let in_profile = profile.quality()["Kernel code"].to_string();
        assert!(in_profile.contains("not included"), "in the profile: {in_profile}");
    }
}

#[test]
fn an_ordinary_user_sees_deep_stacks_and_signal_handlers() {
    let Some(()) = can_become_nobody() else { return };
    let playground = Playground::new(&["deep", "sighandler"]);
    let (output, path) = playground.record(&[], "deep", &["spin", "27", "1000"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profile = Profile::read(&path).without_its_end();
    assert!(profile.rooted_in("main").percent() >= 98.0, "{}", profile.summary());

    // The stack of main is not in the sample.
    let (output, path) = playground.record(&[], "sighandler", &["alternate", "1500"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profile = Profile::read(&path).without_its_end();
    let handler = profile.share(|names| names.contains(&"handler_spin"), |names| names.contains(&"main"));
    assert!(handler.percent() >= 98.0, "{}", profile.summary());
}

/// Off-CPU time of the main thread in the profile whose leaf is this, ms.
fn waited_ms(profile: &Profile, leaf: &str, with: &str) -> f64 {
    let thread = profile.threads.iter().find(|thread| thread.is_main).unwrap();
    let samples = thread.samples.iter().filter(|sample| {
        let names: Vec<&str> = sample.stack.map_or(Vec::new(), |stack| profile.names(stack).collect());
        names.last() == Some(&leaf) && names.contains(&with)
    });
    samples.map(|sample| sample.weight).sum()
}

#[test]
fn an_ordinary_user_sees_how_long_threads_wait_and_that_the_stacks_are_guesses() {
    let Some(()) = can_become_nobody() else { return };
    if !has(Need::PerfEvents, paranoid() == Some(2), "perf_event_paranoid is not 2") {
        return;
    }
    let playground = Playground::new(&["waits"]);
    let ((output, path), stolen_ms) = with_stolen_ms(|| playground.record(&["--off-cpu"], "waits", &["3", "200"]));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let profile = Profile::read(&path);
    let stdout = String::from_utf8_lossy(&output.stdout);
    let printed_ms = |name: &str| -> f64 {
        let word = stdout
            .split_whitespace()
            .find_map(|word| word.strip_prefix(name))
            .unwrap();
        word.parse::<f64>().unwrap() / 1e6
    };
    // It also waits until its helper has the mutex: long, while the host has the helper's CPU.
    let labels = ["sleep_ns=", "pipe_ns=", "lock_ns=", "ask_ns="];
    let blocked_ms: f64 = labels.into_iter().map(printed_ms).sum();
    let found_ms = waited_ms(&profile, "[off-CPU: reason not known]", "[off-CPU]");
    // The program may be on a CPU that the host has, between a clock and a wait.
    assert!(
        found_ms > 0.97 * blocked_ms - stolen_ms && found_ms < 1.03 * blocked_ms,
        "{found_ms} of {blocked_ms} ms; {stolen_ms} ms were taken away\n{}",
        profile.summary()
    );
    let labelled_ms = waited_ms(&profile, "[off-CPU: reason not known]", "[guess: last stack on a CPU]")
        + waited_ms(&profile, "[off-CPU: reason not known]", "[stack not sampled]");
    assert!((labelled_ms - found_ms).abs() < 1e-6, "{}", profile.summary());
    assert!(profile.figure(&["waits", "guess"]) > 8.0, "{:?}", profile.quality());
    assert!(
        stderr.contains("last on-CPU stack") && stderr.contains("waits are timed"),
        "{stderr}"
    );
}

#[test]
fn an_ordinary_user_with_little_locked_memory_still_records() {
    let Some(()) = can_become_nobody() else { return };
    let playground = Playground::new(&["threads"]);
    // 64 KiB: what older systems give. The rings shrink; whatever that loses is counted.
    let script = format!("ulimit -l 64 && exec {} 4 300", playground.path("threads").display());
    let output = playground.path("p.json.gz");
    let mut command = Command::new("sh");
    let sprof = format!(
        "ulimit -l 64; exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups --inh-caps=-all {} record -s -o {} -- sh -c '{script}'",
        playground.path("sprof").display(),
        output.display()
    );
    let result = command
        .args(["-c", &sprof])
        .env("HOME", "/tmp")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    let profile = Profile::read(&output);
    // Of 1,200: a host that takes two thirds of the CPU time away leaves half. While it has the CPU of sprof, such
    // rings are full at once.
    let (hits, lost) = (profile.share_of("thread_work").hits, profile.figure(&["lost"]));
    assert!(
        hits > 50 && hits as f64 + lost > 350.0,
        "{lost} lost\n{}",
        profile.summary()
    );
}

#[test]
fn a_library_that_deletes_itself_before_anyone_can_look_is_unwound_from_the_copy_in_memory() {
    let Some(()) = can_become_nobody() else { return };
    let playground = Playground::new(&["dlopen", "library.so"]);
    let library = playground.path("library.so");
    // The library is the test's to delete; its own code has unwind tables, and needs them: it has no frame pointers.
    let (output, profile) = playground.record(&[], "dlopen", &[library.to_str().unwrap(), "1000", "unlink"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(!library.exists());
    let profile = Profile::read(&profile);
    let rooted = profile.share(
        |names| names.contains(&"through_library"),
        |names| names.contains(&"main") && !names.iter().any(|name| support::profile::is_mark(name)),
    );
    // Of 1,000: a host that takes two thirds of the CPU time away leaves half.
    assert!(rooted.of > 300, "{}", profile.summary());
    assert_eq!(rooted.hits, rooted.of, "{}", profile.summary());
    // By its unwind tables, that is: without them, the loop in the library would be left by a guess.
    let guessed = profile.quality().keys().any(|label| label.contains("frame pointer"));
    assert!(!guessed, "{:?}", profile.quality());
}

#[test]
fn an_ordinary_user_attaches_to_own_processes() {
    let Some(()) = can_become_nobody() else { return };
    let playground = Playground::new(&["split"]);
    let target = Target(
        playground
            .as_nobody(playground.path("split"))
            .args(["600000", "2"])
            .spawn()
            .unwrap(),
    );
    for name in ["splitter-0", "splitter-1"] {
        wait_for_thread(&target.pid(), name);
    }
    let (output, path) = playground.sprof(&["-p", &target.pid(), "-d", "2"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let profile = Profile::read(&path);
    let sixty = profile.share(|names| names.contains(&"run_split"), |names| names.contains(&"sixty"));
    // Of 4,000, or of what the host leaves in two seconds. 11 is 5 standard deviations of 500.
    assert!(sixty.of > 500, "{sixty:?}\n{}", profile.summary());
    sixty.assert_is(60.0, 11.0, "sixty", &profile);
    assert!(
        profile.rooted_in("thread_main").percent() > 98.0,
        "{}",
        profile.summary()
    );
    for name in ["splitter-0", "splitter-1"] {
        assert_eq!(profile.threads_named(name).count(), 1);
    }
    assert_eq!(target.pid(), profile.threads[0].pid);
}

#[test]
fn an_ordinary_user_sees_where_attached_threads_wait_already() {
    let Some(()) = can_become_nobody() else { return };
    let playground = Playground::new(&["waits"]);
    let target = Target(
        playground
            .as_nobody(playground.path("waits"))
            .args(["0", "0", "forever"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap(),
    );
    wait_for_state(&target.pid(), 2, "S");
    let (output, path) = playground.sprof(&["--off-cpu", "-p", &target.pid(), "-d", "1"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let profile = Profile::read(&path);
    // By the name of the kernel function, which one may read of one's own processes.
    let ms = waited_ms(&profile, "[off-CPU: pipe or socket]", "wait_forever");
    let end_ms = profile.json["meta"]["profilingEndTime"].as_f64().unwrap();
    // What a thread does is read when its events count: some milliseconds later, or more on a slow machine.
    let thread = profile.threads.iter().find(|thread| thread.is_main).unwrap();
    let since_ms = thread.samples.first().unwrap().time_ms;
    assert!(
        (end_ms - since_ms - 10.0..=end_ms).contains(&ms) && ms > 500.0,
        "{ms} of {end_ms} ms, from {since_ms} on\n{}",
        profile.summary()
    );
}

#[test]
fn what_an_ordinary_user_may_not_record_is_said_with_the_next_step() {
    let Some(()) = can_become_nobody() else { return };
    let playground = Playground::new(&["split"]);
    let of_root = Target(Command::new(playground.path("split")).arg("600000").spawn().unwrap());
    let (output, path) = playground.sprof(&["-p", &of_root.pid(), "-d", "2"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    let advice = format!(
        "`sudo {} record -p {}`",
        playground.path("sprof").display(),
        of_root.pid()
    );
    for words in ["(split)", "another user", &advice] {
        assert!(stderr.contains(words), "{words}: {stderr}");
    }
    assert!(!path.exists());

    let (output, path) = playground.sprof(&["-p", "2", "-d", "2"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("process 2") && !path.exists(), "{stderr}");

    if paranoid().is_some_and(|level| level > 0) {
        let (output, path) = playground.sprof(&["-a", "-d", "2"]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{stderr}");
        assert!(
            stderr.contains("sudo sysctl kernel.perf_event_paranoid=0") && !path.exists(),
            "{stderr}"
        );
    }
}

/// The summary for machines, which stands behind what the program printed.
fn summary(output: &Output) -> serde_json::Value {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let last = stdout.lines().last().unwrap_or_default();
    parsed(last)
}

/// CPU time that the program says that it used, s.
fn printed_cpu_s(output: &Output) -> f64 {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let mut words = stdout.split_whitespace();
    let ns = words.find_map(|word| word.strip_prefix("cpu_ns="));
    ns.unwrap().parse::<f64>().unwrap() / 1e9
}

/// The unrecorded process of this name.
fn unrecorded<'a>(summary: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let processes = summary["cpu_account"]["unrecorded"].as_array().unwrap();
    let found = processes.iter().find(|process| process["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {summary}"))
}

#[test]
fn a_program_that_loses_its_events_at_its_exec_is_said_to_be_unrecorded_with_its_time_and_the_cause() {
    let Some(()) = can_become_nobody() else { return };
    let playground = Playground::new(&[]);
    // With the rights of root; and one that nobody may execute, but not read.
    for (name, mode) in [("of-root", 0o4755), ("unreadable", 0o711)] {
        let Some(program) = playground.processes_of_root(name, mode) else {
            return;
        };
        let profile = playground.path("profile.json.gz");
        let mut command = playground.as_nobody_with_rights(playground.path("sprof"));
        command
            .args(["record", "--save-only", "--json", "-o"])
            .arg(&profile)
            .arg("--");
        let output = command.arg(&program).args(["work", "500"]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        let summary = summary(&output);
        let missing_s = summary["cpu_account"]["unrecorded_cpu_time_s"].as_f64().unwrap();
        let share = missing_s / printed_cpu_s(&output);
        assert!((0.95..1.10).contains(&share), "{share} of the time: {summary}");
        assert_eq!(unrecorded(&summary, name)["cause"], "undumpable_exec");
        let line = format!("not recorded: {name} (");
        assert!(
            stderr.contains(&line) && !stderr.contains("too little CPU time"),
            "{stderr}"
        );

        let in_profile = Profile::read(&profile).quality();
        let milliseconds = in_profile["CPU time not recorded, at least"].as_f64().unwrap();
        assert!((milliseconds / 1e3 / missing_s - 1.0).abs() < 1e-3, "{in_profile:?}");
        let report = support::sprof().arg("report").arg(&profile).output().unwrap();
        let report = String::from_utf8_lossy(&report.stdout);
        for words in ["CPU time not recorded, at least: ", &format!("Not recorded: {name} (")] {
            assert!(report.contains(words), "{report}");
        }
    }
}

#[test]
fn a_shell_that_runs_a_set_user_id_program_is_recorded_and_that_program_is_said_not_to_be() {
    let Some(()) = can_become_nobody() else { return };
    let playground = Playground::new(&["processes"]);
    let Some(of_root) = playground.processes_of_root("of-root", 0o4755) else {
        return;
    };
    let script = format!(
        "{} work 500; {} work 500",
        of_root.display(),
        playground.path("processes").display()
    );
    let profile = playground.path("profile.json.gz");
    let (output, stolen_ms) = with_stolen_ms(|| {
        let mut command = playground.as_nobody_with_rights(playground.path("sprof"));
        command.args(["record", "--save-only", "--json", "-o"]).arg(&profile);
        command.args(["--", "sh", "-c", &script]).output().unwrap()
    });
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let summary = summary(&output);
    // The time of the other program is that of its samples, and of no line. Which of the kernel's clocks go on while
    // the host has a CPU depends on the kernel.
    let missing_s = summary["cpu_account"]["unrecorded_cpu_time_s"].as_f64().unwrap();
    let printed_s = printed_cpu_s(&output);
    let (share, stolen) = (missing_s / printed_s, stolen_ms / 1e3 / printed_s);
    assert!(
        (0.95 - stolen..1.10 + stolen).contains(&share),
        "{share} of the time, {stolen} were taken away: {summary}"
    );
    assert!(
        unrecorded(&summary, "of-root")["cpu_time_s"].as_f64().unwrap() <= missing_s + 0.01,
        "{summary}"
    );
    assert_eq!(
        summary["cpu_account"]["unrecorded"].as_array().unwrap().len(),
        1,
        "{summary}"
    );
    assert!(stderr.contains("not recorded: of-root ("), "{stderr}");
    let profile = Profile::read(&profile);
    // Of 500: a host that takes two thirds of the CPU time away leaves half.
    assert!(profile.share_of("exec_work").hits > 150, "{}", profile.summary());
}

#[test]
fn a_process_of_another_user_below_an_attached_one_is_said_not_to_be_recorded() {
    let Some(()) = can_become_nobody() else { return };
    let playground = Playground::new(&[]);
    let Some(of_root) = playground.processes_of_root("of-root", 0o4755) else {
        return;
    };
    let script = format!("{} work 600000; true", of_root.display());
    let mut shell = playground.as_nobody_with_rights("sh");
    let target = Target(shell.args(["-c", &script]).stdout(Stdio::null()).spawn().unwrap());
    let below = || std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", target.pid())).unwrap();
    wait_until(|| !below().is_empty(), || "no process of root".to_owned());
    wait_for_thread(below().trim(), "of-root");
    let profile = playground.path("profile.json.gz");
    let mut command = playground.as_nobody_with_rights(playground.path("sprof"));
    command
        .args(["record", "--save-only", "--json", "-d", "1", "-o"])
        .arg(&profile);
    let output = command.args(["-p", &target.pid()]).output().unwrap();
    let below = Command::new("pkill")
        .args(["-KILL", "-P", &target.pid()])
        .status()
        .unwrap();
    assert!(below.success());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let summary = summary(&output);
    let process = unrecorded(&summary, "of-root");
    assert_eq!(process["cause"], "other_user");
    assert!(process["cpu_time_s"].as_f64().unwrap() > 0.0, "{summary}");
    assert!(stderr.contains("of another user"), "{stderr}");
}
