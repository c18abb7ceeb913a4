//! The code of a recorded process: images, and what compilers make while it runs.

use recording::clock::Timestamp;
use recording::event::Pid;
use recording::outbox::{Message, OwnedMapping};

use super::tick::Tick;
use crate::images::Images;
use crate::images::jit_files::JitFiles;
use crate::kernel::Mach;

/// The code of a process.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcessCode {
    images: Images,
    jit: JitFiles,
    /// The list of images was read in this look.
    is_fresh: bool,
}

impl ProcessCode {
    /// The next sample reads the list of images.
    pub(super) fn begin_look(&mut self) {
        self.is_fresh = false;
    }

    /// True if no list of images was read.
    pub(super) fn is_empty(&self) -> bool {
        self.images.is_empty()
    }

    /// True if a task has the images that were read last.
    pub(super) fn matches_task<M: Mach>(&self, mach: &M, task: &M::Task) -> bool {
        self.images.match_task(mach, task)
    }

    /// Reports what was mapped since the last look, before a stack with this innermost address.
    pub(super) fn report<M: Mach>(&mut self, pid: i32, task: &M::Task, time: u64, ip: u64, tick: &mut Tick<'_, M>) {
        for code in self.changes(tick.mach, pid, task, ip) {
            tick.out.send(Message::Map {
                time: Timestamp(time),
                pid: Pid(pid),
                code,
            });
        }
    }

    fn changes<M: Mach>(&mut self, mach: &M, pid: i32, task: &M::Task, ip: u64) -> Vec<OwnedMapping> {
        let mut changes = Vec::new();
        if !self.is_fresh || !self.images.holds(ip) {
            self.is_fresh = true;
            changes = self.images.refresh(mach, task);
            changes.extend(self.images.code_at(mach, task, ip));
        }
        if self.images.is_anonymous(ip) {
            changes.extend(self.jit.look(mach, pid));
        }
        changes
    }
}
