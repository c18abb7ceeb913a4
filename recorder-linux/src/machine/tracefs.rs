//! Where tracefs is, in which the kernel describes its tracepoints.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A file system of its own since Linux 4.1; before, and still, a part of debugfs.
pub(crate) const MOUNTS: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

/// Why tracefs can't be used.
pub(crate) enum Missing {
    /// `sudo mount -t tracefs nodev /sys/kernel/tracing`.
    NotMounted,
    /// This folder is closed to this user, who cannot see whether tracefs is mounted there.
    Closed(PathBuf),
}

/// Finds tracefs.
pub(crate) fn find(root: &Path) -> Result<PathBuf, Missing> {
    let mut missing = Missing::NotMounted;
    for path in MOUNTS.map(|mount| root.join(mount)) {
        // The mount point exists, and is empty where nothing is mounted.
        match fs::read_dir(path.join("events")) {
            Ok(_) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                if matches!(missing, Missing::NotMounted) {
                    missing = Missing::Closed(path);
                }
            }
            Err(_) => {}
        }
    }
    Err(missing)
}

/// The id under which perf_event_open(2) knows a tracepoint.
pub(crate) fn event_id(tracefs: &Path, group: &str, event: &str) -> io::Result<u64> {
    let path = tracefs.join("events").join(group).join(event).join("id");
    let text = fs::read_to_string(path)?;
    (text.trim().parse()).map_err(|_| io::ErrorKind::InvalidData.into())
}
