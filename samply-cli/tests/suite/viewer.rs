//! The viewer, in a browser: its figures are those of reports, and it loads nothing.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cli_terminal::{Terminal, browser_stand_in};
use crate::server::Served;
use crate::support::client::{installed, script};
use crate::support::machine::{alone, share_again};
use crate::support::programs::line_of;
use crate::support::skip::{Need, has, kernel_samples};
use crate::support::{program, record, sprof, temp_dir};

fn chromium() -> bool {
    has(Need::Chromium, Path::new("/usr/bin/chromium").exists(), "no chromium")
}

fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    output.stdout
}

/// The page of a profile, beside it.
fn page(profile: &Path, options: &[&str]) -> PathBuf {
    let path = PathBuf::from(format!("{}.html", profile.display()));
    run(sprof()
        .arg("export")
        .arg(profile)
        .args(["-q", "-o"])
        .arg(&path)
        .args(options));
    path
}

fn report(profile: &Path, options: &[&str]) -> Value {
    let options = [&["--format", "json"], options].concat();
    serde_json::from_slice(&run(sprof().arg("report").arg(profile).args(options))).unwrap()
}

/// What the pages show after the steps of these tasks; `None` where there is no browser.
fn browse(tasks: &[Value]) -> Option<Vec<Value>> {
    let answers = browse_all(tasks)?;
    for (answer, task) in answers.iter().zip(tasks) {
        assert_eq!(answer["errors"], json!([]), "{task}");
    }
    Some(answers)
}

/// The same with pages that must have errors.
fn browse_all(tasks: &[Value]) -> Option<Vec<Value>> {
    let folder = temp_dir();
    let path = folder.path().join("tasks.json");
    std::fs::write(&path, serde_json::to_vec(tasks).unwrap()).unwrap();
    let answer = script("viewer.js", &[path.as_os_str()])?;
    Some(serde_json::from_str(&answer).unwrap())
}

