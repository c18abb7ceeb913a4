//! All exports of a profile agree to the sample: what each function ran itself, and what it was on the stack for.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::data::{data, example, expected};
use crate::common::exports::*;
use crate::differential::folded;
use profile::data::{Data, NONE, Thread, WeightUnit};
use profile::export::{Picked, PickedTime, callgrind, folded, otlp, perf_script, pprof, speedscope, svg};
use proptest::prelude::*;

fn time() -> impl Strategy<Value = PickedTime> {
    prop_oneof![Just(PickedTime::Cpu), Just(PickedTime::Waits), Just(PickedTime::All)]
}

proptest! {
    #![proptest_config(crate::damage::cases(256))]

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
        let scale = if data.unit == WeightUnit::Samples { 1_000_000 } else { 1 };
        prop_assert_eq!(&of_pprof(&bytes, scale), &expected);
        for start_ms in [0.0, 1e12] {
            let data = Data { start_ms, ..data.clone() };
            let mut bytes = Vec::new();
            otlp::write(&Picked::new(&data, time), &[], &mut bytes).unwrap();
            prop_assert_eq!(&of_otlp(&bytes, scale), &expected);
        }
        if data.unit == WeightUnit::Samples {
            // Other amounts are rounded in its texts.
            let options = svg::SvgOptions { min_width: 0.0, ..Default::default() };
            let svg = text(&|out| svg::write(&picked, &options, out));
            prop_assert_eq!(&of_svg(&svg), &expected, "{}", svg);
        }
    }

    /// Whatever the shape, nothing is lost; and a picture is well-formed whatever the names are.
    #[test]
    fn every_shape_holds_the_same_sum(data in data(), inverted in any::<bool>(), min_width in 0.0..50.0) {
        let picked = Picked::new(&data, PickedTime::All);
        for shape in [svg::TreeShape::Merged, svg::TreeShape::Reverse, svg::TreeShape::TimeOrder] {
            let options = svg::SvgOptions {
                shape, inverted, min_width, title: Some("<&\u{1}>".into()), notes: Some("]]>".into()), ..Default::default()
            };
            let mut bytes = Vec::new();
            svg::write(&picked, &options, &mut bytes).unwrap();
            let svg = String::from_utf8(bytes).unwrap();
            if data.unit == WeightUnit::Samples && picked.totals().weight > 0 {
                prop_assert_eq!(root_of_svg(&svg), picked.totals().weight);
            }
        }
    }
}

#[test]
fn flame_graphs_begin_where_stacks_differ() {
    let data = folded("app;start;main;run;hot 2\napp;start;main;run;cold 1\n");
    let names = |options: &svg::SvgOptions| -> Vec<String> {
        let mut bytes = Vec::new();
        svg::write(&Picked::new(&data, PickedTime::Cpu), options, &mut bytes).unwrap();
        let frames = frames_of_svg(&String::from_utf8(bytes).unwrap());
        frames.into_iter().map(|(_, name, _)| name).collect()
    };
    let whole = svg::SvgOptions::default();
    let small = svg::SvgOptions {
        is_bare: true,
        ..Default::default()
    };
    assert_eq!(
        names(&whole),
        ["all", "[unknown process]", "app\nstart\nmain", "run", "cold", "hot"]
    );
    assert_eq!(names(&small), ["run", "cold", "hot"]);
}

/// Small files as they were found to be right. `SPROF_BLESS=1 cargo test -p sprof-profile exports::` accepts new ones.
#[test]
fn the_files_are_those_that_were_blessed() {
    let data = example();
    let picked = Picked::new(&data, PickedTime::Cpu);
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
    assert_eq!(
        (totals(PickedTime::Cpu).weight, totals(PickedTime::Cpu).left_out),
        (5, 1)
    );
    assert_eq!(
        (totals(PickedTime::Waits).weight, totals(PickedTime::Waits).left_out),
        (1, 5)
    );
    assert_eq!(
        (totals(PickedTime::All).weight, totals(PickedTime::All).left_out),
        (6, 0)
    );
}

