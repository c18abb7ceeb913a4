//! The owner of a definition: the group names the process, so that sprof can find out whether the process has ended.

use std::io;
use std::os::unix::fs::MetadataExt;

use super::error::ProbeError;
use crate::processes::procfs;

/// All groups of sprof begin with this.
const PREFIX: &str = "sprof_";

/// A process, as a group names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) pid: i32,
    /// Clock ticks after the boot: process ids are used again.
    start_ticks: u64,
    /// The inode of the PID namespace: in another namespace, the same process id is another process.
    namespace: u64,
}

impl Owner {
    /// This process.
    pub(super) fn myself() -> Result<Owner, ProbeError> {
        let pid = i32::try_from(std::process::id()).unwrap_or(0);
        procfs::stat(pid, pid)
            .and_then(|stat| {
                Some(Owner {
                    pid,
                    start_ticks: stat.start_ticks,
                    namespace: own_namespace()?,
                })
            })
            .ok_or_else(|| ProbeError::File {
                path: "/proc/self/stat".into(),
                error: io::ErrorKind::NotFound.into(),
            })
    }

    /// The group of the process's definitions. An identifier of at most 63 bytes (MAX_EVENT_NAME_LEN).
    pub(super) fn group(self) -> String {
        format!("{PREFIX}{}_{}_{}", self.pid, self.start_ticks, self.namespace)
    }

    /// The owner of a group; `None` if sprof did not make the group.
    pub(super) fn of_group(group: &str) -> Option<Owner> {
        let mut fields = group.strip_prefix(PREFIX)?.split('_');
        let owner = Owner {
            pid: fields.next()?.parse().ok()?,
            start_ticks: fields.next()?.parse().ok()?,
            namespace: fields.next()?.parse().ok()?,
        };
        (fields.next().is_none() && owner.group() == group).then_some(owner)
    }

    /// True if the process has certainly ended. False for a process in another PID namespace, which cannot be seen.
    pub(super) fn has_ended(self) -> bool {
        own_namespace() == Some(self.namespace)
            && procfs::stat(self.pid, self.pid)
                .is_none_or(|stat| stat.has_ended() || stat.start_ticks != self.start_ticks)
    }
}

fn own_namespace() -> Option<u64> {
    std::fs::metadata("/proc/self/ns/pid").ok().map(|meta| meta.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_name_their_process() {
        let myself = Owner::myself().unwrap();
        assert_eq!(Owner::of_group(&myself.group()), Some(myself));
        for other in [
            "sprof_",
            "sprof_1",
            "sprof_1_2",
            "sprof_1_2_3_4",
            "sprof_+1_2_3",
            "sprof_01_2_3",
            "probe_1_2_3",
        ] {
            assert_eq!(Owner::of_group(other), None, "{other}");
        }
        assert!(myself.group().len() < 64);
    }

    #[test]
    fn only_who_is_known_to_be_gone_has_ended() {
        let myself = Owner::myself().unwrap();
        assert!(!myself.has_ended());
        let before_us = Owner {
            start_ticks: myself.start_ticks + 1,
            ..myself
        };
        assert!(before_us.has_ended(), "another process with the same id");
        let elsewhere = Owner {
            namespace: 1,
            ..before_us
        };
        assert!(!elsewhere.has_ended(), "who is in another PID namespace may live");
    }
}
