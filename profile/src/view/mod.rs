//! Views of a profile as plain data.

pub mod data;
mod top;
mod waits;

pub use top::{TopFunction, TopView, top};
pub use waits::{WaitPlace, wait_places};
