//! A dyld shared cache with one library, made by the formats' definitions: dyld_cache_format.h of dyld, mach-o/loader.h and mach-o/nlist.h of XNU.

use super::*;

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

/// The bytes of [`GUID`].
fn uuid() -> Vec<u8> {
    (0..16).collect()
}

#[test]
fn a_dyld_cache_has_names_of_its_libraries() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("dyld_shared_cache_arm64e"), cache(&uuid()));
    let ask = |path: &str| {
        let addresses = [CODE - 1, CODE, CODE + 0x3f, CODE + 0x40, CODE + 0x80];
        let found = crate::common::symbolicator(&[dir.path()]).lookup(&library(path, 0), &addresses)?;
        let name = |info: &recording::symbol::AddressInfo| info.function.as_ref().map(|function| function.name.clone());
        Ok::<_, symbolicator::SymbolError>(found.iter().map(name).collect::<Vec<_>>())
    };
    let [first, second] = ["first", "app::second()"].map(|name| Some(name.to_owned()));
    assert_eq!(ask(PATH).unwrap(), [None, first.clone(), first, second, None]);
    let error = ask("/usr/lib/libother.dylib").unwrap_err();
    assert!(matches!(error, symbolicator::SymbolError::Unreadable { .. }), "{error}");
    // The library of another release of macOS.
    write(&dir.path().join("dyld_shared_cache_arm64e"), cache(&[7; 16]));
    let error = ask(PATH).unwrap_err();
    assert!(matches!(error, symbolicator::SymbolError::Replaced { .. }), "{error}");
}
