//! The viewer, in a browser: its figures are those of reports, and it loads nothing.
#![cfg(target_os = "linux")]

mod comparison;
mod heap;
mod page;
mod rows;
mod selection;
mod served;

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::cli_terminal::{Terminal, browser_stand_in};
use crate::server::Served;
use crate::support::client::{installed, script};
use crate::support::machine::{alone, share_again};
use crate::support::programs::line_of;
use crate::support::schema::parsed;
use crate::support::skip::{Need, has, kernel_samples};
use crate::support::{Profile, program, record, sprof, temp_dir};

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
    parsed(&run(sprof().arg("report").arg(profile).args(options)))
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
    // Sums of numbers of blocks have fractions.
    let number = |row: &Value, key: &str| row[key].as_f64().unwrap().round() as u64;
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
        page[0]["weight"].as_f64().unwrap().round() as u64,
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

/// A share in whole percent, as the page rounds it: a half up. Rust's formatting rounds a half to the even number: 62.5
/// becomes 62 there, and 63 in the page.
fn whole_percent(part: f64, whole: f64) -> f64 {
    (100.0 * (part / whole) + 0.5).floor()
}

/// Fewer samples have no headline.
const HEADLINE_SAMPLES: f64 = 100.0;

/// Where to drag in the timeline, as parts of its width, so that the middle half of these times is selected. The host
/// may stop the machine for most of a recording: a fixed part of the width may have no sample.
fn middle_of(mut times_ms: Vec<f64>, file: &Path) -> [f64; 2] {
    let length_ms = report(file, &[])["profile"]["duration_ms"].as_f64().unwrap();
    times_ms.sort_by(f64::total_cmp);
    let [from, to] = [1, 3].map(|quarters| times_ms[quarters * times_ms.len() / 4] / length_ms);
    // A shorter way is a click.
    [from, to.max(from + 0.02)]
}

/// Times of the samples on a CPU in a function and its callees.
fn times_in(profile: &Profile, function: &str) -> Vec<f64> {
    let is_in = |stack: usize| {
        let is_wait = |name: &str| name.starts_with("[off-CPU") || name == "[waiting for a CPU]";
        let mut names = profile.names(stack);
        let is_in = names.any(|name| name == function);
        is_in && !names.any(is_wait)
    };
    let samples = profile.samples();
    let samples = samples.filter(|sample| sample.stack.is_some_and(is_in));
    samples.map(|sample| sample.time_ms).collect()
}

/// Steps to a view and what it shows.
fn at_tab(tab: &str, steps: &[Value]) -> Vec<Value> {
    let go = json!(["click", format!("#tab-{tab}")]);
    std::iter::once(go)
        .chain(steps.iter().cloned())
        .chain([json!(["show", ""])])
        .collect()
}

/// The page that compares two files.
fn comparison(files: [&Path; 2]) -> PathBuf {
    let path = files[1].with_extension("diff.html");
    run(sprof().arg("diff").args(files).arg("--html").arg(&path));
    path
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
            let more = [json!(["eval", DRAWN]), json!(["eval", COUNTERS])];
            let selected = [
                json!(["eval", CODES]),
                json!(["drag", [0.01, 0.7]]),
                json!(["click", "#zoom-in"]),
                json!(["show", ""]),
                json!(["eval", CODES]),
                json!(["eval", COUNTER_MEANS]),
            ];
            let selected = selected.into_iter().filter(|_| *file == ours.output);
            let steps = choice.into_iter().chain(both_orders()).chain(more).chain(selected);
            let steps: Vec<Value> = steps.collect();
            // All rows are drawn.
            json!({ "url": url(&page(file, &[])), "height": 3000, "steps": steps })
        })
        .collect();
    let Some(answers) = browse(&tasks) else { return };
    for ((file, kind, options), answer) in cases.iter().zip(&answers) {
        let what = format!("{} {kind}", file.display());
        let report = report(file, &[&FUNCTIONS_AND_CODES[..], options].concat());
        assert_as_report(&what, [&answer["shown"][0], &answer["shown"][1]], &report);
        let sum = answer["shown"][0]["sum"].as_str().unwrap();
        assert!(
            !options.contains(&"--event") || sum.contains(" page-faults in "),
            "{what}: {sum}"
        );
        let requests = answer["requests"].as_array().unwrap();
        assert_eq!(requests.len(), 1, "{what}: only the file itself: {requests:?}");
        assert_drawn(&what, &answer["shown"][0], &answer["shown"][2]);
        if *file == ours.output && !options.contains(&"--waits") {
            let range = selection::time_range(&answer["shown"][5]);
            let in_range = self::report(file, &[&["--view", "categories"], *options, &[&range]].concat());
            assert_codes(&answer["shown"][6], &in_range);
            let codes = assert_codes(&answer["shown"][4], &report);
            // The first faults are those of the loader.
            let has_others = codes.iter().any(|(name, ..)| name != "program");
            assert!(!options.contains(&"--event") || has_others, "{codes:?}");
        }
    }
    let of_ours = &answers[0]["shown"];
    assert_counters(&ours.output, &of_ours[3]);
    assert_counter_means(&ours.output, &selection::time_range(&of_ours[5]), &of_ours[7]);
}

