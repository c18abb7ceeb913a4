//! Profiles are read whole, in every version of the format, and what does not fit is refused with its place.

use std::io::Write;

use crate::common::*;
use names::symbol::{AddressInfo, FunctionSymbol, SourceFrame};
use profile::data::{Data, NONE, WeightUnit};
use profile::enrich::enrich;
use profile::export::firefox;
use profile::read::{ReadError, ReadLimits, whole};
use proptest::prelude::*;
use serde_json::{Value, json};

fn read(json: &Value) -> Result<Data, ReadError> {
    let mut file = tempfile::Builder::new().prefix("sprof-whole-").tempfile().unwrap();
    file.write_all(&serde_json::to_vec(json).unwrap()).unwrap();
    whole(file.path(), ReadLimits::default())
}

/// `work` calls `leaf`, which inlined `helper`.
fn symbols(address: u64) -> AddressInfo {
    let source = |function: &str, line| SourceFrame {
        function: Some(function.into()),
        file: Some(format!("/src/{function}.rs")),
        declared_in: None,
        line: Some(line),
        column: None,
        krate: Some("app".to_owned()),
    };
    let symbol = |name: &str, start| FunctionSymbol {
        is_named: true,
        name: name.into(),
        start,
        size: Some(0x100),
        v8: None,
        krate: None,
    };
    match address {
        0x000..0x100 => AddressInfo {
            function: Some(symbol("work", 0)),
            frames: vec![source("work", 10)],
        },
        0x100..0x200 => AddressInfo {
            function: Some(symbol("leaf", 0x100)),
            frames: vec![source("helper", 20), source("leaf", 30)],
        },
        _ => AddressInfo::default(),
    }
}

/// Two threads, inlined functions, functions with and without file, a sample without stack, markers.
fn sample() -> Value {
    let mut stream = Stream::with_app();
    stream.thread(1, 2, 0);
    for ms in 0..40 {
        stream.sample(
            1,
            1 + (ms % 2) as i32,
            ms,
            &[ip(0x1110 + ms % 3), ret(0x10_0500), ret(0x1021)],
        );
    }
    stream.sample(1, 1, 50, &[]);
    let mut profile = stream.finish();
    enrich(&mut profile, |module, addresses| {
        (module.name() == "app").then(|| addresses.iter().copied().map(symbols).collect())
    });
    written(&profile)
}

fn column<'a>(table: &'a Value, name: &str) -> &'a Vec<Value> {
    table[name].as_array().unwrap()
}

