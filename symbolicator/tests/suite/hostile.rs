//! Files that lie, are cut off or were damaged: an error or less information, never a panic, a hang or a flood of
//! memory.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::common::{self, build, function, module, symbolicator};
use crate::damage::{cases, damage};
use object::{Object, ObjectSection};
use proptest::prelude::*;
use recording::module::Module;
use serde_json::json;
use symbolicator::{Symbolicator, api};

/// Asks everything there is to ask of a file.
pub(crate) fn ask_all(module: &Module, addresses: &[u64]) -> (Symbolicator, Vec<String>) {
    ask_all_in(&[], module, addresses)
}

/// The same with folders for symbols.
pub(crate) fn ask_all_in(symbol_dirs: &[&Path], module: &Module, addresses: &[u64]) -> (Symbolicator, Vec<String>) {
    let symbolicator = symbolicator(symbol_dirs);
    symbolicator.add_module(module);
    let infos = symbolicator.lookup(module, addresses).unwrap_or_default();
    for info in &infos {
        assert!(info.frames.len() <= 512);
    }
    for (address, info) in addresses.iter().zip(&infos).step_by(101) {
        let file = info
            .frames
            .first()
            .and_then(|frame| frame.file.clone())
            .unwrap_or_default();
        let of = json!({"debugName": module.name(), "debugId": module.breakpad_id(), "moduleOffset": format!("{address:#x}"), "file": file,
            "startAddress": format!("{address:#x}"), "size": "0x40", "continueUntilFunctionEnd": true});
        for path in ["/source/v1", "/asm/v1"] {
            let response = api::handle(&symbolicator, path, of.to_string().as_bytes());
            serde_json::from_slice::<serde_json::Value>(&response).unwrap();
        }
    }
    let notes = symbolicator.notes(module);
    (symbolicator, notes)
}

/// A program with all kinds of sections, its code, and where its parts lie in the file.
struct Subject {
    bytes: Vec<u8>,
    module: Module,
    addresses: Vec<u64>,
    /// File ranges of headers, symbol tables and debug info; the build id is left alone, else nothing else is read.
    targets: Vec<(usize, usize)>,
}

fn subjects() -> &'static [Subject] {
    static SUBJECTS: OnceLock<Vec<Subject>> = OnceLock::new();
    SUBJECTS.get_or_init(|| {
        [
            ("inline.c", &["-O2", "-gdwarf-4"][..]),
            ("inline.cc", &["-O2", "-gdwarf-5"]),
            ("inline.c", &["-O2", "-g", "-gz=zlib"]),
            ("inline.rs", &["-O", "-g"]),
        ]
        .into_iter()
        .map(|(program, flags)| subject(&build(program, flags).path))
        .collect()
    })
}

fn subject(path: &Path) -> Subject {
    let bytes = std::fs::read(path).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    let mut targets = vec![(0, 64), (64, 64 + 56 * 8), (bytes.len() - 64 * 36, bytes.len())];
    let mut text = (0, 0);
    for section in object.sections() {
        let name = section.name().unwrap();
        let range = section
            .file_range()
            .map(|(start, size)| (start as usize, (start + size) as usize));
        let of_interest =
            name.contains("debug") || name.contains("tab") || name.contains("str") || name.contains("rela");
        targets.extend(range.filter(|(start, end)| of_interest && end > start));
        if name == ".text" {
            text = (section.address() - object.relative_address_base(), section.size());
        }
    }
    let step = (text.1 / 400).max(1) as usize;
    Subject {
        module: module(path),
        addresses: (text.0..text.0 + text.1).step_by(step).chain([0, u64::MAX]).collect(),
        targets,
        bytes,
    }
}

/// The module as it was recorded, with these bytes in its place.
fn written(subject: &Subject, bytes: &[u8]) -> (tempfile::TempDir, Module) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("program");
    std::fs::write(&path, bytes).unwrap();
    let module = Module {
        path,
        ..subject.module.clone()
    };
    (dir, module)
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn damaged_files_are_survived(which in 0..4usize, damage in damage(0..12)) {
        let subject = &subjects()[which];
        let (_dir, module) = written(subject, &damage.within(&subject.bytes, &subject.targets));
        ask_all(&module, &subject.addresses);
    }

    #[test]
    fn any_request_body_gets_json(
        path in prop_oneof![Just("/symbolicate/v5"), Just("/source/v1"), Just("/asm/v1")],
        body in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            json_like().prop_map(String::into_bytes),
        ],
    ) {
        let subject = &subjects()[0];
        let symbolicator = symbolicator(&[]);
        symbolicator.add_module(&subject.module);
        let answer = api::handle(&symbolicator, path, &body);
        let value: serde_json::Value = serde_json::from_slice(&answer).unwrap();
        prop_assert!(value.is_object() && (value["error"].is_null() || value["error"].is_string()));
    }
}

