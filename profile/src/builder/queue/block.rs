//! The bytes of samples that wait.
//!
//! A sample is a byte of flags and numbers of variable length: its process and thread, CPU and period where they are
//! not those of the sample before it; its time, from the one before; how many frames stay; and the others, as
//! [`frame_bytes`](recording::frame_bytes) has them. A sample of rustc has some 30 bytes.

use std::collections::VecDeque;

use recording::event::{Sample, Thread};
use recording::frame_bytes::{put_others, take_frames};
use recording::stack::{Frame, StackMark};
use recording::varint::{put, take, unzigzag, zigzag};

use super::owned::Owned;

/// Flags of a sample: what is not as in the one before it.
const THREAD: u64 = 1;
const CPU: u64 = 2;
const PERIOD: u64 = 4;

/// Events in order.
#[derive(Default)]
pub(in super::super) struct QueueBlock {
    samples: Vec<u8>,
    /// Those that are no samples: each with its time, and the end of the samples before it.
    others: VecDeque<(usize, i64, Owned)>,
    marks: Vec<StackMark>,
    last: QueuedHead,
}

/// What a sample is a difference from.
#[derive(Clone, Copy)]
struct QueuedHead {
    at: i64,
    thread: Thread,
    cpu: u32,
    period: u64,
}

impl Default for QueuedHead {
    fn default() -> QueuedHead {
        QueuedHead {
            at: 0,
            thread: Thread::new(0, 0),
            cpu: 0,
            period: 0,
        }
    }
}

/// An event that waited.
pub(in super::super) enum QueuedEvent {
    Sample(WaitingSample),
    Other(Owned),
}

/// A sample of a running thread, without its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct WaitingSample {
    pub(in super::super) thread: Thread,
    pub(in super::super) cpu: u32,
    pub(in super::super) period: u64,
    /// So many rootmost frames are those of the thread's stack before.
    pub(in super::super) kept: usize,
}

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
        self.samples.len() + self.others.len() * size_of::<(usize, i64, Owned)>()
    }

    pub(super) fn push(&mut self, at: i64, event: Owned) {
        self.others.push_back((self.samples.len(), at, event));
    }

    /// Appends a sample with these frames, leaf first, of which so many rootmost ones are those of the thread's stack
    /// before.
    pub(super) fn push_sample(&mut self, at: i64, thread: Thread, sample: &Sample<'_>, kept: usize, frames: &[Frame]) {
        let last = self.last;
        let flags = [
            (thread != last.thread, THREAD),
            (sample.cpu != last.cpu, CPU),
            (sample.period != last.period, PERIOD),
        ];
        let out = &mut self.samples;
        put(out, flags.iter().filter(|(is, _)| *is).map(|(_, flag)| flag).sum());
        if thread != last.thread {
            put(out, u64::from(thread.pid.0.cast_unsigned()));
            put(out, u64::from(thread.tid.0.cast_unsigned()));
        }
        if sample.cpu != last.cpu {
            put(out, u64::from(sample.cpu));
        }
        if sample.period != last.period {
            put(out, sample.period);
        }
        put(out, zigzag(at.wrapping_sub(last.at)));
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
        self.last = QueuedHead {
            at,
            thread,
            cpu: sample.cpu,
            period: sample.period,
        };
    }

    /// Hands over all events with their times, and a sample with the frames that did not stay, leaf first.
    pub(in super::super) fn take_all(mut self, mut each: impl FnMut(i64, QueuedEvent, &[Frame])) {
        let samples = std::mem::take(&mut self.samples);
        let mut rest = samples.as_slice();
        let mut state = QueuedHead::default();
        let mut frames = Vec::new();
        loop {
            let done = samples.len() - rest.len();
            while let Some((_, at, event)) = self.others.pop_front_if(|(before, _, _)| *before <= done) {
                each(at, QueuedEvent::Other(event), &[]);
            }
            // What was put in is there.
            let Some(kept) = self.take_sample(&mut rest, &mut state, &mut frames) else {
                debug_assert_eq!((done, self.others.len()), (samples.len(), 0), "all was taken");
                return;
            };
            let sample = WaitingSample {
                thread: state.thread,
                cpu: state.cpu,
                period: state.period,
                kept,
            };
            each(state.at, QueuedEvent::Sample(sample), &frames);
        }
    }

    fn take_sample(&self, rest: &mut &[u8], state: &mut QueuedHead, frames: &mut Vec<Frame>) -> Option<usize> {
        let flags = take(rest)?;
        let number = |rest: &mut &[u8]| u32::try_from(take(rest)?).ok();
        if flags & THREAD != 0 {
            let (pid, tid) = (number(rest)?, number(rest)?);
            state.thread = Thread::new(pid.cast_signed(), tid.cast_signed());
        }
        if flags & CPU != 0 {
            state.cpu = number(rest)?;
        }
        if flags & PERIOD != 0 {
            state.period = take(rest)?;
        }
        state.at = state.at.wrapping_add(unzigzag(take(rest)?));
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
                block.push(round, Owned::End(Pid(round as i32)));
                given.push(format!("{round} {:?}", Owned::End(Pid(round as i32))));
            }
            let frames = &stacks[round as usize % stacks.len()];
            let waiting = WaitingSample {
                thread: Thread::new(-(round as i32 / 3), round as i32 / 2),
                cpu: round as u32 / 4,
                period: if round % 5 == 0 { u64::MAX } else { 1 },
                kept: round as usize * 100,
            };
            let time = if round % 3 == 0 { i64::MIN / 2 } else { i64::MAX / 2 };
            let sample = Sample {
                cpu: waiting.cpu,
                ..Sample::new(Role::Running, waiting.period, Stack::Frames(&[]))
            };
            let rootmost = vec![Frame::ReturnAddress(Avma(7)); waiting.kept];
            let all = [&frames[..], &rootmost[..]].concat();
            block.push_sample(time, waiting.thread, &sample, waiting.kept, &all);
            given.push(format!("{time} {waiting:?} {frames:?}"));
        }
        block.push(1, Owned::End(Pid(1)));
        given.push(format!("1 {:?}", Owned::End(Pid(1))));
        let mut taken = Vec::new();
        block.take_all(|at, what, frames| {
            taken.push(match what {
                QueuedEvent::Sample(sample) => format!("{at} {sample:?} {frames:?}"),
                QueuedEvent::Other(event) => format!("{at} {event:?}"),
            });
        });
        assert_eq!(taken, given);
    }
}
