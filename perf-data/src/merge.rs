//! Time order across CPUs, without copying.
//!
//! Each CPU's ring is in time order, all together are not: a thread that moved from CPU 0 to CPU 1 must not be seen on
//! CPU 1 first, and a mapping made on one must be known before a sample in it on another. Records are taken in the
//! order of their times, and only up to a time before which every CPU has surely finished writing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How long before now all records are surely written, ns. The kernel reads the time of a record before it writes the
/// record. The gap is microseconds, except where the hypervisor takes the CPU away in between.
pub const SETTLE_NS: u64 = 500_000;

/// A record whose turn it is.
pub struct DueRecord<'a> {
    /// Its time.
    pub time: u64,
    /// Its bytes.
    pub record: &'a [u8],
    /// The record after it in the same source; empty if there is none yet.
    pub after: &'a [u8],
}

/// One queue of records in time order.
pub trait RecordQueue {
    /// The time of the next record, or `None` when all are taken.
    fn next_time(&mut self) -> Option<u64>;
    /// Hands the next record to `take`, then drops it.
    fn take_next(&mut self, take: &mut dyn FnMut(DueRecord<'_>));
}

/// Takes all records with times up to `until` from the sources, oldest first. Returns how many. Equal times: lower
/// source first. `take` also gets the index of the queue. A record that is older than the one before it in its own
/// source (the kernel may write a sample between reading the clock for another record and writing that) comes right
/// after it.
pub fn drain<S: RecordQueue>(
    sources: &mut [S],
    until: u64,
    queue: &mut BinaryHeap<Reverse<(u64, usize)>>,
    take: &mut dyn FnMut(usize, DueRecord<'_>),
) -> u64 {
    queue.clear();
    queue.extend(
        sources
            .iter_mut()
            .enumerate()
            .filter_map(|(index, source)| Some(Reverse((source.next_time()?, index)))),
    );
    let mut taken = 0;
    while let Some(Reverse((time, index))) = queue.pop() {
        if time > until {
            break;
        }
        sources[index].take_next(&mut |due| take(index, due));
        taken += 1;
        if let Some(next) = sources[index].next_time() {
            queue.push(Reverse((next, index)));
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each record has its time in one byte.
    struct RecordTimes(Vec<u64>);

    impl RecordQueue for RecordTimes {
        fn next_time(&mut self) -> Option<u64> {
            self.0.first().copied()
        }

        fn take_next(&mut self, take: &mut dyn FnMut(DueRecord<'_>)) {
            let time = self.0.remove(0);
            let after = self.0.first().map(|after| *after as u8);
            take(DueRecord {
                time,
                record: &[time as u8],
                after: after.as_slice(),
            });
        }
    }

    fn merged(sources: &mut [RecordTimes], until: u64) -> Vec<u64> {
        let mut out = Vec::new();
        drain(sources, until, &mut BinaryHeap::new(), &mut |_, due| {
            assert_eq!(due.record, [due.time as u8]);
            out.push(due.time);
        });
        out
    }

    #[test]
    fn records_of_all_cpus_come_in_time_order() {
        let mut sources = [
            RecordTimes(vec![1, 4, 9]),
            RecordTimes(vec![]),
            RecordTimes(vec![2, 3, 10]),
        ];
        assert_eq!(merged(&mut sources, u64::MAX), [1, 2, 3, 4, 9, 10]);
    }

    #[test]
    fn with_each_record_comes_the_one_after_it_in_its_own_source() {
        let mut sources = [RecordTimes(vec![1, 4, 9]), RecordTimes(vec![2, 3])];
        let mut out = Vec::new();
        drain(&mut sources, 4, &mut BinaryHeap::new(), &mut |_, due| {
            out.push((due.time, due.after.to_vec()));
        });
        assert_eq!(out, [(1, vec![4]), (2, vec![3]), (3, vec![]), (4, vec![9])]);
    }

    #[test]
    fn records_younger_than_the_limit_stay_for_the_next_round() {
        let mut sources = [RecordTimes(vec![1, 5]), RecordTimes(vec![2, 6])];
        assert_eq!(merged(&mut sources, 4), [1, 2]);
        assert_eq!(merged(&mut sources, 6), [5, 6]);
    }

    #[test]
    fn a_late_record_follows_the_one_it_is_behind() {
        let mut sources = [RecordTimes(vec![5, 3, 7]), RecordTimes(vec![4, 6])];
        assert_eq!(merged(&mut sources, u64::MAX), [4, 5, 3, 6, 7]);
    }
}
