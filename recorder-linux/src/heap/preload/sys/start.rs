//! The first call of all, or this library's constructor: finds the allocator, reads the environment, and has an
//! allocator in the executable patched.
//!
//! The first call may come before libc is initialized, from the loader. The loader calls the constructor before those
//! of all other libraries (`-z initfirst`, and the order of musl): also where the program never calls this library, its
//! own allocator is patched before it is used. There is one thread then, or a few and signal handlers, which write the
//! same.

use core::ptr::{null, null_mut};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::connect::{OFF, SETTINGS, STATE, UNKNOWN, WAITING};
use super::link_map::{Library, after, libraries};
use super::machine::{ALLOCATOR, FREE, MALLOC, VDSO_CLOCK, own_dynamic_section};
use super::patch::patch_executable;
use super::system;
use super::thread::{FIRST_STACK_END, PROCESS};
use crate::wire::{Descriptor, FUNCTIONS, MAX_RING_BYTES, MAX_SOCKET_BYTES, MIN_RING_BYTES, VARIABLE};

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = construct;

extern "C" fn construct() {
    start();
}

/// Does all that is done once. Where no library has an allocator, the next call tries again.
pub(super) fn start() {
    if STATE.load(Acquire) != UNKNOWN {
        return;
    }
    // SAFETY: the first call comes from the loader, or before the program has threads.
    let loaded = unsafe { libraries() };
    let own = own_dynamic_section();
    let is_other = move |library: &&Library| !library.has_dynamic_section(own);
    let next = loaded.clone().skip_while(is_other).skip(1);
    for (function, name) in ALLOCATOR.iter().zip(FUNCTIONS) {
        function.function.store(find(next.clone(), name) as u64, Relaxed);
    }
    let [malloc, free] = [MALLOC, FREE].map(|index| ALLOCATOR.get(index));
    if malloc.is_none_or(|malloc| malloc.function.load(Relaxed) == 0) {
        return;
    }
    system::CLOCK.store(find(loaded.clone(), VDSO_CLOCK), Relaxed);
    // An executable with its own allocator uses that one, and might leave a part of the family to this library.
    let has_allocator = find(loaded.clone().take_while(is_other), "malloc") != 0;
    let may_patch = || SETTINGS.patch.load(Relaxed) == 1;
    let is_wanted = !is_secure(loaded.clone())
        && !has_sanitizer(loaded.clone())
        && read_environment(environment(loaded.clone()))
        && map_process()
        && (may_patch() && patch(loaded, has_allocator) || !has_allocator);
    // The others are settled when they are called.
    malloc.into_iter().chain(free).for_each(Descriptor::settle);
    // A signal handler or another thread may have done all this meanwhile, and have connected.
    let state = if is_wanted { WAITING } else { OFF };
    let _ = STATE.compare_exchange(UNKNOWN, state, Release, Relaxed);
}

/// Does the same in a static program, before its first instruction: sprof has mapped this library and relocated it
/// (`static_program.rs`). `stack` is the program's as it starts, `bias` what its addresses have more than in its file.
/// There are no threads yet, and no thread pointer.
///
/// # Safety
///
/// Only as described.
#[unsafe(no_mangle)]
unsafe extern "C" fn sprof_heap_start(stack: *const usize, bias: usize) {
    // SAFETY: the number of arguments, which null follows.
    let environment = stack.wrapping_add(unsafe { *stack } + 2);
    let is_wanted = read_environment(environment.cast()) && map_process() && patch_executable(None, bias, true);
    STATE.store(if is_wanted { WAITING } else { OFF }, Release);
}

fn patch(mut loaded: impl Iterator<Item = &'static Library>, has_allocator: bool) -> bool {
    let executable = loaded.next();
    executable.is_some_and(|library| patch_executable(Some(library), library.bias(), has_allocator))
}

/// Whether the program has rights that its caller may not have (ld.so(8)): its memory is not for the caller's eyes.
fn is_secure(libraries: impl Iterator<Item = &'static Library>) -> bool {
    /// elf.h.
    const AT_SECURE: usize = 23;
    let getauxval = find(libraries, "getauxval");
    if getauxval == 0 {
        return true;
    }
    // SAFETY: libc's function (getauxval(3)). It reads words that the loader has copied before all else, and sets errno
    // for an unknown type alone.
    let getauxval: extern "C" fn(usize) -> usize = unsafe { core::mem::transmute(getauxval) };
    getauxval(AT_SECURE) != 0
}

/// The address of the first definition, or 0.
fn find(mut libraries: impl Iterator<Item = &'static Library>, name: &str) -> usize {
    // SAFETY: these libraries are loaded.
    let symbol = |library: &Library| Some(unsafe { library.symbol(name) }).filter(|address| *address != 0);
    libraries.find_map(symbol).unwrap_or(0)
}

