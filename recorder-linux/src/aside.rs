//! Room for what happens before anybody reads: the rings are emptied into memory while sprof still attaches.
//!
//! Events are enabled before all threads have been looked at and their processes told of (see [`attach`](crate::attach)), and what
//! the rings hold comes after that in time. With 120 busy threads on 2 CPUs this took longer than the quarter of a second that a
//! ring lasts: hundreds of records were lost, exits among them, so that threads had no end. So a thread copies them out, unread, until [`drain`](crate::drain) takes over.
//!
//! Measured with 120 threads that start meanwhile, beside two busy programs, on 2 CPUs: without the copy up to 444 records (19 %) and the ends
//! of up to 7 threads were lost; with the copy none.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::open::Opened;
use crate::sys::priority::QuickTurns;
use crate::sys::ring::Ring;
use perf_data::decode::{HEADER_BYTES, Header};

/// Short beside what a ring lasts, so that it suffices to be late by some rounds.
const ROUND: Duration = Duration::from_millis(10);
/// Of all rings together. What comes when this is full stays in the rings; the kernel counts what finds no place there.
const MOST_BYTES: usize = 256 << 20;

/// Records that were copied out of a ring, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    /// Whole records each.
    pieces: VecDeque<Vec<u8>>,
    /// Bytes of the first piece that have been read.
    read: usize,
}

impl Aside {
    /// Adds whole records, younger than all before.
    pub(crate) fn push(&mut self, piece: Vec<u8>) {
        if !piece.is_empty() {
            self.pieces.push_back(piece);
        }
    }

    /// Drops pieces that do not go on with a whole record, and says how many: see [`Ring::peek`].
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
        let size = usize::from(Header::parse(rest.first_chunk()?).size);
        rest.get(..size).filter(|_| size >= HEADER_BYTES)
    }

    /// Drops the record that [`Aside::peek`] returned, of this size. False if there is none.
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

/// A thread that empties the rings into memory.
#[derive(Debug)]
pub(crate) struct Emptying {
    /// The thread ends when this is dropped.
    stop: Sender<()>,
    thread: JoinHandle<Vec<Ring>>,
}

impl Emptying {
    /// Takes the rings, until [`Emptying::end`]. `None` where no thread can be had: then there is the room of the rings alone.
    ///
    /// The thread must not be the one that gets a signal: call it when they are blocked.
    pub(crate) fn begin(opened: &mut Opened) -> Option<Emptying> {
        let (give, take) = mpsc::channel();
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("empty rings".to_owned())
            .spawn(move || take.recv().map_or_else(|_| Vec::new(), |rings| empty(rings, &stopped)))
            .ok()?;
        match give.send(std::mem::take(&mut opened.rings)) {
            Ok(()) => Some(Emptying { stop, thread }),
            Err(mpsc::SendError(rings)) => {
                opened.rings = rings;
                None
            }
        }
    }

    /// Gives the rings back. What was copied is read first, as if it were still in them.
    pub(crate) fn end(self, opened: &mut Opened) {
        drop(self.stop);
        match self.thread.join() {
            Ok(rings) => opened.rings = rings,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn empty(mut rings: Vec<Ring>, stopped: &Receiver<()>) -> Vec<Ring> {
    let _quick_turns = QuickTurns::ask();
    let mut room = MOST_BYTES;
    let mut pause = ROUND;
    while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        let woken = Instant::now();
        for ring in &mut rings {
            room -= ring.set_aside(room);
        }
        pause = ROUND.max(woken.elapsed());
    }
    rings
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

    fn sizes(aside: &mut Aside) -> Vec<usize> {
        let mut sizes = Vec::new();
        while let Some(size) = aside.peek().map(<[u8]>::len) {
            sizes.push(size);
            assert!(aside.consume(size));
        }
        sizes
    }

    #[test]
    fn records_come_back_in_the_order_in_which_they_were_put_aside() {
        let mut aside = Aside::default();
        aside.push([record(16), record(40)].concat());
        aside.push(Vec::new());
        aside.push(record(24));
        assert_eq!(aside.drop_corrupted(), 0);
        assert_eq!(sizes(&mut aside), [16, 40, 24]);
        assert!(!aside.consume(8), "the rest is in the ring");
    }

    #[test]
    fn a_size_that_makes_no_sense_costs_its_piece_only() {
        let mut aside = Aside::default();
        for size in [0_u16, 7, 100] {
            let mut piece = record(16);
            piece[6..8].copy_from_slice(&size.to_ne_bytes());
            aside.push(piece);
        }
        aside.push(vec![0; HEADER_BYTES - 1]);
        aside.push(record(24));
        assert_eq!(aside.drop_corrupted(), 4);
        assert_eq!(sizes(&mut aside), [24]);
    }
}
