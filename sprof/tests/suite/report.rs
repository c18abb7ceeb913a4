//! `sprof report` says what is true of the recorded program, and the same as the profile to the sample.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support;
use crate::support::machine::share_again;
use crate::support::perf::perf_record;
use crate::support::schema::parsed;
use crate::support::skip::{perf_events, perf_on_one_cpu};
use crate::support::{Profile, Share, assert_split_of, program, record, sprof, temp_dir};
use serde_json::{Value, json};

fn report(file: &Path, options: &[&str]) -> Output {
    sprof().arg("report").arg(file).args(options).output().unwrap()
}

fn text(file: &Path, options: &[&str]) -> String {
    let output = report(file, options);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(file: &Path, options: &[&str]) -> Value {
    let text = text(file, &[&["--format", "json"], options].concat());
    let json: Value = parsed(&text);
    assert_eq!(
        (json["schema"].as_str(), json["schema_version"].as_u64()),
        (Some("sprof-report"), Some(1))
    );
    json
}

/// (self, total) samples of each function of the first view; several of one name (of other files) are summed up by
/// self.
fn functions(json: &Value) -> BTreeMap<String, (u64, u64)> {
    let mut found: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for row in json["views"][0]["rows"].as_array().unwrap() {
        let samples = |key: &str| row[key]["samples"].as_u64().unwrap();
        let entry = found.entry(row["function"].as_str().unwrap().to_owned()).or_default();
        entry.0 += samples("self");
        entry.1 = entry.1.max(samples("total"));
    }
    found
}

/// The split functions have 60, 30 and 10 % of what `run_split` has.
fn assert_split(json: &Value) {
    let found = functions(json);
    let share = |name: &str| Share {
        hits: found[name].1,
        of: found["run_split"].1,
    };
    // 16,000 samples, and as many fewer as the host takes CPU time away: 5 standard deviations of those that there are.
    assert_split_of(share, 3000, 4.5, || format!("{found:?}"));
}

/// 25,000 page faults beside perhaps 200 samples of CPU time: added up they would be all that there is to see.
#[test]
fn samples_of_several_events_are_told_apart_and_counts_are_no_time() {
    let Some(()) = perf_events() else { return };
    let faults = "page-faults/period=16/:u";
    // The program spends about 5 ms outside of the kernel: at 1 kHz, one run in a hundred had no sample of it.
    let (recording, profile) = record()
        .options(&["--rate", "10000", "-e", &format!("cpu-clock:u,{faults}")])
        .profile(program("events").unwrap(), &["faults", "6250"]);
    let weight_of = |json: &Value, name: &str| {
        let rows = json["views"][0]["rows"].as_array().unwrap().iter();
        let of_name = rows.filter(|row| row["function"] == name);
        of_name.map(|row| row["self"]["weight"].as_f64().unwrap()).sum::<f64>()
    };

    let time = json(&recording.output, &["--view", "functions"]);
    let samples = profile
        .threads_named("events")
        .map(|thread| thread.samples.len() as u64)
        .sum();
    assert_eq!(time["selection"]["samples"].as_u64(), Some(samples));
    assert!(time["notes"].to_string().contains(faults), "{}", time["notes"]);

    let options = ["--view", "functions", "-e", faults];
    let counted = json(&recording.output, &options);
    for (function, pages) in [("few_pages", 6250.0), ("many_pages", 18_750.0)] {
        let weight = weight_of(&counted, function);
        assert!((weight - pages).abs() <= 32.0, "{function}: {weight}");
    }
    let row = &counted["views"][0]["rows"][0];
    assert_eq!(row["self"]["time_ms"], Value::Null);
    assert_eq!(
        row["self"]["samples"].as_f64().unwrap() * 16.0,
        row["self"]["weight"].as_f64().unwrap()
    );
    assert_eq!(counted["profile"]["threads"], 1);
    let page = text(&recording.output, &options);
    assert!(page.contains(faults) && !page.contains(" ms each"), "{page}");

    let folded = sprof()
        .args(["export", "-f", "folded", "-e", faults])
        .arg(&recording.output)
        .output()
        .unwrap();
    let folded = String::from_utf8(folded.stdout).unwrap();
    let all: f64 = folded
        .lines()
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum();
    assert_eq!(Some(all), counted["selection"]["weight"].as_f64());

    let diff = |options: &[&str]| {
        let mut command = sprof();
        command
            .arg("diff")
            .args([&recording.output, &recording.output])
            .args(options);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let all = all.to_string();
    let page = diff(&["-e", faults]);
    assert!(page.contains(&format!("{all} {faults} a run")), "{page}");
    assert!(diff(&[]).contains(" ms a run"));

    let other = report(&recording.output, &["-e", "cycles"]);
    assert_ne!(other.status.code(), Some(0));
    let stderr = String::from_utf8_lossy(&other.stderr);
    assert!(stderr.contains("`cycles`") && stderr.contains(faults), "{stderr}");
}

#[test]
fn shares_are_those_of_the_program_and_counts_those_of_the_profile() {
    let Some(()) = perf_events() else { return };
    let (recording, profile) = record()
        .options(&["-r", "8000"])
        .profile(program("split").unwrap(), &["2000"]);
    let json = json(&recording.output, &["--view", "functions", "--sort", "total"]);
    assert_split(&json);
    assert_eq!(json["selection"]["samples"].as_u64(), Some(profile.sample_count()));
    let found = functions(&json);
    let mut own: BTreeMap<&str, u64> = BTreeMap::new();
    for sample in profile.samples() {
        let leaf = sample.stack.and_then(|stack| profile.names(stack).next_back()).unwrap();
        *own.entry(leaf).or_default() += 1;
    }
    for (name, (self_samples, _)) in &found {
        assert_eq!(own.get(name.as_str()).copied().unwrap_or(0), *self_samples, "{name}");
    }
    assert_eq!(found["sixty"].1, profile.share_of("sixty").hits);

    // The same sums in every view.
    let tree = self::json(&recording.output, &["--view", "tree", "--min-percent", "0"]);
    let rows = tree["views"][0]["rows"].as_array().unwrap();
    let sum = |rows: &[Value], key: &str| {
        rows.iter()
            .map(|row| row[key]["samples"].as_u64().unwrap())
            .sum::<u64>()
    };
    assert_eq!(sum(rows, "self"), profile.sample_count());
    let roots: Vec<Value> = rows.iter().filter(|row| row["depth"] == 0).cloned().collect();
    assert_eq!(sum(&roots, "total"), profile.sample_count());
    for view in ["threads", "processes", "categories"] {
        let json = self::json(&recording.output, &["--view", view]);
        assert_eq!(
            sum(json["views"][0]["rows"].as_array().unwrap(), "self"),
            profile.sample_count(),
            "{view}"
        );
    }
    let callers = self::json(&recording.output, &["--view", "callers=sixty"]);
    assert_eq!(callers["views"][1]["rows"][0]["function"], "one_round");
    assert_eq!(
        callers["views"][0]["rows"][0]["total"]["samples"].as_u64(),
        Some(found["sixty"].1)
    );
    let focus = self::json(
        &recording.output,
        &["--focus", "sixty", "--hide", "sixty", "--view", "functions"],
    );
    assert_eq!(focus["selection"]["samples"].as_u64(), Some(found["sixty"].1));
    assert!(!functions(&focus).contains_key("sixty"));

    // And without symbols in the file: they are looked up now.
    let unnamed = recording.output.with_file_name("unnamed.json.gz");
    let output = sprof()
        .args(["record", "-s", "--no-symbolicate", "-r", "8000", "-o"])
        .arg(&unnamed)
        .arg("--")
        .arg(program("split").unwrap())
        .arg("2000")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_split(&self::json(&unnamed, &["--view", "functions"]));
}

#[test]
fn files_of_perf_and_folded_stacks_are_reported() {
    let Some(()) = perf_on_one_cpu() else { return };
    let dir = temp_dir();
    let file = dir.path().join("perf.data");
    let options = ["-q", "-F", "4000", "-e", "cpu-clock", "--call-graph", "dwarf,8192"];
    perf_record(&file, &options, &program("split").unwrap(), &["4000"]);
    share_again();
    let from_perf = json(&file, &["--view", "functions"]);
    assert_split(&from_perf);
    let saved = dir.path().join("saved.json.gz");
    let output = sprof()
        .args(["load", "-s", "-o"])
        .arg(&saved)
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        functions(&from_perf),
        functions(&json(&saved, &["--view", "functions"]))
    );

    let folded = dir.path().join("stacks.folded");
    let mut lines = String::new();
    let profile = Profile::read(&saved);
    for sample in profile.samples() {
        let names: Vec<&str> = sample.stack.map_or(Vec::new(), |stack| profile.names(stack).collect());
        lines.push_str(&format!("{} 1\n", names.join(";")));
    }
    fs::write(&folded, lines).unwrap();
    let of_folded = json(&folded, &["--view", "functions"]);
    assert_split(&of_folded);
    let (a, b) = (functions(&of_folded), functions(&from_perf));
    for name in ["sixty", "thirty", "ten", "one_round", "run_split", "main"] {
        assert_eq!(a[name], b[name], "{name}");
    }
    assert!(of_folded["views"][0]["rows"][0]["self"]["time_ms"].is_null());
}

/// A saved profile of 100 samples without anything to look up.
fn small(dir: &Path, name: &str) -> PathBuf {
    let long = "<alloc::collections::btree::map::BTreeMap<alloc::string::String, alloc::vec::Vec<my_crate::Row>> as \
                core::iter::traits::collect::FromIterator<(alloc::string::String, alloc::vec::Vec<my_crate::Row>)>>::from_iter";
    let profile = json!({
        "meta": {"preprocessedProfileVersion": 60, "product": "app", "startTime": 0, "interval": 1, "symbolicated": true,
                 "categories": [{"name": "Other", "color": "grey"}]},
        "libs": [],
        "shared": {
            "stringArray": ["main", long, "tab\there|bar"],
            "stackTable": {"frame": [0, 1, 2], "prefix": [null, 0, 1], "length": 3},
            "frameTable": {"func": [0, 1, 2], "line": [1, 2, null], "category": [0, 0, 0], "address": [-1, -1, -1],
                           "inlineDepth": [0, 0, 0], "length": 3},
            "funcTable": {"name": [0, 1, 2], "resource": [-1, -1, -1], "source": [null, null, null], "length": 3},
            "resourceTable": {"length": 0},
            "sources": {"filename": [], "length": 0},
        },
        "threads": [{"name": "main", "pid": 1, "tid": 1, "markers": {"length": 0},
                     "samples": {"length": 100, "stack": (0..100).map(|at| at % 3).collect::<Vec<_>>(),
                                 "time": (0..100).collect::<Vec<_>>()}}],
    });
    let path = dir.join(name);
    fs::write(&path, profile.to_string()).unwrap();
    path
}

/// What appears on a terminal of so many columns; `None` where there is no `script`.
fn on_terminal(columns: usize, file: &Path, environment: &[(&str, &str)]) -> Option<String> {
    let line = format!(
        "stty cols {columns} rows 40; exec '{}' report '{}'",
        env!("CARGO_BIN_EXE_sprof"),
        file.display()
    );
    let mut command = Command::new("script");
    for name in ["NO_COLOR", "CLICOLOR_FORCE", "CARGO_TERM_COLOR", "COLUMNS"] {
        command.env_remove(name);
    }
    let output = command
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env("TERM", "xterm")
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output();
    let Ok(output) = output else {
        let _ = writeln!(std::io::stderr(), "skipped: no `script` (Debian: bsdutils)");
        return None;
    };
    assert!(output.status.success(), "{output:?}");
    // Before it, the progress line, which is taken away.
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.rsplit("\x1b[J").next().unwrap().to_owned())
}

