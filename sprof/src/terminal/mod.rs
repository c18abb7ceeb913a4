//! The terminal of the user: messages, colours, columns, and the browser.
//!
//! [`Term`] writes messages to stderr. [`style`] has the styles, and escapes control characters; [`columns`] fits text
//! into columns; [`browser`] opens the link of a server, and [`keys`] reads keys meanwhile.

pub(crate) mod browser;
pub(crate) mod columns;
pub(crate) mod keys;
mod messages;
pub(crate) mod style;

pub(crate) use messages::{Term, Verbosity};
