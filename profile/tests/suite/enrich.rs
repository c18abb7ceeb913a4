//! Symbols go into a profile.

use std::cell::RefCell;

use crate::common::*;
use names::symbol::{AddressInfo, FunctionSymbol, SourceFrame};
use profile::enrich::{Enriched, enrich};
use profile::view::top;

fn frame(function: &str, file: &str, line: u32) -> SourceFrame {
    SourceFrame {
        function: Some(function.into()),
        file: Some(file.into()),
        declared_in: None,
        line: Some(line),
        column: Some(7),
        krate: None,
    }
}

fn symbol(name: &str, start: u64) -> Option<FunctionSymbol> {
    Some(FunctionSymbol {
        is_named: true,
        name: name.into(),
        start,
        size: Some(0x80),
        v8: None,
        krate: None,
    })
}

/// `main` at 0x100; `work` at 0x200, into which `helper` and, from Rust's library, `fold` are inlined; no more.
fn answer(address: u64) -> AddressInfo {
    match address {
        0x100..0x180 => AddressInfo {
            function: symbol("main", 0x100),
            frames: vec![frame("main", "/src/main.rs", 10)],
        },
        0x200..0x280 => AddressInfo {
            function: symbol("work", 0x200),
            frames: vec![
                frame("core::fold", "/rustc/0123/library/core/src/iter.rs", 99),
                frame("helper", "/src/helper.rs", 20),
                frame("work", "/src/main.rs", 30),
            ],
        },
        0x300..0x380 => AddressInfo {
            function: symbol("plain", 0x300),
            frames: Vec::new(),
        },
        _ => AddressInfo::default(),
    }
}

