//! `sprof export` and `sprof flamegraph`, as the programs read them that they are for.
#![cfg(target_os = "linux")]

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support;
use crate::support::client::{Client, script};
use crate::support::programs::line_of;
use crate::support::skip::{Need, has, kernel_samples, perf_events};
use crate::support::{program, record, sprof, temp_dir};
use serde_json::Value;

fn export(profile: &Path, options: &[&str]) -> Output {
    sprof().arg("export").arg(profile).args(options).output().unwrap()
}

fn exported(profile: &Path, options: &[&str]) -> Vec<u8> {
    let output = export(profile, options);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{options:?}: {stderr}");
    output.stdout
}

/// The export in a file.
fn file(folder: &Path, profile: &Path, format: &str) -> PathBuf {
    let path = folder.join(format!("exported.{format}"));
    exported(profile, &["-q", "--format", format, "-o", path.to_str().unwrap()]);
    path
}

/// By function: what it cost itself, and what was spent while it was on the stack.
type Costs = BTreeMap<String, (u64, u64)>;

fn costs_of_folded(text: &[u8]) -> Costs {
    let mut costs = Costs::new();
    for line in std::str::from_utf8(text).unwrap().lines() {
        let (path, weight) = line.rsplit_once(' ').unwrap();
        let weight: u64 = weight.parse().unwrap();
        let names: Vec<&str> = path.split(';').skip(1).collect();
        costs.entry((*names.last().unwrap()).to_owned()).or_default().0 += weight;
        for name in names.into_iter().collect::<HashSet<_>>() {
            costs.entry(name.to_owned()).or_default().1 += weight;
        }
    }
    costs
}

fn sum(costs: &Costs) -> u64 {
    costs.values().map(|(own, _)| own).sum()
}

