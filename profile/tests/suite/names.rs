//! Data saved without symbols gets the names that enriching the profile before saving would have given it.

use std::io::Write;

use crate::common::*;
use names::symbol::{AddressInfo, FunctionSymbol, SourceFrame};
use profile::Profile;
use profile::data::{Data, NONE};
use profile::enrich::enrich;
use profile::read::{ReadLimits, everything};
use profile::view::{WantedNames, name_addresses, name_wanted};

/// `work` without debug info; `leaf`, which inlined `helper`, which inlined a part of the standard library.
fn symbols(address: u64) -> AddressInfo {
    let std = "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/core/src/iter/range.rs";
    let source = |function: &str, file: &str, line| SourceFrame {
        function: Some(function.into()),
        file: Some(file.into()),
        declared_in: None,
        line: Some(line),
        column: None,
        krate: (file == std).then(|| "core".to_owned()),
    };
    let symbol = |name: &str, start| FunctionSymbol {
        is_named: true,
        name: name.into(),
        start,
        size: Some(0x100),
        v8: None,
        krate: Some("app".to_owned()),
    };
    match address {
        0x000..0x100 => AddressInfo {
            function: Some(symbol("work", 0)),
            frames: Vec::new(),
        },
        0x100..0x200 => AddressInfo {
            function: Some(symbol("leaf", 0x100)),
            frames: vec![
                source("next", std, 7),
                source("helper", "/src/helper.rs", 20),
                source("leaf", "/src/leaf.rs", 30),
            ],
        },
        _ => AddressInfo::default(),
    }
}

fn unnamed() -> Profile {
    let mut stream = Stream::with_app();
    stream.thread(1, 2, 0);
    for ms in 0..40 {
        let stack = [ip(0x1110 + ms % 3), ret(0x10_0500), ret(0x1021 + ms % 2), ret(0x1022)];
        stream.sample(1, 1 + (ms % 2) as i32, ms, &stack);
    }
    stream.sample(1, 1, 50, &[]);
    stream.finish()
}

fn read(profile: &Profile) -> Data {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&serde_json::to_vec(&written(profile)).unwrap()).unwrap();
    everything(file.path(), ReadLimits::default()).unwrap().0
}

/// Every sample: thread, and its frames from the root on.
fn shown(data: &Data) -> Vec<(String, Vec<String>)> {
    let frames = |mut stack: u32| {
        let mut frames = Vec::new();
        while stack != NONE {
            let node = data.stacks[stack as usize];
            let frame = data.frames[node.frame as usize];
            let func = data.funcs[frame.func as usize];
            frames.push(format!(
                "{} {} {:?} {} {} {} {} {}",
                data.func_name(frame.func),
                data.text(func.krate),
                data.lib_name(frame.func),
                data.text(func.file),
                frame.line,
                data.categories[frame.category as usize].name,
                data.categories[frame.category as usize].subcategories[frame.subcategory as usize],
                frame.is_inlined(),
            ));
            stack = node.prefix;
        }
        frames
    };
    (data.threads.iter())
        .flat_map(|thread| (thread.samples.stack.iter()).map(|stack| (thread.tid.clone(), frames(*stack))))
        .collect()
}

#[test]
fn names_come_to_the_same_before_and_after_saving() {
    let mut data = read(&unnamed());
    assert!(!data.symbolicated);
    let named = name_addresses(&mut data, |lib, addresses| {
        (lib.name.as_deref() == Some("app")).then(|| addresses.iter().copied().map(symbols).collect())
    });
    let mut profile = unnamed();
    let enriched = enrich(&mut profile, |module, addresses| {
        (module.name() == "app").then(|| addresses.iter().copied().map(symbols).collect())
    });
    let expected = read(&profile);
    assert!(data.symbolicated && expected.symbolicated);
    assert_eq!(shown(&data), shown(&expected));
    let crates = |name: &str| {
        let of_name = |func: &&profile::data::Func| expected.text(func.name) == name;
        let funcs = expected.funcs.iter().filter(of_name);
        funcs.map(|func| expected.text(func.krate)).collect::<Vec<_>>()
    };
    // Inlined functions are of their own crate, and without a symbol of that of their folder; code without debug info
    // is of its symbol's.
    assert_eq!(
        ["next", "helper", "leaf", "work"].map(crates),
        [["core"], ["app"], ["app"], ["app"]]
    );
    assert_eq!(data.funcs.len(), expected.funcs.len());
    assert_eq!(
        (named.addresses, named.addresses_without_name),
        (enriched.addresses, enriched.addresses_without_name)
    );
}

