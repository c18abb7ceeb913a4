//! Places for probes: from names to file offsets, in built programs whose symbols another reader knows.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{build, function, have, run};
use object::{Object, ObjectSegment};
use symbolicator::SymbolOptions;
use symbolicator::probe::{AtOffset, FoundFunctions, find_functions, place_at, static_probes};

fn find(path: &Path, name: &str) -> FoundFunctions {
    find_functions(path, name, &SymbolOptions::default()).unwrap()
}

fn names(functions: &FoundFunctions) -> Vec<&str> {
    let mut names: Vec<&str> = functions.found.iter().map(|function| function.name.as_str()).collect();
    names.sort_unstable();
    names
}

/// Where a relative address is in the file.
fn offset_of(path: &Path, relative: u64) -> u64 {
    let bytes = fs::read(path).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    let base = object.segments().map(|segment| segment.address()).min().unwrap();
    let address = relative + base;
    let segment = object
        .segments()
        .find(|segment| (segment.address()..segment.address() + segment.size()).contains(&address))
        .unwrap();
    address - segment.address() + segment.file_range().0
}

#[test]
fn functions_are_found_where_their_symbols_are() {
    // Segments that are not at the offset of their address: what a page size of 64 KiB and an image base bring about.
    for flags in [&["-O2"][..], &["-O2", "-no-pie", "-Wl,-z,max-page-size=0x10000"]] {
        let built = build("inline.c", flags);
        let found = find(&built.path, "_outer");
        let expected = offset_of(&built.path, function(&built.path, "_outer").0);
        assert_eq!(found.found.len(), 1, "{flags:?}");
        assert_eq!(found.found[0].file_offset, expected, "{flags:?}");
    }
}

#[test]
fn a_path_stands_for_all_overloads_and_instances() {
    let built = build("probe.cc", &["-O2", "-g"]);
    assert_eq!(
        names(&find(&built.path, "space::over")),
        ["space::over(int)", "space::over(long)"]
    );
    assert_eq!(names(&find(&built.path, "space::over(long)")), ["space::over(long)"]);
    assert_eq!(
        names(&find(&built.path, "space::twice")),
        ["int space::twice<int>(int)", "long space::twice<long>(long)"]
    );
    let short = find(&built.path, "over");
    assert!(short.found.is_empty());
    assert_eq!(short.similar.len(), 2, "{:?}", short.similar);
}

#[test]
fn a_generic_function_in_rust_is_all_its_instances() {
    for mangling in ["legacy", "v0"] {
        let flags = [
            "-O",
            "-g",
            &format!("-Csymbol-mangling-version={mangling}"),
            "-Zunstable-options",
        ];
        let built = build("probe.rs", &flags);
        let found = find(&built.path, "probe::inner::generic");
        assert_eq!(found.found.len(), 2, "{mangling}: {found:?}");
        let short = find(&built.path, "inner::generic");
        assert!(
            short.found.is_empty() && !short.similar.is_empty(),
            "{mangling}: {short:?}"
        );
    }
}

#[test]
fn what_was_only_inlined_is_told_from_what_is_not_there() {
    let built = build("probe.cc", &["-O2", "-g"]);
    let gone = find(&built.path, "space::gone");
    assert_eq!((gone.found.len(), gone.inlined_copies), (0, 2), "{gone:?}");
    let nothing = find(&built.path, "space::nothing");
    assert_eq!(
        (nothing.found.len(), nothing.inlined_copies, nothing.has_symbols),
        (0, 0, true)
    );
    let whole = find(&built.path, "space::many");
    assert_eq!((whole.found.len(), whole.inlined_copies), (1, 0), "{whole:?}");
}

#[test]
fn a_symbol_that_chooses_a_function_is_none() {
    let built = build("probe.cc", &["-O2", "-g"]);
    let chosen = find(&built.path, "chosen");
    assert!(chosen.found.is_empty() && chosen.is_chosen_at_start, "{chosen:?}");
}

