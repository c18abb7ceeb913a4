//! `-e uprobe:...`, `-e usdt:...` and `-e breakpoint:...`: a program says how often its functions were called, and the
//! profile must have each call.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support;
use crate::support::machine::{alone, one_cpu};
use crate::support::playground::Playground;
use crate::support::run::Running;
use crate::support::schema::parsed;
use crate::support::skip;
use crate::support::steal::{has_taken_any, undisturbed_or_right};
use crate::support::{Profile, program, record, sprof, wait_until};
use serde_json::Value;

/// Goes on where probes can be defined.
fn probes() -> Option<()> {
    skip::tracepoints()?;
    let list = Path::new(LIST);
    skip::has(skip::Need::Uprobes, list.exists(), "this kernel has no uprobes").then_some(())
}

/// Goes on where the processor has breakpoint registers.
pub(crate) fn breakpoints() -> Option<()> {
    skip::perf_events()?;
    let output = sprof().args(["doctor", "--json"]).output().unwrap();
    let doctor: Value = parsed(&output.stdout);
    let limits = doctor["limits"].as_array().unwrap();
    let has_registers = limits
        .iter()
        .any(|limit| limit["id"] == "breakpoints" && limit["state"] == "works");
    skip::has(skip::Need::Breakpoints, has_registers, "no breakpoint registers here").then_some(())
}

const LIST: &str = "/sys/kernel/tracing/uprobe_events";

/// Definitions in the kernel of the sprof with this process id.
fn defined(pid: u32) -> Vec<String> {
    let start = format!("p:sprof_{pid}_");
    let list = fs::read_to_string(LIST).unwrap();
    (list.lines().filter(|line| line.starts_with(&start)).map(str::to_owned)).collect()
}

/// Definitions of every sprof that has ended.
fn left() -> Vec<String> {
    let list = || fs::read_to_string(LIST).unwrap();
    let has_ended = |line: &&str| {
        let pid = line.strip_prefix("p:sprof_").and_then(|rest| rest.split_once('_'));
        pid.is_some_and(|(pid, _)| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists())
    };
    let ended: Vec<String> = list().lines().filter(has_ended).map(str::to_owned).collect();
    // Another test's sprof may have ended, and taken its probe along, since the list was read.
    let now = list();
    let is_left = |probe: &String| now.lines().any(|line| line == probe);
    ended.into_iter().filter(is_left).collect()
}

/// A marker: its data, and its stack, root first.
struct Hit<'a> {
    data: &'a Value,
    stack: Vec<&'a str>,
    pid: &'a str,
    tid: &'a str,
}

fn hits<'a>(profile: &'a Profile, name: &str) -> Vec<Hit<'a>> {
    let mut hits = Vec::new();
    for thread in &profile.threads {
        for (data, _) in thread
            .markers
            .iter()
            .zip(&thread.marker_names)
            .filter(|(_, found)| *found == name)
        {
            let stack = data["cause"]["stack"]
                .as_u64()
                .unwrap_or_else(|| panic!("{name} without a stack: {data}"));
            hits.push(Hit {
                data,
                stack: profile.names(stack as usize).collect(),
                pid: &thread.pid,
                tid: &thread.tid,
            });
        }
    }
    hits
}

/// Calls that are counted as lost. A program fills a ring in an eighth of a second, and the host of a virtual machine
/// may take the CPU away from sprof alone for longer. Without such a host, none may be lost.
fn lost(profile: &Profile) -> usize {
    let lost = profile.figure_if_any(&["lost, ring full: point events"]);
    lost.filter(|_| has_taken_any()).map_or(0, |count| count as usize)
}

/// The function, called by this one; nothing is missing.
fn assert_called_by(hit: &Hit<'_>, function: &str, caller: &str) {
    assert!(
        matches!(&hit.stack[..], [.., above, leaf] if *leaf == function && *above == caller),
        "{:?}",
        hit.stack
    );
    assert!(
        !hit.stack.iter().any(|name| support::profile::is_mark(name)),
        "{:?}",
        hit.stack
    );
}