fn url(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// A function of a list: name, self, total.
type Row = (String, u64, u64);

/// In the viewer's whole numbers: nanoseconds, or what is counted.
fn whole(report: &Value, weight: &Value) -> u64 {
    let scale = if report["unit"] == "ms" { 1e6 } else { 1.0 };
    (weight.as_f64().unwrap() * scale).round() as u64
}

fn rows_of_report(report: &Value) -> Vec<Row> {
    let rows = report["views"][0]["rows"].as_array().unwrap();
    let row = |row: &Value| {
        let name = match row["function"].as_str().unwrap() {
            "" => "[unknown]",
            name => name,
        };
        (
            name.to_owned(),
            whole(report, &row["self"]["weight"]),
            whole(report, &row["total"]["weight"]),
        )
    };
    rows.iter().map(row).collect()
}

fn rows_of_page(list: &Value) -> Vec<Row> {
    let rows = list.as_array().unwrap().iter();
    let number = |row: &Value, key: &str| row[key].as_f64().unwrap() as u64;
    rows.map(|row| {
        let name = row["name"].as_str().unwrap().to_owned();
        (name, number(row, "own"), number(row, "total"))
    })
    .collect()
}

/// The first ten functions of a page, by self and by total, and the sum are those of the report.
fn assert_as_report(what: &str, page: [&Value; 2], report: &Value) {
    let mut expected = rows_of_report(report);
    let [by_own, by_total] = page.map(|page| rows_of_page(&page["lists"][0]));
    assert_eq!(
        page[0]["weight"].as_f64().unwrap() as u64,
        whole(report, &report["selection"]["weight"]),
        "{what}"
    );
    assert_eq!(page[0]["samples"], report["selection"]["samples"], "{what}");
    assert!(!by_own.is_empty(), "{what}: {report}");
    // Functions of equal weights have no known order beside each other.
    let keys = |rows: &[Row], of: fn(&Row) -> u64| rows.iter().take(10).map(of).collect::<Vec<_>>();
    assert_eq!(keys(&by_own, |row| row.1), keys(&expected, |row| row.1), "{what}");
    expected.sort_by_key(|row| std::cmp::Reverse(row.2));
    assert_eq!(keys(&by_total, |row| row.2), keys(&expected, |row| row.2), "{what}");
    for row in by_own.iter().chain(&by_total).take(20) {
        assert!(expected.contains(row), "{what}: {row:?} is not in {expected:?}");
    }
}

/// The functions by self, and by total.
const BOTH_ORDERS: [(&str, &str); 5] = [
    ("focus", ".list"),
    ("key", "2 1 Home"),
    ("show", ""),
    ("key", "2 Home"),
    ("show", ""),
];

fn both_orders() -> Vec<Value> {
    BOTH_ORDERS
        .iter()
        .map(|(what, argument)| json!([what, argument]))
        .collect()
}

const FOLDED: &str =
    "main;parse;read 300\nmain;parse 50\nmain;fib;fib;fib 500\nmain;</script><img src=x onerror=alert(1)> 7\n";
const CACHEGRIND: &str =
    "desc: I1 cache: 1 B\ncmd: app\nevents: Ir\nfl=a.c\nfn=main\n3 10\n4 20\nfn=work\n9 70\nsummary: 100\n";

#[test]
fn figures_of_all_kinds_of_profiles_are_those_of_reports() {
    let Some(()) = kernel_samples() else { return };
    if !chromium() {
        return;
    }
    let folder = temp_dir();
    let path = |name: &str| folder.path().join(name);
    let golden = |name: &str| {
        let from = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../profile/tests/golden")
            .join(name);
        std::fs::copy(from, path(name)).unwrap();
        path(name)
    };
    let options = ["--off-cpu", "-e", "page-faults"];
    let (ours, _) = record()
        .options(&options)
        .profile(program("waits").unwrap(), &["1", "60"]);
    let (split, _) = record().profile(program("inline_dwarf5").unwrap(), &["200"]);
    let exported = |format: &str, name: &str| {
        run(sprof()
            .arg("export")
            .arg(&split.output)
            .args(["-q", "-f", format, "-o"])
            .arg(path(name)));
        path(name)
    };
    let written = |name: &str, text: &str| {
        std::fs::write(path(name), text).unwrap();
        path(name)
    };
    crate::simpleperf::write(&path("perf.data"));
    // (file, kind of the page, options of the report)
    let cases: Vec<(PathBuf, &str, &[&str])> = vec![
        (ours.output.clone(), "CPU time", &[]),
        (ours.output.clone(), "Waits", &["--waits"]),
        (ours.output.clone(), "page-faults", &["--event", "page-faults"]),
        (split.output.clone(), "CPU time", &[]),
        (golden("samply-0.13.1.json.gz"), "CPU time", &[]),
        (exported("firefox-v55", "v55.json.gz"), "CPU time", &[]),
        (golden("firefox-153.json.gz"), "CPU time", &[]),
        (exported("pprof", "split.pb.gz"), "", &[]),
        (exported("perf-script", "split.txt"), "samples", &[]),
        (written("names.folded", FOLDED), "Samples", &[]),
        (golden("example.callgrind"), "", &[]),
        (written("cachegrind.out", CACHEGRIND), "Ir", &[]),
        (path("perf.data"), "CPU time", &[]),
    ];
    let tasks: Vec<Value> = (cases.iter())
        .map(|(file, kind, _)| {
            let choice = (!kind.is_empty()).then(|| json!(["kind", kind]));
            let steps: Vec<Value> = choice.into_iter().chain(both_orders()).collect();
            json!({ "url": url(&page(file, &[])), "steps": steps })
        })
        .collect();
    let Some(answers) = browse(&tasks) else { return };
    for ((file, kind, options), answer) in cases.iter().zip(&answers) {
        let what = format!("{} {kind}", file.display());
        let report = report(file, &[&["--view", "functions"], *options].concat());
        assert_as_report(&what, [&answer["shown"][0], &answer["shown"][1]], &report);
        let requests = answer["requests"].as_array().unwrap();
        assert_eq!(requests.len(), 1, "{what}: only the file itself: {requests:?}");
    }
}

#[test]
fn the_quality_has_three_states_shares_and_no_row_twice() {
    let Some(()) = kernel_samples() else { return };
    if !chromium() {
        return;
    }
    let folder = temp_dir();
    let path = |name: &str| folder.path().join(name);
    let (recording, _) = record().profile(program("waits").unwrap(), &["1", "60"]);
    run(sprof()
        .args(["export", "-q", "-f", "firefox", "-o"])
        .arg(path("as-is.json"))
        .arg(&recording.output));
    let as_is: Value = serde_json::from_slice(&std::fs::read(path("as-is.json")).unwrap()).unwrap();
    let with = |name: &str, samples: u64, truncated: u64| {
        let mut profile = as_is.clone();
        let recorded = &mut profile["meta"]["sprof"]["recorded"];
        for (field, value) in [
            ("samples", json!(samples)),
            ("truncated", json!(truncated)),
            ("unverified", json!(0)),
        ] {
            recorded[field] = value;
        }
        recorded["limits"] = json!([]);
        std::fs::write(path(name), profile.to_string()).unwrap();
        path(name)
    };
    std::fs::write(path("names.folded"), FOLDED).unwrap();
    let files = [
        (
            with("one.json", 2429, 1),
            "good",
            "Quality: 0 lost, 1 (0.04 %) truncated, 0 unverified",
        ),
        (
            with("many.json", 5864, 377),
            "limited",
            "Quality: 0 lost, 377 (6.4 %) truncated, 0 unverified",
        ),
        (
            path("names.folded"),
            "unknown",
            "Quality: the file does not say what was lost or guessed",
        ),
    ];
    let tasks: Vec<Value> = (files.iter())
        .map(|(file, ..)| json!({ "url": url(&page(file, &[])), "steps": [["show", ""]] }))
        .collect();
    let Some(answers) = browse(&tasks) else { return };
    for ((file, state, line), answer) in files.iter().zip(&answers) {
        let shown = &answer["shown"][0];
        let text = shown["quality"].as_str().unwrap();
        assert_eq!(shown["qualityState"].as_str(), Some(*state), "{text}");
        assert!(text.contains(line), "{text}");
        let report = String::from_utf8(run(sprof().arg("report").arg(file))).unwrap();
        assert!(report.contains(&line.replace("Quality", "quality")), "{report}");
        // Notes have one label.
        let rows = shown["qualityRows"].as_array().unwrap().iter();
        let rows: Vec<&Value> = rows.filter(|row| *row != "Note").collect();
        let twice = rows
            .iter()
            .find(|row| rows.iter().filter(|other| other == row).count() > 1);
        assert_eq!(twice, None, "{rows:?}");
    }
}

/// Steps to a view and what it shows.
fn at_tab(tab: &str, steps: &[Value]) -> Vec<Value> {
    let go = json!(["click", format!("#tab-{tab}")]);
    std::iter::once(go)
        .chain(steps.iter().cloned())
        .chain([json!(["show", ""])])
        .collect()
}

/// `A..B` in seconds, from the page's whole microseconds.
fn time_range(shown: &Value) -> String {
    let seconds = |at: usize| format!("{:.6}", shown["range"][at].as_f64().unwrap() / 1e6);
    format!("--time-range={}..{}", seconds(0), seconds(1))
}

#[test]
fn what_is_selected_in_the_viewer_has_the_figures_of_a_report_with_the_same_conditions() {
    let Some(()) = kernel_samples() else { return };
    if !chromium() {
        return;
    }
    let (ours, _) = record()
        .options(&["--off-cpu"])
        .profile(program("threads").unwrap(), &["300", "3"]);
    let (split, _) = record().profile(program("split").unwrap(), &["300"]);
    let folder = temp_dir();
    let fib = folder.path().join("fib.folded");
    std::fs::write(
        &fib,
        "main;fib;fib;fib 500\nmain;fib;add 100\nmain;parse;read 300\nmain;parse 50\nother 50\n",
    )
    .unwrap();
    let without_lines = crate::push::profile(folder.path());
    let thread = 3;
    let choose_thread = format!(".row-thread:nth-child({thread} of .row-thread)");
    let steps = |parts: &[Vec<Value>]| parts.concat();
    let searched = |name: &str| {
        let keys = [
            ["click", "#tab-functions"],
            ["key", "/"],
            ["type", name],
            ["key", "Enter Home"],
        ];
        keys.iter().map(|step| json!(step)).collect::<Vec<_>>()
    };
    let tasks = [
        json!({ "url": url(&page(&ours.output, &[])), "steps": steps(&[
            vec![json!(["drag", [0.31, 0.62]])], both_orders(),
            vec![json!(["kind", "Waits"])], both_orders(),
            vec![json!(["key", "Escape"]), json!(["kind", "CPU time"]), json!(["click", choose_thread])], both_orders(),
            vec![json!(["key", "Escape"]), json!(["show", ""])],
        ]) }),
        json!({ "url": url(&page(&split.output, &[])), "steps": steps(&[
            at_tab("tree", &[]),
            // The whole of it, by keys.
            vec![json!(["key", "/"]), json!(["type", "/^(sixty|thirty)$/"]), json!(["key", "Enter"]), json!(["show", ""]), json!(["key", "Escape"])],
            at_tab("flame", &[json!(["focus", ".flame"]), json!(["key", "ArrowDown ArrowDown ArrowDown ArrowDown Enter"])]),
            vec![json!(["key", "Escape"]), json!(["show", ""])],
            at_tab("heat", &[json!(["focus", ".heat"]), json!(["key", "ArrowDown ArrowDown Enter"])]),
        ]) }),
        json!({ "url": url(&page(&fib, &[])), "width": 320, "height": 640, "dark": true, "steps": steps(&[
            // The first row by self is `fib`.
            vec![json!(["focus", ".list"]), json!(["key", "Home h"]), json!(["show", ""]), json!(["click", ".crumb"])],
            vec![json!(["focus", ".list"]), json!(["key", "Home f"]), json!(["show", ""]), json!(["click", ".crumb"])],
            vec![json!(["focus", ".list"]), json!(["key", "Home Enter"]), json!(["show", ""])],
            at_tab("inverted", &[]),
            searched("/^add$/"),
            at_tab("callers", &[]),
        ]) }),
        json!({ "url": url(&page(&without_lines, &[])), "steps": steps(&[searched("/^work$/"), at_tab("source", &[])]) }),
    ];
    let Some(answers) = browse(&tasks) else { return };
    let functions = ["--view", "functions"];

    let shown = |task: usize, at: usize| &answers[task]["shown"][at];
    let range = time_range(shown(0, 0));
    let expected = report(&ours.output, &[&functions[..], &[&range]].concat());
    assert!(expected["selection"]["samples"].as_u64() > Some(30), "{expected}");
    assert_as_report(&range, [shown(0, 0), shown(0, 1)], &expected);
    let expected = report(&ours.output, &[&functions[..], &["--waits", &range]].concat());
    assert_as_report("waits in the range", [shown(0, 2), shown(0, 3)], &expected);
    let labels = shown(0, 4)["labels"].as_array().unwrap();
    let chosen: Vec<&Value> = labels.iter().filter(|label| label[2] == "true").collect();
    assert_eq!(chosen.len(), 1, "{labels:?}");
    let name = chosen[0][1].as_str().unwrap();
    let expected = report(&ours.output, &[&functions[..], &["--thread", name]].concat());
    assert_as_report(name, [shown(0, 4), shown(0, 5)], &expected);
    let all = report(&ours.output, &functions);
    assert_eq!(
        shown(0, 6)["weight"].as_f64().unwrap() as u64,
        whole(&all, &all["selection"]["weight"])
    );

    // Each row of the opened tree is one of the report's.
    let tree = report(&split.output, &["--view", "tree", "--min-percent", "0"]);
    let in_tree: Vec<(u64, String, u64, u64)> = (tree["views"][0]["rows"].as_array().unwrap().iter())
        .map(|row| {
            let weight = |key: &str| whole(&tree, &row[key]["weight"]);
            let name = row["function"].as_str().unwrap().to_owned();
            (
                row["depth"].as_u64().unwrap() + 1,
                name,
                weight("self"),
                weight("total"),
            )
        })
        .collect();
    let rows = shown(1, 0)["lists"][0].as_array().unwrap();
    assert!(rows.len() > 3, "{rows:?}");
    for (row, (name, own, total)) in rows.iter().zip(rows_of_page(&shown(1, 0)["lists"][0])) {
        let row = (row["level"].as_u64().unwrap(), name, own, total);
        assert!(in_tree.contains(&row), "{row:?} is not in {in_tree:?}");
    }
    // What the search finds is on this share of the stacks, and the tree is open down to it.
    let all = report(&split.output, &functions);
    let total = |name: &str| rows_of_report(&all).into_iter().find(|row| row.0 == name).unwrap().2;
    let searched = shown(1, 1);
    assert_eq!(
        searched["matched"].as_f64().unwrap() as u64,
        total("sixty") + total("thirty"),
        "{searched}"
    );
    let current = searched["lists"][0]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["isCurrent"] == true)
        .unwrap();
    assert!(current["isFound"] == true && current["name"] == "sixty", "{searched}");
    let zoomed = shown(1, 2)["zoomed"].as_str().unwrap();
    assert!(total(zoomed) * 10 > total("main") * 9, "{zoomed}");
    assert_eq!(shown(1, 3)["zoomed"], "");
    let cell = shown(1, 4);
    assert_eq!(cell["range"], json!([40_000, 60_000]), "{cell}");
    let expected = report(&split.output, &[&functions[..], &["--time-range=0.04..0.06"]].concat());
    assert_eq!(cell["samples"], expected["selection"]["samples"], "{cell}");

    let note = shown(3, 0)["note"].as_str().unwrap();
    assert!(note.starts_with("No source line is known of work;"), "{note}");

    let rows = |at: usize| rows_of_page(&shown(2, at)["lists"][0]);
    let expected = |options: &[&str]| {
        let options = [&functions[..], options].concat();
        let mut rows = rows_of_report(&report(&fib, &options));
        rows.sort();
        rows
    };
    let sorted = |mut rows: Vec<Row>| {
        rows.sort();
        rows
    };
    assert_eq!(sorted(rows(0)), expected(&["--hide", "fib"]));
    assert_eq!(sorted(rows(1)), expected(&["--focus", "fib"]));
    assert_eq!(
        rows(2),
        [("main".to_owned(), 0, 600)],
        "the callers of fib, of the outermost call"
    );
    let callees = rows_of_page(&shown(2, 2)["lists"][1]);
    assert_eq!(callees, [("add".to_owned(), 100, 100)], "the callees of fib");
    let inverted = rows(3);
    assert_eq!(inverted[0], ("fib".to_owned(), 500, 500), "by self: {inverted:?}");
    assert_eq!(shown(2, 4)["note"], "It calls nothing in these samples.");
    for answer in answers[2]["shown"].as_array().unwrap() {
        assert_eq!(answer["overflow"], 0, "the page is no wider than its window");
    }
}

