//! Why the kernel refuses perf_event_open or ptrace, and what permits it.

use std::fmt;
use std::fs;
use std::io;

use recording::command::own;

/// Why perf_event_open(2) fails for all events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PerfEventRefusal {
    /// `kernel.perf_event_paranoid` has this level.
    Paranoid(i32),
    /// A seccomp filter is active, most likely of a container.
    Filter,
    /// No seccomp filter is active: a security module refuses.
    Policy,
    /// The kernel lacks the call, or a sandbox hides it.
    Missing,
}

impl PerfEventRefusal {
    /// The refusal behind an error of perf_event_open for user code; `None` for other errors.
    pub(crate) fn of(error: &io::Error) -> Option<PerfEventRefusal> {
        match error.raw_os_error() {
            Some(libc::ENOSYS) => Some(PerfEventRefusal::Missing),
            // Only the kernels of Debian, Ubuntu and Android have levels 3 and 4.
            Some(libc::EACCES | libc::EPERM) => Some(match paranoid() {
                Some(level) if level > 2 => PerfEventRefusal::Paranoid(level),
                _ if has_seccomp_filter() => PerfEventRefusal::Filter,
                _ => PerfEventRefusal::Policy,
            }),
            _ => None,
        }
    }

    /// What makes perf_event_open work, for the user; `None` if nothing is known to help.
    pub(crate) fn remedy(self) -> Option<&'static str> {
        Some(match self {
            PerfEventRefusal::Paranoid(_) => "`sudo sysctl kernel.perf_event_paranoid=2`, or run sprof as root",
            PerfEventRefusal::Filter => {
                "start the container with `--cap-add PERFMON` (Docker, Podman), or with `--security-opt \
                 seccomp=unconfined`"
            }
            PerfEventRefusal::Policy => {
                "allow it in the policy of the security module (SELinux: `ausearch -m avc` shows which)"
            }
            PerfEventRefusal::Missing => return None,
        })
    }

    /// Commands that make perf_event_open work; each one suffices.
    pub(crate) fn commands(self) -> Vec<String> {
        let owned = |commands: &[&str]| commands.iter().map(|command| (*command).to_owned()).collect();
        match self {
            PerfEventRefusal::Paranoid(_) => vec!["sudo sysctl kernel.perf_event_paranoid=1".to_owned(), may_always()],
            PerfEventRefusal::Filter => owned(&[
                "docker run --cap-add PERFMON ...",
                "docker run --security-opt seccomp=unconfined ...",
            ]),
            PerfEventRefusal::Policy => owned(&["sudo ausearch -m avc"]),
            PerfEventRefusal::Missing => Vec::new(),
        }
    }
}

/// The command that lets this executable file record for every user (capabilities(7), CAP_PERFMON).
pub(crate) fn may_always() -> String {
    format!("sudo setcap cap_perfmon+ep {}", own())
}

impl fmt::Display for PerfEventRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PerfEventRefusal::Paranoid(level) => write!(
                f,
                "kernel.perf_event_paranoid is {level}, which refuses perf_event_open"
            ),
            PerfEventRefusal::Filter => {
                f.write_str("a seccomp filter, most likely of a container, refuses perf_event_open")
            }
            PerfEventRefusal::Policy => f.write_str("a security module refuses perf_event_open"),
            PerfEventRefusal::Missing => f.write_str("this kernel has no perf_event_open (or a sandbox hides it)"),
        }
    }
}

/// What says when threads run, without which ptrace has no samples.
pub(crate) const OWN_PROC: &str = "/proc/self";

/// Why ptrace fails here.
#[derive(Debug)]
pub(crate) struct PtraceRefusal {
    /// A system call, or [`OWN_PROC`].
    call: &'static str,
    error: io::Error,
}

impl PtraceRefusal {
    pub(crate) fn new(call: &'static str, error: io::Error) -> PtraceRefusal {
        PtraceRefusal { call, error }
    }

    /// What makes ptrace work, for the user.
    pub(crate) fn remedy(&self) -> String {
        match self.call {
            OWN_PROC => format!("`{}`", self.command()),
            _ => format!("`{}`; and no strace or debugger around sprof", self.command()),
        }
    }

    /// The command that makes ptrace work.
    pub(crate) fn command(&self) -> &'static str {
        match yama_scope() {
            _ if self.call == OWN_PROC => "mount -t proc proc /proc",
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

/// `kernel.perf_event_paranoid`; `None` where the file is missing or has no number.
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

/// The number in a file of one line; `None` if the file can't be read, or has no number.
pub(crate) fn setting<T: std::str::FromStr>(path: &str) -> Option<T> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}
