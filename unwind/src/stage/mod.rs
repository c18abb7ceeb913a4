//! The unwinding stage: a sink between a recorder and the builder.

mod stack_unwinder;
mod thread_unwinder;

use std::sync::Arc;

use recording::clock::Timestamp;
use recording::event::{Event, EventKind, Mapping, Pid, ProcessEvent, RecordingEvent, ThreadEvent};
use recording::module::Module;
use recording::quality::Quality;
use recording::sink::{Completion, EventSink, KeptFile, ModuleFiles, TargetMemory};
use recording::stack::Stack;

use crate::stage::stack_unwinder::{NewMemory, StackUnwinder};
use crate::stage::thread_unwinder::ThreadUnwinder;

pub use crate::stage::stack_unwinder::{UnwindEngine, UnwindOptions};

/// Longest time until the next stage gets the unwinder's counts, in ns.
const REPORT_NS: u64 = 100_000_000;

/// The unwinding stage: an [`EventSink`] that owns the next one.
pub struct Unwinder<'f, N> {
    next: N,
    threads: ThreadUnwinder<'f>,
    /// Counts already sent in [`RecordingEvent::Unwound`], in its order.
    reported: [u64; 4],
    report_at: Timestamp,
}

impl<'f, N: EventSink> Unwinder<'f, N> {
    /// A stage that sends to `next`, completes stacks from `memory` and reads modules from `files`.
    pub fn new(
        next: N,
        memory: impl TargetMemory + 'f,
        files: impl ModuleFiles + 'f,
        options: UnwindOptions,
    ) -> Unwinder<'f, N> {
        Unwinder {
            next,
            threads: ThreadUnwinder::new(StackUnwinder::new(memory, files, options)),
            reported: [0; 4],
            report_at: Timestamp(0),
        }
    }

    /// What was lost, cut, guessed or not verified so far, in the unwinder and in the events that passed.
    pub fn quality(&self) -> &Quality {
        &self.threads.stacks.quality
    }

    /// The next stage, after sending it the counts so far. Events must go through [`on_event`](EventSink::on_event).
    pub fn next_mut(&mut self) -> &mut N {
        self.report(self.report_at);
        &mut self.next
    }

    /// The files of the modules that samples fell into, still open. Names can be looked up in them after the file was
    /// deleted, or when the target's mount namespace is gone.
    pub fn kept_files(&self) -> Vec<(Arc<Module>, KeptFile)> {
        self.threads.stacks.kept_files()
    }

    /// Ends the stage. Returns the next one, and the quality of the whole recording.
    pub fn finish(self) -> (N, Quality) {
        (self.next, self.threads.stacks.quality)
    }

    /// Sends what was counted since the last time.
    fn report(&mut self, time: Timestamp) {
        self.report_at = Timestamp(time.0.saturating_add(REPORT_NS));
        let now = counts(self.quality());
        let before = std::mem::replace(&mut self.reported, now);
        if now != before {
            let what = RecordingEvent::Unwound {
                completed_live: now[0].saturating_sub(before[0]),
                by_frame_pointer: now[1].saturating_sub(before[1]),
                by_code: now[2].saturating_sub(before[2]),
                by_framehop: now[3].saturating_sub(before[3]),
            };
            self.next.on_event(&Event::recording(time, what));
        }
    }

    fn send(&mut self, time: Timestamp, pid: Pid, found: &[NewMemory]) {
        for found in found {
            match found {
                NewMemory::Image(image) => {
                    let what = ProcessEvent::Image(image);
                    self.next.on_event(&Event::process(time, pid, what));
                }
                NewMemory::Anonymous(range) => {
                    let mapping = Mapping {
                        start: range.start,
                        len: range.end - range.start,
                        file_offset: 0,
                        path: b"//anon",
                        build_id: None,
                        inode: None,
                    };
                    let what = ProcessEvent::Map(&mapping);
                    self.next.on_event(&Event::process(time, pid, what));
                }
            }
        }
    }

    /// Adds the recorder's counts to the quality.
    fn count(&mut self, what: RecordingEvent) {
        let quality = &mut self.threads.stacks.quality;
        match what {
            RecordingEvent::Lost { count, role, cause } => *quality.lost.entry((role, cause)).or_default() += count,
            RecordingEvent::Unwound {
                completed_live,
                by_frame_pointer,
                by_code,
                by_framehop,
            } => {
                quality.completed_live = quality.completed_live.saturating_add(completed_live);
                quality.by_frame_pointer = quality.by_frame_pointer.saturating_add(by_frame_pointer);
                quality.by_code = quality.by_code.saturating_add(by_code);
                quality.by_framehop = quality.by_framehop.saturating_add(by_framehop);
                self.reported = counts(quality);
            }
            RecordingEvent::Throttled => quality.throttled += 1,
            RecordingEvent::Malformed(_) => quality.malformed += 1,
            RecordingEvent::Sampling(_) | RecordingEvent::Counter(..) | RecordingEvent::Unread(..) => {}
        }
    }
}

/// The counts of [`RecordingEvent::Unwound`], in its order.
fn counts(quality: &Quality) -> [u64; 4] {
    [
        quality.completed_live,
        quality.by_frame_pointer,
        quality.by_code,
        quality.by_framehop,
    ]
}

impl<N: EventSink> EventSink for Unwinder<'_, N> {
    fn end_round(&mut self, until: Timestamp) -> Completion {
        // Behind this stage all stacks are frames.
        let _ = self.next.end_round(until);
        std::mem::take(&mut self.threads.stacks.completion)
    }

    fn on_event(&mut self, event: &Event<'_>) {
        let time = event.time;
        if let EventKind::Thread(thread, ThreadEvent::Sample(sample)) = event.kind {
            if let Stack::Snapshot(snapshot) = &sample.stack {
                let found = self.threads.stacks.memory_shown_by(thread.pid, snapshot);
                self.send(time, thread.pid, &found);
            }
            let unwound = self.threads.unwound(time, thread, &sample);
            self.next.on_event(&Event::sample(time, thread, unwound));
            if time >= self.report_at {
                self.report(time);
            }
            return;
        }
        self.next.on_event(event);
        match event.kind {
            EventKind::Recording(what) => self.count(what),
            EventKind::Process(pid, what) => {
                let mut found = self.threads.on_process(pid, what);
                // The next stage has had the mapping of memory without a file itself.
                found.retain(|found| matches!(found, NewMemory::Image(_)));
                self.send(time, pid, &found);
            }
            EventKind::Thread(thread, ThreadEvent::End) => self.threads.forget_thread(thread.tid),
            EventKind::Bpf(_) | EventKind::Thread(..) => {}
        }
    }
}
