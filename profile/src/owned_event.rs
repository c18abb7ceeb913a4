//! Events other than samples and switches, without borrowed parts.

use recording::counter::Counter;
use recording::event::{BpfProgram, EventKind, InitialState, Pid, ProcessEvent, RecordingEvent, Thread, ThreadEvent};
use recording::module::Image;
use recording::outbox::OwnedMapping;
use recording::span::Span;

/// An event without its time. An [`EventKind`] has room for a sample, which is four times as large.
#[derive(Clone, Debug)]
pub(crate) enum OwnedEvent {
    Recording(RecordingEvent),
    /// The program without its name, and the name.
    Bpf(Box<(BpfProgram<'static>, Box<str>)>),
    Start(Pid, Option<Pid>),
    End(Pid),
    Exec(Pid, Box<str>),
    Map(Pid, Box<OwnedMapping>),
    Image(Pid, Image),
    Title(Pid, Box<str>),
    Plot(Pid, Box<str>, f64),
    Counter(Pid, Counter, u64),
    ThreadStart(Thread),
    ThreadEnd(Thread),
    Name(Thread, Box<str>),
    InitialState(Thread, Box<InitialState>),
    Freed(Thread, u64),
    /// As [`Span::put`] writes it.
    Span(Thread, Box<[u8]>),
}

impl OwnedEvent {
    /// `None` for samples and switches: these are many, and kept as bytes.
    pub(crate) fn new(kind: &EventKind<'_>) -> Option<OwnedEvent> {
        Some(match *kind {
            EventKind::Recording(what) => OwnedEvent::Recording(what),
            EventKind::Bpf(program) => {
                OwnedEvent::Bpf(Box::new((BpfProgram { name: "", ..program }, program.name.into())))
            }
            EventKind::Process(pid, what) => match what {
                ProcessEvent::Start { parent } => OwnedEvent::Start(pid, parent),
                ProcessEvent::End => OwnedEvent::End(pid),
                ProcessEvent::Exec(name) => OwnedEvent::Exec(pid, name.into()),
                ProcessEvent::Map(mapping) => OwnedEvent::Map(pid, Box::new(mapping.into())),
                ProcessEvent::Image(image) => OwnedEvent::Image(pid, image.clone()),
                ProcessEvent::Title(title) => OwnedEvent::Title(pid, title.into()),
                ProcessEvent::Plot(name, value) => OwnedEvent::Plot(pid, name.into(), value),
                ProcessEvent::Counter(counter, value) => OwnedEvent::Counter(pid, counter, value),
            },
            EventKind::Thread(thread, what) => match what {
                ThreadEvent::Start => OwnedEvent::ThreadStart(thread),
                ThreadEvent::End => OwnedEvent::ThreadEnd(thread),
                ThreadEvent::Name(name) => OwnedEvent::Name(thread, name.into()),
                ThreadEvent::InitialState(state) => OwnedEvent::InitialState(thread, Box::new(state)),
                ThreadEvent::Freed { address } => OwnedEvent::Freed(thread, address),
                ThreadEvent::Span(span) => {
                    let mut bytes = Vec::new();
                    span.put(&mut bytes);
                    OwnedEvent::Span(thread, bytes.into())
                }
                ThreadEvent::Sample(_) | ThreadEvent::SwitchOut { .. } | ThreadEvent::SwitchIn => return None,
            },
        })
    }

    /// Calls `each` with the event.
    pub(crate) fn with(&self, each: impl FnOnce(EventKind<'_>)) {
        let mapping;
        each(match self {
            OwnedEvent::Recording(what) => EventKind::Recording(*what),
            OwnedEvent::Bpf(owned) => EventKind::Bpf(BpfProgram {
                name: &owned.1,
                ..owned.0
            }),
            OwnedEvent::Start(pid, parent) => EventKind::Process(*pid, ProcessEvent::Start { parent: *parent }),
            OwnedEvent::End(pid) => EventKind::Process(*pid, ProcessEvent::End),
            OwnedEvent::Exec(pid, name) => EventKind::Process(*pid, ProcessEvent::Exec(name)),
            OwnedEvent::Map(pid, owned) => {
                mapping = owned.as_mapping();
                EventKind::Process(*pid, ProcessEvent::Map(&mapping))
            }
            OwnedEvent::Image(pid, image) => EventKind::Process(*pid, ProcessEvent::Image(image)),
            OwnedEvent::Title(pid, title) => EventKind::Process(*pid, ProcessEvent::Title(title)),
            OwnedEvent::Plot(pid, name, value) => EventKind::Process(*pid, ProcessEvent::Plot(name, *value)),
            OwnedEvent::Counter(pid, counter, value) => {
                EventKind::Process(*pid, ProcessEvent::Counter(*counter, *value))
            }
            OwnedEvent::ThreadStart(thread) => EventKind::Thread(*thread, ThreadEvent::Start),
            OwnedEvent::ThreadEnd(thread) => EventKind::Thread(*thread, ThreadEvent::End),
            OwnedEvent::Name(thread, name) => EventKind::Thread(*thread, ThreadEvent::Name(name)),
            OwnedEvent::InitialState(thread, state) => EventKind::Thread(*thread, ThreadEvent::InitialState(**state)),
            OwnedEvent::Freed(thread, address) => EventKind::Thread(*thread, ThreadEvent::Freed { address: *address }),
            OwnedEvent::Span(thread, bytes) => match Span::take(&mut &bytes[..]) {
                Some(span) => EventKind::Thread(*thread, ThreadEvent::Span(span)),
                // What was put in is there.
                None => return,
            },
        });
    }
}
