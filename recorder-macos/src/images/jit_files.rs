//! The files that JIT compilers write so that profilers find the names of their code: `jit-PID.dump`, `perf-PID.map`.
//!
//! On Linux a compiler maps its jitdump, so that the mapping is an event. macOS reports no mappings: such a file is
//! found among the open files of the process.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use recording::outbox::OwnedMapping;

use crate::kernel::Mach;

/// From one look at the open files to the next, ns: a call for each of them.
const LOOK_AGAIN_NS: u64 = 50_000_000;
/// Files of one process at most.
const MOST_FILES: usize = 16;

/// The jitdump files of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct JitFiles {
    known: BTreeSet<PathBuf>,
    next_ns: u64,
}

impl JitFiles {
    /// Looks for new ones, where the last look is long enough ago. Each is reported as Linux reports it, but without an
    /// address.
    pub(crate) fn look<M: Mach>(&mut self, mach: &M, pid: i32) -> Vec<OwnedMapping> {
        let now = mach.now_ns();
        if now < self.next_ns || self.known.len() >= MOST_FILES {
            return Vec::new();
        }
        self.next_ns = now.saturating_add(LOOK_AGAIN_NS);
        let open = mach.open_files(pid).into_iter().map(|path| (mapping_of(&path), path));
        let found = open.filter(|(mapping, path)| mapping.as_mapping().is_jitdump() && self.known.insert(path.clone()));
        found.map(|(mapping, _)| mapping).collect()
    }
}

fn mapping_of(path: &Path) -> OwnedMapping {
    OwnedMapping {
        start: 0,
        len: 0,
        file_offset: 0,
        path: path.as_os_str().as_bytes().to_vec(),
        build_id: None,
        inode: None,
    }
}

/// The perf map that a process has open.
pub(crate) fn open_perf_map(mach: &impl Mach, pid: i32) -> Option<PathBuf> {
    let name = format!("perf-{pid}.map");
    let mut open = mach.open_files(pid).into_iter();
    open.find(|path| path.file_name().is_some_and(|file| file == name.as_str()))
}