#[test]
fn the_times_of_what_is_selected_are_in_the_timeline_and_the_heat_map() {
    if !chromium() {
        return;
    }
    // Four threads that wait for 300 ms at a time, and a program of one function at a time.
    let (waits, _) = record()
        .options(&["--off-cpu"])
        .profile(program("threads").unwrap(), &["300", "3"]);
    let (split, _) = record().profile(program("split").unwrap(), &["300"]);
    // Weights of the pixels of all threads, and of what is selected or found.
    let drawn = json!([
        "eval",
        "(({ weight, matched }) => [document.getElementById('rows-canvas').dataset.drawn, matched || weight])
            (document.querySelector('.sum').dataset)",
    ]);
    let heat = json!([
        "eval",
        "[document.querySelector('.heat-view [data-most]').dataset.most, document.querySelectorAll('.row-thread').length]",
    ]);
    let foot = json!([
        "eval",
        "[document.getElementById('hint').textContent, document.querySelector('.chosen').textContent]"
    ]);
    let tasks = [
        json!({ "url": url(&page(&waits.output, &[])), "steps": [["kind", "Waits"], ["click", "#tab-heat"], heat] }),
        json!({ "url": url(&page(&split.output, &[])), "steps": [
            drawn, ["key", "/"], ["type", "/^thirty$/"], ["key", "Enter"], drawn,
            ["key", "Home f Escape"], drawn, ["key", "Escape"],
            ["key", "/"], ["type", "thirty"], ["key", "Enter"], ["click", "#tab-heat"], ["show", ""], ["key", "Escape"],
            // The foot has the figures of the view that is shown.
            ["click", "#tab-inverted"], ["focus", ".list"], ["key", "Home"], ["click", "#tab-callers"], foot,
        ] }),
    ];
    let Some(answers) = browse(&tasks) else { return };
    let shown = |task: usize, at: usize| &answers[task]["shown"][at];
    let number = |value: &Value| match value.as_str() {
        Some(text) => text.parse().unwrap(),
        None => value.as_f64().unwrap(),
    };
    let pair = |task: usize, at: usize| -> [f64; 2] { [0, 1].map(|side| number(&shown(task, at)[side])) };
    let [most, threads] = pair(0, 0);
    assert!(
        most > 0.0 && most <= threads * 20e6,
        "{most} ns of waits of {threads} threads in 20 ms"
    );
    let [all, _] = pair(1, 0);
    // Of one sample a part may stand for time before the recording.
    for (of, at) in [("all", 0), ("search", 1), ("focus", 2)] {
        let [drawn, selected] = pair(1, at);
        assert!((drawn - selected).abs() < 0.02 * all, "{of}: {drawn} of {selected}");
        assert!(at == 0 || selected < 0.7 * all, "{of}: {selected} of {all}");
    }
    let note = shown(1, 3)["note"].as_str().unwrap();
    assert!(note.contains("Only stacks with thirty."), "{note}");
    let [foot, head] = [0, 1].map(|side| shown(1, 4)[side].as_str().unwrap());
    let total = foot.strip_prefix("total ").unwrap().split(';').next().unwrap();
    assert!(head.contains(total), "{foot}: {head}");
}