/// The same profile as an older or newer front end would have saved it.
fn at_version(mut profile: Value, version: u32) -> Value {
    profile["meta"]["preprocessedProfileVersion"] = version.into();
    let libs = column(&profile, "libs").len();
    let shared = &mut profile["shared"];
    if version >= 71 {
        let frames = &mut shared["frameTable"];
        let flags: Vec<u32> = (0..column(frames, "func").len())
            .map(|frame| {
                let known = |name: &str, missing: Value| frames[name][frame] != missing;
                u32::from(known("inlineDepth", json!(0)))
                    | u32::from(known("address", json!(-1)) && known("lib", json!(-1))) << 1
                    | u32::from(known("category", json!(null))) << 2
                    | u32::from(known("nativeSymbol", json!(null))) << 3
                    | u32::from(known("line", json!(null))) << 4
            })
            .collect();
        for name in ["address", "lib", "line", "nativeSymbol"] {
            for value in frames[name].as_array_mut().unwrap() {
                if value.is_null() || *value == -1 {
                    *value = 0.into();
                }
            }
        }
        frames["flags"] = json!(flags);
        frames.as_object_mut().unwrap().remove("inlineDepth");
    }
    if version >= 75 {
        let funcs = &mut shared["funcTable"];
        let flags: Vec<u32> = (0..column(funcs, "name").len())
            .map(|func| {
                u32::from(funcs["resource"][func] != -1) << 2 | u32::from(!funcs["source"][func].is_null()) << 3
            })
            .collect();
        for name in ["resource", "source"] {
            for value in funcs[name].as_array_mut().unwrap() {
                if value.is_null() || *value == -1 {
                    *value = 0.into();
                }
            }
        }
        funcs["flags"] = json!(flags);
    }
    if version < 70 {
        // Resources are libraries, and not crates.
        let lib_of_func = |func: usize| {
            let of_func = column(&shared["frameTable"], "func")
                .iter()
                .position(|of| *of == json!(func));
            of_func.map_or(json!(-1), |frame| shared["frameTable"]["lib"][frame].clone())
        };
        let resources = (0..column(&shared["funcTable"], "name").len()).map(lib_of_func);
        let resources: Vec<Value> = resources.collect();
        shared["funcTable"]["resource"] = json!(resources);
        let libs: Vec<usize> = (0..libs).collect();
        for key in ["name", "host", "type"] {
            let kept = column(&shared["resourceTable"], key)[..libs.len()].to_vec();
            shared["resourceTable"][key] = json!(kept);
        }
        shared["resourceTable"]["length"] = json!(libs.len());
        shared["resourceTable"]["lib"] = json!(libs);
        shared["frameTable"].as_object_mut().unwrap().remove("lib");
    }
    if version < 66 {
        let stacks = &mut shared["stackTable"];
        let prefixes: Vec<Option<usize>> = (column(stacks, "prefixOffset").iter().enumerate())
            .map(|(stack, offset)| Some(stack - offset.as_u64().unwrap() as usize).filter(|prefix| *prefix != stack))
            .collect();
        stacks["prefix"] = json!(prefixes);
        stacks.as_object_mut().unwrap().remove("prefixOffset");
    }
    if version < 58 {
        let files = shared["sources"]["filename"].clone();
        let funcs = &mut shared["funcTable"];
        let names: Vec<Value> = (column(funcs, "source").iter())
            .map(|source| {
                source
                    .as_u64()
                    .map_or(Value::Null, |source| files[source as usize].clone())
            })
            .collect();
        funcs["fileName"] = json!(names);
        funcs.as_object_mut().unwrap().remove("source");
        shared.as_object_mut().unwrap().remove("sources");
    }
    if version < 60 {
        let tables: Vec<(String, Value)> = [
            "stackTable",
            "frameTable",
            "funcTable",
            "resourceTable",
            "nativeSymbols",
        ]
        .map(|name| (name.to_owned(), shared.as_object_mut().unwrap().remove(name).unwrap()))
        .into();
        let texts = (version < 56).then(|| shared["stringArray"].clone());
        for thread in profile["threads"].as_array_mut().unwrap() {
            thread.as_object_mut().unwrap().extend(tables.clone());
            if let Some(texts) = &texts {
                thread["stringArray"] = texts.clone();
            }
        }
        if version < 56 {
            profile.as_object_mut().unwrap().remove("shared");
        }
    }
    profile
}

/// Root first: function, library, file, line, category, inlined.
type Place<'a> = (&'a str, Option<&'a str>, &'a str, u32, &'a str, bool);

/// A sample as a reader sees it: thread, time, weight, stack.
fn shown(data: &Data) -> Vec<(&str, f64, f64, Vec<Place<'_>>)> {
    let stack = |mut stack: u32| {
        let mut frames = Vec::new();
        while stack != NONE {
            let node = data.stacks[stack as usize];
            let frame = data.frames[node.frame as usize];
            frames.push((
                data.func_name(frame.func),
                data.lib_name(frame.func),
                data.text(data.funcs[frame.func as usize].file),
                frame.line,
                data.categories[frame.category as usize].name.as_str(),
                frame.is_inlined(),
            ));
            stack = node.prefix;
        }
        frames.reverse();
        frames
    };
    (data.threads.iter())
        .flat_map(|thread| {
            let samples = thread.samples.iter();
            samples.map(|(time, leaf, weight)| (thread.tid.as_str(), time, weight, stack(leaf)))
        })
        .collect()
}

#[test]
fn every_version_from_50_to_75_shows_the_same_samples() {
    let newest = sample();
    let expected = read(&newest).unwrap();
    assert_eq!((expected.threads.len(), expected.unit), (2, WeightUnit::Samples));
    let samples = shown(&expected);
    assert_eq!(samples.len(), 41);
    let program = |function, file, line, inlined| (function, Some("app"), file, line, "Program", inlined);
    assert_eq!(
        samples[1].3,
        [
            program("work", "/src/work.rs", 10, false),
            ("0x4ff", Some("libc.so.6"), "", NONE, "System library", false),
            program("leaf", "/src/leaf.rs", 30, false),
            program("helper", "/src/helper.rs", 20, true),
        ]
    );
    assert_eq!((samples[1].0, samples[1].1, samples[1].2), ("1", 2.0, 1.0));
    for version in 49..=75 {
        let data = read(&at_version(newest.clone(), version)).unwrap_or_else(|error| panic!("{version}: {error}"));
        assert_eq!(shown(&data), samples, "version {version}");
        assert_eq!(data.funcs.len(), expected.funcs.len(), "version {version}");
    }
}

