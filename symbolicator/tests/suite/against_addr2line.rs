//! Our tables over DWARF must say what addr2line's say: the same files, two implementations.
//!
//! The subject is this test program itself (Rust, optimised, with the standard library's debug info);
//! `SPROF_TEST_BINARY` names another.

use std::borrow::Cow;
use std::path::PathBuf;

use addr2line::gimli::{self, EndianSlice, LittleEndian};
use names::rust_name::with_path;
use object::{Object, ObjectSection};
use symbolicator::demangle;

use crate::common;

type Shape = (Option<String>, Option<String>, Option<u32>, Option<u32>);

/// The name of a function in debug info, without path.
fn plain_name<R: gimli::Reader>(unit: gimli::UnitRef<'_, R>, function: gimli::UnitOffset<R::Offset>) -> Option<String> {
    let mut entry = unit.entry(function).ok()?;
    loop {
        if let Some(name) = entry.attr_value(gimli::DW_AT_name) {
            return Some(unit.attr_string(name).ok()?.to_string_lossy().ok()?.into_owned());
        }
        let origin = entry.attr_value(gimli::DW_AT_abstract_origin);
        match origin.or_else(|| entry.attr_value(gimli::DW_AT_specification))? {
            gimli::AttributeValue::UnitRef(origin) => entry = unit.entry(origin).ok()?,
            _ => return None,
        }
    }
}

#[test]
fn frames_are_those_of_addr2line() {
    let path = std::env::var_os("SPROF_TEST_BINARY").map_or_else(|| std::env::current_exe().unwrap(), PathBuf::from);
    let bytes = std::fs::read(&path).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    let mut sections = Vec::new();
    let dwarf = gimli::DwarfSections::load(|id| {
        let section = object.section_by_name(id.name());
        let data = section.and_then(|section| section.compressed_data().ok());
        let data = data.filter(|data| data.format == object::CompressionFormat::None);
        sections.push(id);
        Ok::<_, gimli::Error>(Cow::Borrowed(data.map_or(&[][..], |data| data.data)))
    })
    .unwrap();
    let dwarf = dwarf.borrow(|section| EndianSlice::new(section, LittleEndian));
    let context = addr2line::Context::from_dwarf(dwarf).unwrap();

    let base = object.relative_address_base();
    let text = object.section_by_name(".text").unwrap();
    let from = text.address() - base;
    // A prime step visits all alignments.
    let step = (text.size() / 20_000).max(1) | 1;
    let addresses: Vec<u64> = (from..from + text.size()).step_by(step as usize).collect();
    let infos = common::symbolicator(&[])
        .lookup(&common::module(&path), &addresses)
        .unwrap();

    let mut differences = 0;
    for (address, info) in addresses.iter().zip(&infos) {
        let mut theirs: Vec<Shape> = Vec::new();
        let mut frames = context.find_frames(address + base).skip_all_loads().unwrap();
        while let Some(frame) = frames.next().unwrap() {
            let location = frame.location.as_ref();
            let name = frame.function.map(|name| demangle(&name.raw_name().unwrap()));
            // addr2line has linkage names alone, which call asynchronous code a closure.
            let unit = context.find_dwarf_and_unit(address + base).skip_all_loads();
            let plain = frame
                .dw_die_offset
                .zip(unit)
                .and_then(|(at, unit)| plain_name(unit, at));
            let plain = plain.filter(|plain| plain.starts_with("{async_"));
            theirs.push((
                name.map(|name| plain.and_then(|plain| with_path(&plain, &name)).unwrap_or(name)),
                location.and_then(|location| location.file).map(str::to_owned),
                location.and_then(|location| location.line),
                location
                    .and_then(|location| location.column)
                    .filter(|column| *column > 0),
            ));
        }
        let ours: Vec<Shape> = info
            .frames
            .iter()
            .map(|frame| (frame.function.clone(), frame.file.clone(), frame.line, frame.column))
            .collect();
        // Code of the compiler's own has no line. Ours is the file of the function; addr2line's is that of the line
        // table's row.
        for (ours, theirs) in ours.iter().zip(&mut theirs).filter(|(ours, _)| ours.2.is_none()) {
            theirs.1.clone_from(&ours.1);
        }
        // Where debug info has no function, or its name without the path, ours is the symbol table's.
        if let (Some((Some(ours), ..)), Some((theirs, ..))) = (ours.last(), theirs.last_mut())
            && theirs
                .as_deref()
                .is_none_or(|theirs| with_path(theirs, ours).as_ref() == Some(ours))
        {
            *theirs = Some(ours.clone());
        }
        if ours != theirs {
            differences += 1;
            if differences <= 5 {
                println!("{address:#x}\n  ours   {ours:?}\n  theirs {theirs:?}");
            }
        }
    }
    println!("{} addresses, {differences} differences", addresses.len());
    // Where functions overlap (identical ones folded by the linker) either answer is as good.
    assert!(
        differences * 1000 <= addresses.len(),
        "{differences} of {}",
        addresses.len()
    );
}