#[test]
fn markers_are_shown_with_their_fields_and_searched() {
    let Some(()) = kernel_samples() else { return };
    if !chromium() {
        return;
    }
    let folder = temp_dir();
    let path = folder.path().join("firefox.json.gz");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../profile/tests/golden/firefox-153.json.gz");
    std::fs::copy(&golden, &path).unwrap();
    // A field that would be a request and a dialog, if it were taken for more than text.
    const HOSTILE: &str = "</script><img src=https://example.com/libgkcodecs onerror=alert(1)>";
    let text = String::from_utf8(run(Command::new("gzip").arg("-dc").arg(&golden))).unwrap();
    let hostile = folder.path().join("hostile.json");
    std::fs::write(&hostile, text.replace("/usr/lib/firefox-esr/libgkcodecs.so", HOSTILE)).unwrap();
    let search = [
        json!(["key", "/"]),
        json!(["type", "LIBGKCODECS"]),
        json!(["key", "Enter"]),
    ];
    let steps = [
        at_tab("markers", &[]),
        at_tab("markers", &search),
        // Enter selects the marker's time.
        vec![json!(["key", "Enter Escape"]), json!(["show", ""])],
    ];
    let recorded = folder.path().join("recorded.html");
    run(sprof()
        .args(["record", "-q", "-o"])
        .arg(&recorded)
        .arg("--")
        .arg(program("threads").unwrap())
        .args(["20", "2"]));
    let tasks = [
        json!({ "url": url(&page(&path, &[])), "steps": steps.concat() }),
        json!({ "url": url(&recorded), "steps": at_tab("markers", &[]) }),
        json!({ "url": url(&page(&hostile, &[])), "steps": at_tab("markers", &search) }),
    ];
    let Some(answers) = browse(&tasks) else { return };
    let renamed = answers[1]["shown"][0]["lists"][0].as_array().unwrap();
    let is_renamed = |row: &Value| {
        let [.., thread, name, fields] = &row["cells"].as_array().unwrap()[..] else {
            return false;
        };
        let new_name = format!("Old name: threads, New name: {}", thread.as_str().unwrap());
        name == "Renamed" && *fields == new_name
    };
    assert!(renamed.len() > 5 && renamed.iter().all(is_renamed), "{renamed:?}");
    let shown = &answers[2]["shown"][0];
    assert_eq!(
        shown["lists"][0][0]["cells"][4],
        format!("Details: {HOSTILE}"),
        "{shown}"
    );
    assert_eq!(
        answers[2]["requests"].as_array().unwrap().len(),
        1,
        "{}",
        answers[2]["requests"]
    );
    let shown = |at: usize| &answers[0]["shown"][at];
    assert_eq!(shown(0)["note"], "120 markers", "as many as the file has");
    assert_eq!(shown(1)["note"], "1 marker");
    // startTime 24.234042, endTime 24.920121, meta.profilingStartTime 17.319311.
    let expected = [
        "0.006914 s",
        "0.7 ms",
        "GeckoMain",
        "ReadAheadLib",
        "Details: /usr/lib/firefox-esr/libgkcodecs.so",
    ];
    assert_eq!(shown(1)["lists"][0][0]["cells"], json!(expected), "{}", shown(1));
    assert_eq!(shown(2)["range"], json!([6914, 7600]), "{}", shown(2));
    assert_eq!(shown(2)["note"], "1 marker", "nothing else happened at that time");
}