#[test]
fn equal_weights_show_the_same_as_none() {
    let weighted = sample();
    assert_eq!(weighted["threads"][0]["samples"]["weightType"], "tracing-ms");
    let expected = read(&weighted).unwrap();
    assert_eq!((expected.unit, expected.interval_ms), (WeightUnit::Samples, 1.0));
    // As sprof wrote it before.
    let mut without = weighted.clone();
    for thread in without["threads"].as_array_mut().unwrap() {
        thread["samples"]["weight"] = Value::Null;
        thread["samples"]["weightType"] = "samples".into();
    }
    let data = read(&without).unwrap();
    assert_eq!((data.unit, data.interval_ms), (WeightUnit::Samples, 1.0));
    assert_eq!(shown(&data), shown(&expected));

    // Samples of another length than the interval: a fixed number of cycles.
    let mut longer = weighted.clone();
    for thread in longer["threads"].as_array_mut().unwrap() {
        for weight in thread["samples"]["weight"].as_array_mut().unwrap() {
            *weight = 2.5.into();
        }
    }
    let data = read(&longer).unwrap();
    assert_eq!((data.unit, data.interval_ms), (WeightUnit::Samples, 2.5));

    let mut different = weighted;
    different["threads"][1]["samples"]["weight"][0] = 0.5.into();
    let data = read(&different).unwrap();
    assert_eq!((data.unit, data.interval_ms), (WeightUnit::Milliseconds, 1.0));
    assert_eq!(data.threads[1].samples.weight.as_ref().unwrap()[0], 0.5);
}

#[test]
fn waits_of_earlier_profiles_of_sprof_are_known_by_the_names_of_their_categories() {
    let waits = |profile: &Value| -> Vec<String> {
        let categories = read(profile).unwrap().categories;
        let waits = categories.into_iter().filter(|category| category.is_wait);
        waits.map(|category| category.name).collect()
    };
    let mut profile = sample();
    assert_eq!(waits(&profile), ["Idle"]);
    let categories = profile["meta"]["categories"].as_array_mut().unwrap();
    for category in categories.iter_mut().filter(|category| category["name"] == "Idle") {
        category["name"] = "Off-CPU".into();
        category.as_object_mut().unwrap().remove("isWait");
    }
    categories.push(json!({"name": "Waiting for a CPU", "color": "red", "subcategories": ["Other"]}));
    assert_eq!(waits(&profile), ["Off-CPU", "Waiting for a CPU"]);
    // In files of others these are names as any other.
    profile["meta"].as_object_mut().unwrap().remove("sprof");
    assert!(waits(&profile).is_empty());
}

#[test]
fn versions_that_are_not_known_are_refused_with_what_to_do() {
    for (version, step) in [(48, "save it from there"), (76, "update sprof")] {
        let mut profile = sample();
        profile["meta"]["preprocessedProfileVersion"] = version.into();
        let error = read(&profile).unwrap_err().to_string();
        assert!(error.contains(&version.to_string()) && error.contains(step), "{error}");
    }
    let mut gecko = sample();
    gecko["meta"]
        .as_object_mut()
        .unwrap()
        .remove("preprocessedProfileVersion");
    let step = "open a profile of Firefox itself in the Firefox Profiler and save it from there";
    assert!(read(&gecko).unwrap_err().to_string().contains(step));

    // Firefox itself writes rows, where the front end has columns.
    for table in ["samples", "markers"] {
        gecko["threads"][0][table] = json!({"schema": {"stack": 0, "time": 1}, "data": [[null, 1.5], [0, 2.5, [3]]]});
    }
    gecko["meta"]["version"] = 34.into();
    let error = read(&gecko).unwrap_err().to_string();
    assert!(error.contains(step), "{error}");
}