fn without_colors(text: &str) -> String {
    let mut out = String::new();
    let mut parts = text.split('\x1b');
    out.push_str(parts.next().unwrap());
    parts.for_each(|part| out.push_str(part.split_once('m').unwrap().1));
    out
}

#[test]
fn lines_fit_the_terminal_and_names_stay_readable() {
    let dir = temp_dir();
    let file = small(dir.path(), "p.json");
    for columns in [40, 80, 200] {
        let Some(text) = on_terminal(columns, &file, &[]) else {
            return;
        };
        assert!(text.contains("\x1b["), "colour on a terminal: {text}");
        let text = without_colors(&text);
        for line in text.lines() {
            assert!(line.trim_end().chars().count() <= columns, "{columns}: {line:?}");
        }
        assert!(text.contains("main") && text.contains("from_iter"), "{text}");
    }
    let plain = on_terminal(80, &file, &[("NO_COLOR", "1")]).unwrap();
    assert!(!plain.contains('\x1b'), "{plain:?}");
}

#[test]
fn in_a_pipe_names_are_whole_and_without_colour() {
    let dir = temp_dir();
    let file = small(dir.path(), "p.json");
    let plain = text(&file, &[]);
    assert!(!plain.contains('\x1b'), "{plain}");
    assert!(
        plain.contains("alloc::vec::Vec<my_crate::Row>)>>::from_iter"),
        "{plain}"
    );
    // A control character in a name is none on the terminal.
    assert!(plain.contains("tab here|bar") && !plain.contains('\t'), "{plain}");
    let forced = sprof()
        .arg("report")
        .arg(&file)
        .env("CLICOLOR_FORCE", "1")
        .output()
        .unwrap();
    assert!(forced.stdout.contains(&0x1b));
    let markdown = text(&file, &["--format", "md"]);
    let rows: Vec<&str> = markdown.lines().filter(|line| line.starts_with('|')).collect();
    assert!(rows.iter().any(|row| row.contains("tab here\\|bar")), "{markdown}");
    let merged = json(&file, &["--merge-generics", "--view", "functions"]);
    assert!(
        functions(&merged).keys().any(|name| name.contains("BTreeMap<_> as")),
        "{merged}"
    );
}