#[test]
fn names_from_a_profile_are_text_and_nothing_else() {
    let folder = temp_dir();
    let path = folder.path().join("hostile.folded");
    const NAMES: [&str; 4] = [
        "</script><script>alert(1)</script>",
        "<img src=https://example.com/x onerror=alert(2)>",
        "\u{1b}[31m\u{202e}red",
        "__proto__",
    ];
    let lines = NAMES
        .iter()
        .zip(1..)
        .map(|(name, weight)| format!("main;{} {weight}\n", name.replace(';', ":")));
    std::fs::write(&path, lines.collect::<String>()).unwrap();
    let html = page(&path, &[]);
    let text = std::fs::read_to_string(&html).unwrap();
    assert!(
        text.contains("default-src 'none'") && !text.contains("alert") && !text.contains("example.com"),
        "{text}"
    );
    if !chromium() {
        return;
    }
    let every = [
        "functions",
        "flame",
        "tree",
        "inverted",
        "callers",
        "source",
        "heat",
        "markers",
    ];
    let steps: Vec<Value> = every.iter().flat_map(|tab| at_tab(tab, &[])).collect();
    let Some(answers) = browse(&[json!({ "url": url(&html), "steps": steps })]) else {
        return;
    };
    let rows = answers[0]["shown"][0]["lists"][0].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names[..4], ["__proto__", "\\u001b[31m\\u202ered", NAMES[1], NAMES[0]]);
    assert_eq!(
        answers[0]["requests"].as_array().unwrap().len(),
        1,
        "{:?}",
        answers[0]["requests"]
    );
}

#[test]
fn the_server_has_the_viewer_with_sources_and_other_pages_read_nothing() {
    let Some(()) = kernel_samples() else { return };
    if !chromium() {
        return;
    }
    let (recording, _) = record().profile(program("inline_dwarf5").unwrap(), &["200"]);
    let served = Served::start(&std::fs::read(&recording.output).unwrap(), "profile.json.gz", &[]);
    let origin = format!("http://{}", served.address);
    let viewer = format!("{origin}/{}/view/", served.token);
    let fetch = |path: &str| {
        let script = format!("fetch('{origin}{path}').then((answer) => answer.status, (error) => error.name)");
        json!(["eval", script])
    };
    let mut steps = both_orders();
    steps.extend([
        json!(["key", "1 Home s"]),
        json!(["until", ".source .hot code:not(:empty)"]),
        json!(["show", ""]),
        fetch(&format!("/{}/view/data", served.token)),
        fetch("/wrong/view/data"),
        fetch(&format!("/{}/view/../../etc/passwd", served.token)),
    ]);
    let data = format!("/{}/view/data", served.token);
    let folder = temp_dir();
    let other = folder.path().join("other.html");
    std::fs::write(&other, "<p>Another origin").unwrap();
    let framed = format!(
        "new Promise((done) => {{ const frame = document.createElement('iframe'); frame.onload = () => done(frame.contentDocument === null); \
         frame.src = '{viewer}'; document.body.append(frame); }})"
    );
    let tasks = [
        json!({ "url": viewer, "steps": steps }),
        json!({ "url": url(&other), "raw": true, "steps": [fetch(&data), ["eval", framed]] }),
    ];
    let Some(answers) = browse_all(&tasks) else { return };
    let shown = |at: usize| &answers[0]["shown"][at];
    assert_as_report(
        "served",
        [shown(0), shown(1)],
        &report(&recording.output, &["--view", "functions"]),
    );
    let hot = shown(2)["lists"][0].as_array().unwrap();
    let line = line_of("inline.c", "INNERMOST_LINE").to_string();
    assert!(
        hot.iter()
            .any(|row| row["line"] == line.as_str() && row["own"].as_f64() > Some(0.0)),
        "{hot:?}"
    );
    assert_eq!((shown(3), shown(4), shown(5)), (&200.into(), &404.into(), &404.into()));
    for request in answers[0]["requests"].as_array().unwrap() {
        assert!(request.as_str().unwrap().contains(&origin), "{request}");
    }
    assert_eq!(answers[1]["shown"], json!(["TypeError", true]), "{}", answers[1]);
}

