//! What other profilers wrote has the figures that their own tools tell.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::client::Client;
use crate::support::programs::line_of;
use crate::support::schema::parsed;
use crate::support::skip::{Need, has};
use crate::support::{Share, program, sprof, temp_dir};
use serde_json::Value;

/// What a command prints, if it ends well.
fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn run(words: &[&str], file: &Path, options: &[&str]) -> String {
    printed(sprof().args(words).arg(file).args(options))
}

fn json(file: &Path, options: &[&str]) -> Value {
    let options = [&["--format", "json", "--view", "functions"], options].concat();
    parsed(&run(&["report"], file, &options))
}

/// (self, total) of each function that costs anything; those of one name in several files added up by self.
fn functions(json: &Value) -> BTreeMap<String, (f64, f64)> {
    let mut found: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for row in json["views"][0]["rows"].as_array().unwrap() {
        let weight = |key: &str| row[key]["weight"].as_f64().unwrap();
        let entry = found.entry(row["function"].as_str().unwrap().to_owned()).or_default();
        entry.0 += weight("self");
        entry.1 = entry.1.max(weight("total"));
    }
    found
}

/// `sprof load` of the file shows in the Firefox Profiler what the file's own tool says: (self, total) by function, of
/// all that the file counts. Functions below one percent are left out; files without call paths have no totals.
fn assert_in_client(file: &Path, theirs: &BTreeMap<String, (f64, Option<f64>)>, all: f64) {
    let saved = file.with_extension("client.json.gz");
    run(&["load", "-s", "-o", saved.to_str().unwrap()], file, &[]);
    let Some(client) = Client::load(saved.to_str().unwrap()) else {
        return;
    };
    // Functions of one name in several files are rows of their own.
    let mut shown: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for (name, _, own, total) in client.functions() {
        let shares = shown.entry(name).or_default();
        shares.0 += own;
        shares.1 = shares.1.max(total);
    }
    let mut compared = 0;
    for (name, (own, total)) in theirs {
        let own = 100.0 * own / all;
        let total = total.map(|total| 100.0 * total / all);
        if own.max(total.unwrap_or(0.0)) < 1.0 {
            continue;
        }
        let found = *shown.get(name).unwrap_or_else(|| panic!("no {name} in {shown:?}"));
        // The client rounds to a tenth.
        assert!((found.0 - own).abs() < 0.06, "{name}: {found:?}, not {own}");
        if let Some(total) = total {
            assert!((found.1 - total).abs() < 0.06, "{name}: {found:?}, not {total}");
        }
        compared += 1;
    }
    assert!(compared >= 2, "{theirs:?}");
}

/// `scaled` and all else of the program, below one of valgrind's tools.
fn valgrind(tool: &str, options: &[&str], output: &str, scale: &str, file: &Path) -> Option<PathBuf> {
    let version = Command::new("valgrind").arg("--version").output();
    let is_there = version.is_ok_and(|output| output.status.success());
    if !has(Need::Valgrind, is_there, "no valgrind") {
        return None;
    }
    let program = program("calls").unwrap();
    printed(
        Command::new("valgrind")
            .arg(format!("--tool={tool}"))
            .args(options)
            .arg(format!("{output}={}", file.display()))
            .arg(&program)
            .arg(scale),
    );
    Some(program)
}

/// `1,234 (5.6%)  file.c:function [object]`, the way of callgrind_annotate and cg_annotate: (number, function).
fn annotated(text: &str) -> Vec<(f64, String)> {
    let rows = text.lines().filter_map(|line| {
        let (number, rest) = line.trim().split_once(" (")?;
        let number = number.replace(',', "").parse().ok()?;
        let (_, place) = rest.split_once(')')?;
        let place = place.trim().split(" [").next()?;
        let (_, function) = place.split_once(':')?;
        Some((number, function.to_owned()))
    });
    rows.collect()
}

