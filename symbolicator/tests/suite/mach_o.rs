//! Mach-O: programs of both processors, built by `tests/mach_o/make`, with llvm-symbolizer's answers for them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use names::symbol::{AddressInfo, SymbolSource};
use object::{Object, ObjectSegment, ObjectSymbol};
use proptest::prelude::*;
use recording::module::{BuildId, Module, ModuleKind};
use symbolicator::{SymbolOptions, Symbolicator};

use crate::common::symbolicator;
use crate::damage::{cases, damage};
use crate::hostile::ask_all;
use crate::reference::Reference;

const ARCHES: [&str; 2] = ["aarch64", "x86_64"];

/// The object files of a program.
const OBJECTS: [&str; 4] = ["main.o", "shapes.o", "libmember.a", "libwords.a"];

/// When they were written: `make` says the same.
const WRITTEN: Duration = Duration::from_secs(1_700_000_000);

fn fixture(arch: &str, file: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mach_o");
    folder.join(arch).join(file)
}

/// A folder with the program alone.
struct Program {
    dir: tempfile::TempDir,
    module: Module,
    base: u64,
}

impl Program {
    fn of(arch: &'static str) -> Program {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("words");
        let bytes = fs::read(fixture(arch, "words")).unwrap();
        fs::write(&path, &bytes).unwrap();
        let object = object::File::parse(&*bytes).unwrap();
        let text = object
            .segments()
            .find(|segment| segment.name() == Ok(Some("__TEXT")))
            .unwrap();
        Program {
            module: Module {
                kind: ModuleKind::File,
                path,
                readable_path: None,
                build_id: object.mach_uuid().unwrap().map(BuildId::of_uuid),
                arch: Some(arch),
            },
            base: text.address(),
            dir,
        }
    }

    fn with_objects(arch: &'static str) -> Program {
        let program = Program::of(arch);
        for file in OBJECTS {
            program.put(arch, file);
        }
        program
    }

    fn with_dsym(arch: &'static str) -> Program {
        let program = Program::of(arch);
        put_dsym(program.dir.path(), &fs::read(fixture(arch, "words.debug")).unwrap());
        program
    }

    /// Puts an object file beside the program, with its time.
    fn put(&self, arch: &str, file: &str) {
        let path = self.dir.path().join(file);
        fs::copy(fixture(arch, file), &path).unwrap();
        set_time(&path, SystemTime::UNIX_EPOCH + WRITTEN);
    }

    fn reference(&self, arch: &str) -> Reference {
        let answers = fs::read_to_string(fixture(arch, "answers.txt")).unwrap();
        Reference::recorded(&answers, self.base, &self.module.path)
    }

    /// The relative address of a function.
    fn function(&self, name: &str) -> u64 {
        let bytes = fs::read(&self.module.path).unwrap();
        let object = object::File::parse(&*bytes).unwrap();
        let symbol = object.symbols().find(|symbol| symbol.name() == Ok(name)).unwrap();
        symbol.address() - self.base
    }
}

fn set_time(path: &Path, time: SystemTime) {
    fs::File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_modified(time)
        .unwrap();
}

fn put_dsym(folder: &Path, bytes: &[u8]) {
    let inner = folder.join("words.dSYM/Contents/Resources/DWARF");
    fs::create_dir_all(&inner).unwrap();
    fs::write(inner.join("words-0123456789abcdef"), bytes).unwrap();
}

/// A universal file, as `lipo` makes it: `mach-o/fat.h`.
fn universal(files: [Vec<u8>; 2]) -> Vec<u8> {
    const ALIGNMENT: usize = 1 << 14;
    let mut header = Vec::new();
    let mut content = vec![0; ALIGNMENT];
    header.extend(0xcafe_babe_u32.to_be_bytes());
    header.extend(2u32.to_be_bytes());
    for file in files {
        let words = [
            u32::from_le_bytes(file[4..8].try_into().unwrap()),
            u32::from_le_bytes(file[8..12].try_into().unwrap()),
        ];
        for word in [words[0], words[1], content.len() as u32, file.len() as u32, 14] {
            header.extend(word.to_be_bytes());
        }
        content.extend(file);
        content.resize(content.len().next_multiple_of(ALIGNMENT), 0);
    }
    content[..header.len()].copy_from_slice(&header);
    content
}

fn both(file: &str) -> Vec<u8> {
    universal(ARCHES.map(|arch| fs::read(fixture(arch, file)).unwrap()))
}

fn names(infos: &[AddressInfo]) -> Vec<Option<&str>> {
    infos
        .iter()
        .map(|info| Some(info.function.as_ref()?.name.as_str()))
        .collect()
}

