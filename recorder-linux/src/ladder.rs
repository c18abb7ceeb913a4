//! Which way of recording this machine and this user allow: the best that works, each step down said.
//!
//! | rung | sees | needs |
//! |---|---|---|
//! | perf_event with the kernel | all | perf_event_paranoid 1, CAP_PERFMON or root |
//! | perf_event, user code only | user code | perf_event_paranoid 2 |
//! | ptrace | user code, at a lower rate | nothing but a parent's right to trace its child |

use std::fmt;
use std::fs;
use std::io;

use recording::command::own;

use crate::events::Events;
use crate::open::{self, OpenError, Opened, Scope, Wanted};
use crate::ptrace::HIGHEST_RATE_HZ;
use crate::sys::ptrace;
use crate::sys::signals::Signals;
use recording::session::RecordOptions;

/// How a program will be recorded.
#[derive(Debug)]
pub(crate) enum Rung {
    /// perf_event, with or without the kernel.
    PerfEvent(Box<Opened>),
    /// ptrace at this rate.
    Ptrace {
        /// Samples a second of CPU time.
        rate_hz: f64,
        /// Why it is not perf_event, what it costs, and how to get the better one.
        announcements: Vec<String>,
        /// SIGCHLD, taken over while there is only one thread: any other would take the news from the one that traces.
        child_news: Signals,
    },
    /// It is held: its events are opened when recording begins.
    NotYet,
}

/// Takes the best rung for a program that waits for its exec.
pub(crate) fn climb(pid: i32, options: &RecordOptions, events: &Events, signals: &Signals) -> Result<Rung, String> {
    let refusal = match open::open(Scope::OnExec, pid, &Wanted::of(options, events)) {
        Ok(opened) => return Ok(Rung::PerfEvent(Box::new(opened))),
        Err(OpenError::NoPerfEvents(refusal)) => refusal,
        Err(error) => return Err(error.to_string()),
    };
    if !events.is_empty() {
        let names: Vec<&str> = events.infos.iter().map(|info| info.name.as_str()).collect();
        return Err(format!(
            "cannot record {}: {refusal}, and ptrace, the other way to record, knows no events. {}",
            names.join(", "),
            refusal.mend().map_or_else(
                || "Without -e there is a profile of CPU time".to_owned(),
                |mend| format!("What helps: {mend}; without -e there is a profile of CPU time")
            )
        ));
    }
    ptrace::try_out(signals).map_err(|(call, error)| {
        let other = PtraceRefusal::new(call, error);
        let mends = [refusal.mend().map(str::to_owned), Some(other.mend())].into_iter().flatten();
        format!(
            "{refusal}; ptrace, the other way to record, is refused, too ({other}). What helps: {}; `{} doctor` tells more",
            mends.collect::<Vec<_>>().join("; or "),
            own()
        )
    })?;
    let rate_hz = options.ptrace_rate_hz.min(HIGHEST_RATE_HZ);
    let mut announcements = vec![format!(
        "{refusal}: sampling with ptrace instead, at {rate_hz:.0} Hz. It stops a thread for about 50 us for each \
         sample, shows no kernel functions, and on a busy machine gives functions that enter the kernel too large a share"
    )];
    announcements.extend(
        refusal
            .mend()
            .map(|mend| format!("for perf_event: {mend}; `{} doctor` tells more", own())),
    );
    if options.off_cpu {
        announcements.push("waits are not recorded: ptrace sees threads on a CPU only".to_owned());
    }
    if options.ptrace_rate_hz > HIGHEST_RATE_HZ {
        announcements.push(format!(
            "with ptrace, {HIGHEST_RATE_HZ:.0} Hz is the highest rate: each sample costs the program more than perf_event's"
        ));
    }
    let child_news =
        Signals::block_child_news().map_err(|error| format!("cannot take over SIGCHLD (signalfd): {error}"))?;
    ptrace::hear_of_children();
    Ok(Rung::Ptrace {
        rate_hz,
        announcements,
        child_news,
    })
}

/// perf_event_open(2) does not work here at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// By `kernel.perf_event_paranoid`, at this level.
    Paranoid(i32),
    /// With a seccomp filter active: that of a container most likely.
    Filter,
    /// Without one: by a security module.
    Policy,
    /// The kernel does not have it, or a sandbox says so.
    Missing,
}

