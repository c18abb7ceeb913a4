//! The symbol-server requests, as the Firefox Profiler makes them.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::{build, function, module, symbolicator};
use serde_json::{Value, json};
use symbolicator::{Symbolicator, api};

fn ask(symbolicator: &Symbolicator, path: &str, request: &Value) -> (u16, Value) {
    let response = api::handle(symbolicator, path, request.to_string().as_bytes());
    (response.status, serde_json::from_slice(&response.body).unwrap())
}

#[test]
fn symbolicate_answers_with_inlines_and_function_bounds() {
    let built = build("inline.c", &["-O2", "-g"]);
    let module = module(&built.path);
    let (start, size) = function(&built.path, "_outer");
    let symbolicator = symbolicator(&[]);
    symbolicator.add_module(&module);
    let id = module.breakpad_id();
    let stack: Vec<_> = (start..start + size).map(|address| json!([0, address])).collect();
    let (status, answer) = ask(
        &symbolicator,
        "/symbolicate/v5",
        &json!({"jobs": [{"memoryMap": [["program", id]], "stacks": [stack]}]}),
    );
    assert_eq!(status, 200, "{answer}");
    let result = &answer["results"][0];
    assert_eq!(result["found_modules"], json!({format!("program/{id}"): true}));
    let frames = result["stacks"][0].as_array().unwrap();
    assert_eq!(frames.len() as u64, size);
    // inline.c: `innermost` (line 7) is inlined into `middle` at line 12, that into `_outer` at line 17.
    let file = common::source("inline.c");
    let (at, frame) = frames
        .iter()
        .enumerate()
        .find(|(_, frame)| frame["inlines"].as_array().is_some_and(|inlines| inlines.len() == 2))
        .unwrap();
    assert_eq!(frame["frame"], at);
    assert_eq!(frame["module"], "program");
    assert_eq!(frame["module_offset"], format!("{:#x}", start + at as u64));
    assert_eq!(frame["function"], "_outer");
    assert_eq!(frame["function_offset"], format!("{at:#x}"));
    assert_eq!(frame["function_size"], format!("{size:#x}"));
    assert_eq!((&frame["file"], &frame["line"]), (&json!(file), &json!(17)));
    let inlines = &frame["inlines"];
    assert_eq!(
        (&inlines[0]["function"], &inlines[0]["line"]),
        (&json!("innermost"), &json!(7))
    );
    assert_eq!(
        (&inlines[1]["function"], &inlines[1]["line"]),
        (&json!("middle"), &json!(12))
    );
    assert_eq!(inlines[1]["file"], json!(file));
}

#[test]
fn symbolicate_says_which_modules_it_has_not() {
    let (status, answer) = ask(
        &symbolicator(&[]),
        "/symbolicate/v5",
        &json!({"jobs": [{"memoryMap": [["a", "0"], ["b", "1"]], "stacks": [[[0, 16], [-1, 5]]]}]}),
    );
    assert_eq!(status, 200);
    let result = &answer["results"][0];
    // Nothing was asked of `b`.
    assert_eq!(result["found_modules"], json!({"a/0": false, "b/1": null}));
    assert_eq!(
        result["stacks"],
        json!([[
            {"frame": 0, "module": "a", "module_offset": "0x10"},
            {"frame": 1, "module": "", "module_offset": "0x5"},
        ]])
    );
}

#[test]
fn modules_without_build_id_are_answered_only_if_their_name_is_unique() {
    let one = build("inline.c", &["-O2", "-g", "-Wl,--build-id=none"]);
    let two = build("inline.c", &["-O2", "-g", "-Wl,--build-id=none"]);
    let symbolicator = symbolicator(&[]);
    symbolicator.add_module(&module(&one.path));
    let request = json!({"jobs": [{"memoryMap": [["program", "0".repeat(33)]], "stacks": [[[0, function(&one.path, "_outer").0]]]}]});
    let (_, answer) = ask(&symbolicator, "/symbolicate/v5", &request);
    assert_eq!(answer["results"][0]["stacks"][0][0]["function"], "_outer");
    symbolicator.add_module(&module(&two.path));
    let (_, answer) = ask(&symbolicator, "/symbolicate/v5", &request);
    let label = format!("program/{}", "0".repeat(33));
    assert_eq!(answer["results"][0]["found_modules"][&label], false);
    let error = answer["results"][0]["module_errors"][&label].as_str().unwrap();
    assert!(error.contains(two.path.to_str().unwrap()), "{error}");
}

#[test]
fn malformed_requests_get_a_json_error() {
    let symbolicator = symbolicator(&[]);
    for path in ["/symbolicate/v5", "/source/v1", "/asm/v1", "/", "", "/symbolicate/v6"] {
        let deep = "[".repeat(100_000);
        let cases: &[&[u8]] = &[
            b"",
            b"{",
            b"null",
            b"[]",
            b"{}",
            b"\xff\xfe",
            deep.as_bytes(),
            br#"{"jobs": 1}"#,
            br#"{"jobs": [{"memoryMap": [["a", "b"]], "stacks": [[[1, 5]]]}]}"#,
            br#"{"jobs": [{"memoryMap": [["a", "b"]], "stacks": [[[0, -5]]]}]}"#,
            br#"{"jobs": [{"memoryMap": [["a", "b"]], "stacks": [[[0, 1e300]]]}]}"#,
            br#"{"jobs": [{"memoryMap": [[1, 2]], "stacks": []}]}"#,
            br#"{"debugName": 1}"#,
        ];
        for case in cases {
            let response = api::handle(&symbolicator, path, case);
            let body: Value = serde_json::from_slice(&response.body).unwrap();
            assert!((400..500).contains(&response.status), "{path} {case:?}");
            assert!(
                body["error"].as_str().is_some_and(|text| !text.is_empty()),
                "{path}: {body}"
            );
        }
    }
}