#[test]
fn a_stripped_file_has_the_names_of_its_debug_file_and_its_own_offsets() {
    if !have("objcopy") {
        return;
    }
    let built = build("inline.c", &["-O2", "-g"]);
    let expected = find(&built.path, "_outer").found;
    let debug = built.dir.path().join("program.debug");
    run("objcopy", &[&"--only-keep-debug", &built.path, &debug]);
    run("objcopy", &[&"--strip-all", &built.path]);
    assert_eq!(find(&built.path, "_outer").found, expected);
    fs::remove_file(debug).unwrap();
    let without = find(&built.path, "_outer");
    assert!(without.found.is_empty() && !without.has_symbols, "{without:?}");
}

#[test]
fn offsets_are_checked_against_the_instructions() {
    if !cfg!(target_arch = "x86_64") {
        println!("skipped: the instructions of this machine all have one length");
        return;
    }
    // _outer begins with `endbr64` (4 bytes, where the compiler makes it) or a move of more than one byte.
    let built = build("inline.c", &["-O2", "-fcf-protection=full"]);
    let start = find(&built.path, "_outer").found[0].file_offset;
    let at = |offset: u64| place_at(&built.path, offset, &SymbolOptions::default()).unwrap();
    assert_eq!(at(start), AtOffset::Instruction(Some("_outer".to_owned())));
    assert_eq!(at(start + 4), AtOffset::Instruction(Some("_outer+0x4".to_owned())));
    let inside = AtOffset::InsideInstruction {
        begins_at: start,
        name: "_outer".to_owned(),
    };
    assert_eq!(at(start + 2), inside);
    assert_eq!(at(0), AtOffset::NoCode, "the file's header");
    assert_eq!(at(u64::MAX), AtOffset::NoCode);
}

/// Marks as systemtap's sys/sdt.h makes them.
fn marks() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sprof/tests/programs/probes.c")
}

#[test]
fn usdt_probes_are_read_from_their_notes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("marks");
    run("cc", &[&"-O2", &"-g", &"-pthread", &marks(), &"-o", &path]);
    let probes = static_probes(&path).unwrap();
    let names: Vec<(&str, &str)> = (probes.iter())
        .map(|probe| (probe.provider.as_str(), probe.name.as_str()))
        .collect();
    assert_eq!(names, [("probes", "request"), ("probes", "guarded")]);
    assert!(
        probes[0]
            .arguments
            .ends_with(if cfg!(target_arch = "x86_64") { "-4@$7" } else { "-4@7" })
    );
    let bytes = fs::read(&path).unwrap();
    for probe in &probes {
        // A probe's place is a `nop`.
        let at = usize::try_from(probe.file_offset).unwrap();
        let nop: &[u8] = if cfg!(target_arch = "x86_64") {
            &[0x90]
        } else {
            &[0x1f, 0x20, 0x03, 0xd5]
        };
        assert!(bytes[at..].starts_with(nop), "{probe:?}");
    }
    assert_eq!(probes[0].semaphore, None);
    let counter = usize::try_from(probes[1].semaphore.unwrap()).unwrap();
    assert_eq!(bytes[counter..counter + 2], [0, 0], "the counter's first value");
    // Without notes, and without being a program.
    assert_eq!(static_probes(&build("inline.c", &[]).path).unwrap(), []);
    assert!(static_probes(&marks()).is_err());
}

#[test]
fn damaged_files_have_errors_or_fewer_places() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("marks");
    run("cc", &[&"-O2", &"-g", &"-pthread", &marks(), &"-o", &path]);
    let whole = fs::read(&path).unwrap();
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    for _ in 0..300 {
        let mut bytes = whole.clone();
        for _ in 0..20 {
            let at = random(bytes.len());
            bytes[at] = random(256) as u8;
        }
        bytes.truncate(bytes.len() - random(bytes.len() / 2));
        fs::write(&path, &bytes).unwrap();
        let options = SymbolOptions::default();
        let _ = static_probes(&path);
        let _ = find_functions(&path, "probed", &options);
        let _ = place_at(&path, 0x12d2, &options);
    }
}
