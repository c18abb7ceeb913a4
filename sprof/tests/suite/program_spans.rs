//! Spans, instants and counters that a program records with the crate sprof-spans or with `sprof.h`.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::machine::one_cpu;
use crate::support::playground::Playground;
use crate::support::run::output;
use crate::support::schema::parsed;
use crate::support::skip::{perf_events, root};
use crate::support::steal::with_stolen_ms;
use crate::support::target::Target;
use crate::support::{Profile, Recording, program, record, sprof, temp_dir, wait_until};

/// Times of one clock, read as two: the counter of the processor is placed on the kernel's clock by readings that take
/// microseconds at most, unless the hypervisor takes the CPU away.
const CLOCKS_MS: f64 = 0.1;

/// A marker of a program.
#[derive(Clone, Debug)]
struct Seen {
    thread: String,
    is_main: bool,
    start: f64,
    end: Option<f64>,
    data: Value,
}

fn spans(profile: &Profile, name: &str) -> Vec<Seen> {
    let tables = profile.json["threads"].as_array().unwrap();
    let threads = profile.threads.iter().zip(tables).flat_map(|(thread, table)| {
        let markers = &table["markers"];
        (0..thread.marker_names.len())
            .filter(|at| thread.marker_names[*at] == name && markers["data"][*at]["type"] == "Span")
            .map(|at| Seen {
                thread: thread.tid.clone(),
                is_main: thread.is_main,
                start: markers["startTime"][at].as_f64().unwrap(),
                end: markers["endTime"][at].as_f64(),
                data: markers["data"][at].clone(),
            })
            .collect::<Vec<_>>()
    });
    let mut spans: Vec<Seen> = threads.collect();
    spans.sort_by(|one, other| one.start.total_cmp(&other.start));
    spans
}

/// Each span is where the program saw it, and all else is there as well.
fn assert_rounds(profile: &Profile, truth: &str) {
    let truth: Vec<f64> = truth.split(' ').map(|ns| ns.parse::<f64>().unwrap() / 1e6).collect();
    let (truth, _) = truth.as_chunks::<4>();
    let rounds = spans(profile, "round");
    assert_eq!(rounds.len(), truth.len(), "{}", profile.summary());
    // From the program's clock to the recording's, as far as the first span says.
    let offset = (
        rounds[0].start - truth[0][1] - CLOCKS_MS,
        rounds[0].start - truth[0][0] + CLOCKS_MS,
    );
    for (number, (round, [before, after, before_end, after_end])) in rounds.iter().zip(truth).enumerate() {
        let (start, end) = (round.start, round.end.unwrap());
        assert!(
            start >= before + offset.0 && start <= after + offset.1,
            "{number}: {round:?}, {offset:?}"
        );
        assert!(
            end >= before_end + offset.0 && end <= after_end + offset.1,
            "{number}: {round:?}, {offset:?}"
        );
        let fields = ["round", "text", "half", "less", "is"].map(|key| round.data[key].clone());
        assert_eq!(fields[..3], [json!(number), json!("hällo"), json!(0.5)], "{round:?}");
        assert_eq!(fields[3], json!(-1), "{round:?}");
        assert!([json!(true), json!("true"), json!(1)].contains(&fields[4]), "{round:?}");
        assert!(round.is_main);
    }
    for (name, count) in [
        ("compute", 10),
        ("sleep", 10),
        ("turn", 9),
        ("computed", 10),
        ("task", 1),
        ("send", 1),
        ("receive", 1),
    ] {
        assert_eq!(spans(profile, name).len(), count, "{name}: {}", profile.summary());
    }
    let (compute, sleep) = (spans(profile, "compute"), spans(profile, "sleep"));
    for (round, (compute, sleep)) in rounds.iter().zip(compute.iter().zip(&sleep)) {
        // Records that sprof takes in two of its rounds are placed by other readings of the clocks.
        let order = [
            (round.start, compute.start),
            (compute.end.unwrap(), sleep.start),
            (sleep.end.unwrap(), round.end.unwrap()),
        ];
        assert!(
            order.iter().all(|(earlier, later)| *earlier <= *later + CLOCKS_MS),
            "{round:?} {compute:?} {sleep:?}"
        );
        // The clock of a thread's CPU time has a pace of its own.
        assert!(compute.end.unwrap() - compute.start >= 4.0 - CLOCKS_MS, "{compute:?}");
        assert!(sleep.end.unwrap() - sleep.start >= 6.0, "{sleep:?}");
    }
    // On the clock of the samples: what runs in a span is sampled in it.
    let mut inside = 0;
    for sample in profile.samples() {
        let names = sample
            .stack
            .map(|stack| profile.names(stack).any(|name| name.ends_with("busy")));
        if names == Some(true) {
            let is_in = |span: &Seen| {
                sample.time_ms >= span.start - CLOCKS_MS && sample.time_ms <= span.end.unwrap() + CLOCKS_MS
            };
            assert!(compute.iter().any(is_in), "{}: {compute:?}", sample.time_ms);
            inside += 1;
        }
    }
    assert!(inside > 0, "{}", profile.summary());
    // The task began on the main thread, and ended on the other one.
    let (task, receive) = (&spans(profile, "task")[0], &spans(profile, "receive")[0]);
    assert!(task.is_main && !receive.is_main && task.data["lane"].is_u64() && task.data["id"] == 7);
    assert!(task.start <= receive.start && task.end <= receive.end);
    let flow = &spans(profile, "send")[0].data["flow"];
    assert!(!flow.is_null() && *flow == receive.data["terminates"], "{receive:?}");
    assert_eq!(plotted(profile, "queue").iter().sum::<f64>(), 45.0);
}

