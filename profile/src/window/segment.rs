//! The events of a part of the window.

use recording::clock::Timestamp;
use recording::event::{Event, EventKind, Sample, Thread, ThreadEvent};
use recording::stack::{Frame, Stack, StackMark};
use rustc_hash::FxHashMap;

use super::living::Living;
use crate::event_block::{BlockEvent, EventBlock};

/// Events in order.
pub(super) struct Segment {
    /// What lived before them, if that was noted.
    pub(super) living: Option<Living>,
    /// All events up to this time are in earlier segments, but spans that came late.
    pub(super) since: Timestamp,
    events: EventBlock,
    /// The number of the last stack of each thread.
    numbers: FxHashMap<Thread, u64>,
}

impl Segment {
    pub(super) fn new(living: Option<Living>, since: Timestamp) -> Segment {
        Segment {
            living,
            since,
            events: EventBlock::default(),
            numbers: FxHashMap::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(super) fn push(&mut self, event: &Event<'_>) {
        let time = event.time.0;
        let EventKind::Thread(thread, ThreadEvent::Sample(sample)) = event.kind else {
            return self.events.push(time, &event.kind);
        };
        let with_mark;
        let frames: &[Frame] = match sample.stack {
            Stack::Frames(frames) => frames,
            Stack::Missing { kernel, reason } => {
                with_mark = [kernel, &[Frame::Mark(StackMark::Missing(reason))]].concat();
                &with_mark
            }
            // After the unwinder there are none.
            Stack::Snapshot(snapshot) => snapshot.kernel,
        };
        self.events
            .push_sample(time, thread, &sample, frames, &mut self.numbers);
    }

    /// Hands over all events in their order.
    pub(super) fn send(&self, mut each: impl FnMut(&Event<'_>)) {
        let mut stacks: FxHashMap<Thread, Vec<Frame>> = FxHashMap::default();
        let mut frames = Vec::new();
        self.events.read(|time, event| {
            let time = Timestamp(time);
            match event {
                BlockEvent::Sample(block) => {
                    let stack = stacks.entry(block.thread).or_default();
                    stack.truncate(block.kept);
                    stack.extend(block.leafward.iter().rev());
                    frames.clear();
                    frames.extend(stack.iter().rev());
                    let stack = Stack::Frames(&frames);
                    let sample = Sample { stack, ..block.sample };
                    each(&Event::sample(time, block.thread, sample));
                }
                BlockEvent::Other(kind) => each(&Event { time, kind }),
            }
        });
    }
}
