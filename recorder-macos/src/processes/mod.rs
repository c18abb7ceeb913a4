//! The recorded processes: how a program starts and ends.

pub mod hello;
pub mod host;
pub(crate) mod launch;
pub mod preload;
pub mod stop;
pub mod watched;
pub mod wire;
