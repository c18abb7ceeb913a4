//! Readers of program files: ELF, Mach-O and jitdump files, their sections and their call frame information.
//!
//! Bytes in, values out. A file may hold anything: each size is checked before memory is allocated for it.

pub(crate) mod cfi;
pub(crate) mod cfi_entries;
pub(crate) mod compressed_section;
pub mod compression;
pub(crate) mod elf;
pub(crate) mod file_slice;
pub(crate) mod go;
pub(crate) mod huge_pages;
pub mod jitdump;
pub(crate) mod machine;
pub(crate) mod macho;
pub(crate) mod macho_functions;
pub(crate) mod object;
pub(crate) mod unwind_info;
