//! `-e`: programs that do known numbers of things, recorded for real.
#![cfg(target_os = "linux")]

use std::cell::RefCell;
use std::process::{Command, Stdio};

use crate::spool::wait_until_written;
use crate::support::events::{markers, record_events, thread, weight};
use crate::support::machine::{alone, one_cpu};
use crate::support::playground::Playground;
use crate::support::run::{Running, sprof};
use crate::support::skip::{kernel_samples, paranoid, perf_events, root, tracepoints};
use crate::support::steal::undisturbed_or_right;
use crate::support::{Profile, Recording, program, record, wait_until};
use serde_json::Value;

#[test]
fn page_faults_are_weighed_in_the_place_of_cpu_time() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    // The rings have no room for what comes while the host takes the CPU away from sprof alone.
    let measured = RefCell::new(None);
    undisturbed_or_right(|| {
        let (recording, profile) = record_events(&["-e", "page-faults"], &["faults", "10000"]);
        {
            let samples = &thread(&profile, "events").samples;
            let of = |function: &str| weight(&profile, samples, |names| names.contains(&function));
            // 10,000 and 30,000, to a sample's weight of 16: nothing is estimated.
            assert!((of("few_pages") - 10_000.0).abs() <= 32.0, "{}", profile.summary());
            assert!((of("many_pages") - 30_000.0).abs() <= 32.0, "{}", profile.summary());
        }
        *measured.borrow_mut() = Some((recording, profile));
    });
    let (recording, profile) = measured.into_inner().unwrap();
    let samples = &thread(&profile, "events").samples;
    // Loading the program takes some 100.
    let all = weight(&profile, samples, |_| true);
    assert!((40_000.0..41_000.0).contains(&all), "{all}");
    // The CPU time is the kernel's, and not made of counts.
    assert_eq!(profile.json["meta"]["sampleUnits"]["threadCPUDelta"], "ns");
    assert!(samples.iter().all(|sample| sample.cpu_delta.is_some()));
    let length_ns = profile.json["meta"]["profilingEndTime"].as_f64().unwrap() * 1e6;
    assert!(profile.cpu_ns() <= length_ns, "{} of {length_ns}", profile.cpu_ns());
    let title = "functions by page-faults in their own code";
    assert!(recording.stderr.contains(title), "{}", recording.stderr);
    assert_eq!(profile.json["threads"][0]["samples"]["weightType"], "samples");
    let figures = profile.quality();
    assert_eq!(figures["Event"], "page-faults");
    assert_eq!(figures["page-faults: in the profile"].as_f64().unwrap(), all);
    let counted = figures["page-faults: counted by the kernel"].as_f64().unwrap();
    // What is left over on each CPU is less than one sample.
    let cpus = std::thread::available_parallelism().unwrap().get() as f64;
    assert!(
        (0.0..16.0 * cpus).contains(&(counted - all)),
        "{counted} counted, {all} in samples"
    );
    assert!(recording.stderr.contains("event page-faults: "), "{}", recording.stderr);
    // The CPU time of the program is the kernel's, in the first line. Shares and figures of samples are none of it.
    let mut lines = recording
        .stderr
        .lines()
        .skip_while(|line| !line.contains(": recorded "));
    assert!(lines.next().is_some(), "{}", recording.stderr);
    assert!(!lines.any(|line| line.contains("CPU time")), "{}", recording.stderr);
    recording.assert_tidy();
}

#[test]
fn a_period_of_one_is_every_single_one() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    // Some 10,000 a second find room.
    let (_, profile) = record_events(&["-e", "page-faults/period=1/"], &["faults", "100"]);
    let samples = &thread(&profile, "events").samples;
    let of = |function: &str| weight(&profile, samples, |names| names.contains(&function));
    assert_eq!(
        (of("few_pages"), of("many_pages")),
        (100.0, 300.0),
        "{}",
        profile.summary()
    );
    assert!(samples.iter().all(|sample| sample.weight == 1.0));
}

