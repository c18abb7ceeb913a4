//! Time order of a file's records.
//!
//! perf writes what it finds in one ring after the other, and after each round over all of them a
//! PERF_RECORD_FINISHED_ROUND: what comes later is younger than everything before the round before. So records are
//! kept for two rounds and sorted.

/// Bytes kept at most. Only a file without rounds needs more: its order is then only as good as this.
const MAX_KEPT_BYTES: usize = 256 << 20;

#[derive(Clone, Copy, Debug)]
struct Entry {
    time: u64,
    at: usize,
    len: usize,
    attr: usize,
}

/// Records that wait for older ones.
#[derive(Debug, Default)]
pub(super) struct Order {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// The latest time so far, and as it was at the end of the last round.
    latest: u64,
    latest_of_last_round: u64,
}

impl Order {
    /// Adds a record. `attr` is kept with it. Returns the time up to which records must be taken now for lack of room.
    pub(super) fn push(&mut self, time: u64, attr: usize, record: &[u8]) -> Option<u64> {
        self.latest = self.latest.max(time);
        let at = self.bytes.len();
        self.bytes.extend_from_slice(record);
        self.entries.push(Entry {
            time,
            at,
            len: record.len(),
            attr,
        });
        (self.bytes.len() + self.entries.len() * size_of::<Entry>() > MAX_KEPT_BYTES).then(|| {
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
        let of_record = |entry: &&Entry| entry.time > 0 && counts(&self.bytes[entry.at..entry.at + entry.len]);
        self.entries.iter().filter(of_record).map(|entry| entry.time).min()
    }

    /// Hands out (time, attr, record) up to `until`, oldest first; equal times in the order of the file.
    pub(super) fn take(&mut self, until: u64, mut take: impl FnMut(u64, usize, &[u8])) {
        self.entries.sort_by_key(|entry| entry.time);
        let taken = self.entries.partition_point(|entry| entry.time <= until);
        for entry in self.entries.drain(..taken) {
            take(entry.time, entry.attr, &self.bytes[entry.at..entry.at + entry.len]);
        }
        // What is left, moved together. The order of the file is that of the places.
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

    fn times(order: &mut Order, until: u64) -> Vec<(u64, u8)> {
        let mut out = Vec::new();
        order.take(until, |time, _, record| out.push((time, record[0])));
        out
    }

    #[test]
    fn records_come_in_time_order_once_two_rounds_have_ended() {
        let mut order = Order::default();
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
