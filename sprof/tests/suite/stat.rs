//! `sprof stat` on programs whose counts are known.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::cargo::{cargo, sprof_in, target_dir};
use crate::support::machine::alone;
use crate::support::playground::Playground;
use crate::support::run::{output, wait_until};
use crate::support::schema::parsed;
use crate::support::skip::{paranoid, perf_events, root, tracepoints};
use crate::support::steal::with_stolen_ms;
use crate::support::{program, sprof, temp_dir};

fn stat(words: &[&str]) -> Output {
    output(sprof().arg("stat").args(words))
}

/// What `sprof stat --json` says, with the program's output sent elsewhere.
fn json(words: &[&str]) -> Value {
    let folder = temp_dir();
    let file = folder.path().join("counts.json");
    let options = ["--json", "-o", file.to_str().unwrap()];
    let output = stat(&[&options, words].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    parsed(&fs::read(&file).unwrap())
}

fn median(json: &Value, program: usize, measure: &str) -> f64 {
    let figures = &json["commands"][program]["measures"][measure];
    figures["median"]
        .as_f64()
        .unwrap_or_else(|| panic!("{measure}: {json}"))
}

fn difference<'a>(json: &'a Value, measure: &str) -> &'a Value {
    let all = json["differences"].as_array().unwrap();
    all.iter().find(|found| found["measure"] == measure).unwrap()
}

#[test]
fn counts_are_those_of_known_programs() {
    let events = program("events").unwrap();
    let of = |words: [&str; 2]| json(&[&["--", events.to_str().unwrap()], &words[..]].concat());
    // What a program takes to start is in both.
    let (few, many) = (of(["faults", "1000"]), of(["faults", "3000"]));
    let faults = median(&many, 0, "minor-faults") - median(&few, 0, "minor-faults");
    assert!((faults - 8000.0).abs() < 40.0, "{faults}");
    let memory = median(&many, 0, "peak-memory") - median(&few, 0, "peak-memory");
    assert!((memory - 8000.0 * 4096.0).abs() < 1e6, "{memory}");
    let (few, many) = (of(["sleep", "100"]), of(["sleep", "600"]));
    let switches = median(&many, 0, "voluntary-switches") - median(&few, 0, "voluntary-switches");
    assert!((switches - 500.0).abs() < 5.0, "{switches}");
    assert!(median(&many, 0, "wall") > median(&many, 0, "task-clock"));

    // It works until its clock of CPU time has gone on by this.
    let processes = program("processes").unwrap();
    let of = json(&["--", processes.to_str().unwrap(), "work", "400"]);
    let ms = |measure: &str| median(&of, 0, measure) / 1e6;
    let (clock, parts) = (ms("task-clock"), ms("user") + ms("system"));
    // While the host has the CPU, the clock of the event may go on where the clock of CPU time stands still: up to the
    // wall time, which another clock has.
    let most = (1.01 * ms("wall")).max(600.0);
    assert!((390.0..most).contains(&clock), "{clock} {most}");
    assert!((390.0..1.1 * clock).contains(&parts), "{parts} {clock}");
}

#[test]
fn bytes_that_go_to_a_disk_are_counted() {
    let folder = temp_dir();
    let file = folder.path().join("written");
    let to = format!("of={}", file.display());
    let dd = |count: &str| json(&["dd", "if=/dev/zero", &to, "bs=64k", count, "oflag=dsync"]);
    let written = median(&dd("count=128"), 0, "written-bytes");
    if written == 0.0 {
        println!("skipped: the folder for temporary files is in memory");
        return;
    }
    let mib = f64::from(1 << 20);
    assert!((8.0 * mib..8.5 * mib).contains(&written), "{written}");
}

