//! The events of a part of the window. Most are samples and switches, and these are kept as bytes.
//!
//! Such an event is the number of flags and what differs from the event before, as
//! [`sample_bytes`](recording::sample_bytes) has it; a sample also has the number of its rootmost frames that are those
//! of the thread's sample before, and the other frames, as [`frame_bytes`](recording::frame_bytes) has them.

use recording::clock::Timestamp;
use recording::event::{
    Allocation, BpfProgram, Event, EventKind, EventValue, Pid, ProcessEvent, Role, Sample, Thread, ThreadEvent,
};
use recording::frame_bytes::{put_others, take_frames};
use recording::module::Image;
use recording::outbox::{Message, OwnedMapping};
use recording::sample_bytes::SampleHeader;
use recording::sink::{Completion, EventSink};
use recording::span::Span;
use recording::stack::{Frame, SameFrames, Stack, StackMark};
use recording::varint::{put, take};
use rustc_hash::FxHashMap;

use super::living::Living;

/// Kinds of events, in the place of a sample's event. A sample has its role and [`SAMPLE`], and its event above.
const OTHER: u64 = 0;
const SWITCH_IN: u64 = 1;
const SWITCH_OUT: u64 = 2;
const PREEMPTED: u64 = 3;
const SAMPLE: u64 = 4;
const ROLES: [Role; 6] = [
    Role::Running,
    Role::WaitStack,
    Role::Wait,
    Role::Counted,
    Role::Point,
    Role::Allocation,
];
const EVENT_SHIFT: u32 = 8;

/// Events in order.
#[derive(Default)]
pub(super) struct Segment {
    /// What lived before them, if that was noted.
    pub(super) living: Option<Living>,
    start: Option<Timestamp>,
    bytes: Vec<u8>,
    others: Vec<OtherEvent>,
    marks: Vec<StackMark>,
    last: SampleHeader,
    /// The number of the last stack of each thread.
    numbers: FxHashMap<Thread, u64>,
}