#[test]
fn inlined_functions_become_frames_between_their_callers_and_callees() {
    let mut stream = Stream::with_app();
    stream.sample(1, 1, 1, &[ip(0x1310), ret(0x1211), ret(0x1111)]);
    stream.sample(1, 1, 2, &[ip(0x1220), ret(0x1111)]);
    let mut profile = stream.finish();
    let result = enrich(&mut profile, |_, addresses| {
        Some(addresses.iter().copied().map(answer).collect())
    });
    assert_eq!(
        (
            result.addresses,
            result.addresses_without_name,
            result.samples_without_name
        ),
        (4, 0, 0)
    );

    let json = written(&profile);
    assert_eq!(json["meta"]["symbolicated"], true);
    assert_eq!(
        stack_names(&json, 0, 0),
        ["main", "work", "helper", "core::fold", "plain"]
    );
    assert_eq!(stack_names(&json, 0, 1), ["main", "work", "helper", "core::fold"]);
    let frames = &json["shared"]["frameTable"];
    let row = |key: &str| (0..4).map(|frame| frames[key][frame].clone()).collect::<Vec<_>>();
    // Frames in order of address: 0x110, 0x210, 0x220, 0x310, each with its inlined ones.
    let addresses = frames["address"].as_array().unwrap();
    let work = addresses.iter().position(|address| *address == 0x210).unwrap();
    let of_work = |key: &str| {
        (work..work + 3)
            .map(|frame| frames[key][frame].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(of_work("inlineDepth"), [0, 1, 2]);
    assert_eq!(of_work("line"), [30, 20, 99]);
    assert_eq!(of_work("subcategory"), [0, 1, 1]);
    assert_eq!(row("column").len(), 4);
    assert_eq!(
        json["shared"]["funcTable"]["length"], 5,
        "one function a name, file and library"
    );
    assert_eq!(json["shared"]["nativeSymbols"]["length"], 3);
    let files: Vec<_> = (json["shared"]["sources"]["filename"].as_array().unwrap().iter())
        .map(|id| json["shared"]["stringArray"][id.as_u64().unwrap() as usize].clone())
        .collect();
    assert!(files.contains(&"/src/helper.rs".into()), "{files:?}");
}

#[test]
fn functions_without_a_name_are_one_each_and_counted() {
    let mut stream = Stream::with_app();
    stream.sample(1, 1, 1, &[ip(0x1310), ret(0x1211)]);
    stream.sample(1, 1, 2, &[ip(0x1320), ret(0x1211)]);
    stream.sample(1, 1, 3, &[ip(0x1211)]);
    let answer = |address: &u64| AddressInfo {
        function: match address {
            0x300..0x380 => Some(FunctionSymbol::unnamed(&(0x300..0x380))),
            _ => symbol("work", 0x200),
        },
        frames: Vec::new(),
    };
    let mut profile = stream.finish();
    let result = enrich(&mut profile, |_, addresses| {
        Some(addresses.iter().map(answer).collect())
    });
    assert_eq!((result.addresses_without_name, result.samples_without_name), (2, 2));
    let json = written(&profile);
    assert_eq!(stack_names(&json, 0, 0), ["work", "fun_300"]);
    assert_eq!(stack_names(&json, 0, 1), ["work", "fun_300"]);
    assert_eq!(json["shared"]["funcTable"]["length"], 2);
}

#[test]
fn what_has_no_symbol_keeps_its_address_and_is_counted() {
    let mut stream = Stream::with_app();
    stream.sample(1, 1, 1, &[ip(0x1f00)]);
    stream.sample(1, 1, 2, &[ip(0x10_0010)]);
    stream.sample(1, 1, 3, &[ip(0x90_0010)]);
    let mut profile = stream.finish();
    let asked = RefCell::new(Vec::new());
    let result = enrich(&mut profile, |module, addresses| {
        asked.borrow_mut().push((module.name(), addresses.to_vec()));
        (module.name() == "app").then(|| vec![AddressInfo::default(); addresses.len()])
    });
    let expected = Enriched {
        addresses: 2,
        addresses_without_name: 2,
        modules: 2,
        modules_without_symbols: 1,
        samples_without_name: 3,
    };
    assert_eq!(result, expected);
    assert_eq!(
        asked.into_inner(),
        [("app".into(), vec![0xf00]), ("libc.so.6".to_owned(), vec![0x10])]
    );
    let json = written(&profile);
    let leaf: Vec<_> = (0..3).map(|sample| stack_names(&json, 0, sample).remove(0)).collect();
    assert_eq!(leaf, ["0xf00", "0x10", "0x900010"]);
}

#[test]
fn an_answer_of_the_wrong_length_is_no_answer() {
    let mut stream = Stream::with_app();
    stream.sample(1, 1, 1, &[ip(0x1110)]);
    let mut profile = stream.finish();
    let result = enrich(&mut profile, |_, _| Some(Vec::new()));
    assert_eq!(result.modules_without_symbols, 1);
    assert_eq!(stack_names(&written(&profile), 0, 0), ["0x110"]);
}

#[test]
fn markers_survive_and_the_hottest_functions_have_names() {
    let mut stream = Stream::with_app();
    stream.rename(1, 1, "renamed", 0);
    stream.sample(1, 1, 1, &[ip(0x1310), ret(0x1111)]);
    let mut profile = stream.finish();
    enrich(&mut profile, |_, addresses| {
        Some(addresses.iter().copied().map(answer).collect())
    });
    let json = written(&profile);
    let markers = markers(&json["threads"][0]);
    assert!(
        markers
            .iter()
            .any(|(kind, data)| *kind == "Renamed" && data["to"] == "renamed"),
        "{markers:?}"
    );
    assert_eq!(top(&profile, 1).functions[0].name, "plain");
}

#[test]
fn debug_info_that_nests_without_end_is_cut() {
    let mut stream = Stream::with_app();
    stream.sample(1, 1, 1, &[ip(0x1110)]);
    let mut profile = stream.finish();
    enrich(&mut profile, |_, _| {
        Some(vec![AddressInfo {
            function: None,
            frames: vec![frame("f", "f.c", 1); 100_000],
        }])
    });
    assert_eq!(written(&profile)["shared"]["frameTable"]["length"], 256);
}
