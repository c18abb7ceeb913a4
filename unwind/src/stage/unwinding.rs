//! The stacks of all threads: which samples have a stack to unwind, and whether what completes deep stacks stays what
//! it is.

use rustc_hash::FxHashMap;

use recording::clock::Timestamp;
use recording::event::{Pid, ProcessEvent, Sample, Thread, Tid};
use recording::sink::Looked;
use recording::stack::{MissingStack, Stack};

use crate::completion::callers::Changed;
use crate::stage::walker::{FoundMemory, ThreadState, Walker};

/// The stacks of all threads. It is not generic, so that the code which each sample runs through is compiled in this
/// crate, as one unit.
pub(crate) struct Unwinding<'f> {
    pub(crate) walker: Walker<'f>,
    threads: FxHashMap<Tid, ThreadState>,
    /// Threads that have callers in live memory.
    deep: Vec<Tid>,
}

impl<'f> Unwinding<'f> {
    pub(crate) fn new(walker: Walker<'f>) -> Unwinding<'f> {
        Unwinding {
            walker,
            threads: FxHashMap::default(),
            deep: Vec::new(),
        }
    }

    /// The sample with frames for its stack.
    pub(crate) fn unwound<'a>(&'a mut self, time: Timestamp, thread: Thread, sample: &Sample<'a>) -> Sample<'a> {
        let walker = &mut self.walker;
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
                let had_callers = !state.callers.are_none();
                let same = walker.on_snapshot(time, thread, &snapshot, sample.role, state);
                if !had_callers && !state.callers.are_none() && !self.deep.contains(&thread.tid) {
                    self.deep.push(thread.tid);
                }
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
    pub(crate) fn on_process(&mut self, pid: Pid, what: ProcessEvent<'_>) -> Vec<FoundMemory> {
        if matches!(what, ProcessEvent::End | ProcessEvent::Exec(_)) {
            self.threads.retain(|_, thread| thread.pid != pid);
        }
        self.walker.on_process(pid, what)
    }

    pub(crate) fn forget_thread(&mut self, tid: Tid) {
        self.threads.remove(&tid);
    }

    /// As [`EventSink::may_wait`](recording::sink::EventSink::may_wait).
    pub(crate) fn may_wait(&mut self, thread: Thread, stack_end: u64) -> bool {
        let state = self.threads.get_mut(&thread.tid);
        state.is_some_and(|state| state.callers.may_wait(stack_end))
    }

    /// As [`EventSink::look_again`](recording::sink::EventSink::look_again).
    pub(crate) fn look_again(&mut self) -> Looked {
        let Unwinding {
            walker, threads, deep, ..
        } = self;
        let mut found = Looked::Nothing;
        for tid in deep {
            let Some(thread) = threads.get_mut(tid) else { continue };
            match thread.callers.look(&mut *walker.memory, thread.pid) {
                Ok(None) => {}
                Ok(Some(reading)) => {
                    thread.stacks.see_again(thread.callers.points(), reading);
                    found = Looked::Same;
                }
                Err(Changed) => return Looked::Changed,
            }
        }
        found
    }

    pub(crate) fn end_round(&mut self) {
        let threads = &mut self.threads;
        self.deep.retain(|tid| {
            let thread = threads.get_mut(tid);
            thread.is_some_and(|thread| thread.callers.end_round())
        });
    }
}
