//! Passes on the events of the programs that cargo runs, and of their children. Events of cargo, rustc, linkers and
//! build scripts end here, before their stacks are unwound.

use std::collections::HashMap;
use std::path::Path;

use recording::clock::Timestamp;
use recording::event::{Event, EventKind, Pid, ProcessEvent, Role, Thread, ThreadEvent};
use recording::sink::{Completion, EventSink};

use super::names::Names;
use super::runner::{self, Note};

/// Programs that belong to cargo, also where a benchmark or test starts them.
pub(crate) const BUILDERS: [&str; 4] = ["cargo", "rustc", "rustdoc", "rustup"];

/// The sink, in front of the next one.
pub(crate) struct Programs<'a, N> {
    next: &'a mut N,
    folder: &'a Path,
    names: &'a Names,
    /// Also pass on the events of all other processes.
    all: bool,
    /// Recorded processes, with the note of those that cargo started itself.
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

    /// Samples that were not passed on.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    fn passes(&self, pid: Pid) -> bool {
        self.all || self.programs.contains_key(&pid)
    }

    /// Handles an exec. The program of a runner is passed on as a process that starts now: the runner before it is not
    /// part of the program.
    fn on_exec(&mut self, time: Timestamp, pid: Pid, name: &str) {
        if name != runner::NAME
            && let Some(note) = runner::take_note(self.folder, pid.0)
        {
            self.seen += 1;
            if !self.passes(pid) {
                let start = ProcessEvent::Start { parent: None };
                self.next.on_event(&Event::process(time, pid, start));
                self.next
                    .on_event(&Event::thread(time, Thread::main(pid), ThreadEvent::Start));
            }
            self.programs.insert(pid, Some(note));
        }
        // Criterion runs `cargo metadata`, trybuild runs compilers: that work belongs to cargo.
        if !self.all && matches!(self.programs.get(&pid), Some(None)) && BUILDERS.contains(&name) {
            self.programs.remove(&pid);
            self.next.on_event(&Event::process(time, pid, ProcessEvent::End));
        }
        if !self.passes(pid) {
            return;
        }
        let own_name = match self.programs.get(&pid) {
            // The user's own runner is named after the program that it runs.
            Some(Some(note)) => self.names.of(note, name),
            _ => name.to_owned(),
        };
        self.next
            .on_event(&Event::process(time, pid, ProcessEvent::Exec(&own_name)));
    }
}

impl<N: EventSink> EventSink for Programs<'_, N> {
    fn end_round(&mut self, until: Timestamp) -> Completion {
        self.next.end_round(until)
    }

    fn on_event(&mut self, event: &Event<'_>) {
        let Some(pid) = event.pid() else {
            return self.next.on_event(event);
        };
        match event.kind {
            EventKind::Process(_, ProcessEvent::Start { parent: Some(parent) })
                if self.programs.contains_key(&parent) =>
            {
                self.programs.insert(pid, None);
            }
            EventKind::Process(_, ProcessEvent::Exec(name)) => return self.on_exec(event.time, pid, name),
            EventKind::Process(_, ProcessEvent::End) => {
                if self.programs.remove(&pid).is_some() || self.all {
                    self.next.on_event(event);
                }
                return;
            }
            EventKind::Thread(_, ThreadEvent::Sample(sample)) => {
                self.left_out += u64::from(sample.role == Role::Running && !self.passes(pid));
            }
            _ => {}
        }
        if self.passes(pid) {
            self.next.on_event(event);
        }
    }
}
