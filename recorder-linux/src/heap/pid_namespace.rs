//! Threads of processes in another PID namespace (pid_namespaces(7)): their library knows the numbers there alone.

use std::collections::HashMap;

use recording::event::{Pid, Thread, Tid};

use crate::processes::procfs::{self, numbers_inside};

/// The threads of one program, by their numbers in its namespace.
#[derive(Debug, Default)]
pub(crate) struct NamespaceThreads {
    /// `None`: it was looked for in this round, and is not there.
    threads: HashMap<Thread, Option<Thread>>,
    has_looked: bool,
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

    /// The same, where all threads were there when the round began: it looks for threads once a round, whatever numbers
    /// the program gives.
    pub(crate) fn find_once(&mut self, inner: Thread, processes: impl Iterator<Item = Pid>) -> Option<Thread> {
        if let Some(known) = self.threads.get(&inner) {
            return *known;
        }
        if std::mem::replace(&mut self.has_looked, true) {
            return None;
        }
        self.find(inner, processes)
    }

    /// Threads that were not there may be now.
    pub(crate) fn begin_round(&mut self) {
        self.threads.retain(|_, known| known.is_some());
        self.has_looked = false;
    }

    /// Another thread may get the number.
    pub(crate) fn ended(&mut self, tid: Tid) {
        self.threads
            .retain(|_, known| known.is_none_or(|known| known.tid != tid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_looked_for_once_a_round_whatever_a_program_names() {
        let own = Pid(std::process::id() as i32);
        let mut threads = NamespaceThreads::default();
        let mut looks = 0;
        for round in 1..=2 {
            for tid in 0..100 {
                let counted = std::iter::once(own).inspect(|_| looks += 1);
                assert_eq!(threads.find_once(Thread::new(i32::MAX, tid), counted), None);
            }
            assert_eq!(looks, round);
            threads.begin_round();
        }
        let inside = numbers_inside(own.0).unwrap();
        let found = threads.find_once(inside, std::iter::once(own));
        assert_eq!(found, Some(Thread::main(own)));
    }
}
