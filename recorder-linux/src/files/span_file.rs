//! Opens the files in which programs write spans: `marker-PID.txt`, `marker-PID-TID.txt`.

use std::fs;
use std::os::unix::fs::MetadataExt;

use recording::event::{Mapping, Pid, Thread};
use recording::sink::{KeptFile, ModuleFiles, ModuleMiss};

use super::{Files, perf_map};
use crate::processes::procfs::{self, numbers_inside};

/// Opens a file as its process sees it, and returns the thread whose spans it has: the main thread, if its name has
/// none, or one that has ended and whose number is of another PID namespace.
///
/// # Errors
///
/// Why it can't be read: also where another user owns it than the one of the process. The user of an ended process is
/// not known. Then the file must be ours.
pub fn open_span_file(files: &mut Files, pid: Pid, mapping: &Mapping<'_>) -> Result<(Thread, KeptFile), ModuleMiss> {
    let name = mapping.span_file().ok_or(ModuleMiss::NotFound)?;
    // Nothing else tells the file from another one at its path.
    mapping.inode.ok_or(ModuleMiss::NotIdentified)?;
    let file = files.open(pid, mapping)?.bytes;
    let owner = perf_map::owner_of_files(pid);
    let metadata = file.own_path().and_then(|path| fs::metadata(path).ok());
    if metadata.is_none_or(|metadata| metadata.uid() != owner) {
        return Err(ModuleMiss::PermissionDenied);
    }
    let is_in_other_namespace = numbers_inside(pid.0).is_some_and(|inside| inside.pid != pid);
    let tid = match name.tid {
        Some(inner) if is_in_other_namespace => {
            let is_it = |tid: &i32| numbers_inside(*tid).is_some_and(|inside| inside.tid.0 == inner);
            procfs::threads(pid.0).into_iter().find(is_it)
        }
        tid => tid,
    };
    Ok((Thread::new(pid.0, tid.unwrap_or(pid.0)), file))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};
    use std::path::Path;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn open(path: &Path, inode: u64) -> Result<Thread, ModuleMiss> {
        let mapping = Mapping {
            start: 0x1000,
            len: 4096,
            file_offset: 0,
            path: path.as_os_str().as_encoded_bytes(),
            build_id: None,
            inode: (inode > 0).then_some((0, 0, inode)),
        };
        let pid = Pid(std::process::id() as i32);
        open_span_file(&mut Files::default(), pid, &mapping).map(|(thread, _)| thread)
    }

    #[test]
    fn only_the_mapped_file_of_the_process_s_user_is_opened_whatever_has_its_path_by_then() {
        let dir = tempfile::tempdir().unwrap();
        let own = std::process::id() as i32;
        let path = dir.path().join("marker-7-8.txt");
        let kept = dir.path().join("kept");
        fs::write(&path, "1 2 x\n").unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        assert_eq!(open(&path, inode), Ok(Thread::new(own, 8)));
        assert_eq!(open(&path, 0), Err(ModuleMiss::NotIdentified));
        assert_eq!(open(&path, inode + 1), Err(ModuleMiss::Replaced));
        // A link to the file itself is as good.
        fs::rename(&path, &kept).unwrap();
        symlink(&kept, &path).unwrap();
        assert_eq!(open(&path, inode), Ok(Thread::new(own, 8)));
        fs::remove_file(&path).unwrap();
        symlink("/etc/passwd", &path).unwrap();
        assert_eq!(open(&path, inode), Err(ModuleMiss::Replaced));
        fs::remove_file(&path).unwrap();
        assert_eq!(open(&path, inode), Err(ModuleMiss::NotFound));
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(
            open(&path, fs::metadata(&path).unwrap().ino()),
            Err(ModuleMiss::NotFound)
        );
        fs::remove_file(&path).unwrap();
        fs::rename(&kept, &path).unwrap();
        // Only root can give a file away.
        if chown(&path, Some(65534), None).is_ok() {
            assert_eq!(open(&path, inode), Err(ModuleMiss::PermissionDenied));
        }
    }
}