/// What `go tool pprof -top` prints of a file.
fn go_top(pprof: &Path, options: &[&str]) -> String {
    let output = Command::new("go")
        .args(["tool", "pprof", "-top", "-nodecount=100000", "-nodefraction=0"])
        .args(options)
        .arg(pprof)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Numbers in one unit.
fn costs_of_top(text: &str) -> Costs {
    // flat, flat%, sum%, cum, cum%, name
    let rows = text.lines().skip_while(|line| !line.contains("flat%")).skip(1);
    rows.map(|row| {
        let words: Vec<&str> = row.split_whitespace().collect();
        let name = words[5..]
            .join(" ")
            .replace(" (inline)", "")
            .replace(" (partial-inline)", "");
        let number = |word: &str| word.trim_end_matches(char::is_alphabetic).parse().unwrap();
        (name, (number(words[0]), number(words[3])))
    })
    .collect()
}

#[test]
fn go_s_pprof_shows_the_four_values_of_the_heap_that_the_measures_have() {
    let go = Command::new("go").arg("version").output();
    if !has(Need::Go, go.is_ok_and(|output| output.status.success()), "no go") {
        return;
    }
    let recording = record()
        .options(&["--heap", "--heap-interval", "1"])
        .run(program("heap").unwrap(), &["1", "8", "thread"]);
    let folder = temp_dir();
    let pprof = folder.path().join("heap.pb.gz");
    let write = |options: &[&str]| {
        let to_file = ["-q", "-f", "pprof", "-o", pprof.to_str().unwrap()];
        exported(&recording.output, &[&to_file[..], options].concat());
    };
    let folded = |measure: &str, options: &[&str]| {
        let measured = ["-f", "folded", "--measure", measure];
        costs_of_folded(&exported(&recording.output, &[&measured[..], options].concat()))
    };
    let shown = |options: &[&str]| {
        let mut costs = costs_of_top(&go_top(&pprof, &[&["-unit=bytes"], options].concat()));
        costs.retain(|_, costs| *costs != (0, 0));
        costs
    };
    for part in [&[][..], &["--thread", "heap"], &["--hide", "take"]] {
        for (measure, index) in [
            ("blocks", "alloc_objects"),
            ("allocated", "alloc_space"),
            ("retained", "inuse_space"),
        ] {
            write(&[&["--measure", measure], part].concat());
            let expected = folded(measure, part);
            assert!(expected.contains_key("keeps"), "{expected:?}");
            // The measure's own value is shown first.
            assert_eq!(shown(&[]), expected, "{measure} {part:?}");
            assert_eq!(
                shown(&[&format!("-sample_index={index}")]),
                expected,
                "{measure} {part:?}"
            );
        }
    }
    write(&["--measure", "allocated"]);
    assert_eq!(shown(&["-sample_index=inuse_space"]), folded("retained", &[]));
    let objects = shown(&["-sample_index=inuse_objects"]);
    assert_eq!((objects["take"], objects.contains_key("frees")), ((256, 256), false));
    // sprof reads the four values by the same measures.
    for measure in ["blocks", "allocated", "retained"] {
        let again = exported(&pprof, &["-f", "folded", "--measure", measure]);
        assert_eq!(costs_of_folded(&again), folded(measure, &[]), "{measure}");
    }
    // These are no values of Go's.
    write(&["--measure", "peak"]);
    assert_eq!(shown(&["-sample_index=peak"]), folded("peak", &[]));
    let none = export(
        &recording.output,
        &["-f", "pprof", "--measure", "allocated", "--time-range", "1000..2000"],
    );
    let stderr = String::from_utf8_lossy(&none.stderr);
    assert!(stderr.contains("no blocks of memory are selected"), "{stderr}");
    assert!(none.stdout.is_empty());
}

#[test]
fn go_s_pprof_shows_the_functions_and_lines_that_the_folded_stacks_have() {
    let Some(()) = perf_events() else { return };
    let go = Command::new("go").arg("version").output();
    if !has(Need::Go, go.is_ok_and(|output| output.status.success()), "no go") {
        return;
    }
    let (recording, _) = record().profile(program("inline_dwarf5").unwrap(), &["300"]);
    let folder = temp_dir();
    let pprof = file(folder.path(), &recording.output, "pprof");
    let folded = costs_of_folded(&exported(&recording.output, &["--format", "folded"]));
    let top = |options: &[&str]| go_top(&pprof, &[&["-sample_index=samples"], options].concat());
    let text = top(&[]);
    let shown = costs_of_top(&text);
    assert_eq!(shown, folded, "{text}");
    let lines = top(&["-lines"]);
    let expected = format!("inline.c:{} (inline)", line_of("inline.c", "INNERMOST_LINE"));
    assert!(lines.contains(&expected), "no {expected} in {lines}");
}

#[test]
fn callgrind_annotate_shows_the_costs_that_the_folded_stacks_have() {
    let Some(()) = perf_events() else { return };
    let installed = Command::new("callgrind_annotate").arg("--version").output();
    if !has(
        Need::Valgrind,
        installed.is_ok(),
        "no callgrind_annotate (Debian: valgrind)",
    ) {
        return;
    }
    // Recursive, so that a cost could be counted several times.
    let (recording, _) = record().profile(program("deep").unwrap(), &["spin", "8", "200"]);
    let folder = temp_dir();
    let callgrind = file(folder.path(), &recording.output, "callgrind");
    let folded = costs_of_folded(&exported(&recording.output, &["--format", "folded"]));
    for (inclusive, cost) in [("no", 0), ("yes", 1)] {
        let output = Command::new("callgrind_annotate")
            .args(["--threshold=100", "--auto=no", &format!("--inclusive={inclusive}")])
            .arg(&callgrind)
            .current_dir(folder.path())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        let mut checked = 0;
        for (name, costs) in &folded {
            let expected = [costs.0, costs.1][cost];
            if !["main", "deep_leaf", "xorshift"].contains(&name.as_str()) || expected == 0 {
                continue;
            }
            // `1,234 (98.00%)  /src/deep.c:main [deep]`
            let row = text.lines().find(|line| line.contains(&format!(":{name} [")));
            let shown = row.map(|row| row.split('(').next().unwrap().trim().replace(',', ""));
            assert_eq!(shown, Some(expected.to_string()), "{name}: {text}");
            checked += 1;
        }
        assert!(checked > 0, "{folded:?}");
    }
}

#[test]
fn speedscope_s_schema_accepts_the_export() {
    let Some(()) = perf_events() else { return };
    let (recording, _) = record().profile(program("threads").unwrap(), &["200", "5"]);
    let folder = temp_dir();
    let path = file(folder.path(), &recording.output, "speedscope");
    let Some(answer) = script("speedscope.js", &[path.as_os_str()]) else {
        return;
    };
    assert_eq!(answer, "valid\n");
    let json: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let totals = json["profiles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|profile| profile["endValue"].as_u64().unwrap());
    let folded = costs_of_folded(&exported(&recording.output, &["--format", "folded"]));
    assert_eq!(totals.sum::<u64>(), sum(&folded));
}

#[test]
fn the_firefox_profiler_reads_folded_stacks_and_perf_script() {
    let Some(()) = perf_events() else { return };
    let (recording, profile) = record().profile(program("split").unwrap(), &["500"]);
    let folder = temp_dir();
    let costs = costs_of_folded(&exported(&recording.output, &["--format", "folded"]));
    let all = sum(&costs) as f64;
    let by_weight = |name: &str| 100.0 * costs.get(name).map_or(0, |costs| costs.0) as f64 / all;
    // The client counts the samples of perf's text. Samples of cycles have different weights.
    let by_count = |name: &str| profile.share(|_| true, |names| names.last() == Some(&name)).percent();
    for (format, is_counted) in [("folded", false), ("perf-script", true)] {
        let path = file(folder.path(), &recording.output, format);
        let Some(client) = Client::load(path.to_str().unwrap()) else {
            return;
        };
        let functions = client.functions();
        for name in ["sixty", "thirty", "ten"] {
            let own = if is_counted { by_count(name) } else { by_weight(name) };
            let shown = functions
                .iter()
                .find(|function| function.0 == name)
                .map_or(0.0, |function| function.2);
            assert!((shown - own).abs() < 0.01, "{format} {name}: {shown} %, not {own} %");
        }
    }
}

#[test]
fn a_flame_graph_is_searched_and_zoomed_in_a_browser_and_loads_nothing() {
    let Some(()) = perf_events() else { return };
    if !has(Need::Chromium, Path::new("/usr/bin/chromium").exists(), "no chromium") {
        return;
    }
    let (recording, _) = record().profile(program("split").unwrap(), &["500"]);
    let folder = temp_dir();
    let svg = file(folder.path(), &recording.output, "svg");
    let text = std::fs::read_to_string(&svg).unwrap();
    assert!(!text.contains("href"), "it refers to something");
    let stacks = folder.path().join("stacks.folded");
    std::fs::write(&stacks, "app;start;main;run;hot 2\napp;start;main;run;cold 1\n").unwrap();
    let folded = folder.path().join("folded.svg");
    exported(&stacks, &["-q", "--format", "svg", "-o", folded.to_str().unwrap()]);
    let arguments: [&OsStr; 4] = [
        svg.as_os_str(),
        "^sixty$|^thirty$".as_ref(),
        // Its callers may share a row.
        "one_round".as_ref(),
        folded.as_os_str(),
    ];
    let Some(answer) = script("flamegraph.js", &arguments) else {
        return;
    };
    let shown: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(shown["errors"], serde_json::json!([]), "{shown}");
    assert_eq!(shown["requests"], 1, "only the file itself: {shown}");
    assert_eq!(
        shown["searched"]["found"],
        serde_json::json!(["sixty", "thirty"]),
        "{shown}"
    );
    let costs = costs_of_folded(&exported(&recording.output, &["--format", "folded"]));
    let share = |of: u64| {
        let text = format!(
            "{:.2}",
            100.0 * (costs["sixty"].1 + costs["thirty"].1) as f64 / of as f64
        );
        text.parse::<f64>().unwrap()
    };
    let matched = |what: &str| {
        let text = shown[what]["matched"].as_str().unwrap();
        text.trim_start_matches("matched: ")
            .trim_end_matches(" %")
            .parse::<f64>()
            .unwrap()
    };
    assert!((matched("searched") - share(sum(&costs))).abs() < 0.011, "{shown}");
    assert!(
        (matched("zoomed") - share(costs["one_round"].1)).abs() < 0.011,
        "{shown}"
    );
    let wide = shown["zoomed"]["wide"].as_array().unwrap().iter();
    let wide: Vec<&str> = wide.flat_map(|name| name.as_str().unwrap().split('\n')).collect();
    assert!(wide.contains(&"one_round") && wide.contains(&"main"), "{shown}");
    assert!(
        shown["zoomed"]["frames"].as_u64() <= shown["start"]["frames"].as_u64(),
        "{shown}"
    );
    assert_eq!(shown["reset"]["frames"], shown["start"]["frames"], "{shown}");
    assert_eq!(
        (&shown["reset"]["matched"], &shown["reset"]["hash"]),
        (&"".into(), &"".into()),
        "{shown}"
    );
    assert_eq!(
        shown["linked"], shown["zoomed"]["matched"],
        "the address holds the state: {shown}"
    );
    // A row of several functions opens to a row for each; Escape closes it.
    let names = |what: &str| serde_json::from_value::<Vec<String>>(shown[what]["wide"].clone()).unwrap();
    assert_eq!(names("folded")[2..], ["app\nstart\nmain", "run"], "{shown}");
    assert_eq!(names("opened")[2..], ["app", "start", "main", "run"], "{shown}");
    assert_eq!(shown["closed"], shown["folded"], "{shown}");
}

#[test]
fn what_changed_is_coloured_and_what_is_gone_is_found_in_a_browser() {
    let folder = temp_dir();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (base, new, svg) = (path("base.folded"), path("new.folded"), path("changed.svg"));
    std::fs::write(&base, "main;parse 3000\nmain;old 1000\nmain;rest 6000\n").unwrap();
    std::fs::write(&new, "main;parse 5000\nmain;new;rest 1000\nmain;rest 4000\n").unwrap();
    let run = |arguments: &[&str]| {
        let output = sprof().args(arguments).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), stderr)
    };
    let (status, list, stderr) = run(&["diff", &base, &new, "--flamegraph", &svg]);
    assert_eq!((status, stderr), (Some(0), format!("sprof: wrote {svg}\n")));
    assert!(list.contains("parse") && list.contains("(gone)"), "{list}");
    // The same from the other command, and to stdout.
    let text = std::fs::read_to_string(&svg).unwrap();
    assert_eq!(run(&["flamegraph", &new, "--base", &base, "-o", "-"]).1, text);
    assert_eq!(run(&["diff", &base, &new, "--flamegraph", "-"]).1, text);
    for (arguments, expected) in [
        (&["--reverse"][..], "--reverse is for the flame graph"),
        (&["--flamegraph", "-", "--flame-chart"], "leave --flame-chart away"),
    ] {
        let (status, _, stderr) = run(&[&["diff", &base, &new], arguments].concat());
        assert!(status == Some(2) && stderr.contains(expected), "{stderr}");
    }
    if !has(Need::Chromium, Path::new("/usr/bin/chromium").exists(), "no chromium") {
        return;
    }
    let arguments: [&OsStr; 3] = [svg.as_ref(), "^old$|^new$".as_ref(), "new".as_ref()];
    let Some(answer) = script("flamegraph.js", &arguments) else {
        return;
    };
    let shown: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(shown["errors"], serde_json::json!([]), "{shown}");
    // Both are found; but what is gone is not among what there is.
    assert_eq!(shown["searched"]["found"], serde_json::json!(["new", "old"]), "{shown}");
    assert_eq!(shown["searched"]["matched"], "matched: 10.00 %", "{shown}");
    assert_eq!(shown["zoomed"]["matched"], "matched: 100.00 %", "{shown}");
    assert_eq!(
        shown["zoomed"]["wide"].as_array().unwrap().len(),
        5,
        "all to rest: {shown}"
    );
    assert_eq!(shown["reset"]["frames"], shown["start"]["frames"], "{shown}");
}