#[test]
fn callgrind_figures_are_those_of_callgrind_annotate() {
    let dir = temp_dir();
    for options in [
        &[][..],
        &["--cache-sim=yes"],
        &["--dump-instr=yes", "--collect-jumps=yes"],
        &["--compress-strings=no", "--compress-pos=no"],
        &["--separate-threads=yes", "--combine-dumps=yes"],
    ] {
        let file = dir.path().join("callgrind.out");
        let Some(_) = valgrind("callgrind", options, "--callgrind-out-file", "3", &file) else {
            return;
        };
        // With threads apart, each has a file.
        let of_thread = dir.path().join("callgrind.out-01");
        let file = if of_thread.exists() { of_thread } else { file };
        let json = json(&file, &[]);
        assert_eq!(json["unit"], "count", "{options:?}");
        assert_eq!(json["weights"]["name"], "Ir");
        let ours = functions(&json);
        let annotate = |inclusive: &str| {
            let mut command = Command::new("callgrind_annotate");
            annotated(&printed(
                command.args([inclusive, "--auto=no", "--threshold=100"]).arg(&file),
            ))
        };
        let mut own: BTreeMap<String, f64> = BTreeMap::new();
        for (weight, function) in annotate("--inclusive=no") {
            *own.entry(function).or_default() += weight;
        }
        assert!(own.len() > 50, "{own:?}");
        for (function, weight) in &own {
            assert_eq!(ours[function].0, *weight, "{options:?}: self of {function}");
        }
        if options.is_empty() {
            let theirs = own.iter().map(|(name, own)| (name.clone(), (*own, None))).collect();
            assert_in_client(&file, &theirs, own.values().sum());
        }
        let mut total: BTreeMap<String, f64> = BTreeMap::new();
        for (weight, function) in annotate("--inclusive=yes") {
            let most = total.entry(function).or_default();
            *most = most.max(weight);
        }
        let mut compared = 0;
        for (function, weight) in total {
            // It adds the cost of a recursion up once a level (`fib'2`): 60 % of a program that spent 10 % there.
            let is_recursion = function.contains('\'');
            // Equal functions of two libraries are one to it.
            let rows = json["views"][0]["rows"].as_array().unwrap().iter();
            let is_one = rows.filter(|row| row["function"] == function.as_str()).count() == 1;
            // With caches simulated, the last two instructions of all are in the call and in no line.
            if !is_recursion && is_one && function != "_Exit" {
                assert_eq!(ours[&function].1, weight, "{options:?}: total of {function}");
                compared += 1;
            }
        }
        assert!(compared > 50, "{options:?}: {compared}");
        // fib's inner calls are what fib called, and no more.
        assert!(ours["fib'2"].1 < ours["fib"].1, "{options:?}: {:?}", ours["fib'2"]);
        assert!(ours["even"].1 < ours["main"].1);
    }
}

#[test]
fn callgrind_lines_and_callers_are_shown_and_no_tree_is_made_up() {
    let dir = temp_dir();
    let file = dir.path().join("callgrind.out");
    let Some(_) = valgrind("callgrind", &["--dump-instr=yes"], "--callgrind-out-file", "3", &file) else {
        return;
    };
    let callers = run(&["report"], &file, &["--view", "callers=scaled"]);
    assert!(callers.contains("main  1 call  calls"), "{callers}");
    assert!(!callers.contains("samples"), "{callers}");
    let text = run(&["report"], &file, &[]);
    assert!(text.contains("no call tree") && !text.contains("Hot path"), "{text}");
    assert!(text.contains("1 process, 1 thread, Ir "), "{text}");
    assert!(!text.contains(" ms"), "a count is shown as time: {text}");
    let markdown = run(&["report"], &file, &["--format", "md"]);
    assert!(markdown.contains("| self % | Ir | total % | total Ir |"), "{markdown}");
    for (options, expected) in [
        (&["--view", "tree"][..], "no call paths, so there is no call tree"),
        (&["--view", "bottom-up"], "callers=FUNCTION"),
        (&["--focus", "leaf"], "--focus needs call paths"),
        (&["--event", "Dr"], "counts no \"Dr\"; it counts Ir"),
    ] {
        let output = sprof().arg("report").arg(&file).args(options).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains(expected), "{stderr}");
    }
    // The line with the loop has nearly all of what the function costs itself.
    let annotated = run(&["annotate"], &file, &["leaf"]);
    let line = line_of("calls.c", "leaf-loop");
    let share = |text: &str| -> f64 { text.trim().split(' ').next().unwrap().parse().unwrap() };
    let of_line = annotated
        .lines()
        .find(|text| text.contains("leaf-loop"))
        .expect(&annotated);
    assert!(of_line.contains(&format!("{line}  ")), "{of_line}");
    let own = annotated.lines().nth(1).unwrap();
    let own = share(own.strip_prefix("self").expect(&annotated));
    assert!(share(of_line) > 0.7 * own && share(of_line) <= own, "{annotated}");
    assert!(own > 1.0 && annotated.contains(" Ir)"), "{annotated}");
    // Instructions are those of the program itself.
    assert!(annotated.lines().any(|line| line.ends_with(" ret")), "{annotated}");
}

