//! The files behind mappings, as the target sees them.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use recording::clock::Timestamp;
use recording::event::{Mapping, Pid};
use recording::sink::{ModuleFile, ModuleFiles, ModuleMiss, ReadAt, TargetMemory};

use crate::sys;

/// Reads a live target's memory with process_vm_readv.
#[derive(Debug, Default)]
pub struct Memory {}

impl TargetMemory for Memory {
    fn read(&mut self, pid: Pid, address: u64, buffer: &mut [u8]) -> usize {
        sys::memory::read(pid.0, address, buffer)
    }

    fn now(&self) -> Timestamp {
        Timestamp(sys::process::monotonic_ns())
    }
}

/// Opens mapped files: through the target's own root (another mount namespace, chroot), by plain path when the target
/// is already gone, through /proc/PID/exe and map_files when the file was deleted.
#[derive(Debug, Default)]
pub struct Files {}

const DELETED: &str = " (deleted)";

impl ModuleFiles for Files {
    fn open(&mut self, mapping: &Mapping<'_>) -> Result<ModuleFile, ModuleMiss> {
        if mapping.path == b"[vdso]" {
            let bytes = own_vdso().ok_or(ModuleMiss::NotFound)?;
            return Ok(ModuleFile {
                readable_path: None,
                bytes: Arc::new(Bytes(bytes)),
            });
        }
        if !is_file(mapping.path) {
            return Err(ModuleMiss::Anonymous);
        }
        let path = Path::new(std::ffi::OsStr::from_bytes(mapping.path));
        let mut miss = ModuleMiss::NotFound;
        for candidate in candidates(mapping.pid, mapping.start, mapping.len, path) {
            match open_regular(&candidate, mapping.inode) {
                Ok(file) => {
                    let readable_path = (candidate != path).then(|| shortest(&candidate, path, &file));
                    return Ok(ModuleFile {
                        readable_path: readable_path.flatten(),
                        bytes: Arc::new(OnDisk(file)),
                    });
                }
                Err(ModuleMiss::NotFound) => {}
                Err(reason) => miss = reason,
            }
        }
        Err(miss)
    }
}

/// The kernel writes names in brackets, `//anon`, `anon_inode:`, and paths of no file system for what is not a file.
fn is_file(path: &[u8]) -> bool {
    let not_files: [&[u8]; 5] = [b"//", b"/memfd:", b"/dev/zero", b"/SYSV", b"/anon_hugepage"];
    path.starts_with(b"/") && !not_files.iter().any(|prefix| path.starts_with(prefix))
}

fn candidates(pid: Pid, start: u64, len: u64, path: &Path) -> Vec<PathBuf> {
    let proc_folder = PathBuf::from(format!("/proc/{}", pid.0));
    let in_root = |path: &Path| proc_folder.join("root").join(path.strip_prefix("/").unwrap_or(path));
    let mut candidates = vec![in_root(path), path.to_owned()];
    if path.as_os_str().as_bytes().ends_with(DELETED.as_bytes()) {
        // /proc/PID/exe needs no privilege; map_files needs CAP_CHECKPOINT_RESTORE.
        let exe = proc_folder.join("exe");
        if fs::read_link(&exe).is_ok_and(|link| link == path) {
            candidates.push(exe);
        }
    }
    candidates.push(proc_folder.join(format!("map_files/{:x}-{:x}", start, start.saturating_add(len))));
    candidates
}

fn open_regular(path: &Path, inode: Option<(u32, u32, u64)>) -> Result<File, ModuleMiss> {
    let miss = |error: io::Error| match error.kind() {
        io::ErrorKind::PermissionDenied => ModuleMiss::PermissionDenied,
        _ => ModuleMiss::NotFound,
    };
    // Look before opening: opening a FIFO would wait for its other end.
    let metadata = fs::metadata(path).map_err(miss)?;
    if !metadata.is_file() {
        return Err(ModuleMiss::NotFound);
    }
    // The device number is not compared: on btrfs and overlayfs stat(2) reports another one than the kernel's mapping.
    if inode.is_some_and(|(_, _, inode)| inode != metadata.ino()) {
        return Err(ModuleMiss::Replaced);
    }
    File::open(path).map_err(miss)
}

/// The path to remember: none if the mapping's own path leads to the same file.
fn shortest(candidate: &Path, path: &Path, file: &File) -> Option<PathBuf> {
    let (Ok(opened), Ok(plain)) = (file.metadata(), fs::metadata(path)) else {
        return Some(candidate.to_owned());
    };
    let same = opened.ino() == plain.ino() && opened.dev() == plain.dev();
    (!same).then(|| candidate.to_owned())
}

/// The vdso of this very process: the kernel maps the same one everywhere.
fn own_vdso() -> Option<Vec<u8>> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let mut bytes = vec![0; usize::try_from(end.checked_sub(start)?).ok()?];
    File::open("/proc/self/mem")
        .ok()?
        .read_exact_at(&mut bytes, start)
        .ok()?;
    Some(bytes)
}

struct OnDisk(File);

impl ReadAt for OnDisk {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn len(&self) -> u64 {
        self.0.metadata().map_or(0, |metadata| metadata.len())
    }
}

struct Bytes(Vec<u8>);

impl ReadAt for Bytes {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let source = usize::try_from(offset)
            .ok()
            .and_then(|start| self.0.get(start..start.checked_add(buffer.len())?))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(source);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.0.len() as u64
    }
}
