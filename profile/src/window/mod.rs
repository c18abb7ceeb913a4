//! The events of the last seconds, for a recording that goes on for hours. A profile is made of them when it is wanted.
//!
//! Events are kept in segments, some of them with what lived when they began. Segments that are older than the window
//! are dropped as a whole, so that memory depends on the window and not on the recording. A profile of the window
//! begins like that of processes that ran before: with what lived then. The builder sees nothing else: all its figures
//! are the window's.

mod living;
mod segment;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use recording::clock::Timestamp;
use recording::event::Event;
use recording::sink::{Completion, EventSink};

use living::Living;
use segment::Segment;

/// What lives is noted this many times in a window. What is before such a time is dropped as a whole, so up to one more
/// part is kept.
const PARTS: u64 = 8;
/// A round of the recorder is shorter. A trigger is noticed up to a round late, so the events of this time before the
/// window are kept, too.
pub const MOST_ROUND_NS: u64 = 500_000_000;

/// A sink that keeps the events of the last seconds.
pub struct EventWindow {
    length_ns: u64,
    /// When recording began.
    began: Timestamp,
    /// All events after that are kept.
    kept_since: Timestamp,
    /// The first one has what lived.
    segments: VecDeque<Arc<Segment>>,
    last: Segment,
    living: Living,
    /// When what lives was last noted.
    noted: Timestamp,
    /// The end of the last round.
    round: Timestamp,
}

impl EventWindow {
    /// A window of this length, of a recording that begins now.
    pub fn new(length: Duration, began: Timestamp) -> EventWindow {
        EventWindow {
            length_ns: u64::try_from(length.as_nanos()).unwrap_or(u64::MAX),
            began,
            kept_since: began,
            segments: VecDeque::new(),
            last: Segment::new(Some(Living::default()), began),
            living: Living::default(),
            noted: began,
            round: began,
        }
    }

    /// Its length.
    pub fn length(&self) -> Duration {
        Duration::from_nanos(self.length_ns)
    }

    /// The events of the window that ends at this time, and those that came since. Further events do not change it.
    pub fn snapshot(&mut self, end: Timestamp) -> WindowSnapshot {
        self.snapshot_since(Timestamp(end.0.saturating_sub(self.length_ns)))
    }

    /// True if all events since this time are kept.
    pub fn reaches(&self, from: Timestamp) -> bool {
        from > self.kept_since || self.kept_since == self.began
    }

    /// The events since `from`. Further events do not change it.
    pub fn snapshot_since(&mut self, from: Timestamp) -> WindowSnapshot {
        self.begin_segment();
        let first = self.last_noted(from);
        let segments: Vec<Arc<Segment>> = self.segments.range(first..).cloned().collect();
        let living = segments.first().map_or(&self.last, |first| &**first).living.clone();
        WindowSnapshot {
            living: living.unwrap_or_default(),
            segments,
            from: (from > self.began).then_some(from),
        }
    }

    /// The last segment that has what lived, and all events since `from` together with those after it; else the first
    /// one.
    fn last_noted(&self, from: Timestamp) -> usize {
        let found = self
            .segments
            .iter()
            .rposition(|segment| segment.living.is_some() && segment.since < from);
        found.unwrap_or(0)
    }

    /// Sends what lives at this time, up to which all events have come.
    pub fn send_living(&self, at: Timestamp, sink: &mut dyn EventSink) {
        self.living.send(at, sink);
    }

    /// True if it is time to note what lives.
    fn is_due(&self) -> bool {
        self.round.nanos_since(self.noted) > self.length_ns / PARTS
    }

    /// Begins a segment, and drops those that are older than the window. What lives is large, and segments may be many:
    /// it is noted when it is due.
    fn begin_segment(&mut self) {
        if !self.last.is_empty() {
            let living = self.is_due().then(|| self.living.clone());
            if living.is_some() {
                self.noted = self.round;
            }
            let ended = std::mem::replace(&mut self.last, Segment::new(living, self.round));
            self.segments.push_back(Arc::new(ended));
        }
        let kept_ns = self.length_ns.saturating_add(MOST_ROUND_NS);
        let first = self.last_noted(Timestamp(self.round.0.saturating_sub(kept_ns)));
        if first > 0 {
            self.segments.drain(..first);
            self.kept_since = self.segments[0].since;
        }
    }
}

impl EventSink for EventWindow {
    fn on_event(&mut self, event: &Event<'_>) {
        self.last.push(event);
        self.living.note(event);
    }

    fn end_round(&mut self, until: Timestamp) -> Completion {
        self.round = until;
        if self.is_due() {
            self.begin_segment();
        }
        Completion::default()
    }
}

/// The events of a window.
pub struct WindowSnapshot {
    /// What lived before the first segment.
    living: Living,
    segments: Vec<Arc<Segment>>,
    /// Where it begins; `None`: with the recording.
    from: Option<Timestamp>,
}

impl WindowSnapshot {
    /// Where it begins; `None` if that is the beginning of the recording.
    pub fn from(&self) -> Option<Timestamp> {
        self.from
    }

    /// Sends what lived when the window began, and the events since.
    pub fn send(&self, sink: &mut dyn EventSink) {
        let Some(from) = self.from else {
            return self
                .segments
                .iter()
                .for_each(|segment| segment.send(|event| sink.on_event(event)));
        };
        let mut living = self.living.clone();
        let mut has_begun = false;
        for segment in &self.segments {
            segment.send(|event| match event.time >= from {
                false if !has_begun => living.note(event),
                // Readings of counters are ahead of other events of the same round.
                false if Living::concerns(&event.kind) => sink.on_event(&Event { time: from, ..*event }),
                false => {}
                true => {
                    if !std::mem::replace(&mut has_begun, true) {
                        living.send(from, sink);
                    }
                    sink.on_event(event);
                }
            });
        }
        if !has_begun {
            living.send(from, sink);
        }
    }
}
