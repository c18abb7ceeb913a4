//! The commands: from arguments to options to library calls.

pub(crate) mod annotate;
pub(crate) mod cargo;
pub(crate) mod check;
mod compare;
pub(crate) mod complete;
mod convert;
pub(crate) mod count;
pub(crate) mod diff;
mod differential;
pub(crate) mod docs;
pub(crate) mod doctor;
mod events;
pub(crate) mod export;
pub(crate) mod flamegraph;
pub(crate) mod load;
pub(crate) mod merge;
pub(crate) mod push;
pub(crate) mod record;
pub(crate) mod report;
mod saved_data;
pub(crate) mod self_test;
pub(crate) mod serve;
pub(crate) mod setup;
pub(crate) mod share;
mod show;
pub(crate) mod stat;
mod target;
