//! What each command does: arguments to options to library calls.

pub(crate) mod docs;
pub(crate) mod load;
pub(crate) mod record;
mod show;
