//! Probes of our own in the files of programs: uprobes, defined in tracefs for as long as a recording lasts.
//!
//! Give: a file, an offset in it, and what to read there. Get: a tracepoint, named by group and event, that is opened like any
//! other and disappears with [`Probes`]. Out of scope: which offset a function has (the symbolicator knows), opening, decoding.
//!
//! A definition is global: it stands in the kernel until someone takes it away, whoever made it and however that process
//! ended. So its group names the process that made it, and those of processes that are gone are [`leftovers()`].
//! The perf PMU `uprobe` would clean up by itself, but its events don't follow into threads that the program starts later.
//!
//! `tracefs` (where, and what may go wrong) -> `owner` (whose definitions) -> `leftovers`; [`arguments`] are those of USDT probes.

pub mod arguments;
mod leftovers;
mod owner;
mod tracefs;
mod trial;

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use leftovers::{Leftovers, leftovers, remove_leftovers};

use owner::Owner;
use tracefs::Tracefs;

/// How long a definition may still be in use after its events were closed: the kernel lets go of them after a grace period.
const PATIENCE: Duration = Duration::from_secs(2);
/// A line for `uprobe_events` at most: WRITE_BUFSIZE in kernel/trace/trace.c.
const MAX_LINE_BYTES: usize = 4095;

/// Held between choosing a name and taking it.
static DEFINING: Mutex<()> = Mutex::new(());

/// A place in a file where the program is interrupted for a moment, each time that it comes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The file, as this process's mount namespace has it. All processes that map the same file are meant.
    pub path: PathBuf,
    /// Where in the file an instruction begins.
    pub file_offset: u64,
    /// Where in the file a USDT semaphore is: a counter that is above 0 in each process while the probe is in use.
    pub semaphore: Option<u64>,
    /// What to read there, in the notation of tracefs: `arg1=%di:s32`. See [`arguments::translate`].
    pub arguments: Vec<String>,
}

/// Why there is no probe.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// tracefs is nowhere.
    #[error("probes need tracefs, which is not mounted here: `sudo mount -t tracefs nodev /sys/kernel/tracing`")]
    NotMounted,
    /// Only root may define probes.
    #[error(
        "probes in programs are defined in {path}, which only root may write to: run sprof as root (`sudo sprof ...`)"
    )]
    NotAllowed {
        /// `uprobe_events`.
        path: PathBuf,
    },
    /// A container sees tracefs, but can't write to it.
    #[error(
        "probes in programs are defined in {path}, which is mounted read-only here: run sprof outside of the container, or \
         start the container with --privileged"
    )]
    ReadOnly {
        /// `uprobe_events`.
        path: PathBuf,
    },
    /// CONFIG_UPROBE_EVENTS is not set.
    #[error("this kernel has no uprobes: it was built without CONFIG_UPROBE_EVENTS")]
    NotInKernel,
    /// The file can't be opened.
    #[error("cannot put a probe into {path}: {error}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The kernel does not take the definition.
    #[error("cannot put a probe into {path} at offset {file_offset:#x}: {reason}")]
    Refused {
        /// The file.
        path: PathBuf,
        /// The place.
        file_offset: u64,
        /// In the kernel's words, where it has some.
        reason: String,
    },
    /// Definitions could not be taken away.
    #[error("probes of ours are still defined: {reason}; to remove them: {command}")]
    NotRemoved {
        /// Why.
        reason: String,
        /// What removes them.
        command: String,
    },
}

/// Defined probes. They are gone when this is dropped; their events must have been closed by then.
#[derive(Debug)]
pub struct Probes {
    tracefs: Tracefs,
    group: String,
    events: Vec<String>,
}

impl Probes {
    /// Defines them all, or none. Each is tried out: what can't be probed is told here and not by silence.
    pub fn define(probes: &[Probe]) -> Result<Probes, ProbeError> {
        let tracefs = Tracefs::find()?;
        let mut defined = Probes {
            group: Owner::myself()?.group(),
            tracefs,
            events: Vec::with_capacity(probes.len()),
        };
        for probe in probes {
            defined.add(probe)?;
        }
        Ok(defined)
    }

