//! Where a process's JIT compiler writes the names of its code: the `perf-PID.map` that the process has open, else
//! `/tmp/perf-PID.map`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use recording::event::Pid;
use recording::regular_file;
use recording::sink::KeptFile;

use super::on_disk::OnDisk;
use crate::images::jit_files;
use crate::kernel::Mach;

/// Tolerance for changes of the wall clock.
const SLACK: Duration = Duration::from_secs(1);

/// Opens the perf map of a process. `None` if there is no map yet, if it belongs to another user, or if it is older
/// than the process: an earlier process had the same id. `began_ns` is the latest possible start of the process on the
/// recording's clock.
pub fn open_perf_map(mach: &impl Mach, pid: Pid, began_ns: u64) -> Option<(PathBuf, KeptFile)> {
    let open = jit_files::open_perf_map(mach, pid.0);
    let path = open.unwrap_or_else(|| PathBuf::from(format!("/tmp/perf-{}.map", pid.0)));
    let own = i32::try_from(std::process::id()).ok()?;
    let process = mach.identity(pid.0);
    // The owner of a process that is gone is not known. Then the map must be ours.
    let owner = process.or_else(|| mach.identity(own))?.user;
    let file = regular_file::open_owned(&path, owner).ok()?;
    let ago = Duration::from_nanos(mach.now_ns().saturating_sub(began_ns));
    let began = SystemTime::now().checked_sub(ago)?;
    let started = process.map(|identity| SystemTime::UNIX_EPOCH + Duration::from_micros(identity.started_us));
    let began = started.map_or(began, |started| started.min(began));
    let modified = file.metadata().and_then(|metadata| metadata.modified()).ok()?;
    (modified + SLACK >= began).then(|| (path, Arc::new(OnDisk(file)) as KeptFile))
}
