//! One function is one row, whatever files its lines come from.
#![cfg(target_os = "linux")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::support::schema::parsed;
use crate::support::skip::perf_events;
use crate::support::{Profile, program, sprof, temp_dir};

fn output(arguments: &[&str]) -> Vec<u8> {
    let output = sprof().args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stderr}");
    output.stdout
}

/// A recording of the program, in this file.
fn recorded(program: &Path, file: &Path) -> Profile {
    let [program, path] = [program, file].map(|path| path.to_str().unwrap());
    output(&["record", "-s", "-q", "-r", "4000", "-o", path, program]);
    Profile::read(file)
}

/// How many rows each function has, and the last part of the path of its file.
fn rows(json: &Value) -> BTreeMap<String, Vec<String>> {
    let shared = &json["shared"];
    let text = |of: &Value| shared["stringArray"][of.as_u64().unwrap() as usize].as_str().unwrap();
    let functions = &shared["funcTable"];
    let mut rows: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, source) in (functions["name"].as_array().unwrap().iter()).zip(functions["source"].as_array().unwrap()) {
        let file = source
            .as_u64()
            .map(|row| text(&shared["sources"]["filename"][row as usize]));
        let file = file.and_then(|file| file.rsplit('/').next()).unwrap_or_default();
        rows.entry(text(name).to_owned()).or_default().push(file.to_owned());
    }
    rows
}

/// The functions of `sprof report` with their own samples, as often as they stand there.
fn reported(file: &Path) -> Vec<String> {
    let json = output(&[
        "report",
        file.to_str().unwrap(),
        "--view",
        "functions",
        "--format",
        "json",
    ]);
    let json: Value = parsed(&json);
    let functions = json["views"][0]["rows"]
        .as_array()
        .unwrap_or_else(|| panic!("{json:#}"));
    let names = functions.iter().map(|row| row["function"].as_str().unwrap().to_owned());
    let ours = ["interpret", "inlined", "parse"];
    let mut names: Vec<String> = names.filter(|name| ours.contains(&name.as_str())).collect();
    names.sort();
    names
}

#[test]
fn a_function_of_several_files_is_one_row_everywhere() {
    let Some(()) = perf_events() else { return };
    for dwarf in ["several_files_dwarf4", "several_files_dwarf5"] {
        let program = program(dwarf).unwrap();
        let folder = temp_dir();
        let file = folder.path().join("profile.json.gz");
        let path = file.to_str().unwrap();
        let profile = recorded(&program, &file);
        let rows = rows(&profile.json);
        for function in ["interpret", "inlined", "parse"] {
            assert_eq!(rows[function], ["several_files.c"], "{dwarf}: {function}");
        }

        // Each line is in its own file.
        let mut lines: BTreeMap<&str, BTreeSet<(&str, u32)>> = BTreeMap::new();
        for frame in &profile.frames {
            let file = frame.file.as_deref().and_then(|file| file.rsplit('/').next());
            if let (Some(file), Some(line)) = (file, frame.line) {
                lines.entry(&frame.function).or_default().insert((file, line));
            }
        }
        for function in ["interpret", "inlined"] {
            let bodies = [("several_files_first.h", 4), ("several_files_second.h", 4)];
            let known = &lines[function];
            for (body, last) in bodies {
                assert!(known.iter().any(|(file, _)| *file == body), "{dwarf}: {known:?}");
                assert!(
                    known.iter().all(|(file, line)| *file != body || *line <= last),
                    "{known:?}"
                );
            }
        }
        let known = &lines["parse"];
        assert!(
            known
                .iter()
                .any(|(file, line)| *file == "grammar.y" && (70..=80).contains(line)),
            "{known:?}"
        );

        let once = ["inlined", "interpret", "parse"];
        assert_eq!(reported(&file), once, "{dwarf}");
        for format in ["pprof", "callgrind", "speedscope"] {
            let exported = folder.path().join(format!("exported.{format}"));
            output(&[
                "export",
                "-q",
                "--format",
                format,
                "-o",
                exported.to_str().unwrap(),
                path,
            ]);
            if format != "speedscope" {
                assert_eq!(reported(&exported), once, "{dwarf}: {format}");
                continue;
            }
            let json: Value = serde_json::from_slice(&std::fs::read(&exported).unwrap()).unwrap();
            let frames = json["shared"]["frames"].as_array().unwrap();
            let named = |name: &str| frames.iter().filter(|frame| frame["name"] == name).count();
            assert_eq!(once.map(named), [1; 3], "{dwarf}");
        }

        // The hottest lines are those of both files.
        let annotated = String::from_utf8(output(&["annotate", path, "interpret"])).unwrap();
        for body in ["several_files_first.h", "several_files_second.h"] {
            assert!(annotated.contains(body), "{annotated}");
        }
        assert!(
            annotated.contains("sum ^= sum >> 7;") && annotated.contains("sum ^= sum << 3;"),
            "{annotated}"
        );
    }
}