impl Refusal {
    /// The refusal behind an error of perf_event_open for user code alone; `None` if it is something else.
    pub(crate) fn of(error: &io::Error) -> Option<Refusal> {
        match error.raw_os_error() {
            Some(libc::ENOSYS) => Some(Refusal::Missing),
            // Levels 3 and 4 are those of Debian's, Ubuntu's and Android's kernels.
            Some(libc::EACCES | libc::EPERM) => Some(match paranoid() {
                Some(level) if level > 2 => Refusal::Paranoid(level),
                _ if has_seccomp_filter() => Refusal::Filter,
                _ => Refusal::Policy,
            }),
            _ => None,
        }
    }

    /// What makes it work.
    pub(crate) fn mend(self) -> Option<&'static str> {
        Some(match self {
            Refusal::Paranoid(_) => "`sudo sysctl kernel.perf_event_paranoid=2`, or run sprof as root",
            Refusal::Filter => {
                "start the container with `--cap-add PERFMON` (Docker, Podman), or with `--security-opt \
                 seccomp=unconfined`"
            }
            Refusal::Policy => "allow it in the policy of the security module (SELinux: `ausearch -m avc` tells which)",
            Refusal::Missing => return None,
        })
    }

    /// The same as commands, each by itself.
    pub(crate) fn commands(self) -> Vec<String> {
        let owned = |commands: &[&str]| commands.iter().map(|command| (*command).to_owned()).collect();
        match self {
            Refusal::Paranoid(_) => vec!["sudo sysctl kernel.perf_event_paranoid=1".to_owned(), may_always()],
            Refusal::Filter => owned(&[
                "docker run --cap-add PERFMON ...",
                "docker run --security-opt seccomp=unconfined ...",
            ]),
            Refusal::Policy => owned(&["sudo ausearch -m avc"]),
            Refusal::Missing => Vec::new(),
        }
    }
}

/// The command that lets this very file record, whoever runs it (capabilities(7), CAP_PERFMON).
pub(crate) fn may_always() -> String {
    format!("sudo setcap cap_perfmon+ep {}", own())
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Paranoid(level) => write!(
                f,
                "kernel.perf_event_paranoid is {level}, which refuses perf_event_open"
            ),
            Refusal::Filter => {
                f.write_str("a seccomp filter, that of a container most likely, refuses perf_event_open")
            }
            Refusal::Policy => f.write_str("a security module refuses perf_event_open"),
            Refusal::Missing => f.write_str("this kernel has no perf_event_open (or a sandbox hides it)"),
        }
    }
}

/// ptrace does not work here.
#[derive(Debug)]
pub(crate) struct PtraceRefusal {
    call: &'static str,
    error: io::Error,
}

impl PtraceRefusal {
    pub(crate) fn new(call: &'static str, error: io::Error) -> PtraceRefusal {
        PtraceRefusal { call, error }
    }

    /// What makes it work.
    pub(crate) fn mend(&self) -> String {
        format!("`{}`; and no strace or debugger around sprof", self.command())
    }

    /// The same as a command.
    pub(crate) fn command(&self) -> &'static str {
        match yama_scope() {
            Some(3..) => "kernel.yama.ptrace_scope=1 in /etc/sysctl.d, and a reboot",
            Some(2) => "sudo sysctl kernel.yama.ptrace_scope=1",
            _ => "docker run --cap-add SYS_PTRACE ...",
        }
    }
}

impl fmt::Display for PtraceRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.call, self.error)?;
        match yama_scope() {
            Some(scope) if scope >= 2 => write!(f, " (kernel.yama.ptrace_scope is {scope})"),
            _ => Ok(()),
        }
    }
}

/// `kernel.perf_event_paranoid`; `None` where there is no such file.
pub(crate) fn paranoid() -> Option<i32> {
    setting("/proc/sys/kernel/perf_event_paranoid")
}

fn yama_scope() -> Option<i32> {
    setting("/proc/sys/kernel/yama/ptrace_scope")
}

fn has_seccomp_filter() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
    // SECCOMP_MODE_FILTER, include/uapi/linux/seccomp.h.
    mode.is_some_and(|mode| mode.trim() == "2")
}

/// A number in a file of one line.
pub(crate) fn setting<T: std::str::FromStr>(path: &str) -> Option<T> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}
