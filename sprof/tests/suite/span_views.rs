//! Spans in reports, comparisons and exports, of a file whose truth is known.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

#[cfg(target_os = "linux")]
use crate::support::machine::{alone, share_again};
use crate::support::schema::parsed;
#[cfg(target_os = "linux")]
use crate::support::skip::kernel_samples;
#[cfg(target_os = "linux")]
use crate::support::steal::with_stolen_ms;
#[cfg(target_os = "linux")]
use crate::support::{program, record};
use crate::support::{sprof, temp_dir};

/// Requests of 10 ms: 4 in `parse` and 6 asleep; of so many, the last takes 40 ms more, in `rehash`. Each third one has
/// an async span. Between two, `idle` runs for 5 ms.
pub(crate) fn requests(folder: &Path, number: u32, slow_of: u32) -> PathBuf {
    let (mut now, mut samples, mut markers) = (0.0, Vec::new(), Vec::new());
    for request in 1..=number {
        let start = now;
        let slow = if request % slow_of == 0 { 40 } else { 0 };
        let stacks = [(1, 4), (2, slow), (4, 5)];
        for (stack, ms) in stacks {
            if stack == 4 {
                samples.push((3, now + 1e-3, 6.0));
                now += 6.0;
                markers.push((start, now, 5, json!({"type": "Text"})));
                if request % 3 == 0 {
                    markers.push((start, now, 6, json!({"type": "Text", "lane": 1})));
                }
            }
            for _ in 0..ms {
                samples.push((stack, now + 0.5, 1.0));
                now += 1.0;
            }
        }
    }
    markers.push((0.0, now, 7, json!({"type": "Child process"})));
    let column = |of: fn(&(i32, f64, f64)) -> Value| samples.iter().map(of).collect::<Value>();
    let of_markers = |of: fn(&(f64, f64, i32, Value)) -> Value| markers.iter().map(of).collect::<Value>();
    let zeros = [0; 5];
    let profile = json!({
        "meta": {
            "version": 29, "preprocessedProfileVersion": 60, "interval": 1, "startTime": 0, "product": "shop",
            "profilingStartTime": 0, "profilingEndTime": now, "symbolicated": true,
            "categories": [
                {"name": "Program", "color": "green", "subcategories": ["Other"]},
                {"name": "Off-CPU", "color": "orange", "subcategories": ["Other", "Sleep"], "isWait": true},
            ],
        },
        "libs": [],
        "shared": {
            "stringArray": ["main", "parse", "rehash", "nanosleep", "idle", "request", "fetch", "Child process"],
            "stackTable": {"length": 5, "prefix": [null, 0, 0, 0, 0], "frame": [0, 1, 2, 3, 4]},
            "frameTable": {"length": 5, "func": [0, 1, 2, 3, 4], "category": [0, 0, 0, 1, 0], "subcategory": [0, 0, 0, 1, 0],
                "address": [-1, -1, -1, -1, -1], "inlineDepth": zeros, "line": [null, null, null, null, null],
                "column": [null, null, null, null, null], "nativeSymbol": [null, null, null, null, null],
                "innerWindowID": [null, null, null, null, null]},
            "funcTable": {"length": 5, "name": [0, 1, 2, 3, 4], "isJS": [false, false, false, false, false],
                "relevantForJS": [false, false, false, false, false], "resource": [-1, -1, -1, -1, -1],
                "source": [null, null, null, null, null], "lineNumber": [null, null, null, null, null],
                "columnNumber": [null, null, null, null, null]},
            "resourceTable": {"length": 0, "lib": [], "name": [], "host": [], "type": []},
            "nativeSymbols": {"length": 0, "address": [], "functionSize": [], "libIndex": [], "name": []},
            "sources": {"length": 0, "uuid": [], "filename": []},
        },
        "threads": [{
            "name": "shop", "processName": "shop", "processType": "default", "pid": "1", "tid": 1, "isMainThread": true,
            "samples": {"length": samples.len(), "weightType": "tracing-ms", "stack": column(|sample| json!(sample.0)),
                "time": column(|sample| json!(sample.1)), "weight": column(|sample| json!(sample.2))},
            "markers": {"length": markers.len(), "startTime": of_markers(|marker| json!(marker.0)),
                "endTime": of_markers(|marker| json!(marker.1)), "phase": of_markers(|_| json!(1)),
                "category": of_markers(|_| json!(0)), "name": of_markers(|marker| json!(marker.2)),
                "data": of_markers(|marker| marker.3.clone())},
        }],
    });
    let file = folder.join(format!("{number}-{slow_of}.json"));
    std::fs::write(&file, profile.to_string()).unwrap();
    file
}

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = sprof().args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_report_has_the_spans_and_what_is_not_known_of_them() {
    let folder = temp_dir();
    let file = requests(folder.path(), 1000, 100);
    let file = file.to_str().unwrap();
    let (_, text, stderr) = run(&["report", file, "--view", "spans"]);
    for words in [
        "count     mean      p50      p90      p99  longest    total",
        "1,000  10.4 ms  10.0 ms  10.0 ms  10.0 ms  50.0 ms  10.40 s  request",
        "on a CPU 42.3 % (4,400 samples), sleep 57.7 %",
        "64.9 start a second and take 10.4 ms: 0.68 open at once, at most 1",
        "async: nothing says when they ran, so what threads did is not known",
    ] {
        assert!(text.contains(words), "{words}: {text}{stderr}");
    }
    assert!(!text.contains("Child process"), "{text}");
    let (_, json, _) = run(&[
        "report",
        file,
        "--view",
        "spans",
        "-f",
        "json",
        "--inside",
        "request",
        "--slowest",
        "1%",
    ]);
    let json: Value = parsed(&json);
    let rows = json["views"][0]["rows"].as_array().unwrap();
    let of = |row: &Value, keys: &[&str]| -> Vec<Value> { keys.iter().map(|key| row[*key].clone()).collect() };
    let keys = [
        "name",
        "part",
        "count",
        "mean_ms",
        "covered_ms",
        "on_cpu_ms",
        "samples",
        "waiting_ms",
        "rest_ms",
    ];
    let expected = |part: &str, number: u32, cpu: u32, wait: u32| -> Vec<Value> {
        let covered = f64::from(cpu + wait);
        let (mean, number) = (json!(covered / f64::from(number)), json!(number));
        let [covered, cpu_ms, wait] = [covered, f64::from(cpu), f64::from(wait)].map(|ms| json!(ms as u64));
        let mean = mean
            .as_f64()
            .filter(|mean| mean.fract() == 0.0)
            .map_or(mean, |whole| json!(whole as u64));
        vec![
            json!("request"),
            json!(part),
            number,
            mean,
            covered,
            cpu_ms,
            json!(cpu),
            wait,
            json!(0),
        ]
    };
    assert_eq!(of(&rows[0], &keys), expected("slowest", 10, 440, 60));
    assert_eq!(of(&rows[1], &keys), expected("others", 990, 3960, 5940));
    assert_eq!(rows[0]["waits"], json!([{"reason": "Sleep", "ms": 60}]));
    let (_, markdown, _) = run(&["report", file, "--view", "spans", "-f", "md"]);
    assert!(
        markdown.contains("| 1,000 | 10.4 ms |") && markdown.contains("<br>64.9 start a second"),
        "{markdown}"
    );
}

