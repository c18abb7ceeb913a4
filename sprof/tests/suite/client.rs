//! What the Firefox Profiler front end itself makes of our profiles, saved and served.
#![cfg(target_os = "linux")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::support;
use crate::support::client::{Client, script};
use crate::support::programs::line_of;
use crate::support::run::{PATIENCE, output};
use crate::support::schema::parsed;
use crate::support::skip::{Need, has, perf_events, tracepoints};
use crate::support::{program, record, sprof};

/// `sprof load` at work; ends with this.
struct Served {
    child: Child,
    url: String,
}

impl Served {
    fn start(profile: &Path, options: &[&str]) -> Served {
        let mut command = sprof();
        command.args(["load", "--no-open", "--port", "0"]);
        command.args(options).arg(profile);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let stderr = child.stderr.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let url = line
                    .split_whitespace()
                    .find(|word| word.contains("/from-url/"))
                    .map(str::to_owned);
                let _ = sender.send((line, url));
            }
        });
        let mut said = Vec::new();
        loop {
            match receiver.recv_timeout(PATIENCE) {
                Ok((_, Some(url))) => return Served { child, url },
                Ok((line, None)) => said.push(line),
                Err(_) => {
                    let _ = child.kill();
                    panic!("sprof load printed no address of the UI: {said:?}");
                }
            }
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Eleven programs. The profiles have one form, which the other tests here have the client read.
#[test]
#[ignore = "long: the client starts eleven times"]
fn the_client_loads_every_kind_of_recording_and_shows_its_functions() {
    let Some(()) = perf_events() else { return };
    let cases: &[(&str, &[&str], &str)] = &[
        ("split", &["200", "4"], "thirty"),
        ("split_rs", &["500"], "split::sixty"),
        ("split_stripped", &["200"], ""),
        ("deep", &["updown", "200", "300"], "down_and_up"),
        ("sighandler", &["alternate", "300"], "interrupted_work"),
        ("threads", &["200", "20"], "thread_work"),
        ("processes", &["exec", "200"], "exec_work"),
        ("processes", &["many", "100"], ""),
        ("reader", &["300"], "read_all_zeros"),
        ("names", &["200"], ""),
        ("exits", &["segv"], "busy_work"),
    ];
    for (name, arguments, function) in cases {
        let Some(path) = program(name) else { continue };
        let recording = record().run(path, arguments);
        let Some(client) = Client::load(recording.output.to_str().unwrap()) else {
            return;
        };
        if !function.is_empty() {
            let functions = client.functions();
            let found = functions
                .iter()
                .any(|(name, _, _, total)| name == function && *total > 1.0);
            assert!(
                found,
                "{name} {arguments:?}: the client shows no {function}: {functions:?}"
            );
        }
    }
}

#[test]
fn the_client_counts_the_shares_that_we_count() {
    let Some(()) = perf_events() else { return };
    let (recording, profile) = record().profile(program("split").unwrap(), &["1000"]);
    let Some(client) = Client::load(recording.output.to_str().unwrap()) else {
        return;
    };
    let functions = client.functions();
    for function in ["sixty", "thirty", "ten", "run_split", "main"] {
        let ours = profile.share_of(function).percent();
        let theirs = functions
            .iter()
            .find(|(name, ..)| name == function)
            .map_or(0.0, |found| found.3);
        assert!(
            (ours - theirs).abs() < 0.5,
            "{function}: {ours:.2} % and {theirs:.2} %: {functions:?}"
        );
    }
}

#[test]
fn the_client_symbolicates_an_unsymbolicated_profile_through_our_server() {
    let Some(()) = perf_events() else { return };
    let recorder = record().options(&["--no-symbolicate"]);
    let (recording, _) = recorder.profile(program("inline_dwarf5").unwrap(), &["500"]);
    let served = Served::start(&recording.output, &[]);
    let Some(client) = Client::load(&served.url) else {
        return;
    };
    let functions = client.functions();
    for function in ["main", "not_inlined", "middle", "innermost"] {
        assert!(
            functions.iter().any(|(name, ..)| name == function),
            "no {function}: {functions:?}"
        );
    }
}

/// The front end as people see it, in Chromium. Its pages are in no package: `yarn build-prod` makes them in a clone of
/// its repository.
#[test]
#[ignore = "needs the pages of the Firefox Profiler: SPROF_FRONT_END is their folder"]
fn the_pages_of_the_front_end_show_the_bytes_of_the_report() {
    let pages = std::env::var("SPROF_FRONT_END").unwrap_or_default();
    let is_there = Path::new(&pages).join("index.html").exists() && Path::new("/usr/bin/chromium").exists();
    if !has(
        Need::FrontEnd,
        is_there,
        "no pages of the Firefox Profiler in SPROF_FRONT_END, or no chromium",
    ) {
        return;
    }
    let (recording, _) = record()
        .options(&["--heap", "--heap-interval", "64K"])
        .profile(program("grows").unwrap(), &[] as &[&str]);
    let served = Served::start(&recording.output, &["--ui-dir", &pages]);
    let roots = "(() => {
        const rows = (kind) => [...document.querySelectorAll(`.treeViewRow${kind}Columns`)];
        const roots = rows('Fixed').filter((_, at) => rows('Scrolled')[at].getAttribute('aria-level') === '1');
        return roots.map((row) => Number(row.children[1].textContent.replaceAll(',', '')));
    })()";
    let measures = [
        ("native-retained-allocations", "retained"),
        ("native-allocations", "allocated"),
    ];
    let tasks = measures.map(|(summary, _)| {
        let steps = json!([["until", ".treeViewRow"], ["eval", roots]]);
        json!({ "url": format!("{}&ctSummary={summary}", served.url), "raw": true, "steps": steps })
    });
    let file = recording.output.with_file_name("tasks.json");
    std::fs::write(&file, serde_json::to_vec(&tasks).unwrap()).unwrap();
    let Some(answers) = script("viewer.js", &[file.as_os_str()]) else {
        return;
    };
    let answers: Value = serde_json::from_str(&answers).unwrap();
    for (at, (_, measure)) in measures.into_iter().enumerate() {
        let mut report = sprof();
        report.arg("report").arg(&recording.output);
        let report = output(report.args(["--measure", measure, "-f", "json"]));
        let report: Value = parsed(&report.stdout);
        let roots = answers[at]["shown"][0].as_array().unwrap().iter();
        let sum: f64 = roots.map(|root| root.as_f64().unwrap()).sum();
        assert_eq!(
            Some(sum),
            report["selection"]["weight"].as_f64(),
            "{measure}: {answers}"
        );
        assert!(sum > 10e6, "{measure}: {sum}");
    }
}

