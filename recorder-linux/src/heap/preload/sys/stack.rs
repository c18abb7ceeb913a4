//! Copies of stacks, without a fault and without a lock.
//!
//! A plain copy is right where the memory is known to be mapped: a thread's own stack, from the lowest address that was
//! seen to be mapped up to its end. Other stacks (of a signal handler, of a coroutine) may be unmapped by their owner
//! at any time later. They are read with process_vm_readv(2), which takes 3 us for 8 KiB and fails softly.

use super::machine;
use super::system::read_own_memory;
use super::thread::Thread;

/// One byte is read in each; where pages are larger, more.
const PAGE: usize = 4096;
/// Pages that one system call looks at.
const AT_ONCE: usize = 32;
/// The usual limit of a stack. What is further away is another stack, or is read as one.
const MOST_BYTES: usize = 8 << 20;

/// How much of `limit` bytes from `from` on is in the stack.
pub(super) fn extent(thread: &Thread, from: usize, limit: usize) -> usize {
    match thread.stack_end.get().checked_sub(from) {
        Some(bytes) => bytes.min(limit),
        // Above: another stack.
        None => limit,
    }
}

/// Copies [`extent`] bytes to `to`. Returns how many were readable.
///
/// # Safety
///
/// `to` has `bytes` bytes, and `from` is the thread's stack pointer.
pub(super) unsafe fn copy(thread: &Thread, process: u32, from: usize, to: *mut u8, bytes: usize) -> usize {
    learn(thread, process, from);
    if from >= thread.stack_known.get() && from < thread.stack_end.get() {
        // SAFETY: `extent` ends at the end of the stack, below which all is mapped down to `stack_known`. The bytes at
        // `to` are the caller's, and in no stack.
        unsafe { machine::copy(from as *const u8, to, bytes) };
        return bytes;
    }
    // SAFETY: the caller's.
    unsafe { read_own_memory(process, &[[from, bytes]], to) }
}

/// Lowers `stack_known` to `from`, if all is mapped between both. Reads upwards from where memory is mapped: below a
/// first thread's stack, some kernels would extend the stack, and others complain about it.
fn learn(thread: &Thread, process: u32, from: usize) {
    let known = thread.stack_known.get();
    if from >= known || known - from > MOST_BYTES {
        return;
    }
    let mut next = from;
    while next < known {
        // One byte of each page, in the first one that of `from`.
        let mut places = [[0, 1]; AT_ONCE];
        let mut count = 0;
        for place in &mut places {
            if next >= known {
                break;
            }
            place[0] = next;
            next = (next & !(PAGE - 1)) + PAGE;
            count += 1;
        }
        let mut bytes = core::mem::MaybeUninit::<[u8; AT_ONCE]>::uninit();
        let places = places.get(..count).unwrap_or_default();
        // SAFETY: one byte for each place.
        if unsafe { read_own_memory(process, places, bytes.as_mut_ptr().cast()) } != count {
            return;
        }
    }
    thread.stack_known.set(from);
}
