//! The stacks of all threads: which samples have a stack to unwind.

use rustc_hash::FxHashMap;

use recording::clock::Timestamp;
use recording::event::{Pid, ProcessEvent, Sample, Thread, Tid};
use recording::stack::{MissingStack, Stack};

use crate::stage::stack_unwinder::{NewMemory, StackUnwinder, ThreadState};

/// The stacks of all threads. It is not generic, so that the code which each sample runs through is compiled in this
/// crate, as one unit.
pub(crate) struct ThreadUnwinder<'f> {
    pub(crate) stacks: StackUnwinder<'f>,
    threads: FxHashMap<Tid, ThreadState>,
}

impl<'f> ThreadUnwinder<'f> {
    pub(crate) fn new(walker: StackUnwinder<'f>) -> ThreadUnwinder<'f> {
        ThreadUnwinder {
            stacks: walker,
            threads: FxHashMap::default(),
        }
    }

    /// The sample with frames for its stack.
    pub(crate) fn unwound<'a>(&'a mut self, time: Timestamp, thread: Thread, sample: &Sample<'a>) -> Sample<'a> {
        let walker = &mut self.stacks;
        walker.begin(sample.role);
        match sample.stack {
            Stack::Frames(frames) => {
                walker.count_marks(frames);
                return *sample;
            }
            Stack::Missing { kernel, reason } => walker.on_missing(kernel, reason),
            Stack::Snapshot(snapshot) if walker.has_left_user_space(thread.pid, &snapshot) => {
                walker.on_missing(snapshot.kernel, MissingStack::NoUserSpace);
            }
            Stack::Snapshot(snapshot) => {
                let new = || ThreadState::new(thread.pid);
                let state = self.threads.entry(thread.tid).or_insert_with(new);
                let same = walker.on_snapshot(time, thread, &snapshot, sample.role, state);
                return Sample {
                    stack: Stack::Frames(state.frames()),
                    same: Some(same),
                    ..*sample
                };
            }
        }
        Sample {
            stack: Stack::Frames(walker.frames()),
            ..*sample
        }
    }

    /// What has become known of the process's memory.
    pub(crate) fn on_process(&mut self, pid: Pid, what: ProcessEvent<'_>) -> Vec<NewMemory> {
        if matches!(what, ProcessEvent::End | ProcessEvent::Exec(_)) {
            self.threads.retain(|_, thread| thread.pid != pid);
        }
        self.stacks.on_process(pid, what)
    }

    pub(crate) fn forget_thread(&mut self, tid: Tid) {
        self.threads.remove(&tid);
    }
}
