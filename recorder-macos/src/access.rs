//! What keeps sprof from a program, by the program's file, and what helps.
//!
//! A script leads to its interpreter, by its `#!` line. The user is told before the program runs. macOS decides by
//! itself: if it gives access, the program is recorded.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::codesign::{Cpu, Signature, read};
use crate::files::on_disk::OnDisk;

/// A `#!` line may name a script, which also has one. The kernel follows one, a shell more.
const MOST_STEPS: usize = 5;
/// Bytes of a `#!` line (IMG_SHSIZE in bsd/sys/imgact.h).
const LINE: u64 = 512;

/// The processor of this Mac's own programs.
pub const OWN_CPU: Cpu = if cfg!(target_arch = "x86_64") {
    Cpu::X86_64
} else {
    Cpu::Arm64
};

/// How sprof gets access to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessMethod {
    /// It asks the kernel for the task.
    Task,
    /// A library that it inserts into the program sends the task.
    Library,
}

/// Why macOS gives no access to the processes of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Barrier {
    /// It is a part of macOS.
    Platform,
    /// It is signed for the hardened runtime, without `get-task-allow`.
    Hardened,
    /// dyld inserts no library of others into it: it is signed for the hardened runtime, or restricted.
    Restricted,
    /// It runs with the rights of its file's owner or group.
    SetUserId,
    /// It has no code for this Mac's processor: Rosetta translates it.
    Translated,
}

/// A file that keeps sprof from what it executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BarredProgram {
    /// The file.
    pub program: PathBuf,
    /// Why.
    pub bar: Barrier,
}

impl Barrier {
    /// The remedy.
    pub fn remedy(self) -> &'static str {
        match self {
            Barrier::Platform => "a copy that you or Homebrew built can be recorded",
            Barrier::Hardened => {
                "sign it with the entitlement com.apple.security.get-task-allow, as debug builds of Xcode are; of an app of somebody \
                 else, a copy that you sign: `codesign --force --sign - COPY`"
            }
            Barrier::Restricted => {
                "sign it with the entitlements com.apple.security.cs.allow-dyld-environment-variables and \
                 com.apple.security.cs.disable-library-validation"
            }
            Barrier::SetUserId => "run sprof with sudo, or record a copy without that bit",
            Barrier::Translated => "build it for this Mac's processor",
        }
    }
}

impl fmt::Display for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Barrier::Platform => "it is a part of macOS",
            Barrier::Hardened => "it is signed for the hardened runtime, which keeps its memory from others",
            Barrier::Restricted => "its signature permits dyld no library of others",
            Barrier::SetUserId => "it runs with the rights of another user or group",
            Barrier::Translated => "it is for another processor, and Rosetta translates it",
        })
    }
}

impl fmt::Display for BarredProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.program.display(), self.bar, self.bar.remedy())
    }
}

/// What keeps sprof from a program: its file, and a script's interpreters. Empty if nothing is known to.
pub fn barred_programs(program: &Path, search: &OsStr, own: Cpu, way: AccessMethod) -> Vec<BarredProgram> {
    let mut found = Vec::new();
    let mut next = Some(program.to_owned());
    for _ in 0..MOST_STEPS {
        let Some(program) = next.take() else { break };
        let Some(file) = open(&program) else { break };
        match interpreters(&file, search) {
            Some((first, second)) => {
                // `env` executes another program, which comes next.
                if second.is_some() {
                    found.extend(barrier_of(&first, own, way).map(|bar| BarredProgram {
                        program: first.clone(),
                        bar,
                    }));
                }
                next = Some(second.unwrap_or(first));
            }
            None => found.extend(barrier(&program, file, own, way).map(|bar| BarredProgram { program, bar })),
        }
    }
    found
}

/// What keeps sprof from the processes of a program that is not a script; `None` if nothing is known to.
///
/// ```
/// use std::path::Path;
///
/// use recorder_macos::access::{AccessMethod, Barrier, OWN_CPU, barrier_of};
///
/// let barrier = barrier_of(Path::new("/bin/sh"), OWN_CPU, AccessMethod::Task);
/// assert_eq!(barrier, Some(Barrier::Platform));
/// ```
pub fn barrier_of(program: &Path, own: Cpu, way: AccessMethod) -> Option<Barrier> {
    barrier(program, open(program)?, own, way)
}

/// Opens a plain file: a FIFO would keep sprof waiting.
fn open(program: &Path) -> Option<File> {
    program.is_file().then(|| File::open(program).ok())?
}

fn barrier(program: &Path, file: File, own: Cpu, way: AccessMethod) -> Option<Barrier> {
    // S_ISUID and S_ISGID.
    let takes_rights = file
        .metadata()
        .is_ok_and(|meta| meta.permissions().mode() & 0o6000 != 0);
    let slices = read(&OnDisk(file)).unwrap_or_default();
    let own_slice = slices.iter().find(|slice| slice.cpu == own);
    let signature = own_slice.or(slices.first()).and_then(|slice| slice.signature.as_ref());
    if is_of_macos(program) || signature.is_some_and(|signature| signature.is_platform) {
        return Some(Barrier::Platform);
    }
    if takes_rights {
        return Some(Barrier::SetUserId);
    }
    let is_permitted = |permits: fn(&Signature) -> bool| signature.is_none_or(permits);
    match way {
        AccessMethod::Task if !is_permitted(Signature::permits_reading) => return Some(Barrier::Hardened),
        AccessMethod::Library if !is_permitted(Signature::permits_insertion) => return Some(Barrier::Restricted),
        AccessMethod::Task | AccessMethod::Library => {}
    }
    (own_slice.is_none() && !slices.is_empty()).then_some(Barrier::Translated)
}

/// Folders that System Integrity Protection keeps (rootless.conf): programs in them are Apple's.
fn is_of_macos(program: &Path) -> bool {
    let is_below = |folder: &&str| program.starts_with(folder);
    ["/bin", "/sbin", "/usr", "/System"].iter().any(is_below) && !program.starts_with("/usr/local")
}

/// The interpreter of a script, and, where that is `env`, the program that it looks up.
fn interpreters(file: &File, search: &OsStr) -> Option<(PathBuf, Option<PathBuf>)> {
    let mut line = Vec::new();
    file.take(LINE).read_to_end(&mut line).ok()?;
    let line = line.strip_prefix(b"#!")?;
    let line = line.split(|byte| *byte == b'\n').next()?;
    let mut words = line
        .split(|byte| byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty());
    let first = PathBuf::from(OsStr::from_bytes(words.next()?));
    if first.file_name() != Some(OsStr::new("env")) {
        return Some((first, None));
    }
    let name = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
    let found = name.and_then(|name| {
        let folders = std::env::split_paths(search);
        folders
            .map(|folder| folder.join(OsStr::from_bytes(name)))
            .find(|path| path.is_file())
    });
    Some((first, found))
}
