//! Names of events as users write them, and the values that tracepoints write.
//!
//! 1. [`parse()`]: words to [`EventSpec`]s (with [`names`]).
//! 2. [`EventFormat`]: the bytes of a tracepoint's record to values, with names for the constants of system calls
//!    (`arguments`).

mod arguments;
mod format;
pub mod names;
mod parse;

pub use format::{EventFormat, RETURN_ADDRESS};
pub use names::GenericEvent;
pub use parse::{CountedCode, EventSelector, EventSpec, ONLY_USER_CODE, ParseError, ProbeKind, parse};
