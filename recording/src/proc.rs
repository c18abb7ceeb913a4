//! Texts of Linux's /proc that several crates read, as pure functions: `/proc/PID/maps` and `/proc/kallsyms`.

use std::io::{self, Read, Seek, SeekFrom};

use crate::event::Mapping;

/// One mapping of a process: a line of `/proc/PID/maps` (proc_pid_maps(5)), in the terms of PERF_RECORD_MMAP2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapsLine {
    /// First address.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// Offset of the first byte in the file.
    pub file_offset: u64,
    /// True if code may run there.
    pub is_executable: bool,
    /// Device (major, minor) and inode; `None` for memory without a file.
    pub inode: Option<(u32, u32, u64)>,
    /// Path, name in brackets, or `//anon`.
    pub path: Vec<u8>,
}

impl MapsLine {
    /// The address behind the last one.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.len)
    }

    /// The mapping as an event has it.
    pub fn as_mapping(&self) -> Mapping<'_> {
        Mapping {
            start: self.start,
            len: self.len,
            file_offset: self.file_offset,
            path: &self.path,
            build_id: None,
            inode: self.inode,
        }
    }
}

/// The mappings in the text of a `/proc/PID/maps`, in the order of their addresses. Lines of another form are left out.
pub fn mappings(maps: &[u8]) -> impl Iterator<Item = MapsLine> {
    maps.split(|byte| *byte == b'\n').filter_map(mapping)
}

/// `5581d000-5581e000 r-xp 00001000 08:01 1234    /usr/bin/x`.
fn mapping(line: &[u8]) -> Option<MapsLine> {
    let mut rest = line;
    let mut field = || {
        rest = rest.trim_ascii_start();
        let len = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        let (field, tail) = rest.split_at(len);
        rest = tail;
        std::str::from_utf8(field).ok()
    };
    let (range, protection, offset, device, inode) = (field()?, field()?, field()?, field()?, field()?);
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = range.split_once('-')?;
    let (start, end) = (hex(start)?, hex(end)?);
    let (major, minor) = device.split_once(':')?;
    let device = (u32::try_from(hex(major)?).ok()?, u32::try_from(hex(minor)?).ok()?);
    let inode: u64 = inode.parse().ok()?;
    Some(MapsLine {
        start,
        len: end.checked_sub(start)?,
        file_offset: hex(offset)?,
        is_executable: protection.as_bytes().get(2) == Some(&b'x'),
        inode: (inode != 0).then_some((device.0, device.1, inode)),
        path: match rest.trim_ascii_start() {
            // The name that perf gives memory without a file.
            b"" => b"//anon".to_vec(),
            path => unescaped(path),
        },
    })
}

/// The kernel writes a newline in a path as `\012`, and escapes nothing else.
fn unescaped(mut path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    while let Some((byte, tail)) = path.split_first() {
        let newline = path.strip_prefix(br"\012");
        out.push(if newline.is_some() { b'\n' } else { *byte });
        path = newline.unwrap_or(tail);
    }
    out
}

/// Largest vDSO in bytes; usual ones have 2 to 5 pages.
const MAX_VDSO_BYTES: u64 = 1 << 20;

