//! A part of a profile as a profile: what it keeps is as it was, and nothing else is in the file.

use std::collections::BTreeMap;

use crate::common::data::example;
use crate::common::*;
use profile::data::{Data, NONE, SavedData};
use profile::trim::{ProfilePart, trim};
use profile::view::select::{Filter, KeptKinds, keep};

/// Samples each ms, in turn in the threads 1 and 2; the second one is called `worker`.
fn recorded(ips: &[u64]) -> SavedData {
    let mut stream = Stream::with_app();
    stream.thread(1, 2, 0);
    stream.rename(1, 2, "worker", 1);
    for (ms, at) in (2..).zip(ips) {
        stream.sample(1, 1 + (ms % 2) as i32, ms, &[ip(*at), ret(0x1021)]);
    }
    SavedData::from(&stream.finish())
}

/// Number of samples by stack, as addresses, root first.
fn stacks(data: &Data) -> BTreeMap<Vec<Option<u64>>, usize> {
    let mut counts = BTreeMap::new();
    for (_, mut stack, _) in data.threads.iter().flat_map(|thread| thread.samples.iter()) {
        let mut addresses = Vec::new();
        while stack != NONE {
            let node = data.stacks[stack as usize];
            addresses.insert(0, data.frames[node.frame as usize].address);
            stack = node.prefix;
        }
        *counts.entry(addresses).or_default() += 1;
    }
    counts
}

fn written(data: &SavedData) -> serde_json::Value {
    let mut bytes = Vec::new();
    profile::export::firefox::write_data(data, &mut bytes).unwrap();
    let json = serde_json::from_slice(&bytes).unwrap();
    check::check(&json);
    json
}

fn part(filter: Filter) -> ProfilePart {
    ProfilePart { filter, min_samples: 0 }
}

#[test]
fn a_thread_alone_keeps_its_samples_and_functions() {
    let mut data = recorded(&[0x1110, 0x1220, 0x1110, 0x1330]);
    let before = data.clone();
    trim(&mut data, &ProfilePart::default()).unwrap();
    assert_eq!(data, before);
    let worker = part(Filter {
        threads: vec!["worker".into()],
        ..Filter::default()
    });
    trim(&mut data, &worker).unwrap();
    let json = written(&data);
    assert_eq!(json["threads"].as_array().unwrap().len(), 1);
    assert_eq!(data.threads[0].samples, {
        let mut samples = before
            .threads
            .iter()
            .find(|thread| thread.name == "worker")
            .unwrap()
            .samples
            .clone();
        samples.stack.clone_from(&data.threads[0].samples.stack);
        samples
    });
    let all = stacks(&before);
    let left = stacks(&data);
    assert!(
        left.len() < all.len() && left.keys().all(|stack| all.contains_key(stack)),
        "{left:?}"
    );
    assert!(data.funcs.len() < before.funcs.len() && data.stacks.len() < before.stacks.len());
    let selected = json["meta"]["initialSelectedThreads"].as_array();
    assert!(
        selected.is_none_or(|threads| threads.iter().all(|thread| thread == 0)),
        "{selected:?}"
    );
    let nobody = part(Filter {
        threads: vec!["nobody".into()],
        ..Filter::default()
    });
    assert!(trim(&mut data, &nobody).unwrap_err().to_string().contains("worker"));
}

#[test]
fn a_range_of_time_keeps_what_is_in_it() {
    let mut data = recorded(&[0x1110, 0x1220, 0x1110, 0x1330]);
    let range = part(Filter {
        from_ms: Some(3.0),
        to_ms: Some(5.0),
        ..Filter::default()
    });
    trim(&mut data, &range).unwrap();
    written(&data);
    let mut times: Vec<f64> = data
        .threads
        .iter()
        .flat_map(|thread| thread.samples.time_ms.clone())
        .collect();
    times.sort_by(f64::total_cmp);
    assert_eq!(times, [3.0, 4.0]);
}

#[test]
fn samples_of_thin_stacks_become_samples_of_their_callers() {
    let mut data = recorded(&[0x1110, 0x1110, 0x1220, 0x1110, 0x1110]);
    let before = stacks(&data);
    assert_eq!(before.len(), 2, "{before:?}");
    let (thin, root) = before
        .iter()
        .find_map(|(stack, count)| (*count == 1).then(|| (stack.clone(), vec![stack[0]])))
        .unwrap();
    let thinned = ProfilePart {
        min_samples: 2,
        ..ProfilePart::default()
    };
    trim(&mut data, &thinned).unwrap();
    written(&data);
    let after = stacks(&data);
    assert_eq!(after.get(&thin), None);
    assert_eq!(after.get(&root), Some(&1));
    assert_eq!(after.values().sum::<usize>(), before.values().sum::<usize>());
}

