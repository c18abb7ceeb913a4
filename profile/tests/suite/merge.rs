//! Several profiles as one: every sample, marker and counter is there, at its time and with its stack.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use crate::common::*;
use names::symbol::{AddressInfo, FunctionSymbol};
use profile::data::{Data, NONE, SavedData, WeightUnit};
use profile::merge::{MergeError, MergeInput, TimeAlignment, merge, usual_align};
use profile::read::{ReadLimits, everything, whole};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Weight of each stack by its names, root first, over all threads, in units of the data.
fn stacks(data: &Data) -> BTreeMap<Vec<String>, f64> {
    let mut weights = BTreeMap::new();
    for (_, stack, weight) in data.threads.iter().flat_map(|thread| thread.samples.iter()) {
        *weights.entry(names(data, stack)).or_default() += weight;
    }
    weights
}

fn names(data: &Data, mut stack: u32) -> Vec<String> {
    let mut names = Vec::new();
    while stack != NONE {
        let node = data.stacks[stack as usize];
        let frame = data.frames[node.frame as usize];
        let category = data
            .categories
            .get(frame.category as usize)
            .map_or("", |category| &category.name);
        let lib = data.lib_name(frame.func).unwrap_or("");
        names.push(format!(
            "{} {lib} {category} {:?}",
            data.func_name(frame.func),
            frame.address
        ));
        stack = node.prefix;
    }
    names.reverse();
    names
}

fn sum(parts: &[&Data]) -> BTreeMap<Vec<String>, f64> {
    let mut sums: BTreeMap<Vec<String>, f64> = BTreeMap::new();
    for (names, weight) in parts.iter().flat_map(|part| stacks(part)) {
        *sums.entry(names).or_default() += weight;
    }
    sums
}

fn input(name: &str, data: SavedData) -> MergeInput {
    MergeInput {
        name: name.to_owned(),
        data,
    }
}

/// `work` in one, `work` and `rest` in the other, of one program; the second is built elsewhere.
fn two() -> (SavedData, SavedData) {
    let recorded = |ips: &[u64], rename: bool| {
        let mut stream = Stream::with_app();
        stream.thread(1, 2, 0);
        if rename {
            stream.rename(1, 2, "worker", 3);
        }
        for (ms, ip_at) in (0..).zip(ips) {
            stream.sample(1, 1 + (ms % 2) as i32, ms, &[ip(*ip_at), ret(0x1021)]);
        }
        SavedData::from(&stream.finish())
    };
    (
        recorded(&[0x1110, 0x1110, 0x1220], false),
        recorded(&[0x1220, 0x1330, 0x1110, 0x1110], true),
    )
}

#[test]
fn a_merged_profile_is_of_a_commit_if_all_its_parts_are() {
    let merged = |commits: [Option<&str>; 2]| {
        let (mut a, mut b) = two();
        for (part, commit) in [&mut a, &mut b].into_iter().zip(commits) {
            part.recorded.as_mut().unwrap().commit = commit.map(str::to_owned);
        }
        let merged = merge(vec![input("a", a), input("b", b)], TimeAlignment::Start).unwrap();
        viewed(&merged).1.recorded.unwrap().commit
    };
    assert_eq!(merged([Some("1f0b7a6"), Some("1f0b7a6")]).as_deref(), Some("1f0b7a6"));
    assert_eq!(merged([Some("1f0b7a6"), Some("2f0b7a6")]), None);
    assert_eq!(merged([None, Some("2f0b7a6")]), None);
}

/// Written, checked as a front end would, and read as views have it.
fn viewed(data: &SavedData) -> (Value, Data) {
    let mut bytes = Vec::new();
    profile::export::firefox::write_data(data, &mut bytes).unwrap();
    let json: Value = serde_json::from_slice(&bytes).unwrap();
    // Only browsers leave out categories, and only files of other profilers have no threads to begin with.
    let has_all = |data: &SavedData| data.meta.contains_key("initialSelectedThreads");
    // Only samply does not say for which processor a library is.
    let has_arch = data.libs.iter().all(|lib| lib.arch.is_some());
    if data.frames.iter().all(|frame| frame.category != NONE) && has_all(data) && has_arch {
        check::check(&json);
    }
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes).unwrap();
    let again = everything(file.path(), ReadLimits::default()).unwrap();
    let mut bytes_again = Vec::new();
    profile::export::firefox::write_data(&again, &mut bytes_again).unwrap();
    assert!(bytes == bytes_again, "a merged profile is written again as it is");
    (json, whole(file.path(), ReadLimits::default()).unwrap())
}