/// "Collapse resource" of the front end then collapses a crate, and not the program that it was linked into.
#[test]
fn the_resource_of_a_function_is_its_crate() {
    let mut profile = unnamed();
    enrich(&mut profile, |module, addresses| {
        (module.name() == "app").then(|| addresses.iter().copied().map(symbols).collect())
    });
    let json = written(&profile);
    let (funcs, resources) = (&json["shared"]["funcTable"], &json["shared"]["resourceTable"]);
    let text = |index: &serde_json::Value| json["shared"]["stringArray"][index.as_u64().unwrap() as usize].clone();
    let resource_of = |name: &str| {
        let names = funcs["name"].as_array().unwrap();
        let func = names.iter().position(|func| text(func) == name).unwrap();
        let resource = funcs["resource"][func].as_u64().unwrap() as usize;
        // `ResourceType.Library` of src/types/profile.ts.
        assert_eq!(resources["type"][resource], 1);
        text(&resources["name"][resource])
    };
    assert_eq!(
        ["next", "helper", "leaf", "work"].map(resource_of),
        ["core", "app", "app", "app"]
    );
    // The library is that of the frames.
    let data = read(&profile);
    let leaf = data.funcs.iter().find(|func| data.text(func.name) == "next").unwrap();
    assert_eq!(data.libs[leaf.lib as usize].name.as_deref(), Some("app"));
}

#[test]
fn without_an_answer_nothing_changes() {
    let mut data = read(&unnamed());
    let before = shown(&data);
    // An answer of another length is none.
    let named = name_addresses(&mut data, |_, _| Some(Vec::new()));
    assert_eq!(named.addresses, named.addresses_without_name);
    assert!(!data.symbolicated);
    assert_eq!(shown(&data), before);
}

/// The same of a program without debug info.
fn symbols_alone(address: u64) -> AddressInfo {
    AddressInfo {
        frames: Vec::new(),
        ..symbols(address)
    }
}

fn answer(data: &mut Data, wanted: WantedNames, of: impl Fn(u64) -> AddressInfo) -> bool {
    let wanted = vec![wanted; data.libs.len()];
    let named = name_wanted(data, &wanted, |lib, addresses| {
        (lib.name.as_deref() == Some("app")).then(|| addresses.iter().copied().map(&of).collect())
    });
    named.is_changed
}

#[test]
fn debug_info_that_comes_later_gives_what_it_would_have_given_before() {
    let mut whole = read(&unnamed());
    assert!(answer(&mut whole, WantedNames::Names, symbols));
    let mut later = read(&unnamed());
    assert!(answer(&mut later, WantedNames::Names, symbols_alone));
    assert_ne!(shown(&later), shown(&whole));
    assert!(answer(&mut later, WantedNames::Names, symbols));
    assert_eq!(shown(&later), shown(&whole));
    // No function is there twice, and none is left that no frame has.
    let names = |data: &Data| {
        let mut names: Vec<String> = (0..data.funcs.len() as u32)
            .map(|func| data.func_name(func).to_owned())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(&later), names(&whole));
}

#[test]
fn equal_and_lesser_answers_lose_nothing() {
    let mut data = read(&unnamed());
    assert!(answer(&mut data, WantedNames::Names, symbols));
    let (before, frames, stacks) = (shown(&data), data.frames.len(), data.stacks.len());
    answer(&mut data, WantedNames::Names, symbols);
    assert_eq!((data.frames.len(), data.stacks.len()), (frames, stacks));
    assert_eq!(shown(&data), before);
    // `work` has the same answer as before; those with less are dropped.
    answer(&mut data, WantedNames::Names, symbols_alone);
    assert_eq!(shown(&data), before);
    assert!(!answer(&mut data, WantedNames::Names, |_| AddressInfo::default()));
    assert!(!answer(&mut data, WantedNames::Nothing, symbols));
    assert_eq!(shown(&data), before);
}

#[test]
fn an_answer_with_lines_and_fewer_inlined_functions_loses_none() {
    let mut data = read(&unnamed());
    let inlined = |data: &Data| data.frames.iter().filter(|frame| frame.is_inlined()).count();
    let without_lines = |address| {
        let mut info = symbols(address);
        info.frames.iter_mut().for_each(|frame| frame.line = None);
        info
    };
    assert!(answer(&mut data, WantedNames::Names, without_lines));
    let before = inlined(&data);
    assert!(before > 0);
    answer(&mut data, WantedNames::Names, |address| {
        let mut info = symbols(address);
        info.frames.drain(..info.frames.len().saturating_sub(1));
        info
    });
    assert_eq!(inlined(&data), before);
}

/// A kernel module of another boot lies where another one was.
#[test]
fn lines_of_names_are_of_the_same_function() {
    let mut data = read(&unnamed());
    assert!(answer(&mut data, WantedNames::Names, symbols_alone));
    let renamed = |address| {
        let mut info = symbols(address);
        if let Some(function) = &mut info.function {
            function.name += "_of_another_module";
        }
        info
    };
    let before = shown(&data);
    assert!(!answer(&mut data, WantedNames::LinesOfNames, renamed));
    assert_eq!(shown(&data), before);
    assert!(answer(&mut data, WantedNames::LinesOfNames, symbols));
    assert_ne!(shown(&data), before);
}
