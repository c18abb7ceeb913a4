//! sprof's library in programs whose heap it records on Linux. `LD_PRELOAD` loads it before all other libraries.
//!
//! It interposes the functions of `malloc`'s family, and calls the next definition of each: the allocator that the
//! program would have without it. It samples allocations, each byte with the same chance, and writes each sample with
//! registers and stack into memory that it shares with the recorder (`wire.rs`), and later the free of it. The
//! recorder unwinds.
//!
//! In reading order:
//!
//! 1. `sys/machine/`: what a function does where nothing is sampled, in assembler. It subtracts the size from the
//!    thread's countdown, or looks up the freed address in a filter, and jumps to the allocator.
//! 2. `sys/slow.rs`: what it does otherwise.
//! 3. `draw.rs`: when the next sample is due; `live.rs`: the addresses of samples that were not freed.
//! 4. `sys/ring.rs` writes records, `sys/stack.rs` copies stacks, `sys/thread.rs` has what each thread knows.
//! 5. `sys/start.rs` runs at the first call of all, and `sys/link_map.rs` finds the allocator for it. If the executable
//!    has one, `sys/patch.rs` makes its functions count as well. `sys/connect.rs` runs at the first sample.
//!
//! A function here may run inside of a signal handler, of a library's constructor, of a new thread, and before libc is
//! initialized. So nothing here allocates, locks, calls libc beside its allocator and getauxval(3) (its system calls
//! are its own, so `errno` stays), or unwinds. Whatever fails, the program runs on, unsampled.
//!
//! A program may forbid system calls to itself (seccomp(2)). After its first sample, the library makes `gettid` and
//! `getpid` once in each thread, `getpid` in each fork, and `process_vm_readv` where a thread's stack grows.

#![no_std]
// No loop becomes a call of memcpy(3) or memset(3), which libc has.
#![no_builtins]
#![deny(unsafe_code, unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]
#![warn(clippy::multiple_unsafe_ops_per_block)]

mod draw;
mod live;
#[allow(unsafe_code)]
mod sys;
#[allow(dead_code, reason = "the recorder uses the rest")]
#[path = "../wire.rs"]
mod wire;

/// Nothing here panics: it indexes nothing, and unwraps nothing.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
