//! The screen of `sprof browse`: one view of a profile, keys, and the command that prints the same view.
//!
//! [`screen`] is the state. It takes the actions of [`keys`], and makes a [`page`] of a report for each view: nothing
//! is added up here. [`text_page`] is text to scroll through. [`draw`] puts the state into cells. [`terminal`] is the
//! only file that touches the terminal.

mod draw;
mod keys;
mod page;
pub(crate) mod screen;
pub(crate) mod terminal;
#[cfg(test)]
mod tests;
mod text_page;
