//! The known code mappings of a traced process.
//!
//! ptrace does not report mmap. So /proc/PID/maps is read again when there is a sign of a change: a sample in no
//! known mapping, or another size of the address space.

use std::collections::HashSet;

use recording::proc::MapsLine;

use crate::processes::procfs::{executable_mappings, mapped_pages, open_span_files};

/// Pause between two readings, as a multiple of the CPU time that the last one took: a process with ten thousand
/// mappings, whose size changes all the time, must not keep the recorder busy. By the clock, a recorder that waits for
/// a CPU meanwhile would leave new libraries without names for seconds.
const PAUSE_PER_COST: u64 = 20;

/// Time between two looks at the open files of a process, ns.
const LOOK_AGAIN_NS: u64 = 50_000_000;

/// The known mappings of one process.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownCode {
    by_address: Vec<MapsLine>,
    pages: Option<u64>,
    not_before_ns: u64,
    /// Inodes of its files of spans. A mapping of a moment is not seen.
    span_files: HashSet<u64>,
    next_look_ns: u64,
}

impl KnownCode {
    /// True if the mappings may have changed since the last reading.
    pub(super) fn is_stale(&self, pid: i32, code_address: u64, now_ns: u64) -> bool {
        now_ns >= self.not_before_ns && (!self.holds(code_address) || mapped_pages(pid) != self.pages)
    }

    /// Reads the mappings and returns the new ones.
    pub(super) fn refresh(&mut self, pid: i32, now_ns: u64, cpu_ns: impl Fn() -> u64) -> Vec<MapsLine> {
        let before = cpu_ns();
        let pages = mapped_pages(pid);
        // A process that is gone has none.
        let found = executable_mappings(pid, pid).unwrap_or_default();
        let cost_ns = cpu_ns().saturating_sub(before);
        self.not_before_ns = now_ns.saturating_add(cost_ns.saturating_mul(PAUSE_PER_COST));
        self.pages = pages;
        self.replace(found)
    }

    /// The files of spans that the process has opened since the last look, as mappings. Not more often than every 50
    /// ms.
    pub(super) fn new_span_files(&mut self, pid: i32, now_ns: u64) -> Vec<MapsLine> {
        if now_ns < self.next_look_ns {
            return Vec::new();
        }
        self.next_look_ns = now_ns.saturating_add(LOOK_AGAIN_NS);
        let mut files = open_span_files(pid);
        files.retain(|file| file.inode.is_some_and(|(_, _, inode)| self.span_files.insert(inode)));
        files
    }

    fn replace(&mut self, found: Vec<MapsLine>) -> Vec<MapsLine> {
        let known = |mapping: &MapsLine| {
            let at = self
                .by_address
                .binary_search_by_key(&mapping.start, |known| known.start);
            at.is_ok_and(|at| self.by_address[at] == *mapping)
        };
        let new = found.iter().filter(|mapping| !known(mapping)).cloned().collect();
        // A process that is about to end has no mappings. Its earlier samples are in the old ones.
        if !found.is_empty() {
            self.by_address = found;
        }
        new
    }

    fn holds(&self, address: u64) -> bool {
        let at = self.by_address.partition_point(|mapping| mapping.end() <= address);
        self.by_address.get(at).is_some_and(|mapping| mapping.start <= address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, path: &str) -> MapsLine {
        MapsLine {
            start,
            len: 0x1000,
            file_offset: 0,
            is_executable: true,
            inode: None,
            path: path.as_bytes().to_vec(),
        }
    }

    #[test]
    fn only_new_mappings_are_returned() {
        let mut known = KnownCode::default();
        let (program, library) = (mapping(0x1000, "/program"), mapping(0x5000, "/library"));
        assert_eq!(known.replace(vec![program.clone()]), std::slice::from_ref(&program));
        assert_eq!(known.replace(vec![program.clone(), library.clone()]), [library]);
        // Another library in the same place.
        let other = mapping(0x5000, "/other");
        assert_eq!(known.replace(vec![program, other.clone()]), [other]);
        assert!(known.holds(0x1000) && known.holds(0x5fff) && !known.holds(0x2000) && !known.holds(0x6000));
    }

    #[test]
    fn a_process_that_ends_keeps_what_was_known() {
        let mut known = KnownCode::default();
        known.replace(vec![mapping(0x1000, "/program")]);
        assert_eq!(known.replace(Vec::new()), []);
        assert!(known.holds(0x1000));
    }

    #[test]
    fn reading_again_is_put_off_by_its_cost() {
        let pid = std::process::id() as i32;
        let mut known = KnownCode::default();
        let clock = std::cell::Cell::new(0);
        let new = known.refresh(pid, 5000, || clock.replace(clock.get() + 1000));
        assert!(!new.is_empty());
        let nowhere = 1;
        assert!(!known.is_stale(pid, nowhere, 6000));
        assert!(known.is_stale(pid, nowhere, 5000 + 1000 * PAUSE_PER_COST));
    }
}
