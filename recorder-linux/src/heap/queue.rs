//! Records of programs that wait to be sent among the other events of a recording, by their times.

use recording::event::{Allocation, Thread};
use recording::stack::{FurtherRegisters, Registers, Snapshot};

use super::shared_memory::{REGISTER_BYTES, word};
use super::wire::{ALLOCATION, RecordHead};

/// Bytes of all records that wait, with their stacks, at most. Others stay in the rings.
const MOST_BYTES: usize = 256 << 20;

/// The records, and the bytes behind their heads.
#[derive(Debug, Default)]
pub(super) struct HeapQueue {
    /// Those from `sent` on wait, and are sorted by time.
    records: Vec<HeapRecord>,
    sent: usize,
    bodies: Vec<u8>,
}

/// A record that is to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeapRecord {
    pub(super) time_ns: u64,
    /// As its process knows it.
    pub(super) thread: Thread,
    /// `None` for a free.
    pub(super) allocation: Option<AllocationRecord>,
    pub(super) address: u64,
    /// The key in [`HeapRecorder::programs`](super::HeapRecorder).
    pub(super) program: u64,
}

/// What only an allocation has.
#[derive(Clone, Copy, Debug)]
pub(super) struct AllocationRecord {
    pub(super) block: Allocation,
    body: usize,
    pub(super) stack_bytes: usize,
}

impl HeapQueue {
    /// True if there is no room for more.
    pub(super) fn is_full(&self) -> bool {
        self.bodies.len() + self.records.len() * size_of::<HeapRecord>() > MOST_BYTES
    }

    /// Adds a checked record of a program. [`HeapQueue::sort`] follows.
    pub(super) fn push(&mut self, head: RecordHead, body: &[u8], program: u64) -> HeapRecord {
        let is_allocation = head.kind == ALLOCATION;
        // A multiple of 8, as the unwinder reads words.
        let stack_bytes = head.stack_bytes as usize & !7;
        let place = self.bodies.len();
        if is_allocation {
            self.bodies
                .extend_from_slice(body.get(..REGISTER_BYTES + stack_bytes).unwrap_or_default());
        }
        let record = HeapRecord {
            time_ns: head.time_ns,
            // They were checked.
            thread: Thread::new(head.pid.cast_signed(), head.tid.cast_signed()),
            allocation: is_allocation.then_some(AllocationRecord {
                block: Allocation {
                    address: head.address,
                    size: head.size,
                    interval: head.interval,
                },
                body: place,
                stack_bytes,
            }),
            address: head.address,
            program,
        };
        self.records.push(record);
        record
    }

    /// Sorts what waits by time.
    pub(super) fn sort(&mut self) {
        if let Some(rest) = self.records.get_mut(self.sent..) {
            rest.sort_by_key(|record| record.time_ns);
        }
    }

    /// The next record with a time up to `until_ns`. Its stack stays until [`HeapQueue::drop_sent`].
    pub(super) fn next_until(&mut self, until_ns: u64) -> Option<HeapRecord> {
        let next = self.records.get(self.sent).copied();
        let next = next.filter(|record| record.time_ns <= until_ns)?;
        self.sent += 1;
        Some(next)
    }

    /// True if a record of the program is here.
    pub(super) fn has_records_of(&self, program: u64) -> bool {
        self.records.iter().any(|record| record.program == program)
    }

    /// The words and the stack of an allocation, to be unwound.
    pub(super) fn snapshot(&self, allocation: &AllocationRecord) -> Snapshot<'_> {
        let body = self.bodies.get(allocation.body..).unwrap_or_default();
        let words = body.get(..REGISTER_BYTES).unwrap_or_default();
        let stack = body.get(REGISTER_BYTES..).unwrap_or_default();
        Snapshot {
            kernel: &[],
            registers: registers(words),
            further: FurtherRegisters {
                bits: REGISTER_BITS,
                mask: u64::MAX >> (64 - REGISTER_COUNT),
                words,
            },
            stack_bytes: stack.get(..allocation.stack_bytes).unwrap_or_default(),
            next_copy: None,
        }
    }

    /// Drops the records that were sent.
    pub(super) fn drop_sent(&mut self) {
        self.records.drain(..self.sent);
        self.sent = 0;
        // Bodies lie in the order of reading.
        let bodies = { self.records.iter() }.filter_map(|record| Some(record.allocation?.body));
        let first = bodies.min().unwrap_or(self.bodies.len());
        self.bodies.drain(..first);
        for allocation in self.records.iter_mut().filter_map(|record| record.allocation.as_mut()) {
            allocation.body -= first;
        }
    }
}

/// The registers of a record, in the order of `wire::REGISTERS`: how many, and the bit of each DWARF number.
#[cfg(target_arch = "x86_64")]
const REGISTER_COUNT: u32 = 8;
#[cfg(target_arch = "x86_64")]
static REGISTER_BITS: &[u8] = {
    const NONE: u8 = u8::MAX;
    // rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15, return address.
    &[
        NONE, NONE, NONE, 3, NONE, NONE, 2, 1, NONE, NONE, NONE, NONE, 4, 5, 6, 7, 0,
    ]
};
#[cfg(target_arch = "aarch64")]
const REGISTER_COUNT: u32 = 13;
#[cfg(target_arch = "aarch64")]
static REGISTER_BITS: &[u8] = {
    const NONE: u8 = u8::MAX;
    // x0 to x18, then x19 to x28, x29, x30, sp.
    &[
        NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE,
        NONE, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 2, 0, 1,
    ]
};

/// The caller's registers just after the call. The address is moved back into the call instruction: what follows a call
/// may be of another line, or of another function.
fn registers(words: &[u8]) -> Registers {
    let at = |index: usize| word(words, 8 * index).unwrap_or_default();
    #[cfg(target_arch = "x86_64")]
    let registers = Registers::X86_64 {
        ip: at(0).saturating_sub(1),
        sp: at(1),
        bp: at(2),
    };
    #[cfg(target_arch = "aarch64")]
    let registers = Registers::Aarch64 {
        pc: at(0).saturating_sub(4),
        sp: at(1),
        fp: at(2),
        lr: at(0),
    };
    registers
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::shared_memory::tests::free;
    use super::*;

    /// Fills the queue; returns the number of records. They have no stacks.
    pub(in crate::heap) fn fill(queue: &mut HeapQueue) -> usize {
        let waiting = queue.push(free(7, 1, 16), &[], 0);
        queue.records = vec![waiting; MOST_BYTES / size_of::<HeapRecord>() + 1];
        queue.records.len()
    }

    pub(in crate::heap) fn len(queue: &HeapQueue) -> usize {
        queue.records.len()
    }
}
