//! All of a profile that views need, of any version of the format.
//!
//! 1. `columns`: lists of numbers and texts.
//! 2. `raw`: the tables as the file has them.
//! 3. `normal`: checked, and brought to one form.
//! 4. `end`: what the samples of all threads together decide.

mod columns;
mod end;
mod normal;
mod raw;

use std::marker::PhantomData;
use std::path::Path;

use super::ReadError;
use super::parse::{self, Parser};
use crate::view::data::Data;
pub(crate) use end::{count_equal_weights, unit_of_first};
pub(crate) use normal::{PointSample, threads_of_points};
pub(super) use raw::RawId;
use raw::RawProfile;

/// Versions that are known. A later one may keep what is needed, or not.
const VERSIONS: std::ops::RangeInclusive<u32> = 50..=75;

pub(super) fn parse(json: &mut Parser<'_>) -> parse::Result<RawProfile> {
    json.read(PhantomData)
}

/// Why a file of valid JSON gives no data.
pub(super) enum NoData {
    Incomplete(&'static str),
    Version(u32),
    Wrong(String),
}

pub(super) fn to_data(raw: RawProfile) -> Result<Data, NoData> {
    let version = raw
        .meta
        .preprocessed_profile_version
        .ok_or(NoData::Incomplete("a number `meta.preprocessedProfileVersion`; open a profile of Firefox itself in the Firefox Profiler and save it from there"))?;
    if !VERSIONS.contains(&version) {
        return Err(NoData::Version(version));
    }
    if raw.threads.is_empty() {
        return Err(NoData::Incomplete("a list `threads` with a thread"));
    }
    normal::normalize(raw, version).map_err(NoData::Wrong)
}

impl NoData {
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
