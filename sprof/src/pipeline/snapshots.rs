//! Snapshots: what a running recording has so far, or its end, as a profile of its own.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use profile::Profile;
use profile::builder::Builder;
use profile::window::WindowSnapshot;
use recording::clock::Timestamp;
use recording::event::Event;
use recording::info::RecordingInfo;
use recording::module::Module;
use recording::quality::Quality;
use recording::sink::{Completion, EventSink, KeptFile};

use super::RecordingStages;
use super::jit::{JitCode, JitModules};
use super::window::{BuilderStart, EventStore};
use crate::exit::Failure;

/// Watches a recording from its own thread, between two rounds. What takes time belongs into another thread: the rings
/// fill meanwhile.
pub(crate) trait RecordingWatch {
    /// Called when the recorder has blocked its signals. A thread that is started here inherits that.
    /// `announcements`: what the recorder could not do as it was asked, a sentence each.
    ///
    /// # Errors
    ///
    /// The recording can't be watched, and does not begin.
    fn start(&mut self, announcements: &[String]) -> Result<(), Failure>;

    /// What is asked for, beside all: no more than this end of the recording.
    fn longest_end(&self) -> Duration;

    /// Where snapshots are asked for.
    fn request(&self) -> &SnapshotRequest;

    fn take(&mut self, snapshot: Snapshot);
}

/// The part of the recording that is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SnapshotPart {
    All,
    Last(Duration),
    Since(Timestamp),
}

/// Asks for a snapshot after the present round. Clones ask at the same place.
#[derive(Clone, Default)]
pub(crate) struct SnapshotRequest(Arc<Mutex<Option<SnapshotPart>>>);

impl SnapshotRequest {
    /// All is asked for if anyone asks for it.
    pub(crate) fn ask(&self, part: SnapshotPart) {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *asked != Some(SnapshotPart::All) {
            *asked = Some(part);
        }
    }

    fn take(&self) -> Option<SnapshotPart> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What was recorded so far, or the end of it.
pub(crate) struct Snapshot {
    events: SnapshotEvents,
    jit_code: JitCode,
    info: RecordingInfo,
    quality: Quality,
    kept_files: Vec<(Arc<Module>, KeptFile)>,
}

enum SnapshotEvents {
    All(Builder),
    /// The events of the end, and a builder without events.
    End(WindowSnapshot, Builder),
}

impl Snapshot {
    /// The time from which on it has all; `None`: from the beginning.
    pub(crate) fn from(&self) -> Option<Timestamp> {
        match &self.events {
            SnapshotEvents::All(_) => None,
            SnapshotEvents::End(window, _) => window.from(),
        }
    }

    /// True if it was made of all that the builder has.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.events, SnapshotEvents::All(_))
    }

    /// The profile, without names; files to look them up in, and the symbols of JIT code. Times are those of the whole
    /// recording.
    pub(crate) fn finish(self) -> (Profile, Vec<(Arc<Module>, KeptFile)>, JitModules) {
        let is_end = self.from().is_some();
        let builder = match self.events {
            SnapshotEvents::All(builder) => builder,
            SnapshotEvents::End(window, mut builder) => {
                window.send(&mut builder);
                builder
            }
        };
        let (mut profile, jit_symbols) = self.jit_code.finish(builder, self.info, self.quality, drop);
        if is_end {
            profile.set_end();
        }
        (profile, self.kept_files, jit_symbols)
    }
}

/// Hands snapshots over at the end of rounds; passes all events on, and keeps those of the end.
pub(super) struct SnapshotStage<'a, 'w, 'f> {
    next: &'a mut RecordingStages<'f>,
    watch: &'a mut (dyn RecordingWatch + 'w),
    start: Arc<BuilderStart>,
    info: RecordingInfo,
}

impl<'a, 'w, 'f> SnapshotStage<'a, 'w, 'f> {
    /// `info`: what is known of the recording at its beginning.
    pub(super) fn start(
        next: &'a mut RecordingStages<'f>,
        watch: &'a mut (dyn RecordingWatch + 'w),
        start: Arc<BuilderStart>,
        info: RecordingInfo,
        announcements: &[String],
    ) -> Result<SnapshotStage<'a, 'w, 'f>, Failure> {
        watch.start(announcements)?;
        Ok(SnapshotStage {
            next,
            watch,
            start,
            info,
        })
    }

    /// Also where the end is asked for, all is the answer if the window does not reach back. `None` where samples go to
    /// a file, or only the last ones are kept.
    fn snapshot(&mut self, part: SnapshotPart, until: Timestamp) -> Option<Snapshot> {
        let (kept_files, quality) = (self.next.kept_files(), self.next.quality().clone());
        let jit = self.next.next_mut().next_mut();
        let jit_code = jit.code();
        let EventStore { whole, last } = jit.next_mut().next_mut();
        let whole = whole.as_mut()?;
        let from = match part {
            SnapshotPart::All => None,
            SnapshotPart::Last(length) => {
                let length_ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
                Some(Timestamp(until.0.saturating_sub(length_ns)))
            }
            SnapshotPart::Since(from) => Some(from),
        };
        let window = last.as_mut().map(|last| &mut last.window).zip(from);
        let events = match window.filter(|(window, from)| window.reaches(*from)) {
            Some((window, from)) => {
                let empty = self.start.builder(Some(whole.zero()));
                SnapshotEvents::End(window.snapshot_since(from), empty)
            }
            None => SnapshotEvents::All(whole.snapshot()?),
        };
        Some(Snapshot {
            events,
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
        let asked = self.watch.request().take();
        if let Some(snapshot) = asked.and_then(|part| self.snapshot(part, until)) {
            self.watch.take(snapshot);
        }
        completion
    }
}
