//! Opens the file in which a process's JIT compiler writes the names of its code: `/tmp/perf-PID.map`, as the process
//! sees it.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use recording::clock::Timestamp;
use recording::event::Pid;
use recording::regular_file;
use recording::sink::KeptFile;
use rustix::process::geteuid;

use super::on_disk::OnDisk;
use crate::processes::procfs::{self, numbers_inside};
use crate::processes::start_clock::StartClock;
use crate::sys::process::monotonic_ns;

/// Tolerance between file times and process times: both are in ticks of up to 10 ms, and the wall clock may be set.
const SLACK: Duration = Duration::from_secs(1);

/// Opens the perf map of a process: in the process's own mount namespace, and under the process's number in its own PID
/// namespace. `began_ns`: for ended processes, the latest possible start of the process on the recording's clock.
///
/// `None` if there is no map (yet), if another user owns it (also for root: the name may be a link to a file that the
/// process may not read), or if it is older than the process: an earlier process had the same number.
pub fn open_perf_map(pid: Pid, began_ns: u64) -> Option<(PathBuf, KeptFile)> {
    let own_pid = numbers_inside(pid.0).map_or(pid.0, |numbers| numbers.pid.0);
    let path = PathBuf::from(format!("/tmp/perf-{}.map", pid.0));
    let in_root = PathBuf::from(format!("/proc/{}/root/tmp/perf-{own_pid}.map", pid.0));
    // An ended process has no root folder, and the root folder of another user's process is closed to us.
    let elsewhere = (own_pid == pid.0).then(|| path.clone());
    let owner = owner_of_files(pid);
    let file =
        { [in_root].into_iter().chain(elsewhere) }.find_map(|path| regular_file::open_owned(&path, owner).ok())?;
    let modified = file.metadata().and_then(|metadata| metadata.modified()).ok()?;
    (modified + SLACK >= began(pid.0, began_ns)?).then(|| (path, Arc::new(OnDisk { file, id: None }) as KeptFile))
}

/// The user that owns files which the process creates. The user of an ended process is not known: then it is ours.
pub(super) fn owner_of_files(pid: Pid) -> u32 {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.0)).unwrap_or_default();
    effective_user(&status).unwrap_or_else(|| geteuid().as_raw())
}

/// The effective user. Not the owner of /proc/PID: that is root for every process that
/// may not be dumped (proc(5)).
fn effective_user(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The start of the process, by the wall clock.
fn began(pid: i32, began_ns: u64) -> Option<SystemTime> {
    let now = Timestamp(monotonic_ns());
    let found = procfs::stat(pid, pid).map(|stat| StartClock::new(now).at(stat.start_ticks).0);
    let began_ns = found.map_or(began_ns, |found| found.min(began_ns));
    SystemTime::now().checked_sub(Duration::from_nanos(now.0.saturating_sub(began_ns)))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn the_effective_user_owns_what_a_process_creates() {
        assert_eq!(effective_user("Name:\tx\nUid:\t1000\t7\t8\t9\n"), Some(7));
    }

    #[test]
    fn a_map_that_is_older_than_the_process_is_not_its_own() {
        let pid = Pid(std::process::id() as i32);
        let path = format!("/tmp/perf-{}.map", pid.0);
        // Before the file is made, however long that takes.
        let began_ns = monotonic_ns();
        let file = File::create(&path).unwrap();
        let now = open_perf_map(pid, began_ns).is_some();
        file.set_modified(SystemTime::now() - Duration::from_secs(3600))
            .unwrap();
        let old = open_perf_map(pid, monotonic_ns()).is_some();
        fs::remove_file(&path).unwrap();
        assert_eq!((now, old), (true, false));
        assert!(open_perf_map(pid, monotonic_ns()).is_none());
    }
}
