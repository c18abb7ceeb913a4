//! The files of tracefs that define probes.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::ProbeError;

/// Where it is mounted: since Linux 4.1; before, and still, within debugfs.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// tracefs, seen to be there, with uprobes in it.
#[derive(Clone, Debug)]
pub(super) struct Tracefs {
    root: PathBuf,
}

/// Why a command was not carried out.
pub(super) enum CommandError {
    /// Nothing can be defined here.
    Tracefs(ProbeError),
    /// This can't be.
    Refused(String),
}

impl Tracefs {
    pub(super) fn find() -> Result<Tracefs, ProbeError> {
        Tracefs::find_in(&PLACES.map(Path::new))
    }

    fn find_in(places: &[&Path]) -> Result<Tracefs, ProbeError> {
        let mut not_allowed = None;
        for root in places {
            let tracefs = Tracefs {
                root: root.to_path_buf(),
            };
            // The mount point is there, and empty, where nothing is mounted.
            match fs::metadata(root.join("events")) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    not_allowed.get_or_insert(tracefs.list_path());
                    continue;
                }
                Err(_) => continue,
            }
            return match fs::metadata(tracefs.list_path()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ProbeError::NotInKernel),
                _ => Ok(tracefs),
            };
        }
        // Its folder is closed to ordinary users, so whether it is mounted can't be seen.
        match not_allowed {
            Some(path) => Err(ProbeError::NotAllowed { path }),
            None => Err(ProbeError::NotMounted),
        }
    }

    fn list_path(&self) -> PathBuf {
        self.root.join("uprobe_events")
    }

    /// All definitions, those of others too, a line each.
    pub(super) fn list(&self) -> Result<String, ProbeError> {
        fs::read_to_string(self.list_path()).map_err(|error| self.error(error))
    }

    /// A name for an event that is not taken.
    pub(super) fn free_name(&self, group: &str, number: usize) -> Result<String, ProbeError> {
        let list = self.list()?;
        let taken: HashSet<&str> = super::leftovers::definitions(&list)
            .filter(|definition| definition.group == group)
            .map(|definition| definition.event)
            .collect();
        let name = (number..)
            .map(|number| format!("e{number}"))
            .find(|name| !taken.contains(name.as_str()));
        Ok(name.unwrap_or_default())
    }

    /// Carries out one line.
    pub(super) fn command(&self, line: &str) -> Result<(), CommandError> {
        self.write(line).map_err(|error| match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => CommandError::Tracefs(self.error(error)),
            _ => CommandError::Refused(self.words(line).unwrap_or_else(|| error.to_string())),
        })
    }

    /// Takes one definition away. One that is gone already is no error.
    pub(super) fn remove(&self, group: &str, event: &str) -> io::Result<()> {
        match self.write(&format!("-:{group}/{event}")) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            result => result,
        }
    }

    fn write(&self, line: &str) -> io::Result<()> {
        // Appending: opening it to be overwritten takes away everybody's definitions.
        let mut file = OpenOptions::new().append(true).open(self.list_path())?;
        file.write_all(format!("{line}\n").as_bytes())
    }

    /// What the kernel says of a command that it refused, since Linux 5.2:
    /// `[23062.9] trace_uprobe: error: Failed to find the given file`, `  Command: p:...`.
    fn words(&self, line: &str) -> Option<String> {
        let log = fs::read_to_string(self.root.join("error_log")).ok()?;
        let mut words = None;
        let mut last = "";
        for entry in log.lines() {
            if entry.trim_start().strip_prefix("Command: ").map(str::trim_end) == Some(line.trim_end()) {
                words = last.split_once("error: ").map(|(_, words)| words.to_owned());
            }
            last = entry;
        }
        words
    }

    /// The id under which perf_event_open(2) knows a tracepoint.
    pub(super) fn event_id(&self, group: &str, event: &str) -> Result<u64, ProbeError> {
        let path = self.root.join("events").join(group).join(event).join("id");
        let text = fs::read_to_string(&path).map_err(|error| ProbeError::File {
            path: path.clone(),
            error,
        })?;
        text.trim().parse().map_err(|_| ProbeError::File {
            path,
            error: io::ErrorKind::InvalidData.into(),
        })
    }

    /// A shell command that removes definitions.
    pub(super) fn removing_command<'a>(&self, tracepoints: impl Iterator<Item = (&'a str, &'a str)>) -> String {
        let words: Vec<String> = tracepoints.map(|(group, event)| format!("-:{group}/{event}")).collect();
        format!(
            "sudo sh -c \"printf '%s\\n' {} >> {}\"",
            words.join(" "),
            self.list_path().display()
        )
    }

    fn error(&self, error: io::Error) -> ProbeError {
        let path = self.list_path();
        match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => ProbeError::NotAllowed { path },
            Some(libc::EROFS) => ProbeError::ReadOnly { path },
            _ => ProbeError::File { path, error },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_with_the_next_step() {
        let dir = tempfile::tempdir().unwrap();
        let find = || {
            Tracefs::find_in(&[dir.path()])
                .map(|_| ())
                .map_err(|error| error.to_string())
        };
        assert!(
            find()
                .unwrap_err()
                .contains("sudo mount -t tracefs nodev /sys/kernel/tracing")
        );
        fs::create_dir(dir.path().join("events")).unwrap();
        assert!(find().unwrap_err().contains("CONFIG_UPROBE_EVENTS"));
        fs::write(dir.path().join("uprobe_events"), "").unwrap();
        assert_eq!(find(), Ok(()));
    }

    #[test]
    fn the_kernel_s_words_are_found_by_the_command() {
        let dir = tempfile::tempdir().unwrap();
        let log = "[1.0] trace_uprobe: error: Failed to find the given file\n  Command: p:g/e0 /nope:0x1 \n             ^\n\
                   [2.0] trace_uprobe: error: Invalid argument name\n  Command: p:g/e1 /a:0x1 1=%di\n     ^\n";
        fs::write(dir.path().join("error_log"), log).unwrap();
        let tracefs = Tracefs {
            root: dir.path().to_owned(),
        };
        assert_eq!(
            tracefs.words("p:g/e0 /nope:0x1").as_deref(),
            Some("Failed to find the given file")
        );
        assert_eq!(
            tracefs.words("p:g/e1 /a:0x1 1=%di").as_deref(),
            Some("Invalid argument name")
        );
        assert_eq!(tracefs.words("p:g/e2 /a:0x1"), None);
    }

    #[test]
    fn names_that_are_taken_are_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("uprobe_events"), "p:g/e0 /a:0x1\np:h/e1 /a:0x1\n").unwrap();
        let tracefs = Tracefs {
            root: dir.path().to_owned(),
        };
        assert_eq!(tracefs.free_name("g", 0).unwrap(), "e1");
        assert_eq!(tracefs.free_name("h", 0).unwrap(), "e0");
    }
}
