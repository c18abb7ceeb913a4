//! Facts of a program's file that decide whether a library can be loaded into it.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use recording::heap::UnseenCause;
use recording::regular_file;

/// `EM_X86_64` or `EM_AARCH64` of elf.h: what this program and its library are for.
pub(super) const OWN_MACHINE: u32 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_FLAGS_1: u64 = 0x6fff_fffb;
const DF_1_PIE: u64 = 0x0800_0000;
const ET_DYN: u16 = 3;
const MAX_HEADERS: u16 = 512;
const MAX_DYNAMIC: u64 = 64 << 10;
/// Libraries of gcc and clang that abort where another library comes before them, or have the heap to themselves.
const SANITIZERS: [&[u8]; 4] = [b"libasan.so", b"libtsan.so", b"libhwasan.so", b"libclang_rt."];

/// Why no library samples the blocks of a program. `None`: the file shows no reason.
pub(super) fn obstacle(path: &Path) -> Option<UnseenCause> {
    // Waits for nothing: a pipe may be there by now.
    let file = regular_file::open(path).ok()?;
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0).ok()?;
    if !header.starts_with(b"\x7fELF") {
        return None;
    }
    // 64 bits, little-endian.
    if header.get(4..6) != Some(&[2, 1]) || u16_at(&header, 18) != Some(OWN_MACHINE as u16) {
        return Some(UnseenCause::OtherMachine);
    }
    let segments = segments(&file, &header)?;
    let dynamic = dynamic_entries(&file, &segments).unwrap_or_default();
    if !has_interpreter(&segments) && !is_library(&header, &dynamic) {
        return Some(UnseenCause::Static);
    }
    if needs_sanitizer(&file, &segments, &dynamic) == Some(true) {
        return Some(UnseenCause::Sanitizer);
    }
    // S_ISUID, S_ISGID.
    let mode = file.metadata().ok()?.mode();
    (mode & 0o6000 != 0).then_some(UnseenCause::SetUserId)
}

/// The functions of allocators that programs are linked with, and the allocator. Linkers drop what is not called.
const ALLOCATORS: [(&[u8], &str); 8] = [
    (b"malloc", "a malloc of its own"),
    (b"mi_malloc", "mimalloc"),
    (b"mi_malloc_aligned", "mimalloc"),
    (b"_rjem_malloc", "jemalloc"),
    (b"_rjem_mallocx", "jemalloc"),
    (b"sn_rust_alloc", "snmalloc"),
    (b"rpmalloc", "rpmalloc"),
    (b"tc_malloc", "tcmalloc"),
];
const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;
const STT_FUNC: u8 = 2;
const SYMBOL_BYTES: usize = 24;
/// Larger tables are read to here.
const MAX_TABLE: u64 = 64 << 20;

/// The allocator that is linked into a program, as far as its symbols say. `None` for a loader that was given the name
/// of the program to run: musl's is libc as well.
pub(super) fn own_allocator(path: &Path) -> Option<&'static str> {
    let file = regular_file::open(path).ok()?;
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0).ok()?;
    // 64 bits, little-endian; sections of 64 bytes.
    if !header.starts_with(b"\x7fELF\x02\x01") || u16_at(&header, 58) != Some(64) {
        return None;
    }
    let segments = segments(&file, &header)?;
    if !has_interpreter(&segments) && is_library(&header, &dynamic_entries(&file, &segments).unwrap_or_default()) {
        return None;
    }
    let mut table = vec![0; usize::from(u16_at(&header, 60)?) * 64];
    file.read_exact_at(&mut table, u64_at(&header, 40)?).ok()?;
    let sections: Vec<&[u8]> = table.chunks_exact(64).collect();
    let content = |section: &[u8]| {
        let mut bytes = vec![0; usize::try_from(u64_at(section, 32)?.min(MAX_TABLE)).ok()?];
        // A table that says more than the file has is no table.
        file.read_exact_at(&mut bytes, u64_at(section, 24)?).ok()?;
        Some(bytes)
    };
    // A file has one of each at most.
    let tables = [SHT_SYMTAB, SHT_DYNSYM].into_iter().filter_map(|kind| {
        let mut of_kind = sections.iter().filter(|section| u32_at(section, 4) == Some(kind));
        of_kind.next()
    });
    let mut found = tables.filter_map(|section| {
        let names = content(sections.get(u32_at(section, 40)? as usize)?)?;
        let symbols = content(section)?;
        let functions = symbols.chunks_exact(SYMBOL_BYTES).filter(|symbol| {
            // Not imported.
            symbol.get(4).is_some_and(|info| info & 0xf == STT_FUNC) && u16_at(symbol, 6) != Some(0)
        });
        let mut allocators = functions.filter_map(|symbol| {
            let name = names.get(u32_at(symbol, 0)? as usize..)?;
            let is_it = |known: &[u8]| name.strip_prefix(known).is_some_and(|rest| rest.first() == Some(&0));
            Some(ALLOCATORS.iter().find(|(known, _)| is_it(known))?.1)
        });
        allocators.next()
    });
    found.next()
}

struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    size: u64,
}

fn segments(file: &File, header: &[u8]) -> Option<Vec<Segment>> {
    let count = u16_at(header, 56).filter(|count| *count <= MAX_HEADERS)?;
    let mut table = vec![0; usize::from(count) * 56];
    file.read_exact_at(&mut table, u64_at(header, 32)?).ok()?;
    let segment = |entry: &[u8]| {
        Some(Segment {
            kind: u32_at(entry, 0)?,
            offset: u64_at(entry, 8)?,
            address: u64_at(entry, 16)?,
            size: u64_at(entry, 32)?,
        })
    };
    table.chunks_exact(56).map(segment).collect()
}

fn has_interpreter(segments: &[Segment]) -> bool {
    segments.iter().any(|segment| segment.kind == PT_INTERP)
}

/// Whether the file is a library: linkers mark programs that can be anywhere in memory, also static ones. A library
/// that is executed without an interpreter is a loader.
fn is_library(header: &[u8], dynamic: &[(u64, u64)]) -> bool {
    let is_program = |(tag, value): &(u64, u64)| *tag == DT_FLAGS_1 && value & DF_1_PIE != 0;
    u16_at(header, 16) == Some(ET_DYN) && !dynamic.iter().any(is_program)
}

fn dynamic_entries(file: &File, segments: &[Segment]) -> Option<Vec<(u64, u64)>> {
    let dynamic = segments.iter().find(|segment| segment.kind == PT_DYNAMIC)?;
    let mut entries = vec![0; usize::try_from(dynamic.size.min(MAX_DYNAMIC)).ok()?];
    file.read_exact_at(&mut entries, dynamic.offset).ok()?;
    let entry = |entry: &[u8]| Some((u64_at(entry, 0)?, u64_at(entry, 8)?));
    Some(entries.chunks_exact(16).map_while(entry).collect())
}

fn needs_sanitizer(file: &File, segments: &[Segment], dynamic: &[(u64, u64)]) -> Option<bool> {
    let strings = dynamic.iter().find(|(tag, _)| *tag == DT_STRTAB)?.1;
    let strings = { segments.iter().filter(|segment| segment.kind == PT_LOAD) }.find_map(|segment| {
        let within = strings.checked_sub(segment.address).filter(|at| *at < segment.size)?;
        segment.offset.checked_add(within)
    })?;
    let needed = dynamic.iter().filter(|(tag, _)| *tag == DT_NEEDED);
    Some(needed.map(|(_, at)| strings.saturating_add(*at)).any(|at| {
        let mut name = [0; 16];
        // The last name may end before.
        let read = file.read_at(&mut name, at).unwrap_or_default();
        let name = name.get(..read).unwrap_or_default();
        SANITIZERS.iter().any(|sanitizer| name.starts_with(sanitizer))
    }))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().copied().map(u64::from_le_bytes)
}