/// The kinds of code in the legend, and the samples and weight of each when it is chosen.
const CODES: &str = "[...document.querySelectorAll('.code')].map((_, at) => {
    const click = () => document.querySelectorAll('.code')[at].click();
    click();
    const { samples, weight } = document.querySelector('.sum').dataset;
    click();
    return [document.querySelectorAll('.code')[at].textContent, Number(samples), Number(weight)];
})";

const FUNCTIONS_AND_CODES: [&str; 4] = ["--view", "functions", "--view", "categories"];

/// Kinds of code with their samples and weight.
type Codes = Vec<(String, u64, u64)>;

/// The categories, the last view of a report.
fn codes_of_report(report: &Value) -> Codes {
    let rows = report["views"].as_array().unwrap().last().unwrap()["rows"].as_array();
    let mut codes: Codes = (rows.unwrap().iter())
        .map(|row| {
            let name = row["name"].as_str().unwrap().to_lowercase();
            let samples = row["self"]["samples"].as_u64().unwrap();
            (name, samples, whole(report, &row["self"]["weight"]))
        })
        .collect();
    codes.sort();
    codes
}

/// Each kind of code in the legend has the samples of its category.
fn assert_codes(codes: &Value, report: &Value) -> Codes {
    let number = |code: &Value, at: usize| code[at].as_f64().unwrap().round() as u64;
    let mut found: Codes = (codes.as_array().unwrap().iter())
        .map(|code| {
            let name = code[0].as_str().unwrap().to_lowercase();
            (name, number(code, 1), number(code, 2))
        })
        .filter(|(_, samples, _)| *samples > 0)
        .collect();
    found.sort();
    assert_eq!(found, codes_of_report(report), "{report}");
    found
}

/// The mean of what some lines say at fifty pixels, and the most, each as a number without its unit.
const COUNTER_MEANS: &str = "(() => {
    const area = document.getElementById('rows-area');
    const { left, width } = area.getBoundingClientRect();
    const names = ['Process CPU', 'Waiting for a CPU', 'Machine: CPUs busy', 'Machine: CPU pressure', 'Machine: run queue'];
    const rows = [...document.querySelectorAll('.row-counter')].filter((row) => names.some((name) => row.title.startsWith(name)));
    return Object.fromEntries(rows.map((row) => {
        const clientY = row.getBoundingClientRect().top + 10;
        const values = Array.from({ length: 50 }, (_, at) => {
            area.dispatchEvent(new PointerEvent('pointermove', { clientX: left + (width * (at + 0.5)) / 50, clientY }));
            return parseFloat(document.getElementById('hint').textContent.split(' s: ')[1].replaceAll(',', ''));
        });
        const known = values.filter((value) => value >= 0);
        return [row.title.split(',')[0], [known.reduce((sum, value) => sum + value, 0) / known.length, Math.max(...known)]];
    }));
})()";

