//! `sprof report --view markers` has the numbers and values of what a program did.
#![cfg(target_os = "linux")]

use std::path::Path;

use serde_json::{Value, json};

use crate::support::events::record_events;
use crate::support::run::sprof;
use crate::support::schema::parsed;
use crate::support::skip::{perf_events, tracepoints};
use crate::support::{record, temp_dir};

fn report(file: &Path, options: &[&str]) -> String {
    let mut command = sprof();
    command
        .arg("report")
        .arg(file)
        .args(["--view", "markers"])
        .args(options);
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{options:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn rows(file: &Path, options: &[&str]) -> Vec<Value> {
    let json: Value = parsed(&report(file, &[options, &["-f", "json"]].concat()));
    assert_eq!(json["views"][0]["id"], "markers");
    json["views"][0]["rows"].as_array().unwrap().clone()
}

fn row<'a>(rows: &'a [Value], name: &str) -> &'a Value {
    let found = rows.iter().find(|row| row["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {rows:?}"))
}

/// 320 calls: of 7 100 times, of 11 200 times, and of 1000 to 1019.
#[test]
fn calls_of_a_program_have_their_number_and_their_values() {
    let Some(()) = tracepoints() else { return };
    let event = "syscalls:sys_enter_getpgid";
    let exit = "syscalls:sys_exit_getpgid/period=10/";
    let (recording, _) = record_events(&["-e", &format!("{event},{exit}")], &["values", "100"]);
    let file = recording.output.as_path();
    let all = rows(file, &[]);
    let calls = row(&all, event);
    assert_eq!(
        (&calls["count"], &calls["events"]),
        (&json!(320), &json!(320)),
        "{calls}"
    );
    let field = (calls["fields"].as_array().unwrap().iter()).find(|field| field["key"] == "pid");
    let field = field.unwrap_or_else(|| panic!("{calls}"));
    assert_eq!(
        [
            &field["count"],
            &field["distinct"],
            &field["min"],
            &field["median"],
            &field["max"]
        ],
        [&json!(320), &json!(22), &json!(7), &json!(11), &json!(1019)],
        "{field}"
    );
    assert_eq!(field["frequent"][0], json!({"value": 11, "count": 200}), "{field}");
    assert_eq!(field["frequent"][1], json!({"value": 7, "count": 100}), "{field}");
    assert_eq!(calls["spans"], Value::Null);
    // A marker of every tenth stands for ten.
    let tenths = row(&all, "syscalls:sys_exit_getpgid");
    assert_eq!(
        (&tenths["count"], &tenths["events"]),
        (&json!(32), &json!(320)),
        "{tenths}"
    );

    let text = report(file, &[]);
    assert!(
        text.contains("pid: 7 to 1019, median 11; 11 (62.5 %), 7 (31.2 %) and 20 more values"),
        "{text}"
    );
    assert!(!text.contains("by the kernel's count"), "{text}");
    let markdown = report(file, &["-f", "md"]);
    assert!(
        markdown.contains("| 320 |") && markdown.contains("median 11"),
        "{markdown}"
    );

    // The conditions of all views.
    let number = |options: &[&str]| {
        let rows = rows(file, options);
        rows.iter()
            .find(|row| row["name"] == event)
            .map_or(0, |row| row["count"].as_u64().unwrap())
    };
    assert_eq!(number(&["--focus", "ask_group"]), 320);
    assert_eq!(number(&["--thread", "events"]), 320);
    assert_eq!(number(&["--marker", event]), 320);
    assert_eq!(number(&["-e", event]), 320);
    assert_eq!(number(&["-e", "syscalls:sys_exit_getpgid"]), 0);
    assert_eq!(number(&["--time-range", "1000.."]), 0);
}

