//! `sprof count` on programs with a known number of instructions.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::cargo::{cargo, sprof_in};
use crate::support::machine::alone;
use crate::support::run::output;
use crate::support::schema::parsed;
use crate::support::skip::{Need, has};
use crate::support::{program, sprof, temp_dir};

/// Goes on where valgrind is installed.
fn valgrind() -> Option<()> {
    let version = Command::new("valgrind").arg("--version").output();
    let is_there = version.is_ok_and(|output| output.status.success());
    has(Need::Valgrind, is_there, "no valgrind").then_some(())
}

/// Counts the program `instructions` with these words.
fn count(options: &[&str], words: &str, file: &Path) -> Output {
    let program = program("instructions").unwrap();
    let mut command = sprof();
    command
        .args(["count", "-o"])
        .arg(file)
        .args(options)
        .arg("--")
        .arg(program);
    output(command.args(words.split_whitespace()))
}

fn report(file: &Path, options: &[&str]) -> Value {
    let printed = output(
        sprof()
            .arg("report")
            .arg(file)
            .args(["--json", "--view", "functions"])
            .args(options),
    );
    assert!(printed.status.success(), "{printed:?}");
    parsed(&printed.stdout)
}

fn all(report: &Value) -> f64 {
    report["selection"]["weight"].as_f64().unwrap()
}

