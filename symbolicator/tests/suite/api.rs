//! The symbol-server requests, as the Firefox Profiler makes them.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::common::{self, build, function, module, symbolicator};
use serde_json::{Value, json};
use symbolicator::{Module, PathMap, SymbolOptions, Symbolicator, api};

fn ask(symbolicator: &Symbolicator, path: &str, request: &Value) -> Value {
    let answer = api::handle(symbolicator, path, request.to_string().as_bytes());
    serde_json::from_slice(&answer).unwrap()
}

/// The answer to a request that is met.
fn met(symbolicator: &Symbolicator, path: &str, request: &Value) -> Value {
    let answer = ask(symbolicator, path, request);
    assert!(answer["error"].is_null(), "{answer}");
    answer
}

/// What is said of a request that is not.
fn refused(symbolicator: &Symbolicator, path: &str, request: &Value) -> String {
    let answer = ask(symbolicator, path, request);
    let error = answer["error"].as_str();
    error.unwrap_or_else(|| panic!("{path}: {answer}")).to_owned()
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
    let answer = met(
        &symbolicator,
        "/symbolicate/v5",
        &json!({"jobs": [{"memoryMap": [["program", id]], "stacks": [stack]}]}),
    );
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
fn symbolicate_names_functions_without_a_name_by_their_address() {
    let built = build("inline.c", &["-O2"]);
    let (start, size) = function(&built.path, "_outer");
    common::run("strip", &[&built.path]);
    let module = module(&built.path);
    let symbolicator = symbolicator(&[]);
    symbolicator.add_module(&module);
    let stack = json!([[0, start + 1], [0, start + size - 1]]);
    let answer = met(
        &symbolicator,
        "/symbolicate/v5",
        &json!({"jobs": [{"memoryMap": [["program", module.breakpad_id()]], "stacks": [stack]}]}),
    );
    for (at, offset) in [(0, 1), (1, size - 1)] {
        let frame = &answer["results"][0]["stacks"][0][at];
        assert_eq!(frame["function"], format!("fun_{start:x}"), "{answer}");
        assert_eq!(frame["function_offset"], format!("{offset:#x}"));
    }
}

#[test]
fn symbolicate_says_which_modules_it_has_not() {
    let answer = met(
        &symbolicator(&[]),
        "/symbolicate/v5",
        &json!({"jobs": [{"memoryMap": [["a", "0"], ["b", "1"]], "stacks": [[[0, 16], [-1, 5]]]}]}),
    );
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
fn modules_without_build_id_are_answered_only_if_all_files_of_the_name_agree() {
    let one = build("inline.c", &["-O2", "-g", "-Wl,--build-id=none"]);
    let two = build("inline.c", &["-O2", "-g", "-D_outer=_inner", "-Wl,--build-id=none"]);
    let symbolicator = symbolicator(&[]);
    symbolicator.add_module(&module(&one.path));
    let request = json!({"jobs": [{"memoryMap": [["program", "0".repeat(33)]], "stacks": [[[0, function(&one.path, "_outer").0]]]}]});
    let answer = met(&symbolicator, "/symbolicate/v5", &request);
    assert_eq!(answer["results"][0]["stacks"][0][0]["function"], "_outer");
    symbolicator.add_module(&module(&two.path));
    let answer = met(&symbolicator, "/symbolicate/v5", &request);
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
            let body: Value = serde_json::from_slice(&api::handle(&symbolicator, path, case)).unwrap();
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
    assert!(refused(&symbolicator, "/symbolicate/v5", &request).contains("600000 frames"));
    let answer = api::handle(&symbolicator, "/symbolicate/v5", &vec![b' '; 17 << 20]);
    assert!(String::from_utf8_lossy(&answer).contains("at most"), "{answer:?}");
}

/// As few as the UI sends, but each with all the inlined functions that debug info may claim.
#[test]
fn an_answer_with_too_many_inlined_functions_is_refused() {
    let name: String = "a_function_with_a_name_of_some_length".repeat(30);
    let source: String = (0..100)
        .map(|depth| {
            let callee = match depth {
                0 => "x * x".to_owned(),
                _ => format!("{name}{}(x + 1) ^ x", depth - 1),
            };
            format!("static inline __attribute__((always_inline)) int {name}{depth}(int x) {{ return {callee}; }}\n")
        })
        .collect();
    let dir = tempfile::tempdir().unwrap();
    let (file, program) = (dir.path().join("inlined.c"), dir.path().join("program"));
    std::fs::write(
        &file,
        format!("{source}int main(int c, char **v) {{ return {name}99(c); }}\n"),
    )
    .unwrap();
    common::run("cc", &[&"-O2", &"-g", &"-Wl,--build-id", &file, &"-o", &program]);
    let module = module(&program);
    let symbolicator = symbolicator(&[]);
    symbolicator.add_module(&module);
    let (start, size) = function(&program, "main");
    let request = |frames: usize| {
        let stack: Vec<_> = (0..frames).map(|at| json!([0, start + at as u64 % size])).collect();
        json!({"jobs": [{"memoryMap": [["program", module.breakpad_id()]], "stacks": [stack]}]})
    };
    let answer = met(&symbolicator, "/symbolicate/v5", &request(size as usize));
    let frames = answer["results"][0]["stacks"][0].as_array().unwrap();
    let inlined: usize = frames
        .iter()
        .filter_map(|frame| frame["inlines"].as_array())
        .map(Vec::len)
        .sum();
    assert!(
        inlined > 50 * frames.len() / 2,
        "{inlined} inlined in {} frames",
        frames.len()
    );
    let error = refused(&symbolicator, "/symbolicate/v5", &request(10_000));
    assert!(error.contains("ask in several requests"), "{error}");
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
    let answer = met(&symbolicator, "/source/v1", &request);
    assert_eq!(answer["source"], std::fs::read_to_string(&file).unwrap());

    for other in ["/etc/passwd", "tests/programs/inline.c", "/", "", "inline.c"] {
        request["file"] = json!(other);
        let error = refused(&symbolicator, "/source/v1", &request);
        assert!(error.contains("does not name"), "{other}: {error}");
    }
    // The same file, but an address outside of any function.
    request["file"] = json!(file);
    request["moduleOffset"] = json!("0x0");
    refused(&symbolicator, "/source/v1", &request);
}

#[test]
fn sources_of_packages_are_given_by_the_path_that_the_profile_has() {
    let dir = tempfile::tempdir().unwrap();
    let registry = "index.crates.io-1949cf8c6b5b557f";
    let checkout = "git/checkouts/demo-2ac3c8a2d6f4a1b0/59807616/src/a.c";
    for (below, shown, others) in [
        (
            format!("registry/src/{registry}/demo-1.2.3/src/a.c"),
            format!("cargo:{registry}:demo-1.2.3:src/a.c"),
            [
                format!("cargo:{registry}:demo-1.2.4:src/a.c"),
                format!("cargo:{registry}:demo-1.2.3:src/b.c"),
            ],
        ),
        (
            checkout.to_owned(),
            checkout.to_owned(),
            [checkout.replace("a.c", "b.c"), checkout.replace("demo-2", "demo-3")],
        ),
    ] {
        let file = dir.path().join("home").join(&below);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::copy(common::source("inline.c"), &file).unwrap();
        std::fs::write(file.with_file_name("b.c"), "").unwrap();
        let program = dir.path().join("program");
        common::run("cc", &[&"-O2", &"-g", &"-Wl,--build-id", &file, &"-o", &program]);
        let module = module(&program);
        let symbolicator = symbolicator(&[]);
        symbolicator.add_module(&module);
        let (start, id) = (function(&program, "_outer").0, module.breakpad_id());
        let names = json!({"memoryMap": [["program", id]], "stacks": [[[0, start]]]});
        let answer = met(&symbolicator, "/symbolicate/v5", &names);
        assert_eq!(answer["results"][0]["stacks"][0][0]["file"], shown);
        let request = |file: &str| json!({"debugName": "program", "debugId": id, "moduleOffset": format!("{start:#x}"), "file": file});
        // An older profile has the path of the debug info.
        for named in [&*shown, file.to_str().unwrap()] {
            let answer = met(&symbolicator, "/source/v1", &request(named));
            assert_eq!(answer["source"], std::fs::read_to_string(&file).unwrap(), "{named}");
        }
        // Another folder of cargo is never read, though its path means the same.
        let elsewhere = dir.path().join("elsewhere").join(&below);
        std::fs::create_dir_all(elsewhere.parent().unwrap()).unwrap();
        std::fs::write(&elsewhere, "another text").unwrap();
        let answer = met(&symbolicator, "/source/v1", &request(elsewhere.to_str().unwrap()));
        assert_eq!(answer["source"], std::fs::read_to_string(&file).unwrap());
        for other in &others {
            let error = refused(&symbolicator, "/source/v1", &request(other));
            assert!(error.contains("does not name"), "{other}: {error}");
        }
    }
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
    let error = refused(&symbolicator, "/source/v1", &request);
    assert!(error.contains(file.to_str().unwrap()), "{error}");
}

/// A program whose functions `_f0`, `_f1`, ... are in these files, by its debug info.
fn program_of(files: &[&str], dir: &Path) -> PathBuf {
    let (source, program) = (dir.join("program.c"), dir.join("program"));
    let function = |(at, file): (usize, &&str)| {
        format!("#line 1 \"{file}\"\n__attribute__((noinline)) int _f{at}(int a) {{ return a * {at} + 3; }}\n")
    };
    let functions: String = files.iter().enumerate().map(function).collect();
    std::fs::write(&source, functions + "int main(int argc, char **argv) { return 0; }\n").unwrap();
    common::run("cc", &[&"-O1", &"-g", &"-Wl,--build-id", &source, &"-o", &program]);
    program
}

#[test]
fn files_that_are_no_sources_are_shown_only_if_asked_for_by_path() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let [open, secret, link, pipe, private] = ["open.c", "secret", "link.c", "pipe.c", "private.c"].map(file);
    for path in [&open, &secret, &private] {
        std::fs::write(path, "a text").unwrap();
    }
    std::fs::set_permissions(&private, Permissions::from_mode(0o600)).unwrap();
    symlink(&secret, &link).unwrap();
    common::run("mkfifo", &[&pipe]);
    let up = format!("{open}/../../../../proc/self/environ");
    let files = [
        &*open,
        &secret,
        &link,
        &pipe,
        &private,
        "/proc/self/environ",
        "/etc/passwd",
        &up,
    ];
    let program = program_of(&files, dir.path());
    let module = module(&program);
    let answer = |maps: &[(&str, &str)], at: usize| {
        let symbolicator = Symbolicator::new(SymbolOptions {
            path_maps: maps.iter().map(|(from, to)| PathMap::new(from, to)).collect(),
            ..SymbolOptions::default()
        });
        symbolicator.add_module(&module);
        let address = function(&program, &format!("_f{at}")).0;
        let request = json!({"debugName": "program", "debugId": module.breakpad_id(), "moduleOffset": format!("{address:#x}"), "file": files[at]});
        ask(&symbolicator, "/source/v1", &request)
    };
    let is_root = rustix::process::geteuid().is_root();
    for (at, file) in files.iter().enumerate() {
        let answer = answer(&[], at);
        let is_shown = at == 0 || at == 4 && !is_root;
        assert_eq!(answer["source"] == "a text", is_shown, "{file}: {answer}");
        assert_eq!(answer["error"].is_null(), is_shown, "{file}: {answer}");
    }
    let error = answer(&[], 1)["error"].as_str().unwrap().to_owned();
    assert!(error.contains(&format!("--path-map '{secret}={secret}'")), "{error}");
    for (at, file) in [(1, &secret), (2, &link), (4, &private)] {
        assert_eq!(answer(&[(file, file)], at)["source"], "a text", "{file}");
        // A map of a folder is none of the file.
        let folder = dir.path().to_str().unwrap();
        let of_folder = answer(&[(folder, folder)], at);
        assert_eq!(of_folder["error"].is_null(), at == 4 && !is_root, "{file}: {of_folder}");
    }
}

#[test]
fn of_two_files_with_one_build_id_each_has_its_own_answers() {
    let id = "-Wl,--build-id=0x4620b32d196a2e91a6c0d45f09caadb3b4174049";
    let built = [
        build("inline.c", &["-O2", "-g", id]),
        build("inline.c", &["-O2", "-g", id]),
        build("inline.c", &["-O2", "-g", "-D_outer=_inner", id]),
    ];
    std::fs::copy(&built[0].path, &built[1].path).unwrap();
    let [one, copy, other] = built.each_ref().map(|built| module(&built.path));
    let (start, _) = function(&one.path, "_outer");
    assert_eq!(function(&other.path, "_inner").0, start);
    let name = |symbolicator: &Symbolicator, module: &Module| {
        let info = symbolicator.lookup(module, &[start]).unwrap().remove(0);
        info.function.unwrap().name
    };
    let names = json!({"memoryMap": [["program", one.breakpad_id()]], "stacks": [[[0, start]]]});
    let code = json!({"debugName": "program", "debugId": one.breakpad_id(), "startAddress": format!("{start:#x}"), "size": "0x1"});
    for order in [[&one, &copy, &other], [&other, &one, &copy]] {
        let symbolicator = symbolicator(&[]);
        order.iter().for_each(|module| symbolicator.add_module(module));
        assert_eq!(
            [&one, &copy, &other].map(|module| name(&symbolicator, module)),
            ["_outer", "_outer", "_inner"]
        );
        // A request has the build id alone.
        let answer = met(&symbolicator, "/symbolicate/v5", &names);
        assert!(answer["results"][0]["stacks"][0][0]["function"].is_null(), "{answer}");
        assert!(answer.to_string().contains("which differ"), "{answer}");
        let error = refused(&symbolicator, "/asm/v1", &code);
        assert!(error.contains("which differ"), "{error}");
    }
    let symbolicator = symbolicator(&[]);
    symbolicator.add_module(&one);
    symbolicator.add_module(&copy);
    let answer = met(&symbolicator, "/symbolicate/v5", &names);
    assert_eq!(answer["results"][0]["stacks"][0][0]["function"], "_outer");
    met(&symbolicator, "/asm/v1", &code);
}

#[test]
fn assembly_names_the_functions_it_calls() {
    let (built, _, symbolicator, id) = inline_program(&["-O1", "-g", "-fno-pie", "-no-pie"]);
    let (start, size) = function(&built.path, "main");
    let request = json!({"debugName": "program", "debugId": id, "name": "program", "codeId": null,
        "startAddress": format!("{start:#x}"), "size": format!("{size:#x}"), "continueUntilFunctionEnd": false});
    let answer = met(&symbolicator, "/asm/v1", &request);
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
    let answer = met(&symbolicator, "/asm/v1", &request);
    assert_eq!(answer["instructions"].as_array().unwrap().len(), 1, "{answer}");
    request["continueUntilFunctionEnd"] = json!(true);
    let answer = met(&symbolicator, "/asm/v1", &request);
    assert_eq!(answer["size"], format!("{size:#x}"), "{answer}");
    // Absurd sizes and places where no code is.
    request["size"] = json!("0xffffffffffffffff");
    met(&symbolicator, "/asm/v1", &request);
    request["startAddress"] = json!("0xfffffffffffffff0");
    refused(&symbolicator, "/asm/v1", &request);
    std::fs::remove_file(&built.path).unwrap();
}