/// Each child sleeps for 0.2 s.
#[test]
fn spans_have_the_sum_and_the_longest_of_their_times() {
    let Some(()) = perf_events() else { return };
    let script = "sleep 0.2; sleep 0.2; sleep 0.2; :";
    let (recording, _) = record().profile("/bin/sh", &["-c", script]);
    let all = rows(&recording.output, &["--sort", "total"]);
    let children = row(&all, "Child process");
    // What a process was before it became `sleep` is a child of its own if it has samples: as many shells at most.
    assert!(children["count"].as_u64() >= Some(3), "{children}");
    assert_eq!(children["spans"]["count"], children["count"], "{children}");
    let ms = |key: &str| children["spans"][key].as_f64().unwrap();
    assert!(ms("longest_ms") >= 200.0 && ms("total_ms") >= 600.0, "{children}");
    assert!(ms("longest_ms") < ms("total_ms"), "{children}");
    let names = (children["fields"].as_array().unwrap().iter()).find(|field| field["key"] == "process");
    let frequent = names.unwrap()["frequent"].as_array().unwrap();
    assert!(frequent.contains(&json!({"value": "sleep", "count": 3})), "{children}");
}

#[test]
fn markers_of_other_programs_have_their_fields_and_a_file_without_any_says_so() {
    let folder = temp_dir();
    // What Firefox writes: a start and an end are two markers, texts are indices.
    let profile = json!({
        "meta": {
            "version": 29, "preprocessedProfileVersion": 50, "interval": 1, "startTime": 0, "product": "page",
            "categories": [{"name": "Other", "color": "grey", "subcategories": ["Other"]}],
            "markerSchema": [{"name": "Load", "fields": [
                {"key": "url", "label": "URL", "format": "unique-string"}, {"key": "size", "label": "Size", "format": "bytes"},
            ]}],
        },
        "libs": [],
        "threads": [{
            "name": "page", "processType": "default", "pid": "1", "tid": 1, "isMainThread": true,
            "samples": {"length": 0, "stack": [], "time": []},
            "markers": {
                "length": 5, "name": [0, 0, 0, 0, 1], "phase": [2, 1, 3, 2, 0], "category": [0, 0, 0, 0, 0],
                "startTime": [1, 2, 0, 20, 30], "endTime": [0, 4, 11, 0, 0],
                "data": [
                    {"type": "Load", "url": 2, "size": 2000}, {"type": "Load", "url": 2, "size": 1000},
                    null, {"type": "Load", "url": 3, "size": 500}, null,
                ],
            },
            "stackTable": {"length": 0, "frame": [], "prefix": [], "category": [], "subcategory": []},
            "frameTable": {"length": 0, "address": [], "category": [], "subcategory": [], "func": [], "line": [], "column": [],
                "nativeSymbol": [], "inlineDepth": [], "innerWindowID": []},
            "funcTable": {"length": 0, "name": [], "isJS": [], "relevantForJS": [], "resource": [], "fileName": [],
                "lineNumber": [], "columnNumber": []},
            "resourceTable": {"length": 0, "lib": [], "name": [], "host": [], "type": []},
            "nativeSymbols": {"length": 0, "libIndex": [], "address": [], "name": [], "functionSize": []},
            "stringArray": ["Load", "Frame", "/index", "/other"],
        }],
    });
    let file = folder.path().join("page.json");
    std::fs::write(&file, profile.to_string()).unwrap();
    let all = rows(&file, &[]);
    let loads = row(&all, "Load");
    // From 1 to 11, from 2 to 4, and one that did not end.
    assert_eq!(loads["count"], 3, "{loads}");
    assert_eq!(
        loads["spans"],
        json!({"count": 2, "total_ms": 12, "longest_ms": 10}),
        "{loads}"
    );
    let urls = &loads["fields"][0];
    assert_eq!(
        (&urls["label"], &urls["frequent"][0]),
        (&json!("URL"), &json!({"value": "/index", "count": 2})),
        "{urls}"
    );
    let text = report(&file, &[]);
    assert!(
        text.contains("Size: 500 B (33.3 %), 1.0 kB (33.3 %), 2.0 kB (33.3 %)"),
        "{text}"
    );
    let text = report(&file, &["--time-range", "1000.."]);
    assert!(text.contains("no markers"), "{text}");
}