#[test]
fn what_points_beyond_its_table_is_named_with_its_place() {
    let cases = [
        (
            "/threads/1/samples/stack/3",
            json!(99999),
            "threads[1].samples.stack[3] is 99999, but there are",
        ),
        (
            "/shared/stackTable/frame/0",
            json!(5000),
            "shared.stackTable.frame[0] is 5000",
        ),
        (
            "/shared/stackTable/prefixOffset/1",
            json!(2),
            "shared.stackTable.prefixOffset[1] is 2",
        ),
        (
            "/shared/frameTable/func/2",
            json!(null),
            "shared.frameTable.func[2] is missing",
        ),
        (
            "/shared/frameTable/lib/0",
            json!(77),
            "shared.frameTable.lib[0] is 77, but there are 2 libraries",
        ),
        (
            "/shared/funcTable/name/1",
            json!(123_456),
            "shared.funcTable.name[1] is 123456",
        ),
        (
            "/shared/funcTable/crate/1",
            json!(123_456),
            "shared.funcTable.crate[1] is 123456",
        ),
        (
            "/threads/0/samples/timeDeltas",
            json!([1, 2]),
            "threads[0].samples.time has 2 values",
        ),
        ("/threads/0/samples/length", json!(3), "threads[0].samples.length is 3"),
    ];
    for (pointer, value, expected) in cases {
        let mut profile = sample();
        *profile.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value;
        let error = read(&profile).unwrap_err().to_string();
        assert!(error.contains(expected), "{pointer}: {error}");
    }
    let mut profile = sample();
    profile["shared"]["frameTable"]["line"][0] = json!("ten");
    let error = read(&profile).unwrap_err().to_string();
    assert!(
        error.contains("expected an index, null or -1") && error.contains("line 1, byte "),
        "{error}"
    );
}

#[test]
fn more_values_than_allowed_are_refused_before_they_are_kept() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&serde_json::to_vec(&sample()).unwrap()).unwrap();
    let limits = ReadLimits {
        values: 100,
        ..ReadLimits::default()
    };
    let error = whole(file.path(), limits).unwrap_err();
    assert!(matches!(error, ReadError::TooLarge { .. }), "{error}");
}

proptest! {
    #![proptest_config(crate::damage::cases(256))]

    /// Any number anywhere: read or refused, never a panic, and all that is read points into its tables.
    #[test]
    fn damaged_tables_never_panic(place in 0usize..400, value in prop_oneof![-2i64..100, any::<i64>()], version in 50u32..=75) {
        let mut profile = at_version(sample(), version);
        let mut left = place;
        damage(&mut profile, &mut left, value);
        if let Ok(data) = read(&profile) {
            let _ = shown(&data);
        }
    }
}

/// Replaces the number at this place, in the order of the file.
fn damage(json: &mut Value, left: &mut usize, value: i64) {
    match json {
        Value::Number(_) if *left == 0 => *json = value.into(),
        Value::Number(_) => *left -= 1,
        Value::Array(items) => items.iter_mut().for_each(|item| damage(item, left, value)),
        Value::Object(fields) => fields.values_mut().for_each(|field| damage(field, left, value)),
        _ => {}
    }
}

#[test]
fn version_55_shows_what_the_newer_one_shows() {
    let newest = sample();
    let expected = read(&newest).unwrap();
    for version in 56..=75 {
        let v55 = as_v55(&at_version(newest.clone(), version)).unwrap();
        assert_eq!(v55["meta"]["preprocessedProfileVersion"], 55);
        assert_eq!(shown(&read(&v55).unwrap()), shown(&expected), "{version}");
        let texts: Vec<&str> = column(&v55["threads"][0], "stringArray")
            .iter()
            .map(|text| text.as_str().unwrap())
            .collect();
        assert!(
            texts.contains(&"work") && !texts.iter().any(|text| text.is_empty()),
            "{texts:?}"
        );
    }
    let error = as_v55(&at_version(newest, 76)).unwrap_err().to_string();
    assert!(error.contains("76"), "{error}");
}

/// Adds a field that no front end knows to each object, and a column to each table.
fn with_foreign(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(with_foreign),
        Value::Object(fields) => {
            fields.values_mut().for_each(with_foreign);
            let rows = fields.get("length").and_then(Value::as_u64);
            fields.insert("x-foreign".into(), json!({"by": "another tool", "number": 0.1}));
            if let Some(rows) = rows {
                let column: Vec<String> = (0..rows).map(|row| format!("row {row}")).collect();
                fields.insert("x-column".into(), json!(column));
            }
        }
        _ => {}
    }
}

