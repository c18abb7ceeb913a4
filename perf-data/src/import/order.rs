//! Time order of a file's records.
//!
//! perf writes what it finds in one ring after the other, and after each round over all of them a
//! PERF_RECORD_FINISHED_ROUND: what comes later is younger than everything before the round before. So records are
//! kept for two rounds and sorted.

/// Bytes kept at most. Only a file without rounds needs more: its order is then only as good as this.
const MAX_KEPT_BYTES: usize = 96 << 20;

#[derive(Clone, Copy, Debug)]
struct OrderedRecord {
    time: u64,
    at: usize,
    len: usize,
    attr: usize,
}

/// Records that wait for older ones.
#[derive(Debug)]
pub(super) struct RecordOrder {
    max_kept_bytes: usize,
    bytes: Vec<u8>,
    entries: Vec<OrderedRecord>,
    /// The latest time so far, and as it was at the end of the last round.
    latest: u64,
    latest_of_last_round: u64,
}

impl Default for RecordOrder {
    fn default() -> RecordOrder {
        RecordOrder::keeping(MAX_KEPT_BYTES)
    }
}

impl RecordOrder {
    /// An order whose records may take this many bytes at most.
    fn keeping(max_kept_bytes: usize) -> RecordOrder {
        RecordOrder {
            max_kept_bytes,
            bytes: Vec::new(),
            entries: Vec::new(),
            latest: 0,
            latest_of_last_round: 0,
        }
    }

    /// Adds a record. `attr` is kept with it.
    pub(super) fn push(&mut self, time: u64, attr: usize, record: &[u8]) {
        self.latest = self.latest.max(time);
        let at = self.bytes.len();
        self.bytes.extend_from_slice(record);
        self.entries.push(OrderedRecord {
            time,
            at,
            len: record.len(),
            attr,
        });
    }

    /// The time up to which records must be taken now for lack of room, if there is none left. That is half of them, so
    /// that each record is looked at a few times, however many there are.
    pub(super) fn overflow(&self) -> Option<u64> {
        (self.bytes.len() + self.entries.len() * size_of::<OrderedRecord>() > self.max_kept_bytes).then(|| {
            let mut times: Vec<u64> = self.entries.iter().map(|entry| entry.time).collect();
            let middle = times.len() / 2;
            *times.select_nth_unstable(middle).1
        })
    }

    /// A round has ended. Returns the time up to which all records are there.
    pub(super) fn end_round(&mut self) -> u64 {
        std::mem::replace(&mut self.latest_of_last_round, self.latest)
    }

    /// The oldest time among those waiting records that count. What perf found before it started has the time 0.
    pub(super) fn oldest_timed(&self, counts: impl Fn(&[u8]) -> bool) -> Option<u64> {
        let of_record = |entry: &&OrderedRecord| entry.time > 0 && counts(&self.bytes[entry.at..entry.at + entry.len]);
        self.entries.iter().filter(of_record).map(|entry| entry.time).min()
    }

    /// Hands out (time, attr, record) up to `until`, oldest first; equal times in the order of the file.
    pub(super) fn take(&mut self, until: u64, mut take: impl FnMut(u64, usize, &[u8])) {
        self.entries.sort_by_key(|entry| entry.time);
        let taken = self.entries.partition_point(|entry| entry.time <= until);
        for entry in self.entries.drain(..taken) {
            take(entry.time, entry.attr, &self.bytes[entry.at..entry.at + entry.len]);
        }
        // Moves the remaining entries together. The order of their positions is the order of the file.
        self.entries.sort_by_key(|entry| entry.at);
        let mut end = 0;
        for entry in &mut self.entries {
            self.bytes.copy_within(entry.at..entry.at + entry.len, end);
            entry.at = end;
            end += entry.len;
        }
        self.bytes.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(order: &mut RecordOrder, until: u64) -> Vec<(u64, u8)> {
        let mut out = Vec::new();
        order.take(until, |time, _, record| out.push((time, record[0])));
        out
    }

    /// A file without rounds. Asking at each record once the limit was reached looked at all that are kept each time:
    /// 2.4 MB of compressed records took hours.
    #[test]
    fn a_file_without_rounds_costs_in_proportion_to_its_records() {
        const RECORD: [u8; 24] = [7; 24];
        let looked_at = |records: u64| {
            let mut order = RecordOrder::keeping(64 << 10);
            let (mut looked_at, mut taken, mut last) = (0, 0, 0);
            for at in 0..records {
                // Each second one is half a million late.
                order.push(if at % 2 == 0 { at } else { at / 2 }, 0, &RECORD);
                let kept = order.entries.len() as u64;
                assert!(kept * 56 <= (64 << 10) + 56, "{kept} records are kept");
                if let Some(until) = order.overflow() {
                    looked_at += kept;
                    order.take(until, |time, _, _| {
                        taken += 1;
                        last = time;
                    });
                }
            }
            order.take(u64::MAX, |_, _, _| taken += 1);
            assert!(taken == records && last > 0);
            looked_at
        };
        let (small, large) = (looked_at(20_000), looked_at(200_000));
        assert!(large <= 4 * 200_000, "{large} looks at 200,000 records");
        assert!(
            large <= 12 * small,
            "10 times the records, {} times the work",
            large / small
        );
    }

    #[test]
    fn records_come_in_time_order_once_two_rounds_have_ended() {
        let mut order = RecordOrder::default();
        for (time, byte) in [(5, b'a'), (9, b'b'), (3, b'c'), (5, b'd')] {
            order.push(time, 0, &[byte]);
        }
        let until = order.end_round();
        assert_eq!(times(&mut order, until), []);
        order.push(7, 0, b"e");
        order.push(12, 0, b"f");
        let until = order.end_round();
        let taken = times(&mut order, until);
        assert_eq!(taken, [(3, b'c'), (5, b'a'), (5, b'd'), (7, b'e'), (9, b'b')]);
        assert_eq!(times(&mut order, u64::MAX), [(12, b'f')]);
    }
}