/// Requests that are nearly right.
fn json_like() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        Just("0".to_owned()),
        Just("-1".to_owned()),
        Just("1e400".to_owned()),
        Just("18446744073709551616".to_owned()),
        Just("\"0x1139\"".to_owned()),
        Just("\"0x\"".to_owned()),
        Just("null".to_owned()),
        any::<u64>().prop_map(|number| number.to_string()),
        any::<u32>().prop_map(|number| format!("\"{number:#x}\"")),
    ];
    prop::collection::vec(number, 6).prop_map(|n| {
        format!(
            r#"{{"jobs":[{{"memoryMap":[["program","{}"]],"stacks":[[[{},{}]]]}}],"debugName":"program","debugId":"0","moduleOffset":{},"file":"/etc/passwd","startAddress":{},"size":{},"continueUntilFunctionEnd":{}}}"#,
            "0".repeat(33), n[0], n[1], n[2], n[3], n[4], n[5]
        )
    })
}

/// Links debug info written in assembly to a program with a function `subject` of 64 bytes.
fn assemble(debug_info: &str, debug_abbrev: &str, more: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("program.s");
    let path = dir.path().join("program");
    let text = format!(
        "
        .text
        .globl main
        .globl subject
        .type subject, @function
subject:
        .skip 64, 0xc3
        .size subject, 64
main:
        .byte 0xc3
        .section .debug_abbrev,\"\",@progbits
        {debug_abbrev}
        .byte 0
        .section .debug_info,\"\",@progbits
        .long 2f - 1f
1:      .short 4
        .long 0
        .byte 8
        {debug_info}
2:
        {more}
        .section .note.GNU-stack,\"\",@progbits
        "
    );
    std::fs::write(&source, text).unwrap();
    common::run("cc", &[&"-Wl,--build-id", &source, &"-o", &path]);
    (dir, path)
}

/// Abbreviations 1: unit with bounds, 2: function with bounds, 3: inlined call with bounds and children.
const ABBREVIATIONS: &str = "
        .uleb128 1, 0x11
        .byte 1, 0x11, 0x01, 0x12, 0x07, 0, 0
        .uleb128 2, 0x2e
        .byte 1, 0x11, 0x01, 0x12, 0x07, 0, 0
        .uleb128 3, 0x1d
        .byte 1, 0x11, 0x01, 0x12, 0x07, 0, 0
        .uleb128 4, 0x2e
        .byte 0, 0x55, 0x17, 0, 0
";

#[test]
fn calls_inlined_a_hundred_thousand_deep_are_cut() {
    if !cfg!(target_arch = "x86_64") {
        println!("skipped: the assembly is for x86_64");
        return;
    }
    // A test's thread has a stack of 2 MiB: no recursion gets as deep. A million took a minute.
    let entry = |code: u8| format!(".byte {code}\n .quad subject\n .quad 64\n");
    let deep = format!("{}{}.rept 100000\n{}.endr\n", entry(1), entry(2), entry(3));
    let (_dir, path) = assemble(&deep, ABBREVIATIONS, "");
    let (start, size) = function(&path, "subject");
    let addresses: Vec<u64> = (start..start + size).collect();
    let (symbolicator, _) = ask_all(&module(&path), &addresses);
    let infos = symbolicator.lookup(&module(&path), &addresses[..1]).unwrap();
    assert_eq!(infos[0].function.as_ref().unwrap().name, "subject");
}

#[test]
fn functions_that_share_one_long_range_list_are_refused() {
    if !cfg!(target_arch = "x86_64") {
        println!("skipped: the assembly is for x86_64");
        return;
    }
    // 30,000 functions with 30,000 ranges each: 900 million ranges in a file of 650 KB.
    let info = ".byte 1\n .quad subject\n .quad 64\n .rept 30000\n .byte 4\n .long 0\n .endr\n .byte 0\n";
    let list = ".section .debug_ranges,\"\",@progbits\n .rept 30000\n .quad 0x100000, 0x100001\n .endr\n .quad 0, 0\n";
    let (_dir, path) = assemble(info, ABBREVIATIONS, list);
    let (start, size) = function(&path, "subject");
    let (_, notes) = ask_all(&module(&path), &(start..start + size).collect::<Vec<_>>());
    assert!(
        notes.iter().any(|note| note.contains("too often for its size")),
        "{notes:?}"
    );
}

