//! The files behind mappings, as the target sees them.

mod mapped_copy;
mod on_disk;
mod perf_map;
mod span_file;

pub use perf_map::open_perf_map;
pub use span_file::open_span_file;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use recording::clock::Timestamp;
use recording::event::{Mapping, Pid, is_shared_memory};
use recording::module::FileId;
use recording::sink::{InMemory, ModuleFile, ModuleFiles, ModuleMiss, TargetMemory};
use recording::{proc, regular_file};
use unwind::build_id_of;

use crate::sys;
use mapped_copy::MappedCopies;
use on_disk::{OnDisk, own_path};

/// Reads a live target's memory with process_vm_readv.
#[derive(Debug, Default)]
pub struct Memory {}

impl TargetMemory for Memory {
    fn read(&mut self, pid: Pid, address: u64, buffer: &mut [u8]) -> usize {
        sys::memory::read(pid.0, address, buffer)
    }

    fn read_words(&mut self, pid: Pid, addresses: &[u64], words: &mut Vec<u64>) {
        sys::memory::read_words(pid.0, addresses, words);
    }

    fn now(&self) -> Timestamp {
        Timestamp(sys::process::monotonic_ns())
    }
}

/// Opens mapped files: through the target's own root (another mount namespace, chroot), by plain path when the target
/// has ended, through /proc/PID/exe and map_files when the file was deleted or replaced, and from the target's memory
/// where those are not permitted. An open file stays readable when its path and the target are gone.
#[derive(Debug, Default)]
pub struct Files {
    /// Root folders of other mount namespaces, by the namespace: for processes that end before their files are opened.
    roots: Vec<(u64, File)>,
    copies: MappedCopies,
    ids: FileIds,
}

/// Mount namespaces whose root is kept open.
const MAX_ROOTS: usize = 16;
const DELETED: &str = " (deleted)";
/// Most descriptors of a process to look at.
const MAX_DESCRIPTORS: usize = 1024;

impl ModuleFiles for Files {
    fn open(&mut self, pid: Pid, mapping: &Mapping<'_>) -> Result<ModuleFile, ModuleMiss> {
        if mapping.path == b"[vdso]" {
            let bytes = own_vdso().map_err(|_| ModuleMiss::NotFound)?;
            return Ok(ModuleFile {
                readable_path: None,
                bytes: Arc::new(InMemory(bytes)),
            });
        }
        if !is_file(mapping.path) {
            return Err(ModuleMiss::Anonymous);
        }
        let path = Path::new(OsStr::from_bytes(mapping.path));
        let is_shared_memory = is_shared_memory(mapping.path);
        // Shared memory without a build id mostly holds data, or the code of a JIT compiler.
        let mut miss = match is_shared_memory && mapping.build_id.is_none() {
            true => ModuleMiss::Anonymous,
            false => ModuleMiss::NotFound,
        };
        for (candidate, is_sure) in self.candidates(pid, mapping, path) {
            // Where /proc links to the mapping itself, the inode need not be compared: on overlayfs stat(2) shows
            // another one. Several memory files may have one name.
            let inode = mapping.inode.filter(|_| !is_sure || is_shared_memory);
            match open_regular(&candidate, inode).and_then(|file| right_build(file, mapping)) {
                Ok(file) => {
                    let readable_path = (candidate != path).then(|| shortest(&candidate, path, &file));
                    self.remember_root(pid, &readable_path);
                    let id = file.metadata().ok().map(|metadata| self.ids.of(&metadata));
                    return Ok(ModuleFile {
                        readable_path: readable_path.flatten(),
                        bytes: Arc::new(OnDisk { file, id }),
                    });
                }
                Err(ModuleMiss::NotFound) => {}
                Err(reason) => miss = reason,
            }
        }
        match self.copies.copy(pid, mapping) {
            Some(bytes) => Ok(ModuleFile {
                readable_path: None,
                bytes: Arc::new(InMemory(bytes)),
            }),
            None => Err(miss),
        }
    }

    fn file_id(&mut self, pid: Pid, mapping: &Mapping<'_>) -> Option<FileId> {
        let path = Path::new(OsStr::from_bytes(mapping.path));
        if !is_file(mapping.path) {
            return None;
        }
        let found = |path: &Path| regular_file::metadata(path).ok();
        let is_on_path = !is_shared_memory(mapping.path);
        let metadata = is_on_path.then(|| found(&in_root(pid, path))).flatten().or_else(|| {
            let mut candidates = self.candidates(pid, mapping, path).into_iter();
            candidates.find_map(|(path, _)| found(&path))
        });
        Some(self.ids.of(&metadata?))
    }
}

/// Ids of the files that were opened.
#[derive(Debug, Default)]
struct FileIds {
    /// By inode, size, and the times of the last change of content and of properties. Each container has an overlayfs
    /// with a device of its own, and one inode for all containers of an image. Only the kernel sets the time of the
    /// last change of properties (inode(7)), so no other file can have the same key.
    seen: HashMap<(u64, u64, [i64; 4]), FileId>,
}

impl FileIds {
    fn of(&mut self, file: &Metadata) -> FileId {
        let (device, inode) = (file.dev(), file.ino());
        let times = [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()];
        *(self.seen.entry((inode, file.size(), times))).or_insert(FileId { device, inode })
    }
}