/// In the selected time, lines have the means that the report has.
fn assert_counter_means(profile: &Path, range: &str, means: &Value) {
    let resources = report(profile, &["--view", "resources", range]);
    let rows = resources["views"][0]["rows"].as_array().unwrap();
    let figure = |resource: &str, part: &str, name: &str| {
        let row = rows.iter().find(|row| row["resource"] == resource)?;
        let figures = row[part].as_array().unwrap();
        figures.iter().find(|figure| figure["name"] == name)?["value"].as_f64()
    };
    let cpus = std::thread::available_parallelism().unwrap().get() as f64;
    let busy = figure("process-cpu", "utilization", "busy");
    let waited = figure("process-cpu", "saturation", "waited");
    // Of what it ran and waited.
    let waiting = busy.zip(waited).map(|(busy, waited)| busy * waited / (1.0 - waited));
    let expected = [
        ("Process CPU", busy, 100.0),
        ("Waiting for a CPU", waiting, 100.0),
        (
            "Machine: CPUs busy",
            figure("cpus", "utilization", "busy"),
            100.0 * cpus,
        ),
        ("Machine: CPU pressure", figure("cpus", "saturation", "pressure"), 100.0),
        ("Machine: run queue", figure("cpus", "saturation", "run_queue"), 1.0),
    ];
    for (name, value, scale) in expected {
        let [mean, most] = [0, 1].map(|at| means[name][at].as_f64());
        let (Some(value), Some(mean), Some(most)) = (value, mean, most) else {
            continue;
        };
        // A step between two pixels is missed by one of fifty, and percent are whole.
        assert!(
            (mean - scale * value).abs() <= 0.1 * most + 1.0,
            "{name}: {value}: {means}"
        );
    }
    assert!(means.as_object().unwrap().len() >= 3, "{means}");
}

/// The weight of what the timeline draws, nothing where there is none, and that of all.
const DRAWN: &str =
    "[document.getElementById('timeline').hidden ? null : Number(document.getElementById('rows-canvas').dataset.drawn),
    Number(document.querySelector('.sum').dataset.weight)]";

fn assert_drawn(what: &str, shown: &Value, drawn: &Value) {
    let [drawn, all] = [0, 1].map(|at| drawn[at].as_f64());
    let (Some(drawn), Some(all)) = (drawn, all) else { return };
    // A first sample may stand for time before the recording.
    let least = 0.95 * all - all / shown["samples"].as_f64().unwrap();
    assert!(
        drawn <= all * 1.000_001 && drawn >= least,
        "{what}: {drawn} of {all} is drawn"
    );
}

/// The counters: what they are, and how much by keyboard.
const COUNTERS: &str = "[...document.querySelectorAll('.row-counter')].map((row, at) => {
    row.focus();
    for (const key of at === 0 ? Array(10).fill('ArrowRight') : ['ArrowRight', 'ArrowLeft']) row.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    return [row.title, document.getElementById('hint').textContent, document.getElementById('value').textContent];
})";

