//! Events that wait, to be built into the profile later.
//!
//! The tables of frames and stacks are larger than a CPU's own caches, and the unwinder and the recorded program push
//! them out between two samples. Of a sample of rustc, a quarter of the recorder's time went into them. Samples that
//! are built when the program has ended take nothing from it, and many in a row have the tables in the caches. In long
//! recordings the oldest are built meanwhile, some thousand at a time.

use std::collections::VecDeque;

use recording::event::{EventKind, ProcessEvent, Sample, Thread, ThreadEvent};
use recording::stack::Frame;
use rustc_hash::FxHashMap;

use crate::event_block::EventBlock;

/// A block is built at once: 10,000 samples of rustc in 10 ms, in which the recorder's rings fill.
const BLOCK_BYTES: usize = 256 << 10;
/// Room for the last sample of a block, reserved in advance. Few samples have more bytes.
const LARGE_SAMPLE_BYTES: usize = 2 << 10;
/// Most full blocks that wait, beside the one that is being filled: 5 MiB, 20 s of rustc on two CPUs at 4 kHz.
const WAITING_BLOCKS: usize = 20;

/// Events in the order in which they came. Events of waits and named events do not wait here.
#[derive(Clone, Default)]
pub(super) struct EventQueue {
    full: VecDeque<EventBlock>,
    last: EventBlock,
    /// The number of the last stack of each thread, if that stays until the next sample is built.
    numbers: FxHashMap<Thread, u64>,
}

impl EventQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.full.is_empty() && self.last.is_empty()
    }

    /// Appends a sample with these frames, leaf first.
    pub(super) fn push_sample(&mut self, at: i64, thread: Thread, sample: &Sample<'_>, frames: &[Frame]) {
        let numbers = &mut self.numbers;
        self.last
            .push_sample(at.cast_unsigned(), thread, sample, frames, numbers);
        self.end_block();
    }

    /// Appends another event. False for one that can't wait.
    pub(super) fn push(&mut self, at: i64, kind: &EventKind<'_>) -> bool {
        match kind {
            // What threads remember of their last stacks stays.
            EventKind::Process(_, ProcessEvent::Counter(..) | ProcessEvent::Title(_))
            | EventKind::Thread(_, ThreadEvent::Name(_) | ThreadEvent::Freed { .. }) => {}
            EventKind::Process(_, ProcessEvent::Start { parent: None } | ProcessEvent::Plot(..)) => return false,
            EventKind::Process(..) | EventKind::Thread(_, ThreadEvent::Start | ThreadEvent::End) => {
                self.forget_stacks();
            }
            EventKind::Thread(..) | EventKind::Recording(_) | EventKind::Bpf(_) => return false,
        }
        self.last.push(at.cast_unsigned(), kind);
        self.end_block();
        true
    }

    fn end_block(&mut self) {
        if self.last.bytes() >= BLOCK_BYTES {
            let next = EventBlock::with_capacity(BLOCK_BYTES + LARGE_SAMPLE_BYTES);
            self.full.push_back(std::mem::replace(&mut self.last, next));
        }
    }

    /// Forgets the last stack of each thread.
    pub(super) fn forget_stacks(&mut self) {
        self.numbers.clear();
    }

    /// The oldest events, once more than [`WAITING_BLOCKS`] blocks wait.
    pub(super) fn take_if_full(&mut self) -> Option<EventBlock> {
        (self.full.len() > WAITING_BLOCKS).then(|| self.full.pop_front())?
    }

    /// The oldest events.
    pub(super) fn take(&mut self) -> Option<EventBlock> {
        let last = || Some(std::mem::take(&mut self.last)).filter(|last| !last.is_empty());
        self.full.pop_front().or_else(last)
    }
}
