//! File formats: one folder or file each, one function each, the writer passed in.

pub mod firefox;
