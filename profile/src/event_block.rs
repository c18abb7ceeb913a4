//! Events as bytes: those that wait for the builder, and those of the last seconds.
//!
//! A sample or a switch is the number of flags and what differs from the event before, as
//! [`sample_bytes`](recording::sample_bytes) has it. A sample also has the number of its rootmost frames that are those
//! of the thread's stack before, and the other frames, as [`frame_bytes`](recording::frame_bytes) has them. A sample of
//! rustc has some 30 bytes. Other events are few, and stand beside the bytes.

use recording::event::{Allocation, EventKind, EventValue, Role, Sample, Thread, ThreadEvent};
use recording::frame_bytes::{put_others, take_frames};
use recording::sample_bytes::SampleHeader;
use recording::stack::{Frame, SameFrames, Stack, StackMark};
use recording::varint::{put, take};
use rustc_hash::FxHashMap;

use crate::owned_event::OwnedEvent;

/// Kinds of events, in the place of a sample's event. A sample has [`SAMPLE`] and the index of its role, and the event
/// that the user named above.
const OTHER: u64 = 0;
const SWITCH_IN: u64 = 1;
const SWITCH_OUT: u64 = 2;
const PREEMPTED: u64 = 3;
const SAMPLE: u64 = 4;
const EVENT_SHIFT: u32 = 8;
/// The roles that samples have.
const ROLES: [Role; 6] = [
    Role::Running,
    Role::WaitStack,
    Role::Wait,
    Role::Counted,
    Role::Point,
    Role::Allocation,
];