/// Paths to all objects; those in lists of them by their place.
fn objects(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Array(values) => {
            (values.iter().enumerate()).for_each(|(at, value)| objects(value, &format!("{path}/{at}"), found))
        }
        Value::Object(fields) => {
            found.push(path.to_owned());
            let fields = fields.iter().filter(|(key, _)| *key != "x-foreign");
            fields.for_each(|(key, value)| objects(value, &format!("{path}/{key}"), found));
        }
        _ => {}
    }
}

#[test]
fn version_55_keeps_fields_that_are_not_known() {
    let mut newest = sample();
    // What else a profile may hold: a marker with a text and a stack, counters, something above all.
    newest["meta"]["markerSchema"] =
        json!([{"name": "Text", "display": [], "fields": [{"key": "text", "format": "unique-string"}]}]);
    newest["counters"] = json!([{"name": "c", "samples": {"length": 2, "count": [1, 2]}}]);
    newest["another"] = json!({"tool": [1, 2.5e-7, "x"]});
    let stack = newest["threads"][1]["samples"]["stack"][3].clone();
    newest["threads"][1]["markers"] = json!({
        "length": 1, "name": [1], "startTime": [0.125], "endTime": [null], "phase": [0], "category": [0],
        "data": [{"type": "Text", "text": 2, "cause": {"time": 1, "stack": stack}}],
    });
    with_foreign(&mut newest);
    let v55 = as_v55(&newest).unwrap();
    let mut again = Vec::new();
    firefox::write_data(&read_all(&newest), &mut again).unwrap();
    let again: Value = serde_json::from_slice(&again).unwrap();

    let mut before = Vec::new();
    objects(&newest, "", &mut before);
    // Rows of tables that are made anew: columns of these that are not known are not read.
    let is_made = |path: &str| {
        let of_thread = path.strip_prefix("/threads/").and_then(|path| path.split_once('/'));
        path.starts_with("/shared")
            || path.starts_with("/libs/")
            || path.starts_with("/meta/categories/")
            || of_thread.is_some_and(|(_, table)| table == "markers")
    };
    let kept: Vec<&String> = before.iter().filter(|path| !is_made(path)).collect();
    assert!(kept.len() > 28, "{kept:?}");
    for (version, written) in [("55", &v55), ("70", &again)] {
        for path in &kept {
            assert_eq!(
                written.pointer(&format!("{path}/x-foreign")),
                Some(&json!({"by": "another tool", "number": 0.1})),
                "{version}: {path}"
            );
        }
        assert_eq!(written["another"], newest["another"], "{version}");
        assert_eq!(
            written["counters"][0]["samples"], newest["counters"][0]["samples"],
            "{version}"
        );
        let samples = &written["threads"][1]["samples"];
        assert_eq!(
            samples["x-column"], newest["threads"][1]["samples"]["x-column"],
            "{version}"
        );
        assert_eq!(
            samples["length"], newest["threads"][1]["samples"]["length"],
            "{version}"
        );
    }
    let (old, own) = (&newest["shared"], &v55["threads"][1]);
    let text = |table: &Value, index: &Value| table["stringArray"][index.as_u64().unwrap() as usize].clone();
    // The marker's indexes are those of the thread's own tables.
    let marker = &own["markers"]["data"][0];
    assert_eq!(text(own, &marker["text"]), text(old, &json!(2)));
    assert_eq!(text(own, &own["markers"]["name"][0]), text(old, &json!(1)));
    assert_eq!(marker["cause"]["stack"], own["samples"]["stack"][3]);
}

#[test]
fn version_55_of_a_profile_that_contradicts_itself_is_an_error() {
    let newest = sample();
    for (path, value, expected) in [
        (
            "/shared/stackTable/frame/0",
            json!(9999),
            "shared.stackTable.frame[0] is 9999, but there are",
        ),
        (
            "/shared/stackTable/prefixOffset/1",
            json!(9),
            "shared.stackTable.prefixOffset[1] is 9: before the first stack",
        ),
        (
            "/shared/frameTable/func/0",
            json!(-1),
            "shared.frameTable.func[0] is missing",
        ),
        (
            "/threads/0/samples/stack/0",
            json!(9999),
            "threads[0].samples.stack[0] is 9999, but there are",
        ),
        ("/threads/0", json!(7), "an object"),
    ] {
        let mut damaged = newest.clone();
        *damaged.pointer_mut(path).unwrap() = value;
        let error = as_v55(&damaged).unwrap_err().to_string();
        assert!(error.contains(expected), "{path}: {error}");
    }
}