#[test]
fn the_client_annotates_source_through_our_server() {
    let Some(()) = perf_events() else { return };
    let (recording, _) = record().profile(program("inline_dwarf5").unwrap(), &["500"]);
    let served = Served::start(&recording.output, &[]);
    let Some(client) = Client::load(&served.url) else {
        return;
    };
    let source = client.annotate("innermost", "src").to_string();
    assert!(source.contains("INNERMOST_LINE"), "{source}");
    assert!(
        source.contains(&format!("{}", line_of("inline.c", "INNERMOST_LINE"))),
        "{source}"
    );
}

/// The client can download the sources of packages. It asks the local server first: crates.io has no such package.
#[test]
fn the_client_annotates_the_source_of_a_package_through_our_server() {
    let Some(()) = perf_events() else { return };
    let dir = support::temp_dir();
    let package = dir
        .path()
        .join("registry/src/index.crates.io-1949cf8c6b5b557f/sprof-test-0.0.1");
    std::fs::create_dir_all(&package).unwrap();
    for file in ["inline.c", "common.h"] {
        std::fs::copy(support::tests_dir().join("programs").join(file), package.join(file)).unwrap();
    }
    let binary = dir.path().join("inline");
    let mut compile = std::process::Command::new("cc");
    compile
        .args(["-O2", "-g", "-o"])
        .arg(&binary)
        .arg(package.join("inline.c"));
    assert!(compile.status().unwrap().success());
    let (recording, profile) = record().profile(&binary, &["500"]);
    let texts = profile.json["shared"]["stringArray"].to_string();
    assert!(
        texts.contains("cargo:index.crates.io-1949cf8c6b5b557f:sprof-test-0.0.1:inline.c"),
        "{texts}"
    );
    assert!(!texts.contains(package.to_str().unwrap()), "{texts}");
    let served = Served::start(&recording.output, &[]);
    let Some(client) = Client::load(&served.url) else {
        return;
    };
    let source = client.annotate("innermost", "src").to_string();
    assert!(source.contains("INNERMOST_LINE"), "{source}");
}

#[test]
fn the_client_annotates_assembly_through_our_server() {
    let Some(()) = perf_events() else { return };
    let (recording, _) = record().profile(program("split").unwrap(), &["500"]);
    let served = Served::start(&recording.output, &[]);
    let Some(client) = Client::load(&served.url) else {
        return;
    };
    let assembly = client.annotate("sixty", "asm").to_string();
    let expected: &[&str] = if cfg!(target_arch = "x86_64") {
        &["shl", "shr", "xor"]
    } else {
        &["eor"]
    };
    for instruction in expected {
        assert!(assembly.contains(instruction), "no {instruction} in {assembly}");
    }
}

