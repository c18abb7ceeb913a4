//! Resolves the events that the user named, for this machine.
//!
//! `-e` names two sorts of events. Events that count (cycles, page faults) become samples, whose weights are counts.
//! Points (tracepoints, probes, breakpoints) become markers: each happened at one time, and has values of its own and
//! a stack.
//!
//! 1. `resolve`: from parsed names ([`perf_data::events`]) to events of this machine. `pmu` and `tracefs` find the
//!    numbers for perf_event_open.
//! 2. `limit`: how many records of tracepoints are kept.
//!
//! [`open`](crate::open) opens the events.

mod counter;
mod limit;
pub(crate) mod pmu;
mod resolve;
pub(crate) mod tracefs;

pub(crate) use counter::Counter;
pub(crate) use limit::PointLimit;
pub(crate) use resolve::{CallPoint, Events, Point, PointSource};