/// The vDSO of a process, a small ELF file that is on no disk: from the text of its `/proc/PID/maps` and its
/// `/proc/PID/mem`. The kernel maps the same vDSO into all processes.
///
/// # Errors
///
/// The process has no vDSO, or its memory can't be read.
pub fn vdso(maps: &[u8], mut memory: impl Read + Seek) -> io::Result<Vec<u8>> {
    let mapping = mappings(maps).find(|mapping| mapping.path == b"[vdso]");
    let mapping = mapping.ok_or_else(|| io::Error::other("the process has none; was it turned off (vdso=0)?"))?;
    memory.seek(SeekFrom::Start(mapping.start))?;
    let mut bytes = Vec::new();
    memory.take(mapping.len.min(MAX_VDSO_BYTES)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A symbol of the running kernel: a line of `/proc/kallsyms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelSymbol<'a> {
    /// 0 if the kernel hides its addresses from this user.
    pub address: u64,
    /// True for functions: kinds `t`, `T`, `w` and `W` of nm(1).
    pub is_function: bool,
    /// True for functions that other files of the kernel see: kind `T`.
    pub is_global: bool,
    /// Name. Several symbols may have the same.
    pub name: &'a str,
    /// The module in brackets; `None` for the kernel itself.
    pub module: Option<&'a str>,
}

impl<'a> KernelSymbol<'a> {
    /// Reads a line `address kind name [module]`. `None` if it has another form.
    pub fn parse(line: &'a str) -> Option<KernelSymbol<'a>> {
        let (address, rest) = line.split_once(' ')?;
        let (kind, rest) = rest.split_once(' ')?;
        let mut rest = rest.split_ascii_whitespace();
        let kind = *kind.as_bytes().first()?;
        Some(KernelSymbol {
            address: u64::from_str_radix(address, 16).ok()?,
            is_function: matches!(kind, b't' | b'T' | b'w' | b'W'),
            is_global: kind == b'T',
            name: rest.next()?,
            module: rest.next(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_as_perf_would_report_them() {
        let line = |text: &str| mapping(text.as_bytes());
        let file = line("00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/with space").unwrap();
        assert_eq!((file.start, file.len, file.file_offset), (0x40_0000, 0x5_2000, 0x1000));
        assert_eq!((file.end(), file.is_executable), (0x45_2000, true));
        assert_eq!(file.inode, Some((8, 2, 173_521)));
        assert_eq!(file.path, b"/usr/bin/with space");
        let anonymous = line("7f0000000000-7f0000001000 rwxp 00000000 00:00 0 ").unwrap();
        assert_eq!((anonymous.inode, &anonymous.path[..]), (None, &b"//anon"[..]));
        assert_eq!(
            line(r"1000-2000 r-xp 00000000 00:01 5 /tmp/a\012b (deleted)")
                .unwrap()
                .path,
            b"/tmp/a\nb (deleted)"
        );
        assert_eq!(line("1000-2000 r-xp 00000000 00:00 0").unwrap().path, b"//anon");
        assert_eq!(
            line("1000-2000 r-xp 00000000 00:00 0    [vdso]").unwrap().path,
            b"[vdso]"
        );
        assert_eq!(
            line(r"1000-2000 r-xp 0 fe:01 7   /a b\012c (deleted)").unwrap().path,
            b"/a b\nc (deleted)"
        );
        let data = line("7f27c5c00000-7f27c5c28000 r--p 00000000 fe:01 263041 /usr/lib/libc.so.6").unwrap();
        assert_eq!((data.is_executable, data.inode), (false, Some((0xfe, 1, 263_041))));
        assert_eq!(line("2000-1000 r-xp 00000000 00:01 5 /x"), None);
        assert_eq!((line(""), line("nonsense")), (None, None));
    }

    #[test]
    fn the_vdso_is_read_where_it_is_mapped() {
        let maps = b"1-2 rw-p 0 00:00 0 [stack]\n3-7 r-xp 0 00:00 0    [vdso]\n";
        let memory = io::Cursor::new(b"0123456789");
        assert_eq!(vdso(maps, memory.clone()).unwrap(), b"3456");
        assert!(vdso(b"", memory).is_err());
    }

    #[test]
    fn symbols_of_the_kernel_have_a_kind_and_may_have_a_module() {
        let symbol = |line| KernelSymbol::parse(line).unwrap();
        let hook = symbol("ffffffffc0201000 t nf_hook\t[nf_tables]");
        assert_eq!((hook.name, hook.module), ("nf_hook", Some("[nf_tables]")));
        assert_eq!((hook.address, hook.is_global), (0xffff_ffff_c020_1000, false));
        assert!(hook.is_function && symbol("0 T _text").is_global && symbol("0 W weak").is_function);
        assert!(!symbol("ffffffff81000200 D data").is_function);
        for other in ["", "xyz T name", "10 T"] {
            assert_eq!(KernelSymbol::parse(other), None, "{other}");
        }
    }
}
