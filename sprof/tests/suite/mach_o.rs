//! A profile of a Mac, read on another system that has its files: names, inlined functions, lines, sources and
//! assembly.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::schema::parsed;
use crate::support::{sprof, temp_dir};

/// Programs with llvm-symbolizer's answers, which `make` in this folder has made.
fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../symbolicator/tests/mach_o")
}

/// The address, relative to `__TEXT`, of the first answer with these functions, innermost first.
fn address_of(arch: &str, functions: &[&str]) -> u64 {
    let text = fs::read_to_string(fixtures().join(arch).join("answers.txt")).unwrap();
    let (addresses, answers) = text.split_once("\n\n").unwrap();
    let is_it = |answer: &str| answer.lines().step_by(2).collect::<Vec<_>>() == functions;
    let at = answers.split("\n\n").position(is_it).unwrap();
    let address = addresses.lines().nth(at).unwrap();
    u64::from_str_radix(address.strip_prefix("0x1").unwrap(), 16).unwrap()
}

/// LC_UUID, as profilers write it: 0x1b, 24, and the id.
fn uuid(arch: &str) -> String {
    let file = fs::read(fixtures().join(arch).join("words")).unwrap();
    let at = file
        .windows(8)
        .position(|bytes| bytes == [0x1b, 0, 0, 0, 24, 0, 0, 0])
        .unwrap();
    file[at + 8..at + 24].iter().map(|byte| format!("{byte:02X}")).collect()
}

/// What samply saves on a Mac without `--unstable-presymbolicate`: 30 samples in `outer`, called by `main`.
fn saved(folder: &Path, arch: &str, name_of_arch: &str) -> PathBuf {
    let addresses = [
        address_of(arch, &["main"]),
        address_of(arch, &["innermost", "middle", "outer"]),
    ];
    let names = addresses.map(|address| format!("0x{address:x}"));
    let uuid = uuid(arch);
    let path = "/Users/someone/words";
    let profile = json!({
        "meta": {"version": 24, "preprocessedProfileVersion": 49, "product": "words", "oscpu": "macOS 15.1", "interval": 1, "startTime": 0,
                 "symbolicated": false, "categories": [{"name": "User", "color": "yellow", "subcategories": ["Other"]}]},
        "libs": [{"name": "words", "path": path, "debugName": "words", "debugPath": path, "breakpadId": format!("{uuid}0"), "codeId": uuid,
                  "arch": name_of_arch}],
        "threads": [{
            "name": "words", "processName": "words", "pid": "1", "tid": "1", "isMainThread": true, "processType": "default",
            "processStartupTime": 0, "registerTime": 0, "markers": {"length": 0},
            "stringArray": [names[0], names[1], "words"],
            "frameTable": {"length": 2, "address": addresses, "inlineDepth": [0, 0], "category": [0, 0], "subcategory": [0, 0], "func": [0, 1],
                           "nativeSymbol": [null, null], "line": [null, null], "column": [null, null]},
            "funcTable": {"length": 2, "name": [0, 1], "isJS": [false, false], "relevantForJS": [false, false], "resource": [0, 0],
                          "fileName": [null, null], "lineNumber": [null, null], "columnNumber": [null, null]},
            "nativeSymbols": {"length": 0, "address": [], "functionSize": [], "libIndex": [], "name": []},
            "resourceTable": {"length": 1, "lib": [0], "name": [2], "host": [null], "type": [1]},
            "stackTable": {"length": 2, "prefix": [null, 0], "frame": [0, 1], "category": [0, 0], "subcategory": [0, 0]},
            "samples": {"length": 30, "weightType": "samples", "stack": vec![1; 30], "time": (0..30).collect::<Vec<_>>(), "weight": vec![1; 30],
                        "threadCPUDelta": vec![1000; 30]},
        }],
    });
    let file = folder.join(format!("{arch}.json"));
    fs::write(&file, profile.to_string()).unwrap();
    file
}

fn printed(command: &str, file: &Path, options: &[&str], arch: &str) -> String {
    let mut sprof = sprof();
    sprof.arg(command).arg(file).args(options);
    sprof.arg("--symbol-dir").arg(fixtures().join(arch));
    let output = sprof.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_profile_of_a_mac_gets_names_lines_and_assembly_on_another_system() {
    let dir = temp_dir();
    for (arch, name_of_arch, call) in [("aarch64", "arm64", "bl "), ("x86_64", "x86_64", "call ")] {
        let file = saved(dir.path(), arch, name_of_arch);
        let rows = |view: &str| {
            let text = printed("report", &file, &["--format", "json", "--view", view], arch);
            let report: Value = parsed(&text);
            report["views"][0]["rows"].as_array().unwrap().clone()
        };
        let functions: BTreeSet<String> = (rows("functions").iter())
            .map(|row| row["function"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(
            functions,
            ["innermost", "main", "middle", "outer"].map(str::to_owned).into()
        );
        let lines = rows("lines");
        assert!(lines[0]["file"].as_str().unwrap().ends_with("main.c"), "{lines:?}");

        let map = format!("--path-map=/src={}", fixtures().display());
        let annotated = printed("annotate", &file, &["outer", &map], arch);
        assert!(annotated.contains("return middle(x) + hidden(x);"), "{annotated}");
        let assembly = printed("annotate", &file, &["outer", "--asm", "--no-lines", "-C", "1000"], arch);
        assert!(assembly.contains(call) && assembly.contains("<hidden>"), "{assembly}");
    }
}
