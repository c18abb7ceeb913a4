//! The bytes of samples that wait.
//!
//! A sample is a byte of flags, and what differs from the sample before, as [`sample_bytes`](recording::sample_bytes)
//! has it; how many of its rootmost frames are those of the thread's stack before; and the other frames, as
//! [`frame_bytes`](recording::frame_bytes) has them. A sample of rustc has some 30 bytes.

use std::collections::VecDeque;

use recording::event::{Allocation, Sample, Thread};
use recording::frame_bytes::{put_others, take_frames};
use recording::sample_bytes::SampleHeader;
use recording::stack::{Frame, StackMark};
use recording::varint::{put, take};

use super::owned_event::OwnedEvent;

/// Events in order.
#[derive(Clone, Default)]
pub(in super::super) struct QueueBlock {
    samples: Vec<u8>,
    /// Events other than samples: the end of the samples before the event, its time, and the event.
    others: VecDeque<(usize, i64, OwnedEvent)>,
    /// The blocks of samples that are of one, in their order.
    allocations: VecDeque<Allocation>,
    marks: Vec<StackMark>,
    last: SampleHeader,
}

/// An event that waited.
pub(in super::super) enum QueuedEvent {
    /// A sample of a running thread, or of a block of memory.
    Sample(QueuedSample),
    Other(OwnedEvent),
}

/// A sample that waited.
#[derive(Debug)]
pub(in super::super) struct QueuedSample {
    pub(in super::super) header: SampleHeader,
    /// The block of memory, if it is a sample of one.
    pub(in super::super) allocation: Option<Allocation>,
    /// Number of its rootmost frames that are those of the thread's stack before.
    pub(in super::super) kept: usize,
}

/// The number in the place of an event's, of samples of blocks of memory. Named events do not wait here.
const OF_BLOCK: u64 = 1;

impl QueueBlock {
    /// A block that has its memory: while a buffer grows, twice as much is in use.
    pub(super) fn with_capacity(bytes: usize) -> QueueBlock {
        QueueBlock {
            samples: Vec::with_capacity(bytes),
            ..QueueBlock::default()
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.samples.is_empty() && self.others.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.samples.len()
            + self.others.len() * size_of::<(usize, i64, OwnedEvent)>()
            + self.allocations.len() * size_of::<Allocation>()
    }

    pub(super) fn push(&mut self, at: i64, event: OwnedEvent) {
        self.others.push_back((self.samples.len(), at, event));
    }

    /// Appends a sample with these frames, leaf first. The `kept` rootmost ones are those of the thread's stack before.
    pub(super) fn push_sample(&mut self, at: i64, thread: Thread, sample: &Sample<'_>, kept: usize, frames: &[Frame]) {
        let header = SampleHeader {
            time: at.cast_unsigned(),
            thread,
            event: if sample.allocation.is_some() { OF_BLOCK } else { 0 },
            cpu: sample.cpu,
            period: sample.period,
        };
        self.allocations.extend(sample.allocation);
        let out = &mut self.samples;
        put(out, u64::from(header.flags(&self.last)));
        header.put(&self.last, out);
        put(out, kept as u64);
        let marks = &mut self.marks;
        put_others(out, frames, kept, sample.same, |mark| {
            let known = marks.iter().position(|known| *known == mark);
            let index = known.unwrap_or_else(|| {
                marks.push(mark);
                marks.len() - 1
            });
            index as u64
        });
        self.last = header;
    }

    /// Hands over all events with their times, and a sample with the frames that did not stay, leaf first.
    pub(in super::super) fn take_all(mut self, mut each: impl FnMut(i64, QueuedEvent, &[Frame])) {
        let samples = std::mem::take(&mut self.samples);
        let mut rest = samples.as_slice();
        let mut header = SampleHeader::default();
        let mut frames = Vec::new();
        loop {
            let done = samples.len() - rest.len();
            while let Some((_, at, event)) = self.others.pop_front_if(|(before, _, _)| *before <= done) {
                each(at, QueuedEvent::Other(event), &[]);
            }
            // What was put in is there.
            let Some(kept) = self.take_sample(&mut rest, &mut header, &mut frames) else {
                debug_assert_eq!((done, self.others.len()), (samples.len(), 0), "all was taken");
                return;
            };
            let is_of_block = header.event == OF_BLOCK;
            let sample = QueuedSample {
                header,
                allocation: is_of_block.then(|| self.allocations.pop_front()).flatten(),
                kept,
            };
            each(header.time.cast_signed(), QueuedEvent::Sample(sample), &frames);
        }
    }

    fn take_sample(&self, rest: &mut &[u8], header: &mut SampleHeader, frames: &mut Vec<Frame>) -> Option<usize> {
        let flags = u16::try_from(take(rest)?).ok()?;
        header.take_next(flags, rest)?;
        let kept = take(rest)?;
        frames.clear();
        let mark = |index| self.marks.get(usize::try_from(index).ok()?).copied();
        take_frames(rest, mark, |frame| frames.extend(frame))?;
        frames.reverse();
        usize::try_from(kept).ok()
    }
}

#[cfg(test)]
mod tests {
    use recording::address::Avma;
    use recording::event::{Pid, Role};
    use recording::stack::Stack;

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
        let mut block = QueueBlock::default();
        let mut given = Vec::new();
        for round in 0..40 {
            if round % 7 < 2 {
                block.push(round, OwnedEvent::End(Pid(round as i32)));
                given.push(format!("{round} {:?}", OwnedEvent::End(Pid(round as i32))));
            }
            let frames = &stacks[round as usize % stacks.len()];
            let kept = round as usize * 100;
            let time = if round % 3 == 0 { i64::MIN / 2 } else { i64::MAX / 2 };
            let waiting = SampleHeader {
                time: time.cast_unsigned(),
                thread: Thread::new(-(round as i32 / 3), round as i32 / 2),
                event: u64::from(round % 4 == 0),
                cpu: round as u32 / 4,
                period: if round % 5 == 0 { u64::MAX } else { 1 },
            };
            let allocation = Allocation {
                address: round as u64,
                size: 1,
                interval: 1,
            };
            let allocation = (waiting.event == 1).then_some(allocation);
            let sample = Sample {
                cpu: waiting.cpu,
                allocation: allocation.as_ref(),
                ..Sample::new(Role::Running, waiting.period, Stack::Frames(&[]))
            };
            let rootmost = vec![Frame::ReturnAddress(Avma(7)); kept];
            let all = [&frames[..], &rootmost[..]].concat();
            block.push_sample(time, waiting.thread, &sample, kept, &all);
            given.push(format!("{time} {waiting:?} {allocation:?} {kept} {frames:?}"));
        }
        block.push(1, OwnedEvent::End(Pid(1)));
        given.push(format!("1 {:?}", OwnedEvent::End(Pid(1))));
        let mut taken = Vec::new();
        block.take_all(|at, what, frames| {
            taken.push(match what {
                QueuedEvent::Sample(QueuedSample {
                    header,
                    allocation,
                    kept,
                }) => format!("{at} {header:?} {allocation:?} {kept} {frames:?}"),
                QueuedEvent::Other(event) => format!("{at} {event:?}"),
            });
        });
        assert_eq!(taken, given);
    }
}
