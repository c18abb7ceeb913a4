//! The Firefox Profiler's processed profile format, version 70.
//!
//! The format is described by `src/types/profile.ts` and `docs-developer/CHANGELOG-formats.md` of
//! <https://github.com/firefox-devtools/profiler>.

mod counters;
mod cpu;
mod data;
mod extra;
mod json;
mod markers;
mod meta;
mod quality;
mod tables;
mod threads;
mod tracks;
mod usage;

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::model::Profile;
use crate::view::data::Data;
pub(crate) use cpu::CpuDelta;
pub(crate) use extra::sections;
use json::Json;
pub(crate) use markers::{name_of_marker, usual_period};
pub(crate) use meta::PRODUCER;
pub(crate) use quality::recorded_facts;
pub(crate) use tracks::Shown;

/// A writer of our own, because the published `fxprof-processed-profile` writes version 55, which has no inline frames when the profile is
/// built, and takes several microseconds a sample, where the shared tree of stacks takes a fraction of one.
///
/// `meta.preprocessedProfileVersion`. 70 is the newest that the front end of August 2026 reads; it refuses newer ones.
pub const FORMAT_VERSION: u32 = 70;

/// Level 1 compresses a profile of one million samples to about a fifth at 4 times the speed of level 6, which gains
/// another eighth: `cargo run --release -p profile --example million`.
const GZIP_LEVEL: u32 = 1;

/// Writes the profile as JSON. The same profile gives the same bytes.
pub fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let mut json = Json::new(out);
    json.object(|json| {
        meta::write(profile, json)?;
        tables::write_libs(profile, json)?;
        tables::write_shared(profile, json)?;
        counters::write(profile, json)?;
        threads::write(profile, json)
    })?;
    json.finish()
}

/// Writes what was read of another profiler's file, as JSON through gzip.
pub fn write_data_gz(data: &Data, out: &mut dyn Write) -> io::Result<()> {
    let mut gz = GzEncoder::new(out, Compression::new(GZIP_LEVEL));
    let mut json = Json::new(&mut gz);
    data::write(data, &mut json)?;
    json.finish()?;
    gz.finish()?.flush()
}

/// Like [`write()`], through gzip: the form that profiles are saved and served in.
pub fn write_gz(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let mut gz = GzEncoder::new(out, Compression::new(GZIP_LEVEL));
    write(profile, &mut gz)?;
    gz.finish()?.flush()
}
