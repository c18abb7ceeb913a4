//! The calls of macOS, and all of this library's `unsafe`.
//!
//! Declarations come from mach/message.h, mach/task.h, mach/mach_port.h, servers/bootstrap.h, sys/codesign.h, pthread.h
//! and time.h.

mod port;

use core::ffi::{c_char, c_int, c_uint, c_void};

pub(crate) use port::Recorder;

/// `CLOCK_UPTIME_RAW` (time.h): `mach_absolute_time` in ns.
const UPTIME: c_int = 8;
/// `CS_OPS_STATUS`, `CS_OPS_ENTITLEMENTS_BLOB` (sys/codesign.h).
const STATUS: c_uint = 0;
const ENTITLEMENTS: c_uint = 7;
/// `CS_PLATFORM_BINARY` (osfmk/kern/cs_blobs.h).
const IS_PLATFORM: u32 = 0x0400_0000;
/// The kernel kills a process with this entitlement that sends the right to its task. The entitlement has had other
/// prefixes.
const HARDENED_PROCESS: &[u8] = b".hardened-process";
/// Entitlements that are read. A program with more is left alone.
const MOST_ENTITLEMENT_BYTES: usize = 4096;

#[link(name = "System")]
unsafe extern "C" {
    fn clock_gettime_nsec_np(clock: c_int) -> u64;
    fn csops(pid: c_int, what: c_uint, to: *mut c_void, size: usize) -> c_int;
    fn getenv(name: *const c_char) -> *const c_char;
    fn getpid() -> c_int;
    fn pthread_atfork(prepare: *const c_void, parent: *const c_void, child: *const c_void) -> c_int;
}

/// dyld calls what is listed here when it has loaded the library, after libSystem and before the program.
#[used]
#[unsafe(link_section = "__DATA,__mod_init_func,mod_init_funcs")]
static START: extern "C" fn() = on_start;

extern "C" fn on_start() {
    super::start();
}

extern "C" fn on_fork() {
    super::forked();
}

/// Nothing here panics: it indexes nothing, and unwraps nothing.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Makes each fork announce itself from now on.
pub(crate) fn at_each_fork() {
    let child = signed(on_fork as *const c_void);
    // SAFETY: null means no handler. `child` is a function without arguments that stays loaded: the library is never
    // unloaded.
    let _ = unsafe { pthread_atfork(core::ptr::null(), core::ptr::null(), child) };
}

/// A pointer to a function, as functions of others call it. Code for arm64e checks a signature that rustc does not
/// make.
#[cfg(arm64e)]
fn signed(function: *const c_void) -> *const c_void {
    let mut pointer = function;
    // SAFETY: the instruction changes the upper bits of one register, and nothing else.
    unsafe { core::arch::asm!("paciza {0}", inout(reg) pointer, options(nomem, nostack, pure)) };
    pointer
}

#[cfg(not(arm64e))]
fn signed(function: *const c_void) -> *const c_void {
    function
}

pub(crate) fn pid() -> i32 {
    // SAFETY: takes nothing, and returns an integer.
    unsafe { getpid() }
}

pub(crate) fn now_ns() -> u64 {
    // SAFETY: takes and returns integers.
    unsafe { clock_gettime_nsec_np(UPTIME) }
}

/// False if the kernel may kill the process for sending its task.
pub(crate) fn may_send_its_task() -> bool {
    let mut flags = [0u8; 4];
    let mut entitlements = [0u8; MOST_ENTITLEMENT_BYTES];
    // A failure leaves zeros: no signature has no flags.
    operation(STATUS, &mut flags);
    // It fails where there are more.
    operation(ENTITLEMENTS, &mut entitlements)
        && u32::from_ne_bytes(flags) & IS_PLATFORM == 0
        && !entitlements
            .windows(HARDENED_PROCESS.len())
            .any(|window| window == HARDENED_PROCESS)
}

/// Asks for a part of this process's code signature. Returns false if it does not fit.
fn operation(what: c_uint, to: &mut [u8]) -> bool {
    // SAFETY: the kernel writes at most `to.len()` bytes.
    let result = unsafe { csops(pid(), what, to.as_mut_ptr().cast(), to.len()) };
    // If there is more, the kernel writes the length. Without a signature it writes nothing.
    result == 0 || to.iter().all(|byte| *byte == 0)
}
