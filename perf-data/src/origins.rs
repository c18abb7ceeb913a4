//! Which of two events of one thread counts.
//!
//! Attaching opens events for the threads that /proc lists. A thread that started while it did so may have inherited
//! all of its parent's events, some (those of the first CPUs) or none; the kernel does not report which. So it gets
//! events of its own on every CPU. Where a thread has two events on a CPU, the younger counts: a thread's own set is
//! complete, and its children inherit all of it.

use std::collections::HashMap;

use crate::decode::{self, Origin, ThreadRecord};

/// The events of threads that started while attaching, and who has inherited them.
#[derive(Debug, Default)]
pub struct Origins {
    /// Event id to the set that it belongs to. A younger set has a higher number.
    sets: HashMap<u64, u32>,
    /// Which set counts for a thread, and from when on.
    counting: HashMap<i32, (u32, u64)>,
    /// Samples that were written twice.
    duplicates: u64,
}

impl Origins {
    /// Notes that this event is part of the set of this number.
    pub fn add(&mut self, event_id: u64, set: u32) {
        self.sets.insert(event_id, set);
    }

    /// From `time` on, only this set counts for the thread.
    pub fn own(&mut self, tid: i32, set: u32, time: u64) {
        self.counting.insert(tid, (set, time));
    }

    /// Samples that were left out because another event of the same thread also wrote them.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// True if the record counts; false if another event wrote the same.
    pub fn counts(&mut self, time: u64, record: &[u8]) -> bool {
        let Some(Origin { event_id, tid, what }) = decode::origin(record) else {
            return true;
        };
        let Some(&set) = self.sets.get(&event_id) else {
            return true;
        };
        if let Some((own, since)) = self.counting.get(&tid) {
            let is_sample = what == ThreadRecord::Sample;
            // A clone may have part of a set that was being opened for its parent: then a younger set is the duplicate.
            let is_duplicate = match time >= *since {
                true => set != *own,
                // sprof may be delayed between enabling the events and noting it.
                false => set == *own && is_sample,
            };
            if is_duplicate {
                self.duplicates += u64::from(is_sample);
                return false;
            }
        }
        match what {
            // A new thread inherits the events that count for its parent.
            ThreadRecord::Fork(child) => {
                self.counting.entry(child).or_insert((set, time));
            }
            ThreadRecord::Exit => {
                self.counting.remove(&tid);
            }
            ThreadRecord::Sample | ThreadRecord::Other => {}
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// header, body, and the end that says who wrote it: pid, tid, time, id, cpu.
    fn record(kind: u32, body: &[u32], tid: u32, event_id: u32) -> Vec<u8> {
        let end = [tid, tid, 0, 0, event_id, 0, 0, 0];
        let words = [&[kind, 0], body, &end].concat();
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// A name record, as an example of all records of a thread.
    fn named(tid: u32, event_id: u32) -> Vec<u8> {
        record(3, &[tid, tid, 0, 0], tid, event_id)
    }

    fn forked(tid: u32, child: u32, event_id: u32) -> Vec<u8> {
        record(7, &[child, tid, child, tid, 0, 0], tid, event_id)
    }

    /// Event 100 is of the threads that were there first; thread 7 is a child of one of them and got event 107.
    fn origins() -> Origins {
        let mut origins = Origins::default();
        origins.add(100, 0);
        origins.add(107, 1);
        origins.own(7, 1, 50);
        origins
    }

    #[test]
    fn a_thread_with_an_inherited_and_an_own_event_counts_once() {
        let mut origins = origins();
        assert!(origins.counts(60, &named(7, 107)));
        assert!(!origins.counts(60, &named(7, 100)));
        assert!(origins.counts(60, &named(6, 100)), "another thread");
    }

    #[test]
    fn before_its_own_event_the_inherited_one_counts() {
        assert!(origins().counts(49, &named(7, 100)));
    }

    #[test]
    fn before_its_own_event_counts_only_the_inherited_one_samples() {
        // Address, pid, tid, time and id are in front.
        let sample = |event_id| record(9, &[0, 0, 7, 7, 0, 0, event_id, 0], 7, event_id);
        let mut origins = origins();
        assert!(origins.counts(49, &sample(100)));
        assert!(!origins.counts(49, &sample(107)));
        assert!(origins.counts(50, &sample(107)));
        assert_eq!(origins.duplicates(), 1);
    }

    #[test]
    fn a_clone_with_part_of_a_younger_set_counts_by_the_older() {
        let mut origins = origins();
        origins.add(108, 2);
        assert!(origins.counts(60, &forked(7, 8, 107)));
        assert!(origins.counts(61, &named(8, 107)));
        assert!(!origins.counts(61, &named(8, 108)));
    }

    #[test]
    fn children_count_by_the_event_that_counts_for_their_parent() {
        let mut origins = origins();
        assert!(!origins.counts(60, &forked(7, 8, 100)));
        assert!(origins.counts(60, &forked(7, 8, 107)));
        assert!(origins.counts(61, &named(8, 107)));
        assert!(!origins.counts(61, &named(8, 100)));
    }

    #[test]
    fn a_thread_number_that_is_used_again_starts_afresh() {
        let mut origins = origins();
        assert!(origins.counts(60, &record(4, &[7, 1, 7, 1, 0, 0], 7, 107)));
        assert!(origins.counts(70, &named(7, 100)));
    }
}