/// A file as older versions wrote it: the file of a function was that of the line.
#[test]
fn a_profile_that_has_a_function_twice_is_read_as_one() {
    let Some(()) = perf_events() else { return };
    let program = program("several_files_dwarf5").unwrap();
    let folder = temp_dir();
    let file = folder.path().join("profile.json.gz");
    let mut json = recorded(&program, &file).json;
    let shared = json["shared"].take();
    json["shared"] = with_files_of_lines(shared);
    let old = folder.path().join("old.json");
    std::fs::write(&old, json.to_string()).unwrap();
    assert_eq!(rows(&json)["interpret"].len(), 3, "one without samples of its own");
    // Of inlined functions, no symbol says that they are the same.
    let one = |names: Vec<String>| names.iter().filter(|name| *name == "interpret").count();
    assert_eq!(one(reported(&old)), 1);
    // Beside a new one, whose functions have other files.
    let both = folder.path().join("both.json.gz");
    let words = [&both, &old, &file].map(|path| path.to_str().unwrap());
    output(&["merge", "-q", "-o", words[0], words[1], words[2]]);
    assert_eq!(rows(&Profile::read(&both).json)["interpret"].len(), 1);
}

#[test]
fn no_function_with_debug_info_has_a_mangled_name_and_each_has_its_class() {
    let Some(()) = perf_events() else { return };
    let Some(program) = program("scopes") else { return };
    let folder = temp_dir();
    let file = folder.path().join("profile.json.gz");
    let names: Vec<String> = rows(&recorded(&program, &file).json).into_keys().collect();
    assert!(!names.iter().any(|name| name.starts_with("_Z")), "{names:?}");
    for part in ["(anonymous namespace)::Worker::step", "outside::run"] {
        assert!(names.iter().any(|name| name.starts_with(part)), "{part}: {names:?}");
    }
    let lambdas: Vec<&String> = names.iter().filter(|name| name.contains("operator()")).collect();
    let has_path = |name: &&String| name.starts_with("outside::run(unsigned long)::");
    assert!(lambdas.iter().any(has_path), "{names:?}");
    // The other one is that of `make`: clang gives its type no name.
    assert_eq!(lambdas.len(), 2, "{names:?}");
}

/// Gives each frame with a line of another file a function of that file.
fn with_files_of_lines(mut shared: Value) -> Value {
    let frames = shared["frameTable"]["length"].as_u64().unwrap() as usize;
    let mut made: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for frame in 0..frames {
        let Some(row) = shared["frameTable"]["originalLocation"][frame].as_u64() else {
            continue;
        };
        let func = shared["frameTable"]["func"][frame].as_u64().unwrap();
        let table = |key: &str| shared["sourceLocationTable"][key][row as usize].as_u64().unwrap();
        let (source, line) = (table("source"), table("line"));
        let next = shared["funcTable"]["length"].as_u64().unwrap();
        let new = *made.entry((func, source)).or_insert(next);
        if new == next {
            for (key, column) in shared["funcTable"].as_object_mut().unwrap() {
                match column.as_array_mut() {
                    Some(column) if key == "source" => column.push(source.into()),
                    Some(column) => column.push(column[func as usize].clone()),
                    None => *column = (next + 1).into(),
                }
            }
        }
        let frame_table = &mut shared["frameTable"];
        frame_table["func"][frame] = new.into();
        frame_table["line"][frame] = line.into();
        frame_table["originalLocation"][frame] = Value::Null;
    }
    shared
}
