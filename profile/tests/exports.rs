//! All exports of a profile agree to the sample: what each function ran itself, and what it was on the stack for.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::exports::*;
use profile::export::{Picked, Time, callgrind, folded, perf_script, pprof, speedscope, svg};
use profile::view::data::{Data, Frame, Func, NONE, Samples, Stack, Thread, Unit};
use proptest::prelude::*;

/// Any profile of few functions, so that stacks share and repeat them.
fn data() -> impl Strategy<Value = Data> {
    let name = "[ab;<>&\"\\n\u{e9}]{0,3}|f|g|main|operator()\\(\\)|0x1f";
    let names = prop::collection::btree_set(name, 1..6);
    let unit = prop_oneof![Just(Unit::Samples), Just(Unit::Milliseconds), Just(Unit::Bytes)];
    let frames = prop::collection::vec((any::<u8>(), 0u32..5, 0u32..4, any::<bool>()), 1..8);
    let stacks = prop::collection::vec((any::<u8>(), any::<u8>()), 1..20);
    let weight = prop_oneof![4 => (0u32..5000).prop_map(f64::from), 1 => Just(f64::NAN), 1 => Just(-1.0)];
    let samples = prop::collection::vec((any::<u8>(), weight, 0u32..100), 0..12);
    let threads = prop::collection::vec((samples, 0u8..3, any::<bool>()), 1..4);
    (names, unit, frames, stacks, threads).prop_map(|(names, unit, frames, stacks, threads)| {
        let funcs = names.len() as u32 - 1;
        let mut data = Data {
            product: "p".into(),
            interval_ms: 1.0,
            unit,
            symbolicated: true,
            categories: ["Program", "Kernel", "Off-CPU", "Waiting for a CPU"]
                .map(str::to_owned)
                .into(),
            funcs: (0..=funcs)
                .map(|name| Func {
                    name,
                    lib: if name % 2 == 0 { 0 } else { NONE },
                    file: NONE,
                })
                .collect(),
            texts: names.into_iter().map(String::into_boxed_str).collect(),
            libs: vec![profile::read::SavedLib {
                name: Some("lib".into()),
                ..Default::default()
            }],
            ..Data::default()
        };
        for (func, line, category, inlined) in frames {
            let func = u32::from(func) % (funcs + 1);
            let lib = data.funcs[func as usize].lib;
            let line = if line == 0 { NONE } else { line };
            data.frames.push(Frame {
                func,
                line,
                category,
                lib,
                address: Some(u64::from(line) * 16),
                inlined,
            });
        }
        for (at, (prefix, frame)) in stacks.into_iter().enumerate() {
            let prefix = (at > 0 && prefix < 200).then(|| u32::from(prefix) % at as u32);
            let frame = u32::from(frame) % data.frames.len() as u32;
            data.stacks.push(Stack {
                prefix: prefix.unwrap_or(NONE),
                frame,
            });
        }
        for (at, (samples, process, has_weights)) in threads.into_iter().enumerate() {
            let stacks = data.stacks.len() as u32;
            let stack = |stack: u8| if stack < 20 { NONE } else { u32::from(stack) % stacks };
            data.threads.push(Thread {
                name: format!("t{at}"),
                process_name: ["", "p", "q r"][usize::from(process)].into(),
                pid: "1".into(),
                tid: at.to_string(),
                samples: Samples {
                    time_ms: (0..samples.len()).map(|at| at as f64).collect(),
                    stack: samples.iter().map(|sample| stack(sample.0)).collect(),
                    weight: has_weights.then(|| samples.iter().map(|sample| sample.1).collect()),
                    count: None,
                },
                ..Thread::default()
            });
        }
        data
    })
}

/// By the names that all formats can hold.
fn expected(data: &Data, time: Time) -> Costs {
    let mut costs = Costs::default();
    let scale = if data.unit == Unit::Milliseconds { 1e6 } else { 1.0 };
    for (_, stack, weight) in data.threads.iter().flat_map(|thread| thread.samples.iter()) {
        let mut names = Vec::new();
        let mut next = stack;
        while let Some(node) = data.stacks.get(next as usize) {
            let frame = data.frames[node.frame as usize];
            names.push(match data.func_name(frame.func) {
                "" => "[unknown]".to_owned(),
                "0x1f" if frame.lib == 0 => "lib+0x1f".to_owned(),
                name => common_name(name),
            });
            next = node.prefix;
        }
        let leaf = data
            .stacks
            .get(stack as usize)
            .map(|leaf| data.frames[leaf.frame as usize].category);
        let is_wait = leaf.is_some_and(|category| category >= 2);
        let is_picked = time == Time::All || is_wait == (time == Time::Waits);
        if weight >= 0.0 && is_picked {
            if names.is_empty() {
                names.push("[no stack]".into());
            }
            costs.add(&names, (weight * scale) as u64);
        }
    }
    costs.forget_nothing_spent();
    costs
}

