//! The comparison of two sides of recordings, for `sprof diff` and `sprof check`.
//!
//! [`read`](mod@read) reads the files of both sides, [`asked`] gets them from servers, [`sums`] makes recordings and
//! sums comparable. [`words`] describes sides, amounts and changes. [`list`] prints what changed.

pub(crate) mod asked;
pub(crate) mod list;
pub(crate) mod read;
mod sums;
pub(crate) mod words;
