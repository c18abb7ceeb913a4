//! What the front end takes for granted of a profile of version 70 (src/types/profile.ts): tables of equal columns, and
//! indexes that are in range.

use serde_json::Value;

/// Panics, saying where, if the profile is not sound.
pub(crate) fn check(json: &Value) {
    let shared = &json["shared"];
    assert_eq!(json["meta"]["preprocessedProfileVersion"], 70);
    let libs = json["libs"].as_array().unwrap().len();
    for lib in json["libs"].as_array().unwrap() {
        for key in ["arch", "name", "path", "debugName", "debugPath", "breakpadId"] {
            assert!(lib[key].is_string(), "libs[].{key}");
        }
        assert!(!lib["debugName"].as_str().unwrap().contains('/'));
        assert_eq!(lib["breakpadId"].as_str().unwrap().len(), 33);
    }
    let strings = shared["stringArray"].as_array().unwrap();
    assert!(strings.iter().all(Value::is_string));
    let strings = strings.len();

    let stacks = table(shared, "stackTable", &["frame", "prefixOffset"]);
    let frames = table(
        shared,
        "frameTable",
        &[
            "address",
            "lib",
            "inlineDepth",
            "category",
            "subcategory",
            "func",
            "nativeSymbol",
            "innerWindowID",
            "line",
            "column",
            "originalLocation",
        ],
    );
    let funcs = table(
        shared,
        "funcTable",
        &[
            "name",
            "isJS",
            "relevantForJS",
            "resource",
            "source",
            "lineNumber",
            "columnNumber",
            "originalLocation",
        ],
    );
    let resources = table(shared, "resourceTable", &["name", "host", "type"]);
    let symbols = table(
        shared,
        "nativeSymbols",
        &["libIndex", "address", "name", "functionSize"],
    );
    let sources = table(
        shared,
        "sources",
        &["id", "filename", "startLine", "startColumn", "sourceMapURL", "content"],
    );
    table(shared, "sourceLocationTable", &["source", "line", "column"]);

    let column = |table: &str, key: &str| shared[table][key].as_array().unwrap().clone();
    in_range(&column("stackTable", "frame"), frames, "stackTable.frame");
    for (stack, offset) in column("stackTable", "prefixOffset").iter().enumerate() {
        assert!(
            offset.as_u64().unwrap() <= stack as u64,
            "stackTable.prefixOffset[{stack}]"
        );
    }
    in_range(&column("frameTable", "func"), funcs, "frameTable.func");
    in_range_or(&column("frameTable", "lib"), libs, -1, "frameTable.lib");
    in_range(
        &column("frameTable", "nativeSymbol"),
        symbols,
        "frameTable.nativeSymbol",
    );
    for (frame, address) in column("frameTable", "address").iter().enumerate() {
        let has_lib = column("frameTable", "lib")[frame] != -1;
        assert_eq!(
            *address != -1,
            has_lib,
            "frame {frame}: an address is relative to a library"
        );
    }
    in_range(&column("funcTable", "name"), strings, "funcTable.name");
    in_range(&column("funcTable", "source"), sources, "funcTable.source");
    in_range_or(&column("funcTable", "resource"), resources, -1, "funcTable.resource");
    in_range(&column("resourceTable", "name"), strings, "resourceTable.name");
    in_range(&column("nativeSymbols", "libIndex"), libs, "nativeSymbols.libIndex");
    in_range(&column("nativeSymbols", "name"), strings, "nativeSymbols.name");
    in_range(&column("sources", "filename"), strings, "sources.filename");
    check_categories(json);

    let threads = json["threads"].as_array().unwrap();
    assert!(!threads.is_empty(), "the front end refuses a profile without threads");
    for thread in threads {
        check_thread(json, thread, stacks, strings);
    }
    for counter in json["counters"].as_array().into_iter().flatten() {
        table(counter, "samples", &["time", "count"]);
        let thread = counter["mainThreadIndex"].as_u64().unwrap() as usize;
        assert_eq!(threads[thread]["pid"], counter["pid"]);
        for key in ["graphType", "unit", "color", "label"] {
            assert!(counter["display"][key].is_string(), "counters[].display.{key}");
        }
    }
    for key in ["initialVisibleThreads", "initialSelectedThreads"] {
        let list = json["meta"][key].as_array().unwrap();
        assert!(!list.is_empty(), "{key}");
        in_range(list, threads.len(), key);
    }
}