fn time() -> impl Strategy<Value = Time> {
    prop_oneof![Just(Time::Cpu), Just(Time::Waits), Just(Time::All)]
}

proptest! {
    #[test]
    fn all_formats_agree_to_the_sample(data in data(), time in time()) {
        let picked = Picked::new(&data, time);
        let expected = expected(&data, time);
        prop_assert_eq!(picked.totals().weight, expected.sum);
        let text = |write: &dyn Fn(&mut Vec<u8>) -> std::io::Result<()>| {
            let mut bytes = Vec::new();
            write(&mut bytes).unwrap();
            String::from_utf8(bytes).unwrap()
        };
        for threads in [false, true] {
            let options = folded::FoldedOptions { threads };
            let folded = text(&|out| folded::write(&picked, options, out));
            prop_assert_eq!(&of_folded(&folded, 1 + usize::from(threads)), &expected, "{}", folded);
        }
        let speedscope = text(&|out| speedscope::write(&picked, out));
        prop_assert_eq!(&of_speedscope(&speedscope), &expected, "{}", speedscope);
        let script = text(&|out| perf_script::write(&picked, out));
        prop_assert_eq!(&of_perf_script(&script), &expected, "{}", script);
        let callgrind = text(&|out| callgrind::write(&picked, out));
        prop_assert_eq!(&of_callgrind(&callgrind), &expected, "{}", callgrind);
        let mut bytes = Vec::new();
        pprof::write(&picked, &mut bytes).unwrap();
        let scale = if data.unit == Unit::Samples { 1_000_000 } else { 1 };
        prop_assert_eq!(&of_pprof(&bytes, scale), &expected);
        if data.unit == Unit::Samples {
            // Other amounts are rounded in its texts.
            let options = svg::SvgOptions { min_width: 0.0, ..Default::default() };
            let svg = text(&|out| svg::write(&picked, &options, out));
            prop_assert_eq!(&of_svg(&svg), &expected, "{}", svg);
        }
    }

    /// Whatever the shape, nothing is lost; and a picture is well-formed whatever the names are.
    #[test]
    fn every_shape_holds_the_same_sum(data in data(), inverted in any::<bool>(), min_width in 0.0..50.0) {
        let picked = Picked::new(&data, Time::All);
        for shape in [svg::Shape::Merged, svg::Shape::Reverse, svg::Shape::TimeOrder] {
            let options = svg::SvgOptions {
                shape, inverted, min_width, title: Some("<&\u{1}>".into()), notes: Some("]]>".into()), ..Default::default()
            };
            let mut bytes = Vec::new();
            svg::write(&picked, &options, &mut bytes).unwrap();
            let svg = String::from_utf8(bytes).unwrap();
            if data.unit == Unit::Samples && picked.totals().weight > 0 {
                prop_assert_eq!(root_of_svg(&svg), picked.totals().weight);
            }
        }
    }
}

/// `main` calls `work`, which inlined `helper`; in the kernel; waiting; without a stack.
fn example() -> Data {
    let text = |text: &str| text.to_owned().into_boxed_str();
    let func = |name, lib, file| Func { name, lib, file };
    let frame = |func, line, category, lib, address, inlined| Frame {
        func,
        line,
        category,
        lib,
        address,
        inlined,
    };
    let lib = |name: &str, id: &str| profile::read::SavedLib {
        name: Some(name.into()),
        path: Some(format!("/opt/{name}")),
        code_id: Some(id.into()),
        ..Default::default()
    };
    Data {
        product: "app".into(),
        start_ms: 1_700_000_000_000.0,
        interval_ms: 1.0,
        symbolicated: true,
        categories: ["Program", "Kernel", "Off-CPU"].map(str::to_owned).into(),
        libs: vec![lib("app", "0102"), lib("[kernel.kallsyms]", "aabb")],
        texts: [
            "main",
            "work<[u8; 4]>",
            "helper",
            "read",
            "[off-CPU: sleep]",
            "/src/main.rs",
            "/src/helper.rs",
        ]
        .map(text)
        .into(),
        funcs: vec![
            func(0, 0, 5),
            func(1, 0, 5),
            func(2, 0, 6),
            func(3, 1, NONE),
            func(4, NONE, NONE),
        ],
        frames: vec![
            frame(0, 10, 0, 0, Some(0x100), false),
            frame(1, 20, 0, 0, Some(0x200), false),
            frame(2, 5, 0, 0, Some(0x200), true),
            frame(3, NONE, 1, 1, Some(0x300), false),
            frame(4, NONE, 2, NONE, None, false),
        ],
        stacks: [(NONE, 0), (0, 1), (1, 2), (1, 3), (0, 4)]
            .map(|(prefix, frame)| Stack { prefix, frame })
            .into(),
        threads: vec![Thread {
            name: "app".into(),
            process_name: "app".into(),
            pid: "7".into(),
            tid: "7".into(),
            is_main: true,
            samples: Samples {
                time_ms: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.5],
                stack: vec![2, 2, 1, 3, 4, NONE],
                weight: None,
                count: None,
            },
            ..Thread::default()
        }],
        ..Data::default()
    }
}