/// What `sprof diff` says of two files.
fn difference(files: [&Path; 2], options: &[&str]) -> Value {
    let mut command = sprof();
    command
        .arg("diff")
        .args(files)
        .args(["--format", "json", "--limit", "10000"]);
    serde_json::from_slice(&run(command.args(options))).unwrap()
}

/// The page that compares two files.
fn comparison(files: [&Path; 2]) -> PathBuf {
    let path = files[1].with_extension("diff.html");
    run(sprof().arg("diff").args(files).arg("--html").arg(&path));
    path
}

#[test]
fn two_profiles_are_compared_with_the_figures_of_diff() {
    let Some(()) = kernel_samples() else { return };
    if !chromium() {
        return;
    }
    let folder = temp_dir();
    let folded = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let hostile = "</script><img src=x onerror=alert(1)>";
    let before = "main;parse;token 2000\nmain;parse 1000\nmain;old 1000\nmain;rest 6000\nmain;fib;fib 30\n";
    let after = "main;parse;token 4000\nmain;parse 1000\nmain;new 1000\nmain;rest 6000\nmain;fib;fib 30\n";
    let (before, after) = (
        folded("before.folded", before),
        folded("after.folded", &format!("{after}main;{hostile} 500\n")),
    );
    // Two programs: most of each is new or gone.
    let recorded = [("split", &["300"][..]), ("threads", &["100", "2"])]
        .map(|(name, arguments)| record().profile(program(name).unwrap(), arguments).0);
    let pairs = [
        [before.as_path(), after.as_path()],
        [recorded[0].output.as_path(), recorded[1].output.as_path()],
    ];
    // Red and blue pixels.
    let colors = "(() => { const canvas = document.querySelector('.flame canvas'); \
         const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height); const found = [0, 0]; \
         for (let at = 0; at < data.length; at += 4) { \
         if (data[at] - data[at + 2] > 30) found[0]++; else if (data[at + 2] - data[at] > 30) found[1]++; } return found; })()";
    let steps: Vec<Value> = [
        vec![json!(["show", ""])],
        at_tab(
            "tree",
            &[json!(["key", "/"]), json!(["type", "token"]), json!(["key", "Enter"])],
        ),
        vec![json!(["key", "Escape"])],
        at_tab("flame", &[json!(["focus", ".flame"]), json!(["key", "ArrowDown"])]),
        vec![json!(["eval", colors])],
        at_tab("callers", &[]),
    ]
    .concat();
    let tasks: Vec<Value> = (pairs.iter())
        .map(|files| json!({ "url": url(&comparison(*files)), "height": 3000, "steps": steps }))
        .collect();
    let Some(answers) = browse(&tasks) else { return };
    for (files, answer) in pairs.iter().zip(&answers) {
        let shown = &answer["shown"];
        let rows = shown[0]["lists"][0].as_array().unwrap();
        let mut compared = 0;
        for (by, at) in [("inlined", 0), ("total", 1)] {
            let all = difference(
                *files,
                &["--by", by, "--false-discoveries", "99.9", "--min-change", "0.0001"],
            );
            let changes = all["changes"].as_array().unwrap();
            compared += changes.len();
            for change in changes {
                let library = change["library"].as_str().unwrap_or_default();
                let row = (rows.iter()).find(|row| row["name"] == change["function"] && row["cells"][7] == library);
                let row = row.unwrap_or_else(|| panic!("{change} is not shown"));
                for (side, place) in [("new", at), ("base", 2 + at)] {
                    let (expected, found) = (&change[side]["share"], &row["sides"][place]);
                    assert!(
                        (expected.as_f64().unwrap() - found.as_f64().unwrap()).abs() < 1e-9,
                        "{by} {side} {row}: {change}"
                    );
                }
            }
            let listed = difference(*files, &["--by", by]);
            let mut listed: Vec<&Value> = (listed["changes"].as_array().unwrap().iter())
                .map(|change| &change["function"])
                .collect();
            let mut sure: Vec<&Value> = rows
                .iter()
                .filter(|row| row["sure"][at] == true)
                .map(|row| &row["name"])
                .collect();
            listed.sort_by_key(|name| name.to_string());
            sure.sort_by_key(|name| name.to_string());
            assert_eq!(sure, listed, "{by}");
        }
        assert!(compared > 3, "{compared}");
        assert_eq!(answer["requests"].as_array().unwrap().len(), 1, "{answer}");
    }
    let shown = &answers[0]["shown"];
    assert_eq!(shown[0]["title"], "after.folded against before.folded - sprof");
    let token = |at: usize| {
        let rows = shown[at]["lists"][0].as_array().unwrap();
        rows.iter().find(|row| row["name"] == "token").unwrap()["cells"].clone()
    };
    // 4,000 of 12,530 samples, and 2,000 of 10,030.
    assert_eq!(token(0)[2], "+11.98", "{}", token(0));
    assert_eq!(
        [&token(1)[0], &token(1)[1], &token(1)[2]],
        ["31.92 %", "19.94 %", "+11.98"],
        "{}",
        token(1)
    );
    assert!(
        shown[2]["hint"]
            .as_str()
            .unwrap()
            .starts_with("main: 100.00 %, was 100.00 %"),
        "{}",
        shown[2]
    );
    for pixels in shown[3].as_array().unwrap() {
        assert!(pixels.as_u64() > Some(1000), "red and blue: {shown}");
    }

    // Served: the viewer of a comparison shows the same.
    let mut command = sprof();
    command.env_remove("SSH_CONNECTION").arg("diff").args(pairs[0]);
    command.args(["--viewer", "--no-open", "--port", "0"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let link = lines
        .find_map(|line| Some(line.split_once("open http://")?.1.to_owned()))
        .unwrap();
    let task = json!({ "url": format!("http://{link}"), "height": 3000, "steps": [["show", ""]] });
    let answers = browse(&[task]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(answers.unwrap()[0]["shown"][0]["lists"], shown[0]["lists"]);
}

#[test]
fn the_page_has_no_serious_problem_of_accessibility_and_fits_a_screen_at_400_percent() {
    let Some(()) = kernel_samples() else { return };
    if !chromium() || installed("node_modules/axe-core/axe.min.js").is_none() {
        return;
    }
    // Beside others, a thread of 2 ms may get no sample, and has no row then.
    alone();
    let options = ["--off-cpu", "-e", "page-faults"];
    let (recording, _) = record()
        .options(&options)
        .profile(program("threads").unwrap(), &["100", "2"]);
    share_again();
    let page = page(&recording.output, &["--embed-sources"]);
    let compared = comparison([&recording.output, &recording.output]);
    let every = [
        "functions",
        "flame",
        "tree",
        "inverted",
        "callers",
        "source",
        "heat",
        "markers",
    ];
    let tested = |tabs: &[&str]| {
        let mut steps = vec![json!(["focus", ".list"]), json!(["key", "Home"])];
        for tab in tabs {
            steps.extend([
                json!(["click", format!("#tab-{tab}")]),
                json!(["axe", ""]),
                json!(["show", ""]),
            ]);
        }
        steps.extend([json!(["click", "#help-open"]), json!(["axe", ""])]);
        steps
    };
    let mut tasks = Vec::new();
    // Colours do not depend on the size, nor the layout on the colours.
    for (width, height, dark) in [(1300, 900, false), (320, 256, true)] {
        for (page, tabs) in [(&page, &every[..]), (&compared, &every[..5])] {
            tasks.push(
                json!({ "url": url(page), "width": width, "height": height, "dark": dark, "steps": tested(tabs) }),
            );
        }
    }
    let Some(answers) = browse(&tasks) else { return };
    let labels = answers[0]["shown"][1]["labels"].as_array().unwrap();
    assert_events_stand_below_their_threads(labels);
    for (task, answer) in tasks.iter().zip(&answers) {
        for shown in answer["shown"].as_array().unwrap() {
            let what = format!("{} {} {}: {shown}", task["url"], task["width"], task["dark"]);
            match shown.get("worst") {
                Some(worst) => {
                    assert_eq!(*worst, json!([]), "{what}");
                    assert!(shown["passed"].as_u64() > Some(10), "{what}");
                }
                // 1280 pixels at 400 % are 320: WCAG 2.2, 1.4.10.
                None => assert_eq!(shown["overflow"], 0, "{what}"),
            }
        }
    }
}

/// Counts of an event in a thread stand below that thread: a program with many threads would have none on the first
/// screen.
fn assert_events_stand_below_their_threads(labels: &[Value]) {
    let (mut thread, mut has_events) = ("", false);
    for label in labels {
        let (class, text) = (label[0].as_str().unwrap(), label[1].as_str().unwrap());
        if class.contains("row-thread") {
            thread = text;
        } else if text.contains("page-faults") {
            has_events = true;
            // Those of the main thread, which has the program's name, have no other name.
            let of = text.strip_suffix(" · page-faults").unwrap_or("threads");
            assert_eq!(of, thread, "{labels:?}");
        }
    }
    assert!(has_events, "{labels:?}");
}

/// Address and share, in percent with a decimal, of each instruction with samples.
fn sampled_instructions(profile: &Path, function: &str) -> Vec<(String, String)> {
    let mut command = sprof();
    command.arg("annotate").arg(profile).arg(function);
    let text = String::from_utf8(run(command.args(["--asm", "--no-lines", "--context", "0"]))).unwrap();
    let lines = text.lines().skip_while(|line| !line.contains("self  address")).skip(1);
    lines
        .filter_map(|line| {
            let (share, rest) = line.split_once(" %  ")?;
            Some((rest.split_whitespace().next()?.to_owned(), share.trim().to_owned()))
        })
        .collect()
}

#[test]
fn the_served_viewer_has_the_assembly_of_a_function_with_the_samples_of_annotate() {
    let Some(()) = kernel_samples() else { return };
    if !chromium() {
        return;
    }
    let (recording, _) = record().profile(program("split").unwrap(), &["300"]);
    let served = Served::start(&std::fs::read(&recording.output).unwrap(), "profile.json.gz", &[]);
    let viewer = format!("http://{}/{}/view/", served.address, served.token);
    let steps = |hot: &str| {
        let find = json!(["type", "/^sixty$/"]);
        json!([
            ["key", "/"],
            find,
            ["key", "Enter"],
            ["key", "Home a"],
            ["until", hot],
            ["show", ""]
        ])
    };
    let saved = url(&page(&recording.output, &[]));
    let tasks = [
        json!({ "url": viewer, "height": 3000, "steps": steps(".asm .hot") }),
        json!({ "url": saved, "steps": steps("#asm[aria-pressed=true]") }),
    ];
    let Some(answers) = browse(&tasks) else { return };
    let shown = &answers[0]["shown"][0];
    let whole = shown["weight"].as_f64().unwrap();
    let rows = shown["lists"][0].as_array().unwrap().iter();
    let sampled: Vec<(String, String)> = rows
        .filter(|row| row["own"].as_f64() > Some(0.0))
        .map(|row| {
            let share = format!("{:.1}", 100.0 * row["own"].as_f64().unwrap() / whole);
            (row["cells"][1].as_str().unwrap().to_owned(), share)
        })
        .collect();
    let expected = sampled_instructions(&recording.output, "sixty");
    assert!(expected.len() > 2, "{expected:?}");
    assert_eq!(sampled, expected);
    let note = answers[1]["shown"][0]["note"].as_str().unwrap();
    assert!(note.contains("holds no machine code"), "{note}");
}

/// `sprof record` in a terminal that opens a browser, and the link that the browser gets.
fn opened(ui: &str) -> Option<(Terminal, String)> {
    let folder = temp_dir();
    let path = browser_stand_in(folder.path());
    let program = format!("{} 50", program("split").unwrap().display());
    let environment = [("DISPLAY", ":0"), ("PATH", path.as_str())];
    let terminal = Terminal::start(&environment, &["--port", "0", "--ui-url", ui], &program)?;
    terminal.wait_for("until Ctrl-C");
    let said = folder.path().join("arguments");
    let start = Instant::now();
    while !said.exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "{}", terminal.text());
        std::thread::sleep(Duration::from_millis(20));
    }
    let arguments = std::fs::read_to_string(said).unwrap();
    let link = arguments.lines().find(|line| line.starts_with("http://")).unwrap();
    Some((terminal, link.to_owned()))
}

/// Answers each request with a page.
fn ui_that_answers() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\nconnection: close\r\n\r\nUI",
            );
        }
    });
    format!("http://{address}")
}

