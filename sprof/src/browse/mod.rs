//! The screen of `sprof browse`: one view of a profile, keys, and the command that prints the same view.
//!
//! [`screen`] is the state. It takes the actions of [`keys`], and makes a [`page`] of a report for each view: nothing
//! is added up here. [`shown`] lists the views. [`text_page`] is text to scroll through, [`flame`] has the frames of a
//! flame graph, [`strips`] threads by time, where [`range`] chooses a part. [`draw`], [`draw_flame`] and
//! [`draw_timeline`] put the state into the cells of [`canvas`], in [`colors`]. [`mouse`] acts on clicks. [`terminal`]
//! is the only file that touches the terminal.

mod canvas;
mod colors;
mod draw;
mod draw_flame;
mod draw_timeline;
mod flame;
mod keys;
mod mouse;
mod page;
mod range;
pub(crate) mod screen;
mod shown;
mod strips;
pub(crate) mod terminal;
#[cfg(test)]
mod tests;
mod text_page;