#[test]
fn all_commands_choose_what_is_inside_and_outside_of_spans() {
    let folder = temp_dir();
    let file = requests(folder.path(), 200, 100);
    let file = file.to_str().unwrap();
    let folded = |options: &[&str]| run(&[&["export", file, "-f", "folded", "-o", "-"], options].concat()).1;
    let ms = |number: u64| number * 1_000_000;
    let inside = format!("shop;main;parse {}\nshop;main;rehash {}\n", ms(800), ms(80));
    assert_eq!(folded(&["--inside", "request"]), inside);
    assert_eq!(
        folded(&["--outside", "request"]),
        format!("shop;main;idle {}\n", ms(1000))
    );
    // A span is a marker of its process.
    assert_eq!(folded(&["--marker", "request"]), inside);
    assert_eq!(
        folded(&["--outside-marker", "request"]),
        folded(&["--outside", "request"])
    );
    let slowest = ["--inside", "quest", "--slowest", "1"];
    assert_eq!(
        folded(&slowest),
        format!("shop;main;parse {}\nshop;main;rehash {}\n", ms(8), ms(80))
    );
    let graph = folder.path().join("graph.svg");
    let (code, _, stderr) = run(&[&["flamegraph", file, "-o", graph.to_str().unwrap()], &slowest[..]].concat());
    assert_eq!(code, Some(0), "{stderr}");
    let svg = std::fs::read_to_string(&graph).unwrap();
    assert!(svg.contains("rehash") && !svg.contains("idle"));

    let (code, text, stderr) = run(&[&["diff", file], &slowest[..]].concat());
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        text.contains("inside the 2 slowest spans; before: inside the 198 others"),
        "{text}"
    );
    assert!(text.contains("0 -> 40  rehash  (new)"), "{text}");

    // When async spans ran is not known.
    for (command, more) in [
        ("report", &[][..]),
        ("export", &["-f", "folded", "-o", "-"]),
        ("annotate", &["main"]),
        ("diff", &["--slowest", "99%"]),
    ] {
        let (_, stdout, stderr) = run(&[&[command, file], more, &["--inside", "fetch"]].concat());
        let words = "of the spans are async and nothing says when they ran";
        assert!(
            (stdout.clone() + &stderr).contains(words),
            "{command}: {stdout}{stderr}"
        );
    }

    for (options, words) in [
        (
            &["--inside", "reqest"][..],
            "there is no span \"reqest\" in this profile; it has fetch, request",
        ),
        (&["--slowest", "1%"], "--inside <SPAN>"),
        (
            &["--inside", "request", "--slowest", "0%"],
            "a number of percent between 0 and 100",
        ),
    ] {
        for command in ["report", "export", "annotate"] {
            let more: &[&str] = match command {
                "export" => &["-f", "folded", "-o", "-"],
                "annotate" => &["main"],
                _ => &[],
            };
            let (code, _, stderr) = run(&[&[command, file], more, options].concat());
            assert!(
                code != Some(0) && stderr.contains(words),
                "{command} {options:?}: {stderr}"
            );
        }
    }
    let without = folder.path().join("a.folded");
    std::fs::write(&without, "main;work 5\n").unwrap();
    let (code, _, stderr) = run(&["report", without.to_str().unwrap(), "--view", "spans"]);
    assert!(code == Some(125) && stderr.contains("it has no spans"), "{stderr}");
}

