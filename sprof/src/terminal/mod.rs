//! The terminal of the user: messages, colours, columns, and the browser.
//!
//! [`Term`] writes messages to stderr. [`style`] has the styles, and escapes control characters; [`columns`] fits text
//! into columns; [`browser`] opens the link of a server.

pub(crate) mod browser;
pub(crate) mod columns;
mod messages;
pub(crate) mod style;

pub(crate) use messages::{Term, Verbosity};