/// The largest value of the memory line equals the report's, and values have units.
fn assert_counters(profile: &Path, counters: &Value) {
    let resources = report(profile, &["--view", "resources"]);
    let rows = resources["views"][0]["rows"].as_array().unwrap();
    let memory = { rows.iter() }.find(|row| row["resource"] == "process-memory").unwrap();
    let most = memory["utilization"][0]["value"].as_f64().unwrap();
    let text = |at: usize, part: usize| counters[at][part].as_str().unwrap();
    assert_eq!(text(0, 0), format!("Memory, up to {:.1} MB", most / 1e6), "{counters}");
    for at in 0..counters.as_array().unwrap().len() {
        let (label, _) = text(at, 0).split_once(", ").unwrap();
        let (said, value) = text(at, 1).split_once(" s: ").unwrap();
        assert!(said.starts_with(label), "{counters}");
        assert!(value == "no value" || value == text(at, 2), "{counters}");
    }
    assert!(text(0, 2).ends_with(" MB"), "{counters}");
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
            ("lost", json!(0)),
            ("truncated", json!(truncated)),
            ("unverified", json!(0)),
        ] {
            recorded[field] = value;
        }
        recorded["limits"] = json!([]);
        // A sample may be in code of the C library that has no name.
        for text in profile["shared"]["stringArray"].as_array_mut().unwrap() {
            if names::symbol::is_nameless(text.as_str().unwrap()) {
                *text = json!("a_function");
            }
        }
        std::fs::write(path(name), profile.to_string()).unwrap();
        path(name)
    };
    std::fs::write(path("names.folded"), FOLDED).unwrap();
    let counts = "# callgrind format\ncreator: callgrind-3.19.0\nevents: Ir\nfn=main\n1 5\ntotals: 5\n";
    std::fs::write(path("callgrind.out"), counts).unwrap();
    std::fs::write(path("addresses.folded"), "main;fib 60\nmain;0x1000 40\n").unwrap();
    let unnamed = |ms| {
        format!(
            "node 1 1.{ms:03}000: 1000000 cpu-clock:\n\t7f00aa [unknown] (/tmp/perf-1.map)\n\t401000 node::Start (/usr/bin/node)\n\n"
        )
    };
    std::fs::write(path("node.script"), (0..100).map(unnamed).collect::<String>()).unwrap();
    let unsaid = "the file does not say what was lost or guessed";
    let files = [
        (
            with("whole.json", 2429, 0),
            "good",
            "nothing is missing; ",
            "0 lost, 0 truncated, 0 unverified, 0 without symbols".to_owned(),
        ),
        (
            with("one.json", 2429, 1),
            "good",
            "less than 1 % is missing or doubtful; ",
            "0 lost, 1 (0.04 %) truncated, 0 unverified, 0 without symbols".to_owned(),
        ),
        (
            with("many.json", 5864, 377),
            "limited",
            "part is missing or doubtful; ",
            "0 lost, 377 (6.4 %) truncated, 0 unverified, 0 without symbols".to_owned(),
        ),
        (
            path("names.folded"),
            "unknown",
            "",
            format!("{unsaid}; 0 without symbols"),
        ),
        (
            path("addresses.folded"),
            "limited",
            "",
            format!("{unsaid}; 40 (40.0 %) without symbols"),
        ),
        (
            path("node.script"),
            "limited",
            "",
            format!("{unsaid}; 100 (100.0 %) without symbols"),
        ),
        (
            path("callgrind.out"),
            "limited",
            "",
            "each was counted, none sampled".to_owned(),
        ),
    ];
    let tasks: Vec<Value> = (files.iter())
        .map(|(file, ..)| {
            let rows = json!(["eval", "document.getElementById('quality-rows').textContent"]);
            let open = json!(["click", "#quality summary"]);
            let lines =
                "[...document.querySelectorAll('#quality .option')].map((option) => option.getClientRects().length)";
            let steps = [json!(["show", ""]), rows, open, json!(["eval", lines])];
            json!({ "url": url(&page(file, &[])), "width": 360, "steps": steps })
        })
        .collect();
    let Some(answers) = browse(&tasks) else { return };
    for ((file, state, says, figures), answer) in files.iter().zip(&answers) {
        let shown = &answer["shown"][0];
        let text = shown["quality"].as_str().unwrap();
        assert_eq!(shown["qualityState"].as_str(), Some(*state), "{text}");
        assert!(text.contains(&format!("Quality: {says}{figures}")), "{text}");
        let report = String::from_utf8(run(sprof().arg("report").arg(file))).unwrap();
        assert!(report.contains(&format!("quality: {figures}")), "{report}");
        let is_of_node = file.ends_with("node.script");
        assert_eq!(
            report.contains("JavaScript functions without names"),
            is_of_node,
            "{report}"
        );
        let lines_of_options = answer["shown"][2].as_array().unwrap();
        assert!(
            lines_of_options.iter().all(|lines| *lines == 1),
            "no line ends in `--option`: {answer}"
        );
        assert!(!lines_of_options.is_empty() || !is_of_node, "{answer}");
        let notes = report.lines().filter_map(|line| line.strip_prefix("note: "));
        for note in notes.filter(|note| !note.contains("too few to say")) {
            assert!(answer["shown"][1].as_str().unwrap().contains(note), "{note}: {answer}");
        }
        // Notes have one label.
        let rows = shown["qualityRows"].as_array().unwrap().iter();
        let rows: Vec<&Value> = rows.filter(|row| *row != "Note").collect();
        let twice = rows
            .iter()
            .find(|row| rows.iter().filter(|other| other == row).count() > 1);
        assert_eq!(twice, None, "{rows:?}");
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
