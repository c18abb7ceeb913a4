//! A profile that others will see: nothing private is in any string of the file, and every share is as before.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;

use crate::common::*;
use profile::data::{Data, NONE, SavedData};
use profile::export::firefox::write_data;
use profile::read::{ReadLimits, everything};
use profile::sanitize::{KeptPrivate, PrivateWords, RemovedCounts, sanitize};
use serde_json::{Value, json};

const SECRETS: [&str; 5] = [
    "annaplant",
    "plantbox",
    "argumentplant",
    "tokenplant",
    "environmentplant",
];
/// It names no one, and may stay.
const COMMIT: &str = "1f0b7a66c1d2e3f405162738495a6b7c8d9e0f10";
/// All that is private, in one text.
const PLANT: &str =
    " /home/annaplant/x/y/z/f.c annaplant@plantbox.example.org APP_KEY=environmentplant argumentplant --key=tokenplant";
/// What a function's name may hold of it.
const PLANT_IN_CODE: &str = " at /home/annaplant/x/y/z/f.c:3 of environmentplant";

fn private() -> PrivateWords {
    PrivateWords {
        homes: vec!["/home/annaplant".into()],
        users: vec!["annaplant".into()],
        hosts: vec!["plantbox.example.org".into()],
        values: vec!["environmentplant".into()],
    }
}

/// The file of a recording of two threads.
fn recorded() -> Value {
    let mut stream = Stream::with_app();
    stream.thread(1, 2, 0);
    stream.rename(1, 2, "worker", 3);
    for (ms, at) in (0..).zip([0x1110, 0x1110, 0x1220, 0x1330]) {
        stream.sample(1, 1 + (ms % 2) as i32, ms, &[ip(at), ret(0x1021)]);
    }
    let mut bytes = Vec::new();
    let mut profile = stream.finish();
    profile.set_commit(Some(COMMIT.to_owned()));
    write_data(&SavedData::from(&profile), &mut bytes).unwrap();
    let mut json: Value = serde_json::from_slice(&bytes).unwrap();
    // What a recording of more kinds has.
    let strings = json["shared"]["stringArray"].as_array_mut().unwrap();
    strings.extend(["open", "path of the call"].map(Value::from));
    let (name, text) = (strings.len() - 2, strings.len() - 1);
    let schemas = json["meta"]["markerSchema"].as_array_mut().unwrap();
    schemas.push(json!({"name": "call", "display": ["marker-chart"], "fields": [
        {"key": "file", "label": "File", "format": "unique-string"},
        {"key": "words", "label": "Words", "format": "string"},
    ]}));
    json["threads"][0]["markers"] = json!({
        "data": [{"type": "call", "file": text, "words": "some words"}],
        "name": [name], "startTime": [1.0], "endTime": [2.0], "phase": [1], "category": [0], "length": 1,
    });
    json["meta"]["arguments"] = "app argumentplant --key=tokenplant".into();
    json
}

fn read(json: &Value) -> SavedData {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(json.to_string().as_bytes()).unwrap();
    everything(file.path(), ReadLimits::default()).unwrap()
}