/// The values of a counter of the program. Such a line begins at 0.
fn plotted(profile: &Profile, name: &str) -> Vec<f64> {
    let counters = profile.json["counters"].as_array().unwrap();
    let mut of_name = counters.iter().filter(|counter| counter["name"] == name);
    let values = of_name.next().unwrap()["samples"]["number"].as_array().unwrap();
    assert!(of_name.next().is_none());
    values.iter().map(|value| value.as_f64().unwrap()).collect()
}

fn assert_nothing_lost(recording: &Recording) {
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    recording.assert_tidy();
    let said = recording
        .stderr
        .lines()
        .find(|line| line.contains("the spans of") || line.contains("spans were lost"));
    assert_eq!(said, None, "{}", recording.stderr);
}

#[test]
fn spans_have_their_times_fields_and_threads_with_perf_and_with_ptrace() {
    let Some(()) = perf_events() else { return };
    let refuse = program("refuse").unwrap();
    for recorder in [record(), record().under(&[refuse.to_str().unwrap(), "eperm"])] {
        // At the rate of ptrace chance would sample nothing of 40 ms.
        let recorder = recorder.options(&["-r", "1000"]);
        let (recording, profile) = recorder.profile(program("spans_rs").unwrap(), &["once"]);
        assert_nothing_lost(&recording);
        assert_rounds(&profile, recording.stdout.trim());
    }
}

#[test]
fn a_running_program_has_the_spans_of_each_recording_and_of_no_other_time() {
    let Some(()) = perf_events() else { return };
    let mut target = Target::start(program("spans_rs").unwrap(), &[""; 0]);
    for _ in 0..2 {
        target.ask();
        let memory = memory_of(&target.pid());
        let state = || state_in(&memory);
        assert_eq!(state(), 0);
        let running = record().options(&["-p", &target.pid()]).attach();
        wait_until(|| state() != 0, || "spans are not recorded".to_owned());
        let truth = target.ask();
        running.signal_sprof("INT");
        let recording = running.finish();
        assert_nothing_lost(&recording);
        assert_rounds(&recording.profile(), &truth);
        assert_eq!(state(), 0);
    }
    target.end();
}

