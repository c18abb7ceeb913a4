//! Views of a profile as plain data.
//!
//! Views of a profile that was read ([`data`](crate::data)): [`select`] chooses samples, and each view is a function of
//! the selection. [`functions`], [`lines`], [`arcs`], [`tree`], [`buckets`], [`breakdown`], [`mod@crates`],
//! [`timeline`], [`annotate`], [`markers`], [`parallelism`], [`resources`]. [`mod@shortfalls`]: what a result lacks,
//! and why.
//!
//! Views of a new recording: [`summed()`] converts it to such data; `top` and `waits` take it directly.

pub mod annotate;
pub mod arcs;
pub mod breakdown;
pub mod buckets;
pub(crate) mod callees;
mod conditions;
pub mod cost;
pub mod cost_scale;
pub mod crates;
pub mod diff;
mod event;
pub mod files;
mod filter;
pub mod functions;
pub mod futures;
pub mod headline;
pub mod heap;
pub mod lines;
pub mod markers;
pub mod nameless;
pub mod names;
pub mod own_code;
pub mod parallelism;
mod printable;
pub mod resources;
pub mod scaling;
pub mod select;
pub mod shortfalls;
mod span_times;
pub mod spans;
mod sums;
mod symbolicate;
pub mod timeline;
mod top;
pub mod tree;
mod waits;

pub use crate::to_data::summed;
pub use event::NoSuchEvent;
pub use symbolicate::{NamedAddresses, WantedNames, asked_addresses, name_addresses, name_wanted, symbol_sources};
pub use top::{TopFunction, TopView, top};
pub use waits::{WaitPlace, wait_places};