#[test]
fn every_sample_of_each_is_in_the_whole_with_its_stack_and_shared_functions_are_there_once() {
    let (a, b) = two();
    let merged = merge(vec![input("a", a.clone()), input("b", b.clone())], TimeAlignment::Start).unwrap();
    assert_eq!(stacks(&merged), sum(&[&a, &b]));
    assert_eq!(merged.threads.len(), a.threads.len() + b.threads.len());
    assert_eq!(merged.libs.len(), 1);
    let of_name = |name: &str| {
        merged
            .funcs
            .iter()
            .filter(|func| merged.text(func.name) == name)
            .count()
    };
    assert_eq!((of_name("0x110"), of_name("0x330")), (1, 1));
    let (json, viewed) = viewed(&merged);
    // Two processes, with the same number and name in their files.
    let pids: Vec<_> = (viewed.threads.iter())
        .map(|thread| (thread.pid.as_str(), thread.process_name.as_str()))
        .collect();
    assert_eq!(
        pids,
        [
            ("1", "app (a)"),
            ("1", "app (a)"),
            ("1.1", "app (b)"),
            ("1.1", "app (b)")
        ]
    );
    // Losses and counts are those of both.
    let recorded = viewed.recorded.as_ref().unwrap();
    assert_eq!((recorded.processes, recorded.threads), (2, 4));
    let labels: Vec<_> = (json["meta"]["extra"].as_array().unwrap().iter())
        .map(|section| section["label"].as_str().unwrap())
        .collect();
    assert_eq!(
        labels,
        [
            "a: Recording",
            "a: Recording quality",
            "b: Recording",
            "b: Recording quality"
        ]
    );
    assert_eq!(viewed.product, "app");
    // A marker of the second has its name and its time.
    let renamed = viewed
        .threads
        .iter()
        .flat_map(|thread| &thread.markers)
        .map(|marker| (viewed.text(marker.name), marker.start_ms));
    assert_eq!(
        renamed.filter(|(name, _)| *name == "Renamed").collect::<Vec<_>>(),
        [("Renamed", 3.0)]
    );
}

#[test]
fn by_the_clock_what_happened_at_one_time_stands_at_one_place() {
    let (a, mut b) = two();
    b.start_ms += 250.0;
    let inputs = vec![input("a", a.clone()), input("b", b.clone())];
    assert_eq!(usual_align(&inputs), TimeAlignment::Clock);
    let merged = merge(inputs, TimeAlignment::Clock).unwrap();
    assert_eq!(merged.start_ms, a.start_ms);
    let first = |data: &Data, thread: usize| data.threads[thread].samples.time_ms[0];
    assert_eq!(first(&merged, 2), first(&b, 0) + 250.0);
    assert_eq!(first(&merged, 0), first(&a, 0));
    assert_eq!(merged.meta["profilingEndTime"], json!(1250));
    assert_eq!(merged.threads[2].rest["registerTime"], json!(250));
    // The order of the files says nothing of their times.
    let turned = merge(vec![input("b", b.clone()), input("a", a.clone())], TimeAlignment::Clock).unwrap();
    assert_eq!((turned.start_ms, first(&turned, 0)), (a.start_ms, first(&b, 0) + 250.0));
    // A day later nothing of the first is to be seen beside it.
    b.start_ms += 86_400_000.0;
    assert_eq!(usual_align(&[input("a", a), input("b", b)]), TimeAlignment::Start);
}

#[test]
fn files_that_sample_at_other_rates_weigh_time() {
    let (a, mut b) = two();
    b.interval_ms = 0.25;
    for thread in &mut b.threads {
        thread.unit = WeightUnit::Samples;
        thread.samples.weight = None;
    }
    let merged = merge(vec![input("a", a), input("b", b)], TimeAlignment::Start).unwrap();
    let total: f64 = stacks(&merged).values().sum();
    assert_eq!(total, 3.0 + 4.0 * 0.25);
    assert!(
        merged
            .threads
            .iter()
            .all(|thread| thread.unit == WeightUnit::Milliseconds)
    );
}