fn spec(path: &Path, function: &str) -> String {
    format!("uprobe:{}:{function}", path.display())
}

/// `probed` begins with work at once, `framed` with `push %rbp`; in the second program both begin with `endbr64`. At
/// each of these instructions the caller's frame is elsewhere.
#[test]
fn each_call_is_one_marker_below_its_caller_in_all_threads_and_children() {
    let Some(()) = probes() else { return };
    for (name, function) in [
        ("probes", "probed"),
        ("probes", "framed"),
        ("probes_endbr", "probed"),
        ("probes_endbr", "framed"),
    ] {
        let path = program(name).unwrap();
        let (recording, profile) = record()
            .options(&["-e", &spec(&path, function)])
            .profile(&path, &["calls", "250"]);
        assert_eq!(recording.printed("calls"), 3000.0);
        let hits = hits(&profile, &format!("uprobe:{function}"));
        let lost = lost(&profile);
        assert_eq!(hits.len() + lost, 3000, "{name} {function}\n{}", recording.stderr);
        // A ring holds more than these.
        assert!(hits.len() >= 400, "{lost} of 3000 were lost\n{}", recording.stderr);
        // The main thread, one that it starts, and a child: each 250 times from `one` and 750 times from `three`.
        let mut counts: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
        for hit in &hits {
            let caller = hit.stack[hit.stack.len() - 2];
            assert_called_by(hit, function, caller);
            *counts.entry((hit.pid, hit.tid, caller)).or_default() += 1;
        }
        assert_eq!(counts.len(), 6, "{counts:?}");
        for ((_, _, caller), count) in &counts {
            let expected = if *caller == "one" { 250 } else { 750 };
            let missing = expected - i64::try_from(*count).unwrap();
            assert!(
                (0..=lost as i64).contains(&missing) && ["one", "three"].contains(caller),
                "{counts:?}, {lost} lost"
            );
        }
        assert_eq!(left(), Vec::<String>::new());
    }
}

/// Each function is called by the main thread, one that it starts, and a child; with -p by threads of a program that
/// runs. Two of them take two of the registers.
#[test]
fn an_ordinary_user_has_each_call_by_breakpoints() {
    let Some(()) = breakpoints() else { return };
    if !skip::root() {
        return;
    }
    let playground = Playground::new(&["probes"]);
    let both = ["-e", "breakpoint:probed,breakpoint:framed"];
    let assert_has_all = |profile: &Profile, stderr: &str| {
        let (mut found, lost) = (0, lost(profile));
        for function in ["probed", "framed"] {
            let hits = hits(profile, &format!("breakpoint:{function}"));
            found += hits.len();
            assert!(hits.len() <= 300 && hits.len() + lost >= 300, "{function}\n{stderr}");
            let threads: std::collections::BTreeSet<_> = hits.iter().map(|hit| (hit.pid, hit.tid)).collect();
            assert_eq!(threads.len(), 3);
            for hit in &hits {
                let caller = hit.stack[hit.stack.len() - 2];
                assert!(["one", "three"].contains(&caller), "{:?}", hit.stack);
                assert_called_by(hit, function, caller);
            }
        }
        assert_eq!(found + lost, 600, "{stderr}");
    };
    let (output, path) = playground.record(&both, "probes", &["calls", "25"]);
    assert_has_all(&Profile::read(&path), &String::from_utf8_lossy(&output.stderr));

    let mut target = playground
        .as_nobody(playground.path("probes"))
        .args(["wait", "25"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let running = record()
        .options(&both)
        .options(&["-p", &target.id().to_string()])
        .attach();
    // Not the first words that have "recording": all threads are recorded then.
    running.wait_for_sprof("Ctrl-C ends");
    drop(target.stdin.take());
    assert!(target.wait().unwrap().success());
    let recording = running.finish();
    assert_has_all(&recording.profile(), &recording.stderr);
}

#[test]
fn a_program_that_executes_another_one_loses_its_breakpoints() {
    let Some(()) = breakpoints() else { return };
    let path = program("probes").unwrap();
    let (recording, profile) = record()
        .options(&["-e", "breakpoint:again"])
        .profile(&path, &["again", "3"]);
    assert_eq!(recording.printed("again"), 3.0, "{}", recording.stderr);
    // The other two were in a process after its exec, where the same file may be elsewhere.
    assert_eq!(hits(&profile, "breakpoint:again").len(), 1, "{}", recording.stderr);
}

#[test]
fn where_no_breakpoint_can_be_the_program_does_not_run() {
    let Some(()) = breakpoints() else { return };
    let path = program("probes").unwrap();
    let refused = |options: &[&str], program: &Path| {
        let recording = record().options(options).run(program, &["calls", "1"]);
        assert_eq!(recording.code, Some(125), "{}", recording.stderr);
        assert_eq!(recording.stdout, "");
        recording.stderr
    };
    let five = "breakpoint:probed,breakpoint:framed,breakpoint:one,breakpoint:three,breakpoint:main";
    assert!(refused(&["-e", five], &path).contains("too few breakpoint registers for 5"));
    let similar = refused(&["-e", "breakpoint:nothing"], &path);
    assert!(similar.contains("has no function nothing"), "{similar}");
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script");
    fs::write(&script, format!("exec {} calls 1\n", path.display())).unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert!(refused(&["-e", "breakpoint:probed"], &script).contains("not a valid ELF"));
    let all = sprof()
        .args(["record", "-s", "-a", "-d", "1", "-e", "breakpoint:probed"])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&all.stderr).contains("name them with -p"));
}

