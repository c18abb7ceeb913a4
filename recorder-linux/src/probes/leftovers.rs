//! Definitions that a killed sprof left in the kernel.

use super::error::ProbeError;
use super::owner::Owner;
use super::tracefs::{Definition, ProbeFiles, ProbeList, definitions};

/// Definitions of processes that are gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Leftovers {
    /// The place of each probe: `/usr/bin/app:0x1160`.
    pub(crate) places: Vec<String>,
    /// The processes that left them.
    pub(crate) pids: Vec<i32>,
    /// A shell command that removes them all.
    pub(crate) command: String,
}

/// The leftovers in a list. The error if the list cannot be read.
pub(crate) fn leftovers(list: ProbeList) -> Result<Leftovers, ProbeError> {
    let tracefs = ProbeFiles::find(list)?;
    let text = tracefs.list(list)?;
    let found: Vec<_> = left(&text).map(|(owner, found)| (owner, list, found)).collect();
    Ok(describe(&tracefs, &found))
}

/// Removes the leftovers from all lists. Returns those that were removed: another sprof may have removed some, and some
/// may be in use.
pub(super) fn remove_leftovers(tracefs: &ProbeFiles) -> Result<Leftovers, ProbeError> {
    let mut texts = Vec::new();
    for list in ProbeList::ALL {
        texts.push((list, tracefs.list(list)?));
    }
    let all = texts
        .iter()
        .flat_map(|(list, text)| left(text).map(|(owner, found)| (owner, *list, found)));
    let removed: Vec<_> = all
        .filter(|(_, list, found)| tracefs.remove(*list, found.group, found.event).is_ok())
        .collect();
    Ok(describe(tracefs, &removed))
}

fn left(list: &str) -> impl Iterator<Item = (Owner, Definition<'_>)> {
    definitions(list).filter_map(|definition| {
        let owner = Owner::of_group(definition.group)?;
        owner.has_ended().then_some((owner, definition))
    })
}

fn describe(tracefs: &ProbeFiles, found: &[(Owner, ProbeList, Definition<'_>)]) -> Leftovers {
    let mut pids: Vec<i32> = found.iter().map(|(owner, ..)| owner.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    Leftovers {
        places: found
            .iter()
            .map(|(.., definition)| definition.place.to_owned())
            .collect(),
        pids,
        command: tracefs.removing_command(found.iter().map(|(_, list, found)| (*list, found.group, found.event))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_of_others_and_of_the_living_are_no_leftovers() {
        let myself = Owner::myself().unwrap().group();
        let mut fields: Vec<&str> = myself.split('_').collect();
        // A process with our id that started at the boot.
        fields[2] = "1";
        let gone = fields.join("_");
        let list = format!(
            "p:{myself}/e0 /a:0x10\np:{gone}/e0 /b:0x0000000000000020(0x3000) arg1=%di:s32\nr:{gone}/e1 /b:0x30\n\
             p:probe_libc/malloc /c:0x40\nnonsense\np:\n\n"
        );
        let found: Vec<_> = left(&list)
            .map(|(_, definition)| (definition.event, definition.place))
            .collect();
        assert_eq!(found, [("e0", "/b:0x0000000000000020(0x3000)"), ("e1", "/b:0x30")]);

        // Each is removed from the list in which it stands.
        let dir = tempfile::tempdir().unwrap();
        let lines = |name: &str, event: &str| format!("p:{myself}/{event} x\np:{gone}/{event} {name}\n");
        for (name, event) in [("uprobe_events", "e0"), ("kprobe_events", "e1")] {
            std::fs::write(dir.path().join(name), lines(name, event)).unwrap();
        }
        let removed = remove_leftovers(&ProbeFiles::at(dir.path())).unwrap();
        assert_eq!(removed.places, ["uprobe_events", "kprobe_events"]);
        for (name, event) in [("uprobe_events", "e0"), ("kprobe_events", "e1")] {
            let expected = format!("{}-:{gone}/{event}\n", lines(name, event));
            assert_eq!(std::fs::read_to_string(dir.path().join(name)).unwrap(), expected);
        }
    }
}
