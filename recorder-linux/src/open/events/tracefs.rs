//! The tracepoints of this machine: folders in tracefs, each with a number (`id`) and a description (`format`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use recording::command::own;

use crate::machine::tracefs::{self, Missing};
use perf_data::events::EventFormat;
use perf_data::events::names;

/// Most tracepoints that one pattern may stand for: each is opened on every CPU. `syscalls:*` stands for 700.
const MAX_MATCHES: usize = 2000;

/// A tracepoint, or a defined probe: both have an id and a format in tracefs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tracepoint {
    /// `SUBSYSTEM:NAME`.
    pub(crate) name: String,
    /// `perf_event_attr.config`.
    pub(crate) id: u64,
    pub(crate) format: EventFormat,
}

/// The mounted tracefs.
#[derive(Clone, Debug)]
pub(crate) struct Tracepoints(PathBuf);

impl Tracepoints {
    /// Finds tracefs. The error names the command that mounts it, or who may read it.
    pub(crate) fn find(root: &Path) -> Result<Tracepoints, String> {
        tracefs::find(root).map(Tracepoints).map_err(|missing| match missing {
            Missing::Closed(path) => format!(
                "tracepoints need {}, which only root may read: run sprof as root (`sudo {} record ...`)",
                path.display(),
                own()
            ),
            Missing::NotMounted => {
                "tracepoints need tracefs, which is not mounted: `sudo mount -t tracefs nodev /sys/kernel/tracing`"
                    .to_owned()
            }
        })
    }

    /// The tracepoint with this exact name.
    pub(crate) fn tracepoint(&self, subsystem: &str, name: &str) -> io::Result<Tracepoint> {
        let format = self.0.join("events").join(subsystem).join(name).join("format");
        Ok(Tracepoint {
            name: format!("{subsystem}:{name}"),
            id: tracefs::event_id(&self.0, subsystem, name)?,
            format: EventFormat::parse(&fs::read_to_string(format)?),
        })
    }

    /// All tracepoints that match, by name. If none matches, the error names the nearest.
    pub(crate) fn matching(&self, subsystem: &str, name: &str) -> Result<Vec<Tracepoint>, String> {
        let asked = format!("{subsystem}:{name}");
        let subsystems: Vec<String> = self.subsystems();
        let mut found = Vec::new();
        for candidate in subsystems.iter().filter(|candidate| matches(subsystem, candidate)) {
            for event in self.events(candidate) {
                if !matches(name, &event) {
                    continue;
                }
                match self.tracepoint(candidate, &event) {
                    Ok(tracepoint) => found.push(tracepoint),
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                        return Err(format!(
                            "cannot read {}/events/{candidate}/{event}: {error}; run sprof as root (`sudo {} record ...`)",
                            self.0.display(),
                            own()
                        ));
                    }
                    // The tracepoint disappeared: a module was unloaded. Some (ftrace:*) have no id for perf.
                    Err(_) => {}
                }
                if found.len() > MAX_MATCHES {
                    return Err(format!(
                        "`{asked}` stands for more than {MAX_MATCHES} tracepoints; name fewer"
                    ));
                }
            }
        }
        match found.is_empty() {
            true => Err(self.no_such(&asked, subsystem, &subsystems)),
            false => Ok(found),
        }
    }

    fn no_such(&self, asked: &str, subsystem: &str, subsystems: &[String]) -> String {
        let full = |subsystem: &String| -> Vec<String> {
            let events = self.events(subsystem).into_iter();
            events.map(|event| format!("{subsystem}:{event}")).collect()
        };
        // Names of the typed subsystem; if it does not exist, names of all.
        let known: Vec<String> = match subsystems.iter().any(|known| known == subsystem) {
            true => full(&subsystem.to_owned()),
            false => subsystems.iter().flat_map(full).collect(),
        };
        let near = names::near(asked, known.iter().map(String::as_str));
        let near = match near.is_empty() {
            true => String::new(),
            false => format!(" (did you mean {}?)", near.join(", ")),
        };
        format!(
            "this kernel has no tracepoint `{asked}`{near}; `{} record -e list` shows all",
            own()
        )
    }

    /// All groups of tracepoints, by name.
    pub(crate) fn subsystems(&self) -> Vec<String> {
        folders(&self.0.join("events"))
    }

    /// The tracepoints of a group, by name.
    pub(crate) fn events(&self, subsystem: &str) -> Vec<String> {
        folders(&self.0.join("events").join(subsystem))
    }
}

fn folders(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// `*` stands for any letters, `?` for one.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // Position of the last star in the pattern, and where the letters end that it stands for.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match (pattern.get(p), star) {
            (Some(b'*'), _) => {
                star = Some((p, n));
                p += 1;
            }
            (Some(letter), _) if *letter == b'?' || *letter == name[n] => {
                p += 1;
                n += 1;
            }
            (_, Some((at, until))) => {
                star = Some((at, until + 1));
                p = at + 1;
                n = until + 1;
            }
            (_, None) => return false,
        }
    }
    pattern[p..].iter().all(|letter| *letter == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tracefs::MOUNTS;

    #[test]
    fn stars_stand_for_any_letters() {
        for (pattern, name, expected) in [
            ("sys_enter_*", "sys_enter_read", true),
            ("sys_enter_*", "sys_exit_read", false),
            ("*read*", "sys_enter_readlink", true),
            ("*_?", "a_b", true),
            ("*_?", "a_bc", false),
            ("**", "", true),
            ("a*b*c", "aXbYbZc", true),
            ("read", "readlink", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    fn machine(mount: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, id) in [("sched_switch", "316"), ("sched_wakeup", "317"), ("no_id", "")] {
            let folder = root.path().join(mount).join("events/sched").join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("id"), format!("{id}\n")).unwrap();
            fs::write(
                folder.join("format"),
                "\tfield:int pid;\toffset:8;\tsize:4;\tsigned:1;\n",
            )
            .unwrap();
        }
        root
    }

    #[test]
    fn tracepoints_have_the_number_that_tracefs_gives() {
        for mount in MOUNTS {
            let root = machine(mount);
            let tracefs = Tracepoints::find(root.path()).unwrap();
            let found = tracefs.matching("sch*", "sched_*").unwrap();
            let found: Vec<_> = found.iter().map(|found| (found.name.as_str(), found.id)).collect();
            assert_eq!(found, [("sched:sched_switch", 316), ("sched:sched_wakeup", 317)]);
        }
    }

    #[test]
    fn what_is_missing_is_said_with_the_next_step() {
        let error = Tracepoints::find(Path::new("/nonexistent")).unwrap_err();
        assert!(
            error.contains("sudo mount -t tracefs nodev /sys/kernel/tracing"),
            "{error}"
        );
        let root = machine(MOUNTS[0]);
        let tracefs = Tracepoints::find(root.path()).unwrap();
        let error = tracefs.matching("sched", "sched_swich").unwrap_err();
        assert!(error.contains("did you mean sched:sched_switch"), "{error}");
        let error = tracefs.matching("shed", "sched_switch").unwrap_err();
        assert!(error.contains("did you mean sched:sched_switch"), "{error}");
    }
}
