//! Why a probe could not be defined.

use std::io;
use std::path::PathBuf;

use recording::command::own;
use recording::probe::ProbePlace;

/// Why a probe could not be defined.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// tracefs is not mounted.
    #[error("probes need tracefs, which is not mounted here: `sudo mount -t tracefs nodev /sys/kernel/tracing`")]
    NotMounted,
    /// Only root may define probes.
    #[error(
        "probes are defined in {path}, which only root may write to: run sprof as root (`sudo {} ...`)",
        own()
    )]
    NotAllowed {
        /// `uprobe_events` or `kprobe_events`.
        path: PathBuf,
    },
    /// A container sees tracefs, but can't write to it.
    #[error(
        "probes are defined in {path}, which is mounted read-only here: run sprof outside of the container, or \
         start the container with --privileged"
    )]
    ReadOnly {
        /// `uprobe_events` or `kprobe_events`.
        path: PathBuf,
    },
    /// CONFIG_UPROBE_EVENTS is not set.
    #[error("this kernel has no uprobes: it was built without CONFIG_UPROBE_EVENTS")]
    NotInKernel,
    /// CONFIG_KPROBE_EVENTS is not set.
    #[error(
        "this kernel lets nobody probe its functions: it was built without CONFIG_KPROBES or CONFIG_KPROBE_EVENTS, which \
         the kernels of most distributions have; the tracepoints in `{} record -e list` need neither",
        own()
    )]
    NoKernelProbes,
    /// The file can't be opened.
    #[error("cannot put a probe into {path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// The kernel does not take the definition.
    #[error("cannot put a probe into {place}: {reason}")]
    Refused {
        /// The place.
        place: ProbePlace,
        /// The kernel's message, or what sprof found.
        reason: String,
    },
    /// Definitions could not be removed.
    #[error("probes of ours are still defined: {reason}; to remove them: {command}")]
    NotRemoved {
        /// The error.
        reason: String,
        /// A shell command that removes them.
        command: String,
    },
}
