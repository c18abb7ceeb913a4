//! `sprof annotate --asm` against addr2line: the place of each instruction in the source.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::schema::parsed;
use crate::support::skip::{Need, has, perf_events};
use crate::support::{program, record, sprof};

/// (function, file, line)
type Place = (String, String, Option<u32>);
/// The place in the function itself, and in the innermost inlined function.
type Origin = (Place, Option<Place>);

fn annotate(file: &Path, arguments: &[&str]) -> String {
    let output = sprof().arg("annotate").arg(file).args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// How a source line begins, which may be Rust with a ` -> ` of its own.
const SOURCE_LINE: &str = "                   ; ";

/// The origin of each instruction, by address, and the text of each line that is shown, by (file, line).
fn origins(text: &str) -> (BTreeMap<u64, Origin>, BTreeMap<(String, u32), String>) {
    let (mut origins, mut sources) = (BTreeMap::new(), BTreeMap::new());
    let (mut outer, mut inlined): (Place, Option<Place>) = (("?".to_owned(), "?".to_owned(), None), None);
    for line in text.lines().skip_while(|line| !line.contains("self  address")).skip(1) {
        let Some(comment) = line.strip_prefix(SOURCE_LINE) else {
            let address = line.get(9..17).map(str::trim_start);
            if let Some(Ok(address)) = address.map(|address| u64::from_str_radix(address, 16)) {
                origins.insert(address, (outer.clone(), inlined.clone()));
            }
            continue;
        };
        let inner = comment.strip_prefix("       ");
        let comment = inner.unwrap_or(comment);
        if let Some((function, rest)) = comment.split_once(" (inlined), ").or_else(|| comment.split_once(", /")) {
            let (file, line) = rest.rsplit_once(':').unwrap_or((rest, "?"));
            let file = if inner.is_some() {
                file.to_owned()
            } else {
                format!("/{file}")
            };
            let place = (function.to_owned(), file, line.parse().ok());
            match inner {
                Some(_) => inlined = Some(place),
                None => (outer, inlined) = (place, None),
            }
            continue;
        }
        let number = comment.get(..5).and_then(|number| number.trim_start().parse().ok());
        if inner.is_none() {
            inlined = None;
        }
        let place = inlined.as_mut().unwrap_or(&mut outer);
        place.2 = number;
        if let Some(number) = number {
            let text = comment.get("12345  ".len()..).unwrap_or_default();
            sources.insert((place.1.clone(), number), text.to_owned());
        }
    }
    (origins, sources)
}

/// The same by binutils.
fn by_addr2line(program: &Path, address: u64) -> Origin {
    let mut command = Command::new("addr2line");
    command.arg("-Cife").arg(program).arg(format!("{address:#x}"));
    let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let place = |pair: &[&str]| {
        let (file, line) = pair[1].rsplit_once(':').unwrap();
        let line = line.split(' ').next().unwrap().parse().ok();
        // Where the sources of Rust's library are installed, rustc writes where.
        let is_of_rust = file.starts_with("/rustc/") || file.contains("/lib/rustlib/src/rust/");
        let library = file.split_once("/library/").filter(|_| is_of_rust);
        let file = library.map_or(file.to_owned(), |(_, file)| format!("library/{file}"));
        (pair[0].to_owned(), file, line.filter(|line| *line > 0))
    };
    let mut places = lines.chunks_exact(2).map(place);
    (places.next_back().unwrap(), places.next())
}

#[test]
fn source_lines_between_the_instructions_are_those_of_addr2line() {
    let Some(()) = perf_events() else { return };
    let is_installed = Command::new("addr2line").arg("--version").output().is_ok();
    if !has(Need::Binutils, is_installed, "addr2line is not installed") {
        return;
    }
    let sysroot = Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()
        .unwrap()
        .stdout;
    let of_rust = Path::new(str::from_utf8(&sysroot).unwrap().trim_end()).join("lib/rustlib/src/rust");
    for (variant, rounds, function) in [("inline_dwarf5", "500", "not_inlined"), ("inline_rs", "20000", "area")] {
        let path = program(variant).unwrap();
        let (recording, _) = record().profile(&path, &[rounds]);
        let text = annotate(&recording.output, &[function, "--asm", "-C", "1000000"]);
        let (origins, sources) = origins(&text);
        assert!(origins.len() > 10, "{text}");
        // Paths of Rust's functions have several forms.
        let last = |name: &str| {
            name.rsplit("::")
                .next()
                .unwrap_or_default()
                .trim_end_matches('>')
                .to_owned()
        };
        let shape = |(function, file, line): &Place| (last(function), file.clone(), *line);
        for (address, (outer, inlined)) in &origins {
            let theirs = by_addr2line(&path, *address);
            assert_eq!(shape(outer), shape(&theirs.0), "{address:#x}: {text}");
            assert_eq!(
                inlined.as_ref().map(shape),
                theirs.1.as_ref().map(shape),
                "{address:#x}: {text}"
            );
        }
        assert!(origins.values().any(|(_, inlined)| inlined.is_some()), "{text}");
        assert!(origins.values().any(|(_, inlined)| inlined.is_none()), "{text}");
        let mut with_text = 0;
        for ((file, line), shown) in &sources {
            let source = fs::read_to_string(of_rust.join(file)).unwrap();
            let expected = source.lines().nth(*line as usize - 1).unwrap_or_default();
            assert_eq!(shown, expected.replace('\t', " ").trim_end(), "{file}:{line}");
            with_text += usize::from(!shown.is_empty());
        }
        assert!(with_text >= 2, "{text}");
        // A jump of the loop goes back to its label.
        let labels: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with(SOURCE_LINE))
            .filter_map(|line| line.split_once(" -> "))
            .map(|(_, label)| label)
            .collect();
        assert!(!labels.is_empty(), "{text}");
        assert!(
            labels.iter().all(|label| text.contains(&format!("  {label}: "))),
            "{text}"
        );
    }
}