#[test]
fn the_viewer_opens_by_itself_where_the_browser_does_not_reach_the_ui() {
    let Some(()) = kernel_samples() else { return };
    if !chromium() {
        return;
    }
    // Connections are accepted by the kernel, and nobody answers.
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let answering = ui_that_answers();
    let uis = [
        // Never resolved: RFC 6761, section 6.4.
        "https://profiler.invalid".to_owned(),
        format!("http://{}", silent.local_addr().unwrap()),
        answering.clone(),
    ];
    let mut started = Vec::new();
    for ui in &uis {
        let Some(one) = opened(ui) else { return };
        started.push(one);
    }
    let tasks: Vec<Value> = (started.iter().zip(&uis))
        .map(|((_, link), ui)| {
            let steps = match *ui == answering {
                true => json!([["url", "**/from-url/**"], ["eval", "location.href"]]),
                false => json!([
                    ["until", "body[data-ready]"],
                    ["eval", "location.pathname.slice(33) + location.search"],
                    ["show", ""]
                ]),
            };
            json!({ "url": link, "raw": true, "steps": steps })
        })
        .collect();
    let Some(answers) = browse_all(&tasks) else { return };
    for (at, ui) in uis[..2].iter().enumerate() {
        let shown = &answers[at]["shown"];
        assert_eq!(shown[0], "/view/?instead", "{ui}");
        assert!(shown[1]["weight"].as_f64() > Some(0.0), "{shown}");
        assert!(shown[1]["hint"].as_str().unwrap().contains("does not reach"), "{shown}");
        let terminal = &started[at].0;
        terminal.wait_for(&format!(
            "the browser does not reach {ui}, so it shows the built-in viewer"
        ));
    }
    let there = answers[2]["shown"][0].as_str().unwrap();
    assert!(there.starts_with(&format!("{answering}/from-url/http%3A")), "{there}");
    let text = started[2].0.text();
    assert!(
        text.contains(there) && !text.contains("does not reach"),
        "{there}: {text}"
    );
    for (terminal, _) in started {
        assert_eq!(terminal.interrupt().0, Some(0));
    }
}

