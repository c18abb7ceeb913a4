//! Calls that may be a sample, or free one; and all calls until the allocator and its habits are known.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use super::connect::{OFF, STATE, UNKNOWN};
use super::machine::{Call, NEXT, load, store};
use super::ring::{add_nested, record_allocation, record_free};
use super::thread::{self, Thread};
use super::{start, system};
use crate::wire::{Descriptor, FREES, FUNCTIONS, NO_ARGUMENT, REALLOCATES, STORES};
use crate::{draw, live};

/// The countdown while the allocator works: what the allocator allocates by the interposed functions does not count.
/// Where a signal handler jumps out of the allocator (siglongjmp(3)), the countdown ends, and the thread is sampled
/// again.
const PARKED: u64 = 1 << 20;
/// Stack that an allocator, and a signal handler in it, may need.
const MOST_NESTED_STACK: usize = 64 << 10;
/// So many times in a row a function allocates by another one, until it is taken to do so always.
const SURE: u8 = 3;

/// How often each function has allocated by another one.
static NESTED: [AtomicU8; FUNCTIONS.len()] = [const { AtomicU8::new(0) }; FUNCTIONS.len()];

/// Does what the call asks for, and what is to be recorded of it. The entry has subtracted the size from the countdown,
/// unless the function frees.
///
/// # Safety
///
/// The descriptor is that of the function, and the arguments are as its contract wants them.
pub(super) unsafe extern "C" fn slow(call: &Call, function: &Descriptor) -> usize {
    let thread = thread::current();
    start::start();
    // SAFETY: the caller's contract.
    let allocator = || unsafe { function.call(&call.args) };
    match STATE.load(Relaxed) {
        UNKNOWN => return allocator(),
        OFF => {
            thread.countdown.set(draw::MOST);
            function.settle();
            return allocator();
        }
        _ => thread.refresh(),
    }
    let argument = |number: u8| call.args.get(usize::from(number)).copied().unwrap_or_default();
    let block = argument(function.pointer);
    if function.class == FREES {
        if block != 0 && live::remove(block as u64) {
            // Before the free: then another thread may get the address.
            record_free(thread, block, system::now_ns());
        }
        return allocator();
    }
    // An overflow, which the allocator refuses, wraps here and in the entries.
    let size = match function.multiplier {
        NO_ARGUMENT => argument(function.size),
        multiplier => argument(function.size).wrapping_mul(argument(multiplier)),
    };
    let counted = thread.countdown.get().wrapping_add(size as u64);
    if function.is_settled_as_nesting() {
        thread.countdown.set(counted);
        return allocator();
    }
    let stack = call.stack_pointer();
    let outer = thread.outer_call(stack);
    // 0: this is the thread's first allocation. Too large: a signal handler has allocated, or jumped out, between the
    // borrow and here. Outside of an allocation that did not end, a jump came later.
    let is_drawn = (1..=draw::MOST).contains(&counted) && (outer.is_some() || thread.inside.get() == 0);
    let countdown = if is_drawn { counted } else { thread.draw() };
    let old = if function.class == REALLOCATES { block } else { 0 };
    // Before the call, in which another thread may get the address.
    let freed_ns = (old != 0 && live::remove(old as u64)).then(system::now_ns);

    thread.inside.set(stack);
    thread.countdown.set(PARKED);
    let result = allocator();
    let nested_bytes = PARKED.saturating_sub(thread.countdown.get());
    if size > 0 {
        function.learn(nested_bytes);
    }

    // SAFETY: the function has returned 0, and so written the address.
    let stored = || unsafe { *(block as *const usize) };
    let address = match function.class {
        STORES if result == 0 => stored(),
        STORES => 0,
        _ => result,
    };
    if let Some(time_ns) = freed_ns {
        // `realloc(old, 0)` may free, and return null.
        if address != 0 || size == 0 {
            record_free(thread, old, time_ns);
        } else {
            // The allocation stays. There was a slot just now.
            live::insert(old as u64);
        }
    }
    let next = if outer.is_some() {
        // The outer call looks at what is left.
        countdown.saturating_sub(size as u64).max(1)
    } else if address == 0 {
        countdown
    } else if let Some(rest) = countdown.checked_sub(size as u64).filter(|rest| *rest > 0) {
        rest
    } else {
        record_allocation(thread, call, function.index, address, size);
        thread.draw()
    };
    if nested_bytes > 0 {
        add_nested(nested_bytes);
    }
    thread.countdown.set(next);
    thread.inside.set(outer.unwrap_or(0));
    result
}

impl Thread {
    /// The stack pointer of the allocation that this one is inside of: the allocator calls itself, or a signal handler
    /// allocates. Handlers may have left the slow path for good (siglongjmp(3)); then the stack is above it.
    fn outer_call(&self, stack: usize) -> Option<usize> {
        let outer = self.inside.get();
        (1..MOST_NESTED_STACK)
            .contains(&outer.wrapping_sub(stack))
            .then_some(outer)
    }
}

impl Descriptor {
    /// Whether the function allocates by another one, which counts. For example `reallocarray` of glibc calls
    /// `realloc`, `calloc` of musl calls `malloc`. The fast path would count twice.
    fn is_settled_as_nesting(&self) -> bool {
        NESTED
            .get(self.index as usize)
            .is_some_and(|times| times.load(Relaxed) >= SURE)
    }

    /// Learns whether an interposed function allocates by another one. Until that is known, and if so, all of its calls
    /// take the slow path.
    fn learn(&self, nested_bytes: u64) {
        if load(&NEXT, self.index as usize) == self.code() {
            return;
        }
        if nested_bytes == 0 {
            self.settle();
        } else if let Some(times) = NESTED.get(self.index as usize) {
            times.fetch_add(1, Relaxed);
        }
    }

    /// Lets an interposed function go on to the allocator once it has counted.
    pub(super) fn settle(&self) {
        store(&NEXT, self.index as usize, self.code());
    }

    fn code(&self) -> *mut () {
        self.function.load(Relaxed) as *mut ()
    }

    /// Calls the function, or returns null where there is none.
    ///
    /// # Safety
    ///
    /// The arguments are as the function's contract wants them.
    unsafe fn call(&self, [a, b, c, d, e, f]: &[usize; 6]) -> usize {
        let code = self.code();
        if code.is_null() {
            return 0;
        }
        // SAFETY: the function takes at most six words, and returns one.
        let code: unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> usize =
            unsafe { core::mem::transmute(code) };
        // SAFETY: the caller's contract.
        unsafe { code(*a, *b, *c, *d, *e, *f) }
    }
}
