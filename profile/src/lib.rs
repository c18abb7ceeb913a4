#![doc = include_str!("../README.md")]
//! # From events to data
//!
//! The builder puts events into a [`Profile`]: one tree of stacks for all threads, and about eight bytes a sample,
//! because a recording may last for hours. [`enrich`] replaces the addresses in it by functions. The finished profile
//! becomes [`data::Data`], the form in which every file is read too: columns that views, exports and
//! [`merge`](mod@merge) take.
//!
//! # The modules, in reading order
//!
//! 1. [`builder`]: events to samples, threads and stacks.
//! 2. `recorded`: the tables of a [`Profile`]; `category`: the kinds of code.
//! 3. [`enrich`]: addresses to functions, inlined functions, files and lines. [`harness`]: the running benchmark or
//!    test of each sample. `to_data`: a [`Profile`] to [`data`].
//! 4. [`export`]: the file formats.
//! 5. [`merge`](mod@merge): several profiles as one.
//! 6. [`read`]: saved profiles of sprof and of other profilers, of every known version.
//!    [`sanitize`](mod@sanitize): what others are not to see, taken out. [`trim`](mod@trim): a part of a profile.
//! 7. [`view`]: the terminal's views; [`text`]: safe display of names from outside.

pub mod builder;
mod category;
mod crate_sources;
pub mod data;
pub mod embed;
pub mod enrich;
mod event_block;
pub mod export;
mod function_files;
pub mod harness;
pub mod merge;
mod owned_event;
mod pprof_fields;
pub mod read;
mod recorded;
pub mod sanitize;
mod source_paths;
pub mod sources;
pub mod text;
mod to_data;
mod tracks;
pub mod trim;
mod unique;
pub mod view;
pub mod window;

pub use data::{RecordingFacts, RecordingLimit, RunExtent};
pub use recorded::no_samples::NoSamples;
pub use recorded::waits::{WaitSum, WaitTotals};
pub use recorded::{BuildCounts, LibAddresses, Profile, SampledTime};
pub use to_data::for_page;
pub use tracks::{Track, Tracks};