#[test]
fn waits_are_exported_only_when_asked_for_and_told_of() {
    let Some(()) = kernel_samples() else { return };
    let (recording, _) = record()
        .options(&["--off-cpu"])
        .profile(program("waits").unwrap(), &["1", "250"]);
    let costs = |options: &[&str]| {
        costs_of_folded(&exported(
            &recording.output,
            &[&["--format", "folded"], options].concat(),
        ))
    };
    let (cpu, waits, all) = (costs(&[]), costs(&["--off-cpu"]), costs(&["--wall"]));
    assert!(
        !cpu.contains_key("[off-CPU]") && waits.contains_key("[off-CPU: sleep]"),
        "{cpu:?}"
    );
    assert_eq!(sum(&cpu) + sum(&waits), sum(&all));
    // CPU time that the host takes away is in no sample, so the length of the spinning is not known.
    let of = |costs: &Costs, name: &str| costs.get(name).map_or(0, |costs| costs.1);
    for (name, (_, total)) in &all {
        assert_eq!(of(&cpu, name) + of(&waits, name), *total, "{name}: {cpu:?} {waits:?}");
    }
    // A quarter second each of spinning, sleeping, reading and locking.
    assert!(waits["sleep_quarter"].1 > 200_000_000, "{all:?}");
    assert!(of(&cpu, "spin_quarter") > of(&cpu, "sleep_quarter"), "{cpu:?}");
    let stderr = String::from_utf8(export(&recording.output, &["--format", "folded"]).stderr).unwrap();
    assert!(stderr.contains("of waits are left out; --waits"), "{stderr}");
}

