//! The files behind the mappings of a recording that was made some time ago, or on another machine.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use recording::event::{Mapping, Pid, is_shared_memory};
use recording::module::{BuildId, path_of};
use recording::regular_file;
use recording::sink::{ModuleFile, ModuleFiles, ModuleMiss, OnDisk};

/// Opens mapped files by build id in perf's own cache (`~/.debug`), then by path where the build id or the inode says
/// that it is still the same file. Never through /proc: its process ids mean other processes now.
#[derive(Clone, Debug, Default)]
pub struct SavedFiles {
    cache: Option<PathBuf>,
}

impl SavedFiles {
    /// Also looks into the cache of this user.
    pub fn new() -> SavedFiles {
        SavedFiles {
            cache: std::env::home_dir().map(|home| home.join(".debug/.build-id")),
        }
    }

    /// `~/.debug/.build-id/ab/cdef.../elf` (or `vdso`): where `perf record` keeps a copy of what it recorded.
    fn in_cache(&self, build_id: &BuildId) -> impl Iterator<Item = PathBuf> {
        let hex = build_id.to_hex();
        let folder = (self.cache.as_ref())
            .filter(|_| hex.len() > 2)
            .map(|cache| cache.join(&hex[..2]).join(&hex[2..]));
        folder
            .into_iter()
            .flat_map(|folder| [folder.join("elf"), folder.join("vdso")])
    }
}

impl ModuleFiles for SavedFiles {
    fn open(&mut self, _pid: Pid, mapping: &Mapping<'_>) -> Result<ModuleFile, ModuleMiss> {
        let path = path_of(mapping.path);
        let module_file = |file, readable_path| ModuleFile {
            readable_path,
            bytes: Arc::new(OnDisk(file)),
        };
        let is_shared_memory = is_shared_memory(mapping.path);
        let mut miss = match is_shared_memory && mapping.build_id.is_none() {
            true => ModuleMiss::Anonymous,
            false => ModuleMiss::NotFound,
        };
        if path.is_absolute() && !is_shared_memory {
            match open_regular(&path, mapping) {
                Ok(file) => return Ok(module_file(file, None)),
                Err(reason) => miss = reason,
            }
        }
        let cached = mapping.build_id.iter().flat_map(|build_id| self.in_cache(build_id));
        for candidate in cached {
            if let Ok(file) = open_any(&candidate) {
                return Ok(module_file(file, Some(candidate)));
            }
        }
        Err(miss)
    }
}

fn open_any(path: &Path) -> Result<File, ModuleMiss> {
    let miss = |error: io::Error| match error.kind() {
        io::ErrorKind::PermissionDenied => ModuleMiss::PermissionDenied,
        _ => ModuleMiss::NotFound,
    };
    regular_file::open(path).map_err(miss)
}

/// Opens the file of a mapping, if build id or inode say that it is the same.
fn open_regular(path: &Path, mapping: &Mapping<'_>) -> Result<File, ModuleMiss> {
    let file = open_any(path)?;
    match (&mapping.build_id, mapping.inode) {
        // A file without build id is compared by the caller; where build ids differ, a cached copy is looked for.
        (Some(expected), _) => {
            match unwind::build_id_of(&OnDisk(file.try_clone().map_err(|_| ModuleMiss::NotFound)?)) {
                Some(found) if found != *expected => Err(ModuleMiss::Replaced),
                _ => Ok(file),
            }
        }
        (None, Some((_, _, inode))) if inode_of(&file) == Some(inode) => Ok(file),
        (None, Some(_)) => Err(ModuleMiss::Replaced),
        (None, None) => Err(ModuleMiss::NotIdentified),
    }
}

#[cfg(unix)]
fn inode_of(file: &File) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    file.metadata().ok().map(|metadata| metadata.ino())
}

#[cfg(not(unix))]
fn inode_of(_file: &File) -> Option<u64> {
    None
}