#[test]
fn times_of_a_recording_stay_beside_sums_that_have_none() {
    let (recorded, _) = two();
    let mut sums = data::example();
    (sums.unit, sums.is_summed) = (WeightUnit::Milliseconds, true);
    for thread in &mut sums.threads {
        thread.samples.weight = Some(vec![2.0; thread.samples.len()]);
    }
    let sums = sums.into_saved();
    let parts = [input("sums", sums.clone()), input("recorded", recorded.clone())];
    for order in [[0, 1], [1, 0]] {
        let inputs = order.map(|at| parts[at].clone()).into();
        let merged = merge(inputs, TimeAlignment::Start).unwrap();
        let (_, viewed) = viewed(&merged);
        let last = |data: &Data, name: &str| {
            let thread = data.threads.iter().rfind(|thread| thread.tid == name).unwrap();
            *thread.samples.time_ms.last().unwrap()
        };
        assert_eq!(last(&viewed, "2"), last(&recorded, "2"), "{order:?}");
        assert_eq!(viewed.unit, WeightUnit::Milliseconds);
    }
}

#[test]
fn what_counts_different_things_is_refused() {
    let (a, mut b) = two();
    for thread in &mut b.threads {
        thread.unit = WeightUnit::Bytes;
    }
    let error = merge(vec![input("a", a), input("b", b)], TimeAlignment::Start).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a counts time and b counts bytes: these can't be added up; merge files of one kind"
    );
    assert_eq!(merge(Vec::new(), TimeAlignment::Start), Err(MergeError::Nothing));
}

/// What a browser records: scripts, resources, texts by index in markers, allocations, counters, fields that nobody
/// knows.
fn of_a_browser() -> Value {
    json!({
        "meta": {"preprocessedProfileVersion": 60, "interval": 1, "startTime": 1000.5, "product": "Browser", "symbolicated": true,
            "categories": [{"name": "Other", "color": "grey", "subcategories": ["Other"]},
                {"name": "JavaScript", "color": "yellow", "subcategories": ["Other", "JIT"]}],
            "markerSchema": [{"name": "Text", "display": ["marker-table"], "fields": [
                {"key": "name", "label": "Name", "format": "unique-string"}, {"key": "n", "label": "N", "format": "integer"}]}],
            "unknownOfMeta": {"a": [1, 2.5, null]}},
        "libs": [], "pages": [{"tabID": 1, "url": "about:x"}], "unknownOfRoot": "kept",
        "shared": {
            "stringArray": ["Text", "run", "site", "https://site", "a text", "click"],
            "sources": {"length": 1, "filename": [3], "uuid": [null]},
            "resourceTable": {"length": 1, "lib": [-1], "name": [2], "host": [3], "type": [3]},
            "nativeSymbols": {"length": 0, "libIndex": [], "address": [], "name": [], "functionSize": []},
            "funcTable": {"length": 1, "name": [1], "isJS": [true], "relevantForJS": [false], "resource": [0], "source": [0],
                "lineNumber": [12], "columnNumber": [3]},
            "frameTable": {"length": 2, "address": [-1, -1], "inlineDepth": [0, 0], "category": [1, null], "subcategory": [1, null],
                "func": [0, 0], "nativeSymbol": [null, null], "innerWindowID": [18446744073709552000.0, null], "line": [14, null], "column": [5, null]},
            "stackTable": {"length": 2, "frame": [0, 1], "prefix": [null, 0]},
        },
        "counters": [{"name": "malloc", "category": "Memory", "description": "", "pid": "7", "mainThreadIndex": 0,
            "samples": {"length": 2, "time": [1, 2], "count": [0, 5]}}],
        "threads": [{"name": "GeckoMain", "isMainThread": true, "processType": "default", "processName": "Web", "pid": 7, "tid": 7,
            "registerTime": 0, "unregisterTime": null, "processStartupTime": 0, "processShutdownTime": null, "pausedRanges": [],
            "unknownOfThread": [true],
            "samples": {"length": 3, "stack": [0, 1, null], "time": [1, 2, 3.5], "weight": null, "weightType": "samples",
                "threadCPUDelta": [null, 10, 20], "eventDelay": [0, 1, 2]},
            "nativeAllocations": {"length": 1, "time": [1.5], "weight": [64], "weightType": "bytes", "stack": [1]},
            "markers": {"length": 2, "name": [5, 0], "startTime": [1, 2], "endTime": [null, 3], "phase": [0, 1], "category": [0, 1],
                "data": [null, {"type": "Text", "name": 4, "n": 9, "cause": {"time": 2, "stack": 1}}]}}],
    })
}