/// The function's own cost, or with what it calls.
fn cost(report: &Value, function: &str, which: &str) -> f64 {
    let rows = report["views"][0]["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["function"] == function);
    row.unwrap_or_else(|| panic!("no {function}: {report:#}"))[which]["weight"]
        .as_f64()
        .unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_loop_has_its_instructions_each_time_and_one_percent_more_breaks_a_rule() {
    let Some(()) = valgrind() else { return };
    let folder = temp_dir();
    let path = |name: &str| folder.path().join(name);
    let counted = |name: &str, words: &str| {
        let output = count(&[], words, &path(name));
        assert!(output.status.success(), "{output:?}");
        report(&path(name), &[])
    };
    let (first, again) = (counted("first", "run 1000000"), counted("again", "run 1000000"));
    assert_eq!(all(&first), all(&again));
    let more = counted("more", "run 1010000");
    let own = |report| cost(report, "counted", "self");
    assert_eq!(own(&more) - own(&first), 20_000.0);
    // With what is before and behind the loop.
    assert!((2_000_001.0..2_000_006.0).contains(&own(&first)), "{first:#}");
    assert_eq!(first["weights"]["name"], "Ir");
    assert_eq!(first["weights"]["exact"], true);

    let annotated = output(Command::new("callgrind_annotate").arg(path("first")));
    let annotated = String::from_utf8(annotated.stdout).unwrap();
    let total = annotated.lines().find(|line| line.contains("PROGRAM TOTALS")).unwrap();
    let total: f64 = total
        .split(" (")
        .next()
        .unwrap()
        .trim()
        .replace(',', "")
        .parse()
        .unwrap();
    assert_eq!(total, all(&first));

    // The rest of the program takes the same, so all of it takes a little less than 1 % more.
    for (new, rule, status) in [
        ("again", ["--max-total-increase", "0%"], 0),
        ("again", ["--max-increase", "counted=0%"], 0),
        ("more", ["--max-total-increase", "0.9%"], 1),
        ("more", ["--max-total-increase", "1%"], 0),
        ("more", ["--max-increase", "counted=0.99%"], 1),
    ] {
        let checked = output(
            sprof()
                .arg("check")
                .args(rule)
                .args([path(new), "--base".into(), path("first")]),
        );
        assert_eq!(checked.status.code(), Some(status), "{new} {rule:?}: {checked:?}");
    }
    let diff = output(sprof().arg("diff").args([path("first"), path("more")]));
    let said = String::from_utf8(diff.stdout).unwrap();
    assert!(said.contains("  total: +20,000 Ir (+1.0 %)"), "{said}");
    assert!(said.contains("Counts are exact") && !said.contains("chance"), "{said}");
}

#[test]
fn simulated_caches_and_branches_are_further_events() {
    let Some(()) = valgrind() else { return };
    let folder = temp_dir();
    let file = folder.path().join("counts");
    // The process forks, so there are several parts.
    let counted = count(&["--cache"], "run 1000 fork run 1000 parent recurse 50", &file);
    assert!(counted.status.success(), "{counted:?}");
    let text = fs::read_to_string(&file).unwrap();
    let lines = |name: &'static str| text.lines().filter_map(move |line| line.strip_prefix(name));
    let events: Vec<&str> = lines("events: ").next().unwrap().split_whitespace().collect();
    assert!(
        ["Ir", "D1mr", "DLmr", "Bcm"].iter().all(|event| events.contains(event)),
        "{events:?}"
    );
    for (at, event) in events.iter().enumerate() {
        let sums =
            lines("totals: ").map(|sums| sums.split_whitespace().nth(at).map_or(0.0, |sum| sum.parse().unwrap()));
        assert_eq!(all(&report(&file, &["-e", event])), sums.sum::<f64>(), "{event}");
    }
    let report = report(&file, &[]);
    // A function that calls itself is one, with what all of its calls cost: the loop takes four instructions each time.
    let (total, own) = (cost(&report, "recursive", "total"), cost(&report, "recursive", "self"));
    assert_eq!(total - own, 50.0 * 4.0, "{report:#}");
    let branches = cost(&self::report(&file, &["-e", "Bc"]), "counted", "self");
    assert_eq!(branches, 2050.0);
}

#[test]
fn each_process_counts_once_and_what_is_missing_is_said() {
    let Some(()) = valgrind() else { return };
    let folder = temp_dir();
    let file = folder.path().join("counts");
    let loops = |words: &str| {
        let output = count(&[], words, &file);
        (cost(&report(&file, &[]), "counted", "self"), output)
    };
    let (once, _) = loops("run 100000");
    // Forks in forks, and a child that another one has before.
    let (five, output) = loops("run 100000 fork run 100000 parent fork run 200000 parent run 100000 exit 7");
    assert_eq!(output.status.code(), Some(7));
    let overhead = once - 200_000.0;
    assert_eq!(five, 5.0 * 200_000.0 + 4.0 * overhead);
    assert!(stderr(&output).contains("of 3 processes"), "{output:?}");
    let processes = processes_in(&file);
    assert_eq!(processes, 3, "{output:?}");
    // What a process ran before it executed another program is not counted; a program that is missing is no copy.
    let (after, output) = loops("run 100000 exec run 300000");
    assert_eq!(after, 600_000.0 + overhead);
    assert!(stderr(&output).contains("of 1 process\n"), "{output:?}");
    let shell = ["count", "-o", file.to_str().unwrap(), "sh", "-c", "exec /bin/true"];
    let executed = crate::support::run::output(sprof().args(shell));
    assert!(
        stderr(&executed).contains("`sh` executed another program (`/bin/true`)"),
        "{executed:?}"
    );
    let (spawned, output) = loops("run 100000 spawn /nosuch run 100000 exit 3");
    assert_eq!(spawned, 2.0 * once);
    assert_eq!(output.status.code(), Some(3));

    let (killed, output) = loops("run 100000 fork run 100000 hang kill-child");
    let note = "the counts of 1 process";
    assert!(stderr(&output).contains(note), "{output:?}");
    assert_eq!(killed, once);
    let report = crate::support::run::output(sprof().arg("report").arg(&file));
    assert!(
        String::from_utf8_lossy(&report.stdout).contains(note),
        "the file has the note: {report:?}"
    );
}

/// timeout(1) sends SIGTERM twice.
#[test]
fn a_program_that_is_ended_by_a_signal_keeps_its_counts() {
    alone();
    let Some(()) = valgrind() else { return };
    let folder = temp_dir();
    let file = folder.path().join("counts");
    let program = program("instructions").unwrap();
    let mut command = sprof();
    command.args(["count", "-q", "-o"]).arg(&file).arg(program);
    command.args(["run", "1000", "say", "hello", "hang"]).process_group(0);
    let mut counting = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut hello = [0; 6];
    counting.stdout.take().unwrap().read_exact(&mut hello).unwrap();
    let pid = counting.id().to_string();
    let group = format!("-{pid}");
    Command::new("kill")
        .args(["-TERM", "--", &pid, &group])
        .status()
        .unwrap();
    assert_eq!(counting.wait().unwrap().code(), Some(128 + 15));
    assert_eq!(processes_in(&file), 1);
}

fn processes_in(file: &Path) -> usize {
    let text = fs::read_to_string(file).unwrap();
    text.lines().filter(|line| line.starts_with("pid: ")).count()
}

#[test]
fn the_program_keeps_its_output_and_its_status() {
    let Some(()) = valgrind() else { return };
    let folder = temp_dir();
    let temporary = folder.path().join("temporary 100 %p");
    fs::create_dir(&temporary).unwrap();
    let run = |words: &str, options: &[&str]| {
        let program = program("instructions").unwrap();
        let mut command = sprof();
        command
            .args(["count", "-q", "-o"])
            .arg(folder.path().join("counts"))
            .args(options);
        command.arg("--").arg(program).args(words.split_whitespace());
        output(command.env("TMPDIR", &temporary))
    };
    for (words, status) in [
        ("say hello exit 9", 9),
        ("say hello signal 15", 128 + 15),
        ("say hello signal 11", 128 + 11),
    ] {
        let output = run(words, &[]);
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        assert_eq!(
            (&output.stdout[..], &output.stderr[..]),
            (&b"hello\n"[..], &b"hello\n"[..]),
            "{words}"
        );
    }
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "temporary files stay");
    let names: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names.len(), 4, "the earlier counts are kept: {names:?}");

    let output = output(
        sprof()
            .args(["count", "-o"])
            .arg(folder.path().join("none"))
            .args(["--", "./no-such-program"]),
    );
    assert_eq!(output.status.code(), Some(127), "{output:?}");
    assert!(stderr(&output).contains("no such program"), "{output:?}");
}

#[test]
fn without_valgrind_the_package_is_named_and_nothing_runs() {
    let folder = temp_dir();
    let program = program("instructions").unwrap();
    let mut command = sprof();
    command
        .current_dir(folder.path())
        .arg("count")
        .arg(program)
        .args(["say", "hello"]);
    let output = output(command.env("PATH", folder.path()));
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(stderr(&output).contains("install the package valgrind"), "{output:?}");
    assert!(output.stdout.is_empty());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn of_cargo_the_programs_are_counted_that_it_runs() {
    let (Some(()), Some(())) = (valgrind(), cargo()) else {
        return;
    };
    let folder = temp_dir();
    let file = folder.path().join("counts");
    let words = [
        "count",
        "-o",
        file.to_str().unwrap(),
        "cargo",
        "run",
        "--example",
        "spin",
        "--",
        "0",
    ];
    let output = output(&mut sprof_in(&words));
    assert!(output.status.success(), "{output:?}");
    assert_eq!(processes_in(&file), 1, "{output:?}");
    assert!(cost(&report(&file, &[]), "spin::main", "total") > 0.0);
}
