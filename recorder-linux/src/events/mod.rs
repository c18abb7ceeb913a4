//! Which events the user named, what they are on this machine, and how the kernel writes what they tell.
//!
//! `-e` names two sorts of events. Those that count (cycles, page faults) become samples, whose weights are counts. Points
//! (tracepoints) become markers: each is something that happened at one time, with values of its own and a stack.
//!
//! 1. [`parse()`]: words to [`EventSpec`]s (with `names`). Needs no machine.
//! 2. `resolve`: what they are here; `pmu` and `tracefs` find the numbers that perf_event_open wants.
//! 3. `open`: an event for each, on every CPU, with rings of their own.
//! 4. [`format`](Format): the bytes of a point event to values.

#[cfg(target_os = "linux")]
mod counter;
mod format;
#[cfg(target_os = "linux")]
mod limit;
#[cfg(target_os = "linux")]
mod list;
mod names;
#[cfg(target_os = "linux")]
mod open;
mod parse;
#[cfg(target_os = "linux")]
mod pmu;
#[cfg(target_os = "linux")]
mod resolve;
#[cfg(target_os = "linux")]
mod tracefs;
#[cfg(target_os = "linux")]
mod trouble;

#[cfg(target_os = "linux")]
pub(crate) use counter::Counter;
pub use format::Format;
#[cfg(target_os = "linux")]
pub(crate) use format::RETURN_ADDRESS;
#[cfg(target_os = "linux")]
pub(crate) use limit::PointLimit;
#[cfg(target_os = "linux")]
pub use list::list_events;
pub use names::Generic;
#[cfg(target_os = "linux")]
pub(crate) use open::{Common, FurtherEvents};
pub(crate) use parse::ONLY_USER_CODE;
pub use parse::{EventSpec, ParseError, ProbeKind, Selector, Sides, parse};
#[cfg(target_os = "linux")]
pub(crate) use resolve::Events;
#[cfg(target_os = "linux")]
pub(crate) use trouble::{check, counter as counter_trouble};
