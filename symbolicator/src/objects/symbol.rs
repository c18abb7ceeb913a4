//! One symbol of a function, and which of several names is the best.

use std::sync::Arc;

use object::elf;

use crate::files::object_file::ObjectFile;

/// The texts that have the names of symbols.
#[derive(Default)]
pub(super) struct SymbolNames {
    files: Vec<Arc<ObjectFile>>,
    made: Vec<u8>,
}

impl SymbolNames {
    /// The index of the names that [`SymbolNames::add`] has put together.
    pub(super) const MADE: u8 = u8::MAX;

    /// The first files; more have no names.
    pub(super) fn new(files: &[Arc<ObjectFile>]) -> SymbolNames {
        SymbolNames {
            files: files.iter().take(usize::from(SymbolNames::MADE)).cloned().collect(),
            made: Vec::new(),
        }
    }

    /// Keeps a name that no file has in one piece. Returns its offset.
    pub(super) fn add(&mut self, name: &[u8]) -> u64 {
        let offset = self.made.len() as u64;
        self.made.extend_from_slice(name);
        self.made.push(0);
        offset
    }

    /// The text with the name of a symbol.
    pub(super) fn text(&self, symbol: &Symbol) -> &[u8] {
        match symbol.file {
            SymbolNames::MADE => &self.made,
            file => self.files.get(usize::from(file)).map_or(&[], |file| file),
        }
    }

    /// Heap bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.made.capacity()
    }
}

/// One function. Its name stays in the file until a look-up needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbol {
    /// Relative address.
    pub(super) start: u64,
    /// Size in bytes; 0 if the symbol table does not have it.
    pub(super) size: u64,
    /// Offset of the name in its text.
    pub(super) name_offset: u64,
    /// Index of the text that has the name, in [`SymbolNames`].
    pub(super) file: u8,
    pub(super) kind: SymbolClass,
    pub(super) binding: SymbolBinding,
}

/// What a symbol is, the most trusted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SymbolClass {
    Function,
    /// Hand-written assembly often leaves its labels untyped.
    Untyped,
    /// A linkage stub: its name is the function that it jumps to, with `@plt`.
    Stub,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SymbolBinding {
    Global,
    Weak,
    Local,
}

impl SymbolBinding {
    pub(super) fn from_elf(bind: elf::SymbolBind) -> SymbolBinding {
        match bind {
            elf::STB_LOCAL => SymbolBinding::Local,
            elf::STB_WEAK => SymbolBinding::Weak,
            _ => SymbolBinding::Global,
        }
    }
}

/// Order of several names of one address, best first: a typed function, a size, global before weak before
/// local (`malloc` before `__libc_malloc`), few leading underscores, the shorter name, an earlier file, the alphabet.
pub(super) type NameRank<'f> = (SymbolClass, bool, SymbolBinding, usize, usize, u8, &'f [u8]);

impl Symbol {
    /// `None` if the name is none of a function.
    pub(super) fn rank<'f>(&self, text: &'f [u8]) -> Option<NameRank<'f>> {
        let name = bytes_at(text, self.name_offset);
        if name.is_empty() || is_label(name) {
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

/// True for the mapping symbols of the ARM ABI (`$x`, `$d.3`; `$s4main` is a function of Swift), labels local to an
/// assembler file, and those that LLVM puts at the start of a section (`ltmp0`).
fn is_label(name: &[u8]) -> bool {
    let is_mapping = matches!(
        name,
        [b'$', b'a' | b'd' | b't' | b'x'] | [b'$', b'a' | b'd' | b't' | b'x', b'.', ..]
    );
    // dyld's cache has no names of functions that are static.
    let is_removed = name == b"<redacted>";
    let number = name.strip_prefix(b"ltmp");
    let is_section = number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit));
    is_mapping || is_section || is_removed || name.starts_with(b".L")
}

/// Longest name that is read; a longer one is in a damaged table. Names of C++ templates take up to 20 KB.
pub(super) const MAX_NAME_BYTES: usize = 64 << 10;

fn bytes_at(text: &[u8], offset: u64) -> &[u8] {
    let Some(bytes) = usize::try_from(offset).ok().and_then(|offset| text.get(offset..)) else {
        return b"";
    };
    let bytes = &bytes[..bytes.len().min(MAX_NAME_BYTES)];
    memchr::memchr(0, bytes).map_or(bytes, |end| &bytes[..end])
}

/// The name at an offset, without its version: `memcpy` of `memcpy@@GLIBC_2.14`.
pub(super) fn name_at(text: &[u8], offset: u64) -> &str {
    // A file that is written to meanwhile may stop being UTF-8: then the symbol has no name.
    let name = std::str::from_utf8(bytes_at(text, offset)).unwrap_or("");
    name.split_once('@').map_or(name, |(name, _)| name)
}

/// The section, of sections by address, that holds a relative address. A section is (start, end).
pub(super) fn section_at(code: &[(u64, u64)], address: u64) -> Option<(u64, u64)> {
    let after = code.partition_point(|section| section.0 <= address);
    let section = *code.get(after.checked_sub(1)?)?;
    (address < section.1).then_some(section)
}

#[cfg(test)]
mod tests {
    use super::is_label;

    #[test]
    fn labels_of_assemblers_are_no_functions_and_names_of_swift_are() {
        for label in ["$x", "$d.12", ".Lloop", "ltmp0", "ltmp12", "<redacted>"] {
            assert!(is_label(label.as_bytes()), "{label}");
        }
        for name in ["$s4main3fooyyF", "$xylophone", "ltmp", "ltmpl", "d", "-[Shape area]"] {
            assert!(!is_label(name.as_bytes()), "{name}");
        }
    }
}