#[test]
fn programs_by_turns_differ_where_they_differ() {
    let events = program("events").unwrap();
    let line = |count: u32| format!("{} faults {count}", events.display());
    let found = json(&[
        "-r",
        "12",
        "--against",
        &line(1000),
        "--",
        events.to_str().unwrap(),
        "faults",
        "1100",
    ]);
    assert_eq!(found["commands"][0]["runs"], 12);
    assert_eq!(
        found["commands"][1]["measures"]["wall"]["values"]
            .as_array()
            .unwrap()
            .len(),
        12
    );
    let faults = difference(&found, "minor-faults");
    assert_eq!(faults["certain"], true, "{found}");
    let (old, new) = (median(&found, 1, "minor-faults"), median(&found, 0, "minor-faults"));
    let relative = faults["relative"].as_f64().unwrap();
    assert!((relative - (new - old) / old).abs() < 0.01, "{faults} {old} {new}");
    assert!(faults["low"].as_f64().unwrap() <= relative && relative <= faults["high"].as_f64().unwrap());
    // Both sleep as often: not at all.
    assert_eq!(difference(&found, "read-bytes")["certain"], false);

    let shown = stat(&[
        "-r",
        "10",
        "--against",
        &line(10),
        "--",
        events.to_str().unwrap(),
        "faults",
        "2000",
    ]);
    let text = String::from_utf8(shown.stderr).unwrap();
    assert!(text.contains("1 against 2"), "{text}");
    let row = text.lines().find(|line| line.contains("minor-faults")).unwrap();
    assert!(row.contains(" %  (") || row.contains(" % ("), "{row}");
    // The programs' output is theirs.
    assert!(!String::from_utf8(shown.stdout).unwrap().contains("wall"));
}

#[test]
fn the_exit_status_is_the_program_s_and_a_failure_ends_the_runs() {
    let one = stat(&["sh", "-c", "exit 3"]);
    assert_eq!(one.status.code(), Some(3));
    let text = String::from_utf8(one.stderr).unwrap();
    assert!(text.contains("status 3") && text.contains("wall"), "{text}");
    let ended = stat(&["-r", "5", "sh", "-c", "exit 3"]);
    assert_eq!(ended.status.code(), Some(3));
    assert!(String::from_utf8(ended.stderr).unwrap().contains("-i goes on"));
    let goes_on = stat(&["-r", "3", "-i", "sh", "-c", "exit 3"]);
    assert_eq!(goes_on.status.code(), Some(0));
    assert!(String::from_utf8(goes_on.stderr).unwrap().contains("3 runs"));
    assert_eq!(stat(&["/no/such/program"]).status.code(), Some(127));
    assert_eq!(stat(&["/etc/passwd"]).status.code(), Some(126));
    let refused = stat(&["--against", "./old > file", "true"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("sh -c"));
    assert_eq!(stat(&["--prepare", "exit 1", "true"]).status.code(), Some(125));
}

#[test]
fn the_program_gets_the_signals_of_sprof() {
    let child = sprof()
        .args([
            "stat",
            "-r",
            "5",
            "--warmup",
            "0",
            "sh",
            "-c",
            "echo ready; exec sleep 100",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let runs = || {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let child = children.trim();
        fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|name| name == "sleep\n")
    };
    wait_until(runs, || "the program does not run".to_owned());
    Command::new("kill").arg(pid.to_string()).status().unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.status.signal()), (Some(143), None));
    let text = String::from_utf8(ended.stderr).unwrap();
    assert!(text.contains("a signal ended the runs early"), "{text}");
}

#[test]
fn what_this_user_or_machine_cannot_count_is_said_and_the_rest_is_counted() {
    let Some(()) = perf_events() else { return };
    if root() && paranoid() == Some(2) {
        let playground = Playground::new(&[]);
        let shown = playground
            .as_nobody(env!("CARGO_BIN_EXE_sprof"))
            .args(["stat", "--", "true"])
            .output()
            .unwrap();
        let text = String::from_utf8(shown.stderr).unwrap();
        assert!(text.contains("task-clock") && text.contains("minor-faults"), "{text}");
        assert!(
            text.contains("Not counted: cpu-migrations") && text.contains("setcap"),
            "{text}"
        );
    }
    let refuse = program("refuse").unwrap();
    let shown = output(Command::new(refuse).args(["eperm", env!("CARGO_BIN_EXE_sprof"), "stat", "true"]));
    let text = String::from_utf8(shown.stderr).unwrap();
    assert!(text.contains("task-clock") && text.contains("minor-faults"), "{text}");
    assert!(text.contains("seccomp"), "{text}");
}