#[test]
fn what_a_browser_recorded_is_written_again_with_fields_that_nobody_knows() {
    let first = read_all(&of_a_browser());
    let (json, _) = viewed(&first);
    for (place, kept) in [
        ("/meta/unknownOfMeta", json!({"a": [1, 2.5, null]})),
        ("/unknownOfRoot", json!("kept")),
        ("/pages/0/url", json!("about:x")),
        ("/threads/0/unknownOfThread", json!([true])),
        ("/threads/0/samples/eventDelay", json!([0, 1, 2])),
        ("/threads/0/samples/threadCPUDelta", json!([null, 10, 20])),
        ("/threads/0/nativeAllocations/stack", json!([1])),
        (
            "/threads/0/markers/data/1",
            json!({"type": "Text", "name": 4, "n": 9, "cause": {"time": 2, "stack": 1}}),
        ),
        ("/threads/0/markers/phase", json!([0, 1])),
        ("/counters/0/samples/count", json!([0, 5])),
        ("/shared/funcTable/isJS", json!([true])),
        ("/shared/funcTable/lineNumber", json!([12])),
        ("/shared/resourceTable/type", json!([3])),
        ("/shared/frameTable/column", json!([5, null])),
        ("/shared/frameTable/category", json!([1, null])),
        ("/shared/frameTable/innerWindowID", json!([u64::MAX, null])),
        ("/meta/categories/1/subcategories", json!(["Other", "JIT"])),
    ] {
        assert_eq!(json.pointer(place), Some(&kept), "{place}");
    }
    assert_same_when_read_again(first);
}

/// Samples, markers and counters of a file with all that their indices point at. Version 70.
fn resolved(json: &Value) -> Value {
    let shared = &json["shared"];
    let at = |column: &Value, index: &Value| {
        index
            .as_u64()
            .map_or(Value::Null, |index| column[index as usize].clone())
    };
    let text = |index: &Value| at(&shared["stringArray"], index);
    let category = |index: &Value| at(&json["meta"]["categories"], index)["name"].clone();
    let frame = |index: u64| {
        let of = |column: &str| shared["frameTable"][column][index as usize].clone();
        let func = |column: &str| at(&shared["funcTable"][column], &of("func"));
        let resource = |column: &str| text(&at(&shared["resourceTable"][column], &func("resource")));
        let source = text(&at(&shared["sources"]["filename"], &func("source")));
        let script = json!([
            func("isJS"),
            func("relevantForJS"),
            func("lineNumber"),
            func("columnNumber"),
            source
        ]);
        let place = json!([
            of("address"),
            of("lib"),
            of("line"),
            of("column"),
            of("inlineDepth"),
            of("innerWindowID")
        ]);
        let kind = json!([category(&of("category")), of("subcategory")]);
        json!([
            text(&func("name")),
            resource("name"),
            resource("host"),
            script,
            place,
            kind
        ])
    };
    let stack = |index: &Value| {
        let (mut index, mut frames) = (index.as_u64(), Vec::new());
        while let Some(row) = index {
            frames.push(frame(shared["stackTable"]["frame"][row as usize].as_u64().unwrap()));
            let offset = shared["stackTable"]["prefixOffset"][row as usize].as_u64().unwrap();
            index = (offset > 0).then(|| row - offset);
        }
        Value::from(frames)
    };
    let ms = |time: &Value| json!(format!("{:.3}", time.as_f64().unwrap_or(0.0)));
    let times = |table: &Value| {
        let mut now = 0.0;
        let deltas = table["timeDeltas"].as_array().into_iter().flatten();
        let sums = deltas.map(|delta| {
            now += delta.as_f64().unwrap_or(0.0);
            ms(&now.into())
        });
        sums.collect::<Vec<_>>()
    };
    let rows = |table: &Value| 0..table["length"].as_u64().unwrap() as usize;
    let thread = |thread: &Value| {
        let (samples, markers) = (&thread["samples"], &thread["markers"]);
        let time = times(samples);
        let sample = |row: usize| {
            let of = |column: &str| samples[column][row].clone();
            json!([time[row], stack(&of("stack")), of("threadCPUDelta"), of("eventDelay")])
        };
        let marker = |row: usize| {
            let of = |column: &str| markers[column][row].clone();
            // `PHASE` of the front end: an instant has no end, and an end no start.
            let start = (of("phase") != 3).then(|| ms(&of("startTime")));
            let end = (of("phase") == 1 || of("phase") == 3).then(|| ms(&of("endTime")));
            let mut data = of("data");
            let cause = data.as_object_mut().and_then(|data| data.remove("cause"));
            let cause = cause.map(|cause| json!([cause["time"], cause["tid"], stack(&cause["stack"])]));
            json!([text(&of("name")), start, end, category(&of("category")), data, cause])
        };
        let samples: Vec<_> = rows(samples).map(sample).collect();
        let markers: Vec<_> = rows(markers).map(marker).collect();
        json!([
            thread["name"],
            thread["pid"],
            thread["registerTime"],
            thread["usedInnerWindowIDs"],
            samples,
            markers
        ])
    };
    let all = |of: &str| json[of].as_array().unwrap().iter();
    let counter = |counter: &Value| {
        json!([
            counter["name"],
            counter["pid"],
            counter["display"],
            times(&counter["samples"]),
            counter["samples"]["count"]
        ])
    };
    let (threads, counters): (Vec<_>, Vec<_>) = (
        all("threads").map(thread).collect(),
        all("counters").map(counter).collect(),
    );
    json!({"threads": threads, "counters": counters, "libs": json["libs"], "pages": json["pages"]})
}

