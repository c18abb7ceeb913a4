//! A profile: built from a recording's events, enriched with symbols, written, read back, and viewed.
//!
//! Give a [`build::Builder`] the events that leave the unwinder; get a [`Profile`]. What it needs of symbols it tells
//! ([`Profile::libs`]) and is told ([`enrich::enrich`]) as plain data. Out of scope: where symbols come from, sockets,
//! system calls, and which file to write.
//!
//! The journey, in reading order:
//!
//! 1. [`build`]: events to samples, threads and stacks.
//! 2. `model`: the tables in memory; `category`: what kind of code a frame is. `built`: the finished profile as
//!    [`data::Data`], which all that follows is of.
//! 3. [`enrich`]: addresses to functions, inlined functions, files and lines.
//!    [`harness`]: of benchmarks and tests, which one ran when.
//! 4. [`export`]: the file formats.
//! 5. [`merge`](mod@merge): several profiles as one.
//! 6. [`read`]: saved profiles, whoever wrote them, in whichever version.
//! 7. [`view`]: what a terminal shows; [`text`]: how names from outside are shown.

pub mod build;
mod built;
mod category;
pub mod data;
pub mod enrich;
pub mod export;
mod facts;
pub mod harness;
pub mod merge;
mod model;
pub mod read;
pub mod text;
mod tracks;
mod unique;
pub mod view;
mod wire;

pub use built::saved_form;
pub use data::{Limit, Recorded};
pub use model::no_samples::NoSamples;
pub use model::waits::{WaitSum, WaitTotals};
pub use model::{Counts, LibAddresses, Profile};
pub use tracks::{Track, Tracks};