#[test]
fn rare_waits_stay_waits() {
    let mut data = SavedData(example());
    data.stacks[4].prefix = 1;
    // Weights of CPU samples and of waits.
    let sums = |data: &Data| {
        let mut sums = [0.0; 2];
        let samples = data.threads.iter().flat_map(|thread| thread.samples.iter());
        samples.for_each(|(_, stack, weight)| sums[usize::from(data.is_wait(stack))] += weight);
        sums
    };
    let before = sums(&data);
    assert!(before[0] > 0.0 && before[1] > 0.0, "{before:?}");
    let thinned = ProfilePart {
        min_samples: 1_000_000,
        ..ProfilePart::default()
    };
    trim(&mut data, &thinned).unwrap();
    assert_eq!(sums(&data), before);
    let chains: Vec<(u32, &str)> = data
        .stacks
        .iter()
        .map(|stack| (stack.prefix, data.func_name(data.frames[stack.frame as usize].func)))
        .collect();
    assert_eq!(chains, [(NONE, "main"), (0, "[off-CPU: sleep]")]);
}

/// Every sample: time, thread, event, and addresses from the root on. Times count from the recording's start.
fn seen(data: &Data) -> Vec<String> {
    let mut all = Vec::new();
    for thread in &data.threads {
        for (time, mut stack, weight) in thread.samples.iter() {
            let mut addresses = Vec::new();
            while stack != NONE {
                addresses.insert(0, data.frames[data.stacks[stack as usize].frame as usize].address);
                stack = data.stacks[stack as usize].prefix;
            }
            all.push(format!(
                "{time} {} {:?} {weight} {addresses:?}",
                thread.tid, thread.event
            ));
        }
    }
    all.sort();
    all
}

fn for_views(json: &serde_json::Value) -> Data {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, json.to_string().as_bytes()).unwrap();
    profile::read::whole(file.path(), profile::read::ReadLimits::default()).unwrap()
}

/// Of a file whose times are not those of the recording, with an event whose markers are samples.
#[test]
fn a_part_of_a_file_has_the_samples_that_the_same_part_has_in_views() {
    let mut data = recorded(&[0x1110, 0x1220, 0x1110, 0x1330, 0x1220, 0x1110]);
    data.schemas
        .push(serde_json::json!({"name": "syscalls:sys_enter_read", "period": 1, "fields": []}));
    data.texts.push("syscalls:sys_enter_read".into());
    let name = data.texts.len() as u32 - 1;
    for thread in &mut data.threads {
        let points = thread.samples.time_ms.iter().zip(&thread.samples.stack);
        let points = points.map(|(time, stack)| profile::data::Marker {
            phase: profile::data::MarkerPhase::Instant,
            stack: *stack,
            fields: Some(Box::new(
                serde_json::json!({"type": "syscalls:sys_enter_read"})
                    .as_object()
                    .unwrap()
                    .clone(),
            )),
            ..profile::data::Marker::spanning(name, *time, *time)
        });
        thread.markers = points.collect();
        thread.samples.time_ms.iter_mut().for_each(|time| *time += 1000.0);
        for marker in &mut thread.markers {
            marker.start_ms += 1000.0;
            marker.end_ms += 1000.0;
        }
    }
    for key in ["profilingStartTime", "profilingEndTime"] {
        let ms = data.meta[key].as_f64().unwrap();
        data.meta.insert(key.to_owned(), (ms + 1000.0).into());
    }
    let json = written(&data);
    let all = seen(&for_views(&json));
    assert_eq!(all.len(), 12, "{all:?}");
    let leaf = |data: &Data, address| {
        let frame = data.frames.iter().find(|frame| frame.address == Some(address)).unwrap();
        data.func_name(frame.func).to_owned()
    };
    let hot = leaf(&data, 0x220);
    let of_range = |from, to| Filter {
        from_ms: from,
        to_ms: to,
        ..Filter::default()
    };
    for filter in [
        of_range(Some(3.0), Some(5.0)),
        of_range(Some(4.0), None),
        Filter {
            focus: vec![hot.clone()],
            ..Filter::default()
        },
        Filter {
            focus: vec![hot.clone()],
            ..of_range(None, Some(5.0))
        },
        Filter {
            hide: vec![hot],
            threads: vec!["2".into()],
            ..Filter::default()
        },
    ] {
        let mut views = for_views(&json);
        keep(&mut views, &filter, KeptKinds::Both).unwrap();
        let expected = seen(&views);
        assert!(!expected.is_empty() && expected != all, "{filter:?}: {expected:?}");
        let mut file = read_all(&json);
        trim(&mut file, &part(filter.clone())).unwrap();
        assert_eq!(seen(&for_views(&written(&file))), expected, "{filter:?}");
    }
}
