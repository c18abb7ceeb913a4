//! The files of tracefs that define probes.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use recording::probe::ProbePlace;

use super::error::ProbeError;
use crate::machine::tracefs::{self, Missing};

/// A file of tracefs in which probes stand: one for each kind of place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeList {
    /// Places in files.
    Uprobes,
    /// Places in the kernel.
    Kprobes,
}

impl ProbeList {
    pub(super) const ALL: [ProbeList; 2] = [ProbeList::Uprobes, ProbeList::Kprobes];

    /// Where a place is defined.
    pub(super) fn of(place: &ProbePlace) -> ProbeList {
        match place {
            ProbePlace::File(_) => ProbeList::Uprobes,
            ProbePlace::Kernel(_) => ProbeList::Kprobes,
        }
    }

    fn file_name(self) -> &'static str {
        match self {
            ProbeList::Uprobes => "uprobe_events",
            ProbeList::Kprobes => "kprobe_events",
        }
    }
}

/// tracefs, which was found.
#[derive(Clone, Debug)]
pub(super) struct ProbeFiles {
    root: PathBuf,
}

/// Why a command was not carried out.
pub(super) enum CommandError {
    /// Nothing can be defined here.
    Tracefs(ProbeError),
    /// The kernel refuses the command, for this reason.
    Refused(String),
}

impl ProbeFiles {
    /// Finds tracefs, with this list in it.
    pub(super) fn find(list: ProbeList) -> Result<ProbeFiles, ProbeError> {
        ProbeFiles::find_in(Path::new("/"), list)
    }

    /// A folder in the place of tracefs.
    #[cfg(test)]
    pub(super) fn at(root: &Path) -> ProbeFiles {
        ProbeFiles { root: root.to_owned() }
    }

    fn find_in(root: &Path, list: ProbeList) -> Result<ProbeFiles, ProbeError> {
        let root = tracefs::find(root).map_err(|missing| match missing {
            Missing::Closed(root) => ProbeError::NotAllowed {
                path: ProbeFiles { root }.list_path(list),
            },
            Missing::NotMounted => ProbeError::NotMounted,
        })?;
        let tracefs = ProbeFiles { root };
        tracefs.check(list).map(|()| tracefs)
    }

    /// Checks that the kernel has probes of this kind.
    pub(super) fn check(&self, list: ProbeList) -> Result<(), ProbeError> {
        match fs::metadata(self.list_path(list)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(match list {
                ProbeList::Uprobes => ProbeError::NotInKernel,
                ProbeList::Kprobes => ProbeError::NoKernelProbes,
            }),
            _ => Ok(()),
        }
    }

    fn list_path(&self, list: ProbeList) -> PathBuf {
        self.root.join(list.file_name())
    }

    /// All definitions, also of other programs, a line each. Empty if the kernel has no such probes.
    pub(super) fn list(&self, list: ProbeList) -> Result<String, ProbeError> {
        match fs::read_to_string(self.list_path(list)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            read => read.map_err(|error| self.error(list, error)),
        }
    }

    /// A name for an event that is not taken, in either list: both make tracepoints of one group.
    pub(super) fn free_name(&self, group: &str, number: usize) -> Result<String, ProbeError> {
        let lists = ProbeList::ALL.map(|list| self.list(list));
        let mut taken: HashSet<String> = HashSet::new();
        for list in lists {
            let list = list?;
            let of_group = definitions(&list).filter(|definition| definition.group == group);
            taken.extend(of_group.map(|definition| definition.event.to_owned()));
        }
        let name = (number..)
            .map(|number| format!("e{number}"))
            .find(|name| !taken.contains(name.as_str()));
        Ok(name.unwrap_or_default())
    }