#[test]
fn a_rule_on_the_length_of_spans_is_broken_kept_or_cannot_be_told() {
    let folder = temp_dir();
    let old = requests(folder.path(), 1500, 1000);
    let new = requests(folder.path(), 1500, 50);
    let few = requests(folder.path(), 20, 50);
    let check = |new: &Path, rule: &str| {
        let [old, new] = [&old, new].map(|file| file.to_str().unwrap());
        run(&[
            "check",
            new,
            "--base",
            old,
            "--max-increase",
            rule,
            "--max-increase",
            "parse=1000%",
        ])
    };
    for (file, rule, code, words) in [
        (
            &new,
            "span:request.p99=10%",
            1,
            "the p99 of request is 400.0 % more: 10.0 ms -> 50.0 ms",
        ),
        (
            &new,
            "span:request.p50=10%",
            0,
            "kept  the p50 of span request may be 10 % more",
        ),
        (&old, "span:request.p99=10%", 0, "+0.0 % (98 % sure"),
        (
            &few,
            "span:request.p99=10%",
            3,
            "1500 and 20 spans are too few, a side needs 1000 for its p99",
        ),
        (
            &new,
            "span:reqest.p99=10%",
            3,
            "no span is called `reqest`; there are fetch, request",
        ),
        (&new, "span:request.p95=10%", 2, "the mean, p50, p90 or p99"),
    ] {
        let (status, text, stderr) = check(file, rule);
        assert!(
            status == Some(code) && (text + &stderr).contains(words),
            "{rule}: {status:?} {words}"
        );
    }
    let rules = folder.path().join("rules.toml");
    std::fs::write(&rules, "[check.max-increase]\n\"span:request.mean\" = \"1%\"\n").unwrap();
    let [old, new, rules] = [&old, &new, &rules].map(|path| path.to_str().unwrap());
    let (status, json, _) = run(&["check", new, "--base", old, "--config", rules, "-f", "json"]);
    let json: Value = parsed(&json);
    let rule = &json["rules"][0];
    assert_eq!(
        (status, &rule["span"], &rule["measure"]),
        (Some(1), &json!("request"), &json!("span.mean")),
        "{rule}"
    );
    assert_eq!(rule["found"][0]["new_samples"], 1500, "{rule}");
}