#[test]
fn a_second_event_has_a_track_of_its_own_beside_the_thread() {
    let Some(()) = kernel_samples() else { return };
    one_cpu();
    // The rings have no room for what comes while the host takes the CPU away from sprof alone.
    undisturbed_or_right(|| {
        let events = ["-e", "page-faults,context-switches/period=1/"];
        let (recording, profile) = record_events(&events, &["both", "10000"]);
        let faults = &thread(&profile, "events").samples;
        let few = weight(&profile, faults, |names| names.contains(&"few_pages"));
        assert!((few - 10_000.0).abs() <= 32.0, "{few}\n{}", profile.summary());
        // A switch for each of the 100 naps, and one wherever other work took the CPU, as the kernel counted.
        let [slept, preempted] = ["slept", "preempted"].map(|name| recording.printed(name));
        let track = thread(&profile, "events · context-switches/period=1/");
        assert_eq!(track.pid, thread(&profile, "events").pid);
        let naps = weight(&profile, &track.samples, |names| names.contains(&"nap"));
        let others = weight(&profile, &track.samples, |names| names.contains(&"few_pages"));
        assert!(
            slept > 50.0 && naps >= slept && naps - slept + others <= preempted,
            "{naps} and {others}, {slept} slept, {preempted} preempted\n{}",
            profile.summary()
        );
        assert!(
            recording.stderr.contains("event context-switches/period=1/: "),
            "{}",
            recording.stderr
        );
        // The hottest functions are those of the first event.
        let hottest = recording.stderr.lines().find(|line| line.contains(" %  ")).unwrap();
        assert!(hottest.contains("many_pages"), "{}", recording.stderr);
    });
}

/// Ends a recording once this process has left its CPU so often in it, however long that takes.
fn after_switches(running: Running, pid: &str, number: u64) -> Recording {
    running.wait_for_sprof("Ctrl-C ends");
    let switches = || -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let count = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.unwrap().trim().parse().unwrap()
    };
    let before = switches();
    wait_until(
        || switches() >= before + number,
        || format!("{pid} left its CPU {} times", switches() - before),
    );
    running.signal_sprof("INT");
    running.finish()
}