#[test]
fn a_result_is_written_over_an_earlier_one_and_over_nothing_else() {
    let folder = temp_dir();
    for (format, name) in [("text", "counts.txt"), ("md", "counts.md"), ("json", "counts.json")] {
        let file = folder.path().join(name);
        let words = ["-f", format, "-o", file.to_str().unwrap(), "true"];
        assert!(stat(&words).status.success());
        let again = stat(&words);
        assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
        assert!(fs::read_to_string(&file).unwrap().contains("wall"));
        fs::write(&file, "someone's notes").unwrap();
        assert_eq!(stat(&words).status.code(), Some(125));
        assert_eq!(fs::read_to_string(&file).unwrap(), "someone's notes");
    }
}

/// How times fall is tested where no other program runs: in `profile::view::scaling`.
#[test]
fn values_in_the_command_have_a_row_each() {
    let words = [
        "--concurrency",
        "threads=1,2,4",
        "-r",
        "3",
        "sh",
        "-c",
        "sleep 0.0{threads}",
    ];
    let found = json(&words);
    let commands = found["commands"].as_array().unwrap();
    let shown: Vec<(&str, &str)> = { commands.iter() }
        .map(|command| {
            let value = command["parameters"]["threads"].as_str().unwrap();
            (value, command["command"][2].as_str().unwrap())
        })
        .collect();
    assert_eq!(shown, [("1", "sleep 0.01"), ("2", "sleep 0.02"), ("4", "sleep 0.04")]);
    assert_eq!(found["scaling"].as_array().unwrap().len(), 1);
    let text = String::from_utf8(stat(&words).stderr).unwrap();
    assert!(
        text.contains("times as fast") && text.lines().any(|line| line.starts_with("  4  ")),
        "{text}"
    );

    let refused = stat(&["--parameter", "size=1,2", "true"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("{size}"));
}

#[test]
fn rules_are_on_counts_too() {
    let folder = temp_dir();
    let events = program("events").unwrap().display().to_string();
    let count = |file: &str, options: &[&str], faults: &str| {
        let path = folder.path().join(file).display().to_string();
        let words = ["-f", "json", "-o", &path, "--", &events, "faults", faults];
        let output = stat(&[options, &words].concat());
        assert!(output.status.success(), "{output:?}");
        path
    };
    let old = format!("{events} faults 1000");
    let both = count("both.json", &["-r", "8", "--against", &old], "1300");
    let (few, many) = (
        count("few.json", &["-r", "6"], "1000"),
        count("many.json", &["-r", "6"], "1300"),
    );
    let once = count("once.json", &[], "1000");
    let check = |words: &[&str]| {
        let output = output(sprof().current_dir(folder.path()).arg("check").args(words));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text + &String::from_utf8_lossy(&output.stderr))
    };
    // Four faults for each of the numbers.
    for (files, rule, status, words) in [
        (
            &[&*both][..],
            "minor-faults=5%",
            1,
            "BROKEN  minor-faults may take 5 % more",
        ),
        (&[&both], "minor-faults=40%", 0, "kept  minor-faults may take 40 % more"),
        (&[&many, "--base", &few], "minor-faults=5%", 1, "minor-faults took 2"),
        (&[&few, "--base", &many], "minor-faults=0%", 0, "checked: "),
        (&[&few, "--base", &few], "minor-faults=0%", 0, "kept"),
        (
            &[&many, "--base", &once],
            "minor-faults=0%",
            3,
            "1 and 6 runs are too few",
        ),
        (
            &[&both],
            "no-such=5%",
            3,
            "`no-such` was not counted on both sides: these have ",
        ),
        (&[&both], "heap.peak=5%", 2, "--max-increase wall=5%"),
        (
            &[&both, "--thread", "main"],
            "wall=5%",
            2,
            "have no samples to choose from",
        ),
        (&[&many], "wall=5%", 125, "--against OLD NEW"),
        (&[&both, "--base", &few], "wall=5%", 125, "2 programs"),
    ] {
        let (code, text) = check(&[files, &["--max-increase", rule]].concat());
        assert!(
            code == Some(status) && text.contains(words),
            "{files:?} {rule}: {code:?} {text}"
        );
    }
    let (_, text) = check(&[&both, "--max-increase", "minor-faults=5%", "--json"]);
    let json: Value = parsed(&text);
    let rule = &json["rules"][0];
    assert_eq!(
        (&rule["measure"], &rule["outcome"]),
        (&"minor-faults".into(), &"broken".into())
    );
    assert!(
        (0.2..0.35).contains(&rule["found"][0]["increase"].as_f64().unwrap()),
        "{rule}"
    );
}