#[test]
fn units_that_share_one_long_table_of_abbreviations_are_refused() {
    if !cfg!(target_arch = "x86_64") {
        println!("skipped: the assembly is for x86_64");
        return;
    }
    // 20,000 units whose tables start at different places of one run of 50,000 abbreviations: 10^9 of them in all.
    let abbreviations = "
        .set code, 1
        .rept 50000
        .uleb128 code
        .byte 0x11, 0, 0x11, 0x01, 0, 0
        .set code, code + 1
        .endr
    ";
    let units = "
        .byte 0
2:      .set offset, 0
        .rept 20000
        .long 12
        .short 4
        .long offset
        .byte 8
        .long 0
        .byte 0
        .set offset, offset + 7
        .endr
        .section .debug_str
    ";
    let (_dir, path) = assemble(units, abbreviations, "");
    let (start, _) = function(&path, "subject");
    let (_, notes) = ask_all(&module(&path), &[start]);
    assert!(
        notes.iter().any(|note| note.contains("too often for its size")),
        "{notes:?}"
    );
}

#[test]
fn units_that_share_one_long_line_program_are_refused() {
    if !cfg!(target_arch = "x86_64") {
        println!("skipped: the assembly is for x86_64");
        return;
    }
    // A unit has a line table and nothing else.
    let abbreviations = ".uleb128 1, 0x11\n .byte 0, 0x10, 0x17, 0, 0\n";
    // 20,000 units and 4 million special opcodes without the end of a sequence: 8 * 10^10 of them in all. Then an
    // error, or not.
    for (end, expected) in [("", "too often for its size"), (".byte 0, 0", "damaged debug info")] {
        let units = format!(
            "
        .byte 1
        .long 0
2:      .rept 20000
        .long 12
        .short 4
        .long 0
        .byte 8, 1
        .long 0
        .endr
        .section .debug_line,\"\",@progbits
        .long 4f - 3f
3:      .short 4
        .long 6f - 5f
5:      .byte 1, 1, 1, -5, 14, 13
        .byte 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1
        .byte 0, 0
6:      .fill 4000000, 1, 0x20
        {end}
4:
        .section .debug_str
            "
        );
        let (_dir, path) = assemble(&units, abbreviations, "");
        let (start, _) = function(&path, "subject");
        let (_, notes) = ask_all(&module(&path), &[start]);
        assert!(notes.iter().any(|note| note.contains(expected)), "{notes:?}");
    }
}

#[test]
fn compressed_sections_that_claim_too_much_are_refused() {
    let built = build("inline.c", &["-O2", "-g", "-gz=zlib"]);
    let mut bytes = std::fs::read(&built.path).unwrap();
    let at = {
        let object = object::File::parse(&*bytes).unwrap();
        let section = object.section_by_name(".debug_info").unwrap();
        section.file_range().unwrap().0 as usize
    };
    // Elf64_Chdr: type, reserved, then ch_size. 1 TB.
    bytes[at + 8..at + 16].copy_from_slice(&(1u64 << 40).to_le_bytes());
    std::fs::write(&built.path, bytes).unwrap();
    let outer = function(&built.path, "_outer");
    let (symbolicator, notes) = ask_all(&module(&built.path), &[outer.0]);
    assert!(notes.iter().any(|note| note.contains("plausible")), "{notes:?}");
    let infos = symbolicator.lookup(&module(&built.path), &[outer.0]).unwrap();
    assert_eq!(infos[0].function.as_ref().unwrap().name, "_outer");
}

#[test]
fn what_is_no_program_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script");
    std::fs::write(&script, "#!/bin/sh\n").unwrap();
    let empty = dir.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    let paths: [&Path; 5] = [
        &script,
        &empty,
        dir.path(),
        Path::new("/dev/zero"),
        Path::new("/proc/self/mem"),
    ];
    for path in paths {
        let module = Module {
            path: path.to_owned(),
            build_id: None,
            ..subjects()[0].module.clone()
        };
        let error = symbolicator(&[]).lookup(&module, &[0x1000]).unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
    }
}