#[test]
fn events_of_running_processes_of_cpus_and_of_the_whole_machine() {
    let Some(()) = tracepoints() else { return };
    alone();
    let program = program("events").unwrap();
    let mut target = Command::new(&program)
        .args(["sleep", "100000"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let pid = target.id().to_string();
    let options = [
        "-e",
        "context-switches/period=1/,syscalls:sys_enter_clock_nanosleep",
        "-p",
        &pid,
    ];
    let recording = after_switches(record().options(&options).attach(), &pid, 300);
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    let profile = recording.profile();
    let events = thread(&profile, "events");
    let naps = markers(events, "syscalls:sys_enter_clock_nanosleep").len() as f64;
    let switches = weight(&profile, &events.samples, |names| names.contains(&"nap"));
    assert!(naps > 50.0, "{}", recording.stderr);
    // It leaves its CPU in each nap, and where other work takes it.
    assert!(
        switches >= naps - 2.0 && switches < 2.0 * naps,
        "{switches} switches in {naps} naps"
    );

    let running = record().options(&["-a", "-e", "sched:sched_switch"]).attach();
    let recording = after_switches(running, &pid, 300);
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    let profile = recording.profile();
    let switches = markers(thread(&profile, "events"), "sched:sched_switch").len();
    assert!(switches > 50, "{}", recording.stderr);
    // An idle CPU switches, too, if there was one.
    let all: usize = (profile.threads.iter())
        .map(|thread| markers(thread, "sched:sched_switch").len())
        .sum();
    let counted = profile.quality()["sched:sched_switch: counted by the kernel"]
        .as_u64()
        .unwrap();
    // Of tasks that had ended, and for which the rings had no room while the host took the CPU away from sprof alone.
    let quality = profile.quality();
    let unusable: u64 = { quality.iter() }
        .filter(|(label, _)| label.starts_with("Lost, ") && label.ends_with(": point events"))
        .map(|(_, count)| count.as_u64().unwrap())
        .sum();
    assert!(all as u64 + unusable >= counted, "{all} of {counted}, {unusable} lost");
    thread(&profile, "swapper");
    target.kill().unwrap();
    target.wait().unwrap();

    let (_, profile) = record_events(
        &[
            "--per-cpu-threads",
            "-e",
            "page-faults,minor-faults,syscalls:sys_enter_getppid",
        ],
        &["faults", "2000"],
    );
    let of = |suffix: &str, function: &str| -> f64 {
        let cpus = profile.threads.iter().filter(|thread| {
            thread.name.starts_with("CPU ")
                && thread.name.ends_with(suffix)
                && suffix.is_empty() != thread.name.contains('·')
        });
        cpus.map(|thread| weight(&profile, &thread.samples, |names| names.contains(&function)))
            .sum()
    };
    for suffix in ["", " · minor-faults"] {
        assert!(
            (of(suffix, "few_pages") - 2000.0).abs() <= 64.0,
            "{suffix}: {}",
            profile.summary()
        );
    }
}

#[test]
fn with_off_cpu_samples_weigh_time_and_events_have_tracks() {
    let Some(()) = kernel_samples() else { return };
    alone();
    let (recording, profile) = record_events(&["--off-cpu", "-e", "page-faults"], &["both", "2000"]);
    assert!(
        recording.stderr.contains("page-faults has tracks of its own"),
        "{}",
        recording.stderr
    );
    let track = thread(&profile, "events · page-faults");
    let few = weight(&profile, &track.samples, |names| names.contains(&"few_pages"));
    assert!((few - 2000.0).abs() <= 32.0, "{few}");
    let naps = weight(&profile, &thread(&profile, "events").samples, |names| {
        names.contains(&"nap") && names.contains(&"[off-CPU]")
    });
    assert!(naps >= 20.0, "{naps} ms of 20 naps of 1 ms");
}

#[test]
fn modifiers_choose_between_user_and_kernel_code() {
    let Some(()) = kernel_samples() else { return };
    one_cpu();
    let is_kernel = |names: &[&str]| {
        names
            .last()
            .is_some_and(|name| !["few_pages", "many_pages"].contains(name))
    };
    // The kernel faults, too, where it reads what the program gave it: only a few times.
    let (_, profile) = record_events(&["-e", "page-faults/period=1/u"], &["faults", "100"]);
    let samples = &thread(&profile, "events").samples;
    assert_eq!(weight(&profile, samples, |names| names.contains(&"few_pages")), 100.0);
    let (recording, profile) = record_events(&["-e", "page-faults/period=1/k"], &["faults", "100"]);
    let samples = &thread(&profile, "events").samples;
    assert_eq!(weight(&profile, samples, |names| names.contains(&"few_pages")), 0.0);
    assert!(samples.iter().all(|sample| {
        let names: Vec<&str> = sample.stack.map_or(Vec::new(), |stack| profile.names(stack).collect());
        is_kernel(&names)
    }));
    assert!(!samples.is_empty(), "{}", recording.stderr);
}

#[test]
fn each_event_chooses_user_or_kernel_code_for_itself() {
    let Some(()) = kernel_samples() else { return };
    one_cpu();
    let (recording, profile) = record_events(
        &["-e", "cpu-clock:u,context-switches/period=1/,page-faults/period=1/"],
        &["both", "200"],
    );
    // A switch happens in the kernel only: one for each of the 2 naps.
    let switches = thread(&profile, "events · context-switches/period=1/");
    let naps = weight(&profile, &switches.samples, |names| names.contains(&"nap"));
    assert!(naps >= 2.0, "{naps}\n{}", profile.summary());
    // The kernel faults, too, where it lays out the new program's stack and reads its arguments.
    let faults = thread(&profile, "events · page-faults/period=1/");
    let few = weight(&profile, &faults.samples, |names| names.contains(&"few_pages"));
    assert_eq!(few, 200.0, "{}", profile.summary());
    let in_kernel = faults.samples.iter().filter(|sample| {
        let names: Vec<&str> = sample.stack.map_or(Vec::new(), |stack| profile.names(stack).collect());
        names
            .iter()
            .any(|name| name.contains("clear_user") || name.contains("copy_") || name.contains("exec"))
    });
    assert!(in_kernel.count() > 0, "{}", profile.summary());
    let figures = profile.quality();
    assert_eq!(figures["Kernel code"], "only user code was asked for");
    let asked = "what samples weigh; sampled every 1000000 times; user code only: only user code was asked for";
    assert_eq!(figures["cpu-clock:u"], asked);
    for event in ["context-switches/period=1/", "page-faults/period=1/"] {
        assert_eq!(figures[event], "tracks of their own; sampled each time");
    }
    assert!(!recording.stderr.contains("no permission"), "{}", recording.stderr);
}

#[test]
fn what_was_recorded_of_events_survives_kill_9() {
    let Some(()) = tracepoints() else { return };
    alone();
    let running = record()
        .options(&[
            "-e",
            "context-switches/period=1/,page-faults/period=1/,syscalls:sys_exit_getppid",
        ])
        .start(
            "sh",
            &[
                "-c",
                "$0 ask 200; $0 faults 100; echo ready; exec $0 sleep 100000",
                program("events").unwrap().to_str().unwrap(),
            ],
        );
    running.wait_for("ready");
    let mut spool = running.output().as_os_str().to_owned();
    spool.push(".partial");
    let asked = |profile: &Profile| -> Vec<Value> {
        let threads = profile.threads.iter();
        let asked = threads.flat_map(|thread| markers(thread, "syscalls:sys_exit_getppid"));
        asked.cloned().collect()
    };
    let few = |profile: &Profile| -> f64 {
        let threads = profile.threads.iter();
        let track = threads.filter(|thread| thread.name.ends_with(" · page-faults/period=1/"));
        let few = track.map(|thread| weight(profile, &thread.samples, |names| names.contains(&"few_pages")));
        few.sum()
    };
    wait_until_written(spool.as_ref(), |profile| {
        asked(profile).len() >= 201 && few(profile) == 100.0
    });
    running.signal_sprof("KILL");
    let output = running.output().with_file_name("saved.json.gz");
    let loaded = sprof()
        .args(["load", "--save-only", "-o"])
        .arg(&output)
        .arg(&spool)
        .output()
        .unwrap();
    assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
    let profile = Profile::read(&output);
    running.signal_group("KILL");
    assert_eq!(few(&profile), 100.0);
    let asked = asked(&profile);
    assert!(asked.len() >= 201, "{}", profile.summary());
    assert!(
        asked
            .iter()
            .all(|data| data["ret"].as_str().is_some_and(|id| id.parse::<u32>().is_ok()))
    );
    assert!(asked.iter().all(|data| data["cause"]["stack"].is_u64()));
    assert_eq!(profile.quality()["Event"], "context-switches/period=1/");
    drop(running.finish());
}

#[test]
fn the_list_tells_what_there_is_and_fits_in_a_pipe() {
    let Some(()) = tracepoints() else { return };
    let list = |event: &str| {
        let output = sprof().args(["record", "-e", event]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stderr.is_empty());
        String::from_utf8(output.stdout).unwrap()
    };
    let all = list("list");
    for expected in [
        "hardware",
        "cache",
        "software:",
        "  page-faults\n",
        "tracepoints: ",
        "  sched:*  (",
    ] {
        assert!(all.contains(expected), "no `{expected}` in: {all}");
    }
    assert!(list("list:sched:*").contains("\n  sched:sched_switch\n"));
    assert_eq!(list("list:sched_switch"), "tracepoints:\n  sched:sched_switch\n");
    assert_eq!(list("list:major"), "software:\n  major-faults\n");
    // A reader that leaves.
    let mut child = sprof()
        .args(["record", "-e", "list:*"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn what_cannot_be_recorded_is_said_before_the_program_runs() {
    let Some(()) = tracepoints() else { return };
    let refused = |event: &str, status: i32, words: &[&str]| {
        let recording = record().options(&["-e", event]).run("echo", &["ran"]);
        assert_eq!(recording.code, Some(status), "{event}: {}", recording.stderr);
        assert_eq!(recording.stdout, "", "{event}: the program ran");
        for word in words {
            assert!(
                recording.stderr.contains(word),
                "{event}: no `{word}` in: {}",
                recording.stderr
            );
        }
    };
    refused(
        "page-fault",
        2,
        &["no event `page-fault`", "did you mean page-faults", "-e list"],
    );
    refused("page-faults:x", 2, &["`x` is not a modifier"]);
    refused("page-faults/period=0/", 2, &["1 or more"]);
    refused(
        "sched:sched_swich",
        125,
        &["no tracepoint `sched:sched_swich`", "did you mean sched:sched_switch"],
    );
    refused("nothing:*", 125, &["no tracepoint `nothing:*`"]);
    refused("gpu/event=1/", 125, &["no PMU `gpu`", "it has: "]);
    refused("context-switches:u", 125, &["happens in the kernel only"]);
    // Most machines that build this are virtual, without counters.
    let cycles = record().options(&["-e", "cycles"]).run("echo", &["ran"]);
    if cycles.code != Some(0) {
        refused(
            "cycles",
            125,
            &[
                "cycles: this machine has no hardware counters (virtual machine?)",
                "-e list",
            ],
        );
        refused("L1-dcache-load-misses", 125, &["no hardware counters"]);
        refused("r1a8", 125, &["no hardware counters"]);
    }
    let count_alone = record().options(&["--count", "5"]).run("true", &[""; 0]);
    assert_eq!(count_alone.code, Some(2), "{}", count_alone.stderr);
    let nothing = record().options(&["-e", "page-faults"]).attach().finish();
    assert_eq!(nothing.code, Some(2));
    assert!(
        nothing.stderr.contains("nothing to record: give a command"),
        "{}",
        nothing.stderr
    );
}

#[test]
fn an_ordinary_user_has_the_events_of_user_code_and_is_told_of_the_others() {
    let Some(()) = tracepoints() else { return };
    if paranoid() != Some(2) {
        return;
    }
    one_cpu();
    let playground = Playground::new(&["events"]);
    // An ordinary user has small rings.
    undisturbed_or_right(|| {
        let (output, path) = playground.record(&["-e", "page-faults"], "events", &["faults", "2000"]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        let profile = Profile::read(&path);
        let few = weight(&profile, profile.samples(), |names| names.contains(&"few_pages"));
        assert!((few - 2000.0).abs() <= 32.0, "{few}\n{stderr}");
        assert!(stderr.contains("user code only"), "{stderr}");
    });
    // What was not asked for needs no permission.
    let (output, path) = playground.record(&["-e", "cpu-clock:u,page-faults"], "events", &["faults", "2000"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let profile = Profile::read(&path);
    let figures = profile.quality();
    let says = |event: &str, why: &str| figures[event].as_str().is_some_and(|says| says.ends_with(why));
    assert!(
        says("cpu-clock:u", "user code only: only user code was asked for"),
        "{stderr}"
    );
    assert!(says("page-faults", "user code only: no permission"), "{stderr}");
    assert!(stderr.contains("perf_event_paranoid is 2"), "{stderr}");
    for (event, words) in [
        ("context-switches", ["happens in the kernel", "perf_event_paranoid=1"]),
        ("page-faults:k", ["happens in the kernel", "perf_event_paranoid=1"]),
        ("sched:sched_switch", ["only root may read", "run sprof as root"]),
    ] {
        let (output, _) = playground.record(&["-e", event], "events", &["ask", "1"]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{event}: {stderr}");
        assert!(words.iter().all(|word| stderr.contains(word)), "{event}: {stderr}");
    }
}

#[test]
fn where_perf_event_open_is_refused_there_are_no_events_and_it_is_said() {
    if !root() {
        return;
    }
    let refuse = program("refuse").unwrap();
    let refused = record()
        .under(&[refuse.to_str().unwrap(), "eperm"])
        .options(&["-e", "page-faults"])
        .run("echo", &["ran"]);
    assert_eq!(refused.code, Some(125), "{}", refused.stderr);
    assert_eq!(refused.stdout, "");
    for word in ["cannot record page-faults", "ptrace", "knows no events", "without -e"] {
        assert!(refused.stderr.contains(word), "no `{word}` in: {}", refused.stderr);
    }
}
