//! jitdump files and perf maps of a recording that is looked at later.

use std::path::Path;

use names::symbol::SymbolSource;
use recording::module::{BuildId, ModuleKind};
use symbolicator::{Module, SymbolOptions, Symbolicator};

#[path = "../../../unwind/tests/suite/common/jitdump.rs"]
#[allow(dead_code, reason = "the unwinder's tests use the rest")]
mod jitdump;

fn module(path: &Path, build_id: Option<BuildId>) -> Module {
    Module {
        kind: ModuleKind::Jit,
        path: path.to_owned(),
        readable_path: None,
        build_id,
        arch: None,
    }
}

/// The 4 bytes of `f` are at relative address 98.
fn dump() -> Vec<u8> {
    [jitdump::header(0), jitdump::load(100, 0x1000, 1, "f", &[0x90; 4])].concat()
}

#[test]
fn a_dump_is_used_if_it_is_the_recorded_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jit-77.dump");
    std::fs::write(&path, dump()).unwrap();
    let id = |created: u8| BuildId([b"jitd".as_slice(), &[77, 0, 0, 0, created, 0, 0, 0, 0, 0, 0, 0]].concat());
    let symbolicator = Symbolicator::new(SymbolOptions::default());
    let found = symbolicator
        .lookup(&module(&path, Some(id(5))), &[98, 101, 102])
        .unwrap();
    let names: Vec<_> = found
        .iter()
        .map(|info| info.function.as_ref().map(|f| f.name.as_str()))
        .collect();
    assert_eq!(names, [Some("f"), Some("f"), None]);
    let error = symbolicator.lookup(&module(&path, Some(id(6))), &[98]).unwrap_err();
    assert!(error.to_string().contains("was replaced"), "{error}");
}

#[test]
fn a_dump_has_the_machine_code_of_its_functions_and_a_perf_map_says_that_it_has_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jit-77.dump");
    let mut bytes = dump();
    // mov rbp, rsp; ret
    let len = bytes.len();
    bytes[len - 4..].copy_from_slice(&[0x48, 0x89, 0xe5, 0xc3]);
    std::fs::write(&path, &bytes).unwrap();
    let symbolicator = Symbolicator::new(SymbolOptions::default());
    let of = |path: &Path, start: u64, size: u64| {
        let module = module(path, None);
        symbolicator.add_module(&module);
        symbolicator.assembly(&module, start, size, true)
    };
    // To the end of the function, however few bytes are asked for.
    let assembly = of(&path, 98, 1).unwrap();
    let texts: Vec<_> = assembly
        .instructions
        .iter()
        .map(|one| (one.offset, one.text.as_str()))
        .collect();
    assert_eq!(texts, [(0, "mov rbp, rsp"), (3, "ret")]);
    assert_eq!((assembly.size, assembly.arch), (4, "x86_64"));
    assert_eq!(assembly.function.unwrap().name, "f");
    let nothing = of(&path, 40, 8).unwrap_err().to_string();
    assert!(nothing.contains("no machine code at 0x28"), "{nothing}");
    // The file of another process has the name now.
    bytes[20] = 78;
    std::fs::write(&path, &bytes).unwrap();
    assert!(of(&path, 98, 4).is_err());

    let map = dir.path().join("perf-77.map");
    std::fs::write(&map, "1000 20 some function\n").unwrap();
    let reason = of(&map, 0x1000, 0x20).unwrap_err().to_string();
    assert!(reason.contains("perf-77.map has only names"), "{reason}");
    // CPython has a switch of its own.
    assert!(
        reason.contains("`node --perf-prof`") && reason.contains("`python -X perf_jit`"),
        "{reason}"
    );
}

#[test]
fn a_perf_map_has_names_by_address_and_of_a_removed_file_the_error_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("perf-77.map");
    std::fs::write(&path, "7f0000001000 20 some function\n").unwrap();
    let symbolicator = Symbolicator::new(SymbolOptions::default());
    let found = symbolicator.lookup(&module(&path, None), &[0x7f00_0000_101f]).unwrap();
    assert_eq!(found[0].function.as_ref().unwrap().name, "some function");
    for removed in ["perf-78.map", "jit-78.dump"] {
        let removed = module(&dir.path().join(removed), None);
        let error = symbolicator.lookup(&removed, &[1]).unwrap_err();
        assert_eq!(error.source(), SymbolSource::NoFile);
        symbolicator.add_module(&removed);
        let source = symbolicator.source(&removed, 1, "/app/busy.js").unwrap_err();
        for text in [error.to_string(), source.to_string()] {
            let says = |part: &str| text.contains(part);
            assert!(
                says(&removed.name()) && says("not there any more; keep such files") && says("--embed-sources"),
                "{text}"
            );
        }
    }
}
