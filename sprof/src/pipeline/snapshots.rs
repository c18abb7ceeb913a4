//! Snapshots: what a running recording has so far, as a profile of its own.

use std::sync::Arc;

use profile::Profile;
use profile::builder::Builder;
use recording::clock::Timestamp;
use recording::event::Event;
use recording::info::RecordingInfo;
use recording::module::Module;
use recording::quality::Quality;
use recording::sink::{Completion, EventSink, KeptFile};

use super::RecordingStages;
use super::jit::{JitCode, JitModules};
use super::window::EventStore;
use crate::exit::Failure;

/// Watches a recording from its own thread, between two rounds. What takes time belongs into another thread: the rings
/// fill meanwhile.
pub(crate) trait RecordingWatch {
    /// Called once the recorder has blocked its signals. A thread that is started here blocks them, too.
    ///
    /// # Errors
    ///
    /// The recording can't be watched, and does not begin.
    fn start(&mut self) -> Result<(), Failure>;

    /// True if a snapshot is wanted after this round.
    fn wants_snapshot(&mut self) -> bool;

    fn take(&mut self, snapshot: Snapshot);
}

/// What was recorded so far.
pub(crate) struct Snapshot {
    builder: Builder,
    jit_code: JitCode,
    info: RecordingInfo,
    quality: Quality,
    kept_files: Vec<(Arc<Module>, KeptFile)>,
}

impl Snapshot {
    /// The profile, without names; files to look them up in, and the symbols of JIT code.
    pub(crate) fn finish(self) -> (Profile, Vec<(Arc<Module>, KeptFile)>, JitModules) {
        let (profile, jit_symbols) = self.jit_code.finish(self.builder, self.info, self.quality, drop);
        (profile, self.kept_files, jit_symbols)
    }
}

/// Hands snapshots over at the end of rounds; passes all events on.
pub(super) struct SnapshotStage<'a, 'w, 'f> {
    next: &'a mut RecordingStages<'f>,
    watch: &'a mut (dyn RecordingWatch + 'w),
    info: RecordingInfo,
}

impl<'a, 'w, 'f> SnapshotStage<'a, 'w, 'f> {
    /// `info`: what is known of the recording at its beginning.
    pub(super) fn start(
        next: &'a mut RecordingStages<'f>,
        watch: &'a mut (dyn RecordingWatch + 'w),
        info: RecordingInfo,
    ) -> Result<SnapshotStage<'a, 'w, 'f>, Failure> {
        watch.start()?;
        Ok(SnapshotStage { next, watch, info })
    }

    /// `None` where samples go to a file, or only the last ones are kept.
    fn snapshot(&mut self, until: Timestamp) -> Option<Snapshot> {
        let (kept_files, quality) = (self.next.kept_files(), self.next.quality().clone());
        let jit = self.next.next_mut().next_mut();
        let jit_code = jit.code();
        let EventStore::Whole(builder) = jit.next_mut().next_mut() else {
            return None;
        };
        Some(Snapshot {
            builder: builder.snapshot()?,
            jit_code,
            quality: Quality {
                asked_rate_hz: self.info.asked_rate_hz(),
                ..quality
            },
            info: RecordingInfo {
                end: until,
                ..self.info.clone()
            },
            kept_files,
        })
    }
}

impl EventSink for SnapshotStage<'_, '_, '_> {
    fn on_event(&mut self, event: &Event<'_>) {
        self.next.on_event(event);
    }

    fn end_round(&mut self, until: Timestamp) -> Completion {
        let completion = self.next.end_round(until);
        if self.watch.wants_snapshot()
            && let Some(snapshot) = self.snapshot(until)
        {
            self.watch.take(snapshot);
        }
        completion
    }
}