fn written(data: &SavedData) -> Value {
    let mut bytes = Vec::new();
    write_data(data, &mut bytes).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// Adds what is private to every string of a file, except to words of the format itself.
fn planted(mut json: Value) -> Value {
    let names = |json: &Value, table: &str| -> Vec<u64> {
        let column = json["shared"][table]["name"].as_array().unwrap();
        column.iter().map(|name| name.as_u64().unwrap()).collect()
    };
    let of_code: HashSet<u64> = ["funcTable", "nativeSymbols"]
        .iter()
        .flat_map(|table| names(&json, table))
        .collect();
    let mut strings = json["shared"]["stringArray"].take();
    for (at, text) in (0..).zip(strings.as_array_mut().unwrap()) {
        let plant = if of_code.contains(&at) { PLANT_IN_CODE } else { PLANT };
        *text = format!("{}{plant}", text.as_str().unwrap()).into();
    }
    let mut libs = json["libs"].take();
    for lib in libs.as_array_mut().unwrap() {
        for key in ["path", "debugPath"] {
            lib[key] = format!("/home/annaplant/app{}", lib[key].as_str().unwrap()).into();
        }
    }
    for key in ["meta", "threads", "counters"] {
        if let Some(value) = json.get_mut(key) {
            plant(value);
        }
    }
    json["shared"]["stringArray"] = strings;
    json["libs"] = libs;
    json["unknown"] = json!({"deep": [PLANT]});
    json["meta"]["unknown"] = PLANT.into();
    json["meta"]["device"] = PLANT.into();
    json["threads"][0]["unknown"] = PLANT.into();
    json["threads"][0]["eTLD+1"] = PLANT.into();
    json["threads"][0]["samples"]["unknown"] = json!([PLANT, PLANT]);
    json
}

fn plant(value: &mut Value) {
    const OF_FORMAT: [&str; 8] = [
        "format",
        "key",
        "color",
        "weightType",
        "unit",
        "display",
        "sampleUnits",
        "symbolicated",
    ];
    match value {
        Value::String(text) => text.push_str(PLANT),
        Value::Array(all) => all.iter_mut().for_each(plant),
        Value::Object(fields) => {
            let all = fields.iter_mut().filter(|(key, _)| !OF_FORMAT.contains(&key.as_str()));
            all.for_each(|(_, value)| plant(value));
        }
        _ => {}
    }
}

/// Weight of each stack, by names of functions and libraries, root first.
fn stacks(data: &Data) -> BTreeMap<Vec<String>, f64> {
    let mut sums = BTreeMap::new();
    for (_, mut stack, weight) in data.threads.iter().flat_map(|thread| thread.samples.iter()) {
        let mut names = Vec::new();
        while stack != NONE {
            let node = data.stacks[stack as usize];
            let func = data.frames[node.frame as usize].func;
            names.insert(0, format!("{} {:?}", data.func_name(func), data.lib_name(func)));
            stack = node.prefix;
        }
        *sums.entry(names).or_default() += weight;
    }
    sums
}

#[test]
fn no_string_of_a_sanitised_profile_is_private() {
    let mut data = read(&planted(recorded()));
    let before = written(&data).to_string();
    assert!(SECRETS.iter().all(|secret| before.contains(secret)));
    let weights: Vec<f64> = stacks(&data).into_values().collect();
    let removed = sanitize(&mut data, &private(), KeptPrivate::default());
    let json = written(&data);
    let text = json.to_string();
    for secret in SECRETS {
        let at = text.find(secret);
        let around = at.map(|at| &text[at.saturating_sub(300)..(at + 100).min(text.len())]);
        assert_eq!(around, None, "{secret}");
    }
    assert!(!text.contains("/home/"), "{text}");
    check::check(&json);
    // The schema still is that of the marker, and the marker has its text.
    let read_again = read(&json);
    assert_eq!(stacks(&read_again).into_values().collect::<Vec<_>>(), weights);
    let fields = data.threads[0].markers[0].fields.as_ref().unwrap();
    assert_eq!(fields["type"], data.schemas.last().unwrap()["name"]);
    let shown = data.text(fields["file"].as_u64().unwrap() as u32);
    // The planted path is one of the planted arguments.
    assert!(shown.starts_with("path of the call [argument] "), "{shown}");
    assert!(
        removed.arguments && removed.paths > 0 && removed.strings > 0,
        "{removed:?}"
    );
    for field in ["unknown", "device"] {
        assert!(removed.fields.contains(&field.to_owned()), "{removed:?}");
    }
}

#[test]
fn shares_and_names_of_functions_are_as_before() {
    let mut data = read(&recorded());
    let before = data.clone();
    let removed = sanitize(&mut data, &private(), KeptPrivate::default());
    assert_eq!(stacks(&data), stacks(&before));
    assert_eq!(stacks(&read(&written(&data))), stacks(&before));
    let times = |data: &Data| -> Vec<f64> {
        let all = data.threads.iter().flat_map(|thread| thread.samples.time_ms.clone());
        all.collect()
    };
    assert_eq!(times(&data), times(&before));
    assert_eq!(data.frames, before.frames);
    assert_eq!(data.recorded.as_ref().unwrap().commit.as_deref(), Some(COMMIT));
    assert_eq!(written(&data)["meta"]["sprof"]["recorded"]["commit"], COMMIT);
    assert!(removed.arguments);
    assert!(removed.fields.is_empty(), "{removed:?}");
    // There is nothing more to remove.
    let once = data.clone();
    assert_eq!(
        sanitize(&mut data, &private(), KeptPrivate::default()),
        RemovedCounts::default()
    );
    assert_eq!(data, once);
}

/// PostgreSQL's titles have the user, the database and the client's address.
#[test]
fn titles_of_processes_are_taken_out_as_arguments_are() {
    let mut json = recorded();
    json["threads"][0]["name"] = json!("app: alice shop 10.0.0.3 SELECT");
    let program = json["threads"][0]["processName"].as_str().unwrap().to_owned();
    let names = |include: KeptPrivate| {
        let mut data = read(&json);
        sanitize(&mut data, &private(), include);
        data.threads
            .iter()
            .map(|thread| thread.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(KeptPrivate::default()), [program.as_str(), "worker"]);
    let with_arguments = KeptPrivate {
        args: true,
        ..KeptPrivate::default()
    };
    assert_eq!(names(with_arguments), ["app: alice shop 10.0.0.3 SELECT", "worker"]);
}

#[test]
fn users_are_learnt_from_every_text() {
    let mut json = recorded();
    let fields = &mut json["threads"][0]["markers"]["data"][0];
    // A field of a marker may have any name.
    fields["key"] = "APP_PASS=fieldplant argumentplant".into();
    fields["words"] = "in ../../home/bobplant/p/x.c".into();
    json["threads"][1]["name"] = "bobplant's, carlplant's".into();
    json["meta"]["misc"] = r"c:\users\carlplant\x.c".into();
    let mut data = read(&json);
    sanitize(&mut data, &private(), KeptPrivate::default());
    let text = written(&data).to_string();
    for secret in ["bobplant", "carlplant", "fieldplant", "argumentplant"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    assert!(text.contains("[user]'s, [user]'s"), "{text}");
}

#[test]
fn crates_of_functions_are_as_before() {
    let mut json = recorded();
    let funcs = json["shared"]["funcTable"]["length"].as_u64().unwrap();
    let strings = json["shared"]["stringArray"].as_array_mut().unwrap();
    let first = strings.len() as u64;
    strings.extend(["serde", "postgres"].map(Value::from));
    let krates: Vec<Value> = (0..funcs)
        .map(|func| {
            if func % 3 == 2 {
                Value::Null
            } else {
                (first + func % 3).into()
            }
        })
        .collect();
    json["shared"]["funcTable"]["crate"] = krates.into();
    let crates = |data: &Data| -> Vec<(String, String)> {
        let text = |text| data.text(text).to_owned();
        data.funcs
            .iter()
            .map(|func| (text(func.name), text(func.krate)))
            .collect()
    };
    let mut data = read(&json);
    let before = crates(&data);
    assert!(before.iter().any(|(_, krate)| krate == "serde"), "{before:?}");
    sanitize(&mut data, &private(), KeptPrivate::default());
    assert_eq!(crates(&data), before);
    assert_eq!(crates(&read(&written(&data))), before);
}

#[test]
fn functions_of_two_files_stay_two() {
    let mut json = recorded();
    let commit = "59807616e1fa2540724bfbac14d7976d7e4a3860";
    let paths = [
        "/srv/one/app/src/main.rs".to_owned(),
        "/srv/two/app/src/main.rs".to_owned(),
        format!("/rustc/{commit}/library/core/src/a.rs"),
        "/home/annaplant/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/serde-1.0.1/src/de.rs".to_owned(),
    ];
    let strings = json["shared"]["stringArray"].as_array_mut().unwrap();
    let first = strings.len();
    strings.extend(paths.iter().map(|path| Value::from(path.as_str())));
    let files: Vec<usize> = (first..first + paths.len()).collect();
    let texts = ["fn a", "fn b", "fn c", "fn d"];
    json["shared"]["sources"] = json!({
        "id": [null, null, null, null], "filename": files, "startLine": [1, 1, 1, 1], "startColumn": [1, 1, 1, 1],
        "sourceMapURL": [null, null, null, null], "content": texts, "length": 4,
    });
    let funcs = json["shared"]["funcTable"]["length"].as_u64().unwrap();
    json["shared"]["funcTable"]["source"] = (0..funcs).map(|func| Value::from(func % 4)).collect();
    let mut data = read(&json);
    assert_eq!(data.embedded_sources(), 4);
    let before = stacks(&data);
    let removed = sanitize(&mut data, &private(), KeptPrivate::default());
    let mut files: Vec<&str> = data.funcs.iter().map(|func| data.text(func.file)).collect();
    files.sort_unstable();
    files.dedup();
    let rust = format!("git:github.com/rust-lang/rust:library/core/src/a.rs:{commit}");
    let serde = "cargo:index.crates.io-1949cf8c6b5b557f:serde-1.0.1:src/de.rs";
    for file in ["app/src/main.rs", "(2)/app/src/main.rs", &rust, serde] {
        assert!(files.contains(&file), "{file} in {files:?}");
    }
    assert_eq!(stacks(&data), before);
    // Everybody can have the others.
    assert_eq!((removed.sources, data.embedded_sources()), (2, 2));
    assert_eq!(data.source(serde), Some("fn d"));
}

#[test]
fn what_is_included_stays() {
    let data = read(&planted(recorded()));
    let all = KeptPrivate {
        args: true,
        paths: true,
        names: true,
        sources: true,
    };
    let mut same = data.clone();
    let removed = sanitize(&mut same, &private(), all);
    let text = written(&same).to_string();
    for secret in &SECRETS[..4] {
        assert!(text.contains(secret), "{secret}");
    }
    assert!(text.contains("/home/annaplant/x/y/z/f.c"));
    assert_eq!((removed.paths, removed.arguments), (0, false));
    // Nobody asked for the environment.
    assert!(!text.contains("environmentplant"));
}
