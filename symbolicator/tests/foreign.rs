//! Symbol files of other systems: PDB, Breakpad.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "suite/common/mod.rs"]
mod common;

use std::fs;
use std::path::Path;

use recording::module::{BuildId, Module, ModuleKind};

#[cfg(feature = "foreign-symbols")]
#[path = "foreign/read.rs"]
mod read;

/// A library of another machine. Its debug id is `000102...0F` and the age.
fn library(path: &str, age: u32) -> Module {
    Module {
        kind: match age {
            0 => ModuleKind::File,
            age => ModuleKind::Windows { age },
        },
        path: path.into(),
        readable_path: None,
        build_id: Some(BuildId(vec![3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15])),
        arch: None,
    }
}

const GUID: &str = "000102030405060708090A0B0C0D0E0F";

/// What dump_syms writes of a library with three functions. `work` calls `middle` at line 20, which calls `inner` at
/// line 11; both are inlined.
fn breakpad(id: &str) -> String {
    format!(
        "MODULE windows x86_64 {id} app.pdb\n\
         FILE 0 /src/app.c\n\
         FILE 1 hg:hg.mozilla.org/mozilla-central:src/inner.h:0123abcd\n\
         INLINE_ORIGIN 0 middle(int)\n\
         INLINE_ORIGIN 1 inner(int)\n\
         FUNC 1000 40 0 work(int)\n\
         INLINE 0 20 0 0 1010 20\n\
         INLINE 1 11 0 1 1018 8\n\
         1000 10 19 0\n\
         1010 8 10 0\n\
         1018 8 5 1\n\
         1020 10 12 0\n\
         1030 10 21 0\n\
         FUNC 1050 10 0 _ZN3app5otherEi\n\
         PUBLIC 1080 0 exported\n"
    )
}

fn write(path: &Path, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[cfg(not(feature = "foreign-symbols"))]
#[test]
fn without_the_reader_the_error_names_the_feature_and_the_file() {
    use names::symbol::SymbolSource;
    let dir = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let symbolicator = common::symbolicator(&[dir.path(), other.path()]);
    let build = "cargo install --locked --path sprof --features foreign-symbols";
    let ask = |module: &Module| {
        let error = symbolicator.lookup(module, &[0x1000]).unwrap_err();
        (error.source(), error.to_string())
    };
    let (source, words) = ask(&library("app.pdb", 1));
    assert_eq!(source, SymbolSource::NotBuilt);
    assert!(words.contains("app.pdb") && words.contains(build), "{words}");
    // Names of a library of Linux may be in files of ELF.
    let linux = library("/data/libapp.so", 0);
    assert_eq!(ask(&linux).0, SymbolSource::NoFile);
    // Another build of the library is here.
    write(
        &other.path().join("libapp.so"),
        fs::read(std::env::current_exe().unwrap()).unwrap(),
    );
    assert_eq!(ask(&linux).0, SymbolSource::OtherBuild);
    let path = dir.path().join(format!("libapp.so/{GUID}0/libapp.so.sym"));
    write(&path, breakpad(&format!("{GUID}0")));
    let (source, words) = ask(&linux);
    assert_eq!(source, SymbolSource::NotBuilt);
    assert!(
        words.contains(path.to_str().unwrap()) && words.contains(build),
        "{words}"
    );
}