/// Instructions of x86_64 end at 4 MB, two thirds of the function; those of arm64 are four times as long.
#[test]
fn samples_behind_the_machine_code_that_is_shown_are_counted() {
    let Some(()) = perf_events() else { return };
    // 6,000 samples: 8 points are more than 5 standard deviations of 900, if the host takes most of the CPU time.
    let recorder = record().options(&["-r", "4000"]);
    let (recording, profile) = recorder.profile(program("large").unwrap(), &["1500"]);
    let text = annotate(&recording.output, &["large", "--asm", "-C", "0", "--no-lines"]);
    let behind = text.lines().last().unwrap();
    let (share, rest) = behind.split_once(" % (").expect(behind);
    assert!(
        rest.contains(" behind 0x") && rest.ends_with("is too large"),
        "{behind}"
    );
    let expected = if cfg!(target_arch = "x86_64") {
        2.0 / 6.0
    } else {
        5.0 / 6.0
    };
    let expected = expected * profile.share_of("large").percent();
    let share: f64 = share.parse().unwrap();
    assert!((share - expected).abs() < 8.0, "{share} is not {expected}: {behind}");
    assert!(
        text.contains(", the first 4194304 of "),
        "{}",
        text.lines().nth(3).unwrap_or_default()
    );
}

#[test]
fn a_file_that_is_no_source_is_shown_only_if_asked_for_by_path() {
    let dir = crate::support::temp_dir();
    let path = dir.path().join("callgrind.out.1");
    let file = "events: Ir\nfl=/etc/passwd\nfn=f\n1 10\n";
    std::fs::write(&path, file).unwrap();
    let shown = annotate(&path, &["f"]);
    assert!(!shown.contains("root:"), "{shown}");
    let asked_for = "--path-map '/etc/passwd=/etc/passwd'";
    assert!(
        shown.contains("its name is not the name of a source file") && shown.contains(asked_for),
        "{shown}"
    );
    let shown = annotate(&path, &["f", "--path-map", "/etc/passwd=/etc/passwd"]);
    assert!(shown.contains("root:"), "{shown}");
}

#[test]
fn functions_of_one_name_are_one_row_with_the_sum_of_both() {
    let dir = crate::support::temp_dir();
    let path = dir.path().join("two.txt");
    // As `perf script` writes it: two static functions of one name, in two libraries; 2 + 1 samples, of 4.
    let sample = |ms: u32, leaf: &str| {
        format!("app 7 1.{ms:03}: 1000000 cpu-clock:\n\t    1000 {leaf}\n\t    2000 main (/app)\n\n")
    };
    let text = [
        sample(1, "same (/a.so)"),
        sample(2, "same (/a.so)"),
        sample(3, "same (/b.so)"),
        sample(4, "other (/b.so)"),
    ];
    std::fs::write(&path, text.concat()).unwrap();
    let output = crate::support::run::output(crate::support::sprof().arg("annotate").arg(&path).arg("same"));
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(
        shown.contains("self 75.0 % (3 samples), total 75.0 %, of 4 samples"),
        "{shown}\n{output:?}"
    );
}

/// Every number of the text is in the JSON, and the lines and instructions of a function add up to it.
#[test]
fn annotations_are_json_too() {
    let Some(()) = perf_events() else { return };
    // 1,200 samples, or a third of these if the host takes the rest of the CPU time.
    let recorder = record().options(&["-r", "4000"]);
    let (recording, _) = recorder.profile(program("split").unwrap(), &["300"]);
    let text = annotate(&recording.output, &["xorshift", "-C", "1000000", "-f", "json"]);
    let json: serde_json::Value = parsed(&text);
    let samples = |cost: &serde_json::Value| cost["samples"].as_u64().unwrap();
    let own = samples(&json["self"]);
    assert!(own > 100 && samples(&json["whole"]) >= own, "{text}");
    let lines = json["sources"][0]["lines"].as_array().unwrap();
    assert_eq!(
        lines.iter().map(|line| samples(&line["self"])).sum::<u64>(),
        own,
        "{text}"
    );
    assert!(
        lines
            .iter()
            .any(|line| line["text"].as_str().unwrap().contains("xorshift")),
        "{text}"
    );
    // It is inlined into three functions, or has code of its own.
    let code = json["code"].as_array().unwrap();
    assert!(!code.is_empty(), "{text}");
    for code in code.iter().filter(|code| code["unread"].is_null()) {
        let instructions = code["instructions"].as_array().unwrap();
        let sum = instructions
            .iter()
            .map(|instruction| samples(&instruction["self"]))
            .sum::<u64>();
        assert_eq!(
            sum + samples(&code["not_shown"]),
            samples(&code["with_inlined"]),
            "{code}"
        );
    }
    let none = annotate(&recording.output, &["xorshift", "--json", "--time-range", "1000.."]);
    let none: serde_json::Value = parsed(&none);
    assert!(none["function"].is_null() && none["sources"].is_null(), "{none}");
}
