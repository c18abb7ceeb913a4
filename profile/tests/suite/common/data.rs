//! Profiles to export, and what their functions cost.

use profile::data::{Category, Data, Frame, Func, NONE, Samples, Stack, Thread, WeightUnit};
use profile::export::PickedTime;
use proptest::prelude::*;

use super::exports::{Costs, common_name};

/// One as recordings of ours have it.
pub(crate) fn category(name: &str) -> Category {
    Category {
        is_wait: matches!(name, "Off-CPU" | "Waiting for a CPU"),
        ..Category::named(name)
    }
}

/// Any profile of few functions, so that stacks share and repeat them.
pub(crate) fn data() -> impl Strategy<Value = Data> {
    let name = "[ab;<>&\"\\n\u{e9}]{0,3}|f|g|main|operator()\\(\\)|0x1f";
    let names = prop::collection::btree_set(name, 1..6);
    let unit = prop_oneof![
        Just(WeightUnit::Samples),
        Just(WeightUnit::Milliseconds),
        Just(WeightUnit::Bytes)
    ];
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
                .map(category)
                .into(),
            funcs: (0..=funcs)
                .map(|name| Func::native(name, if name % 2 == 0 { 0 } else { NONE }, NONE))
                .collect(),
            texts: names.into_iter().map(String::into_boxed_str).collect(),
            libs: vec![profile::data::SavedLib {
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
                line,
                category,
                lib,
                address: Some(u64::from(line) * 16),
                inline_depth: inlined.into(),
                ..Frame::of(func)
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
                    ..Samples::default()
                },
                ..Thread::default()
            });
        }
        data
    })
}

/// By the names that all formats can hold.
pub(crate) fn expected(data: &Data, time: PickedTime) -> Costs {
    let mut costs = Costs::default();
    let scale = if data.unit == WeightUnit::Milliseconds {
        1e6
    } else {
        1.0
    };
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
        let is_picked = time == PickedTime::All || is_wait == (time == PickedTime::Waits);
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

/// `main` calls `work`, which inlined `helper`; in the kernel; waiting; without a stack.
pub(crate) fn example() -> Data {
    let text = |text: &str| text.to_owned().into_boxed_str();
    let func = |name, lib, file| Func::native(name, lib, file);
    let frame = |func, line, category, lib, address, inlined: bool| Frame {
        line,
        category,
        lib,
        address,
        inline_depth: inlined.into(),
        ..Frame::of(func)
    };
    let lib = |name: &str, id: &str| profile::data::SavedLib {
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
        categories: ["Program", "Kernel", "Off-CPU"].map(category).into(),
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
                ..Samples::default()
            },
            ..Thread::default()
        }],
        ..Data::default()
    }
}
