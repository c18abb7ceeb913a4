//! Keeps a recording on disk while it is made, so that no crash can take it.
//!
//! The caller puts a [`SpoolSink`] between the unwinder and the profile builder and gives it a file; the file then
//! holds everything up to a second ago, as [`import`](crate::import) reads it: perf.data in pipe mode, with samples in
//! a form of their own. A thread of its own writes: a slow disk delays nothing, a full disk ends the spool and not the
//! recording.
//!
//! perf refuses such a file ("failed to process type: 21331"): its form of a sample has the whole stack. To write and
//! compress these took a quarter of the recorder's time where stacks hardly change. To compress what is left took a
//! tenth, for half of the 50 bytes that a sample of rustc has. An hour at 1 kHz with 200,000 distinct stacks of 30
//! frames is a file of 173 MB, and 44 MB in memory (`sprof/tests/suite/memory.rs`).
//!
//! What a spool can't hold: what is known at the end alone (the kernel's counts of CPU time and of events), and more
//! than [`MAX_CHAIN`] frames of one stack.
//!
//! 1. `record`: the bytes of one record.
//! 2. `sprof_records`: facts for which perf has no records.
//! 3. `samples`: samples.
//! 4. `encode`: events to records.
//! 5. `file_head`: what stands before the first event.
//! 6. `writer`: records to the disk.

mod encode;
mod file_head;
mod record;
mod samples;
mod sprof_records;
mod writer;

use std::fs::File;
use std::io;

use recording::clock::Timestamp;
use recording::event::{Event, EventKind, ProcessEvent, Role, ThreadEvent};
use recording::info::RecordingInfo;
use recording::module::BuildId;
use recording::sink::{Completion, EventSink};

use encode::Encoder;
pub(crate) use encode::allocation;
pub(crate) use file_head::{ROLE_HEAP, ROLE_MARKER, ROLE_TRACK, ROLE_WEIGHT, VERSION_PREFIX};
pub use record::MAX_CHAIN;
pub(crate) use samples::SampleDecoder;
pub(crate) use sprof_records::{SprofRecord, cause};
use writer::{RunningWriter, StoppedWriter};

/// A stage that passes all events on and writes them to a file, while it has one.
pub struct SpoolSink<N> {
    next: N,
    encoder: Encoder,
    writer: SpoolWriter,
}

enum SpoolWriter {
    None,
    Running(RunningWriter),
    Stopped(StoppedWriter),
}

impl<N: EventSink> SpoolSink<N> {
    /// A stage without a file.
    pub fn new(next: N) -> SpoolSink<N> {
        SpoolSink {
            next,
            encoder: Encoder::default(),
            writer: SpoolWriter::None,
        }
    }

    /// Begins to write, or goes on after [`stop`](SpoolSink::stop). Starts a thread, which keeps the signal mask and
    /// the scheduling of the caller. `on_error` is called once, when writing fails; nothing is written from then on.
    ///
    /// `run_start`: when this run of the program begins. `info`: what is known so far. `waits`: switches and their
    /// stacks will come. `kernel`: where `_text` is, and the build id.
    ///
    /// # Errors
    ///
    /// `file` failed, the head of the file could not be written, or no thread could be started.
    pub fn start(
        &mut self,
        file: impl FnOnce() -> io::Result<File>,
        run_start: Timestamp,
        info: &RecordingInfo,
        waits: bool,
        kernel: Option<(u64, Option<BuildId>)>,
        on_error: Box<dyn FnOnce(&io::Error) + Send>,
    ) -> io::Result<()> {
        self.encoder.set_events(&info.events);
        self.encoder.restart();
        let stopped = match std::mem::replace(&mut self.writer, SpoolWriter::None) {
            SpoolWriter::None => StoppedWriter::create(file()?, &file_head::bytes(info, waits, kernel))?,
            SpoolWriter::Stopped(stopped) => stopped,
            SpoolWriter::Running(running) => running.stop(),
        };
        let mut running = stopped.start(on_error)?;
        if let Some(records) = running.room_for(run_start, None) {
            sprof_records::put_run_start(records, run_start.0);
        }
        self.writer = SpoolWriter::Running(running);
        Ok(())
    }

    /// The next stage. Events must go through [`on_event`](EventSink::on_event).
    pub fn next_mut(&mut self) -> &mut N {
        &mut self.next
    }

    /// Writes what is left, and ends the thread.
    pub fn stop(&mut self) {
        self.writer = match std::mem::replace(&mut self.writer, SpoolWriter::None) {
            SpoolWriter::Running(running) => SpoolWriter::Stopped(running.stop()),
            other => other,
        };
    }

    /// The next stage, and whether all that passed is in the file. The file stays where it is.
    pub fn finish(mut self) -> (N, bool) {
        self.stop();
        let is_whole = matches!(&self.writer, SpoolWriter::Stopped(stopped) if stopped.is_sound());
        (self.next, is_whole)
    }
}

impl<N: EventSink> EventSink for SpoolSink<N> {
    fn on_event(&mut self, event: &Event<'_>) {
        if let SpoolWriter::Running(running) = &mut self.writer {
            match running.room_for(event.time, role(event)) {
                Some(records) => self.encoder.event(event, records),
                None => self.encoder.leave_out(event),
            }
        }
        self.next.on_event(event);
    }

    fn end_round(&mut self, until: Timestamp) -> Completion {
        if let SpoolWriter::Running(running) = &mut self.writer
            && running.end_round(until)
        {
            self.encoder.restart();
        }
        self.next.end_round(until)
    }
}

/// The role of an event; `None` for events of kinds that are few.
fn role(event: &Event<'_>) -> Option<Role> {
    match event.kind {
        EventKind::Thread(_, ThreadEvent::Sample(sample)) => Some(sample.role),
        EventKind::Thread(_, ThreadEvent::Freed { .. }) => Some(Role::Allocation),
        EventKind::Thread(_, ThreadEvent::Span(_)) | EventKind::Process(_, ProcessEvent::Plot(..)) => Some(Role::Span),
        EventKind::Thread(_, ThreadEvent::InitialState(_) | ThreadEvent::SwitchOut { .. } | ThreadEvent::SwitchIn) => {
            Some(Role::Switch)
        }
        _ => None,
    }
}