#[test]
fn debug_info_of_bundles_is_that_of_llvm() {
    for arch in ARCHES {
        let program = Program::with_dsym(arch);
        let reference = program.reference(arch);
        reference.compare_module(&format!("{arch}, .dSYM"), &program.module, &[]);
        // In another folder, without the program.
        let elsewhere = Program::with_dsym(arch);
        fs::remove_file(&elsewhere.module.path).unwrap();
        let alone = Program::of(arch);
        reference.compare_module(&format!("{arch}, moved .dSYM"), &alone.module, &[elsewhere.dir.path()]);
        fs::remove_file(&alone.module.path).unwrap();
        reference.compare_module(&format!("{arch}, .dSYM alone"), &alone.module, &[elsewhere.dir.path()]);
        // Of an app.
        let app = tempfile::tempdir().unwrap();
        let folder = app.path().join("Words.app/Contents/MacOS");
        fs::create_dir_all(&folder).unwrap();
        fs::copy(&program.module.path, folder.join("words")).unwrap();
        fs::rename(program.dir.path().join("words.dSYM"), app.path().join("Words.app.dSYM")).unwrap();
        let module = Module {
            path: folder.join("words"),
            ..program.module
        };
        reference.compare_module(&format!("{arch}, app"), &module, &[]);
    }
}

#[test]
fn debug_info_of_object_files_is_that_of_llvm() {
    for arch in ARCHES {
        let program = Program::with_objects(arch);
        let reference = program.reference(arch);
        reference.compare_module(&format!("{arch}, object files"), &program.module, &[]);
        let alone = Program::of(arch);
        reference.compare_module(
            &format!("{arch}, moved object files"),
            &alone.module,
            &[program.dir.path()],
        );
    }
}

#[test]
fn of_universal_files_the_recorded_part_counts() {
    for arch in ARCHES {
        let program = Program::of(arch);
        fs::write(&program.module.path, both("words")).unwrap();
        let reference = Reference::recorded(
            &fs::read_to_string(fixture(arch, "answers.txt")).unwrap(),
            program.base,
            &fixture(arch, "words"),
        );
        put_dsym(program.dir.path(), &both("words.debug"));
        reference.compare_module(&format!("{arch}, universal"), &program.module, &[]);
        fs::remove_dir_all(program.dir.path().join("words.dSYM")).unwrap();
        for file in OBJECTS {
            program.put(arch, file);
        }
        let path = program.dir.path().join("main.o");
        fs::write(&path, both("main.o")).unwrap();
        set_time(&path, SystemTime::UNIX_EPOCH + WRITTEN);
        reference.compare_module(&format!("{arch}, universal object file"), &program.module, &[]);
        // Without an id the processor decides, and without both nothing is guessed.
        let by_processor = Module {
            build_id: None,
            ..program.module.clone()
        };
        // The recorder saw that file, and no id in it.
        assert!(symbolicator(&[]).lookup(&by_processor, &[0x600]).is_err());
        let unknown = Module {
            arch: None,
            ..by_processor
        };
        let error = symbolicator(&[]).lookup(&unknown, &[0x600]).unwrap_err().to_string();
        assert!(error.contains("several processors"), "{error}");
        fs::write(&unknown.path, universal([vec![0; 64], vec![0; 64]])).unwrap();
        let error = symbolicator(&[]).lookup(&unknown, &[0x600]).unwrap_err().to_string();
        assert!(error.contains("none of its parts"), "{error}");
    }
}

#[test]
fn a_file_of_another_build_is_refused_by_its_uuid() {
    let program = Program::of("aarch64");
    let uuid = program.module.build_id.as_ref().unwrap().to_uuid();
    let other = Module {
        build_id: Some(BuildId::of_uuid([7; 16])),
        ..program.module.clone()
    };
    let error = symbolicator(&[]).lookup(&other, &[0x600]).unwrap_err();
    assert_eq!(error.source(), SymbolSource::OtherBuild);
    assert!(error.to_string().contains(&uuid), "{error}");
    // A bundle of another build is reported, and not used.
    put_dsym(program.dir.path(), &fs::read(fixture("x86_64", "words.debug")).unwrap());
    let symbolicator = symbolicator(&[]);
    let infos = symbolicator
        .lookup(&program.module, &[program.function("_outer")])
        .unwrap();
    assert_eq!(names(&infos), [Some("outer")]);
    assert!(infos[0].frames.is_empty());
    let damage = symbolicator.damage(&program.module);
    assert!(damage.len() == 1 && damage[0].contains("words.dSYM"), "{damage:?}");
}