/// The path of a file, from the root folder of the process.
fn in_root(pid: Pid, path: &Path) -> PathBuf {
    let root = PathBuf::from(format!("/proc/{}/root", pid.0));
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// False for names in brackets, `//anon` and `anon_inode:`, which the kernel writes for mappings without a file.
fn is_file(path: &[u8]) -> bool {
    path.starts_with(b"/") && !path.starts_with(b"//")
}

impl Files {
    /// Paths where the file may be. True for a path where only the mapped file can be.
    fn candidates(&self, pid: Pid, mapping: &Mapping<'_>, path: &Path) -> Vec<(PathBuf, bool)> {
        let folder = PathBuf::from(format!("/proc/{}", pid.0));
        let is_on_path = !is_shared_memory(mapping.path);
        let mut candidates = Vec::new();
        if is_on_path {
            candidates.extend([(in_root(pid, path), false), (path.to_owned(), false)]);
        }
        // A process that has ended, and that nobody has waited for, has no root.
        if is_on_path && !folder.join("root").exists() {
            let below = path.strip_prefix("/").unwrap_or(path);
            let roots = self.roots.iter().map(|(_, root)| own_path(root).join(below));
            candidates.extend(roots.map(|path| (path, false)));
        }
        // /proc/PID/exe and /proc/PID/fd need no privilege for processes of one's own; map_files needs
        // CAP_CHECKPOINT_RESTORE.
        let links = [
            folder.join("exe"),
            folder.join(format!(
                "map_files/{:x}-{:x}",
                mapping.start,
                mapping.start.saturating_add(mapping.len)
            )),
        ];
        let leads_here =
            |link: &PathBuf| fs::read_link(link).is_ok_and(|target| without_deleted(&target) == without_deleted(path));
        candidates.extend(links.into_iter().filter(leads_here).map(|link| (link, true)));
        // A library that was loaded through a descriptor may still be open.
        if is_deleted(path) {
            let links = fs::read_dir(folder.join("fd"))
                .into_iter()
                .flatten()
                .take(MAX_DESCRIPTORS);
            let links = links.filter_map(|link| Some(link.ok()?.path())).filter(leads_here);
            candidates.extend(links.map(|link| (link, false)));
        }
        candidates
    }

    /// Keeps the root of another mount namespace open.
    fn remember_root(&mut self, pid: Pid, readable_path: &Option<Option<PathBuf>>) {
        if !matches!(readable_path, Some(Some(_))) || self.roots.len() >= MAX_ROOTS {
            return;
        }
        let folder = PathBuf::from(format!("/proc/{}", pid.0));
        let Ok(namespace) = fs::metadata(folder.join("ns/mnt")).map(|link| link.ino()) else {
            return;
        };
        if !self.roots.iter().any(|(known, _)| *known == namespace)
            && let Ok(root) = File::open(folder.join("root"))
        {
            self.roots.push((namespace, root));
        }
    }
}

fn is_deleted(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(DELETED.as_bytes())
}

/// Removes ` (deleted)`, which the kernel appends to paths of mappings and links when the file is gone.
fn without_deleted(path: &Path) -> &[u8] {
    let path = path.as_os_str().as_bytes();
    path.strip_suffix(DELETED.as_bytes()).unwrap_or(path)
}

fn open_regular(path: &Path, inode: Option<(u32, u32, u64)>) -> Result<File, ModuleMiss> {
    let miss = |error: io::Error| match error.kind() {
        io::ErrorKind::PermissionDenied => ModuleMiss::PermissionDenied,
        _ if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => ModuleMiss::TooManyOpen,
        _ => ModuleMiss::NotFound,
    };
    let file = regular_file::open(path).map_err(miss)?;
    // The device number is not compared: on btrfs and overlayfs stat(2) reports another one than the kernel's mapping.
    if let Some((_, _, inode)) = inode
        && file.metadata().map_err(miss)?.ino() != inode
    {
        return Err(ModuleMiss::Replaced);
    }
    Ok(file)
}

/// Tries the next candidate where another build has replaced the mapped one.
fn right_build(file: File, mapping: &Mapping<'_>) -> Result<File, ModuleMiss> {
    let Some(wanted) = &mapping.build_id else {
        return Ok(file);
    };
    let file = OnDisk { file, id: None };
    match build_id_of(&file) {
        Some(found) if found == *wanted => Ok(file.file),
        _ => Err(ModuleMiss::Replaced),
    }
}

/// The path to remember; `None` if the mapping's own path leads to the same file.
fn shortest(candidate: &Path, path: &Path, file: &File) -> Option<PathBuf> {
    let (Ok(opened), Ok(plain)) = (file.metadata(), regular_file::metadata(path)) else {
        return Some(candidate.to_owned());
    };
    let same = opened.ino() == plain.ino() && opened.dev() == plain.dev();
    (!same).then(|| candidate.to_owned())
}

/// The vDSO of sprof itself: the kernel maps the same vDSO into all processes.
fn own_vdso() -> io::Result<Vec<u8>> {
    proc::vdso(&fs::read("/proc/self/maps")?, File::open("/proc/self/mem")?)
}
