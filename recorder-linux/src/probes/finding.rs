//! The findings of `sprof doctor` on probes.

use recording::doctor::{CheckState, Finding};

use super::error::ProbeError;
use super::leftovers::{Leftovers, leftovers};
use super::tracefs::ProbeList;

/// Whether probes of each kind can be defined here, and what a killed sprof left.
pub(crate) fn examine() -> [Finding; 2] {
    ProbeList::ALL.map(|list| describe(list, leftovers(list)))
}

fn describe(list: ProbeList, found: Result<Leftovers, ProbeError>) -> Finding {
    let finding = match list {
        ProbeList::Uprobes => Finding::works("uprobes", "probes in programs (-e uprobe:..., usdt:...)", ""),
        ProbeList::Kprobes => Finding::works("kprobes", "probes in the kernel (-e kprobe:...)", ""),
    };
    let limited = |reason: String, fixes: &[&str]| {
        (finding.clone().because(CheckState::Limited, reason)).fixed_by(fixes.iter().copied())
    };
    match found {
        Ok(left) if left.places.is_empty() => finding,
        Ok(left) => {
            let pids: Vec<String> = left.pids.iter().map(ToString::to_string).collect();
            let reason = format!(
                "{} left by a sprof that was killed (process {}), in {}; the next recording with a probe removes {}",
                match left.places.len() {
                    1 => "1 was".to_owned(),
                    count => format!("{count} were"),
                },
                pids.join(", "),
                left.places.join(", "),
                if left.places.len() == 1 { "it" } else { "them" },
            );
            limited(reason, &[&left.command])
        }
        Err(ProbeError::NotMounted) => limited(
            "tracefs is not mounted".to_owned(),
            &["sudo mount -t tracefs nodev /sys/kernel/tracing"],
        ),
        Err(ProbeError::NotAllowed { .. }) => limited("only root may define them".to_owned(), &["run sprof as root"]),
        Err(error) => limited(error.to_string(), &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_is_named_with_the_command_that_removes_it() {
        let left = |places: &[&str], pids: &[i32]| {
            let left = Leftovers {
                places: places.iter().map(|place| (*place).to_owned()).collect(),
                pids: pids.to_vec(),
                command: "sudo sh -c ...".to_owned(),
            };
            describe(ProbeList::Uprobes, Ok(left))
        };
        assert_eq!(left(&[], &[]).state, CheckState::Works);
        let one = left(&["/a:0x10"], &[7]);
        assert_eq!(one.fixes, ["sudo sh -c ..."]);
        assert_eq!(
            one.reason,
            "1 was left by a sprof that was killed (process 7), in /a:0x10; the next recording with a probe removes it"
        );
        assert!(left(&["/a:0x10", "/b:0x20"], &[7, 8]).reason.starts_with("2 were left"));
        let unmounted = describe(ProbeList::Kprobes, Err(ProbeError::NotMounted));
        assert_eq!(unmounted.fixes, ["sudo mount -t tracefs nodev /sys/kernel/tracing"]);
    }
}
