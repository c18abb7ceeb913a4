//! Writes records. `wire.rs` says how they are read.
//!
//! Several threads and signal handlers may write into the ring at a time. Each reserves its bytes by moving the head,
//! and the first word says when they are written.

use core::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use super::connect::{self, SharedMemory};
use super::machine::Call;
use super::thread::{Thread, process_id};
use super::{stack, system};
use crate::wire::{self, RecordHead};
use crate::{draw, live};

/// Samples that came while there was no memory, and what they stand for. The next sample reports them.
static EARLY_SAMPLES: AtomicU64 = AtomicU64::new(0);
static EARLY_BYTES: AtomicU64 = AtomicU64::new(0);

/// Length of an allocation without its stack.
const ALLOCATION_BYTES: u64 = wire::HEAD_BYTES + 8 * wire::REGISTERS as u64;

/// Bytes of the ring that a record can be written to.
struct Reserved {
    position: u64,
    bytes: u64,
    start: *mut u64,
}

/// Records the free of a sample.
pub(super) fn record_free(thread: &Thread, address: usize, time_ns: u64) {
    // The sample was recorded, so the memory is there.
    let Some(memory) = connect::memory() else {
        return;
    };
    // No free is lost while an eighth of the ring is kept for them: they are as many as the allocations, and shorter.
    let Some(reserved) = memory.reserve(wire::HEAD_BYTES, memory.ring_bytes) else {
        memory.header.ring.lost_frees.fetch_add(1, Relaxed);
        return;
    };
    let head = RecordHead {
        bytes: reserved.bytes as u32,
        kind: wire::FREE,
        pid: process_id(),
        tid: thread.id.get(),
        time_ns,
        address: address as u64,
        ..RecordHead::default()
    };
    reserved.commit(head);
}

/// Records a sample: the call that has returned this address.
pub(super) fn record_allocation(thread: &Thread, call: &Call, function: u32, address: usize, size: usize) {
    let weight = || draw::weight(size as u64, thread.interval.get());
    let Some(memory) = connect::memory_for_sample() else {
        EARLY_SAMPLES.fetch_add(1, Relaxed);
        EARLY_BYTES.fetch_add(weight(), Relaxed);
        return;
    };
    if EARLY_SAMPLES.load(Relaxed) != 0 {
        memory
            .header
            .ring
            .lost_samples
            .fetch_add(EARLY_SAMPLES.swap(0, Relaxed), Relaxed);
        memory
            .header
            .ring
            .lost_bytes
            .fetch_add(EARLY_BYTES.swap(0, Relaxed), Relaxed);
    }
    let ring_bytes = memory.ring_bytes;
    let limit = memory.header.stack_bytes.load(Relaxed).min(wire::MAX_STACK_BYTES);
    let limit = limit.min(ring_bytes / 2 - ALLOCATION_BYTES);
    let from = call.stack_pointer();
    let wanted = stack::extent(thread, from, limit as usize);
    let bytes = (ALLOCATION_BYTES + wanted as u64).next_multiple_of(wire::ALIGNMENT);
    let Some(reserved) = memory.reserve(bytes, ring_bytes - ring_bytes / 8) else {
        memory.header.ring.lost_samples.fetch_add(1, Relaxed);
        memory.header.ring.lost_bytes.fetch_add(weight(), Relaxed);
        return;
    };
    let registers = reserved.start.wrapping_add(wire::HEAD_BYTES as usize / 8);
    for (index, register) in call.registers().into_iter().enumerate() {
        // SAFETY: the registers are within `ALLOCATION_BYTES`.
        unsafe { registers.wrapping_add(index).write(register) };
    }
    let to = registers.wrapping_add(wire::REGISTERS).cast::<u8>();
    // SAFETY: `wanted` bytes follow the registers, and the call's frame is at the stack pointer.
    let stack_bytes = unsafe { stack::copy(thread, process_id(), from, to, wanted) };
    let is_tracked = live::insert(address as u64);
    if !is_tracked {
        memory.header.ring.untracked.fetch_add(1, Relaxed);
    }
    memory.header.ring.samples.fetch_add(1, Relaxed);
    reserved.commit(RecordHead {
        bytes: bytes as u32,
        kind: wire::ALLOCATION,
        flags: function as u16 | if is_tracked { 0 } else { wire::UNTRACKED },
        pid: process_id(),
        tid: thread.id.get(),
        time_ns: system::now_ns(),
        address: address as u64,
        size: size as u64,
        interval: thread.interval.get(),
        stack_bytes: stack_bytes as u64,
    });
}

/// Reports bytes that were allocated inside of an allocation.
pub(super) fn add_nested(bytes: u64) {
    if let Some(memory) = connect::memory() {
        memory.header.ring.nested_bytes.fetch_add(bytes, Relaxed);
    }
}

impl SharedMemory {
    /// Moves the head over a record of this length, and to the start of the ring if the record does not fit at its end.
    /// `None` if the ring would then have more than `most` bytes.
    ///
    /// The recorder may write anything into head and tail. What is reserved is always aligned, and inside of the ring.
    fn reserve(&self, bytes: u64, most: u64) -> Option<Reserved> {
        let ring_bytes = self.ring_bytes;
        loop {
            let head = self.header.ring.head.load(Relaxed);
            let tail = self.header.ring.tail.load(Acquire);
            let offset = head & (ring_bytes - 1) & !(wire::ALIGNMENT - 1);
            let skipped = if offset + bytes > ring_bytes {
                ring_bytes - offset
            } else {
                0
            };
            let next = head.wrapping_add(skipped + bytes);
            if next.wrapping_sub(tail) > most {
                // If the thread lost its CPU between the two, the tail may be ahead of this old head.
                if self.header.ring.head.load(Relaxed) != head {
                    continue;
                }
                return None;
            }
            if self
                .header
                .ring
                .head
                .compare_exchange_weak(head, next, AcqRel, Relaxed)
                .is_err()
            {
                continue;
            }
            let at = |offset: u64| self.ring.wrapping_add(offset as usize).cast();
            if skipped == 0 {
                return Some(Reserved {
                    position: head,
                    bytes,
                    start: at(offset),
                });
            }
            let filler = Reserved {
                position: head,
                bytes: skipped,
                start: at(offset),
            };
            filler.commit(RecordHead {
                bytes: skipped as u32,
                kind: wire::FILLER,
                ..RecordHead::default()
            });
            return Some(Reserved {
                position: head.wrapping_add(skipped),
                bytes,
                start: at(0),
            });
        }
    }
}

impl Reserved {
    /// Writes the head, and makes the record whole.
    fn commit(self, head: RecordHead) {
        for (index, word) in head.to_words().into_iter().enumerate() {
            // SAFETY: a record has at least `HEAD_BYTES`, and is aligned to them.
            unsafe { self.start.wrapping_add(1 + index).write(word) };
        }
        // SAFETY: the same. Others read this word as an atomic one, too.
        let commit = unsafe { AtomicU64::from_ptr(self.start) };
        commit.store(!self.position, Release);
    }
}
