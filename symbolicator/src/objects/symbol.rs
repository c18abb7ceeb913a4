//! One symbol of a function, and which of several names is the best.

use object::elf;

use super::file::ObjectFile;

/// One function. Its name stays in the file until a look-up needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbol {
    /// Stated virtual address relative to the lowest PT_LOAD.
    pub(super) start: u64,
    /// Size in bytes; 0 if the symbol table does not have it.
    pub(super) size: u64,
    /// Offset of the name in the file.
    pub(super) name_offset: u64,
    /// Index of the file that has the name.
    pub(super) file: u8,
    pub(super) kind: Kind,
    pub(super) binding: Binding,
}

/// What a symbol is, the most trusted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Function,
    /// Hand-written assembly often leaves its labels untyped.
    Untyped,
    /// A linkage stub: its name is the function that it jumps to, with `@plt`.
    Stub,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Binding {
    Global,
    Weak,
    Local,
}

impl Binding {
    pub(super) fn of(bind: elf::SymbolBind) -> Binding {
        match bind {
            elf::STB_LOCAL => Binding::Local,
            elf::STB_WEAK => Binding::Weak,
            _ => Binding::Global,
        }
    }
}

/// Order of several names of one address, best first: a typed function, a size, global before weak before
/// local (`malloc` before `__libc_malloc`), few leading underscores, the shorter name, an earlier file, the alphabet.
pub(super) type Rank<'f> = (Kind, bool, Binding, usize, usize, u8, &'f [u8]);

impl Symbol {
    /// `None` if the name is none of a function.
    pub(super) fn rank<'f>(&self, file: &'f ObjectFile) -> Option<Rank<'f>> {
        let name = bytes_at(file, self.name_offset);
        // `$x`, `$d`: mapping symbols of the ARM ABI. `.L`: labels local to an assembler file.
        if name.is_empty() || name.starts_with(b"$") || name.starts_with(b".L") {
            return None;
        }
        std::str::from_utf8(name).ok()?;
        let underscores = name.iter().take_while(|byte| **byte == b'_').count();
        let has_no_size = self.size == 0;
        let binding = self.binding;
        Some((
            self.kind,
            has_no_size,
            binding,
            underscores,
            name.len(),
            self.file,
            name,
        ))
    }
}

/// Longest name that is read; a longer one is in a damaged table.
const MAX_NAME_BYTES: usize = 1 << 20;

fn bytes_at(file: &ObjectFile, offset: u64) -> &[u8] {
    let Some(bytes) = usize::try_from(offset).ok().and_then(|offset| file.get(offset..)) else {
        return b"";
    };
    let bytes = &bytes[..bytes.len().min(MAX_NAME_BYTES)];
    memchr::memchr(0, bytes).map_or(bytes, |end| &bytes[..end])
}

/// The name at a file offset, without its version: `memcpy` of `memcpy@@GLIBC_2.14`.
pub(super) fn name_at(file: &ObjectFile, offset: u64) -> &str {
    // A file that is written to meanwhile may stop being UTF-8: then the symbol has no name.
    let name = std::str::from_utf8(bytes_at(file, offset)).unwrap_or("");
    name.split_once('@').map_or(name, |(name, _)| name)
}