/// An event that owns its data, or what a sample has beside its stack.
enum OtherEvent {
    Message(Message),
    Image(Timestamp, Pid, Image),
    Plot(Timestamp, Pid, Box<str>, f64),
    Span(Timestamp, Thread, Box<[u8]>),
    Bpf(Timestamp, u64, u64, Box<str>, bool),
    Values(Box<[EventValue<'static>]>),
    Block(Allocation),
}

impl Segment {
    pub(super) fn new(living: Option<Living>) -> Segment {
        Segment {
            living,
            ..Segment::default()
        }
    }

    /// The time of its first event.
    pub(super) fn start(&self) -> Option<Timestamp> {
        self.start
    }

    pub(super) fn push(&mut self, event: &Event<'_>) {
        self.start.get_or_insert(event.time);
        let kind = match event.kind {
            EventKind::Thread(thread, ThreadEvent::Sample(sample)) => return self.sample(event.time, thread, &sample),
            EventKind::Thread(_, ThreadEvent::SwitchIn) => SWITCH_IN,
            EventKind::Thread(_, ThreadEvent::SwitchOut { preempted: false }) => SWITCH_OUT,
            EventKind::Thread(_, ThreadEvent::SwitchOut { preempted: true }) => PREEMPTED,
            _ => OTHER,
        };
        let thread = match event.kind {
            EventKind::Thread(thread, _) if kind != OTHER => thread,
            _ => self.last.thread,
        };
        if kind == OTHER {
            self.others.push(OtherEvent::from(event));
        }
        self.header(SampleHeader {
            time: event.time.0,
            thread,
            event: kind,
            ..self.last
        });
    }

    fn header(&mut self, header: SampleHeader) {
        put(&mut self.bytes, u64::from(header.flags(&self.last)));
        header.put(&self.last, &mut self.bytes);
        self.last = header;
    }

    fn sample(&mut self, time: Timestamp, thread: Thread, sample: &Sample<'_>) {
        // Samples of no other role come out of the unwinder.
        let Some(role) = ROLES.iter().position(|role| *role == sample.role) else {
            return;
        };
        self.header(SampleHeader {
            time: time.0,
            thread,
            event: (SAMPLE + role as u64) | u64::from(sample.event) << EVENT_SHIFT,
            cpu: sample.cpu,
            period: sample.period,
        });
        let mut with_mark = Vec::new();
        let (frames, same) = match sample.stack {
            Stack::Frames(frames) => (frames, sample.same),
            Stack::Missing { kernel, reason } => {
                with_mark.extend_from_slice(kernel);
                with_mark.push(Frame::Mark(StackMark::Missing(reason)));
                (&with_mark[..], None)
            }
            // After the unwinder there are none.
            Stack::Snapshot(snapshot) => (snapshot.kernel, None),
        };
        let before = self
            .numbers
            .insert(thread, SameFrames::number(same))
            .unwrap_or_default();
        let kept = SameFrames::with(same, before).min(frames.len());
        put(&mut self.bytes, kept as u64);
        let marks = &mut self.marks;
        put_others(&mut self.bytes, frames, kept, same, |mark| {
            let known = marks.iter().position(|known| *known == mark);
            let index = known.unwrap_or_else(|| {
                marks.push(mark);
                marks.len() - 1
            });
            index as u64
        });
        match sample.role {
            Role::Point => {
                let values = sample.values.iter().map(|value| match value {
                    EventValue::Unsigned(value) => EventValue::Unsigned(*value),
                    EventValue::Signed(value) => EventValue::Signed(*value),
                    EventValue::Address(value) => EventValue::Address(*value),
                    EventValue::Text(text) => EventValue::Text(text.clone().into_owned().into()),
                });
                self.others.push(OtherEvent::Values(values.collect()));
            }
            Role::Allocation => self.others.extend(sample.allocation.copied().map(OtherEvent::Block)),
            _ => {}
        }
    }

    /// Hands over all events in their order.
    pub(super) fn send(&self, mut each: impl FnMut(&Event<'_>)) {
        let (mut rest, mut others) = (&self.bytes[..], self.others.iter());
        let mut header = SampleHeader::default();
        let mut stacks: FxHashMap<Thread, Vec<Frame>> = FxHashMap::default();
        let mut frames = Vec::new();
        // What was put in is there.
        while let Some(flags) = take(&mut rest).and_then(|flags| u16::try_from(flags).ok())
            && header.take_next(flags, &mut rest).is_some()
        {
            let time = Timestamp(header.time);
            let what = match header.event {
                OTHER => {
                    others.next().iter().for_each(|other| other.send(&mut each));
                    continue;
                }
                SWITCH_IN => ThreadEvent::SwitchIn,
                SWITCH_OUT | PREEMPTED => ThreadEvent::SwitchOut {
                    preempted: header.event == PREEMPTED,
                },
                sample => {
                    let role = (sample & ((1 << EVENT_SHIFT) - 1)).saturating_sub(SAMPLE);
                    let role = ROLES.get(role as usize).copied().unwrap_or(Role::Running);
                    let stack = stacks.entry(header.thread).or_default();
                    stack.truncate(take(&mut rest).unwrap_or_default() as usize);
                    let mark = |index| self.marks.get(usize::try_from(index).ok()?).copied();
                    if take_frames(&mut rest, mark, |frame| stack.extend(frame)).is_none() {
                        return;
                    }
                    frames.clear();
                    frames.extend(stack.iter().rev());
                    let beside = match role {
                        Role::Point | Role::Allocation => others.next(),
                        _ => None,
                    };
                    let sample = Sample {
                        cpu: header.cpu,
                        event: (sample >> EVENT_SHIFT) as u32,
                        values: match beside {
                            Some(OtherEvent::Values(values)) => &values[..],
                            _ => &[],
                        },
                        allocation: match beside {
                            Some(OtherEvent::Block(block)) => Some(block),
                            _ => None,
                        },
                        ..Sample::new(role, header.period, Stack::Frames(&frames))
                    };
                    each(&Event::sample(time, header.thread, sample));
                    continue;
                }
            };
            each(&Event::thread(time, header.thread, what));
        }
    }
}

impl From<&Event<'_>> for OtherEvent {
    fn from(event: &Event<'_>) -> OtherEvent {
        let time = event.time;
        let message = match event.kind {
            EventKind::Recording(what) => Message::Event(Event::recording(time, what)),
            EventKind::Bpf(program) => {
                return OtherEvent::Bpf(time, program.start, program.len, program.name.into(), program.is_loaded);
            }
            EventKind::Process(pid, what) => match what {
                ProcessEvent::Start { parent } => {
                    Message::Event(Event::process(time, pid, ProcessEvent::Start { parent }))
                }
                ProcessEvent::End => Message::Event(Event::process(time, pid, ProcessEvent::End)),
                ProcessEvent::Counter(counter, value) => {
                    Message::Event(Event::process(time, pid, ProcessEvent::Counter(counter, value)))
                }
                ProcessEvent::Exec(name) => Message::Exec {
                    time,
                    pid,
                    name: name.to_owned(),
                },
                ProcessEvent::Title(title) => Message::Title {
                    time,
                    pid,
                    title: title.to_owned(),
                },
                ProcessEvent::Map(mapping) => Message::Map {
                    time,
                    pid,
                    code: OwnedMapping::from(mapping),
                },
                ProcessEvent::Image(image) => return OtherEvent::Image(time, pid, image.clone()),
                ProcessEvent::Plot(name, value) => return OtherEvent::Plot(time, pid, name.into(), value),
            },
            EventKind::Thread(thread, what) => match what {
                ThreadEvent::Name(name) => Message::ThreadName {
                    time,
                    thread,
                    name: name.to_owned(),
                },
                ThreadEvent::Span(span) => {
                    let mut bytes = Vec::new();
                    span.put(&mut bytes);
                    return OtherEvent::Span(time, thread, bytes.into());
                }
                ThreadEvent::InitialState(state) => {
                    Message::Event(Event::thread(time, thread, ThreadEvent::InitialState(state)))
                }
                ThreadEvent::Freed { address } => {
                    Message::Event(Event::thread(time, thread, ThreadEvent::Freed { address }))
                }
                ThreadEvent::End => Message::Event(Event::thread(time, thread, ThreadEvent::End)),
                // Samples and switches are bytes.
                ThreadEvent::Start | ThreadEvent::Sample(_) | ThreadEvent::SwitchOut { .. } | ThreadEvent::SwitchIn => {
                    Message::Event(Event::thread(time, thread, ThreadEvent::Start))
                }
            },
        };
        OtherEvent::Message(message)
    }
}

impl OtherEvent {
    fn send(&self, each: &mut impl FnMut(&Event<'_>)) {
        match self {
            OtherEvent::Message(message) => message.deliver(&mut FunctionSink(each)),
            OtherEvent::Image(time, pid, image) => each(&Event::process(*time, *pid, ProcessEvent::Image(image))),
            OtherEvent::Plot(time, pid, name, value) => {
                each(&Event::process(*time, *pid, ProcessEvent::Plot(name, *value)));
            }
            OtherEvent::Span(time, thread, bytes) => {
                if let Some(span) = Span::take(&mut &bytes[..]) {
                    each(&Event::thread(*time, *thread, ThreadEvent::Span(span)));
                }
            }
            OtherEvent::Bpf(time, start, len, name, is_loaded) => {
                let program = BpfProgram {
                    start: *start,
                    len: *len,
                    name,
                    is_loaded: *is_loaded,
                };
                each(&Event::bpf(*time, program));
            }
            // They come with their sample.
            OtherEvent::Values(_) | OtherEvent::Block(_) => {}
        }
    }
}

/// A function as a sink.
struct FunctionSink<'a, F>(&'a mut F);

impl<F: FnMut(&Event<'_>)> EventSink for FunctionSink<'_, F> {
    fn on_event(&mut self, event: &Event<'_>) {
        (self.0)(event);
    }

    fn end_round(&mut self, _: Timestamp) -> Completion {
        Completion::default()
    }
}