fn check_categories(json: &Value) {
    let categories = json["meta"]["categories"].as_array().unwrap();
    let frames = &json["shared"]["frameTable"];
    for (frame, category) in frames["category"].as_array().unwrap().iter().enumerate() {
        let subcategories = categories[category.as_u64().unwrap() as usize]["subcategories"]
            .as_array()
            .unwrap();
        let subcategory = frames["subcategory"][frame].as_u64().unwrap();
        assert!((subcategory as usize) < subcategories.len(), "frame {frame}");
    }
}

fn check_thread(json: &Value, thread: &Value, stacks: usize, strings: usize) {
    let samples = table(thread, "samples", &["stack", "timeDeltas", "weight"]);
    in_range(thread["samples"]["stack"].as_array().unwrap(), stacks, "samples.stack");
    // Without weights the front end takes the gaps between samples for their time.
    if thread["event"].is_null() {
        assert_eq!(thread["samples"]["weightType"], "tracing-ms");
        table(thread, "samples", &["threadCPUDelta"]);
    }
    let weights = thread["samples"]["weight"].as_array().unwrap();
    assert!(weights.iter().all(|ms| ms.as_f64().is_some_and(|ms| ms >= 0.0)));
    for (at, delta) in thread["samples"]["timeDeltas"].as_array().unwrap().iter().enumerate() {
        assert!(
            at == 0 || delta.as_f64().unwrap() >= 0.0,
            "times go backwards at {at} of {samples}"
        );
    }
    table(
        thread,
        "markers",
        &["data", "name", "startTime", "endTime", "phase", "category"],
    );
    let markers = &thread["markers"];
    in_range(markers["name"].as_array().unwrap(), strings, "markers.name");
    let schemas = json["meta"]["markerSchema"].as_array().unwrap();
    for data in markers["data"].as_array().unwrap() {
        let schema = schemas.iter().find(|schema| schema["name"] == data["type"]);
        let schema = schema.unwrap_or_else(|| panic!("no schema for {data}"));
        let fields = schema["fields"].as_array().unwrap();
        for key in data.as_object().unwrap().keys().filter(|key| *key != "type") {
            assert!(
                fields.iter().any(|field| field["key"] == **key),
                "{key} is not in the schema"
            );
        }
    }
    assert!(thread["pid"].is_string() && thread["tid"].is_string());
    assert!(thread["processStartupTime"].is_number() && thread["registerTime"].is_number());
}

/// Checks that the columns are there and as long as the table says; returns its length.
fn table(parent: &Value, name: &str, columns: &[&str]) -> usize {
    let table = &parent[name];
    let length = table["length"].as_u64().unwrap_or_else(|| panic!("{name}.length"));
    for column in columns {
        let values = table[*column].as_array().unwrap_or_else(|| panic!("{name}.{column}"));
        assert_eq!(values.len() as u64, length, "{name}.{column}");
    }
    length as usize
}

fn in_range(values: &[Value], len: usize, what: &str) {
    for value in values.iter().filter(|value| !value.is_null()) {
        let index = value.as_u64().unwrap_or_else(|| panic!("{what}: {value}"));
        assert!(index < len as u64, "{what}: {index} of {len}");
    }
}

fn in_range_or(values: &[Value], len: usize, sentinel: i64, what: &str) {
    for value in values {
        let index = value.as_i64().unwrap_or_else(|| panic!("{what}: {value}"));
        assert!(
            index == sentinel || (0..len as i64).contains(&index),
            "{what}: {index} of {len}"
        );
    }
}
