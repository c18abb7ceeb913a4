//! The threads of a process, and what is known of each.

use std::collections::HashSet;
use std::ops::Range;

use recording::pace::{Account, ThreadReading};

use crate::kernel::{Mach, ThreadState};

/// A known thread.
pub(super) struct KnownThread<M: Mach> {
    pub(super) right: M::Thread,
    pub(super) tid: i32,
    pub(super) account: Account,
    /// Where its stack was when it was copied last.
    pub(super) stack: Range<u64>,
    /// Its CPU time when it began to wait, if it was reported as waiting.
    pub(super) waits_since_cpu_ns: Option<u64>,
    name: [u8; 64],
}

impl<M: Mach> KnownThread<M> {
    /// A thread whose CPU time counts from this reading on.
    pub(super) fn new(right: M::Thread, tid: i32, from: ThreadReading) -> KnownThread<M> {
        KnownThread {
            right,
            tid,
            account: Account::open(from),
            stack: 0..0,
            waits_since_cpu_ns: None,
            name: [0; 64],
        }
    }

    /// The thread's name, if it has another one than at the last call.
    pub(super) fn new_name(&mut self, state: &ThreadState) -> Option<String> {
        if self.name == state.name {
            return None;
        }
        self.name = state.name;
        Some(state.name())
    }
}

/// A reading of a kernel that counts CPU time alone.
pub(super) fn reading(state: &ThreadState) -> ThreadReading {
    ThreadReading {
        cpu_ns: state.cpu_ns,
        ..ThreadReading::default()
    }
}

/// Numbers of threads that do not fit into a [`Tid`](recording::event::Tid), or are the process's, get one from here
/// on.
const SUBSTITUTES: i32 = 1 << 30;

/// The [`Tid`](recording::event::Tid) of a thread. XNU's numbers have 64 bits. The main thread has its process's.
pub(super) fn tid_of(thread_id: u64, pid: i32, is_main: bool, taken: &HashSet<i32>) -> i32 {
    if is_main && !taken.contains(&pid) {
        return pid;
    }
    let own = i32::try_from(thread_id)
        .ok()
        .filter(|tid| *tid != pid && !taken.contains(tid));
    own.unwrap_or_else(|| {
        let first = SUBSTITUTES | (thread_id & 0x3fff_ffff) as i32;
        let mut others = (first..=i32::MAX).chain(SUBSTITUTES..first);
        others.find(|tid| *tid != pid && !taken.contains(tid)).unwrap_or(first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_threads_fit_and_differ() {
        let mut taken = HashSet::new();
        let numbers = [
            (900, true),
            (901, false),
            (77, false),
            (1 << 40, false),
            (901 + (1 << 32), false),
        ];
        let tids = numbers.map(|(thread_id, is_main)| {
            let tid = tid_of(thread_id, 77, is_main, &taken);
            assert!(taken.insert(tid) && tid > 0);
            tid
        });
        assert_eq!(tids[..2], [77, 901]);
        // The numbers of an ended thread's substitute and of a second "main" thread.
        let again = tid_of(900, 77, true, &taken);
        assert_eq!(again, 900);
        assert!(taken.insert(tid_of((1 << 40) | (1 << 41), 77, false, &taken)));
    }
}
