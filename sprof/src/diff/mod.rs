//! The comparison of two sides of recordings, for `sprof diff` and `sprof check`.
//!
//! [`read`](mod@read) reads the files of both sides, [`server_queries`] gets them from servers, [`sums`] turns
//! recordings into sums. The comparison itself is [`profile::view::diff`].

pub(crate) mod read;
pub(crate) mod server_queries;
mod sums;