/// 132 requests of 4 ms of CPU time and 6 ms of sleep; 6 of them take 40 ms of CPU time more.
#[test]
#[cfg(target_os = "linux")]
fn requests_of_a_program_compute_and_sleep_and_the_slow_ones_are_slow_by_one_function() {
    let Some(()) = kernel_samples() else { return };
    alone();
    let ((folder, recording), stolen_ms) = with_stolen_ms(|| {
        let folder = temp_dir();
        let arguments = [folder.path().to_str().unwrap(), "131", "slow"];
        let program = program("span_files").unwrap();
        let (recording, _) = record().options(&["--off-cpu"]).profile(program, &arguments);
        (folder, recording)
    });
    share_again();
    let written: Vec<f64> = { std::fs::read_dir(folder.path()).unwrap() }
        .flat_map(|file| {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .filter_map(|line| {
            let ns = |text: &str| text.parse::<u64>().unwrap();
            let (start, rest) = line.split_once(' ')?;
            let (end, name) = rest.split_once(' ')?;
            (name == "request").then(|| (ns(end) - ns(start)) as f64 / 1e6)
        })
        .collect();
    assert_eq!(written.len(), 132);
    let file = recording.output.to_str().unwrap();
    let report = |options: &[&str]| -> Value {
        let (_, json, _) = run(&[&["report", file, "-f", "json"], options].concat());
        parsed(&json)
    };
    let json = report(&["--view", "spans"]);
    let rows = json["views"][0]["rows"].as_array().unwrap();
    let request = rows.iter().find(|row| row["name"] == "request").unwrap();
    let ms = |row: &Value, key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row}"));
    assert_eq!(request["count"], 132, "{request}");
    let total: f64 = written.iter().sum();
    assert!((ms(request, "total_ms") - total).abs() < 0.01, "{total}: {request}");
    assert!(
        (ms(request, "max_ms") - written.iter().copied().fold(0.0, f64::max)).abs() < 1e-3,
        "{request}"
    );
    // A sample of each ms on a CPU, by chance: five deviations. What is not on a CPU sleeps, or has none.
    let cpu = 132.0 * 4.0 + 6.0 * 40.0;
    // What the host took away meanwhile can be in no sample.
    let error = 5.0 * f64::sqrt(cpu) + stolen_ms;
    assert!(
        (ms(request, "on_cpu_ms") - cpu).abs() < error,
        "{cpu} and {stolen_ms} stolen: {request}"
    );
    assert!(ms(request, "rest_ms").abs() < error, "{stolen_ms} stolen: {request}");
    let sleep = request["waits"]
        .as_array()
        .unwrap()
        .iter()
        .find(|wait| wait["reason"] == "Sleep");
    assert!(sleep.is_some_and(|wait| ms(wait, "ms") >= 132.0 * 6.0), "{request}");

    let slowest = ["--inside", "request", "--slowest", "4%"];
    let json = report(&[&["--view", "functions"], &slowest[..]].concat());
    let functions = json["views"][0]["rows"].as_array().unwrap();
    let rehash = functions.iter().find(|row| row["function"] == "rehash").unwrap();
    // The longest six requests are those with `rehash`, unless the machine stood still in others.
    let mut longest: Vec<(f64, bool)> = { written.iter().zip(0..) }
        .map(|(ms, number)| (*ms, number % 20 == 12))
        .collect();
    longest.sort_by(|one, other| other.0.total_cmp(&one.0));
    let slow = longest[..6].iter().filter(|(_, is_slow)| *is_slow).count() as f64;
    let (share, truth) = (ms(&rehash["total"], "share"), slow * 40.0 / (6.0 * 4.0 + slow * 40.0));
    let samples = ms(&rehash["total"], "samples") / share;
    let error = 5.0 * f64::sqrt(truth * (1.0 - truth) / samples);
    assert!((share - truth).abs() < error, "{share}: {rehash}");
    let (code, text, stderr) = run(&[&["diff", file], &slowest[..]].concat());
    let with_callees = text.split_once("slower, with all that it calls").map(|(_, list)| list);
    let slower = with_callees.and_then(|list| list.split(" faster").next());
    assert!(
        code == Some(0) && slower.is_some_and(|list| list.contains("  rehash")),
        "{text}{stderr}"
    );
}
