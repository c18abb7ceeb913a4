//! Processes that go on while their events have ended.
//!
//! begin_new_exec() in fs/exec.c names the task (PERF_RECORD_COMM with PERF_RECORD_MISC_COMM_EXEC), commits the new
//! credentials, and then calls perf_event_exit_task() if that made the process undumpable: a set-user-ID or
//! set-group-ID program, one with file capabilities, one that its user may not read. All events of the task end as they
//! do with the task itself, PERF_RECORD_EXIT included. Only then is the program mapped. So an exit right after an exec,
//! with no mapping in between, is not the end of the process (seen with Linux 6.18). Events of whole CPUs get that
//! record as well, but do not end: the mappings follow.

use std::collections::HashMap;

/// A process that has lost its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskWithoutEvents {
    /// Process id.
    pub pid: i32,
    /// Name of the program that the process executed.
    pub name: String,
}

/// What the records said of such processes. Off at first: what is imported may lack records of mappings.
#[derive(Debug, Default)]
pub(super) struct WithoutEvents {
    is_on: bool,
    /// Processes whose last exec no mapping followed yet, with their new name.
    executed: HashMap<i32, String>,
    lost: Vec<TaskWithoutEvents>,
}

impl WithoutEvents {
    pub(super) fn watch(&mut self) {
        self.is_on = true;
    }

    pub(super) fn take(&mut self) -> Vec<TaskWithoutEvents> {
        std::mem::take(&mut self.lost)
    }

    pub(super) fn executed(&mut self, pid: i32, name: &[u8]) {
        if self.is_on {
            self.executed.insert(pid, String::from_utf8_lossy(name).into_owned());
        }
    }

    pub(super) fn mapped(&mut self, pid: i32) {
        self.executed.remove(&pid);
        self.forget(pid);
    }

    /// True if the exit that was just recorded is the end of the process's events, and not of the process.
    pub(super) fn lost_at_exec(&mut self, pid: i32) -> bool {
        let Some(name) = self.executed.remove(&pid) else {
            return false;
        };
        self.lost.push(TaskWithoutEvents { pid, name });
        true
    }

    /// The number is in use again, or its events go on.
    pub(super) fn forget(&mut self, pid: i32) {
        self.lost.retain(|lost| lost.pid != pid);
    }
}
