//! Samples that wait, to be built into the profile many at a time.
//!
//! The tables of frames and stacks are larger than a CPU's own caches, and the unwinder and the recorded program push them out between two
//! samples. Of a sample of rustc, a quarter of the recorder's time went into them. Many samples in a row have them in the caches.

use recording::event::{Counter, EventKind, Mapping, Pid, ProcessEvent, Sample, Thread, ThreadEvent};
use recording::module::Image;
use recording::stack::{Frame, SameFrames};
use rustc_hash::FxHashMap;

/// So many bytes wait: 7,000 samples that differ in five frames each. To build them takes some milliseconds, in which the rings fill.
const MAX_BYTES: usize = 1 << 20;

/// Events in the order in which they came. None of them has to do with waits, or with further events.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Vec<Waiting>,
    /// Of all samples, those that are not in the thread's stack before; leaf first in each sample.
    frames: Vec<Frame>,
    /// The number of the last stack of each thread, if that stays until the next sample is built.
    last: FxHashMap<Thread, u64>,
}

/// An event that waits.
pub(super) struct Waiting {
    /// ns from the profile's time zero.
    pub(super) at: i64,
    pub(super) what: What,
}

pub(super) enum What {
    /// A sample of a running thread.
    Sample(WaitingSample),
    Other(Box<Owned>),
}

/// A sample without its frames.
#[derive(Clone, Copy)]
pub(super) struct WaitingSample {
    pub(super) thread: Thread,
    pub(super) cpu: u32,
    pub(super) period: u64,
    /// So many rootmost frames are those of the thread's stack before.
    pub(super) kept: usize,
    /// The numbers of its stack and of the one before, as in [`SameFrames`].
    pub(super) number: u64,
    pub(super) before: u64,
    /// The end of its other frames in the list.
    frames_end: usize,
}

/// What changes which frames a stack has, or which thread it is of.
pub(super) enum Owned {
    Start(Pid, Pid),
    End(Pid),
    Exec(Pid, Box<str>),
    Code { pid: Pid, start: u64, len: u64 },
    Image(Pid, Image),
    Counter(Pid, Counter, u64),
    ThreadStart(Thread),
    ThreadEnd(Thread),
    Name(Thread, Box<str>),
}

impl Owned {
    /// `None`: an event that can't wait.
    pub(super) fn of(event: &EventKind<'_>) -> Option<Owned> {
        Some(match *event {
            EventKind::Process(pid, what) => match what {
                ProcessEvent::Start { parent } => Owned::Start(pid, parent?),
                ProcessEvent::End => Owned::End(pid),
                ProcessEvent::Exec(name) => Owned::Exec(pid, name.into()),
                ProcessEvent::Map(&Mapping { start, len, .. }) => Owned::Code { pid, start, len },
                ProcessEvent::Image(image) => Owned::Image(pid, image.clone()),
                ProcessEvent::Counter(counter, value) => Owned::Counter(pid, counter, value),
            },
            EventKind::Thread(thread, what) => match what {
                ThreadEvent::Start => Owned::ThreadStart(thread),
                ThreadEvent::End => Owned::ThreadEnd(thread),
                ThreadEvent::Name(name) => Owned::Name(thread, name.into()),
                _ => return None,
            },
            EventKind::Recording(_) | EventKind::Bpf(_) => return None,
        })
    }

    /// True if what threads remember of their last stacks stays as it is.
    fn keeps_stacks(&self) -> bool {
        matches!(self, Owned::Counter(..) | Owned::Name(..))
    }
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Appends a sample with these frames, leaf first.
    pub(super) fn push_sample(&mut self, at: i64, thread: Thread, sample: &Sample<'_>, frames: &[Frame]) {
        let number = SameFrames::number(sample.same);
        let before = self.last.insert(thread, number).unwrap_or_default();
        let kept = SameFrames::with(sample.same, before).min(frames.len());
        self.frames.extend_from_slice(&frames[..frames.len() - kept]);
        let sample = WaitingSample {
            thread,
            cpu: sample.cpu,
            period: sample.period,
            kept,
            number,
            before,
            frames_end: self.frames.len(),
        };
        let what = What::Sample(sample);
        self.waiting.push(Waiting { at, what });
    }

    /// Appends another event.
    pub(super) fn push(&mut self, at: i64, event: Owned) {
        if !event.keeps_stacks() {
            self.last.clear();
        }
        let what = What::Other(Box::new(event));
        self.waiting.push(Waiting { at, what });
    }

    /// From here on no stack is known to be the last one of its thread.
    pub(super) fn forget_stacks(&mut self) {
        self.last.clear();
    }

    pub(super) fn is_full(&self) -> bool {
        size_of_val(&*self.waiting) + size_of_val(&*self.frames) >= MAX_BYTES
    }

    /// Hands over all events, a sample with the frames that its thread's stack before has not, leaf first.
    pub(super) fn drain(&mut self, mut take: impl FnMut(Waiting, &[Frame])) {
        let mut start = 0;
        for waiting in self.waiting.drain(..) {
            let end = match &waiting.what {
                What::Sample(sample) => sample.frames_end,
                What::Other(_) => start,
            };
            take(waiting, self.frames.get(start..end).unwrap_or_default());
            start = end;
        }
        self.frames.clear();
    }
}
