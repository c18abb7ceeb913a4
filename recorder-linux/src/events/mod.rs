//! Which events the user named, and what they are on this machine.
//!
//! `-e` names two sorts of events. Those that count (cycles, page faults) become samples, whose weights are counts. Points
//! (tracepoints) become markers: each is something that happened at one time, with values of its own and a stack.
//!
//! 1. `resolve`: what the parsed names ([`perf_data::events`]) are here; `pmu` and `tracefs` find the numbers that
//!    perf_event_open wants.
//! 2. `open`: an event for each, on every CPU, with ring buffers of their own.
//! 3. `limit`: how many records of a tracepoint are kept; `trouble`: why an event can't be opened.

mod counter;
mod limit;
mod list;
mod open;
mod pmu;
mod resolve;
mod tracefs;
mod trouble;

pub(crate) use counter::Counter;
pub(crate) use limit::PointLimit;
pub use list::list_events;
pub(crate) use open::{Common, FurtherEvents};
pub(crate) use resolve::Events;
pub(crate) use trouble::{check, counter as counter_trouble};
