//! Views of a profile as plain data.
//!
//! Of a profile that was read ([`data`]): [`select`] says which samples, and every view is a function of its answer.
//! [`functions`], [`lines`], [`arcs`], [`tree`], [`buckets`], [`breakdown`], [`annotate`]. Of one that was just recorded: `top` and `waits`.

pub mod annotate;
pub mod arcs;
pub mod breakdown;
pub mod buckets;
mod callees;
pub mod cost;
pub mod data;
pub mod diff;
mod event;
pub mod functions;
pub mod lines;
pub mod names;
mod printable;
pub mod select;
mod sums;
mod symbolicate;
mod top;
pub mod tree;
mod waits;

pub use event::NoSuchEvent;
pub use symbolicate::{Named, name_addresses};
pub use top::{TopFunction, TopView, top};
pub use waits::{WaitPlace, wait_places};