#[test]
fn a_reader_that_leaves_is_a_quiet_end() {
    let dir = temp_dir();
    let file = small(dir.path(), "p.json");
    // Two tables of functions, often enough to fill the pipe's buffer (64 KiB, pipe(7)).
    let views = ["--view", "functions"].repeat(400);
    let mut child = sprof()
        .arg("report")
        .arg(&file)
        .args(views)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_report_goes_to_a_file_and_what_is_not_found_is_said() {
    let dir = temp_dir();
    let file = small(dir.path(), "p.json");
    let out = dir.path().join("report.md");
    let output = report(&file, &["--format", "md", "-o", out.to_str().unwrap()]);
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    assert!(fs::read_to_string(&out).unwrap().contains("### Functions by self"));
    for (options, expected) in [
        (&["--focus", "nowhere"][..], "no function \"nowhere\""),
        (&["--view", "callers=nowhere"], "no function \"nowhere\""),
        (&["--thread", "x"], "no thread \"x\" in this profile; it has main"),
        (&["--event", "cycles"], "leave out --event"),
    ] {
        let output = report(&file, options);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{stderr}");
        assert!(stderr.contains(expected) && stderr.contains("p.json"), "{stderr}");
    }
}

#[test]
fn damaged_and_foreign_files_are_named_with_the_place_and_what_was_expected() {
    let dir = temp_dir();
    let whole = fs::read(small(dir.path(), "whole.json")).unwrap();
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let zipped = gzip(&whole);
    let replaced = |from: &str, to: &str| {
        let text = String::from_utf8(whole.clone()).unwrap();
        assert!(text.contains(from), "{from} in {text}");
        text.replacen(from, to, 1).into_bytes()
    };
    let bomb = gzip(&vec![b'['; 2_000_000]);
    let cases: Vec<(&str, Vec<u8>, &[&str])> = vec![
        ("empty", Vec::new(), &["empty", "expected"]),
        ("cut", whole[..whole.len() / 2].to_vec(), &["cut off", "line 1, byte"]),
        ("cut-gzip", zipped[..zipped.len() / 2].to_vec(), &["cut off", "byte"]),
        (
            "beyond",
            replaced("\"frame\":[0,1,2]", "\"frame\":[0,1,7]"),
            &["stackTable.frame[2] is 7, but there are 3 frames"],
        ),
        (
            "text-for-number",
            replaced("\"line\":[1,2,null]", "\"line\":[1,\"x\",null]"),
            &["expected an index", "line 1, byte"],
        ),
        (
            "version",
            replaced("\"preprocessedProfileVersion\":60", "\"preprocessedProfileVersion\":99"),
            &["99", "update sprof"],
        ),
        (
            "foreign",
            br#"{"name": "left-pad"}"#.to_vec(),
            &["expected", "preprocessedProfileVersion"],
        ),
        (
            "program",
            b"\x7fELF\x02\x01\x01".to_vec(),
            &["a program", "folded stacks"],
        ),
        (
            "prose",
            b"Dear reader,\nhow are you?\n".to_vec(),
            &["expected", "folded stacks"],
        ),
        ("folded", b"a;b 12\na;b\n".to_vec(), &["line 2", "a;b;c 12"]),
        ("nested", bomb, &["nesting"]),
        ("perf", b"PERFILE2".to_vec(), &["cannot load"]),
    ];
    for (name, bytes, expected) in cases {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        let output = report(&path, &[]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{name}: {stderr}");
        assert!(
            output.stdout.is_empty() && !stderr.contains("panicked"),
            "{name}: {stderr}"
        );
        for expected in expected.iter().chain([&path.to_str().unwrap()]) {
            assert!(stderr.contains(expected), "{name}: no {expected:?} in {stderr}");
        }
    }
    let output = report(Path::new("/no/such/profile"), &[]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such/profile"));
}

#[test]
fn annotate_shows_source_and_machine_code_with_their_samples() {
    let Some(()) = perf_events() else { return };
    let (recording, profile) = record().profile(program("split").unwrap(), &["1000"]);
    let annotate = |arguments: &[&str]| {
        let output = sprof()
            .arg("annotate")
            .arg(&recording.output)
            .args(arguments)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = annotate(&["sixty"]);
    // The line of the program's source, as it stands there, and the instructions of the function.
    let source = fs::read_to_string(support::tests_dir().join("programs/split.c")).unwrap();
    let line = source.lines().find(|line| line.contains("void sixty(")).unwrap();
    assert!(text.contains(line), "{text}");
    assert!(text.contains("bytes of ") && text.contains("address"), "{text}");
    // Shares of instructions sum up to those of samples in the function's machine code, rounding apart. The kernel's
    // are its callees'.
    let code = annotate(&["sixty", "--asm", "-C", "0", "--no-lines"]);
    let rows: Vec<f64> = (code.lines().skip_while(|line| !line.contains("address")))
        .filter_map(|line| line.trim_start().split_once(" %")?.0.parse().ok())
        .collect();
    let (sum, rounding) = (rows.iter().sum::<f64>(), 0.051 * (rows.len() + 1) as f64);
    let in_code = |names: &[&str]| {
        names.contains(&"sixty") && names.last().is_some_and(|leaf| ["sixty", "xorshift"].contains(leaf))
    };
    let share = profile.share(|_| true, in_code).percent();
    assert!((sum - share).abs() < rounding, "{sum} is not {share}: {code}");
    assert!(!code.contains("; "), "{code}");

    // Where there is no source, that is said, and the numbers stay.
    let unknown = sprof()
        .arg("annotate")
        .arg(&recording.output)
        .arg("nowhere")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&unknown.stderr);
    assert_eq!(unknown.status.code(), Some(125));
    assert!(stderr.contains("no function \"nowhere\""), "{stderr}");
    // Where nothing is selected, that is said of samples.
    let nothing = super::report::text(&recording.output, &["--time-range", "1000.."]);
    assert!(nothing.contains("no samples: nothing to show"), "{nothing}");
    let dir = temp_dir();
    let file = small(dir.path(), "p.json");
    let output = sprof().arg("annotate").arg(&file).arg("main").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("no source lines are known"),
        "{text}"
    );
}
