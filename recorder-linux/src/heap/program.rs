//! Facts of a program's file that decide whether a library can be loaded into it.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use object::elf::{DF_1_PIE, DT_FLAGS_1, DT_NEEDED, ET_DYN, PF_X, PT_INTERP, SHT_DYNSYM, SHT_STRTAB, SHT_SYMTAB};
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _, SectionHeader as _};
use object::{LittleEndian, Object as _, ObjectSymbol as _, ReadCache};
use recording::heap::UnseenCause;
use recording::regular_file;

use super::patch;

/// `EM_X86_64` or `EM_AARCH64` of elf.h: what this program and its library are for.
pub(super) const OWN_MACHINE: u32 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };

/// Larger tables and segments are not read: a file can be longer than memory.
const MAX_PART: u64 = 512 << 20;
/// Libraries of gcc and clang that abort where another library comes before them, have the heap to themselves, or look
/// for addresses of blocks in all memory: those in this library would hide leaks.
const SANITIZERS: [&[u8]; 5] = [
    b"libasan.so",
    b"libtsan.so",
    b"libhwasan.so",
    b"liblsan.so",
    b"libclang_rt.",
];

/// A file of 64 bits and little-endian, read in parts.
pub(super) type Elf<'data> = ElfFile64<'data, LittleEndian, &'data ReadCache<File>>;

/// Why no library samples the blocks of a program. `None`: the file shows no reason.
pub(super) fn obstacle(path: &Path) -> Option<UnseenCause> {
    // Waits for nothing: a pipe may be there by now.
    let mut file = regular_file::open(path).ok()?;
    // S_ISUID, S_ISGID; and capabilities (capabilities(7)).
    let has_rights = file.metadata().ok()?.mode() & 0o6000 != 0
        || rustix::fs::fgetxattr(&file, c"security.capability", &mut [0_u8; 64]).is_ok();
    let mut header = [0; 20];
    file.read_exact(&mut header).ok()?;
    if !header.starts_with(b"\x7fELF") {
        return None;
    }
    // 64 bits, little-endian, and the machine.
    if header.get(4..6) != Some(&[2, 1]) || header.get(18..) != Some(&(OWN_MACHINE as u16).to_le_bytes()) {
        return Some(UnseenCause::OtherMachine);
    }
    let cache = ReadCache::new(file);
    let elf = parse(&cache)?;
    if has_rights {
        return Some(UnseenCause::SetUserId);
    }
    if !has_interpreter(&elf) && !is_library(&elf) {
        return Some(UnseenCause::Static);
    }
    needs_sanitizer(&elf).then_some(UnseenCause::Sanitizer)
}

/// The allocator that is linked into a program, as far as its symbols say. `None` for a loader that was given the name
/// of the program to run: musl's is libc as well.
pub(super) fn own_allocator(path: &Path) -> Option<&'static str> {
    let cache = ReadCache::new(regular_file::open(path).ok()?);
    let elf = parse(&cache)?;
    if !has_interpreter(&elf) && is_library(&elf) {
        return None;
    }
    patch::linked_allocators(&cache).ok()?.first().copied()
}

/// The file, if all of its parts that may be read have room in memory.
pub(super) fn parse(cache: &ReadCache<File>) -> Option<Elf<'_>> {
    let elf = Elf::parse(cache).ok()?;
    let header_bytes = |header: &object::elf::SectionHeader64<LittleEndian>| {
        let is_read = [SHT_SYMTAB, SHT_DYNSYM, SHT_STRTAB].contains(&header.sh_type(LittleEndian));
        is_read.then(|| header.sh_size(LittleEndian))
    };
    let tables = elf.elf_section_table().iter().filter_map(header_bytes);
    let code = elf
        .elf_program_headers()
        .iter()
        .filter(|segment| segment.p_flags(LittleEndian).contains(PF_X));
    let mut parts = tables.chain(code.map(|segment| segment.p_filesz(LittleEndian)));
    parts.all(|bytes| bytes <= MAX_PART).then_some(elf)
}

/// The name of a program's file.
pub(super) fn name_of(program: &Path) -> String {
    let name = program.file_name().unwrap_or(program.as_os_str());
    name.to_string_lossy().into_owned()
}

fn has_interpreter(elf: &Elf<'_>) -> bool {
    let mut segments = elf.elf_program_headers().iter();
    segments.any(|segment| segment.p_type(LittleEndian) == PT_INTERP)
}

/// Whether the file is a library: linkers mark programs that can be anywhere in memory, also static ones. A library
/// that is executed without an interpreter is a loader.
fn is_library(elf: &Elf<'_>) -> bool {
    let is_marked = || {
        let table = elf.elf_dynamic_table().ok()?;
        let flags = table.iter().find(|entry| entry.tag == DT_FLAGS_1)?;
        Some(flags.val & DF_1_PIE.0 != 0)
    };
    elf.elf_header().e_type(LittleEndian) == ET_DYN && is_marked() != Some(true)
}

fn needs_sanitizer(elf: &Elf<'_>) -> bool {
    let Ok(table) = elf.elf_dynamic_table() else {
        return false;
    };
    let needed = table.iter().filter(|entry| entry.tag == DT_NEEDED);
    let mut names = needed.filter_map(|entry| table.string(entry).ok());
    names.any(|name| SANITIZERS.iter().any(|sanitizer| name.starts_with(sanitizer)))
}

/// Whether a file calls an `operator new` of another file.
pub(super) fn imports_new(path: &Path) -> bool {
    let Ok(file) = regular_file::open(path) else {
        return false;
    };
    let cache = ReadCache::new(file);
    let Some(elf) = parse(&cache) else { return false };
    // `operator new` and `new[]`, with any arguments.
    let is_new = |name: &str| name.starts_with("_Znw") || name.starts_with("_Zna");
    let mut imported = elf.dynamic_symbols().filter(|symbol| symbol.is_undefined());
    imported.any(|symbol| symbol.name().is_ok_and(is_new))
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
    file.take(MAX_PART).read_to_end(&mut bytes).ok()?;
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