#[test]
fn cachegrind_figures_are_those_of_cg_annotate() {
    let dir = temp_dir();
    let file = dir.path().join("cachegrind.out");
    let Some(_) = valgrind("cachegrind", &[], "--cachegrind-out-file", "3", &file) else {
        return;
    };
    for event in ["Ir", "Dr", "D1mr"] {
        let ours = functions(&json(&file, &["--event", event]));
        let mut command = Command::new("cg_annotate");
        let text = printed(
            command
                .args([format!("--show={event}"), format!("--sort={event}")])
                .args(["--threshold=0", "--auto=no"])
                .arg(&file),
        );
        let mut own: BTreeMap<String, f64> = BTreeMap::new();
        for (weight, function) in annotated(&text) {
            *own.entry(function).or_default() += weight;
        }
        assert!(own.len() > 20, "{text}");
        for (function, weight) in &own {
            assert_eq!(ours[function].0, *weight, "{event}: {function}");
        }
        // Without a choice it is the first event that is shown.
        if event == "Ir" {
            let theirs = own.iter().map(|(name, own)| (name.clone(), (*own, None))).collect();
            assert_in_client(&file, &theirs, own.values().sum());
        }
    }
    let text = run(&["report"], &file, &[]);
    assert!(text.contains("cachegrind counts no calls"), "{text}");
    assert!(!text.contains("Functions by total"), "{text}");
    let output = sprof()
        .arg("report")
        .arg(&file)
        .args(["--view", "callers=leaf"])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && stderr.contains("cachegrind counts no calls"),
        "{stderr}"
    );
    let annotated = run(&["annotate"], &file, &["leaf", "--source"]);
    assert!(annotated.contains("leaf-loop"), "{annotated}");
}

/// A CPU and a heap profile by Go's own profiler.
fn go_profiles(dir: &Path, cpu_ms: &str) -> Option<(PathBuf, PathBuf)> {
    let program = program("pprof_go")?;
    let (cpu, heap) = (dir.join("cpu.pb.gz"), dir.join("heap.pb.gz"));
    printed(Command::new(program).arg(cpu_ms).args([&cpu, &heap]));
    Some((cpu, heap))
}

/// `go tool pprof -top`, in the smallest unit: (flat, cum) by function.
fn go_top(file: &Path, event: &str, unit: &str) -> BTreeMap<String, (f64, f64)> {
    let text = printed(
        Command::new("go")
            .args([
                "tool",
                "pprof",
                "-top",
                "-nodefraction=0",
                "-edgefraction=0",
                "-nodecount=100000",
            ])
            .arg(format!("-sample_index={event}"))
            .arg(format!("-unit={unit}"))
            .arg(file),
    );
    let rows = text.lines().skip_while(|line| !line.contains("flat%")).skip(1);
    let number = |text: &str| -> f64 {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        digits.parse().unwrap()
    };
    let rows = rows.map(|row| {
        let words: Vec<&str> = row.split_whitespace().collect();
        let name = words[5..]
            .join(" ")
            .replace(" (inline)", "")
            .replace(" (partial-inline)", "");
        (name, (number(words[0]), number(words[3])))
    });
    rows.collect()
}