#[test]
fn the_profile_itself_is_exported_untouched() {
    let Some(()) = perf_events() else { return };
    let recording = record().run(program("split").unwrap(), &["100"]);
    let folder = temp_dir();
    let plain = folder.path().join("plain.json");
    let again = folder.path().join("again.json.gz");
    let copy = exported(&recording.output, &["--format", "firefox"]);
    assert_eq!(copy, std::fs::read(&recording.output).unwrap());
    exported(&recording.output, &["-f", "firefox", "-o", plain.to_str().unwrap()]);
    exported(&plain, &["-f", "firefox", "-o", again.to_str().unwrap()]);
    let json: Value = serde_json::from_slice(&std::fs::read(&plain).unwrap()).unwrap();
    assert_eq!(json, support::Profile::read(&again).json);
    assert_eq!(json, recording.profile().json);
}

#[test]
fn the_firefox_profiler_reads_version_55_with_the_same_shares() {
    let Some(()) = perf_events() else { return };
    let (recording, profile) = record().profile(program("split").unwrap(), &["500"]);
    let folder = temp_dir();
    let (path, plain) = (folder.path().join("v55.json.gz"), folder.path().join("v55.json"));
    exported(
        &recording.output,
        &["-q", "-f", "firefox-v55", "-o", path.to_str().unwrap()],
    );
    // What is of that version is copied.
    assert_eq!(exported(&path, &["-f", "firefox-v55"]), std::fs::read(&path).unwrap());
    exported(&path, &["-q", "-f", "firefox", "-o", plain.to_str().unwrap()]);
    let old: Value = serde_json::from_slice(&std::fs::read(&plain).unwrap()).unwrap();
    assert_eq!(old["meta"]["preprocessedProfileVersion"], 55);
    let Some(client) = Client::load(path.to_str().unwrap()) else {
        return;
    };
    let functions = client.functions();
    for name in ["sixty", "thirty", "ten", "run_split", "main"] {
        let shown = functions
            .iter()
            .find(|function| function.0 == name)
            .map_or(0.0, |function| function.3);
        // The client adds up weights.
        let expected = profile.cpu_share(|_| true, |names| names.contains(&name));
        assert!((shown - expected).abs() < 0.5, "{name}: {shown} {expected}");
    }
    let text = |file: &Path| exported(file, &["-q", "-f", "folded", "--threads"]);
    assert_eq!(text(&path), text(&recording.output));
}