#[test]
fn pprof_has_inlined_functions_in_one_location_with_the_address_and_the_library() {
    let data = example();
    let mut bytes = Vec::new();
    pprof::write(&Picked::new(&data, PickedTime::Cpu), &mut bytes).unwrap();
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

/// pprof takes the first mapping for the program ("File: app").
#[test]
fn pprof_has_the_program_first() {
    let mut data = example();
    // The loader has the first sample of most programs.
    data.libs.swap(0, 1);
    for frame in data.frames.iter_mut().filter(|frame| frame.lib != NONE) {
        frame.lib = 1 - frame.lib;
    }
    for product in ["app", "python3"] {
        data.product = product.to_owned();
        let mut bytes = Vec::new();
        pprof::write(&Picked::new(&data, PickedTime::Cpu), &mut bytes).unwrap();
        let mappings = Pprof::decode(&bytes).mappings;
        assert_eq!(mappings[0].0, "/opt/app", "{product}: {mappings:?}");
        assert_eq!(mappings.len(), 2);
    }
}

#[test]
fn speedscope_opens_at_the_busiest_thread() {
    let mut data = example();
    let mut idle = data.threads[0].clone();
    idle.samples.time_ms.truncate(1);
    idle.samples.stack.truncate(1);
    data.threads.insert(0, idle);
    data.threads.insert(1, Thread::default());
    let mut bytes = Vec::new();
    speedscope::write(&Picked::new(&data, PickedTime::Cpu), &mut bytes).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    // A thread without samples has no profile.
    assert_eq!(json["profiles"].as_array().unwrap().len(), 2);
    assert_eq!(json["activeProfileIndex"], 1);
}

#[test]
fn opentelemetry_has_the_time_of_each_sample_its_thread_and_what_ran() {
    let data = example();
    let mut bytes = Vec::new();
    let resource = [("service.name".to_owned(), "shop".to_owned())];
    otlp::write(&Picked::new(&data, PickedTime::Cpu), &resource, &mut bytes).unwrap();
    let (request, dictionary) = otlp(&bytes);
    let of_resource = &request.resource_profiles[0];
    let attribute = &of_resource.resource.as_ref().unwrap().attributes[0];
    assert_eq!(attribute.key, "service.name");
    let scope = &of_resource.scope_profiles[0];
    assert_eq!(scope.scope.as_ref().unwrap().name, "sprof");
    let profile = &scope.profiles[0];
    let text = |index: i32| dictionary.string_table[index as usize].as_str();
    let value_type = profile.sample_type.unwrap();
    assert_eq!(
        (text(value_type.type_strindex), text(value_type.unit_strindex)),
        ("cpu", "nanoseconds")
    );
    // `helper` is inlined into `work`: one location with two lines, and a sample of two observations, 1 and 2 ms after
    // the start.
    let start = profile.time_unix_nano;
    assert_eq!(start, 1_700_000_000_000_000_000);
    let name = |line: &opentelemetry_proto::tonic::profiles::v1development::Line| {
        text(dictionary.function_table[line.function_index as usize].name_strindex)
    };
    let inlined = profile.samples.iter().find(|sample| sample.values.len() == 2).unwrap();
    assert_eq!(inlined.timestamps_unix_nano, [start + 1_000_000, start + 2_000_000]);
    assert_eq!(inlined.values, [1_000_000; 2]);
    let stack = &dictionary.stack_table[inlined.stack_index as usize].location_indices;
    let leaf = &dictionary.location_table[stack[0] as usize];
    assert_eq!(
        leaf.lines.iter().map(name).collect::<Vec<_>>(),
        ["helper", "work<[u8; 4]>"]
    );
    let mapping = &dictionary.mapping_table[leaf.mapping_index as usize];
    assert_eq!(text(mapping.filename_strindex), "/opt/app");
    let end = start + profile.duration_nano;
    let times = profile.samples.iter().flat_map(|sample| &sample.timestamps_unix_nano);
    assert!(times.clone().count() == 5 && times.clone().all(|time| (start..end).contains(time)));
    let attributes = inlined.attribute_indices.iter().chain(&mapping.attribute_indices);
    let keys: Vec<&str> = attributes
        .map(|index| text(dictionary.attribute_table[*index as usize].key_strindex))
        .collect();
    assert_eq!(
        keys,
        [
            "process.executable.name",
            "thread.name",
            "process.pid",
            "thread.id",
            "process.executable.build_id.gnu"
        ]
    );
}