#[test]
fn pprof_figures_of_go_are_those_of_go_tool_pprof() {
    let dir = temp_dir();
    let Some((cpu, heap)) = go_profiles(dir.path(), "2000") else {
        return;
    };
    for (file, event, unit, ours_in, scale) in [
        (&cpu, "cpu", "ns", "ms", 1e6),
        (&cpu, "samples", "count", "samples", 1.0),
        (&heap, "inuse_space", "B", "bytes", 1.0),
        (&heap, "inuse_objects", "count", "count", 1.0),
        (&heap, "alloc_space", "B", "bytes", 1.0),
        (&heap, "alloc_objects", "count", "count", 1.0),
    ] {
        let json = json(file, &["--event", event]);
        assert_eq!(
            (&json["unit"], &json["weights"]["name"]),
            (&ours_in.into(), &event.into())
        );
        let ours = functions(&json);
        let theirs = go_top(file, event, unit);
        assert!(!theirs.is_empty());
        for (name, (own, total)) in &theirs {
            let (our_own, our_total) = ours.get(name).copied().unwrap_or_default();
            assert_eq!((our_own * scale, our_total * scale), (*own, *total), "{event}: {name}");
        }
    }
    // What each file shows without a choice.
    for (file, event, unit) in [(&cpu, "cpu", "ns"), (&heap, "inuse_space", "B")] {
        let theirs = go_top(file, event, unit);
        let all = theirs.values().map(|(own, _)| own).sum();
        let theirs = theirs
            .into_iter()
            .map(|(name, (own, total))| (name, (own, Some(total))));
        assert_in_client(file, &theirs.collect(), all);
    }
    // Without a choice it is the file's own; and the program's own split is in it.
    assert_eq!(functions(&json(&cpu, &[])), functions(&json(&cpu, &["--event", "cpu"])));
    let found = functions(&json(&cpu, &["--event", "samples"]));
    let count = |name: &str| found.get(name).map_or(0, |(_, total)| *total as u64);
    let of = count("main.sixty") + count("main.thirty") + count("main.ten");
    // Go's timer ticks 100 times a second, and less often where the host takes time away.
    for (name, percent) in [("main.sixty", 60.0), ("main.thirty", 30.0), ("main.ten", 10.0)] {
        let share = Share { hits: count(name), of };
        share.assert_is_within(percent, 30.0, name, || format!("{found:?}"));
    }
    let text = run(&["report"], &heap, &[]);
    assert!(
        text.contains("shown: inuse_space (bytes); the file also counts alloc_objects, alloc_space, inuse_objects"),
        "{text}"
    );
    assert!(text.contains("main.threeMegabytes") && !text.contains(" ms"), "{text}");
    let found = functions(&json(&heap, &[]));
    assert!(
        (found["main.threeMegabytes"].0 - 3.0 * 1048576.0).abs() < 1000.0,
        "{found:?}"
    );
    // And on into another format, to the nanosecond.
    let folded = run(&["export"], &cpu, &["--format", "folded"]);
    let of = |function: &str| -> f64 {
        let lines = folded
            .lines()
            .filter(|line| line.contains(&format!(";{function};")) || line.contains(&format!(";{function} ")));
        lines
            .map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap())
            .sum()
    };
    let theirs = go_top(&cpu, "cpu", "ns");
    assert_eq!(of("main.sixty"), theirs["main.sixty"].1, "{folded}");
}

/// Names that are demangled already are not cut by a tool that demangles: `<A as Iterator>::next` and all of its kind
/// were one `::next`.
#[test]
fn functions_of_an_exported_pprof_file_are_to_go_those_of_our_report() {
    let go = Command::new("go").arg("version").output();
    if !has(Need::Go, go.is_ok_and(|output| output.status.success()), "no go") {
        return;
    }
    let dir = temp_dir();
    let (folded, pprof) = (dir.path().join("names.folded"), dir.path().join("names.pb.gz"));
    let names = [
        "<core::slice::iter::Iter<T> as core::iter::Iterator>::next",
        "<alloc::vec::into_iter::IntoIter<T> as core::iter::Iterator>::next",
        "<F as core::ops::FnOnce<A>>::call_once",
        "core::ptr::drop_in_place<alloc::vec::Vec<u8>>",
        "app::main::{closure#0}",
        "f<int>(int)",
        "f<long>(long)",
        "A::operator()(int) const",
        "(anonymous namespace)::g(char)",
        "main.(*T[...]).work",
        "_ZN3app4main17h0123456789abcdefE",
        "0x1234",
    ];
    let lines = names
        .iter()
        .enumerate()
        .map(|(at, name)| format!("main;{name} {}\nmain;{name};leaf 1\n", at + 70));
    fs::write(&folded, lines.collect::<String>()).unwrap();
    run(
        &["export"],
        &folded,
        &["--format", "pprof", "-o", pprof.to_str().unwrap()],
    );
    let ours = functions(&json(&folded, &[]));
    assert_eq!(ours.len(), names.len() + 2);
    assert_eq!(go_top(&pprof, "samples", "count"), ours);
    assert_eq!(functions(&json(&pprof, &[])), ours);
}