/// Not 0 while spans are recorded.
fn state_in(memory: &File) -> u64 {
    let mut word = [0; 8];
    memory.read_exact_at(&mut word, 0).unwrap();
    u64::from_ne_bytes(word)
}

/// The memory that a process shares with sprof.
fn memory_of(pid: &str) -> File {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is_memory =
        |path: &std::path::PathBuf| fs::read_link(path).is_ok_and(|to| to.starts_with("/memfd:sprof-spans (deleted)"));
    File::open(descriptors.into_iter().find(is_memory).unwrap()).unwrap()
}

#[test]
fn the_header_for_c_does_the_same_with_all_compilers_and_a_fork_has_its_own_spans() {
    let Some(()) = perf_events() else { return };
    for name in ["spans_gcc", "spans_clang", "spans_gxx", "spans_clangxx"] {
        let Some(path) = program(name) else { continue };
        // Times of CLOCK_MONOTONIC, and no sprof.
        let status = Command::new(&path).arg("closes").env("SPROF_SPANS", "3:").status();
        assert!(status.unwrap().success(), "{name}");
        let (recording, profile) = record().profile(path, &["7"]);
        assert_nothing_lost(&recording);
        let count = |name: &str| spans(&profile, name).len();
        let all = [
            "work",
            "inner",
            "frame",
            "task",
            "in thread",
            "step",
            "child",
            "parent",
            "instant",
        ];
        assert_eq!(
            all.map(count),
            [7, 7, 6, 1, 1, 1, 7, 1, 14],
            "{name}: {}",
            profile.summary()
        );
        assert_eq!(plotted(&profile, "plot"), [0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let (work, inner) = (spans(&profile, "work"), spans(&profile, "inner"));
        for (number, (work, inner)) in work.iter().zip(&inner).enumerate() {
            let fields = ["number", "text", "half"].map(|key| work.data[key].clone());
            assert_eq!(
                fields,
                [json!(-(number as i64)), json!("hällo"), json!(0.5)],
                "{work:?}"
            );
            assert!(inner.start >= work.start && inner.end <= work.end && inner.end.unwrap() - inner.start >= 0.2);
        }
        let (parent, child) = (&spans(&profile, "parent")[0], spans(&profile, "child"));
        assert!(
            child
                .iter()
                .all(|span| span.thread != parent.thread && span.end.unwrap() <= parent.end.unwrap() + CLOCKS_MS)
        );
        let task = &spans(&profile, "task")[0];
        assert!(task.is_main && task.end.unwrap() >= spans(&profile, "in thread")[0].start - CLOCKS_MS);
        // Its main thread paused the recording before all, and the fork resumed it.
        let sampled = &profile.json["meta"]["sprof"]["recorded"]["sampled"];
        assert_eq!(sampled["parts"], 2, "{name}: {}", profile.summary());
    }
}

/// They are over before sprof looks.
#[test]
fn programs_of_a_millisecond_have_their_spans() {
    let Some(()) = perf_events() else { return };
    let path = program("spans_gcc").unwrap();
    let script = format!("i=0; while [ $i -lt 20 ]; do {} 0; i=$((i+1)); done", path.display());
    let (recording, profile) = record().profile("sh", &["-c", &script]);
    assert_nothing_lost(&recording);
    for name in ["task", "step", "parent"] {
        assert_eq!(spans(&profile, name).len(), 20, "{name}: {}", profile.summary());
    }
}

/// Far more than a ring holds, faster than sprof reads.
#[test]
fn spans_that_come_too_fast_are_there_or_are_counted() {
    let Some(()) = perf_events() else { return };
    assert_there_or_counted(400_000);
}

fn assert_there_or_counted(all: u32) {
    let (recording, profile) = record().profile(program("spans_rs").unwrap(), &[&all.to_string()]);
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    let thinned = &profile.json["meta"]["sprof"]["recorded"]["thinnedSpans"];
    let kept = thinned[0]["count"]
        .as_u64()
        .unwrap_or(spans(&profile, "one of many").len() as u64);
    let lost = profile.figure_if_any(&["lost, ring full: spans"]).unwrap_or_default();
    assert!(
        kept > 100_000 && kept as f64 + lost == f64::from(all),
        "{kept} and {lost}: {}",
        recording.stderr
    );
    assert_eq!(
        lost > 0.0,
        recording.stderr.contains("spans were lost"),
        "{}",
        recording.stderr
    );
}

/// Of spans of one thread, and of four, slow enough that few are lost where the host takes the CPUs away for longer
/// than a ring lasts. What a span measures of itself is inside of it or around it.
#[test]
#[ignore = "takes minutes: 400,000 spans have the same rules"]
fn ten_million_spans_are_exact_in_number_sum_and_longest_or_are_counted() {
    let Some(()) = perf_events() else { return };
    for threads in [1, 4] {
        let [of_each, ns] = [10_000_000 / threads, 4_000].map(|number| number.to_string());
        let program = program("spans_rs").unwrap();
        let recording = record().run(program, &[&threads.to_string(), &of_each, &ns]);
        assert_eq!(recording.code, Some(0), "{}", recording.stderr);
        let words = recording.stdout.split_whitespace();
        let truth: Vec<f64> = words.map(|ns| ns.parse::<f64>().unwrap() / 1e6).collect();
        let [inside, around, longest_inside, longest_around] = truth[..] else {
            panic!("{}", recording.stdout);
        };
        let file = recording.output.to_str().unwrap();
        let report = |format: &str| {
            let output = sprof()
                .args(["report", file, "--view", "spans", "-f", format])
                .output()
                .unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let json: Value = parsed(&report("json"));
        let row = &json["views"][0]["rows"][0];
        let lost = Profile::read(&recording.output).figure_if_any(&["lost, ring full: spans"]);
        let lost = lost.unwrap_or_default();
        assert_eq!(row["name"], "paced");
        assert_eq!(row["count"].as_f64().unwrap() + lost, 10_000_000.0, "{row}");
        assert!(lost < 100_000.0, "{lost} were lost");
        let [total, longest] = ["total_ms", "max_ms"].map(|key| row[key].as_f64().unwrap());
        // The program has another clock than sprof, which compares both each round.
        assert!(
            total + lost * longest_around > inside * 0.999 && total < around * 1.001,
            "{inside} {total} {around}, {lost} lost"
        );
        // The longest one may be lost, too.
        let is_longest = (lost > 0.0 || longest > longest_inside - CLOCKS_MS) && longest < longest_around + CLOCKS_MS;
        assert!(is_longest, "{longest_inside} {longest} {longest_around}");
        let kept = row["kept"].as_u64().unwrap();
        assert!((100_000..=300_000).contains(&kept), "{row}");
        assert!(report("text").contains("chosen by chance: all but number, sum and longest are estimates"));
    }
    assert_there_or_counted(10_000_000);
}

#[test]
fn a_program_of_200_threads_records_parts_of_itself() {
    let Some(()) = perf_events() else { return };
    let folder = temp_dir();
    let mut command = Command::new(program("records_itself_rs").unwrap());
    command.arg(folder.path()).env("SPROF", env!("CARGO_BIN_EXE_sprof"));
    command.env("SPROF_CACHE", "off").env_remove("SPROF_SPANS");
    let output = output(&mut command);
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{stdout}{stderr}");
    for words in [
        "first: this process records itself already",
        "second: this process records itself already",
        "killed: sprof has not saved the profile: signal: 9",
        "refused: sprof cannot record this process: cannot write the profile to ",
        "missing: cannot start ",
    ] {
        assert!(stdout.contains(words), "{words}: {stdout}");
    }
    for name in ["first", "second", "last"] {
        let path = folder.path().join(name).with_extension("json.gz");
        wait_until(|| path.exists(), || format!("{name}: {stdout}{stderr}"));
        let profile = Profile::read(&path);
        let calls = |function: &str| profile.share(|_| true, |names| names.iter().any(|name| name.ends_with(function)));
        assert!(calls("inside").hits > 0, "{name}: {}", profile.summary());
        assert_eq!(calls("outside").hits, 0, "{name}: {}", profile.summary());
        assert_eq!(spans(&profile, "inside").len(), 1, "{name}: {}", profile.summary());
        let waits = spans(&profile, "waits");
        let threads: BTreeSet<&str> = waits.iter().map(|span| &*span.thread).collect();
        assert_eq!(threads.len(), 200, "{name}: {}", profile.summary());
    }
}

/// A profile of `sections` has what ran in them, and nothing else. What the host took away meanwhile (`stolen_ms`) can
/// be in no sample, and is no wait.
fn assert_sections(recording: &Recording, profile: &Profile, truth: &str, has_waits: bool, stolen_ms: f64) {
    let truth: Vec<f64> = truth.split(' ').map(|number| number.parse().unwrap()).collect();
    let [parts, times @ ..] = *truth.first_chunk::<5>().unwrap();
    let [cpu_ms, waited_ms, most_cpu_ms, most_waited_ms] = times.map(|ns| ns / 1e6);
    let summary = profile.summary();
    let calls = |function: &str| profile.share(|_| true, |names| names.iter().any(|name| name.ends_with(function)));
    assert_eq!(calls("outside").hits, 0, "{summary}");
    let facts = &profile.json["meta"]["sprof"]["recorded"]["sampled"];
    let lasted: Vec<f64> = facts["lastedNs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|ns| ns.as_f64().unwrap())
        .collect();
    let sampled_ms: f64 = lasted.iter().skip(1).step_by(2).sum::<f64>() / 1e6;
    assert_eq!(
        (
            facts["parts"].as_f64().unwrap(),
            facts["sampledNs"].as_f64().unwrap() / 1e6
        ),
        (parts, sampled_ms)
    );
    assert!(
        sampled_ms >= cpu_ms + waited_ms && sampled_ms <= most_cpu_ms + most_waited_ms,
        "{facts}: {truth:?}, {summary}"
    );
    assert!(
        recording.stderr.contains(&format!(" of it in {parts} parts")),
        "{}",
        recording.stderr
    );
    // Pauses are on the timeline.
    let pauses = profile
        .threads
        .iter()
        .flat_map(|thread| &thread.marker_names)
        .filter(|name| *name == "Paused");
    assert_eq!(pauses.count() as f64, parts + 1.0, "{summary}");
    assert_eq!(spans(profile, "outside").len() as f64, parts, "{summary}");
    let has = |stack: usize, function: &str| profile.names(stack).any(|name| name.ends_with(function));
    let of = |waits: bool| -> (f64, f64) {
        let samples = profile.samples().filter(|sample| {
            sample
                .stack
                .is_some_and(|stack| has(stack, "::section") && has(stack, "[off-CPU]") == waits)
        });
        samples.fold((0.0, 0.0), |(number, ms), sample| (number + 1.0, ms + sample.weight))
    };
    let (number, ms) = of(false);
    let error_ms = 5.0 * ms / number.sqrt() + stolen_ms;
    assert!(
        ms >= cpu_ms - error_ms && ms <= most_cpu_ms + error_ms,
        "{ms} of {cpu_ms} ms in {number} samples, {stolen_ms} ms stolen: {summary}"
    );
    if has_waits {
        // Waits are timed, and the kernel's CPU time counts some microseconds of each switch. The main thread also
        // waits for the other one.
        let (_, ms) = of(true);
        let error_ms = 0.1 * parts + stolen_ms;
        assert!(
            ms >= waited_ms - error_ms && ms <= most_waited_ms + error_ms,
            "waited {ms} of {waited_ms} ms, {stolen_ms} ms stolen: {summary}"
        );
    }
}

#[test]
fn only_the_sections_that_the_program_chooses_are_sampled_and_waits_are_cut_at_their_ends() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    let (path, refuse) = (program("spans_rs").unwrap(), program("refuse").unwrap());
    let options = ["--paused", "--off-cpu", "-r", "2000"];
    let ((recording, profile), stolen_ms) = with_stolen_ms(|| record().options(&options).profile(&path, &["sections"]));
    assert_nothing_lost(&recording);
    assert_sections(&recording, &profile, recording.stdout.trim(), true, stolen_ms);
    let ((recording, profile), stolen_ms) = with_stolen_ms(|| {
        let with_ptrace = record().options(&["--paused", "-r", "1000"]);
        let with_ptrace = with_ptrace.under(&[refuse.to_str().unwrap(), "eperm"]);
        with_ptrace.profile(&path, &["sections"])
    });
    assert_sections(&recording, &profile, recording.stdout.trim(), false, stolen_ms);
    let mut target = Target::start(&path, &["each"]);
    target.ask();
    let memory = memory_of(&target.pid());
    let ((recording, truth), stolen_ms) = with_stolen_ms(|| {
        let running = record().options(&options).options(&["-p", &target.pid()]).attach();
        wait_until(|| state_in(&memory) != 0, || "spans are not recorded".to_owned());
        let truth = target.ask();
        running.signal_sprof("INT");
        (running.finish(), truth)
    });
    assert_sections(&recording, &recording.profile(), &truth, true, stolen_ms);
    target.end();
}

#[test]
fn a_program_that_never_resumes_is_told_how_and_the_whole_machine_is_not_paused() {
    let Some(()) = perf_events() else { return };
    let path = program("spans_rs").unwrap();
    let (recording, profile) = record().options(&["--paused"]).profile(&path, &["1"]);
    assert!(
        recording.stderr.contains("sampled 0.00 s of it in 0 parts"),
        "{}",
        recording.stderr
    );
    let cause =
        "no samples: the recording was paused, and no program has resumed it: it calls sprof_spans::Recording::";
    assert!(recording.stderr.contains(cause), "{}", recording.stderr);
    assert_eq!(profile.samples().count(), 0, "{}", profile.summary());
    for with in ["-a", "--heap"] {
        let refused = record().options(&["--paused", with]).run(&path, &["1"]);
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    }
}

#[test]
fn a_program_that_may_not_be_recorded_learns_why_and_what_to_do() {
    let learns = |mut command: Command, folder: &Path, sprof: &Path, words: &[&str]| {
        command.args([folder, Path::new("only")]);
        command.env("SPROF", sprof).env("SPROF_CACHE", "off");
        let output = output(&mut command);
        let [said, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert!(
            output.status.success() && said.starts_with("sprof cannot record this process: "),
            "{said}{stderr}"
        );
        words
            .iter()
            .for_each(|word| assert!(said.contains(word), "{word}: {said}"));
        assert!(!folder.join("part.json.gz").exists(), "{said}");
    };
    let folder = temp_dir();
    let mut refused = Command::new(program("refuse").unwrap());
    refused.arg("eperm").arg(program("records_itself_rs").unwrap());
    let words = ["Operation not permitted", "seccomp", "--cap-add PERFMON"];
    learns(refused, folder.path(), Path::new(env!("CARGO_BIN_EXE_sprof")), &words);
    let Some(()) = perf_events().and_then(|()| root().then_some(())) else {
        return;
    };
    // The kernel protects a program that its user may not read.
    let playground = Playground::new(&["records_itself_rs"]);
    let path = playground.path("records_itself_rs");
    fs::set_permissions(&path, Permissions::from_mode(0o711)).unwrap();
    // setpriv itself has rights up to its exec.
    let mut protected = playground.as_nobody("env");
    protected.arg(path);
    let words = ["the kernel protects it", "sudo ", " record -p "];
    learns(protected, &playground.path("."), &playground.path("sprof"), &words);
}
