//! Chooses the best sampling event that this machine and this user allow. Each step down is announced.

use std::io;

use recording::command::own;

use super::sampling_event::{EventChoice, NoCycles, SharedSettings, core_type, may_record_ourselves};
use super::scope::{OpenError, Scope, WantedEvents};
use super::trouble;
use crate::machine::refusal::{PerfEventRefusal, paranoid};
use crate::sys::perf_event::EventFd;

/// Finds the best event that opens, on one CPU.
pub(super) fn choose(
    scope: Scope,
    pid: i32,
    wanted: &WantedEvents<'_>,
    cpu: u32,
    core_types: &[(u32, Vec<u32>)],
    common: &dyn Fn(&EventChoice) -> SharedSettings,
) -> Result<(EventChoice, Vec<String>), OpenError> {
    let named = &wanted.events.weight;
    let mut choice = EventChoice {
        named: named.clone(),
        hardware: named.is_none(),
        no_cycles: None,
        may_sample_kernel: true,
        has_build_ids: true,
        has_lost_counts: true,
    };
    let mut announcements = Vec::new();
    loop {
        let attr = choice.attr(scope, wanted.rate_hz, wanted.stack_bytes, core_type(core_types, cpu));
        let error = match EventFd::open(&attr, pid, cpu) {
            Ok(_) => {
                if let Some(counter) = named {
                    trouble::check(counter, choice.may_sample_kernel)?;
                }
                // An event of user code opens without the permission that named events may need.
                if !choice.counts_kernel() && choice.may_sample_kernel {
                    choice.may_sample_kernel = !refuses_kernel(scope, pid, &choice, cpu);
                    let others = &wanted.events.counted;
                    if !choice.may_sample_kernel && others.iter().any(|(_, counter)| counter.sides.kernel) {
                        announcements.push(user_code_only());
                    }
                }
                return Ok((choice, announcements));
            }
            Err(error) => error,
        };
        match error.raw_os_error() {
            // Order matters: a virtual machine without PMU answers ENOENT also where permission is lacking.
            Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::ENXIO) if choice.hardware => {
                choice.hardware = false;
                choice.no_cycles = Some(NoCycles::NoCounter);
            }
            // For the whole machine, a refusal has other causes than kernel code.
            Some(libc::EACCES | libc::EPERM)
                if choice.counts_kernel()
                    && scope != Scope::Machine
                    && named.as_ref().is_none_or(|counter| counter.sides.user) =>
            {
                choice.may_sample_kernel = false;
                announcements.push(user_code_only());
            }
            // Older kernels lack counts of lost records (Linux 6.0) and build ids in mappings (5.12).
            Some(libc::EINVAL) if choice.has_lost_counts => choice.has_lost_counts = false,
            Some(libc::EINVAL) if choice.has_build_ids => choice.has_build_ids = false,
            Some(libc::EINVAL) if choice.hardware => {
                choice = EventChoice {
                    hardware: false,
                    no_cycles: Some(NoCycles::NoInterrupts),
                    has_build_ids: true,
                    has_lost_counts: true,
                    ..choice
                };
            }
            _ => {
                return Err(match PerfEventRefusal::of(&error) {
                    _ if let Some(counter) = named
                        && (!counter.sides.user || PerfEventRefusal::of(&error).is_none()) =>
                    {
                        trouble::counter(counter, &common(&choice), cpu, &error)
                    }
                    // A launched program can be recorded with ptrace.
                    Some(refusal) if scope == Scope::OnExec => OpenError::NoPerfEvents(refusal),
                    _ => open_failed(scope, &choice, cpu, &error),
                });
            }
        }
    }
}

fn user_code_only() -> String {
    format!(
        "user code only: kernel time and kernel functions are not recorded{}",
        paranoid().map_or_else(String::new, |level| format!(
            " (perf_event_paranoid is {level}; `sudo sysctl kernel.perf_event_paranoid=1` allows them)"
        ))
    )
}

/// True if the kernel may not be sampled. Opens the timer for a moment: every machine has it, and it needs only the
/// permission.
fn refuses_kernel(scope: Scope, pid: i32, choice: &EventChoice, cpu: u32) -> bool {
    let timer = EventChoice {
        named: None,
        hardware: false,
        ..choice.clone()
    };
    let opened = EventFd::open(&timer.attr(scope, 1.0, 0, 0), pid, cpu);
    opened.is_err_and(|error| matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM)))
}

pub(super) fn open_failed(scope: Scope, choice: &EventChoice, cpu: u32, error: &io::Error) -> OpenError {
    let what = format!("cannot open the perf event {} on CPU {cpu}: {error}", choice.name());
    OpenError::Refused(match error.raw_os_error() {
        Some(libc::ESRCH) => return OpenError::NoSuchTask,
        Some(libc::EACCES | libc::EPERM) if scope == Scope::Running && may_record_ourselves(choice) => {
            return OpenError::NotThisTask;
        }
        Some(libc::EACCES | libc::EPERM) if scope == Scope::Machine => format!(
            "cannot record the whole machine: {error}; ordinary users may where perf_event_paranoid is 0 or less{}: \
             `sudo sysctl kernel.perf_event_paranoid=0`, or run sprof as root",
            paranoid().map_or_else(String::new, |level| format!(" (it is {level})"))
        ),
        Some(libc::EACCES | libc::EPERM) => match paranoid() {
            Some(level) if level > 2 => format!(
                "{what}; perf_event_paranoid is {level}, which refuses ordinary users: `sudo sysctl kernel.perf_event_paranoid=2`, or run sprof as root"
            ),
            _ => format!(
                "{what}; a container's seccomp profile refuses perf_event_open: start the container with `--security-opt seccomp=unconfined` or `--cap-add PERFMON`"
            ),
        },
        Some(libc::EMFILE) => format!("{what}; one file per CPU is needed: raise `ulimit -n`"),
        Some(libc::ENOSYS) => format!("{what}; this kernel was built without CONFIG_PERF_EVENTS"),
        _ => format!("{what}; `{} doctor` shows what this machine allows", own()),
    })
}