/// A profile of ours that went through pprof's format is the same to `go tool pprof` and to us.
#[test]
fn an_exported_pprof_file_of_an_imported_one_keeps_every_figure() {
    let dir = temp_dir();
    let Some((_, heap)) = go_profiles(dir.path(), "1") else {
        return;
    };
    let again = dir.path().join("again.pb.gz");
    run(
        &["export"],
        &heap,
        &["--format", "pprof", "-o", again.to_str().unwrap()],
    );
    assert_eq!(functions(&json(&heap, &[])), functions(&json(&again, &[])));
    assert_eq!(go_top(&again, "inuse_space", "B"), go_top(&heap, "inuse_space", "B"));
    assert!(fs::metadata(&again).unwrap().len() > 0);
}

/// The slower function is named first, with the instructions that callgrind counted; and a rule for CI is broken by it.
#[test]
fn callgrind_files_are_compared_to_the_instruction() {
    let dir = temp_dir();
    let (old, new) = (dir.path().join("old.out"), dir.path().join("new.out"));
    let Some(_) = valgrind("callgrind", &[], "--callgrind-out-file", "3", &old) else {
        return;
    };
    valgrind("callgrind", &[], "--callgrind-out-file", "4", &new).unwrap();
    let own = |file: &Path| functions(&json(file, &[]))["scaled"].0;
    let diff = |options: &[&str]| printed(sprof().arg("diff").args([&old, &new]).args(options));
    let compared: Value = parsed(&diff(&["--format", "json"]));
    let first = &compared["changes"][0];
    assert_eq!(first["function"], "scaled", "{compared:#}");
    assert_eq!(first["base"]["per_run"].as_f64(), Some(own(&old)));
    assert_eq!(first["new"]["per_run"].as_f64(), Some(own(&new)));
    // Nothing else changed: no share of others that became less.
    assert_eq!(compared["changes"].as_array().unwrap().len(), 1, "{compared:#}");
    assert_eq!((&compared["weights"], &first["p"]), (&"Ir".into(), &Value::Null));
    assert_eq!(first["base"]["samples"], Value::Null);
    let text = diff(&[]);
    assert!(text.contains("more Ir") && text.contains("Counts are exact"), "{text}");
    assert!(
        !text.contains("sure") && !text.contains("samples") && !text.contains("faster"),
        "{text}"
    );
    let total = diff(&["--by", "total"]);
    let named: Vec<&str> = total.lines().filter(|line| line.contains("  [calls]")).collect();
    assert!(
        named.iter().any(|line| line.contains("main")) && named.iter().any(|line| line.contains("scaled")),
        "{total}"
    );
    let markdown = diff(&["--format", "md"]);
    assert!(
        markdown.contains(" | Ir before | after | change | of all |"),
        "{markdown}"
    );
    let same = printed(sprof().arg("diff").args([&old, &old]));
    assert!(same.contains("\n0 of "), "{same}");
    for (rule, code) in [("scaled=10%", Some(1)), ("scaled=50%", Some(0)), ("leaf=0%", Some(0))] {
        let mut command = sprof();
        command
            .args(["check", "--max-increase", rule, "--base"])
            .arg(&old)
            .arg("--")
            .arg(&new);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(
            output.status.code(),
            code,
            "{rule}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(text.contains("% more Ir: "), code == Some(1), "{text}");
    }
    // What is not the same is not compared.
    let cachegrind = dir.path().join("cachegrind.out");
    valgrind("cachegrind", &[], "--cachegrind-out-file", "3", &cachegrind).unwrap();
    let refused = |options: &[&str], files: [&Path; 2]| {
        let output = sprof().arg("diff").args(files).args(options).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let text = refused(&["--by", "paths"], [&old, &new]);
    assert!(text.contains("has no call paths to compare"), "{text}");
    let text = refused(&["--event", "Dr"], [&cachegrind, &old]);
    assert!(text.contains("counts no \"Dr\"; it counts Ir"), "{text}");
}

/// `--measure` shows the sum of the file that it names.
fn assert_is_measure(file: &Path, measure: &str, event: &str) {
    let [by_measure, by_event] =
        [["--measure", measure], ["--event", event]].map(|options| run(&["report"], file, &options));
    assert_eq!(by_measure, by_event, "{measure}");
}

#[test]
fn dhat_figures_are_those_of_dhat() {
    let dir = temp_dir();
    let file = dir.path().join("dhat.json");
    let Some(_) = valgrind("dhat", &[], "--dhat-out-file", "3", &file) else {
        return;
    };
    // What the program allocates: 3 blocks of 1000 bytes that stay, 50 of 200 that don't.
    for (event, keep, churn) in [
        ("total-bytes", 3000.0, 10_000.0),
        ("total-blocks", 3.0, 50.0),
        ("at-gmax-bytes", 3000.0, 200.0),
        ("at-gmax-blocks", 3.0, 1.0),
        ("at-end-bytes", 3000.0, 0.0),
        ("at-end-blocks", 3.0, 0.0),
    ] {
        let found = functions(&json(&file, &["--event", event]));
        let total = |name: &str| found.get(name).map_or(0.0, |(_, total)| *total);
        assert_eq!((total("keep"), total("churn")), (keep, churn), "{event}");
    }
    // The sums over the file, as its viewer shows them at the top.
    let own: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let sum = |key: &str| -> f64 {
        own["pps"]
            .as_array()
            .unwrap()
            .iter()
            .map(|point| point[key].as_f64().unwrap())
            .sum()
    };
    for (event, key) in [
        ("total-bytes", "tb"),
        ("total-blocks", "tbk"),
        ("at-gmax-bytes", "gb"),
        ("at-end-bytes", "eb"),
    ] {
        let json = json(&file, &["--event", event]);
        assert_eq!(json["selection"]["weight"].as_f64(), Some(sum(key)), "{event}");
    }
    for (measure, event) in [
        ("allocated", "total-bytes"),
        ("blocks", "total-blocks"),
        ("peak", "at-gmax-bytes"),
        ("retained", "at-end-bytes"),
    ] {
        assert_is_measure(&file, measure, event);
    }
    // Bytes that the two functions allocate are malloc's own.
    let theirs = [("keep", 3000.0), ("churn", 10_000.0), ("main", 13_000.0)];
    let theirs = theirs.map(|(name, total)| (name.to_owned(), (0.0, Some(total))));
    assert_in_client(&file, &theirs.into(), sum("tb"));
    let text = run(&["report"], &file, &["--view", "tree"]);
    assert!(text.contains("shown: total-bytes (bytes allocated)"), "{text}");
    assert!(
        text.contains("main") && text.contains("keep") && !text.contains(" ms"),
        "{text}"
    );
    let folded = run(&["export"], &file, &["--format", "folded", "--event", "at-end-bytes"]);
    assert!(folded.contains("calls;main;keep;malloc 3000"), "{folded}");
    let annotated = run(&["annotate"], &file, &["churn", "--source"]);
    assert!(annotated.contains("total-bytes"), "{annotated}");
    let copies = dir.path().join("copies.json");
    valgrind("dhat", &["--mode=copy"], "--dhat-out-file", "3", &copies).unwrap();
    let text = run(&["report"], &copies, &[]);
    assert!(
        text.contains("DHAT, copy") && text.contains("total-bytes (bytes copied)"),
        "{text}"
    );
}

/// massif's file of the program, and what ms_print says of it.
#[test]
fn massif_figures_are_those_of_ms_print() {
    let dir = temp_dir();
    let file = dir.path().join("massif.out.1");
    let Some(_) = valgrind("massif", &["--detailed-freq=1"], "--massif-out-file", "3", &file) else {
        return;
    };
    let theirs = printed(Command::new("ms_print").arg("--threshold=0").arg(&file));
    // `->92.09% (1,228,800B) 0x1091E5: keep (calls.c:37)`: the places of each tree, in order, with their bytes.
    let trees: Vec<&str> = theirs.split("(heap allocation functions)").collect();
    let first = theirs
        .split("Detailed snapshots: [")
        .nth(1)
        .unwrap()
        .split(']')
        .next()
        .unwrap();
    let peak = first.split(", ").position(|number| number.ends_with("(peak)")).unwrap();
    let sites = |tree: &str| -> BTreeMap<String, f64> {
        let mut sites = BTreeMap::new();
        for line in tree.lines().filter(|line| line.starts_with("->")) {
            let (_, rest) = line.split_once('(').unwrap();
            let (bytes, place) = rest.split_once("B) ").unwrap();
            let function = place.split_once(": ").map_or(place, |(_, function)| function);
            let function = function.split(" (").next().unwrap().to_owned();
            *sites.entry(function).or_default() += bytes.replace(',', "").parse::<f64>().unwrap();
        }
        sites.retain(|_, bytes| *bytes > 0.0);
        sites
    };
    for (event, tree) in [("peak", trees[peak + 1]), ("retained", trees[trees.len() - 1])] {
        let ours = functions(&json(&file, &["--event", event]));
        let own: BTreeMap<String, f64> = (ours.into_iter().filter(|(_, (own, _))| *own > 0.0))
            .map(|(name, (own, _))| (name, own))
            .collect();
        assert_eq!(own, sites(tree), "{event}: {theirs}");
    }
    // What the program takes: 3 blocks of 1000 bytes that stay, 50 of 200 that don't.
    let peak = functions(&json(&file, &[]));
    assert_eq!(
        (peak["keep"].0, peak["churn"].0, peak["main"].1),
        (3000.0, 200.0, 3200.0)
    );
    for measure in ["peak", "retained"] {
        assert_is_measure(&file, measure, measure);
    }
    let output = sprof()
        .arg("report")
        .arg(&file)
        .args(["--measure", "allocated"])
        .output();
    let stderr = String::from_utf8(output.unwrap().stderr).unwrap();
    assert!(
        stderr.contains("counts no \"allocated\"; it counts peak, retained"),
        "{stderr}"
    );
    let retained = functions(&json(&file, &["--event", "retained"]));
    assert_eq!(retained["keep"].0, 3000.0, "{retained:?}");
    let theirs = [("keep", (3000.0, Some(3000.0))), ("churn", (200.0, Some(200.0)))];
    assert_in_client(
        &file,
        &theirs.map(|(name, shares)| (name.to_owned(), shares)).into(),
        3200.0,
    );
    let text = run(&["report"], &file, &["--view", "tree"]);
    assert!(
        text.contains("shown: peak (bytes)") && text.contains("also counts retained"),
        "{text}"
    );
    assert!(text.contains("that the allocator adds to blocks"), "{text}");
}

/// A call path as heaptrack_print writes it for flame graphs: from main on, and the functions that are inlined in one
/// place from the inside out. So what counts here is which functions are in it.
fn heaptrack_paths(text: &str) -> BTreeMap<Vec<String>, f64> {
    let mut paths: BTreeMap<Vec<String>, f64> = BTreeMap::new();
    for line in text.lines() {
        let (path, weight) = line.rsplit_once(' ').unwrap();
        let functions = path.split(';').map(str::trim).filter(|function| !function.is_empty());
        let name = |function: &str| match function.rsplit_once(" (") {
            // An address of the process that no file names.
            _ if function.starts_with("0x") => "[unknown]".to_owned(),
            Some((name, file)) if file.ends_with(')') => name.to_owned(),
            _ => function.to_owned(),
        };
        let mut functions: Vec<String> = functions.map(name).collect();
        let stops = ["main", "__libc_start_main"];
        if let Some(main) = functions
            .iter()
            .rposition(|function| stops.contains(&function.as_str()))
        {
            functions.drain(..main);
        }
        functions.sort();
        *paths.entry(functions).or_default() += weight.parse::<f64>().unwrap();
    }
    paths.retain(|_, weight| *weight > 0.0);
    paths
}

#[test]
fn heaptrack_figures_are_those_of_heaptrack_print() {
    let version = Command::new("heaptrack").arg("--version").output();
    let is_there = version.is_ok_and(|output| output.status.success());
    if !has(Need::Heaptrack, is_there, "no heaptrack") {
        return;
    }
    let dir = temp_dir();
    let program = program("calls").unwrap();
    let out = dir.path().join("heaptrack.calls");
    printed(Command::new("heaptrack").arg("-o").arg(&out).arg(&program).arg("3"));
    // zstd where that is installed.
    let files = ["zst", "gz"].map(|ending| dir.path().join(format!("heaptrack.calls.{ending}")));
    let file = files.iter().find(|file| file.exists()).unwrap();
    let stacks = dir.path().join("stacks.txt");
    for (event, cost) in [
        ("blocks", "allocations"),
        ("temporary-blocks", "temporary"),
        ("retained", "leaked"),
        ("peak", "peak"),
    ] {
        let mut print = Command::new("heaptrack_print");
        print
            .arg("-f")
            .arg(file)
            .arg("-F")
            .arg(&stacks)
            .args(["--flamegraph-cost-type", cost]);
        printed(print.args(["--disable-builtin-suppressions", "--shorten-templates", "0"]));
        let mut theirs = heaptrack_paths(&fs::read_to_string(&stacks).unwrap());
        // The program's name comes first here.
        let folded = run(&["export"], file, &["--format", "folded", "--event", event]).replace("calls;", "");
        let mut ours = heaptrack_paths(&folded);
        if event == "temporary-blocks" {
            // To heaptrack_print, the block of the first kind (one of the C++ library's) follows itself where it is
            // freed after another one.
            let is_program = |path: &Vec<String>, _: &mut f64| path.contains(&"main".to_owned());
            theirs.retain(is_program);
            ours.retain(is_program);
        }
        assert_eq!(ours, theirs, "{event}");
    }
    // The sizes of all blocks, and how many of each were taken.
    let sizes = dir.path().join("sizes.txt");
    printed(
        Command::new("heaptrack_print")
            .arg("-f")
            .arg(file)
            .arg("-H")
            .arg(&sizes),
    );
    let sizes = fs::read_to_string(&sizes).unwrap();
    let bytes = sizes.lines().map(|line| {
        let (size, count) = line.split_once('\t').unwrap();
        size.parse::<f64>().unwrap() * count.parse::<f64>().unwrap()
    });
    let allocated = json(file, &[]);
    assert_eq!(allocated["selection"]["weight"].as_f64(), Some(bytes.sum()));
    // What the program takes: 3 blocks of 1000 bytes that stay, 50 of 200 that don't.
    for (event, keep, churn) in [
        ("allocated", 3000.0, 10_000.0),
        ("blocks", 3.0, 50.0),
        ("temporary", 0.0, 10_000.0),
        ("temporary-blocks", 0.0, 50.0),
        ("retained", 3000.0, 0.0),
    ] {
        let found = functions(&json(file, &["--event", event]));
        let own = |name: &str| found.get(name).map_or(0.0, |(own, _)| *own);
        assert_eq!((own("keep"), own("churn")), (keep, churn), "{event}");
    }
    for measure in ["allocated", "retained", "peak", "temporary", "blocks"] {
        assert_is_measure(file, measure, measure);
    }
    let all = allocated["selection"]["weight"].as_f64().unwrap();
    let theirs = [("keep", (3000.0, Some(3000.0))), ("churn", (10_000.0, Some(10_000.0)))];
    assert_in_client(
        file,
        &theirs.map(|(name, shares)| (name.to_owned(), shares)).into(),
        all,
    );
    let text = run(&["report"], file, &[]);
    assert!(
        text.contains("(heaptrack 1.") && text.contains("shown: allocated (bytes)"),
        "{text}"
    );
    let lines = run(&["annotate"], file, &["churn", "--source"]);
    assert!(lines.contains("kept[15] = malloc(200)"), "{lines}");
}
