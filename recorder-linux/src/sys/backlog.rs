//! Records that were copied out of a ring buffer, to be read later.

use std::collections::VecDeque;

use perf_data::decode::{HEADER_BYTES, RecordHeader};

/// Records that were copied out of a ring, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// Each has whole records.
    pieces: VecDeque<Vec<u8>>,
    /// Bytes of the first piece that have been read.
    read: usize,
}

impl Backlog {
    /// Adds whole records, younger than all before.
    pub(crate) fn push(&mut self, piece: Vec<u8>) {
        if !piece.is_empty() {
            self.pieces.push_back(piece);
        }
    }

    /// Drops pieces that do not go on with a whole record, and says how many: see
    /// [`Ring::peek`](super::ring::Ring::peek).
    pub(crate) fn drop_corrupted(&mut self) -> u64 {
        let mut dropped = 0;
        while !self.pieces.is_empty() && self.peek().is_none() {
            self.next_piece();
            dropped += 1;
        }
        dropped
    }

    /// The next record.
    pub(crate) fn peek(&self) -> Option<&[u8]> {
        let rest = self.pieces.front()?.get(self.read..)?;
        let size = usize::from(RecordHeader::parse(rest.first_chunk()?).size);
        rest.get(..size).filter(|_| size >= HEADER_BYTES)
    }

    /// Drops the record that [`Backlog::peek`] returned, of this size. False if there is none.
    pub(crate) fn consume(&mut self, size: usize) -> bool {
        let Some(piece) = self.pieces.front() else { return false };
        self.read = self.read.saturating_add(size);
        if self.read >= piece.len() {
            self.next_piece();
        }
        true
    }

    fn next_piece(&mut self) {
        self.pieces.pop_front();
        self.read = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of this many bytes, its header with it.
    fn record(size: u16) -> Vec<u8> {
        let mut record = vec![0; usize::from(size)];
        record[6..8].copy_from_slice(&size.to_ne_bytes());
        record
    }

    fn sizes(backlog: &mut Backlog) -> Vec<usize> {
        let mut sizes = Vec::new();
        while let Some(size) = backlog.peek().map(<[u8]>::len) {
            sizes.push(size);
            assert!(backlog.consume(size));
        }
        sizes
    }

    #[test]
    fn records_come_back_in_the_order_in_which_they_were_copied() {
        let mut backlog = Backlog::default();
        backlog.push([record(16), record(40)].concat());
        backlog.push(Vec::new());
        backlog.push(record(24));
        assert_eq!(backlog.drop_corrupted(), 0);
        assert_eq!(sizes(&mut backlog), [16, 40, 24]);
        assert!(!backlog.consume(8), "the rest is in the ring");
    }

    #[test]
    fn a_size_that_makes_no_sense_costs_its_piece_only() {
        let mut backlog = Backlog::default();
        for size in [0_u16, 7, 100] {
            let mut piece = record(16);
            piece[6..8].copy_from_slice(&size.to_ne_bytes());
            backlog.push(piece);
        }
        backlog.push(vec![0; HEADER_BYTES - 1]);
        backlog.push(record(24));
        assert_eq!(backlog.drop_corrupted(), 4);
        assert_eq!(sizes(&mut backlog), [24]);
    }
}
