//! Code of the compiler's own has line 0 in debug info, and the file of any code around it. Its frames have the file
//! that declares the function, and no line.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use crate::common::{self, Built, have};
use gimli::{AttributeValue, EndianSlice, LittleEndian, UnitOffset, UnitRef};
use object::{Object, ObjectSection};

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// The functions at an address, and for the innermost the file of the row.
struct Expected {
    address: u64,
    row_file: PathBuf,
    /// The file that declares each function, innermost first.
    declared_in: Vec<Option<PathBuf>>,
}

/// The file of the line table.
fn file(unit: UnitRef<'_, Bytes<'_>>, index: u64) -> Option<PathBuf> {
    let header = unit.line_program.as_ref()?.header();
    let file = header.file(index)?;
    let text = |value| PathBuf::from(unit.attr_string(value).unwrap().to_string().unwrap());
    let folder = PathBuf::from(unit.comp_dir.unwrap().to_string().unwrap());
    let within = file.directory(header).map(text).unwrap_or_default();
    Some(folder.join(within).join(text(file.path_name())))
}

fn declared_in(unit: UnitRef<'_, Bytes<'_>>, entry: UnitOffset) -> Option<PathBuf> {
    let entry = unit.entry(entry).unwrap();
    if let Some(AttributeValue::FileIndex(index)) = entry.attr_value(gimli::DW_AT_decl_file) {
        return file(unit, index);
    }
    let origins = [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification];
    let origin = origins.iter().find_map(|name| entry.attr_value(*name))?;
    let AttributeValue::UnitRef(origin) = origin else {
        panic!("{origin:?} is in another unit");
    };
    declared_in(unit, origin)
}

/// All rows with line 0 of the units whose source is `name`.
fn expected(path: &Path, name: &str) -> Vec<Expected> {
    let bytes = std::fs::read(path).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    let sections = gimli::DwarfSections::load(|id| {
        let section = object.section_by_name(id.name()).map(|section| section.data().unwrap());
        Ok::<_, gimli::Error>(Cow::Borrowed(section.unwrap_or_default()))
    });
    let sections = sections.unwrap();
    let dwarf = sections.borrow(|section| EndianSlice::new(section, LittleEndian));
    let mut found = Vec::new();
    let mut units = dwarf.units();
    while let Some(header) = units.next().unwrap() {
        let unit = dwarf.unit(header).unwrap();
        let unit = UnitRef::new(&dwarf, &unit);
        if !unit.name.is_some_and(|found| found.to_string().unwrap().contains(name)) {
            continue;
        }
        // In order: each function before what is inlined into it.
        let mut functions = Vec::new();
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs().unwrap() {
            if [gimli::DW_TAG_subprogram, gimli::DW_TAG_inlined_subroutine].contains(&entry.tag()) {
                let mut ranges = unit.die_ranges(entry).unwrap();
                while let Some(range) = ranges.next().unwrap() {
                    functions.push((range.begin..range.end, entry.offset()));
                }
            }
        }
        let mut rows = unit.line_program.clone().unwrap().rows();
        let mut last: Option<gimli::LineRow> = None;
        while let Some((_, row)) = rows.next_row().unwrap() {
            if let Some(last) = last.filter(|last| last.line().is_none() && last.address() < row.address()) {
                let address = last.address();
                let around = functions.iter().rev().filter(|(range, _)| range.contains(&address));
                let declared_in: Vec<_> = around.map(|(_, entry)| declared_in(unit, *entry)).collect();
                // Code that the linker dropped lies at 0.
                if !declared_in.is_empty() && address > 0x100 {
                    found.push(Expected {
                        address,
                        row_file: file(unit, last.file_index()).unwrap(),
                        declared_in,
                    });
                }
            }
            last = (!row.end_sequence()).then_some(*row);
        }
    }
    found
}

/// Looks up rows without a line. Returns how many there are, how many have another file than the function, and of how
/// many the answer has.
fn count(what: &str, path: &Path, expected: &[Expected]) -> (usize, usize, usize) {
    let addresses: Vec<u64> = expected.iter().map(|expected| expected.address).collect();
    let answers = common::symbolicator(&[]).lookup(&common::module(path), &addresses);
    let (mut rows, mut by_row, mut wrong) = (0, 0, 0);
    for (expected, answer) in expected.iter().zip(&answers.unwrap()) {
        // Where clang writes lines only, fewer rows are without a line, and more calls hold them.
        if answer.frames.len() != expected.declared_in.len() || answer.frames[0].line.is_some() {
            continue;
        }
        rows += 1;
        by_row += usize::from(expected.declared_in[0].as_ref() != Some(&expected.row_file));
        // Calls may be without a line, too.
        for (frame, declared_in) in answer.frames.iter().zip(&expected.declared_in) {
            let is_right = frame.file.as_ref().map(PathBuf::from) == *declared_in;
            wrong += usize::from(frame.line.is_none() && !is_right);
        }
    }
    println!("{what}: {rows} rows, {by_row} with another file than the function, {wrong} answers");
    (rows, by_row, wrong)
}

/// Builds a program whose debug info has the declarations.
fn assert_files(tool: &str, program: &str, flags: &[&str]) -> (Built, Vec<Expected>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("program");
    common::build_with(tool, program, flags, &path);
    let expected = expected(&path, program);
    let (rows, by_row, wrong) = count(&format!("{tool} {}", flags.join(" ")), &path, &expected);
    assert!(rows > 20 && rows == expected.len() && by_row > 3 && wrong == 0);
    (Built { dir, path }, expected)
}

/// Looks up all code at once, which several threads do, and in parts.
fn assert_same_at_once(path: &Path) {
    let bytes = std::fs::read(path).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    let text = object.section_by_name(".text").unwrap();
    let base = object.relative_address_base();
    let code: Vec<u64> = (text.address() - base..text.address() - base + text.size()).collect();
    assert!(code.len() > 2000, "too few for several threads");
    let look_up = |addresses: &[u64]| {
        let symbolicator = common::symbolicator(&[]);
        symbolicator.lookup(&common::module(path), addresses).unwrap()
    };
    let at_once = look_up(&code);
    for (part, answers) in code.chunks(1000).zip(at_once.chunks(1000)) {
        assert!(look_up(part) == answers, "{}", path.display());
    }
}

#[test]
fn code_of_rustc_without_a_line_has_the_file_of_its_function() {
    for version in ["-Cdwarf-version=4", "-Cdwarf-version=5"] {
        let flags = ["--edition=2024", "-O", "-Cdebuginfo=full", version];
        assert_files("rustc", "paths.rs", &flags);
    }
}

#[test]
#[ignore = "long: rustc's debug info is LLVM's, too, and a test of it has the same rules"]
fn code_of_clang_without_a_line_has_the_file_of_its_function() {
    if !have("clang++") {
        return;
    }
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let (built, expected) = assert_files("clang++", "matrix.cc", &["-O2", "-g", version]);
        // The code is the same with all kinds of debug info.
        let count = |flag: &str| {
            let path = built.dir.path().join("other");
            common::build_with("clang++", "matrix.cc", &["-O2", "-g", version, flag], &path);
            count(&format!("clang++ {version} {flag}"), &path, &expected)
        };
        assert_eq!(count("-gsplit-dwarf").2, 0);
        // Without declarations the file is that of a call in the function, which may be written in a macro of another
        // file.
        let (_, by_row, wrong) = count("-gline-tables-only");
        assert!(by_row > 3 && wrong * 3 <= by_row, "{wrong} of {by_row}");
        assert_same_at_once(&built.dir.path().join("other"));
    }
}