/// Events in order. Times are numbers of any clock.
#[derive(Clone, Default)]
pub(crate) struct EventBlock {
    bytes: Vec<u8>,
    others: Vec<OwnedEvent>,
    /// Of samples of blocks of memory.
    allocations: Vec<Option<Allocation>>,
    /// Of samples of points.
    values: Vec<Box<[EventValue<'static>]>>,
    marks: Vec<StackMark>,
    last: SampleHeader,
}

/// An event of a block.
pub(crate) enum BlockEvent<'a> {
    Sample(BlockSample<'a>),
    Other(EventKind<'a>),
}

/// A sample of a block.
#[derive(Debug)]
pub(crate) struct BlockSample<'a> {
    pub(crate) thread: Thread,
    /// Without its stack.
    pub(crate) sample: Sample<'a>,
    /// Number of its rootmost frames that are those of the thread's stack before.
    pub(crate) kept: usize,
    /// Its other frames, leaf first.
    pub(crate) leafward: &'a [Frame],
}

impl EventBlock {
    /// A block that has its memory: while a buffer grows, twice as much is in use.
    pub(crate) fn with_capacity(bytes: usize) -> EventBlock {
        EventBlock {
            bytes: Vec::with_capacity(bytes),
            ..EventBlock::default()
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Approximate size.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len() + size_of_val(&self.others[..]) + size_of_val(&self.allocations[..])
    }

    /// Appends an event other than a sample.
    pub(crate) fn push(&mut self, time: u64, kind: &EventKind<'_>) {
        let (thread, event) = match *kind {
            EventKind::Thread(thread, ThreadEvent::SwitchIn) => (thread, SWITCH_IN),
            EventKind::Thread(thread, ThreadEvent::SwitchOut { preempted: false }) => (thread, SWITCH_OUT),
            EventKind::Thread(thread, ThreadEvent::SwitchOut { preempted: true }) => (thread, PREEMPTED),
            _ => {
                let Some(other) = OwnedEvent::new(kind) else { return };
                self.others.push(other);
                (self.last.thread, OTHER)
            }
        };
        self.push_header(SampleHeader {
            time,
            thread,
            event,
            ..self.last
        });
    }

    /// Appends a sample with these frames, leaf first. `numbers`: the number of the last stack of each thread.
    pub(crate) fn push_sample(
        &mut self,
        time: u64,
        thread: Thread,
        sample: &Sample<'_>,
        frames: &[Frame],
        numbers: &mut FxHashMap<Thread, u64>,
    ) {
        let Some(role) = ROLES.iter().position(|role| *role == sample.role) else {
            return;
        };
        self.push_header(SampleHeader {
            time,
            thread,
            event: (SAMPLE + role as u64) | u64::from(sample.event) << EVENT_SHIFT,
            cpu: sample.cpu,
            period: sample.period,
        });
        let before = numbers.insert(thread, SameFrames::number(sample.same));
        let kept = SameFrames::with(sample.same, before.unwrap_or_default()).min(frames.len());
        put(&mut self.bytes, kept as u64);
        let marks = &mut self.marks;
        put_others(&mut self.bytes, frames, kept, sample.same, |mark| {
            let known = marks.iter().position(|known| *known == mark);
            let index = known.unwrap_or_else(|| {
                marks.push(mark);
                marks.len() - 1
            });
            index as u64
        });
        match sample.role {
            Role::Point => self.values.push(sample.values.iter().map(owned_value).collect()),
            Role::Allocation => self.allocations.push(sample.allocation.copied()),
            _ => {}
        }
    }

    fn push_header(&mut self, header: SampleHeader) {
        put(&mut self.bytes, u64::from(header.flags(&self.last)));
        header.put(&self.last, &mut self.bytes);
        self.last = header;
    }

    /// Hands over all events with their times.
    pub(crate) fn read(&self, mut each: impl FnMut(u64, BlockEvent<'_>)) {
        let mut rest = &self.bytes[..];
        let (mut others, mut values, mut allocations) =
            (self.others.iter(), self.values.iter(), self.allocations.iter());
        let mut header = SampleHeader::default();
        let mut leafward = Vec::new();
        // What was put in is there.
        while let Some(flags) = take(&mut rest).and_then(|flags| u16::try_from(flags).ok())
            && header.take_next(flags, &mut rest).is_some()
        {
            let (time, thread) = (header.time, header.thread);
            let switch = match header.event {
                OTHER => {
                    if let Some(other) = others.next() {
                        other.with(|kind| each(time, BlockEvent::Other(kind)));
                    }
                    continue;
                }
                SWITCH_IN => Some(ThreadEvent::SwitchIn),
                SWITCH_OUT => Some(ThreadEvent::SwitchOut { preempted: false }),
                PREEMPTED => Some(ThreadEvent::SwitchOut { preempted: true }),
                _ => None,
            };
            if let Some(switch) = switch {
                each(time, BlockEvent::Other(EventKind::Thread(thread, switch)));
                continue;
            }
            let role = (header.event & ((1 << EVENT_SHIFT) - 1)) - SAMPLE;
            let (Some(role), Some(kept)) = (ROLES.get(role as usize), self.take_stack(&mut rest, &mut leafward)) else {
                break;
            };
            let sample = Sample {
                cpu: header.cpu,
                event: (header.event >> EVENT_SHIFT) as u32,
                values: if *role == Role::Point {
                    values.next().map_or(&[][..], |values| &values[..])
                } else {
                    &[]
                },
                allocation: if *role == Role::Allocation {
                    allocations.next().and_then(Option::as_ref)
                } else {
                    None
                },
                ..Sample::new(*role, header.period, Stack::Frames(&[]))
            };
            let leafward = &leafward;
            each(
                time,
                BlockEvent::Sample(BlockSample {
                    thread,
                    sample,
                    kept,
                    leafward,
                }),
            );
        }
        debug_assert!(rest.is_empty() && others.next().is_none(), "all was read");
    }

    /// Takes the number of the frames that stay, and the other frames, leaf first.
    fn take_stack(&self, rest: &mut &[u8], leafward: &mut Vec<Frame>) -> Option<usize> {
        let kept = take(rest)?;
        leafward.clear();
        let mark = |index| self.marks.get(usize::try_from(index).ok()?).copied();
        take_frames(rest, mark, |frame| leafward.extend(frame))?;
        leafward.reverse();
        usize::try_from(kept).ok()
    }
}

fn owned_value(value: &EventValue<'_>) -> EventValue<'static> {
    match value {
        EventValue::Unsigned(value) => EventValue::Unsigned(*value),
        EventValue::Signed(value) => EventValue::Signed(*value),
        EventValue::Address(value) => EventValue::Address(*value),
        EventValue::Text(text) => EventValue::Text(text.clone().into_owned().into()),
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use recording::address::Avma;
    use recording::event::{Pid, ProcessEvent};

    use super::*;

    #[test]
    fn events_come_back_in_order_and_as_they_were() {
        // All kinds of frames are in the tests of `frame_bytes`.
        let stacks = [
            vec![Frame::InstructionPointer(Avma(9)), Frame::ReturnAddress(Avma(u64::MAX))],
            vec![
                Frame::Mark(StackMark::Unverified),
                Frame::Mark(StackMark::TruncatedDepth),
            ],
            Vec::new(),
        ];
        let values = [
            EventValue::Signed(-1),
            EventValue::Unsigned(u64::MAX),
            EventValue::Address(7),
            EventValue::Text(Cow::Borrowed("text")),
        ];
        let allocation = Allocation {
            address: 7,
            size: 1,
            interval: 1,
        };
        let mut block = EventBlock::default();
        let mut given = Vec::new();
        for round in 0..40u64 {
            let thread = Thread::new(-(round as i32 / 3), round as i32 / 2);
            let time = if round % 3 == 0 { u64::MAX } else { round };
            let others = [
                EventKind::Process(Pid(round as i32), ProcessEvent::End),
                EventKind::Thread(thread, ThreadEvent::SwitchIn),
                EventKind::Thread(
                    thread,
                    ThreadEvent::SwitchOut {
                        preempted: round % 2 == 0,
                    },
                ),
            ];
            for kind in &others[..round as usize % 4] {
                block.push(time, kind);
                given.push(format!("{time} {kind:?}"));
            }
            let leafward = &stacks[round as usize % stacks.len()];
            let role = ROLES[round as usize % ROLES.len()];
            let sample = Sample {
                cpu: round as u32 / 4,
                event: round as u32 % 2 * u32::MAX,
                values: if role == Role::Point { &values } else { &[] },
                allocation: Some(&allocation).filter(|_| role == Role::Allocation && round % 4 == 1),
                ..Sample::new(role, if round % 5 == 0 { u64::MAX } else { 1 }, Stack::Frames(&[]))
            };
            let kept = round as usize * 100;
            given.push(format!(
                "{time} {:?}",
                BlockSample {
                    thread,
                    sample,
                    kept,
                    leafward
                }
            ));
            let same = SameFrames {
                stack: 1,
                earlier: 1,
                frames: kept,
                others: None,
            };
            let sample = Sample {
                same: Some(same),
                ..sample
            };
            let all = [&leafward[..], &vec![Frame::ReturnAddress(Avma(7)); kept][..]].concat();
            block.push_sample(time, thread, &sample, &all, &mut FxHashMap::from_iter([(thread, 1)]));
        }
        let mut read = Vec::new();
        block.read(|time, event| {
            read.push(match event {
                BlockEvent::Sample(sample) => format!("{time} {sample:?}"),
                BlockEvent::Other(kind) => format!("{time} {kind:?}"),
            });
        });
        assert_eq!(read, given);
    }
}