/// The client leaves out samples of the category `Idle` unless it is asked for them: percentages are of CPU time.
#[test]
fn the_client_counts_no_wait_as_running() {
    let Some(()) = perf_events() else { return };
    let recorder = record().options(&["--off-cpu"]);
    let (recording, profile) = recorder.profile(program("waits").unwrap(), &["1", "300"]);
    let is_wait = |name: &str| name.starts_with("[off-CPU") || name == "[waiting for a CPU]";
    let waits = |names: &[&str]| names.iter().any(|name| is_wait(name));
    assert!(profile.share(|_| true, waits).hits > 0, "{}", profile.summary());
    let Some(client) = Client::load(recording.output.to_str().unwrap()) else {
        return;
    };
    let functions = client.functions();
    assert!(functions.iter().any(|(.., total)| *total > 1.0), "{functions:?}");
    let waiting = functions
        .iter()
        .find(|(name, _, _, total)| is_wait(name) && *total > 0.0);
    assert!(waiting.is_none(), "{waiting:?}");
}

#[test]
fn the_client_shows_events_as_tracks_and_markers_with_stacks() {
    let Some(()) = tracepoints() else { return };
    let (recording, profile) = record()
        .options(&["-e", "page-faults,minor-faults,syscalls:sys_exit_getppid"])
        .profile(
            "sh",
            &[
                "-c",
                "$0 faults 2000; $0 ask 20; true",
                program("events").unwrap().to_str().unwrap(),
            ],
        );
    let Some(client) = Client::load(recording.output.to_str().unwrap()) else {
        return;
    };
    let handle = |name: &str, nth: usize| {
        let mut found = profile
            .threads
            .iter()
            .enumerate()
            .filter(|(_, thread)| thread.name == name);
        format!("t-{}", found.nth(nth).unwrap().0)
    };
    // The track of the second event has a call tree of its own, whose weights are its counts.
    let functions = client.run(&["thread", "functions", "--thread", &handle("events · minor-faults", 0)]);
    let functions = functions["functions"].as_array().unwrap();
    let many = functions
        .iter()
        .find(|function| function["name"] == "many_pages")
        .unwrap();
    let faults = many["selfSamples"].as_f64().unwrap();
    assert!((faults - 6000.0).abs() <= 32.0, "{many}");
    // Each marker has its values and the stack that led to it.
    let markers = client.run(&["thread", "markers", "--thread", &handle("events (page-faults)", 1)]);
    let of_type = markers["byType"].as_array().unwrap().iter();
    let getppid = of_type
        .clone()
        .find(|of| of["markerName"] == "syscalls:sys_exit_getppid")
        .unwrap();
    assert_eq!(getppid["count"], 21, "{markers}");
    let first = &getppid["topMarkers"][0];
    assert!(first["label"].as_str().unwrap().contains("ret="), "{first}");
    let stack = client.run(&["marker", "stack", first["handle"].as_str().unwrap()]);
    let frames = stack["stack"]["frames"].as_array().unwrap();
    assert!(frames.iter().any(|frame| frame["name"] == "main"), "{stack}");
}

#[test]
fn files_of_other_profilers_open_in_the_client_with_the_shares_that_they_have() {
    let Some(()) = perf_events() else { return };
    let dir = support::temp_dir();
    let recording = record().run(program("split").unwrap(), &["500"]);
    let sprof_on = |words: &[&str], file: &Path| {
        let output = sprof().args(words).arg(file).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {stderr}");
        (output.stdout, stderr)
    };
    for (format, paths) in [
        ("pprof", true),
        ("folded", true),
        ("perf-script", true),
        ("callgrind", false),
    ] {
        let (file, saved) = (dir.path().join(format), dir.path().join("profile.json.gz"));
        sprof_on(
            &["export", "-f", format, "-o", file.to_str().unwrap()],
            &recording.output,
        );
        let (_, stderr) = sprof_on(&["load", "-s", "-o", saved.to_str().unwrap()], &file);
        assert_eq!(stderr.contains("no call paths"), !paths, "{format}: {stderr}");
        let Some(client) = Client::load(saved.to_str().unwrap()) else {
            return;
        };
        let shown = client.functions();
        let (json, _) = sprof_on(&["report", "--view", "functions", "--format", "json"], &file);
        let report: serde_json::Value = parsed(&json);
        for row in report["views"][0]["rows"].as_array().unwrap() {
            let share = |key: &str| 100.0 * row[key]["share"].as_f64().unwrap();
            let name = row["function"].as_str().unwrap();
            if share("self") < 1.0 {
                continue;
            }
            let found = shown.iter().find(|function| function.0 == name);
            let (_, _, own, total) = found.unwrap_or_else(|| panic!("{format}: no {name} in {shown:?}"));
            assert!((own - share("self")).abs() < 0.06, "{format} {name}: {own} {row}");
            assert!(
                !paths || (total - share("total")).abs() < 0.06,
                "{format} {name}: {total} {row}"
            );
        }
    }
}
