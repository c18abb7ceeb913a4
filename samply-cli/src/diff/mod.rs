//! The comparison of two sides of recordings, for `sprof diff` and `sprof check`.
//!
//! [`read`](mod@read) reads the files of both sides. [`words`] describes sides, amounts and changes. [`list`] prints what changed.

pub(crate) mod list;
pub(crate) mod read;
pub(crate) mod words;
