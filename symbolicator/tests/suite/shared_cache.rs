//! A dyld shared cache with one library, made by the formats' definitions: dyld_cache_format.h of dyld, mach-o/loader.h
//! and mach-o/nlist.h of XNU.

use std::fs;
use std::path::Path;

use names::symbol::SymbolSource;
use recording::module::{BuildId, Module, ModuleKind};
use symbolicator::{AsmError, SymbolError};

use crate::common::symbolicator;
use crate::hostile::ask_all_in;

/// Where the cache is loaded, and the library in it.
const BASE: u64 = 0x1_8000_0000;
const LIBRARY: u64 = 0x1000;
/// Its code, from the start of the library.
const CODE: u64 = 0x800;
const PATH: &str = "/usr/lib/system/libsystem_test.dylib";

struct File(Vec<u8>);

impl File {
    fn put(&mut self, at: u64, bytes: &[u8]) {
        self.0[at as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    fn words(&mut self, at: u64, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.put(at, &bytes);
    }

    fn longs(&mut self, at: u64, longs: &[u64]) {
        let bytes: Vec<u8> = longs.iter().flat_map(|long| long.to_le_bytes()).collect();
        self.put(at, &bytes);
    }
}

/// `first` is at [`CODE`], `second` 0x40 bytes on.
fn cache(uuid: &[u8]) -> Vec<u8> {
    let mut file = File(vec![0; 0x4000]);
    // dyld_cache_header in its form before macOS 12: one mapping and one image.
    file.put(0, b"dyld_v1  arm64e\0");
    file.words(0x10, &[0x98, 1, 0x200, 1]);
    // dyld_cache_mapping_info: address, size, file offset, protections.
    file.longs(0x98, &[BASE, 0x4000, 0]);
    file.words(0xb0, &[5, 5]);
    // dyld_cache_image_info: address, time, inode, offset of the path.
    file.longs(0x200, &[BASE + LIBRARY, 0, 0]);
    file.words(0x218, &[0x240, 0]);
    file.put(0x240, PATH.as_bytes());
    // mach_header_64: MH_MAGIC_64, CPU_TYPE_ARM64, CPU_SUBTYPE_ARM64E, MH_DYLIB, four commands and their bytes.
    let commands = 152 + 72 + 24 + 24;
    file.words(
        LIBRARY,
        &[0xfeed_facf, 0x0100_000c, 0x8000_0002, 6, 4, commands, 0x8000_0000, 0],
    );
    let segment = LIBRARY + 32;
    // LC_SEGMENT_64 with one section of code.
    file.words(segment, &[0x19, 152]);
    file.put(segment + 8, b"__TEXT");
    file.longs(segment + 24, &[BASE + LIBRARY, 0x2000, LIBRARY, 0x2000]);
    file.words(segment + 56, &[5, 5, 1, 0]);
    file.put(segment + 72, b"__text");
    file.put(segment + 88, b"__TEXT");
    file.longs(segment + 104, &[BASE + LIBRARY + CODE, 0x80]);
    file.words(segment + 120, &[(LIBRARY + CODE) as u32, 4, 0, 0, 0x8000_0400]);
    // LC_SEGMENT_64 of what the symbol table is in.
    let link_edit = segment + 152;
    file.words(link_edit, &[0x19, 72]);
    file.put(link_edit + 8, b"__LINKEDIT");
    file.longs(link_edit + 24, &[BASE + 0x3000, 0x1000, 0x3000, 0x1000]);
    let id = link_edit + 72;
    // LC_UUID, LC_SYMTAB: two symbols at 0x3000, their names at 0x3100.
    file.words(id, &[0x1b, 24]);
    file.put(id + 8, uuid);
    file.words(id + 24, &[2, 24, 0x3000, 2, 0x3100, 0x40]);
    // nlist_64: name, N_SECT | N_EXT in section 1, value.
    for (at, name, address) in [(0, 1, CODE), (16, 8, CODE + 0x40)] {
        file.words(0x3000 + at, &[name, 0x010f]);
        file.longs(0x3008 + at, &[BASE + LIBRARY + address]);
    }
    file.put(0x3100, b"\0_first\0__ZN3app6secondEv\0");
    file.0
}

/// The same in two files, as since macOS 12: the second one has the symbols. Returns the first one and the second one.
fn split(uuid: &[u8]) -> [Vec<u8>; 2] {
    const OF_SECOND: [u8; 16] = [9; 16];
    let (mut first, mut second) = (File(cache(uuid)), File(cache(uuid)));
    first.0[0x3000..].fill(0);
    second.0[..0x3000].fill(0);
    // Where the header ends: one of this size says that there are further files. mappingWithSlideOffset and
    // mappingWithSlideCount.
    first.words(0x10, &[0x400, 1, 0, 0]);
    first.words(0x138, &[0x400, 1]);
    // dyld_cache_mapping_and_slide_info: address, size, file offset, slide information, flags, protections.
    first.longs(0x400, &[BASE, 0x3000, 0, 0, 0, 0]);
    first.words(0x430, &[5, 5]);
    // subCacheArrayOffset and subCacheArrayCount, then imagesOffset and imagesCount.
    first.words(0x188, &[0x440, 1]);
    first.words(0x1c0, &[0x200, 1]);
    // dyld_subcache_entry: uuid, offset of its addresses, ending.
    first.put(0x440, &OF_SECOND);
    first.longs(0x450, &[0x3000]);
    first.put(0x458, b".01\0");
    second.put(0, b"dyld_v1  arm64e\0");
    second.words(0x10, &[0x400, 1]);
    second.words(0x138, &[0x400, 1]);
    second.put(0x58, &OF_SECOND);
    second.longs(0x400, &[BASE + 0x3000, 0x1000, 0x3000, 0, 0, 0]);
    second.words(0x430, &[1, 1]);
    [first.0, second.0]
}

const UUID: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

fn library(path: &str) -> Module {
    Module {
        kind: ModuleKind::File,
        path: path.into(),
        readable_path: None,
        build_id: Some(BuildId::of_uuid(UUID)),
        arch: None,
    }
}

fn ask(dir: &Path, path: &str) -> Result<Vec<Option<String>>, SymbolError> {
    let addresses = [CODE - 1, CODE, CODE + 0x3f, CODE + 0x40, CODE + 0x80];
    let found = symbolicator(&[dir]).lookup(&library(path), &addresses)?;
    Ok(found.into_iter().map(|info| Some(info.function?.name)).collect())
}

#[test]
fn libraries_of_the_cache_have_names_and_assembly() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("dyld_shared_cache_arm64e");
    let [first, second] = ["first", "app::second()"].map(|name| Some(name.to_owned()));
    let expected = [None, first.clone(), first, second, None];
    fs::write(&path, cache(&UUID)).unwrap();
    assert_eq!(ask(dir.path(), PATH).unwrap(), expected);
    let symbolicator = symbolicator(&[dir.path()]);
    symbolicator.add_module(&library(PATH));
    let assembly = symbolicator.assembly(&library(PATH), CODE, 1, true).unwrap();
    assert_eq!((assembly.arch, assembly.size), ("aarch64", 0x40));

    let files = split(&UUID);
    fs::write(&path, &files[0]).unwrap();
    let missing = ask(dir.path(), PATH).unwrap_err();
    assert!(missing.to_string().contains("dyld_shared_cache_arm64e.01"), "{missing}");
    fs::write(dir.path().join("dyld_shared_cache_arm64e.01"), &files[1]).unwrap();
    assert_eq!(ask(dir.path(), PATH).unwrap(), expected);

    let error = ask(dir.path(), "/usr/lib/libother.dylib").unwrap_err();
    assert_eq!(error.source(), SymbolSource::NoFile, "{error}");
    // The library of another release of macOS.
    fs::write(&path, cache(&[7; 16])).unwrap();
    let error = ask(dir.path(), PATH).unwrap_err();
    assert_eq!(error.source(), SymbolSource::OtherBuild, "{error}");
}

#[test]
fn code_that_the_cache_lacks_has_names_and_no_assembly() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = File(cache(&UUID));
    // The file offset of the section with code.
    file.words(LIBRARY + 32 + 120, &[0x00ff_0000]);
    fs::write(dir.path().join("dyld_shared_cache_arm64e"), file.0).unwrap();
    assert_eq!(ask(dir.path(), PATH).unwrap()[1].as_deref(), Some("first"));
    let symbolicator = symbolicator(&[dir.path()]);
    symbolicator.add_module(&library(PATH));
    let assembly = symbolicator.assembly(&library(PATH), CODE, 1, true);
    assert!(matches!(assembly, Err(AsmError::NoCode { .. })), "{assembly:?}");
}

