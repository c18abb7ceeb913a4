//! File formats: one folder or file each, one function each, the writer passed in.
//!
//! [`firefox`] also writes a profile that was just built. All formats write [`Data`](crate::data::Data), of any source.
//! [`Picked`] selects samples and their weights for all of them, so every format has the same samples.

pub mod callgrind;
pub mod dhat;
pub mod firefox;
pub mod firefox_v55;
pub mod folded;
pub mod html;
pub(crate) mod label;
mod locations;
pub mod otlp;
pub mod parquet;
pub mod perf_script;
mod pick;
pub mod pprof;
pub mod speedscope;
pub mod svg;
mod tree;

pub use pick::{ExportUnit, Picked, PickedTime, PickedTotals};