/// They interpose the same functions, and watch what is done with memory. LeakSanitizer also looks for addresses of
/// blocks in this library's memory.
fn has_sanitizer(libraries: impl Iterator<Item = &'static Library> + Clone) -> bool {
    ["__asan_init", "__tsan_init", "__lsan_init", "__msan_init"]
        .iter()
        .any(|name| find(libraries.clone(), name) != 0)
}

fn map_process() -> bool {
    let page: *mut AtomicU32 = system::map_page_zero_in_forks().cast();
    // SAFETY: null, or a page of zeros, which are an `AtomicU32`.
    let Some(id) = (unsafe { page.as_ref() }) else {
        return false;
    };
    // Now: the first sample may be one of a child of vfork(2), which shares the page and has another number.
    id.store(system::process_id(), Relaxed);
    // The first one stays.
    let _ = PROCESS.compare_exchange(null_mut(), page, Relaxed, Relaxed);
    true
}

/// Reads the settings. Returns false where there are none.
fn read_environment(environment: *const *const u8) -> bool {
    // The strings above it belong to no frame.
    FIRST_STACK_END.store(environment as usize, Relaxed);
    let mut entry = environment;
    // SAFETY: null, or an array of C strings that ends with null.
    while let Some(text) = unsafe { entry.as_ref() }.filter(|text| !text.is_null()) {
        // SAFETY: a C string.
        if let Some(value) = unsafe { after(*text, VARIABLE) } {
            // SAFETY: the rest of it.
            return unsafe { read_settings(value) }.is_some();
        }
        entry = entry.wrapping_add(1);
    }
    false
}

/// The environment as the kernel has put it above the stack, or null.
fn environment(libraries: impl Iterator<Item = &'static Library> + Clone) -> *const *const u8 {
    // glibc's loader: where the stack began, with the number of arguments and the arguments. libc's own variable is set
    // later, by its constructor.
    let stack_end = find(libraries.clone(), "__libc_stack_end") as *const *const usize;
    // SAFETY: the loader sets it before all else.
    if let Some(stack) = unsafe { stack_end.as_ref() }.filter(|stack| !stack.is_null()) {
        // SAFETY: the number of arguments, which null follows.
        let arguments = unsafe { **stack };
        return stack.wrapping_add(arguments + 2).cast();
    }
    // musl's loader sets it before all else.
    let environ = find(libraries, "environ") as *const *const *const u8;
    // SAFETY: null, or that variable.
    unsafe { environ.as_ref() }.copied().unwrap_or(null())
}

/// Reads `=INTERVAL:STACK_BYTES:RING_BYTES:PATCH:SOCKET`.
///
/// # Safety
///
/// It is a C string.
unsafe fn read_settings(text: *const u8) -> Option<()> {
    let mut text = text;
    let mut before = b'=';
    let numbers = [
        &SETTINGS.interval,
        &SETTINGS.stack_bytes,
        &SETTINGS.ring_bytes,
        &SETTINGS.patch,
    ];
    for setting in numbers {
        // SAFETY: no byte before was the end.
        if unsafe { *text } != before {
            return None;
        }
        text = text.wrapping_add(1);
        before = b':';
        let mut value: u64 = 0;
        // SAFETY: the same.
        while let byte @ b'0'..=b'9' = unsafe { *text } {
            value = value.saturating_mul(10).saturating_add((byte - b'0').into());
            text = text.wrapping_add(1);
        }
        setting.store(value, Relaxed);
    }
    // SAFETY: the same.
    if unsafe { *text } != b':' {
        return None;
    }
    let socket = text.wrapping_add(1);
    let ring_bytes = SETTINGS.ring_bytes.load(Relaxed);
    if !ring_bytes.is_power_of_two() || !(MIN_RING_BYTES..=MAX_RING_BYTES).contains(&ring_bytes) {
        return None;
    }
    // SAFETY: the same.
    unsafe { read_socket(socket) }
}

/// Makes the socket's `sockaddr_un`.
///
/// # Safety
///
/// It is a C string.
unsafe fn read_socket(text: *const u8) -> Option<()> {
    const AF_UNIX: u16 = 1;
    for (slot, byte) in SETTINGS.address.iter().zip(AF_UNIX.to_ne_bytes()) {
        slot.store(byte, Relaxed);
    }
    let mut bytes = 0;
    for slot in SETTINGS.address.iter().skip(2) {
        // SAFETY: no byte before was the end.
        let byte = unsafe { *text.wrapping_add(bytes) };
        if byte == 0 {
            break;
        }
        // An abstract name begins with 0.
        let byte = if bytes == 0 && byte == b'@' { 0 } else { byte };
        slot.store(byte, Relaxed);
        bytes += 1;
    }
    SETTINGS.address_bytes.store(2 + bytes, Relaxed);
    (1..=MAX_SOCKET_BYTES).contains(&bytes).then_some(())
}
