//! The recorded processes: how a program starts and ends, and what /proc says about them.

pub(crate) mod launch;
pub(crate) mod procfs;
pub(crate) mod start_clock;
pub(crate) mod stop;
pub(crate) mod unrecorded;
pub(crate) mod watched;
