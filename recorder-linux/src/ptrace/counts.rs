//! The scheduler's counts for a thread.

use std::fs::File;
use std::os::unix::fs::FileExt;

use recording::pace::ThreadReading;

use crate::processes::procfs::{parse_schedstat, stat};

/// USER_HZ, which /proc's clock ticks have had on x86_64 and aarch64 from the beginning (include/asm-generic/param.h).
const NS_PER_TICK: u64 = 10_000_000;

/// Reads what the scheduler counts for one thread.
#[derive(Debug)]
pub(super) struct SchedulerCounts {
    pid: i32,
    tid: i32,
    /// Kept open: opening takes three times as long as reading.
    schedstat: Option<File>,
}

impl SchedulerCounts {
    pub(super) fn of(pid: i32, tid: i32) -> SchedulerCounts {
        SchedulerCounts {
            pid,
            tid,
            schedstat: File::open(format!("/proc/{pid}/task/{tid}/schedstat")).ok(),
        }
    }

    /// The counts now; `None` if the thread is gone.
    pub(super) fn read(&self) -> Option<ThreadReading> {
        // The file is missing without CONFIG_SCHED_INFO, and has `0 0 0` where schedstats are switched off.
        let from_schedstat = self.schedstat.as_ref().and_then(|file| {
            let mut text = [0u8; 64];
            let len = file.read_at(&mut text, 0).ok()?;
            parse_schedstat(std::str::from_utf8(&text[..len]).ok()?)
        });
        from_schedstat.or_else(|| {
            let stat = stat(self.pid, self.tid)?;
            Some(ThreadReading {
                cpu_ns: stat.cpu_ticks.saturating_mul(NS_PER_TICK),
                ..ThreadReading::default()
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_read() {
        let pid = std::process::id() as i32;
        let counts = SchedulerCounts::of(pid, pid);
        let before = counts.read().unwrap();
        assert!(counts.read().unwrap().cpu_ns >= before.cpu_ns);
    }
}