#[test]
fn what_cannot_be_exported_is_told_with_the_next_step() {
    let folder = temp_dir();
    let text = folder.path().join("text");
    std::fs::write(&text, "not a profile\n").unwrap();
    let folded = folder.path().join("stacks.folded");
    std::fs::write(&folded, "main;work 3\nmain;rest 1\n").unwrap();
    let none = folder.path().join("none/x.svg");
    for (path, options, status, expected) in [
        (&text, &["-f", "svg"][..], 125, "expected a Firefox profile"),
        (
            &folded,
            &["-f", "svg", "-o", none.to_str().unwrap()],
            125,
            "create it first",
        ),
        (
            &folded,
            &["-f", "folded", "--inverted"],
            2,
            "--inverted is for flame graphs",
        ),
        (&folded, &["-f", "svg", "--off-cpu"], 125, "holds no waits"),
        (&folded, &["-f", "svg", "--min-width", "-1"], 2, "0 or more"),
        (&folded, &["-f", "firefox", "--wall"], 2, "copies the whole profile"),
        (&folded, &["-f", "flame"], 2, "speedscope"),
    ] {
        let output = export(path, options);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{options:?}: {stderr}");
        assert!(
            stderr.contains(expected) && output.stdout.is_empty(),
            "{options:?}: {stderr}"
        );
    }
    // And what is right for the first of them works.
    let text = String::from_utf8(exported(&folded, &["-f", "folded"])).unwrap();
    assert!(text.contains("main;work 3\n"), "{text}");
}