#[test]
fn without_debug_info_functions_have_names_and_sizes() {
    for arch in ARCHES {
        let program = Program::of(arch);
        let symbolicator = symbolicator(&[]);
        let named = [
            ("_outer", "outer"),
            ("_hidden", "hidden"),
            ("__ZN12_GLOBAL__N_16scaledEi", "(anonymous namespace)::scaled(int)"),
            ("__ZNK6shapes6SquareIiE4areaEv", "shapes::Square<int>::area() const"),
        ];
        for (symbol, name) in named {
            let start = program.function(symbol);
            let infos = symbolicator.lookup(&program.module, &[start, start + 8]).unwrap();
            for info in infos {
                let function = info.function.unwrap();
                assert_eq!((function.name.as_str(), function.start), (name, start));
                assert!(
                    function.size.is_some_and(|size| (8..200).contains(&size)),
                    "{:?}",
                    function.size
                );
            }
        }
        let notes = symbolicator.notes(&program.module);
        let [missing] = &notes[..] else { panic!("{notes:?}") };
        assert!(
            missing.contains("were not found") && missing.contains("dsymutil"),
            "{missing}"
        );
        let source = symbolicator.looked_up_in(&program.module);
        let expected = SymbolSource::Files {
            symbol_table: true,
            debug_info: false,
        };
        assert_eq!(source, expected);
    }
}

/// LC_SYMTAB: command, size, symbols, their number.
fn stripped(mut program: Vec<u8>) -> Vec<u8> {
    let is_table = |bytes: &[u8]| bytes == [2, 0, 0, 0, 24, 0, 0, 0];
    let table = program.windows(8).position(is_table).unwrap();
    program[table + 12..table + 16].fill(0);
    program
}

#[test]
fn stripped_programs_have_the_names_that_they_export() {
    for arch in ARCHES {
        let program = Program::of(arch);
        let hidden = program.function("_hidden");
        let outer = program.function("_outer");
        let bytes = fs::read(&program.module.path).unwrap();
        fs::write(&program.module.path, stripped(bytes)).unwrap();
        let infos = symbolicator(&[])
            .lookup(&program.module, &[outer, hidden, hidden + 4])
            .unwrap();
        let function = infos[0].function.as_ref().unwrap();
        assert_eq!((function.name.as_str(), function.start), ("outer", outer));
        // Static functions have no name there. Where they begin is known.
        for info in &infos[1..] {
            let function = info.function.as_ref().unwrap();
            assert_eq!((function.is_named, function.start), (false, hidden));
        }
    }
}

#[test]
fn an_object_file_that_was_written_later_is_not_used_and_reported() {
    let program = Program::with_objects("aarch64");
    let (outer, member, words) = ("_outer", "_from_archive", "_words_sum");
    let addresses = [outer, member, words].map(|name| program.function(name));
    let lines = || {
        let symbolicator = symbolicator(&[]);
        let infos = symbolicator.lookup(&program.module, &addresses).unwrap();
        assert_eq!(names(&infos), [Some("outer"), Some("from_archive"), Some("words_sum")]);
        let lines: Vec<bool> = infos.iter().map(|info| !info.frames.is_empty()).collect();
        let damage = symbolicator.damage(&program.module);
        (lines, damage, symbolicator.notes(&program.module).join("\n"))
    };
    assert_eq!(lines(), (vec![true; 3], Vec::new(), String::new()));
    set_time(
        &program.dir.path().join("main.o"),
        SystemTime::UNIX_EPOCH + WRITTEN + Duration::from_secs(1),
    );
    let is_changed = |damage: &[String], file: &str| {
        damage
            .iter()
            .any(|damage| damage.starts_with(file) && damage.contains("was written to after"))
    };
    let (found, damage, _) = lines();
    assert_eq!(found, [false, true, true]);
    assert!(damage.len() == 1 && is_changed(&damage, "main.o"), "{damage:?}");
    // Members of an archive have times of their own; this one has none in the archive, and the file is younger than the
    // program.
    let later = fs::metadata(&program.module.path).unwrap().modified().unwrap() + Duration::from_secs(5);
    set_time(&program.dir.path().join("libmember.a"), later);
    set_time(&program.dir.path().join("libwords.a"), later);
    let (found, damage, _) = lines();
    assert_eq!(found, [false, true, false]);
    assert!(
        damage.len() == 2 && is_changed(&damage, "libwords.a(words.o)"),
        "{damage:?}"
    );
    fs::remove_file(program.dir.path().join("libmember.a")).unwrap();
    let (found, _, notes) = lines();
    assert_eq!(found, [false, false, false]);
    assert!(
        notes.contains("1 were not found, the first is libmember.a(member.o)"),
        "{notes}"
    );
}

