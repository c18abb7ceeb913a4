//! Modules (files mapped as code) and where processes have them mapped.

use std::fmt;
use std::path::PathBuf;

use crate::address::{Avma, RelativeAddress};
use crate::space::{AddressSpace, MappedRange};

/// An ELF build id (or a Mach-O UUID): what ties an address to the one file it belongs to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BuildId(pub Vec<u8>);

impl BuildId {
    /// The id of a Mach-O file: its UUID with the bytes of the first three fields reversed. [`BuildId::to_breakpad`]
    /// then begins with the digits of the UUID, as in the profiles of all profilers.
    pub fn of_uuid(mut uuid: [u8; 16]) -> BuildId {
        reverse_fields(&mut uuid);
        BuildId(uuid.to_vec())
    }

    /// Lower-case hex digits: the form of `file`, `readelf -n` and debuginfod; the "code id" of a profile.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The UUID of a Mach-O file, without dashes: the inverse of [`BuildId::of_uuid`].
    pub fn to_uuid(&self) -> String {
        let mut id = self.to_breakpad();
        id.truncate(32);
        id
    }

    /// The 33-digit "breakpad id" that the Firefox Profiler and symbol servers call a debug id: the first 16
    /// bytes as a little-endian GUID in upper-case hex, then the age `0`. Shorter ids are zero-padded.
    pub fn to_breakpad(&self) -> String {
        self.to_debug_id(0)
    }

    /// True if a file with the id `of_file` is the one with this recorded id: profiles without a code id keep what a
    /// breakpad id has of it.
    pub fn identifies(&self, of_file: &BuildId) -> bool {
        self == of_file || self.is_cut() && self.to_breakpad() == of_file.to_breakpad()
    }

    /// True if the id may be what a breakpad id keeps of another one: the first 16 bytes.
    pub fn is_cut(&self) -> bool {
        self.0.len() == 16
    }

    fn to_debug_id(&self, age: u32) -> String {
        let mut guid = [0u8; 16];
        let len = self.0.len().min(16);
        guid[..len].copy_from_slice(&self.0[..len]);
        reverse_fields(&mut guid);
        let mut out: String = guid.iter().map(|byte| format!("{byte:02X}")).collect();
        out.push_str(&format!("{age:x}"));
        out
    }
}

/// Between the bytes of a GUID as little-endian and as big-endian numbers: one of 32 bits, two of 16.
fn reverse_fields(guid: &mut [u8; 16]) {
    guid[0..4].reverse();
    guid[4..6].reverse();
    guid[6..8].reverse();
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuildId({})", self.to_hex())
    }
}

/// A path as the kernel gave it.
#[cfg(unix)]
pub fn path_of(path: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::OsStr::from_bytes(path).into()
}

/// A path of a file, in which only text is kept.
#[cfg(not(unix))]
pub fn path_of(path: &[u8]) -> PathBuf {
    String::from_utf8_lossy(path).into_owned().into()
}

/// Device and inode: differs for every other file, also for one with the same build id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    /// `st_dev` (stat(2)).
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

/// What kind of code a module holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ModuleKind {
    /// The program itself or a shared library: a file.
    File,
    /// A file of Windows. Its build id is the GUID of its symbols.
    Windows {
        /// Which of the symbols with this GUID: 1 or more. Other systems have no age, which is 0 in a debug id.
        age: u32,
    },
    /// The virtual shared object that the kernel maps into every process.
    Vdso,
    /// The kernel and its modules.
    Kernel,
    /// Code in no file, described by a jitdump file or a perf map. Relative addresses are those of that file's reader.
    Jit,
}

/// One module, the same object for every process that maps it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Module {
    /// Kind of code.
    pub kind: ModuleKind,
    /// Path as the target saw it, for example `/usr/lib/libc.so.6`; `[vdso]`, `[kernel.kallsyms]`.
    pub path: PathBuf,
    /// A path at which the recorder could read the file, if that differs from `path` (another mount namespace, a
    /// deleted file).
    pub readable_path: Option<PathBuf>,
    /// Build id, from the kernel's mapping record where it gave one, else from the file.
    pub build_id: Option<BuildId>,
    /// `e_machine` of the file in words: `x86_64`, `aarch64`; `None` if the file could not be read.
    pub arch: Option<&'static str>,
}

impl Module {
    /// The file name without its folders.
    pub fn name(&self) -> String {
        match self.path.file_name() {
            Some(name) => name.to_string_lossy().into_owned(),
            None => self.path.to_string_lossy().into_owned(),
        }
    }

    /// The breakpad id: of the build id, or, where there is none, 33 zeros.
    pub fn breakpad_id(&self) -> String {
        let age = match self.kind {
            ModuleKind::Windows { age } => age,
            ModuleKind::File | ModuleKind::Vdso | ModuleKind::Kernel | ModuleKind::Jit => 0,
        };
        self.build_id
            .as_ref()
            .map_or_else(|| "0".repeat(33), |id| id.to_debug_id(age))
    }
}

/// A module at its place in one process.
#[derive(Clone, Debug)]
pub struct Image {
    /// First mapped executable address.
    pub start: Avma,
    /// One past the last.
    pub end: Avma,
    /// Where relative address 0 of the module is (may lie below `start`).
    pub base: Avma,
    /// The module.
    pub module: std::sync::Arc<Module>,
    /// What its file is made for.
    pub role: FileRole,
}

/// What a file of code is made for. The program of a process is the first file that is mapped, unless that is a loader,
/// which maps the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileRole {
    /// Not known.
    #[default]
    Unknown,
    /// To be executed: it is at a fixed address, or says that it is a program.
    Program,
    /// To be loaded, or to load others: it needs no interpreter, and does not say that it is a program.
    Library,
}

impl Image {
    /// The address relative to the module's image base.
    pub fn relative(&self, address: Avma) -> RelativeAddress {
        RelativeAddress(address.0.wrapping_sub(self.base.0))
    }
}

impl MappedRange for Image {
    fn range(&self) -> (Avma, Avma) {
        (self.start, self.end)
    }

    fn with_range(&self, start: Avma, end: Avma) -> Image {
        Image {
            start,
            end,
            ..self.clone()
        }
    }
}

/// The images of one process. Copied on fork, which shares them, and cleared on exec.
pub type Images = AddressSpace<Image>;
