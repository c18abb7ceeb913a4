//! Views of a profile as plain data.

mod top;

pub use top::{TopFunction, TopView, top};