/// Firefox 153 recorded a page (`MOZ_PROFILER_STARTUP=1`), and the front end made its own form of it. Most samples and
/// markers were left out then, and of one thread all samples.
#[test]
fn a_file_of_firefox_is_written_again_with_all_that_it_has() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/firefox-153.json.gz");
    let mut file = String::new();
    let gzip = flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap());
    std::io::BufReader::new(gzip).read_to_string(&mut file).unwrap();
    let file: Value = serde_json::from_str(&file).unwrap();
    let first = everything(path.as_ref(), ReadLimits::default()).unwrap();
    let (again, views) = viewed(&first);
    let (before, after) = (resolved(&file), resolved(&again));
    for (index, thread) in before["threads"].as_array().unwrap().iter().enumerate() {
        for (part, rows) in thread.as_array().unwrap().iter().enumerate() {
            assert_eq!(rows, &after["threads"][index][part], "thread {index}");
        }
    }
    assert_eq!(before, after);
    let meta = |json: &Value| json["meta"].as_object().unwrap().clone();
    assert_eq!(meta(&file), meta(&again));
    let samples = |data: &Data| {
        data.threads
            .iter()
            .map(|thread| thread.samples.len())
            .collect::<Vec<_>>()
    };
    assert_eq!(samples(&views), [25, 25, 0]);
    // A time is kept to the nanosecond: Firefox has fractions of it.
    assert_same_when_read_again(read_all(&again));
}

/// samply 0.13.1 recorded `split` of the tests on Linux. Its times count from the machine's start.
#[test]
fn a_file_of_samply_begins_with_its_recording_and_is_written_again() {
    const STARTED_MS: f64 = 1_795_498_661_966.817_4;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/samply-0.13.1.json.gz");
    let data = whole(path.as_ref(), ReadLimits::default()).unwrap();
    let thread = &data.threads[1];
    assert_eq!((thread.name.as_str(), thread.samples.len()), ("split", 263));
    assert_eq!((data.start_ms, thread.samples.time_ms[0]), (STARTED_MS, 0.0));
    // The functions' addresses, as `nm` has them.
    let samples_in = |from: u64| {
        let leaves = thread
            .samples
            .stack
            .iter()
            .map(|stack| data.stacks[*stack as usize].frame);
        let addresses = leaves.filter_map(|frame| data.frames[frame as usize].address);
        addresses
            .filter(|address| (from..from + 0x57).contains(address))
            .count()
    };
    assert_eq!([0x1380, 0x13e0, 0x1440].map(samples_in), [162, 81, 20]);

    let samply = everything(path.as_ref(), ReadLimits::default()).unwrap();
    // A time is kept to the nanosecond: samply has fractions of it.
    let again = read_all(&viewed(&samply).0);
    let (before, after) = (&samply.threads[1].samples, &again.threads[1].samples);
    assert_eq!((&before.stack, &before.weight), (&after.stack, &after.weight));
    let moved_ms = before
        .time_ms
        .iter()
        .zip(&after.time_ms)
        .map(|(before, after)| (before - after).abs());
    assert!(moved_ms.fold(0.0, f64::max) < 1e-6);
    assert_same_when_read_again(again);
    // Another recording, a second later.
    let (other, _) = two();
    let mut later = other.clone();
    later.start_ms = STARTED_MS + 1000.0;
    let inputs = vec![input("samply", samply), input("later", later)];
    assert_eq!(usual_align(&inputs), TimeAlignment::Clock);
    let merged = merge(inputs, TimeAlignment::Clock).unwrap();
    let (_, views) = viewed(&merged);
    assert_eq!(views.start_ms, STARTED_MS);
    let first_of = |data: &Data, thread: usize| data.threads[thread].samples.time_ms[0];
    assert_eq!(first_of(&views, 1), 0.0);
    let shift_ms = first_of(&views, 2) - first_of(&viewed(&other).1, 0);
    assert!((shift_ms - 1000.0).abs() < 0.01, "{shift_ms}");
}

