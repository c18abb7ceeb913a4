//! What is to be opened, for whom, and why that can fail.

use recording::session::RecordOptions;

use crate::machine::refusal::PerfEventRefusal;
use crate::open::events::Events;
use crate::sys::perf_event::flag;

/// The stack of an event that may happen a hundred thousand times a second is copied up to here. Deeper ones are
/// completed.
pub(crate) const FLOOD_STACK_BYTES: u32 = 8 << 10;

/// Which tasks an event is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// A task that has not yet called exec, and all that come from it. Enabled by its exec.
    OnExec,
    /// A running task, and all that come from it. Enabled by hand.
    Running,
    /// All tasks on the machine but the idle ones. Enabled by hand.
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
    /// No task of this kind may be recorded with perf events here, or there are none.
    #[error("{0}")]
    NoPerfEvents(PerfEventRefusal),
    /// What failed, and the next step.
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
    /// Switch to larger copies of stacks once they are needed.
    pub(crate) larger_stacks: bool,
    /// Larger stacks of waits.
    pub(crate) larger_wait_stacks: bool,
    pub(crate) off_cpu: bool,
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
            events,
        }
    }
}