/// The allocator that a library is, if it has an `operator new`: none of these calls `malloc` by its name.
pub(super) fn own_new(library: &Path) -> Option<&'static str> {
    let name = library.file_name()?.to_str()?;
    let known = ["jemalloc", "tcmalloc", "mimalloc"];
    let allocator = known.into_iter().find(|known| {
        let rest = name.strip_prefix("lib");
        rest.is_some_and(|rest| rest.starts_with(known))
    })?;
    let mut bytes = Vec::new();
    let file = regular_file::open(library).ok()?;
    file.take(MAX_TABLE).read_to_end(&mut bytes).ok()?;
    // `operator new(unsigned long)` among the names of its symbols. Without C++, jemalloc has none.
    let name = b"\0_Znwm\0";
    bytes.windows(name.len()).any(|part| part == name).then_some(allocator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocator_with_an_operator_new_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for (name, content, expected) in [
            ("libjemalloc.so.2", "x\0_Znwm\0y", Some("jemalloc")),
            ("libtcmalloc_minimal.so.4", "\0_Znwm\0", Some("tcmalloc")),
            ("libjemalloc.so.1", "malloc\0free", None),
            ("libother.so", "\0_Znwm\0", None),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            assert_eq!(own_new(&path), expected, "{name}");
        }
    }

    #[test]
    fn a_dynamic_program_has_no_obstacle_and_other_files_are_no_programs() {
        let own = std::env::current_exe().unwrap();
        assert_eq!((obstacle(&own), own_allocator(&own)), (None, None));
        assert_eq!(obstacle(Path::new("/dev/null")), None);
        assert_eq!(obstacle(Path::new("/etc/passwd")), None);
    }

    #[test]
    fn a_loader_is_neither_static_nor_an_allocator() {
        let loaders = [
            "/lib64/ld-linux-x86-64.so.2",
            "/lib/ld-linux-aarch64.so.1",
            "/lib/ld-musl-x86_64.so.1",
        ];
        for loader in loaders.map(Path::new).into_iter().filter(|loader| loader.exists()) {
            // arm64 Linux may have libraries of x86_64, or the other way round.
            if obstacle(loader) != Some(UnseenCause::OtherMachine) {
                assert_eq!((obstacle(loader), own_allocator(loader)), (None, None), "{loader:?}");
            }
        }
    }

    #[test]
    fn only_the_first_table_of_symbols_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let put = |bytes: &mut [u8], at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        // Header; names; two symbols, of which the second is `malloc`; an empty table.
        let (names, symbols, sections) = (64, 128, 256);
        let mut bytes = vec![0; sections + 4 * 64];
        put(&mut bytes, 0, b"\x7fELF\x02\x01");
        put(&mut bytes, 40, &(sections as u64).to_le_bytes());
        put(&mut bytes, 58, &[64, 0, 4, 0]);
        put(&mut bytes, names, b"\0malloc\0");
        put(&mut bytes, symbols + SYMBOL_BYTES, &[1, 0, 0, 0, STT_FUNC, 0, 1, 0]);
        let mut section = |index: usize, kind: u32, at: usize, size: usize| {
            let place = sections + index * 64;
            put(&mut bytes, place + 4, &kind.to_le_bytes());
            put(&mut bytes, place + 24, &(at as u64).to_le_bytes());
            put(&mut bytes, place + 32, &(size as u64).to_le_bytes());
            put(&mut bytes, place + 40, &1_u32.to_le_bytes());
            std::fs::write(&path, &bytes).unwrap();
            own_allocator(&path)
        };
        section(1, 3, names, 8);
        assert_eq!(section(2, SHT_SYMTAB, symbols, 2 * SYMBOL_BYTES), Some(ALLOCATORS[0].1));
        assert_eq!(section(3, SHT_SYMTAB, symbols, 2 * SYMBOL_BYTES), Some(ALLOCATORS[0].1));
        assert_eq!(section(2, SHT_SYMTAB, symbols, SYMBOL_BYTES), None);
    }

    #[test]
    fn a_file_of_another_machine_is_named_and_a_cut_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let mut header = own[..64].to_vec();
        std::fs::write(&path, &header).unwrap();
        assert_eq!(obstacle(&path), None);
        header[4] = 1;
        std::fs::write(&path, &header).unwrap();
        assert_eq!(obstacle(&path), Some(UnseenCause::OtherMachine));
    }
}
