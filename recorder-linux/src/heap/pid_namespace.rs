//! Threads of processes in another PID namespace (pid_namespaces(7)): their library knows the numbers there alone.

use std::collections::HashMap;

use recording::event::{Pid, Thread, Tid};

use crate::processes::procfs::{self, numbers_inside};

/// The threads of one program, by their numbers in its namespace.
#[derive(Debug, Default)]
pub(crate) struct NamespaceThreads {
    /// `None`: it was looked for in this round, and is not there.
    threads: HashMap<Thread, Option<Thread>>,
}

impl NamespaceThreads {
    /// The thread in sprof's namespace. `None` if it is of none of these processes, or had ended when it was looked
    /// for.
    pub(crate) fn find(&mut self, inner: Thread, processes: impl Iterator<Item = Pid>) -> Option<Thread> {
        if let Some(known) = self.threads.get(&inner) {
            return *known;
        }
        self.threads.insert(inner, None);
        for pid in processes {
            for tid in procfs::threads(pid.0) {
                if let Some(found) = numbers_inside(tid) {
                    self.threads.insert(found, Some(Thread::new(pid.0, tid)));
                }
            }
        }
        self.threads.get(&inner).copied().flatten()
    }

    /// Threads that were not there may be now.
    pub(crate) fn begin_round(&mut self) {
        self.threads.retain(|_, known| known.is_some());
    }

    /// Another thread may get the number.
    pub(crate) fn ended(&mut self, tid: Tid) {
        self.threads
            .retain(|_, known| known.is_none_or(|known| known.tid != tid));
    }
}