#[test]
fn a_flame_graph_of_a_probe_is_of_its_calls() {
    let Some(()) = probes() else { return };
    one_cpu();
    let path = program("probes").unwrap();
    let run = |event: &str, words: &[&str]| {
        let output = sprof()
            .args(["flamegraph", "-o", "-", "-e", event, "--"])
            .arg(&path)
            .args(words)
            .output()
            .unwrap();
        (
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    // The rings have no room for what comes while the host takes the CPU away from sprof alone.
    undisturbed_or_right(|| {
        let (svg, stderr) = run(&spec(&path, "probed"), &["calls", "250"]);
        // The main thread with one that it starts, and a child.
        for expected in [
            "<title>one (500 ",
            "<title>three (1,500 ",
            "<title>one (250 ",
            "<title>three (750 ",
        ] {
            assert!(svg.contains(expected), "no {expected} in\n{svg}\n{stderr}");
        }
    });
    // Each tenth, on each CPU that a thread was on.
    let (recording, profile) = record()
        .options(&["-e", &format!("{}/period=10/", spec(&path, "probed"))])
        .profile(&path, &["calls", "250"]);
    let tenths = hits(&profile, "uprobe:probed").len();
    let all = tenths..=tenths + lost(&profile);
    assert!(tenths <= 300 && *all.end() >= 250, "{all:?}\n{}", recording.stderr);
    // Nothing happened: that is no flame graph of something else.
    let (svg, stderr) = run(&spec(&path, "probed"), &["marks", "1"]);
    assert!(
        svg.is_empty() && stderr.contains("there was no `uprobe:probed`"),
        "{stderr}"
    );
}

#[test]
fn a_running_program_gets_a_probe_and_loses_it() {
    let Some(()) = probes() else { return };
    let path = program("probes").unwrap();
    let mut target = Command::new(&path)
        .args(["wait", "250"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let running = record()
        .options(&["-e", &spec(&path, "probed"), "-p", &target.id().to_string()])
        .attach();
    // Not the first words that have "recording": all threads are recorded then.
    running.wait_for_sprof("Ctrl-C ends");
    drop(target.stdin.take());
    let status = target.wait().unwrap();
    let recording = running.finish();
    assert!(status.success());
    let profile = recording.profile();
    let hits = hits(&profile, "uprobe:probed");
    assert_eq!(hits.len() + lost(&profile), 3000, "{}", recording.stderr);
    assert_eq!(left(), Vec::<String>::new());
}

/// The marks of the program: request(-i, 1000000007 i, 2 i, 7) for i from 0 to N - 1, in a register, a register,
/// memory, and a constant; `guarded` is passed only while someone counts its semaphore.
#[test]
fn usdt_marks_come_with_their_arguments_and_their_semaphore() {
    let Some(()) = probes() else { return };
    let path = program("probes").unwrap();
    let usdt = |name: &str| format!("usdt:{}:{name}", path.display());
    let (recording, profile) = record()
        .options(&["-e", &usdt("probes:request"), "-e", &usdt("guarded")])
        .profile(&path, &["marks", "500"]);
    assert_eq!(recording.printed("semaphore"), 1.0);
    let requests = hits(&profile, "usdt:probes:request");
    let guarded = hits(&profile, "usdt:probes:guarded").len();
    let all = requests.len() + guarded + lost(&profile);
    assert!(
        all == 1000 && requests.len() <= 500 && guarded <= 500,
        "{}",
        recording.stderr
    );
    let mut last = -1;
    for hit in &requests {
        let i = -hit.data["arg1"].as_str().unwrap().parse::<i64>().unwrap();
        assert!(i > last && i < 500, "{last} {i}");
        last = i;
        assert_eq!(hit.stack[hit.stack.len() - 2..], ["main", "marks"]);
        let expected = [-i, 1_000_000_007 * i, 2 * i, 7].map(|value| value.to_string());
        let found = ["arg1", "arg2", "arg3", "arg4"].map(|arg| hit.data[arg].as_str().unwrap_or_default().to_owned());
        assert_eq!(found, expected, "{}", hit.data);
    }

    // The other way round: who does not ask for it does not make the program do its work.
    let (recording, _) = record()
        .options(&["-e", &usdt("request")])
        .profile(&path, &["marks", "500"]);
    assert_eq!(recording.printed("semaphore"), 0.0);
}

#[test]
fn functions_of_rust_are_named_by_their_path() {
    let Some(()) = probes() else { return };
    for name in ["inline_rs", "inline_rs_v0"] {
        let path = program(name).unwrap();
        let (recording, profile) = record()
            .options(&["-e", &spec(&path, "inline::generic_call")])
            .profile(&path, &["40"]);
        let hits = hits(&profile, "uprobe:inline::generic_call");
        assert_eq!(hits.len(), 40, "{name}\n{}", recording.stderr);
        assert!(
            hits.iter().all(|hit| hit.stack.contains(&"inline::main")),
            "{:?}",
            hits[0].stack
        );
    }
}

#[test]
fn functions_of_libraries_are_found_by_the_library_s_name() {
    let Some(()) = probes() else { return };
    let path = program("probes").unwrap();
    let (recording, profile) = record()
        .options(&["-e", "uprobe:libc:fork"])
        .profile(&path, &["calls", "1"]);
    // The name that was recorded is a name of the event, too.
    for name in ["uprobe:libc:fork", "uprobe:fork"] {
        let file = recording.output.to_str().unwrap();
        let report = sprof().args(["report", file, "-e", name]).output().unwrap();
        assert!(report.status.success(), "{name}: {report:?}");
    }
    let hits = hits(&profile, "uprobe:fork");
    assert_eq!(hits.len(), 1, "{}", recording.stderr);
    assert!(hits[0].stack.contains(&"main"), "{:?}", hits[0].stack);
    // Which file that is.
    assert!(recording.stderr.contains("uprobe:fork is in /"), "{}", recording.stderr);
}

#[test]
fn however_a_recording_ends_no_definition_is_left() {
    let Some(()) = probes() else { return };
    let path = program("probes").unwrap();
    for signal in ["INT", "TERM", "HUP"] {
        let running = record()
            .options(&["-e", &spec(&path, "probed")])
            .start(&path, &["sleep"]);
        let pid = running.sprof_pid();
        wait_until(
            || defined(pid).len() == 1 && !running.targets().is_empty(),
            || format!("{signal}: a probe is defined, and the program runs"),
        );
        running.signal_group(signal);
        let recording = running.finish();
        assert_eq!(defined(pid), Vec::<String>::new(), "{signal}: {}", recording.stderr);
    }
    // A program that can't be run, after the probe was defined.
    let recording = record()
        .options(&["-e", &spec(&path, "probed")])
        .run("/nonexistent/program", &[] as &[&str]);
    assert_eq!(recording.code, Some(127), "{}", recording.stderr);
    let recording = record()
        .options(&["-e", &spec(&path, "probed"), "-e", "no-such:tracepoint"])
        .run(&path, &["calls"]);
    assert_ne!(recording.code, Some(0), "{}", recording.stderr);
    assert_eq!(left(), Vec::<String>::new());
}

#[test]
fn what_a_killed_sprof_left_is_told_and_removed_and_what_a_living_one_has_stays() {
    let Some(()) = probes() else { return };
    // The recording of another test would remove what is left.
    alone();
    let path = program("probes").unwrap();
    let killed = record()
        .options(&["-e", &spec(&path, "probed")])
        .start(&path, &["sleep"]);
    let living = record()
        .options(&["-e", &spec(&path, "framed")])
        .start(&path, &["sleep"]);
    let (killed_pid, living_pid) = (killed.sprof_pid(), living.sprof_pid());
    let is_recording = |pid, running: &Running| defined(pid).len() == 1 && !running.targets().is_empty();
    wait_until(
        || is_recording(killed_pid, &killed) && is_recording(living_pid, &living),
        || "two probes are defined, and both programs run".to_owned(),
    );
    killed.signal_group("KILL");
    drop(killed.finish());
    assert_eq!(defined(killed_pid).len(), 1, "nobody was there to remove it");

    let doctor = sprof().arg("doctor").output().unwrap();
    let text = String::from_utf8(doctor.stdout).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    assert!(
        text.contains(&format!("1 was left by a sprof that was killed (process {killed_pid})")),
        "{text}"
    );
    assert!(text.contains(&format!("-:sprof_{killed_pid}_")), "{text}");

    // Somebody else's.
    let others = "sprof_tests_of_others/e0";
    let at = defined(living_pid)[0].split(' ').nth(1).unwrap().to_owned();
    append(&format!("p:{others} {at}"));

    let (recording, profile) = record()
        .options(&["-e", &spec(&path, "probed")])
        .profile(&path, &["calls", "10"]);
    // One ring holds all of them.
    assert_eq!(hits(&profile, "uprobe:probed").len(), 120);
    assert!(recording.stderr.contains("removed 1 probe"), "{}", recording.stderr);
    assert_eq!(defined(killed_pid), Vec::<String>::new());
    assert_eq!(defined(living_pid).len(), 1, "the other one still records");
    assert!(fs::read_to_string(LIST).unwrap().contains(others));
    append(&format!("-:{others}"));

    living.signal_group("TERM");
    drop(living.finish());
    assert_eq!(left(), Vec::<String>::new());
}

fn append(line: &str) {
    use std::io::Write as _;
    let mut list = fs::OpenOptions::new().append(true).open(LIST).unwrap();
    list.write_all(format!("{line}\n").as_bytes()).unwrap();
}

#[test]
fn two_recordings_at_once_have_each_their_own_hits() {
    let Some(()) = probes() else { return };
    let path = program("probes").unwrap();
    let start = |n: &str| {
        record()
            .options(&["-e", &spec(&path, "probed")])
            .start(&path, &["calls", n])
    };
    let (first, second) = (start("100"), start("200"));
    for (running, calls) in [(first, 1200), (second, 2400)] {
        let recording = running.finish();
        let profile = recording.profile();
        let found = hits(&profile, "uprobe:probed").len() + lost(&profile);
        assert_eq!(found, calls, "{}", recording.stderr);
    }
    assert_eq!(left(), Vec::<String>::new());
}

#[test]
fn what_can_not_be_probed_is_refused_with_the_reason() {
    let Some(()) = probes() else { return };
    let path = program("probes").unwrap();
    let stripped = copy_without_symbols(&path);
    let at = path.display();
    let cases = [
        (
            "uprobe:/nonexistent:work".to_owned(),
            vec!["there is no file /nonexistent"],
        ),
        (format!("uprobe:{at}"), vec!["a probe has a file and a name"]),
        (spec(&path, "nothing"), vec!["has no function nothing", "nm -C"]),
        (
            "uprobe:libc:no_such_function".to_owned(),
            vec!["has no function no_such_function", "nm -CD"],
        ),
        (
            spec(&stripped, "probed"),
            vec!["was stripped of its symbols", "--symbol-dir"],
        ),
        (spec(&path, "0x2"), vec!["0x2 is not in the code of"]),
        (
            format!("usdt:{at}:nothing"),
            vec!["has no USDT probe nothing", "it has probes:guarded, probes:request"],
        ),
        (
            format!("usdt:{}:x", program("inline_rs").unwrap().display()),
            vec!["has no USDT probes"],
        ),
        (
            spec(&program("inline_rs").unwrap(), "inline::inlined_loop"),
            vec!["it was inlined in", "#[inline(never)]"],
        ),
    ];
    for (event, words) in cases {
        let recording = record().options(&["-e", &event]).run(&path, &["calls", "1"]);
        assert_eq!(recording.code, Some(125), "{event}: {}", recording.stderr);
        assert!(!recording.stdout.contains("calls="), "{event}: the program ran");
        for word in words {
            assert!(recording.stderr.contains(word), "{event}: {}", recording.stderr);
        }
        assert!(recording.stderr.contains(&event), "{event}: {}", recording.stderr);
    }
    assert_eq!(left(), Vec::<String>::new());
}

/// endbr64 (4 bytes) begins `probed` here: a breakpoint at its second byte would make another instruction of it.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_probe_within_an_instruction_is_refused() {
    let Some(()) = probes() else { return };
    let path = program("probes_endbr").unwrap();
    let refused = record()
        .options(&["-e", &spec(&path, "probed+2")])
        .run(&path, &["calls", "1"]);
    assert_eq!(refused.code, Some(125), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("is in the middle of an instruction"),
        "{}",
        refused.stderr
    );
    let (recording, profile) = record()
        .options(&["-e", &spec(&path, "probed+4")])
        .profile(&path, &["calls", "10"]);
    assert_eq!(hits(&profile, "uprobe:probed+4").len(), 120, "{}", recording.stderr);
}

/// The kernel's name for the system call that `events ask` makes.
const ASK: &str = match cfg!(target_arch = "aarch64") {
    true => "__arm64_sys_getppid",
    false => "__x64_sys_getppid",
};

/// See `arm64_machine.rs` for a kernel that certainly has such probes.
#[test]
fn a_function_of_the_kernel_is_recorded_at_each_call() {
    let Some(()) = skip::tracepoints() else { return };
    let event = format!("kprobe:{ASK}");
    let path = program("events").unwrap();
    if !Path::new("/sys/kernel/tracing/kprobe_events").exists() {
        let recording = record().options(&["-e", &event]).run(&path, &["ask", "500"]);
        assert_eq!(recording.code, Some(125), "{}", recording.stderr);
        for words in [event.as_str(), "CONFIG_KPROBES", "record -e list"] {
            assert!(recording.stderr.contains(words), "{words}: {}", recording.stderr);
        }
        assert!(!recording.stdout.contains("parent="), "the program ran");
        return;
    }
    // `main` asks once more.
    for (terms, calls) in [("", 501), ("/period=10/", 50)] {
        let (recording, profile) = record()
            .options(&["-e", &format!("{event}{terms}")])
            .profile(&path, &["ask", "500"]);
        let hits = hits(&profile, &event);
        // A loss counts calls, not samples.
        let lost = lost(&profile);
        assert!(
            hits.len() <= calls && hits.len() + lost >= calls,
            "{}",
            recording.stderr
        );
        for hit in &hits {
            assert_eq!(hit.stack.last(), Some(&ASK), "{:?}", hit.stack);
            assert!(hit.stack.contains(&"main"), "{:?}", hit.stack);
        }
    }
    let list = fs::read_to_string("/sys/kernel/tracing/kprobe_events").unwrap();
    assert!(!list.contains(ASK), "{list}");
}

#[test]
fn a_function_that_the_kernel_has_not_or_has_twice_is_no_place_for_a_probe() {
    let Some(()) = skip::tracepoints() else { return };
    let mut names = BTreeMap::<String, usize>::new();
    for line in fs::read_to_string("/proc/kallsyms").unwrap().lines() {
        if let [_, "t" | "T" | "w" | "W", name, ..] = line.split_whitespace().collect::<Vec<_>>()[..] {
            *names.entry(name.to_owned()).or_default() += 1;
        }
    }
    let twice = names
        .iter()
        .find(|(name, count)| **count == 2 && name.len() > 8)
        .unwrap()
        .0;
    let refusals = [
        (
            "no_such_function_anywhere".to_owned(),
            "the kernel has no function no_such_function_anywhere",
        ),
        ("_sys_getppid".to_owned(), ASK),
        (twice.clone(), "the kernel has 2 functions"),
        (format!("{ASK}+0x10000000"), "is behind its end"),
        ("+4".to_owned(), "the kernel has no function"),
        (String::new(), "has a function"),
    ];
    for (place, words) in refusals {
        let event = format!("kprobe:{place}");
        let recording = record().options(&["-e", &event]).run("/bin/true", &[] as &[&str]);
        assert_eq!(recording.code, Some(125), "{event}: {}", recording.stderr);
        assert!(recording.stderr.contains(words), "{event}: {}", recording.stderr);
        assert!(recording.stderr.contains(&event), "{event}: {}", recording.stderr);
    }
}

#[test]
fn who_is_not_root_is_told_what_is_needed() {
    if !skip::root() {
        return;
    }
    let playground = Playground::new(&["probes"]);
    // `sudo sprof` may start glibc's.
    let typed = format!("run sprof as root (`sudo {} ...`)", playground.path("sprof").display());
    for event in [spec(&playground.path("probes"), "probed"), format!("kprobe:{ASK}")] {
        let (output, _) = playground.record(&["-e", &event], "probes", &["calls", "1"]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(125), "{stderr}");
        assert!(stderr.contains(&typed), "{stderr}");
    }
}

fn copy_without_symbols(path: &Path) -> PathBuf {
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs/probes_stripped");
    let stripped = Command::new("strip")
        .args(["--strip-all", "-o"])
        .arg(&copy)
        .arg(path)
        .status();
    assert!(stripped.unwrap().success());
    copy
}

#[test]
fn what_probes_take_of_the_time_is_said() {
    let Some(()) = probes() else { return };
    let Some(path) = program("costs") else { return };
    let said = |event: &[&str]| {
        let recording = record().options(event).run(&path, &["map"]);
        assert_eq!(recording.code, Some(0), "{}", recording.stderr);
        let report = sprof().arg("report").arg(&recording.output).output().unwrap();
        let report = String::from_utf8(report.stdout).unwrap();
        (recording.stderr, report)
    };
    // Hundreds of thousands of calls a second.
    let (summary, report) = said(&["-e", "uprobe:libc:malloc/period=1000/"]);
    let words = " of CPU time: shares and times are not those of the program without them";
    assert!(
        summary.contains("probes took about ") && summary.contains(words),
        "{summary}"
    );
    assert!(report.contains("note: probes took about "), "{report}");
    // What the probe takes is no allocating.
    assert!(
        !summary.contains("allocating and freeing, most of it asm_exc"),
        "{summary}"
    );
    let (summary, report) = said(&[]);
    assert!(
        !summary.contains("probes took") && !report.contains("probes took"),
        "{summary}"
    );
}