#[test]
fn a_browser_s_markers_allocations_and_counters_point_at_their_own_in_the_whole() {
    let (a, _) = two();
    let browser = read_all(&of_a_browser());
    let merged = merge(
        vec![input("a", a.clone()), input("browser", browser.clone())],
        TimeAlignment::Start,
    )
    .unwrap();
    let (json, _) = viewed(&merged);
    assert_eq!(stacks(&merged), sum(&[&a, &browser]));
    let at = a.threads.len();
    let thread = &json["threads"][at];
    let marker = &thread["markers"]["data"][1];
    assert_eq!(merged.text(marker["name"].as_u64().unwrap() as u32), "a text");
    let cause = marker["cause"]["stack"].as_u64().unwrap() as u32;
    assert_eq!(names(&merged, cause), names(&browser, 1));
    assert_eq!(thread["nativeAllocations"]["stack"][0], cause);
    let counters = json["counters"].as_array().unwrap();
    assert_eq!(counters.last().unwrap()["mainThreadIndex"], at);
    assert_eq!(
        (&json["unknownOfRoot"], &json["pages"][0]["tabID"]),
        (&json!("kept"), &json!(1))
    );
}

#[test]
fn names_that_one_file_lacks_are_looked_up_with_the_stacks_of_its_markers() {
    let mut data = read_all(&of_a_browser());
    data.symbolicated = false;
    data.libs = vec![profile::data::SavedLib::default()];
    for frame in &mut data.frames {
        (frame.lib, frame.address) = (0, Some(0x10));
    }
    profile::view::name_addresses(&mut data, |_, addresses| {
        let info = AddressInfo {
            function: Some(FunctionSymbol {
                is_named: true,
                name: "outer".into(),
                start: 0x10,
                size: Some(8),
                v8: None,
                krate: None,
            }),
            frames: ["inner", "outer"]
                .map(|function| names::symbol::SourceFrame {
                    function: Some(function.into()),
                    file: None,
                    declared_in: None,
                    line: None,
                    column: None,
                    krate: None,
                })
                .into(),
        };
        Some(vec![info; addresses.len()])
    });
    let marker = &data.threads[0].markers[1];
    let leaf = |stack: u32| data.func_name(data.frames[data.stacks[stack as usize].frame as usize].func);
    assert_eq!(
        (leaf(marker.stack), leaf(data.threads[0].samples.stack[1])),
        ("inner", "inner")
    );
    assert_eq!(data.threads[0].allocations.as_ref().unwrap().stack, [marker.stack]);
    assert_eq!(data.symbols.len(), 1);
}

proptest! {
    #![proptest_config(crate::damage::cases(256))]

    #[test]
    fn any_profiles_have_the_sum_of_their_stacks_in_the_whole(parts in prop::collection::vec(data::data(), 1..4)) {
        let parts: Vec<SavedData> = parts.into_iter().map(Data::into_saved).collect();
        let unit = parts[0].unit;
        prop_assume!(parts.iter().all(|part| part.unit == unit));
        let inputs = parts.iter().enumerate().map(|(at, part)| input(&at.to_string(), part.clone()));
        let merged = merge(inputs.collect(), TimeAlignment::Start).unwrap();
        let count = |data: &Data| data.threads.iter().map(|thread| thread.samples.len()).sum::<usize>();
        prop_assert_eq!(count(&merged), parts.iter().map(|part| count(part)).sum::<usize>());
        let finite = |sums: BTreeMap<Vec<String>, f64>| -> BTreeMap<Vec<String>, f64> {
            sums.into_iter().filter(|(_, weight)| weight.is_finite()).collect()
        };
        let parts: Vec<&Data> = parts.iter().map(|part| &**part).collect();
        prop_assert_eq!(finite(stacks(&merged)), finite(sum(&parts)));
    }
}
