//! The recorded processes: how a program starts and ends.

pub mod host;
pub(crate) mod launch;
pub mod stop;
pub mod watched;
