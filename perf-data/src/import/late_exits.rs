//! What `perf record --off-cpu` adds when it ends: the waits of each thread, summed up by stack, after all other
//! records and at a time that is none. Their threads may have ended long before, so ends of threads are kept back until
//! then.

use std::collections::HashMap;

use recording::clock::Timestamp;

use crate::decode::Record;

/// OFF_CPU_TIMESTAMP (tools/perf/util/bpf_off_cpu.c): times from here on only say "last".
const NO_TIME: u64 = u64::MAX << 32;

/// Ends kept at most; of a file with more the sums of those that ended after these count as malformed.
const MAX_KEPT: usize = 1 << 20;

/// True for the time of a sum.
pub(super) fn is_no_time(time: u64) -> bool {
    time >= NO_TIME
}

/// Ends of threads.
#[derive(Debug, Default)]
pub(super) struct LateExits {
    /// By thread: when, and the process.
    kept: HashMap<i32, (Timestamp, i32)>,
}

impl LateExits {
    /// Keeps an end back; false if it can't.
    pub(super) fn keep(&mut self, time: Timestamp, pid: i32, tid: i32) -> bool {
        let has_room = self.kept.len() < MAX_KEPT;
        if has_room {
            self.kept.insert(tid, (time, pid));
        }
        has_room
    }

    /// The end of the thread that had this number before.
    pub(super) fn take(&mut self, tid: i32) -> Option<(Timestamp, Record<'static>)> {
        let (time, pid) = self.kept.remove(&tid)?;
        Some((time, Record::Exit { pid, tid }))
    }

    /// All, in the order of time.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = (Timestamp, Record<'static>)> + use<> {
        let mut all: Vec<_> = self.kept.drain().collect();
        all.sort_unstable_by_key(|(tid, (time, _))| (*time, *tid));
        (all.into_iter()).map(|(tid, (time, pid))| (time, Record::Exit { pid, tid }))
    }
}
