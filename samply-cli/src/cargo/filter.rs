//! Of the events of a recording of cargo, lets those through that are of programs which cargo runs, and of all that these
//! start. Cargo, rustc, linkers and build scripts end here, before their stacks are unwound.

use std::collections::HashMap;
use std::path::Path;

use recording::clock::Timestamp;
use recording::event::{Event, Pid, Role, Tid};
use recording::sink::EventSink;

use super::names::Names;
use super::runner::{self, Note};

/// What programs start that is no part of them.
const BUILDERS: [&str; 4] = ["cargo", "rustc", "rustdoc", "rustup"];

/// The sink, in front of the next one.
pub(crate) struct Programs<'a, N> {
    next: &'a mut N,
    folder: &'a Path,
    names: &'a Names,
    /// Let through what else there is, too.
    all: bool,
    /// With the note of those that cargo started itself.
    programs: HashMap<Pid, Option<Note>>,
    left_out: u64,
    seen: u64,
}

impl<'a, N: EventSink> Programs<'a, N> {
    pub(crate) fn new(next: &'a mut N, folder: &'a Path, names: &'a Names, all: bool) -> Self {
        Programs {
            next,
            folder,
            names,
            all,
            programs: HashMap::new(),
            left_out: 0,
            seen: 0,
        }
    }

    /// Samples that did not get through.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Programs that cargo ran.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    fn passes(&self, pid: Pid) -> bool {
        self.all || self.programs.contains_key(&pid)
    }

    /// A process has another program. What a runner becomes is told as a process that starts now: what it was before is none
    /// of the program's.
    fn on_exec(&mut self, time: Timestamp, pid: Pid, name: &str) {
        if name != runner::NAME
            && let Some(note) = runner::take_note(self.folder, pid.0)
        {
            self.seen += 1;
            if !self.passes(pid) {
                let tid = Tid(pid.0);
                self.next.on_event(&Event::ProcessStart {
                    time,
                    pid,
                    parent: None,
                });
                self.next.on_event(&Event::ThreadStart { time, pid, tid });
            }
            self.programs.insert(pid, Some(note));
        }
        // Criterion asks `cargo metadata` where to write; trybuild compiles. That is work of cargo's again.
        if !self.all && matches!(self.programs.get(&pid), Some(None)) && BUILDERS.contains(&name) {
            self.programs.remove(&pid);
            self.next.on_event(&Event::ProcessEnd { time, pid });
        }
        if !self.passes(pid) {
            return;
        }
        let own_name = match self.programs.get(&pid) {
            // A runner of the user's stands for the program that it is to run.
            Some(Some(note)) => self.names.of(note, name),
            _ => name.to_owned(),
        };
        self.next.on_event(&Event::Exec {
            time,
            pid,
            name: &own_name,
        });
    }
}

impl<N: EventSink> EventSink for Programs<'_, N> {
    fn on_event(&mut self, event: &Event<'_>) {
        let pid = match event {
            Event::ProcessStart { pid, parent, .. } => {
                if parent.is_some_and(|parent| self.programs.contains_key(&parent)) {
                    self.programs.insert(*pid, None);
                }
                *pid
            }
            Event::Exec { time, pid, name } => return self.on_exec(*time, *pid, name),
            Event::ProcessEnd { pid, .. } => {
                if self.programs.remove(pid).is_some() || self.all {
                    self.next.on_event(event);
                }
                return;
            }
            Event::Sample(sample) => {
                self.left_out += u64::from(sample.role == Role::Running && !self.passes(sample.pid));
                sample.pid
            }
            Event::Map(mapping) => mapping.pid,
            Event::InitialState(state) => state.pid,
            Event::Counter(reading) => reading.pid,
            Event::ThreadStart { pid, .. }
            | Event::ThreadEnd { pid, .. }
            | Event::ThreadName { pid, .. }
            | Event::Image { pid, .. }
            | Event::SwitchOut { pid, .. }
            | Event::SwitchIn { pid, .. } => *pid,
            Event::Lost { .. } | Event::Throttled { .. } | Event::Malformed { .. } => {
                self.next.on_event(event);
                return;
            }
        };
        if self.passes(pid) {
            self.next.on_event(event);
        }
    }
}