    /// Carries out one line.
    pub(super) fn command(&self, list: ProbeList, line: &str) -> Result<(), CommandError> {
        self.write(list, line).map_err(|error| match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => CommandError::Tracefs(self.error(list, error)),
            _ => CommandError::Refused(self.words(line).unwrap_or_else(|| error.to_string())),
        })
    }

    /// Removes one definition. Succeeds if the definition is gone.
    pub(super) fn remove(&self, list: ProbeList, group: &str, event: &str) -> io::Result<()> {
        match self.write(list, &format!("-:{group}/{event}")) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            result => result,
        }
    }

    fn write(&self, list: ProbeList, line: &str) -> io::Result<()> {
        // Appending: opening the file to overwrite it removes the definitions of all programs.
        let mut file = OpenOptions::new().append(true).open(self.list_path(list))?;
        file.write_all(format!("{line}\n").as_bytes())
    }

    /// The kernel's message on a refused command, since Linux 5.2:
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
        tracefs::event_id(&self.root, group, event).map_err(|error| ProbeError::File {
            path: self.root.join("events").join(group).join(event).join("id"),
            error,
        })
    }

    /// A shell command that removes definitions.
    pub(super) fn removing_command<'a>(
        &self,
        tracepoints: impl Iterator<Item = (ProbeList, &'a str, &'a str)>,
    ) -> String {
        let tracepoints: Vec<_> = tracepoints.collect();
        let of_list = |wanted: ProbeList| {
            let those = tracepoints.iter().filter(|(list, ..)| *list == wanted);
            let words: Vec<String> = those.map(|(_, group, event)| format!("-:{group}/{event}")).collect();
            let path = self.list_path(wanted);
            (!words.is_empty()).then(|| format!("printf '%s\\n' {} >> {}", words.join(" "), path.display()))
        };
        let commands: Vec<String> = ProbeList::ALL.into_iter().filter_map(of_list).collect();
        format!("sudo sh -c \"{}\"", commands.join("; "))
    }

    fn error(&self, list: ProbeList, error: io::Error) -> ProbeError {
        let path = self.list_path(list);
        match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => ProbeError::NotAllowed { path },
            Some(libc::EROFS) => ProbeError::ReadOnly { path },
            _ => ProbeError::File { path, error },
        }
    }
}

/// A line of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Definition<'a> {
    pub(super) group: &'a str,
    pub(super) event: &'a str,
    pub(super) place: &'a str,
}

/// All definitions in a list, `p:GROUP/EVENT PLACE ARGUMENTS`; what can't be read is left out.
pub(super) fn definitions(list: &str) -> impl Iterator<Item = Definition<'_>> {
    list.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (_, name) = words.next()?.split_once(':')?;
        let (group, event) = name.split_once('/')?;
        Some(Definition {
            group,
            event,
            place: words.next().unwrap_or_default(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_with_the_next_step() {
        let dir = tempfile::tempdir().unwrap();
        let find = |list| {
            ProbeFiles::find_in(dir.path(), list)
                .map(|_| ())
                .map_err(|error| error.to_string())
        };
        assert!(
            find(ProbeList::Uprobes)
                .unwrap_err()
                .contains("sudo mount -t tracefs nodev /sys/kernel/tracing")
        );
        let mounted = dir.path().join(tracefs::MOUNTS[0]);
        fs::create_dir_all(mounted.join("events")).unwrap();
        assert!(find(ProbeList::Uprobes).unwrap_err().contains("CONFIG_UPROBE_EVENTS"));
        fs::write(mounted.join("uprobe_events"), "").unwrap();
        assert_eq!(find(ProbeList::Uprobes), Ok(()));
        let error = find(ProbeList::Kprobes).unwrap_err();
        assert!(
            error.contains("CONFIG_KPROBE_EVENTS") && error.contains("record -e list"),
            "{error}"
        );
        fs::write(mounted.join("kprobe_events"), "").unwrap();
        assert_eq!(find(ProbeList::Kprobes), Ok(()));
    }

    #[test]
    fn the_kernel_s_words_are_found_by_the_command() {
        let dir = tempfile::tempdir().unwrap();
        let log = "[1.0] trace_uprobe: error: Failed to find the given file\n  Command: p:g/e0 /nope:0x1 \n             ^\n\
                   [2.0] trace_uprobe: error: Invalid argument name\n  Command: p:g/e1 /a:0x1 1=%di\n     ^\n";
        fs::write(dir.path().join("error_log"), log).unwrap();
        let tracefs = ProbeFiles {
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
        let tracefs = ProbeFiles {
            root: dir.path().to_owned(),
        };
        assert_eq!(tracefs.free_name("g", 0).unwrap(), "e1");
        assert_eq!(tracefs.free_name("h", 0).unwrap(), "e0");
        fs::write(dir.path().join("kprobe_events"), "p:h/e0 do_exit\n").unwrap();
        assert_eq!(tracefs.free_name("h", 0).unwrap(), "e2");
    }

    #[test]
    fn each_definition_is_removed_where_it_stands() {
        let tracefs = ProbeFiles { root: "/t".into() };
        let command = |tracepoints: &[(ProbeList, &str, &str)]| tracefs.removing_command(tracepoints.iter().copied());
        let (uprobe, kprobe) = ((ProbeList::Uprobes, "g", "e0"), (ProbeList::Kprobes, "g", "e1"));
        assert_eq!(
            command(&[uprobe]),
            r#"sudo sh -c "printf '%s\n' -:g/e0 >> /t/uprobe_events""#
        );
        assert_eq!(
            command(&[kprobe, uprobe]),
            r#"sudo sh -c "printf '%s\n' -:g/e0 >> /t/uprobe_events; printf '%s\n' -:g/e1 >> /t/kprobe_events""#
        );
    }
}
