//! `<output>.partial` with `--last`: the last seconds at least, and at most twice as many.
//!
//! Two copies are written. The younger one begins with what lives then. Once it is as long as the window, it takes the
//! place of the older one, and a new one begins. So whenever sprof is killed, the older one has the window up to a
//! second ago.

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

/// Both copies.
pub(super) struct WindowCopies {
    older: WrittenCopy,
    younger: Option<WrittenCopy>,
    /// When the younger one began.
    began: Timestamp,
    path: PathBuf,
    info: RecordingInfo,
    /// After this time the younger one takes the place of the older one.
    turn_ns: u64,
    has_waits: bool,
    kernel: Option<Image>,
    term: Term,
}

struct WrittenCopy {
    spool: Spool,
    sink: SpoolSink<NoStage>,
}

impl WindowCopies {
    /// Begins both copies. `spool`: the older one. `info`: what is known of the recording.
    pub(super) fn new(
        spool: Spool,
        info: RecordingInfo,
        window: Duration,
        has_waits: bool,
        kernel: Option<Image>,
        term: &Term,
    ) -> WindowCopies {
        let began = info.clock.timestamp;
        let path = spool.path().to_owned();
        let older = WrittenCopy::new(spool, began, &info, has_waits, kernel.as_ref(), term);
        let mut copies = WindowCopies {
            older,
            younger: None,
            began,
            path,
            info,
            turn_ns: u64::try_from(window.as_nanos())
                .unwrap_or(u64::MAX)
                .saturating_add(UNWRITTEN_NS),
            has_waits,
            kernel,
            term: term.clone(),
        };
        copies.begin(began);
        copies
    }

    /// Begins the younger copy.
    fn begin(&mut self, at: Timestamp) {
        self.began = at;
        let info = RecordingInfo {
            clock: self.info.clock.later(at),
            ..self.info.clone()
        };
        let spool = Spool::create_younger(&self.path, &self.term);
        self.younger =
            spool.map(|spool| WrittenCopy::new(spool, at, &info, self.has_waits, self.kernel.as_ref(), &self.term));
    }

    /// Passes an event on to both.
    pub(super) fn on_event(&mut self, event: &Event<'_>) {
        self.older.sink.on_event(event);
        if let Some(younger) = &mut self.younger {
            younger.sink.on_event(event);
        }
    }

    /// Replaces the older one by the younger one, once that is long enough.
    pub(super) fn end_round(&mut self, until: Timestamp, events: &EventWindow) {
        let _ = self.older.sink.end_round(until);
        let Some(younger) = &mut self.younger else { return };
        let _ = younger.sink.end_round(until);
        if until.nanos_since(self.began) < self.turn_ns {
            return;
        }
        // If the name can't be taken, the older one goes on.
        if let Err(error) = younger.spool.take_place(&self.path) {
            self.term.verbose(format_args!("{}: {error}", self.path.display()));
            return;
        }
        if let Some(younger) = self.younger.take() {
            let WrittenCopy { spool, mut sink } = std::mem::replace(&mut self.older, younger);
            drop(spool);
            // A slow disk must not stop the recorder.
            let _ = std::thread::Builder::new()
                .name("sprof-spool-end".into())
                .spawn(move || sink.stop());
        }
        self.begin(until);
        self.older.spool.announce();
        if let Some(younger) = &mut self.younger {
            events.send_living(until, &mut younger.sink);
        }
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

impl WrittenCopy {
    fn new(
        mut spool: Spool,
        at: Timestamp,
        info: &RecordingInfo,
        has_waits: bool,
        kernel: Option<&Image>,
        term: &Term,
    ) -> WrittenCopy {
        let mut sink = SpoolSink::new(NoStage);
        spool.start(&mut sink, at, info, has_waits, kernel, term);
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
