//! `<output>.partial` with `--last`: the last seconds at least, and at most twice as many.
//!
//! Once the copy is as long as the window, a younger one begins with what lives then. Once that is as long, it takes
//! the place of the older one. So whenever sprof is killed, the older one has the window up to a second ago.

use std::path::PathBuf;
use std::time::Duration;

use perf_data::spool::SpoolSink;
use recording::clock::Timestamp;
use recording::event::Event;
use recording::info::RecordingInfo;
use recording::module::Image;
use recording::sink::{Completion, EventSink};

use profile::window::EventWindow;

use super::spool::Spool;
use crate::terminal::Term;

/// Events come to the disk within this time.
const UNWRITTEN_NS: u64 = 1_000_000_000;

/// The copy on disk, and the one that will take its place.
pub(super) struct WindowCopies {
    older: WrittenCopy,
    younger: Option<WrittenCopy>,
    /// When the last copy began, or could not be created.
    began: Timestamp,
    /// How long a copy is before the next one begins.
    turn_ns: u64,
    path: PathBuf,
    head: CopyHead,
}

/// What each copy begins with.
struct CopyHead {
    info: RecordingInfo,
    has_waits: bool,
    kernel: Option<Image>,
    term: Term,
}

struct WrittenCopy {
    spool: Spool,
    sink: SpoolSink<NoStage>,
}

impl WindowCopies {
    /// Begins the copy. `info`: what is known of the recording.
    pub(super) fn new(
        spool: Spool,
        info: RecordingInfo,
        window: Duration,
        has_waits: bool,
        kernel: Option<Image>,
        term: &Term,
    ) -> WindowCopies {
        let began = info.clock.timestamp;
        let window_ns = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
        let head = CopyHead {
            info,
            has_waits,
            kernel,
            term: term.clone(),
        };
        WindowCopies {
            path: spool.path().to_owned(),
            older: head.begin(spool, began),
            younger: None,
            began,
            turn_ns: window_ns.saturating_add(UNWRITTEN_NS),
            head,
        }
    }

    /// Passes an event on to both.
    pub(super) fn on_event(&mut self, event: &Event<'_>) {
        self.older.sink.on_event(event);
        if let Some(younger) = &mut self.younger {
            younger.sink.on_event(event);
        }
    }

    /// Once the last copy is long enough, it becomes the older one, and the next one begins.
    pub(super) fn end_round(&mut self, until: Timestamp, events: &EventWindow) {
        let _ = self.older.sink.end_round(until);
        if let Some(younger) = &mut self.younger {
            let _ = younger.sink.end_round(until);
        }
        if until.nanos_since(self.began) < self.turn_ns {
            return;
        }
        self.began = until;
        let term = &self.head.term;
        if let Some(mut younger) = self.younger.take() {
            if let Err(error) = younger.spool.take_place(&self.path) {
                term.verbose(format_args!("{}: {error}", self.path.display()));
                self.younger = Some(younger);
                return;
            }
            let WrittenCopy { spool, mut sink } = std::mem::replace(&mut self.older, younger);
            drop(spool);
            self.older.spool.announce();
            // A slow disk must not stop the recorder.
            let _ = std::thread::Builder::new()
                .name("sprof-spool-end".into())
                .spawn(move || sink.stop());
        }
        self.younger = Spool::create_younger(&self.path, term).map(|spool| {
            let mut younger = self.head.begin(spool, until);
            events.send_living(until, &mut younger.sink);
            younger
        });
    }

    /// Ends both. Returns the copy that has the window.
    pub(super) fn finish(mut self) -> Spool {
        self.older.sink.stop();
        if let Some(mut younger) = self.younger {
            younger.sink.stop();
            younger.spool.remove();
        }
        self.older.spool
    }
}

impl CopyHead {
    fn begin(&self, mut spool: Spool, at: Timestamp) -> WrittenCopy {
        let info = RecordingInfo {
            clock: self.info.clock.later(at),
            ..self.info.clone()
        };
        let mut sink = SpoolSink::new(NoStage);
        spool.start(&mut sink, at, &info, self.has_waits, self.kernel.as_ref(), &self.term);
        WrittenCopy { spool, sink }
    }
}

/// The copy is the last stage.
struct NoStage;

impl EventSink for NoStage {
    fn on_event(&mut self, _: &Event<'_>) {}

    fn end_round(&mut self, _: Timestamp) -> Completion {
        Completion::default()
    }
}
