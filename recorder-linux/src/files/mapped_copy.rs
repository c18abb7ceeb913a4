//! Copies a mapped file from the memory of a process that maps it.
//!
//! The last resort for a deleted file, where /proc/PID/map_files is not permitted. The copy has the file's code, unwind
//! tables and build id, and the symbols that other modules may call. It lacks the section headers, other symbols and
//! debug info.

use std::fs;

use recording::event::{Mapping, Pid};
use recording::proc::{self, MapsLine};

use crate::sys;

/// Most bytes to copy of one file, and of all files together: copies stay in memory.
const MAX_FILE: u64 = 64 << 20;
const MAX_TOTAL: u64 = 256 << 20;

/// Makes the copies, within the limits.
#[derive(Debug, Default)]
pub(crate) struct MappedCopies {
    copied: u64,
}

impl MappedCopies {
    /// Copies all parts of the file that the process maps. `None` if the process is gone, maps something else at that
    /// place, or the limits are reached.
    pub(crate) fn copy(&mut self, pid: Pid, mapping: &Mapping<'_>) -> Option<Vec<u8>> {
        let maps = fs::read(format!("/proc/{}/maps", pid.0)).ok()?;
        let of_files: Vec<MapsLine> = proc::mappings(&maps).filter(|line| line.inode.is_some()).collect();
        let mapped = of_files.iter().find(|line| {
            (line.start..line.end()).contains(&mapping.start)
                && line.file_offset.checked_add(mapping.start - line.start) == Some(mapping.file_offset)
        })?;
        // Only files of code are copied: shared memory may be large.
        let first = of_files
            .iter()
            .find(|line| line.inode == mapped.inode && line.file_offset == 0)?;
        let mut magic = [0; 4];
        sys::memory::read(pid.0, first.start, &mut magic);
        if magic != *b"\x7fELF" {
            return None;
        }
        let of_file: Vec<&MapsLine> = of_files.iter().filter(|line| line.inode == mapped.inode).collect();
        let ends = of_file.iter().filter_map(|line| line.file_offset.checked_add(line.len));
        let len = ends.max()?;
        if len > MAX_FILE || self.copied.saturating_add(len) > MAX_TOTAL {
            return None;
        }
        self.copied += len;
        let mut bytes = vec![0; usize::try_from(len).ok()?];
        // Later mappings of the same bytes are writable, and the loader changed them. So the first mapping counts.
        for line in of_file.iter().rev() {
            let at = usize::try_from(line.file_offset).ok()?;
            let end = at.checked_add(usize::try_from(line.len).ok()?)?;
            sys::memory::read(pid.0, line.start, bytes.get_mut(at..end)?);
        }
        forget_sections(&mut bytes)?;
        undo_loader(&mut bytes, first.start);
        Some(bytes)
    }
}

/// Undoes what the loader of glibc changes in a library's dynamic table: it adds the load address to the entries that
/// lead to symbols and their names. `start`: address of the file's first byte.
fn undo_loader(bytes: &mut [u8], start: u64) -> Option<()> {
    // Offsets and values of `Elf64_Ehdr`, `Elf64_Phdr` and `Elf64_Dyn` in <elf.h>.
    const PT_LOAD: u64 = 1;
    const PT_DYNAMIC: u64 = 2;
    const DT_HASH_STRTAB_SYMTAB: [u64; 3] = [4, 5, 6];
    const DT_GNU_HASH: u64 = 0x6fff_fef5;
    const MAX_HEADERS: u64 = 4096;
    let number = |bytes: &[u8], at: u64, len: usize| {
        let at = usize::try_from(at).ok()?;
        let digits = bytes.get(at..at.checked_add(len)?)?.iter().rev();
        Some(digits.fold(0, |number, byte| number << 8 | u64::from(*byte)))
    };
    let (headers, count) = (number(bytes, 32, 8)?, number(bytes, 56, 2)?);
    let (mut base, mut dynamic) = (None, None);
    for header in 0..count.min(MAX_HEADERS) {
        let at = headers.checked_add(header * 56)?;
        let (offset, svma, size) = (
            number(bytes, at + 8, 8)?,
            number(bytes, at + 16, 8)?,
            number(bytes, at + 32, 8)?,
        );
        match number(bytes, at, 4)? {
            PT_LOAD if offset == 0 => base = Some(start.checked_sub(svma)?),
            PT_DYNAMIC => dynamic = Some((offset, size)),
            _ => {}
        }
    }
    let (base, (offset, size)) = (base?, dynamic?);
    for entry in (offset..offset.checked_add(size)?).step_by(16) {
        let (tag, value) = (number(bytes, entry, 8)?, number(bytes, entry.checked_add(8)?, 8)?);
        if tag == 0 {
            break;
        }
        if (DT_HASH_STRTAB_SYMTAB.contains(&tag) || tag == DT_GNU_HASH) && value >= base {
            let at = usize::try_from(entry + 8).ok()?;
            bytes
                .get_mut(at..at + 8)?
                .copy_from_slice(&(value - base).to_le_bytes());
        }
    }
    Some(())
}

/// Clears the fields of the header about section headers (e_shoff, e_shnum, e_shstrndx of `Elf64_Ehdr`). Section
/// headers are not mapped, so the fields would lead to other bytes.
fn forget_sections(bytes: &mut [u8]) -> Option<()> {
    bytes.get_mut(40..48)?.fill(0);
    bytes.get_mut(60..64)?.fill(0);
    Some(())
}

#[cfg(test)]
mod tests {
    use recording::event::Pid;
    use recording::sink::InMemory;
    use unwind::build_id_of;

    use super::*;

    #[test]
    fn a_copy_of_our_own_program_has_its_build_id_and_its_code() {
        let exe = fs::read("/proc/self/exe").unwrap();
        let path = fs::read_link("/proc/self/exe").unwrap();
        let maps = fs::read("/proc/self/maps").unwrap();
        let line = proc::mappings(&maps)
            .find(|line| line.is_executable && line.path == path.as_os_str().as_encoded_bytes())
            .unwrap();
        let mapping = Mapping {
            start: line.start,
            len: line.len,
            file_offset: line.file_offset,
            path: b"/gone",
            build_id: None,
            inode: None,
        };
        if exe.len() as u64 > MAX_FILE {
            println!("skipped: this program has more bytes than are copied");
            return;
        }
        let copy = MappedCopies::default()
            .copy(Pid(std::process::id() as i32), &mapping)
            .unwrap();
        let code = line.file_offset as usize..(line.file_offset + 4096) as usize;
        assert_eq!(copy[code.clone()], exe[code]);
        assert_eq!(build_id_of(&InMemory(copy)), build_id_of(&InMemory(exe)));
    }
}
