//! The rows of the front end's timeline, for links to a profile.

use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};

/// The threads of a profile, and the initially visible ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracks {
    /// In the order of the file.
    pub threads: Vec<Track>,
    /// Indices of the initially visible threads; the first one is selected.
    pub visible: Vec<usize>,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Track {
    /// The process id in the file.
    pub pid: String,
    /// True for a main thread: its row is the process's row.
    pub is_main: bool,
}

/// `meta.initialVisibleThreads`, limited in length.
#[derive(Debug, Default)]
pub(crate) struct VisibleThreads(pub(crate) Vec<usize>);

const MOST_VISIBLE: usize = 1000;

impl<'de> Deserialize<'de> for VisibleThreads {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<VisibleThreads, D::Error> {
        json.deserialize_any(VisibleVisitor)
    }
}

struct VisibleVisitor;

impl<'de> Visitor<'de> for VisibleVisitor {
    type Value = VisibleThreads;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of threads")
    }

    fn visit_unit<E>(self) -> Result<VisibleThreads, E> {
        Ok(VisibleThreads::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<VisibleThreads, A::Error> {
        let mut visible = Vec::new();
        while let Some(index) = seq.next_element()? {
            if visible.len() < MOST_VISIBLE {
                visible.push(index);
            }
        }
        Ok(VisibleThreads(visible))
    }
}
