//! The events of the last seconds, for a recording that goes on for hours. A profile is made of them when it is wanted.
//!
//! Events are kept in segments, each with what lived when it began. A segment that is older than the window is dropped
//! as a whole, so that memory depends on the window and not on the recording. A profile of the window begins like that
//! of processes that ran before: with what lived then. The builder sees nothing else: all its figures are the window's.

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

/// A window is divided into this many segments. They are dropped whole, so up to one more is kept.
const SEGMENTS: u64 = 8;
/// A round of the recorder is shorter. A trigger is noticed up to a round late, so this much more is kept, too.
const ROUND_NS: u64 = 500_000_000;

/// A sink that keeps the events of the last seconds.
pub struct EventWindow {
    length_ns: u64,
    /// When recording began.
    began: Timestamp,
    segments: VecDeque<Arc<Segment>>,
    last: Segment,
    living: Living,
}

impl EventWindow {
    /// A window of this length, of a recording that begins now.
    pub fn new(length: Duration, began: Timestamp) -> EventWindow {
        EventWindow {
            length_ns: u64::try_from(length.as_nanos()).unwrap_or(u64::MAX),
            began,
            segments: VecDeque::new(),
            last: Segment::default(),
            living: Living::default(),
        }
    }

    /// Its length.
    pub fn length(&self) -> Duration {
        Duration::from_nanos(self.length_ns)
    }

    /// The events of the window that ends at this time, and those that came since. Further events do not change it.
    pub fn snapshot(&mut self, end: Timestamp) -> WindowSnapshot {
        self.begin_segment(end);
        let from = Timestamp(end.0.saturating_sub(self.length_ns));
        WindowSnapshot {
            living: self
                .segments
                .front()
                .map_or(&self.last, |first| &**first)
                .living
                .clone(),
            segments: self.segments.iter().cloned().collect(),
            from: (from > self.began).then_some(from),
        }
    }

    /// Sends what lives at this time, up to which all events have come.
    pub fn send_living(&self, at: Timestamp, sink: &mut dyn EventSink) {
        self.living.send(at, sink);
    }

    /// Begins a segment, and drops those that are older than the window.
    fn begin_segment(&mut self, until: Timestamp) {
        if self.last.start().is_some() {
            let next = Segment::new(self.living.clone());
            self.segments
                .push_back(Arc::new(std::mem::replace(&mut self.last, next)));
        }
        let oldest = until.0.saturating_sub(self.length_ns.saturating_add(ROUND_NS));
        let is_old = |segment: &Arc<Segment>| segment.start().is_some_and(|start| start.0 <= oldest);
        while self.segments.get(1).is_some_and(is_old) {
            self.segments.pop_front();
        }
    }
}

impl EventSink for EventWindow {
    fn on_event(&mut self, event: &Event<'_>) {
        self.last.push(event);
        self.living.note(event);
    }

    fn end_round(&mut self, until: Timestamp) -> Completion {
        let length_ns = self.last.start().map_or(0, |start| until.nanos_since(start));
        if length_ns > self.length_ns / SEGMENTS {
            self.begin_segment(until);
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
