//! What differs between processors: the entries, system calls, thread-local memory.
//!
//! **Thread-local memory.** Stable Rust has no thread-local variable without std. So the assembler reserves
//! [`THREAD_BYTES`] in the static block of each thread (initial-exec model: the offset from the thread pointer is a
//! relocation, so no function of libc is called).
//!
//! **Entries.** Each function of the family has two: the one that programs call, and `slow_...`. Both end in a jump, so
//! for the allocator and for [`slow`](super::slow::slow) the caller is the program, with its registers and its stack as
//! they were at the call.
//!
//! The countdown is unsigned: a borrow and zero lead to the slow path. A signed comparison would take
//! `malloc(SIZE_MAX)` for a negative size, and sampling would end for that thread. A countdown of 2^63 or more does so
//! as well: a signal handler that jumps out of an entry leaves what the borrow made.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};

#[cfg(target_arch = "aarch64")]
pub(super) use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::*;

use crate::live::{FILTER_BITS, FILTER_SHIFTS};
use crate::wire::{ALLOCATES, Descriptor, FREES, FUNCTIONS, NO_ARGUMENT, REALLOCATES, STORES};

/// Size of a thread's block, and its alignment.
pub(super) const THREAD_BYTES: usize = 64;

// As the entries have them.
const _: () = assert!(matches!((FILTER_SHIFTS, FILTER_BITS), ((6, 15), 16)));

// Indexes in `wire::FUNCTIONS`.
pub(super) const MALLOC: usize = 0;
pub(super) const CALLOC: usize = 1;
pub(super) const REALLOC: usize = 2;
pub(super) const FREE: usize = 3;
pub(super) const ALIGNED_ALLOC: usize = 4;
pub(super) const MEMALIGN: usize = 5;
pub(super) const POSIX_MEMALIGN: usize = 6;
pub(super) const VALLOC: usize = 7;
pub(super) const PVALLOC: usize = 8;
pub(super) const REALLOCARRAY: usize = 9;

/// The code of each function.
pub(super) type Codes = [AtomicPtr<()>; FUNCTIONS.len()];

const fn code(entry: unsafe extern "C" fn()) -> AtomicPtr<()> {
    AtomicPtr::new(entry as *mut ())
}

/// The code of this function.
pub(super) fn load(codes: &Codes, function: usize) -> *mut () {
    codes.get(function).map_or(null_mut(), |code| code.load(Relaxed))
}

/// Sets the code of this function, unless it is null.
pub(super) fn store(codes: &Codes, function: usize, code: *mut ()) {
    if let Some(place) = codes.get(function).filter(|_| !code.is_null()) {
        place.store(code, Relaxed);
    }
}

/// Where each function goes when it was counted: the allocator's, once that is known and the function does not allocate
/// by another one.
pub(super) static NEXT: Codes = [
    code(slow_malloc),
    code(slow_calloc),
    code(slow_realloc),
    code(slow_free),
    code(slow_aligned_alloc),
    code(slow_memalign),
    code(slow_posix_memalign),
    code(slow_valloc),
    code(slow_pvalloc),
    code(slow_reallocarray),
];

/// The allocator's functions.
pub(super) static ALLOCATOR: [Descriptor; FUNCTIONS.len()] = [
    function(MALLOC, ALLOCATES, 0, NO_ARGUMENT, 0),
    function(CALLOC, ALLOCATES, 0, 1, 0),
    function(REALLOC, REALLOCATES, 1, NO_ARGUMENT, 0),
    function(FREE, FREES, 0, NO_ARGUMENT, 0),
    function(ALIGNED_ALLOC, ALLOCATES, 1, NO_ARGUMENT, 0),
    function(MEMALIGN, ALLOCATES, 1, NO_ARGUMENT, 0),
    function(POSIX_MEMALIGN, STORES, 2, NO_ARGUMENT, 0),
    function(VALLOC, ALLOCATES, 0, NO_ARGUMENT, 0),
    function(PVALLOC, ALLOCATES, 0, NO_ARGUMENT, 0),
    function(REALLOCARRAY, REALLOCATES, 1, 2, 0),
];

const fn function(index: usize, class: u8, size: u8, multiplier: u8, pointer: u8) -> Descriptor {
    Descriptor {
        function: AtomicU64::new(0),
        class,
        size,
        multiplier,
        pointer,
        index: index as u32,
    }
}