/// Small files as they were found to be right. `SPROF_BLESS=1 cargo test -p profile --test exports` accepts new ones.
#[test]
fn the_files_are_those_that_were_blessed() {
    let data = example();
    let picked = Picked::new(&data, Time::Cpu);
    let written = |write: &dyn Fn(&mut Vec<u8>) -> std::io::Result<()>| {
        let mut bytes = Vec::new();
        write(&mut bytes).unwrap();
        bytes
    };
    let svg = written(&|out| svg::write(&picked, &Default::default(), out));
    // The script and the style stand in files of their own.
    let svg = String::from_utf8(svg).unwrap();
    let without = |text: &str, from: &str, to: &str| {
        let (before, rest) = text.split_once(from).unwrap();
        format!("{before}{from}{to}{}", rest.split_once(to).unwrap().1)
    };
    let svg = without(&without(&svg, "<style>", "</style>"), "<![CDATA[", "]]>");
    let files = [
        (
            "example.folded",
            written(&|out| folded::write(&picked, Default::default(), out)),
        ),
        ("example.svg", svg.into_bytes()),
        (
            "example.speedscope.json",
            written(&|out| speedscope::write(&picked, out)),
        ),
        ("example.callgrind", written(&|out| callgrind::write(&picked, out))),
        ("example.perf-script", written(&|out| perf_script::write(&picked, out))),
    ];
    for (name, bytes) in files {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden")
            .join(name);
        let text = String::from_utf8(bytes)
            .unwrap()
            .replace(env!("CARGO_PKG_VERSION"), "VERSION");
        if std::env::var_os("SPROF_BLESS").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let blessed = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(text, blessed, "{name}");
    }
}

#[test]
fn waits_are_left_out_and_counted_unless_they_are_asked_for() {
    let data = example();
    let totals = |time| Picked::new(&data, time).totals();
    assert_eq!((totals(Time::Cpu).weight, totals(Time::Cpu).left_out), (5, 1));
    assert_eq!((totals(Time::Waits).weight, totals(Time::Waits).left_out), (1, 5));
    assert_eq!((totals(Time::All).weight, totals(Time::All).left_out), (6, 0));
}

#[test]
fn pprof_has_inlined_functions_in_one_location_with_the_address_and_the_library() {
    let data = example();
    let mut bytes = Vec::new();
    pprof::write(&Picked::new(&data, Time::Cpu), &mut bytes).unwrap();
    let profile = Pprof::decode(&bytes);
    // Innermost first: (function, file, line).
    let lines: BTreeSet<Vec<(&str, &str, u64)>> = profile
        .locations
        .values()
        .map(|location| location.lines.iter().map(|line| profile.line(line)).collect())
        .collect();
    let work = ("work<[u8; 4]>", "/src/main.rs", 20);
    assert!(
        lines.contains(&vec![("helper", "/src/helper.rs", 5), work]),
        "{lines:?}"
    );
    assert!(
        lines.contains(&vec![work]) && lines.contains(&vec![("[no stack]", "", 0)]),
        "{lines:?}"
    );
    let mappings: BTreeMap<&str, &str> = profile.mappings.iter().map(|(name, id)| (&**name, &**id)).collect();
    assert_eq!(mappings["/opt/app"], "0102");
    assert_eq!(
        profile.sample_types,
        [("samples".into(), "count".into()), ("cpu".into(), "nanoseconds".into())]
    );
    assert_eq!(profile.time_nanos, 1_700_000_000_000_000_000);
    assert_eq!(profile.period, 1_000_000);
}
