//! Spans: sections of the recorded program with a name, by markers of any file.

use rustc_hash::FxHashMap;

use super::{Data, Fields, Marker, MarkerPhase, SpanFacts, Thread};

/// The types of markers that sprof itself makes, of what it noted: they are no spans of the program.
pub(crate) const OWN_TYPES: [&str; 10] = [
    "Child process",
    "Exec",
    "Renamed",
    "Lost records",
    "Throttled",
    "Malformed record",
    "No samples",
    "Benchmark or test",
    "Paused",
    "Trigger",
];

/// A section of the program: its thread was in it from start to end, unless it is async.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Index of a text.
    pub name: u32,
    /// Since [`Data::start_ms`](super::Data::start_ms), ms.
    pub start_ms: f64,
    /// Not before the start.
    pub end_ms: f64,
    /// True for an async span, which may overlap with others of its thread.
    pub is_async: bool,
    /// True if it is longer: it began before the recording, or ended after.
    pub is_cut: bool,
}

impl Span {
    /// Its length, ms.
    pub fn length_ms(&self) -> f64 {
        self.end_ms - self.start_ms
    }
}

impl Data {
    /// What is known of all spans with this name, a text's index, if the profile does not have all of them.
    pub(crate) fn thinned_spans(&self, name: u32) -> Option<&SpanFacts> {
        let facts = &self.recorded.as_ref()?.thinned_spans;
        let facts = facts
            .iter()
            .find(|facts| facts.name.as_deref() == Some(self.text(name)));
        facts.filter(|facts| facts.kept > 0)
    }
}

impl Thread {
    /// Its spans, in the order of their markers.
    pub fn spans(&self) -> impl Iterator<Item = Span> {
        let whole = WholeMarker::all(&self.markers).into_iter();
        whole.filter(|whole| !whole.marker.is_own).filter_map(|whole| {
            let length_ms = whole.length_ms().filter(|ms| *ms >= 0.0)?;
            Some(Span {
                name: whole.marker.name,
                start_ms: whole.marker.start_ms,
                end_ms: whole.marker.start_ms + length_ms,
                is_async: whole.marker.is_async,
                is_cut: whole.marker.is_cut,
            })
        })
    }
}

/// A marker, with the one that ends it.
pub(crate) struct WholeMarker<'a> {
    pub(crate) marker: &'a Marker,
    end: Option<&'a Marker>,
}

impl<'a> WholeMarker<'a> {
    /// Markers, where a start and the end of the same name are one, as the front end pairs them: the last start without
    /// an end first.
    pub(crate) fn all(markers: &'a [Marker]) -> Vec<WholeMarker<'a>> {
        let mut all: Vec<WholeMarker<'_>> = Vec::with_capacity(markers.len());
        let mut open: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
        for marker in markers {
            match marker.phase {
                MarkerPhase::Start => open.entry(marker.name).or_default().push(all.len()),
                MarkerPhase::End => {
                    if let Some(at) = open.get_mut(&marker.name).and_then(Vec::pop) {
                        all[at].end = Some(marker);
                        continue;
                    }
                }
                MarkerPhase::Instant | MarkerPhase::Interval => {}
            }
            all.push(WholeMarker { marker, end: None });
        }
        all
    }

    pub(crate) fn fields(&self) -> Option<&'a Fields> {
        let own = self.marker.fields.as_deref().filter(|fields| !fields.is_empty());
        own.or_else(|| self.end?.fields.as_deref())
    }

    /// `None` for a point in time, and without an end.
    pub(crate) fn length_ms(&self) -> Option<f64> {
        let length = match (self.marker.phase, self.end) {
            (_, Some(end)) => end.end_ms - self.marker.start_ms,
            (MarkerPhase::Interval, None) => self.marker.end_ms - self.marker.start_ms,
            (MarkerPhase::Instant | MarkerPhase::Start | MarkerPhase::End, None) => return None,
        };
        length.is_finite().then_some(length)
    }
}