#[test]
fn a_recording_is_written_as_a_page_in_one_go() {
    let Some(()) = kernel_samples() else { return };
    let folder = temp_dir();
    let path = |name: &str| folder.path().join(name);
    let records = |options: &[&str], names: [&str; 2]| {
        let mut command = sprof();
        command.arg("record").args(options).args([names[0]]).arg(path(names[1]));
        run(command.arg("--").arg(program("split").unwrap()).arg("50"));
    };
    let start = |name: &str| std::fs::read_to_string(path(name)).unwrap()[..15].to_owned();
    records(
        &["-q", "-s", "-o", path("app.json.gz").to_str().unwrap()],
        ["--html", "beside.html"],
    );
    assert!(path("app.json.gz").exists());
    assert_eq!(start("beside.html"), "<!DOCTYPE html>");
    records(&["-q", "--embed-sources"], ["-o", "alone.html"]);
    assert_eq!(start("alone.html"), "<!DOCTYPE html>");
    let exported = page(&path("app.json.gz"), &["--embed-sources"]);
    if !chromium() {
        return;
    }
    let steps: Vec<Value> = at_tab("source", &[]);
    let pages = ["beside.html", "alone.html"].map(&path);
    let tasks: Vec<Value> = (pages.iter().chain([&exported]))
        .map(|page| json!({ "url": url(page), "steps": steps }))
        .collect();
    let Some(answers) = browse(&tasks) else { return };
    let has_text = |answer: &Value| {
        let rows = answer["shown"][0]["lists"][0].as_array().unwrap();
        rows.iter().any(|row| {
            row["text"].as_str().unwrap().contains("xorshift") || row["text"].as_str().unwrap().contains("for (")
        })
    };
    assert_eq!(answers.iter().map(has_text).collect::<Vec<_>>(), [false, true, true]);
}

#[test]
fn the_page_s_scripts_pass_the_type_checker() {
    let Some(tsc) = installed("node_modules/typescript/bin/tsc") else {
        return;
    };
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../profile/src/export/html/js");
    let output = Command::new("node").arg(tsc).arg("-p").arg(scripts).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn the_link_to_the_viewer_is_printed_and_opens_with_an_option() {
    let folder = temp_dir();
    let path = folder.path().join("example.json.gz");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../profile/tests/golden/firefox-153.json.gz");
    std::fs::copy(golden, &path).unwrap();
    let said = |options: &[&str]| {
        let mut command = sprof();
        command
            .env_remove("SSH_CONNECTION")
            .args(["load", "--no-open", "--port", "0"])
            .args(options)
            .arg(&path);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let said: Vec<String> = lines
            .by_ref()
            .take_while(|line| !line.contains("until Ctrl-C"))
            .collect();
        child.kill().unwrap();
        child.wait().unwrap();
        said
    };
    let both = said(&[]);
    let [.., ui, viewer] = &both[..] else {
        panic!("{both:?}")
    };
    assert!(
        ui.contains("/from-url/") && viewer.contains("or the built-in viewer: http://127.0.0.1:"),
        "{both:?}"
    );
    assert!(viewer.ends_with("/view/"), "{both:?}");
    let one = said(&["--viewer"]);
    assert!(
        one.last().unwrap().contains("open http://127.0.0.1:") && one.last().unwrap().ends_with("/view/"),
        "{one:?}"
    );
}
