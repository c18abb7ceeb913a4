//! Events that change the frames of stacks, or the thread of a sample.

use recording::counter::Counter;
use recording::event::{EventKind, Mapping, Pid, ProcessEvent, Thread, ThreadEvent};
use recording::module::Image;

/// An event without borrowed parts.
#[derive(Clone, Debug)]
pub(in super::super) enum OwnedEvent {
    Start(Pid, Pid),
    End(Pid),
    Exec(Pid, Box<str>),
    Code { pid: Pid, start: u64, len: u64 },
    Image(Pid, Image),
    Counter(Pid, Counter, u64),
    ThreadStart(Thread),
    ThreadEnd(Thread),
    Name(Thread, Box<str>),
    Title(Pid, Box<str>),
    Freed(Thread, u64),
}

impl OwnedEvent {
    /// `None` for an event that can't wait.
    pub(in super::super) fn from_event(event: &EventKind<'_>) -> Option<OwnedEvent> {
        Some(match *event {
            EventKind::Process(pid, what) => match what {
                ProcessEvent::Start { parent } => OwnedEvent::Start(pid, parent?),
                ProcessEvent::End => OwnedEvent::End(pid),
                ProcessEvent::Exec(name) => OwnedEvent::Exec(pid, name.into()),
                ProcessEvent::Map(&Mapping { start, len, .. }) => OwnedEvent::Code { pid, start, len },
                ProcessEvent::Image(image) => OwnedEvent::Image(pid, image.clone()),
                ProcessEvent::Title(title) => OwnedEvent::Title(pid, title.into()),
                ProcessEvent::Plot(..) => return None,
                ProcessEvent::Counter(counter, value) => OwnedEvent::Counter(pid, counter, value),
            },
            EventKind::Thread(thread, what) => match what {
                ThreadEvent::Start => OwnedEvent::ThreadStart(thread),
                ThreadEvent::End => OwnedEvent::ThreadEnd(thread),
                ThreadEvent::Name(name) => OwnedEvent::Name(thread, name.into()),
                ThreadEvent::Freed { address } => OwnedEvent::Freed(thread, address),
                _ => return None,
            },
            EventKind::Recording(_) | EventKind::Bpf(_) => return None,
        })
    }

    /// True if what threads remember of their last stacks stays as it is.
    pub(super) fn keeps_stacks(&self) -> bool {
        matches!(
            self,
            OwnedEvent::Counter(..) | OwnedEvent::Name(..) | OwnedEvent::Title(..) | OwnedEvent::Freed(..)
        )
    }
}