/// Counts programs as root and as nobody: `check` gets what runs a command, and where the programs are.
type CountedBy<'a> = &'a dyn Fn(&[&str]) -> Value;
fn as_everyone(programs: &[&str], check: impl Fn(CountedBy<'_>, &dyn Fn(&str) -> String)) {
    let path = |name: &str| program(name).unwrap().display().to_string();
    check(&json, &path);
    if !root() {
        return;
    }
    let playground = Playground::new(programs);
    let by_nobody = |words: &[&str]| {
        let file = playground.path("counts.json");
        let mut command = playground.as_nobody(playground.path("sprof"));
        command.args(["stat", "--json", "-o", file.to_str().unwrap()]);
        let output = command.args(words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        parsed(&fs::read(&file).unwrap())
    };
    check(&by_nobody, &|name| playground.path(name).display().to_string());
}

#[test]
fn each_process_and_thread_is_counted() {
    let Some(()) = perf_events() else { return };
    as_everyone(&["processes", "threads", "spawns"], |stat, path| {
        for (name, words, processes, threads) in [
            ("processes", ["many", "20"], 21.0, 21.0),
            ("processes", ["exec", "1"], 2.0, 2.0),
            ("spawns", ["7", "0"], 8.0, 8.0),
            ("threads", ["5", "1"], 1.0, 6.0),
        ] {
            let found = stat(&[&[&*path(name)], &words[..]].concat());
            let counts = (median(&found, 0, "processes"), median(&found, 0, "threads"));
            assert_eq!(counts, (processes, threads), "{name} {words:?}");
            assert_eq!(found["commands"][0]["measures"]["threads"]["at_least"], Value::Null);
        }
    });
}

#[test]
fn threads_wait_for_a_cpu_as_long_as_the_kernel_says() {
    let Some(()) = perf_events() else { return };
    alone();
    let folder = temp_dir();
    let (file, counts) = (folder.path().join("written"), folder.path().join("counts.json"));
    let resources = program("resources").unwrap();
    let options = ["-f", "json", "-o", counts.to_str().unwrap(), "--"];
    let words = [resources.to_str().unwrap(), "200", file.to_str().unwrap()];
    let (output, stolen_ms) = with_stolen_ms(|| stat(&[&options[..], &words].concat()));
    let said = String::from_utf8(output.stdout).unwrap();
    let number = |name: &str| -> f64 {
        let mut words = said.split_whitespace();
        let value = words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        value.unwrap().parse().unwrap()
    };
    let waited = median(&parsed(&fs::read(&counts).unwrap()), 0, "cpu-wait");
    // The program reads its sums half a second after its two threads had the last of one CPU. The wait after a wake-up
    // is in no record, and sprof may have had no CPU in that half second. What the three threads wait for at their end
    // is in no sum of the program.
    let (before, after) = (number("waited_before_ns"), number("waited_ns"));
    let (least, most) = (0.9 * (after - before), 1.1 * after + 3e6 * stolen_ms);
    assert!(
        (least..most).contains(&waited),
        "{waited} {before} {after}; the host took {stolen_ms} ms"
    );
    assert!(waited > 100e6, "{waited}");

    // Two processes of 100 ms of CPU time each on one CPU: while one works, the other waits. Both are gone when sprof
    // could read their sums.
    as_everyone(&["processes"], |stat, path| {
        let processes = path("processes");
        let script = format!("{processes} work 100 & {processes} work 100; wait");
        let found = stat(&["taskset", "-c", "0", "sh", "-c", &script]);
        let of = |measure: &str| median(&found, 0, measure);
        assert_eq!((of("processes"), of("threads")), (3.0, 3.0));
        let waited = of("cpu-wait");
        assert!(waited > 90e6 && waited + of("task-clock") < 3.0 * of("wall"), "{found}");
    });

    // One thread does nothing but run and wait. What it waited before its exec is not its own.
    for _ in 0..5 {
        let output = stat(&["-f", "json", "-o", counts.to_str().unwrap(), "--", "true"]);
        assert!(output.status.success(), "{output:?}");
        let found: Value = parsed(&fs::read(&counts).unwrap());
        let of = |measure: &str| median(&found, 0, measure);
        // Clocks of several places are read within microseconds. adjtimex(2) changes the speed of one by up to 500 ppm.
        assert!(of("cpu-wait") + of("task-clock") < 1.001 * of("wall") + 50e3, "{found}");
    }
}

#[test]
fn a_set_user_id_program_is_counted_by_the_kernel_s_account() {
    let Some(()) = perf_events() else { return };
    if !root() {
        return;
    }
    let playground = Playground::new(&[]);
    let Some(path) = playground.processes_of_root("processes-of-root", 0o4755) else {
        return;
    };
    let file = playground.path("counts.json");
    let mut command = playground.as_nobody_with_rights(playground.path("sprof"));
    command.args(["stat", "--json", "-o", file.to_str().unwrap(), "--"]);
    assert!(command.arg(path).args(["work", "50"]).status().unwrap().success());
    let found: Value = parsed(&fs::read(&file).unwrap());
    assert!(median(&found, 0, "task-clock") > 50e6, "{found}");
    assert_eq!(found["commands"][0]["measures"]["processes"]["at_least"], true);
}

/// `sprof stat` of what runs, with these words, once it counts; ended by SIGINT after `meanwhile`.
fn counted_while(mut command: Command, file: &Path, words: &[&str], meanwhile: impl FnOnce()) -> Value {
    command
        .args(["stat", "--json", "-o", file.to_str().unwrap()])
        .args(words);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let counts = || {
        let pid = child.id();
        let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            return false;
        };
        let files = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
        let has_events = files
            .into_iter()
            .any(|file| file.to_string_lossy().contains("perf_event"));
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        has_events && stat.contains("(sprof) S ")
    };
    wait_until(counts, || "sprof does not count".to_owned());
    meanwhile();
    Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(child.wait().unwrap().success());
    parsed(&fs::read(file).unwrap())
}

#[test]
fn a_running_process_is_counted_with_all_that_it_starts() {
    let Some(()) = perf_events() else { return };
    let playground = Playground::new(&["events", "processes"]);
    let file = playground.path("counts.json");
    let path = |name: &str| playground.path(name).display().to_string();
    let (events, processes) = (path("events"), path("processes"));
    let work = format!("{events} faults 2000; {processes} many 20; {processes} work 100; echo done");
    let script = format!("read word; {work}; read word");
    let by_root = || Command::new(playground.path("sprof"));
    let by_nobody = || playground.as_nobody(playground.path("sprof"));
    let launched = json(&["sh", "-c", &work]);
    for (is_nobody, sprof) in [(false, by_root()), (true, by_nobody())] {
        if is_nobody && !root() {
            continue;
        }
        let mut shell = match is_nobody {
            true => playground.as_nobody("sh"),
            false => Command::new("sh"),
        };
        shell.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let (mut to, from) = (shell.stdin.take().unwrap(), shell.stdout.take().unwrap());
        let found = counted_while(sprof, &file, &["-p", &shell.id().to_string()], || {
            to.write_all(b"\n").unwrap();
            let mut lines = BufReader::new(from).lines();
            assert!(lines.any(|line| line.unwrap() == "done"));
        });
        drop(to);
        shell.wait().unwrap();
        fs::remove_file(&file).unwrap();
        // The shell was there before.
        for measure in ["processes", "threads"] {
            assert_eq!(median(&found, 0, measure), 23.0, "{found}");
            assert_eq!(median(&launched, 0, measure), 24.0);
        }
        let (faults, all) = (median(&found, 0, "minor-faults"), median(&launched, 0, "minor-faults"));
        assert!(
            faults > 8000.0 && faults < all && all - faults < 300.0,
            "{faults} {all}"
        );
        let (clock, parts) = (
            median(&found, 0, "task-clock"),
            median(&found, 0, "user") + median(&found, 0, "system"),
        );
        // The children work for 120 ms by their own clocks. The kernel rounds each of four parts (of the shell, and of
        // its children) down to 10 ms. While the host has the CPU, the event's clock may go on where the others stand.
        assert!(
            clock > 118e6 && parts > 79e6 && parts < 1.1 * clock + 20e6,
            "{clock} {parts}"
        );
    }
}

#[test]
fn the_machine_is_counted() {
    let Some(()) = perf_events() else { return };
    if !root() {
        return;
    }
    let folder = temp_dir();
    let found = counted_while(sprof(), &folder.path().join("counts.json"), &["-a"], || {
        let run = |name: &str, words: [&str; 2]| output(Command::new(program(name).unwrap()).args(words));
        assert!(run("events", ["faults", "2000"]).status.success());
        assert!(run("processes", ["many", "30"]).status.success());
    });
    assert!(median(&found, 0, "minor-faults") > 8000.0, "{found}");
    assert!(median(&found, 0, "threads") >= 32.0, "{found}");
    assert!(median(&found, 0, "wall") > 30e6, "{found}");
    assert_eq!(found["commands"][0]["command"][0], "-a");
}

#[test]
fn of_cargo_the_programs_are_counted_that_it_runs() {
    let Some(()) = cargo() else { return };
    let folder = temp_dir();
    let file = folder.path().join("counts.json");
    let of_cargo = |words: &[&str]| -> Value {
        let options = ["stat", "-i", "--json", "-o", file.to_str().unwrap(), "cargo"];
        let output = output(&mut sprof_in(&[&options, words].concat()));
        assert!(output.status.success(), "{output:?}");
        parsed(&fs::read(&file).unwrap())
    };
    let found = of_cargo(&["run", "--release", "--example", "spin", "--", "40000000", "7"]);
    let spin = target_dir().join("release/examples/spin");
    let alone = json(&["-i", "--", spin.to_str().unwrap(), "40000000", "7"]);
    assert_eq!(found["commands"][0]["programs"], 1);
    // A build, or cargo alone, has other processes and thousands of faults. Times say less: the host may take the CPU
    // away from one of the two runs.
    for (measure, most) in [("processes", 0.0), ("threads", 0.0), ("minor-faults", 40.0)] {
        let (one, other) = (median(&found, 0, measure), median(&alone, 0, measure));
        assert!((one - other).abs() <= most, "{measure}: {one} {other}");
    }
    assert!(median(&found, 0, "task-clock") > 0.0, "{found}");

    let found = of_cargo(&["test", "-p", "work", "--lib", "--test", "from_outside"]);
    assert_eq!(found["commands"][0]["programs"], 2);
    assert_eq!(median(&found, 0, "processes"), 2.0);
    // A thread for each test, and the first one of each program.
    assert!(median(&found, 0, "threads") >= 4.0, "{found}");
}

#[test]
fn named_events_are_counted() {
    let Some(()) = perf_events() else { return };
    as_everyone(&["events"], |stat, path| {
        let events = path("events");
        let faults = |count: &str| {
            let found = stat(&["-e", "page-faults:u,context-switches", &events, "faults", count]);
            let missing = found["missing"].to_string();
            let has_switches = found["commands"][0]["measures"]["context-switches"].is_object();
            assert!(has_switches || missing.contains("context-switches"), "{found}");
            median(&found, 0, "page-faults:u")
        };
        let more = faults("3000") - faults("1000");
        assert!((more - 8000.0).abs() < 40.0, "{more}");
    });
    if let Some(()) = tracepoints() {
        let processes = program("processes").unwrap();
        let words = ["-e", "sched:sched_process_*", processes.to_str().unwrap(), "many", "20"];
        let found = json(&words);
        assert_eq!(median(&found, 0, "sched:sched_process_fork"), 20.0);
        assert_eq!(median(&found, 0, "sched:sched_process_exit"), 21.0);
    }
    for (event, said) in [
        ("nonsense", "there is no event `nonsense`"),
        ("uprobe:/bin/sh:main", "is a probe"),
    ] {
        let refused = stat(&["-e", event, "true"]);
        assert_eq!(refused.status.code(), Some(2));
        let text = String::from_utf8(refused.stderr).unwrap();
        assert!(text.contains(said), "{text}");
    }
}
