//! Spans that the program named, as markers.

use crate::data::SpanFacts;

/// What is known of the spans of all threads.
#[derive(Clone, Default)]
pub(crate) struct RecordedSpans {
    /// The names of which some spans have no marker.
    pub(crate) thinned: Vec<SpanFacts>,
    /// The keys of their fields.
    pub(crate) keys: Vec<SpanKey>,
}

/// The key of a field.
#[derive(Clone, Debug)]
pub(crate) struct SpanKey {
    pub(crate) key: String,
    pub(crate) kind: SpanKeyKind,
}

/// How values are shown: in the form that suits all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SpanKeyKind {
    Integer,
    Decimal,
    Text,
}
