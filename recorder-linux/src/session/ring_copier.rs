//! A thread that copies the ring buffers into memory while sprof still attaches.
//!
//! Events are enabled before the running threads are read from /proc and reported (see
//! [`attach`](crate::session::attach)); the records in the rings come after them. With 120 busy threads on 2 CPUs that
//! took longer than rings for a quarter of a second last: hundreds of records were lost, exits among them, so that
//! threads had no end. So a thread copies the records out, unread, until the first [round](crate::rounds) takes over.
//!
//! Measured with 120 threads that start meanwhile, beside two busy programs, on 2 CPUs: without the copy up to 444
//! records (19 %) and the ends of up to 7 threads were lost; with the copy none.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::open::OpenedEvents;
use crate::sys::priority::RealtimePriority;
use crate::sys::ring::Ring;

/// Much shorter than a ring lasts, so that the thread may be late by some rounds.
const ROUND: Duration = Duration::from_millis(10);
/// Copied bytes of all rings at most. Later records stay in the rings; the kernel counts those that find no room there.
const MOST_BYTES: usize = 256 << 20;

/// A thread that empties the rings into memory.
#[derive(Debug)]
pub(crate) struct RingCopier {
    /// The thread ends when this is dropped.
    stop: Sender<()>,
    thread: JoinHandle<Vec<Ring>>,
}

impl RingCopier {
    /// Takes the rings until [`RingCopier::end`]. `None` if no thread can be started: then records have the room of the
    /// rings alone.
    ///
    /// The thread must not be the one that gets a signal: call it when they are blocked.
    pub(crate) fn begin(opened: &mut OpenedEvents) -> Option<RingCopier> {
        let (give, take) = mpsc::channel();
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("empty rings".to_owned())
            .spawn(move || take.recv().map_or_else(|_| Vec::new(), |rings| empty(rings, &stopped)))
            .ok()?;
        match give.send(std::mem::take(&mut opened.rings)) {
            Ok(()) => Some(RingCopier { stop, thread }),
            Err(mpsc::SendError(rings)) => {
                opened.rings = rings;
                None
            }
        }
    }

    /// Returns the rings. Copied records are read first, as if they were still in the rings.
    pub(crate) fn end(self, opened: &mut OpenedEvents) {
        drop(self.stop);
        match self.thread.join() {
            Ok(rings) => opened.rings = rings,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn empty(mut rings: Vec<Ring>, stopped: &Receiver<()>) -> Vec<Ring> {
    let _quick_turns = RealtimePriority::ask();
    let mut room = MOST_BYTES;
    let mut pause = ROUND;
    while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        let woken = Instant::now();
        for ring in &mut rings {
            room -= ring.fill_backlog(room);
        }
        pause = ROUND.max(woken.elapsed());
    }
    rings
}
