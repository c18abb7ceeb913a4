//! Reads all that views need, from any version of the format.
//!
//! 1. `columns`: lists of numbers and texts; `extent`: how much is read.
//! 2. `raw`: the file's tables; `meta`: typed fields of the rest.
//! 3. `normalize`: checks the tables and converts them to one form, which can be written again. What only views need is
//!    done by [`prepare`](crate::data::prepare).

mod columns;
mod extent;
mod meta;
mod normalize;
mod raw;

use std::marker::PhantomData;
use std::path::Path;

use super::ReadError;
use super::parse::{self, Parser};
use crate::data::{Data, ForViews};
pub(super) use extent::{AllFields, FieldChoice, ViewFields};
pub(super) use raw::RawId;
use raw::RawProfile;

/// Known versions. A later version may keep the needed fields or change them.
pub(super) const VERSIONS: std::ops::RangeInclusive<u32> = 49..=75;

/// Counts of a file's values that [`Data`] cannot hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotKept {
    /// Source files with an id, a start position, a source map or their text.
    pub source_details: u64,
    /// Frames with a position from a source map.
    pub original_positions: u64,
}

/// The file's tables, unchecked.
pub(super) fn parse<E: FieldChoice>(json: &mut Parser<'_>) -> parse::Result<RawProfile<E>> {
    json.read(PhantomData)
}

/// Why a file of valid JSON gives no data.
pub(super) enum NoData {
    Incomplete(&'static str),
    Version(u32),
    Wrong(String),
}

pub(super) fn to_data<E: FieldChoice>(raw: RawProfile<E>) -> Result<(Data, ForViews, NotKept), NoData> {
    let version = (raw.meta.known.preprocessed_profile_version).ok_or(NoData::GECKO)?;
    if !VERSIONS.contains(&version) {
        return Err(NoData::Version(version));
    }
    if raw.threads.is_empty() {
        return Err(NoData::Incomplete("a list `threads` with a thread"));
    }
    let (mut data, for_views, not_kept) = normalize::normalize(raw, version).map_err(NoData::Wrong)?;
    data.use_profile_paths();
    Ok((data, for_views, not_kept))
}

impl NoData {
    pub(super) const GECKO: NoData = NoData::Incomplete(
        "a number `meta.preprocessedProfileVersion`; open a profile of Firefox itself in the Firefox Profiler and save it from there",
    );

    pub(super) fn of(self, path: &Path) -> ReadError {
        let path = path.to_owned();
        match self {
            NoData::Incomplete(expected) => ReadError::Incomplete { path, expected },
            NoData::Version(version) => ReadError::Version {
                path,
                version,
                known: VERSIONS,
            },
            NoData::Wrong(what) => ReadError::Inconsistent { path, what },
        }
    }
}