#[test]
fn a_reader_that_leaves_is_a_quiet_end() {
    let folder = temp_dir();
    let folded = folder.path().join("stacks.folded");
    std::fs::write(&folded, "main;work 3\n").unwrap();
    for format in [
        "folded",
        "svg",
        "speedscope",
        "callgrind",
        "perf-script",
        "pprof",
        "otlp",
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = sprof();
        command
            .arg("export")
            .arg(&folded)
            .args(["-f", format])
            .stdout(writer)
            .stderr(Stdio::piped());
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && stderr.is_empty(), "{format}: {stderr}");
    }
}

#[test]
fn flamegraph_records_a_program_draws_it_and_keeps_its_status() {
    let Some(()) = perf_events() else { return };
    let folder = temp_dir();
    let run = |options: &[&str], command: &[&OsStr]| {
        let mut sprof = sprof();
        sprof
            .arg("flamegraph")
            .args(options)
            .arg("--")
            .args(command)
            .current_dir(folder.path());
        sprof.output().unwrap()
    };
    let split = program("split").unwrap();
    let output = run(&["--title", "my title"], &[split.as_os_str(), "300".as_ref()]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let svg = std::fs::read_to_string(folder.path().join("flamegraph.svg")).unwrap();
    for expected in ["<title>sixty (", "my title", "</svg>"] {
        assert!(svg.contains(expected), "no {expected}");
    }
    assert!(
        stderr.contains("wrote flamegraph.svg") && stderr.contains("quality:"),
        "{stderr}"
    );

    let status = run(
        &["-o", "-"],
        &[
            "sh".as_ref(),
            "-c".as_ref(),
            "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 3".as_ref(),
        ],
    );
    assert_eq!(
        status.status.code(),
        Some(3),
        "{}",
        String::from_utf8_lossy(&status.stderr)
    );
    assert!(status.stdout.starts_with(b"<?xml") && status.stdout.ends_with(b"</svg>\n"));
    assert_eq!(run(&[], &["/no/such/program".as_ref()]).status.code(), Some(127));
    let names: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["flamegraph.svg"]);
}

