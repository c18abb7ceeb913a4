//! Why a named event can't be recorded, and what helps. A named event is never replaced silently.

use std::io;

use recording::command::own;
use recording::info::SampleBy;

use super::sampling_event::{SharedSettings, may_record_ourselves};
use super::scope::{OpenError, Scope};
use crate::machine::refusal::paranoid;
use crate::open::events::Counter;
use crate::sys::perf_event::{Attr, EventFd, HW_CPU_CYCLES, THIS_THREAD, flag};
use perf_data::events::names;

/// Refuses an event that can be opened but would never fire.
pub(crate) fn check(counter: &Counter, kernel: bool) -> Result<(), OpenError> {
    match counter.is_in_kernel && (!kernel || !counter.sides.kernel) {
        false => Ok(()),
        true if !counter.sides.kernel => Err(OpenError::Refused(format!(
            "cannot record {}: it happens in the kernel only; leave the modifier out",
            counter.name
        ))),
        true => Err(OpenError::Refused(in_kernel(&counter.name))),
    }
}

fn in_kernel(name: &str) -> String {
    format!(
        "cannot record {name}: it happens in the kernel, which ordinary users may not sample{}: \
         `sudo sysctl kernel.perf_event_paranoid=1`, or run sprof as root",
        level()
    )
}

fn level() -> String {
    paranoid().map_or_else(String::new, |level| format!(" (perf_event_paranoid is {level})"))
}

/// Why a counting event did not open.
pub(crate) fn counter(counter: &Counter, common: &SharedSettings, cpu: u32, error: &io::Error) -> OpenError {
    let name = &counter.name;
    OpenError::Refused(match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO | libc::EOPNOTSUPP) if counter.is_hardware() => {
            match has_hardware() {
                false => format!(
                    "cannot record {name}: this machine has no hardware counters (virtual machine?); cpu-clock samples \
                     time without them, and `{} record -e list` shows what else it has",
                    own()
                ),
                true => format!(
                    "cannot record {name}: this CPU has no such counter, or it can't sample ({error}); \
                     `{} record -e list` shows what it has",
                    own()
                ),
            }
        }
        Some(libc::EINVAL) if counter.is_hardware() => format!(
            "cannot record {name}: the CPU's counters do not take it ({error}): there is no such number, or it can't sample"
        ),
        Some(libc::EINVAL) if matches!(counter.sample_by, SampleBy::Frequency(_)) => format!(
            "cannot record {name}: the kernel does not take it ({error}); is the rate above kernel.perf_event_max_sample_rate?"
        ),
        Some(libc::EACCES | libc::EPERM) if !counter.sides.user => in_kernel(name),
        _ => return other(name, common, cpu, error),
    })
}

/// Why a point event did not open.
pub(crate) fn point(name: &str, common: &SharedSettings, cpu: u32, error: &io::Error) -> OpenError {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM)
            if common.scope != Scope::Running || may_record_ourselves(&common.choice) && !is_root() =>
        {
            OpenError::Refused(format!(
                "cannot record {name}: ordinary users may not record tracepoints{}: run sprof as root, or \
                 `sudo sysctl kernel.perf_event_paranoid=-1`",
                level()
            ))
        }
        _ => other(name, common, cpu, error),
    }
}

fn other(name: &str, common: &SharedSettings, cpu: u32, error: &io::Error) -> OpenError {
    let what = format!("cannot open the event {name} on CPU {cpu}: {error}");
    OpenError::Refused(match error.raw_os_error() {
        Some(libc::ESRCH) => return OpenError::NoSuchTask,
        Some(libc::EACCES | libc::EPERM) if common.scope == Scope::Running && may_record_ourselves(&common.choice) => {
            return OpenError::NotThisTask;
        }
        Some(libc::EACCES | libc::EPERM) => format!(
            "{what}; ordinary users may not record it here{}: run sprof as root",
            level()
        ),
        Some(libc::EMFILE | libc::ENFILE) => format!(
            "{what}; each event needs an open file per CPU (and with -p per thread): name fewer, or raise `ulimit -Hn`"
        ),
        _ => what,
    })
}

fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        line.and_then(|line| line.split_ascii_whitespace().nth(1)) == Some("0")
    })
}

/// True if the CPU's counters can be used: an event for cycles opens for user code of this thread.
pub(crate) fn has_hardware() -> bool {
    let attr = Attr {
        kind: names::HARDWARE,
        config: HW_CPU_CYCLES,
        flags: flag::DISABLED | flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV,
        ..Attr::default()
    };
    let error = EventFd::open(&attr, THIS_THREAD, 0).err();
    error.is_none_or(|error| {
        !matches!(
            error.raw_os_error(),
            Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP)
        )
    })
}
