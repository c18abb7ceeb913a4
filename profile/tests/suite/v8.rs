//! A function of JavaScript is one function, whatever compiled it.

use std::io::Write as _;

use crate::common::*;
use names::symbol::{AddressInfo, FunctionSymbol, SourceFrame};
use names::v8::{Code, Start, Tier};
use profile::data::Data;
use profile::enrich::enrich;
use profile::read::{self, ReadLimits};
use profile::view::breakdown::categories;
use profile::view::functions::functions;
use profile::view::select::{Filter, select};
use serde_json::json;

/// `fib` at 0x200 by TurboFan, at 0x300 in the interpreter.
fn answer(address: u64) -> AddressInfo {
    let tier = match address {
        0x200..0x280 => Tier::TurboFan,
        0x300..0x380 => Tier::Interpreter,
        _ => return AddressInfo::default(),
    };
    let start = Start {
        line: 1,
        column: Some(13),
    };
    AddressInfo {
        function: Some(FunctionSymbol {
            v8: Some(Code {
                tier: Some(tier),
                start: Some(start),
            }),
            ..FunctionSymbol::named("fib busy.js:1:13".to_owned(), address & !0xff, Some(0x80))
        }),
        frames: vec![SourceFrame {
            function: Some("fib busy.js:1:13".to_owned()),
            file: Some("/tmp/busy.js".to_owned()),
            declared_in: None,
            line: None,
            column: None,
            krate: None,
        }],
    }
}

/// (name, share in thousandths) of the parts of the category of JIT code.
fn parts(data: &Data) -> Vec<(String, u64)> {
    let selection = select(data, &Filter::default()).unwrap();
    let jit = categories(&selection)
        .into_iter()
        .find(|row| row.name == "JIT and anonymous");
    let total = selection.total;
    let parts = jit.unwrap().parts.into_iter();
    parts
        .map(|(name, cost)| (name, (cost.share_of(total) * 1000.0).round() as u64))
        .collect()
}

#[test]
fn tiers_are_subcategories_of_one_function_with_its_place() {
    let mut stream = Stream::with_app();
    for at in 1..4 {
        stream.sample(1, 1, at, &[ip(0x1210)]);
    }
    stream.sample(1, 1, 4, &[ip(0x1310)]);
    let mut profile = stream.finish();
    enrich(&mut profile, |_, addresses| {
        Some(addresses.iter().copied().map(answer).collect())
    });
    let json = written(&profile);
    let funcs = &json["shared"]["funcTable"];
    assert_eq!(
        (
            &funcs["length"],
            &funcs["isJS"][0],
            &funcs["lineNumber"][0],
            &funcs["columnNumber"][0]
        ),
        (&1.into(), &true.into(), &1.into(), &13.into())
    );
    let expected = [("TurboFan".to_owned(), 750), ("Interpreter".to_owned(), 250)];
    assert_eq!(parts(&Data::from(&profile)), expected);
    // And of a file.
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(json.to_string().as_bytes()).unwrap();
    assert_eq!(
        parts(&read::whole(file.path(), ReadLimits::default()).unwrap()),
        expected
    );
}

#[test]
fn older_recordings_and_those_of_samply_have_one_function_for_all_tiers() {
    let jit = "JIT and anonymous";
    let of_sprof = vec![("Interpreter".to_owned(), 500), ("TurboFan".to_owned(), 500)];
    for (categories, expected) in [([jit, "Other"], Some(of_sprof)), (["Turbofan", "Interpreter"], None)] {
        let interpreter = usize::from(expected.is_none());
        let json = json!({
            "meta": {"preprocessedProfileVersion": 60, "product": "node", "startTime": 0, "interval": 1, "symbolicated": true,
                     "categories": categories.map(|name| json!({"name": name, "color": "grey", "subcategories": ["Other"]}))},
            "libs": [],
            "shared": {
                "stringArray": ["JS:*fib /tmp/busy.js:1:13", "JS:~fib /tmp/busy.js:1:13"],
                "stackTable": {"frame": [0, 1], "prefix": [null, 0], "length": 2},
                "frameTable": {"func": [0, 1], "line": [1, null], "category": [0, interpreter], "subcategory": [0, 0],
                               "address": [-1, -1], "inlineDepth": [0, 0], "length": 2},
                "funcTable": {"name": [0, 1], "resource": [-1, -1], "source": [null, null], "length": 2},
                "resourceTable": {"lib": [], "name": [], "host": [], "type": [], "length": 0},
                "sources": {"filename": [], "length": 0},
            },
            "threads": [{"name": "node", "processName": "node", "pid": "1", "tid": "1", "markers": {"length": 0},
                         "samples": {"length": 2, "stack": [0, 1], "time": [0, 1]}}],
        });
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(json.to_string().as_bytes()).unwrap();
        let data = read::whole(file.path(), ReadLimits::default()).unwrap();
        let rows = functions(&select(&data, &Filter::default()).unwrap());
        let names: Vec<&str> = rows.iter().map(|row| data.func_name(row.func)).collect();
        assert_eq!((names, rows[0].own.samples), (vec!["fib busy.js:1:13"], 2));
        if let Some(expected) = expected {
            assert_eq!(parts(&data), expected);
        }
    }
}

#[test]
fn names_that_another_profiler_kept_are_read_in_parts_if_they_are_of_jit_code() {
    let text = "app  70/70 [001]   100.1:    1000000 cpu-clock:u: \n\t 10 JS:*fib /tmp/busy.js:1:13+0x4 (/tmp/perf-70.map)\n\t 5 main+0x2 (/home/app)\n\n\
                app  70/70 [001]   100.2:    1000000 cpu-clock:u: \n\t 90 JS:~fib /tmp/busy.js:1:13+0x4 (/tmp/perf-70.map)\n\t 5 main+0x2 (/home/app)\n\n\
                app  70/70 [001]   100.3:    2000000 cpu-clock:u: \n\t 10 JS:*x /tmp/x.js:1:1+0x4 (/home/app)\n\n";
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let kind = read::kind(file.path()).unwrap();
    let data = read::foreign(file.path(), kind, None, ReadLimits::default())
        .unwrap()
        .data;
    let mut found: Vec<(String, f64)> = functions(&select(&data, &Filter::default()).unwrap())
        .into_iter()
        .map(|row| (data.func_name(row.func).to_owned(), row.own.share_of(row.total)))
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [("JS:*x /tmp/x.js:1:1", 1.0), ("fib busy.js:1:13", 1.0), ("main", 0.0)];
    assert_eq!(found, expected.map(|(name, own)| (name.to_owned(), own)));
    assert_eq!(
        parts(&data),
        [("Interpreter".to_owned(), 250), ("TurboFan".to_owned(), 250)]
    );
    let fib = data
        .funcs
        .iter()
        .find(|func| data.text(func.name) == "fib busy.js:1:13")
        .unwrap();
    assert_eq!(
        (data.text(fib.file), data.scripts[fib.script as usize].line),
        ("/tmp/busy.js", 1)
    );
}