#[test]
fn libraries_without_a_symbol_table_have_the_names_that_they_export() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = File(cache(&UUID));
    // LC_DYLD_EXPORTS_TRIE in place of LC_SYMTAB. A root with one edge, to an export at `CODE`.
    let trie = b"\0\x01_exported\0\x0d\x03\0\x80\x10\0";
    file.words(LIBRARY + 0x118, &[0x8000_0033, 24, 0x3200, trie.len() as u32]);
    file.put(0x3200, trie);
    fs::write(dir.path().join("dyld_shared_cache_arm64e"), file.0).unwrap();
    let exported = Some("exported".to_owned());
    // What lies behind its end is another function, which is not exported.
    let expected = [None, exported.clone(), exported, None, None];
    assert_eq!(ask(dir.path(), PATH).unwrap(), expected);
}

#[test]
fn a_cache_that_is_none_is_an_error_of_its_file() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(ask(dir.path(), PATH).unwrap_err().source(), SymbolSource::NoFile);
    let path = dir.path().join("dyld_shared_cache_arm64e");
    fs::write(&path, b"dyld_v1  arm64e\0").unwrap();
    let error = ask(dir.path(), PATH).unwrap_err();
    assert!(
        matches!(&error, SymbolError::Unreadable { path: of, .. } if *of == path),
        "{error}"
    );
    // Only macOS's own libraries are in it.
    let error = ask(dir.path(), "/Applications/App").unwrap_err();
    assert_eq!(error.source(), SymbolSource::NoFile);
}

#[test]
fn damaged_caches_are_survived() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("dyld_shared_cache_arm64e");
    let files = split(&UUID);
    fs::write(dir.path().join("dyld_shared_cache_arm64e.01"), &files[1]).unwrap();
    let mut found = 0;
    // All bytes of headers and commands.
    for at in (0..0x20)
        .chain(0x188..0x1c8)
        .chain(0x200..0x260)
        .chain(0x400..0x480)
        .chain(0x1000..0x1140)
    {
        let mut damaged = files[0].clone();
        damaged[at] = [0, 0x7f, 0xff][at % 3];
        fs::write(&path, damaged).unwrap();
        let (symbolicator, _) = ask_all_in(&[dir.path()], &library(PATH), &[0, CODE, CODE + 0x40, u64::MAX]);
        found += u32::from(symbolicator.lookup(&library(PATH), &[CODE]).is_ok());
    }
    assert!(found > 100);
}
