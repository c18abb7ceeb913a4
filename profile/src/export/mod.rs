//! File formats: one folder or file each, one function each, the writer passed in.
//!
//! [`firefox`] also writes what was built. All write what was read, whoever recorded it: [`Data`](crate::data::Data),
//! of which [`Picked`] says which samples count, and how much. They agree with each other to the last sample.

pub mod callgrind;
pub mod firefox;
pub mod firefox_v55;
pub mod folded;
pub(crate) mod label;
pub mod perf_script;
mod pick;
pub mod pprof;
pub mod speedscope;
pub mod svg;
mod tree;

pub use pick::{Counted, Picked, Time, Totals};
