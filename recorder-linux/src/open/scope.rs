//! What is to be opened, for which tasks, and why that can fail.

use recording::session::RecordOptions;

use crate::machine::refusal::PerfEventRefusal;
use crate::open::events::Events;
use crate::sys::perf_event::flag;

/// Size of the stack copy for an event that may happen a hundred thousand times a second. Deeper stacks are completed
/// from live memory.
pub(crate) const FLOOD_STACK_BYTES: u32 = 8 << 10;

/// Tasks that an event is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// A task before its exec, and its descendants. The exec enables the event.
    OnExec,
    /// A running task, and its descendants. sprof enables the event.
    Running,
    /// All tasks on the machine but the idle ones. sprof enables the event.
    Machine,
}

impl Scope {
    /// The flags of an event that depend on the scope.
    pub(crate) fn flags(self) -> u64 {
        match self {
            Scope::OnExec => flag::INHERIT | flag::ENABLE_ON_EXEC,
            Scope::Running => flag::INHERIT,
            Scope::Machine => flag::EXCLUDE_IDLE,
        }
    }
}

/// Why events could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// The task has ended.
    #[error("cannot open perf events: the process ended before they could be opened")]
    NoSuchTask,
    /// Events may be opened, but not for this task.
    #[error("cannot open perf events: this process may not be looked into")]
    NotThisTask,
    /// The kernel allows no perf events for tasks of this kind, or has none.
    #[error("{0}")]
    NoPerfEvents(PerfEventRefusal),
    /// Another failure: what failed, and the next step.
    #[error("{0}")]
    Refused(String),
}

impl From<String> for OpenError {
    fn from(message: String) -> OpenError {
        OpenError::Refused(message)
    }
}

/// What the user wants to have recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedEvents<'a> {
    pub(crate) rate_hz: f64,
    pub(crate) stack_bytes: u32,
    /// Switch to larger copies of the stacks of samples once they are needed.
    pub(crate) larger_stacks: bool,
    /// Switch to larger copies of the stacks of waits once they are needed.
    pub(crate) larger_wait_stacks: bool,
    pub(crate) off_cpu: bool,
    /// Record switches: they are part of waits.
    pub(crate) switches: bool,
    pub(crate) events: &'a Events,
}

impl<'a> WantedEvents<'a> {
    pub(crate) fn of(options: &RecordOptions, events: &'a Events) -> WantedEvents<'a> {
        WantedEvents {
            rate_hz: options.rate_hz,
            stack_bytes: options.stack_bytes,
            larger_stacks: options.larger_stacks,
            larger_wait_stacks: options.off_cpu,
            off_cpu: options.off_cpu,
            switches: options.off_cpu || options.parallelism,
            events,
        }
    }
}