#[test]
fn requests_that_ask_too_much_are_refused() {
    let symbolicator = symbolicator(&[]);
    let stack = vec![json!([0, 1]); 600_000];
    let request = json!({"jobs": [{"memoryMap": [["a", "b"]], "stacks": [stack]}]});
    assert_eq!(ask(&symbolicator, "/symbolicate/v5", &request).0, 400);
    let response = api::handle(&symbolicator, "/symbolicate/v5", &vec![b' '; 17 << 20]);
    assert_eq!(response.status, 400);
}

/// (relative address of `_outer`, its size, symbolicator that knows the program, breakpad id)
fn inline_program(flags: &[&str]) -> (common::Built, (u64, u64), Symbolicator, String) {
    let built = build("inline.c", flags);
    let module = module(&built.path);
    let outer = function(&built.path, "_outer");
    let symbolicator = symbolicator(&[]);
    symbolicator.add_module(&module);
    (built, outer, symbolicator, module.breakpad_id())
}

#[test]
fn source_is_given_where_the_address_names_it() {
    let (_built, (start, _), symbolicator, id) = inline_program(&["-O2", "-g"]);
    let file = common::source("inline.c");
    let mut request =
        json!({"debugName": "program", "debugId": id, "moduleOffset": format!("{start:#x}"), "file": file});
    let (status, answer) = ask(&symbolicator, "/source/v1", &request);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["source"], std::fs::read_to_string(&file).unwrap());

    for other in ["/etc/passwd", "tests/programs/inline.c", "/", "", "inline.c"] {
        request["file"] = json!(other);
        let (status, answer) = ask(&symbolicator, "/source/v1", &request);
        assert_eq!(status, 404, "{other}: {answer}");
        assert!(answer["error"].as_str().unwrap().contains("does not name"), "{answer}");
    }
    // The same file, but an address outside of any function.
    request["file"] = json!(file);
    request["moduleOffset"] = json!("0x0");
    assert_eq!(ask(&symbolicator, "/source/v1", &request).0, 404);
}

#[test]
fn a_source_file_that_is_gone_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("gone.c");
    std::fs::copy(common::source("inline.c"), &file).unwrap();
    let program = dir.path().join("program");
    common::run("cc", &[&"-O2", &"-g", &"-Wl,--build-id", &file, &"-o", &program]);
    std::fs::remove_file(&file).unwrap();
    let module = module(&program);
    let symbolicator = symbolicator(&[]);
    symbolicator.add_module(&module);
    let start = function(&program, "_outer").0;
    let request = json!({"debugName": "program", "debugId": module.breakpad_id(), "moduleOffset": format!("{start:#x}"), "file": file});
    let (status, answer) = ask(&symbolicator, "/source/v1", &request);
    assert_eq!(status, 404);
    assert!(
        answer["error"].as_str().unwrap().contains(file.to_str().unwrap()),
        "{answer}"
    );
}

#[test]
fn assembly_names_the_functions_it_calls() {
    let (built, _, symbolicator, id) = inline_program(&["-O1", "-g", "-fno-pie", "-no-pie"]);
    let (start, size) = function(&built.path, "main");
    let request = json!({"debugName": "program", "debugId": id, "name": "program", "codeId": null,
        "startAddress": format!("{start:#x}"), "size": format!("{size:#x}"), "continueUntilFunctionEnd": false});
    let (status, answer) = ask(&symbolicator, "/asm/v1", &request);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["startAddress"], format!("{start:#x}"));
    assert_eq!(answer["size"], format!("{size:#x}"));
    let instructions = answer["instructions"].as_array().unwrap();
    assert_eq!(instructions[0][0], 0);
    let text: Vec<&str> = instructions
        .iter()
        .map(|instruction| instruction[1].as_str().unwrap())
        .collect();
    if answer["arch"] != "x86_64" {
        println!("skipped: the instructions are known for x86_64 alone");
        return;
    }
    // inline.c: main calls _outer and puts.
    let outer = function(&built.path, "_outer").0;
    assert!(text.contains(&format!("call {outer:#x} <_outer>").as_str()), "{text:?}");
    assert!(text.iter().any(|text| text.ends_with("<puts@plt>")), "{text:?}");
    assert_eq!(text.last(), Some(&"ret"), "{text:?}");
}

#[test]
fn assembly_goes_on_to_the_end_of_the_function_if_asked() {
    let (built, (start, size), symbolicator, id) = inline_program(&["-O2", "-g"]);
    let mut request =
        json!({"debugName": "program", "debugId": id, "startAddress": format!("{start:#x}"), "size": "0x1"});
    let (_, answer) = ask(&symbolicator, "/asm/v1", &request);
    assert_eq!(answer["instructions"].as_array().unwrap().len(), 1, "{answer}");
    request["continueUntilFunctionEnd"] = json!(true);
    let (_, answer) = ask(&symbolicator, "/asm/v1", &request);
    assert_eq!(answer["size"], format!("{size:#x}"), "{answer}");
    // Absurd sizes and places where no code is.
    request["size"] = json!("0xffffffffffffffff");
    assert_eq!(ask(&symbolicator, "/asm/v1", &request).0, 200);
    request["startAddress"] = json!("0xfffffffffffffff0");
    assert_eq!(ask(&symbolicator, "/asm/v1", &request).0, 404);
    std::fs::remove_file(&built.path).unwrap();
}
