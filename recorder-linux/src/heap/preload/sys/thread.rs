//! What the library knows about each thread and about the process.

use core::cell::Cell;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::Relaxed};

use super::machine::{THREAD_BYTES, thread_block, ticks};
use super::{connect, system};
use crate::draw::bytes_to_next;
use crate::live::HASH;

/// The end of the first thread's stack.
pub(super) static FIRST_STACK_END: AtomicUsize = AtomicUsize::new(0);
/// A page that is zero in forks ([`system::map_page_zero_in_forks`]), with the process id.
pub(super) static PROCESS: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());
/// Grows in a fork, whose thread then has another id.
static GENERATION: AtomicU32 = AtomicU32::new(1);

/// A thread's block, which is zero at first. Signal handlers of the thread use it as well.
#[repr(C)]
pub(super) struct Thread {
    /// Bytes until the next sample. The entries subtract from it. 0: nothing was drawn yet.
    pub(super) countdown: Cell<u64>,
    /// The mean with which the countdown was drawn.
    pub(super) interval: Cell<u64>,
    /// The stack pointer of the call that is in the slow path, or 0.
    pub(super) inside: Cell<usize>,
    /// All is mapped from here to [`Thread::stack_end`], and stays so.
    pub(super) stack_known: Cell<usize>,
    /// Above all frames of the thread's own stack.
    pub(super) stack_end: Cell<usize>,
    /// The thread, in its own namespace.
    pub(super) id: Cell<u32>,
    generation: Cell<u32>,
    random: Cell<u64>,
}

const _: () = assert!(size_of::<Thread>() <= THREAD_BYTES);

/// The block of this thread. Nothing keeps it beyond the call of the slow path.
pub(super) fn current() -> &'static Thread {
    // SAFETY: the block has this size and alignment, zeros are a `Thread`, and only this thread has a reference:
    // `Thread` is not `Sync`.
    unsafe { &*thread_block().0.cast() }
}

/// The process, in its own namespace.
pub(super) fn process_id() -> u32 {
    // SAFETY: sampling starts when the page is mapped, and nothing unmaps it. Zeros are an `AtomicU32`.
    let id = unsafe { &*PROCESS.load(Relaxed) };
    if id.load(Relaxed) == 0 {
        // The first call in a fork.
        GENERATION.fetch_add(1, Relaxed);
        connect::reset_in_fork();
        id.store(system::process_id(), Relaxed);
    }
    id.load(Relaxed)
}

impl Thread {
    /// Learns of a new thread, or of a fork.
    pub(super) fn refresh(&self) {
        let process = process_id();
        let generation = GENERATION.load(Relaxed);
        let is_new = self.generation.get() == 0;
        if self.generation.get() != generation {
            let id = system::thread_id();
            self.id.set(id);
            // A child of vfork(2) has this block, and another number: its parent looks again.
            if id == process || system::process_id() == process {
                self.generation.set(generation);
            }
        }
        if is_new {
            let (block, thread_pointer) = thread_block();
            let seed = ticks() ^ u64::from(self.id.get()) << 40 ^ block as u64;
            self.random.set(seed.wrapping_mul(HASH) | 1);
            let is_first = self.id.get() == process;
            let end = if is_first {
                FIRST_STACK_END.load(Relaxed)
            } else {
                thread_pointer
            };
            self.stack_end.set(end);
            self.stack_known.set(end);
        }
    }

    /// Draws when the next sample is due.
    pub(super) fn draw(&self) -> u64 {
        let (mut random, interval) = (self.random.get(), connect::interval());
        let countdown = bytes_to_next(&mut random, interval);
        self.random.set(random);
        self.interval.set(interval);
        countdown
    }
}
