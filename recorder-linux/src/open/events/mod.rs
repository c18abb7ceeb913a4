//! Which events the user named, and what they are on this machine.
//!
//! `-e` names two sorts of events. Those that count (cycles, page faults) become samples, whose weights are counts.
//! Points (tracepoints) become markers: each is something that happened at one time, with values of its own and a
//! stack.
//!
//! 1. `resolve`: what the parsed names ([`perf_data::events`]) are here; `pmu` and `tracefs` find the numbers that
//!    perf_event_open wants.
//! 2. `limit`: how many records of tracepoints are kept.
//!
//! [`open`](crate::open) opens them.

mod counter;
mod limit;
pub(crate) mod pmu;
mod resolve;
pub(crate) mod tracefs;

pub(crate) use counter::Counter;
pub(crate) use limit::PointLimit;
pub(crate) use resolve::{Events, Point};
