//! What is kept for the next start: the same answers with it and without it, and whatever happened to it.

use std::fs;
use std::path::Path;

use crate::common::{self, Built, build, have, module, run};
use names::symbol::AddressInfo;
use object::{Object, ObjectSection};
use recording::module::Module;
use symbolicator::{SymbolOptions, Symbolicator};

/// A program with compressed debug info.
fn packed(level: &str) -> Built {
    let built = build("matrix.cc", &[level, "-g"]);
    run("objcopy", &[&"--compress-debug-sections=zlib", &built.path]);
    built
}

/// Reads everything anew, but for what is in the folder.
fn answers(module: &Module, addresses: &[u64], cache: Option<&Path>) -> Vec<AddressInfo> {
    let symbolicator = Symbolicator::new(SymbolOptions {
        cache: cache.map(Path::to_owned),
        ..SymbolOptions::default()
    });
    symbolicator.lookup(module, addresses).unwrap()
}

#[test]
fn unpacked_sections_are_used_again_only_as_they_were() {
    if !have("objcopy") {
        return;
    }
    let built = packed("-O2");
    let module = module(&built.path);
    let bytes = fs::read(&built.path).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    let text = object.section_by_name(".text").unwrap();
    let from = text.address() - object.relative_address_base();
    let addresses: Vec<u64> = (from..from + text.size()).step_by(97).collect();
    let expected = answers(&module, &addresses, None);
    assert!(expected.iter().any(|info| info.frames.len() > 3));

    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("sprof");
    let is_right = |cache: &Path| answers(&module, &addresses, Some(cache)) == expected;
    assert!(is_right(&cache), "first");
    let entries: Vec<_> = fs::read_dir(&cache)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let is_names = |entry: &Path| entry.file_name().unwrap().as_encoded_bytes().starts_with(b"names-");
    let names = entries.iter().find(|entry| is_names(entry)).unwrap();
    let sections = entries.iter().filter(|entry| !is_names(entry));
    let info = sections.max_by_key(|entry| fs::metadata(entry).unwrap().len()).unwrap();
    assert!(entries.len() >= 3, "{entries:?}");
    assert!(is_right(&cache), "second");

    for entry in [names, info] {
        let whole = fs::read(entry).unwrap();
        // Sections are read where no names are kept.
        let is_right = |what: &str, at: usize| {
            if entry != names {
                fs::remove_file(names).unwrap();
            }
            assert!(is_right(&cache), "{} {what} at {at}", entry.display());
            assert!(fs::read(entry).unwrap() == whole, "it is written again");
        };
        for at in (0..whole.len()).step_by(whole.len() / 4) {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(entry, damaged).unwrap();
            is_right("damaged", at);
            fs::write(entry, &whole[..at]).unwrap();
            is_right("cut", at);
        }
        // A whole entry under another's name: of another section, or another form of this one.
        for (at, other) in entries.iter().filter(|other| *other != entry).enumerate() {
            if other.exists() {
                fs::copy(other, entry).unwrap();
                is_right("exchanged", at);
            }
        }
    }
    // Another build has entries of its own.
    let other = packed("-O1");
    let other = common::module(&other.path);
    assert_eq!(
        answers(&other, &addresses, Some(&cache)),
        answers(&other, &addresses, None)
    );
    assert!(is_right(&cache));

    // No folder can be made, and no entry written.
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(is_right(&file.join("below")), "below a file");
    assert!(is_right(Path::new("/proc/no-folder")), "a file system without files");
    for entry in [names, info] {
        fs::remove_file(entry).unwrap();
        fs::create_dir(entry).unwrap();
    }
    assert!(is_right(&cache), "folders in the place of entries");
}

#[test]
fn names_of_another_file_with_the_same_build_id_are_not_used() {
    let build = |level: &str| build("matrix.cc", &[level, "-g", "-Wl,--build-id=0x12345678abcd"]);
    let (built, other) = (build("-O2"), build("-O0"));
    let module = module(&built.path);
    let (start, size) = common::function(&built.path, "main");
    let addresses: Vec<u64> = (start..start + size).collect();
    let cache = tempfile::tempdir().unwrap();
    let before = answers(&module, &addresses, Some(cache.path()));
    assert_eq!(before, answers(&module, &addresses, Some(cache.path())));
    // In place, with the time of the old file.
    let time = fs::metadata(&built.path).unwrap().modified().unwrap();
    fs::copy(&other.path, &built.path).unwrap();
    fs::File::options()
        .write(true)
        .open(&built.path)
        .unwrap()
        .set_modified(time)
        .unwrap();
    let after = answers(&module, &addresses, Some(cache.path()));
    assert_eq!(after, answers(&module, &addresses, None));
    assert_ne!(after, before);
}

#[test]
fn several_starts_at_once_have_the_same_answers() {
    if !have("objcopy") {
        return;
    }
    let built = packed("-O2");
    let module = module(&built.path);
    let (start, size) = common::function(&built.path, "main");
    let addresses: Vec<u64> = (start..start + size).collect();
    let expected = answers(&module, &addresses, None);
    let cache = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..5 {
                    assert!(answers(&module, &addresses, Some(cache.path())) == expected);
                }
            });
        }
    });
}

#[test]
fn names_that_cannot_be_kept_are_right_and_the_reason_is_known() {
    let built = build("matrix.cc", &["-O1", "-g"]);
    let module = module(&built.path);
    let of = |cache: &Path| {
        let symbolicator = Symbolicator::new(SymbolOptions {
            cache: Some(cache.to_owned()),
            ..SymbolOptions::default()
        });
        let (address, _) = common::function(&built.path, "main");
        let answers = symbolicator.lookup(&module, &[address]).unwrap();
        assert!(answers[0].function.as_ref().unwrap().is_named);
        symbolicator.not_kept(&module)
    };
    let file = built.dir.path().join("file");
    fs::write(&file, "").unwrap();
    assert_eq!(of(&built.dir.path().join("sprof")), None);
    let reason = of(&file.join("sprof")).unwrap();
    let begins = format!("cannot keep names in {}/sprof: ", file.display());
    assert!(
        reason.starts_with(&begins) && reason.contains("Not a directory"),
        "{reason}"
    );
}
