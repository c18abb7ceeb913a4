//! A mapped file, put together again from the memory of a process that maps it.
//!
//! The last resort, for files that are deleted, of a program that is not ours to follow /proc/PID/map_files for. Code,
//! unwind tables and build id lie in memory as they do in the file. Section headers, symbols and debug info do not: such
//! a module is unwound by its tables, and has no names.

use std::fs;

use recording::event::{Mapping, Pid};

use crate::sys;

/// Bytes of one file that are copied at most, and of all together: they stay in memory.
const MAX_FILE: u64 = 64 << 20;
const MAX_TOTAL: u64 = 256 << 20;

/// Makes the copies, within the limits.
#[derive(Debug, Default)]
pub(crate) struct MappedCopies {
    copied: u64,
}

/// A line of /proc/PID/maps.
#[derive(Debug, PartialEq, Eq)]
struct Line<'a> {
    start: u64,
    end: u64,
    offset: u64,
    /// Device and inode, as they stand there.
    file: (&'a str, &'a str),
}

impl MappedCopies {
    /// Copies all parts of the mapped file that the process maps. `None`: the process is gone, has something else at
    /// that place, or the limits are reached.
    pub(crate) fn copy(&mut self, pid: Pid, mapping: &Mapping<'_>) -> Option<Vec<u8>> {
        let maps = fs::read_to_string(format!("/proc/{}/maps", pid.0)).ok()?;
        let lines: Vec<Line<'_>> = maps.lines().filter_map(parse).collect();
        let mapped = lines.iter().find(|line| {
            (line.start..line.end).contains(&mapping.start)
                && line.offset.checked_add(mapping.start - line.start) == Some(mapping.file_offset)
        })?;
        let of_file: Vec<&Line<'_>> = lines.iter().filter(|line| line.file == mapped.file).collect();
        let len = of_file
            .iter()
            .filter_map(|line| line.offset.checked_add(line.end.checked_sub(line.start)?))
            .max()?;
        if len > MAX_FILE || self.copied.saturating_add(len) > MAX_TOTAL {
            return None;
        }
        self.copied += len;
        let mut bytes = vec![0; usize::try_from(len).ok()?];
        // Later mappings of the same bytes are the writable ones, changed by the loader: the first one counts.
        for line in of_file.iter().rev() {
            let at = usize::try_from(line.offset).ok()?;
            let end = at.checked_add(usize::try_from(line.end - line.start).ok()?)?;
            sys::memory::read(pid.0, line.start, bytes.get_mut(at..end)?);
        }
        forget_sections(&mut bytes)?;
        Some(bytes)
    }
}

/// `start-end perms offset major:minor inode path`, of a file. See proc_pid_maps(5).
fn parse(line: &str) -> Option<Line<'_>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let _permissions = words.next()?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let line = Line {
        start: hex(start)?,
        end: hex(end)?,
        offset: hex(words.next()?)?,
        file: (words.next()?, words.next()?),
    };
    (line.file.1 != "0" && line.start < line.end).then_some(line)
}

/// Section headers are not mapped: what the header says of them (e_shoff, e_shnum, e_shstrndx of `Elf64_Ehdr`) would
/// lead to other bytes.
fn forget_sections(bytes: &mut [u8]) -> Option<()> {
    bytes.get_mut(40..48)?.fill(0);
    bytes.get_mut(60..64)?.fill(0);
    Some(())
}

#[cfg(test)]
mod tests {
    use recording::event::Pid;
    use recording::sink::ReadAt;
    use unwind::build_id_of;

    use super::*;

    #[test]
    fn lines_of_files_are_read_and_others_are_not() {
        let line = "7f0a1c026000-7f0a1c17c000 r-xp 00026000 fe:01 1234  /usr/lib/libc.so.6 (deleted)";
        let expected = Line {
            start: 0x7f0a_1c02_6000,
            end: 0x7f0a_1c17_c000,
            offset: 0x26000,
            file: ("fe:01", "1234"),
        };
        assert_eq!(parse(line), Some(expected));
        assert_eq!(parse("7ffc000-7ffd000 rw-p 00000000 00:00 0 [stack]"), None);
        assert_eq!(parse("nonsense"), None);
    }

    struct Copy(Vec<u8>);

    impl ReadAt for Copy {
        fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
            let end = usize::try_from(offset).ok().and_then(|at| self.0.get(at..));
            let source = end
                .and_then(|rest| rest.get(..buffer.len()))
                .ok_or(std::io::ErrorKind::UnexpectedEof)?;
            buffer.copy_from_slice(source);
            Ok(())
        }

        fn len(&self) -> u64 {
            self.0.len() as u64
        }
    }

    #[test]
    fn a_copy_of_our_own_program_has_its_build_id_and_its_code() {
        let exe = fs::read("/proc/self/exe").unwrap();
        let path = fs::read_link("/proc/self/exe").unwrap();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps
            .lines()
            .find(|line| line.ends_with(&*path.to_string_lossy()) && line.contains("r-xp"))
            .unwrap();
        let Line { start, end, offset, .. } = parse(line).unwrap();
        let mapping = Mapping {
            start,
            len: end - start,
            file_offset: offset,
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
        let code = offset as usize..(offset + 4096) as usize;
        assert_eq!(copy[code.clone()], exe[code]);
        assert_eq!(build_id_of(&Copy(copy)), build_id_of(&Copy(exe)));
    }
}