    fn add(&mut self, probe: &Probe) -> Result<(), ProbeError> {
        let file = File::open(&probe.path).map_err(|error| ProbeError::File {
            path: probe.path.clone(),
            error,
        })?;
        let refused = |reason: String| ProbeError::Refused {
            path: probe.path.clone(),
            file_offset: probe.file_offset,
            reason,
        };
        // A second definition by the same name would become a part of the first.
        let _alone = DEFINING.lock().unwrap_or_else(PoisonError::into_inner);
        let name = self.tracefs.free_name(&self.group, self.events.len())?;
        let line = definition(&self.group, &name, probe, &file);
        if line.len() > MAX_LINE_BYTES {
            return Err(refused(format!(
                "its definition would have {} bytes, more than the kernel takes",
                line.len()
            )));
        }
        self.tracefs.command(&line).map_err(|error| match error {
            tracefs::CommandError::Tracefs(error) => error,
            tracefs::CommandError::Refused(reason) => refused(reason),
        })?;
        self.events.push(name);
        let id = self
            .tracefs
            .event_id(&self.group, &self.events[self.events.len() - 1])?;
        trial::run(id, &file, probe.file_offset).map_err(refused)
    }

    /// Group and event of each, in the order in which they were given: how tracefs names the tracepoints.
    pub fn tracepoints(&self) -> impl Iterator<Item = (&str, &str)> {
        self.events.iter().map(|event| (self.group.as_str(), event.as_str()))
    }

    /// Takes the definitions away, now. Waits a little for the kernel to let go of events that were closed just before.
    pub fn remove(mut self) -> Result<(), ProbeError> {
        self.remove_all()
    }

    fn remove_all(&mut self) -> Result<(), ProbeError> {
        let deadline = Instant::now() + PATIENCE;
        while let Some(event) = self.events.last() {
            match self.tracefs.remove(&self.group, event) {
                Ok(()) => {
                    self.events.pop();
                }
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(error) => {
                    let command = self.tracefs.removing_command(self.tracepoints());
                    return Err(ProbeError::NotRemoved {
                        reason: error.to_string(),
                        command,
                    });
                }
            }
        }
        Ok(())
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        // Where that fails, the next recording finds them as leftovers.
        let _ = self.remove_all();
    }
}

/// Documentation/trace/uprobetracer.rst: `p:GROUP/EVENT PATH:OFFSET(REF_CTR_OFFSET) ARGUMENTS`.
fn definition(group: &str, name: &str, probe: &Probe, file: &File) -> String {
    let path = match in_one_word(&probe.path) {
        Some(path) => path,
        None => format!("/proc/self/fd/{}", file.as_raw_fd()),
    };
    let mut line = format!("p:{group}/{name} {path}:{:#x}", probe.file_offset);
    if let Some(semaphore) = probe.semaphore {
        line.push_str(&format!("({semaphore:#x})"));
    }
    for argument in &probe.arguments {
        line.push(' ');
        line.push_str(argument);
    }
    line
}

/// The absolute path, if it can be written there: words end at spaces, lines at `#`, and nothing can be quoted.
fn in_one_word(path: &Path) -> Option<String> {
    let path = std::path::absolute(path).ok()?;
    let bytes = path.as_os_str().as_bytes();
    let plain = bytes.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'#');
    plain.then(|| path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_in_the_kernel_s_notation() {
        let file = File::open("/dev/null").unwrap();
        let mut probe = Probe {
            path: "/usr/bin/app".into(),
            file_offset: 0x1160,
            semaphore: None,
            arguments: Vec::new(),
        };
        assert_eq!(definition("g", "e0", &probe, &file), "p:g/e0 /usr/bin/app:0x1160");
        probe.semaphore = Some(0x3010);
        probe.arguments = vec!["arg1=%di:s32".to_owned()];
        assert_eq!(
            definition("g", "e0", &probe, &file),
            "p:g/e0 /usr/bin/app:0x1160(0x3010) arg1=%di:s32"
        );
        // Seen with a name that has a space: "Failed to find the given file".
        for path in ["/tmp/with space", "/tmp/a#b", "/tmp/ä"] {
            probe.path = path.into();
            let line = definition("g", "e0", &probe, &file);
            assert!(line.starts_with("p:g/e0 /proc/self/fd/"), "{line}");
        }
    }
}