#[test]
fn flamegraph_of_a_program_needs_no_dashes() {
    let output = sprof().args(["flamegraph", "no-such-file"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("sprof flamegraph -- no-such-file"), "{stderr}");

    let Some(()) = perf_events() else { return };
    let folder = temp_dir();
    let split = program("split").unwrap();
    // All that follows is the program's own.
    let words = [
        "flamegraph".as_ref(),
        "-qF".as_ref(),
        "2000".as_ref(),
        split.as_os_str(),
    ];
    let output = sprof()
        .args(words)
        .args(["300", "-o", "x.svg"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let svg = std::fs::read_to_string(folder.path().join("flamegraph.svg")).unwrap();
    assert!(svg.contains("<title>sixty ("), "{stderr}");
}

#[test]
fn flamegraph_draws_a_saved_profile_in_every_way() {
    let folder = temp_dir();
    let folded = folder.path().join("stacks.folded");
    std::fs::write(&folded, "main;work 3\nmain;rest 1\n").unwrap();
    let mut pictures = HashSet::new();
    for options in [
        &[][..],
        &["--inverted"],
        &["--reverse"],
        &["--flame-chart"],
        &["--threads"],
        &["--image-width", "500"],
    ] {
        let svg = folder.path().join("out.svg");
        let mut command = sprof();
        command.arg("flamegraph").arg(&folded).arg("-o").arg(&svg).args(options);
        let output = command.output().unwrap();
        assert!(
            output.status.success(),
            "{options:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(
            pictures.insert(std::fs::read_to_string(&svg).unwrap()),
            "{options:?} change nothing"
        );
    }
    for (options, expected) in [
        (&["--rate", "5"][..], "--rate"),
        (&["--reverse", "--flame-chart"], "--flame-chart"),
        (&["--", "ls"], "COMMAND"),
    ] {
        let output = sprof().arg("flamegraph").arg(&folded).args(options).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {stderr}");
        assert!(stderr.contains(expected), "{options:?}: {stderr}");
    }
}

/// Stacks whose weights are known: a program's, and no process's.
fn known_stacks(folder: &Path) -> PathBuf {
    let path = folder.join("known.folded");
    std::fs::write(
        &path,
        "main;lexing;fetching 300\nmain;lexing 50\nmain;plotting;fetching 40\nelsewhere;fetching 10\n",
    )
    .unwrap();
    path
}

#[test]
fn every_command_that_reads_takes_the_conditions_of_reports() {
    let folder = temp_dir();
    let file = known_stacks(folder.path());
    let lines = |options: &[&str]| -> Vec<String> {
        let text = exported(&file, &[&["-q", "-f", "folded"], options].concat());
        let text = String::from_utf8(text).unwrap();
        let stack = |line: &str| line.strip_prefix("[unknown process];").unwrap().to_owned();
        let mut lines: Vec<String> = text.lines().map(stack).collect();
        lines.sort();
        lines
    };
    assert_eq!(
        lines(&["--focus", "lexing"]),
        ["main;lexing 50", "main;lexing;fetching 300"]
    );
    assert_eq!(
        lines(&["--hide", "lexing", "--focus", "main"]),
        ["main 50", "main;fetching 300", "main;plotting;fetching 40"]
    );
    assert_eq!(
        lines(&["--hide", "fetching"]),
        ["elsewhere 10", "main;lexing 350", "main;plotting 40"]
    );

    // The same in every other format. Some are compressed, and speedscope's lists all functions.
    for format in ["svg", "speedscope", "callgrind", "perf-script", "firefox", "html"] {
        let all = exported(&file, &["-q", "-f", format]);
        let some = exported(&file, &["-q", "-f", format, "--focus", "plotting"]);
        let has = |text: &[u8], name: &str| String::from_utf8_lossy(text).contains(name);
        if ["svg", "callgrind", "perf-script"].contains(&format) {
            assert!(has(&all, "elsewhere") && has(&all, "plotting"), "{format}");
            assert!(!has(&some, "lexing") && has(&some, "plotting"), "{format}");
        }
        assert_ne!(all, some, "{format}");
    }
    let picture = folder.path().join("flamegraph.svg");
    let draw = || {
        let output = sprof()
            .arg("flamegraph")
            .arg(&file)
            .args(["-q", "--focus", "plotting", "-o"])
            .arg(&picture)
            .output();
        assert_eq!(output.unwrap().status.code(), Some(0));
        std::fs::read_to_string(&picture).unwrap()
    };
    let drawn = draw();
    assert!(drawn.contains("plotting") && !drawn.contains("lexing"), "{drawn}");

    let refused = export(&file, &["-f", "folded", "--focus", "nothing_like_it"]);
    assert_eq!(refused.status.code(), Some(125));
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(stderr.contains("there is no function \"nothing_like_it\""), "{stderr}");
}

#[test]
fn a_hidden_function_that_waits_leaves_its_wait() {
    let Some(()) = perf_events() else { return };
    let (waits, _) = record()
        .options(&["--off-cpu"])
        .profile(program("threads").unwrap(), &["50", "3"]);
    let sum = |options: &[&str]| -> u64 {
        let text = exported(&waits.output, &[&["-q", "-f", "folded"], options].concat());
        let text = String::from_utf8(text).unwrap();
        text.lines()
            .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
            .sum()
    };
    // Every function of the C library that a thread can wait in, and what called it.
    let text = exported(&waits.output, &["-q", "-f", "folded", "--off-cpu"]);
    let text = String::from_utf8(text).unwrap();
    let leaf = text
        .lines()
        .next()
        .unwrap()
        .rsplit_once(' ')
        .unwrap()
        .0
        .rsplit(';')
        .next()
        .unwrap()
        .to_owned();
    let caller = text.lines().next().unwrap().rsplit(';').nth(1).unwrap().to_owned();
    for hidden in [leaf, caller] {
        for kind in [&["--off-cpu"][..], &[]] {
            assert_eq!(
                sum(kind),
                sum(&[kind, &["--hide", &hidden]].concat()),
                "{hidden} {kind:?}"
            );
        }
    }
}
