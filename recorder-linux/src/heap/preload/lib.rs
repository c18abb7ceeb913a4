//! sprof's library in programs whose heap it records on Linux. `LD_PRELOAD` loads it.

#![no_std]
#![deny(unsafe_code, unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]
#![warn(clippy::multiple_unsafe_ops_per_block)]

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