/// Makes the last function of the map a further name, without a size, of the function at this address. Returns false if
/// it is that function.
fn with_alias(program: &mut [u8], address: u64) -> bool {
    // mach-o/stab.h; an entry of the symbol table has 16 bytes: name, type, section, description, value
    // (mach-o/nlist.h).
    const N_FUN: u8 = 0x24;
    let is_table = |bytes: &[u8]| bytes == [2, 0, 0, 0, 24, 0, 0, 0];
    let table = program.windows(8).position(is_table).unwrap();
    let word = |at: usize| u32::from_le_bytes(program[at..at + 4].try_into().unwrap()) as usize;
    let (first, count) = (word(table + 8), word(table + 12));
    let entries = (0..count).map(|index| first + 16 * index);
    let functions: Vec<usize> = entries.filter(|entry| program[entry + 4] == N_FUN).collect();
    let [.., start, size] = functions[..] else {
        panic!("no map")
    };
    let is_other = program[start + 8..start + 16] != address.to_le_bytes();
    program[start + 8..start + 16].copy_from_slice(&address.to_le_bytes());
    program[size + 8..size + 16].fill(0);
    is_other
}

#[test]
fn a_function_with_several_names_has_its_lines() {
    for arch in ARCHES {
        let program = Program::with_objects(arch);
        let outer = program.function("_outer");
        let ask = || symbolicator(&[]).lookup(&program.module, &[outer, outer + 4]).unwrap();
        let expected = ask();
        assert!(expected.iter().all(|info| !info.frames.is_empty()));
        let mut bytes = fs::read(&program.module.path).unwrap();
        assert!(with_alias(&mut bytes, program.base + outer));
        fs::write(&program.module.path, bytes).unwrap();
        assert_eq!(ask(), expected);
    }
}

#[test]
fn kept_answers_are_those_of_the_same_object_files() {
    let program = Program::with_objects("x86_64");
    let cache = tempfile::tempdir().unwrap();
    let ask = || {
        let symbolicator = Symbolicator::new(SymbolOptions {
            cache: Some(cache.path().to_owned()),
            ..SymbolOptions::default()
        });
        let address = program.function("_outer");
        let infos = symbolicator.lookup(&program.module, &[address]).unwrap();
        assert_eq!(symbolicator.not_kept(&program.module), None);
        !infos[0].frames.is_empty()
    };
    assert!(ask());
    assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1);
    assert!(ask());
    set_time(&program.dir.path().join("main.o"), SystemTime::UNIX_EPOCH);
    assert!(!ask());
}

#[test]
fn assembly_has_the_names_of_what_it_calls() {
    for (arch, call) in [("aarch64", "bl "), ("x86_64", "call ")] {
        let program = Program::of(arch);
        let symbolicator = symbolicator(&[]);
        symbolicator.add_module(&program.module);
        let start = program.function("_main");
        let assembly = symbolicator.assembly(&program.module, start, 1, true).unwrap();
        assert_eq!((assembly.arch, assembly.start), (arch, start));
        assert_eq!(assembly.function.as_ref().unwrap().name, "main");
        let lines: Vec<String> = assembly.instructions.iter().map(|one| assembly.line(one)).collect();
        let calls: Vec<&String> = lines.iter().filter(|line| line.contains(call)).collect();
        for name in [
            "<malloc@plt>",
            "<outer>",
            "<from_archive>",
            "<shape_area>",
            "<words_sum>",
        ] {
            assert!(
                calls.iter().any(|line| line.ends_with(name)),
                "{arch}, {name}: {lines:#?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(cases(256))]

    /// The program itself, its bundle, and the object files. Headers and load commands are damaged more often than the
    /// rest.
    #[test]
    fn damaged_files_are_survived(
        arch in prop::sample::select(&ARCHES[..]),
        which in prop::sample::select(&["words", "words.debug", "main.o", "shapes.o", "libmember.a", "libwords.a"][..]),
        is_stripped in any::<bool>(),
        damage in damage(0..12),
    ) {
        const HEADERS: usize = 2048;
        let program = Program::with_objects(arch);
        let mut bytes = fs::read(fixture(arch, which)).unwrap();
        if which == "words" && is_stripped {
            bytes = stripped(bytes);
        }
        let bytes = damage.within(&bytes, &[(0, HEADERS), (0, bytes.len())]);
        match which {
            "words.debug" => put_dsym(program.dir.path(), &bytes),
            _ => {
                let path = program.dir.path().join(which);
                fs::write(&path, bytes).unwrap();
                set_time(&path, SystemTime::UNIX_EPOCH + WRITTEN);
            }
        }
        let addresses: Vec<u64> = (0x400..0x900).step_by(12).chain([0, u64::MAX]).collect();
        ask_all(&program.module, &addresses);
    }
}
