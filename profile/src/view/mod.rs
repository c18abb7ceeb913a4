//! Views of a profile as plain data.

pub mod data;
pub mod diff;
mod symbolicate;
mod top;
mod waits;

pub use symbolicate::{Named, name_addresses};
pub use top::{TopFunction, TopView, top};
pub use waits::{WaitPlace, wait_places};
