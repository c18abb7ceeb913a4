//! The Firefox Profiler's processed profile format, version 70.
//!
//! The format is described by `src/types/profile.ts` and `docs-developer/CHANGELOG-formats.md` of
//! <https://github.com/firefox-devtools/profiler>.
//!
//! `meta`, `tables`, `threads` are the parts of the file, in its order. `json` writes JSON. `imported` adds the fields
//! that other profilers' files lack.

mod imported;
mod json;
mod meta;
mod tables;
mod threads;

use std::borrow::Cow;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::data::{Data, SavedData, Stack, Thread};
use crate::recorded::Profile;
use crate::to_data::{Detail, ProfileData};
use json::Json;
pub(super) use json::{ns, some};
pub(super) use meta::other_meta;
pub(super) use threads::{weight_type, with_cause};

/// `meta.preprocessedProfileVersion`. 70 is the newest version that the front end of August 2026 reads; it refuses
/// newer ones.
///
/// The published `fxprof-processed-profile` is not used here. It writes version 55, which has no inline frames when the
/// profile is built, and takes several microseconds a sample. The shared tree of stacks takes a fraction of one.
pub const FORMAT_VERSION: u32 = 70;

/// Level 1 compresses a profile of one million samples to about a fifth, at 4 times the speed of level 6. Level 6 gains
/// another eighth. Measure with `cargo run --release -p sprof-profile --example million`.
const GZIP_LEVEL: u32 = 1;

/// Writes a built profile as JSON. Equal profiles give equal bytes.
///
/// # Errors
///
/// `out` could not be written to.
pub fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let made = ProfileData::new(profile, Detail::Whole);
    let threads = made.threads().map(Cow::Owned);
    document(&made.tables(), || made.stacks(), threads, out)
}

/// Writes a profile that was read, as JSON.
///
/// # Errors
///
/// `out` could not be written to.
pub fn write_data(data: &SavedData, out: &mut dyn Write) -> io::Result<()> {
    let threads = data.threads.iter().map(Cow::Borrowed);
    document(data, || data.stacks.iter().copied(), threads, out)
}

/// Writes `data` with these stacks and threads instead of its own.
fn document<'a, S: Iterator<Item = Stack>>(
    data: &Data,
    stacks: impl Fn() -> S,
    threads: impl Iterator<Item = Cow<'a, Thread>>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut json = Json::new(out);
    json.object(|json| {
        json.key("meta")?;
        json.object(|json| meta::write(data, json))?;
        tables::write(data, stacks, json)?;
        if !data.counters.is_empty() {
            json.key("counters")?;
            json.array(|json| (data.counters.iter()).try_for_each(|counter| threads::write_counter(counter, json)))?;
        }
        json.fields(&data.rest)?;
        json.key("threads")?;
        json.array(|json| {
            for thread in threads {
                json.object(|json| threads::write(&thread, json))?;
            }
            Ok(())
        })
    })?;
    json.finish()
}

/// Like [`write_data()`], through gzip.
///
/// # Errors
///
/// `out` could not be written to.
pub fn write_data_gz(data: &SavedData, out: &mut dyn Write) -> io::Result<()> {
    let mut gz = GzEncoder::new(out, Compression::new(GZIP_LEVEL));
    write_data(data, &mut gz)?;
    gz.finish()?.flush()
}

/// Like [`write()`], through gzip. Profiles are saved and served in this form.
///
/// # Errors
///
/// `out` could not be written to.
pub fn write_gz(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let mut gz = GzEncoder::new(out, Compression::new(GZIP_LEVEL));
    write(profile, &mut gz)?;
    gz.finish()?.flush()
}
