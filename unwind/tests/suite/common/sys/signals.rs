//! Runs a function inside of a signal handler.

use std::cell::RefCell;

thread_local! {
    static INSIDE: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) };
}

/// Where the handler runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Where {
    NormalStack,
    AlternateStack,
}

/// Big enough for a test to run the whole unwinder on it.
const ALTERNATE_STACK: usize = 1 << 20;

#[inline(never)]
extern "C" fn on_signal(_signal: libc::c_int) {
    let inside = INSIDE.with(|inside| inside.borrow_mut().take());
    if let Some(mut inside) = inside {
        inside();
    }
    std::hint::black_box(());
}

/// Handles SIGTRAP with `inside`, once, on this thread.
pub fn handle_trap(place: Where, inside: Box<dyn FnMut()>) {
    INSIDE.with(|slot| *slot.borrow_mut() = Some(inside));
    let stack = match place {
        Where::AlternateStack => {
            let memory = Box::leak(vec![0u8; ALTERNATE_STACK].into_boxed_slice());
            libc::stack_t {
                ss_sp: memory.as_mut_ptr().cast(),
                ss_flags: 0,
                ss_size: memory.len(),
            }
        }
        // The standard library gives each thread a small one, to report overflows.
        Where::NormalStack => libc::stack_t {
            ss_sp: std::ptr::null_mut(),
            ss_flags: libc::SS_DISABLE,
            ss_size: 0,
        },
    };
    // SAFETY: the memory is leaked: it outlives the thread.
    let result = unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) };
    assert_eq!(result, 0, "sigaltstack");
    // SAFETY: all zeros is a valid sigaction: no flags, empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as usize;
    // For all threads, whichever test came first: one without an alternate stack uses its own.
    action.sa_flags = libc::SA_ONSTACK;
    // SAFETY: the action is valid for the length of the call; the old one is not wanted.
    let result = unsafe { libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut()) };
    assert_eq!(result, 0, "sigaction");
}

/// Raises SIGTRAP at an instruction of the calling function.
#[inline(always)]
pub fn trap() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SIGTRAP is handled, and execution goes on after the instruction.
    unsafe {
        std::arch::asm!("int3");
    }
    // A brk instruction would be run again: let the C library raise the signal.
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: SIGTRAP is handled.
    unsafe {
        libc::raise(libc::SIGTRAP);
    }
}
