//! aarch64, by the AAPCS64: at a function's entry x9 to x17 are free, x30 is the return address.

use core::arch::{asm, global_asm, naked_asm};

use super::{
    ALIGNED_ALLOC, ALLOCATOR, CALLOC, FREE, MALLOC, MEMALIGN, NEXT, POSIX_MEMALIGN, PVALLOC, REALLOC, REALLOCARRAY,
    THREAD_BYTES, VALLOC,
};
use crate::live::FILTER;
use crate::sys::slow::slow;
use crate::wire::{Descriptor, REGISTERS};

/// `EM_AARCH64` (elf.h).
pub(in crate::sys) const MACHINE: u32 = 183;
/// The vDSO's function (vdso(7)).
pub(in crate::sys) const VDSO_CLOCK: &str = "__kernel_clock_gettime";

// asm-generic/unistd.h.
pub(in crate::sys) const FCNTL: usize = 25;
pub(in crate::sys) const FTRUNCATE: usize = 46;
pub(in crate::sys) const FALLOCATE: usize = 47;
pub(in crate::sys) const OPENAT: usize = 56;
pub(in crate::sys) const CLOSE: usize = 57;
pub(in crate::sys) const PREAD: usize = 67;
pub(in crate::sys) const PWRITE: usize = 68;
pub(in crate::sys) const FSTATAT: usize = 79;
pub(in crate::sys) const CLOCK_GETTIME: usize = 113;
pub(in crate::sys) const SIGPROCMASK: usize = 135;
pub(in crate::sys) const GETPID: usize = 172;
pub(in crate::sys) const GETEUID: usize = 175;
pub(in crate::sys) const GETTID: usize = 178;
pub(in crate::sys) const SOCKET: usize = 198;
pub(in crate::sys) const CONNECT: usize = 203;
pub(in crate::sys) const SETSOCKOPT: usize = 208;
pub(in crate::sys) const GETSOCKOPT: usize = 209;
pub(in crate::sys) const RECVFROM: usize = 207;
pub(in crate::sys) const SENDMSG: usize = 211;
pub(in crate::sys) const MUNMAP: usize = 215;
pub(in crate::sys) const MMAP: usize = 222;
pub(in crate::sys) const MPROTECT: usize = 226;
pub(in crate::sys) const MADVISE: usize = 233;
pub(in crate::sys) const PRLIMIT: usize = 261;
pub(in crate::sys) const PROCESS_VM_READV: usize = 270;
pub(in crate::sys) const MEMFD_CREATE: usize = 279;

/// A system call. Returns `-errno` where it fails.
///
/// # Safety
///
/// The caller keeps the call's contract for these arguments.
pub(in crate::sys) unsafe fn system_call(number: usize, args: [usize; 6]) -> isize {
    let [x0, x1, x2, x3, x4, x5] = args;
    let result;
    // SAFETY: the kernel changes x0 alone, and what the caller answers for.
    unsafe {
        asm!(
            "svc #0",
            in("x8") number, inlateout("x0") x0 => result,
            in("x1") x1, in("x2") x2, in("x3") x3, in("x4") x4, in("x5") x5,
            options(nostack)
        );
    }
    result
}

/// Copies bytes, without memcpy(3), which may be someone else's.
///
/// # Safety
///
/// Both places have that many bytes, and do not overlap.
pub(in crate::sys) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    for index in 0..bytes {
        // SAFETY: the caller answers for this place.
        let byte = unsafe { *from.wrapping_add(index) };
        // SAFETY: and for this one.
        unsafe { *to.wrapping_add(index) = byte };
    }
}

/// A number that is another one each time.
pub(in crate::sys) fn ticks() -> u64 {
    let ticks;
    // SAFETY: Linux lets programs read this register.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    ticks
}

/// Where this library's dynamic section is.
pub(in crate::sys) fn own_dynamic_section() -> usize {
    let address;
    // SAFETY: computes an address.
    unsafe {
        asm!(
            "adrp {address}, _DYNAMIC",
            "add {address}, {address}, :lo12:_DYNAMIC",
            address = out(reg) address,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    address
}

/// Addresses of the variables `_r_debug` of glibc's loader and `_dl_debug_addr` of musl's. 0: the loader has no such
/// variable.
pub(in crate::sys) fn debugger_variables() -> [usize; 2] {
    let (glibc, musl);
    // SAFETY: reads two words of this library that the loader has set.
    unsafe {
        asm!(
            ".weak _r_debug",
            ".weak _dl_debug_addr",
            "adrp {glibc}, :got:_r_debug",
            "ldr {glibc}, [{glibc}, :got_lo12:_r_debug]",
            "adrp {musl}, :got:_dl_debug_addr",
            "ldr {musl}, [{musl}, :got_lo12:_dl_debug_addr]",
            glibc = out(reg) glibc, musl = out(reg) musl,
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    [glibc, musl]
}

global_asm!(
    ".pushsection .tbss, \"awT\", @nobits",
    ".balign {bytes}",
    ".hidden sprof_heap_thread",
    ".type sprof_heap_thread, @object",
    ".size sprof_heap_thread, {bytes}",
    "sprof_heap_thread: .zero {bytes}",
    ".popsection",
    bytes = const THREAD_BYTES,
);

// Names that all entries have without operands.
global_asm!(
    ".set sprof_heap_filter, {filter}",
    ".set sprof_heap_next, {next}",
    ".set sprof_heap_allocator, {allocator}",
    filter = sym FILTER,
    next = sym NEXT,
    allocator = sym ALLOCATOR,
);

/// The thread's [`THREAD_BYTES`], zero in a new thread, and its thread pointer, which lies above its stack unless it is
/// the first thread.
pub(in crate::sys) fn thread_block() -> (*mut u8, usize) {
    let pointer: usize;
    // SAFETY: reads a register.
    unsafe {
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(pure, nomem, nostack, preserves_flags));
    }
    (pointer.wrapping_add_signed(thread_offset()) as *mut u8, pointer)
}

/// Where each thread's [`THREAD_BYTES`] are from its thread pointer.
pub(in crate::sys) fn thread_offset() -> isize {
    let offset;
    // SAFETY: reads a relocated word of this library.
    unsafe {
        asm!(
            "adrp {offset}, :gottprel:sprof_heap_thread",
            "ldr {offset}, [{offset}, :gottprel_lo12:sprof_heap_thread]",
            offset = out(reg) offset,
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    offset
}

/// What [`slow_path`] stores: the call as it was made.
#[repr(C)]
pub(in crate::sys) struct Call {
    x29: u64,
    x30: u64,
    /// x0 to x5.
    pub(in crate::sys) args: [usize; 6],
    x19_to_x28: [u64; 10],
}

impl Call {
    /// The caller's stack pointer.
    pub(in crate::sys) fn stack_pointer(&self) -> usize {
        &raw const *self as usize + size_of::<Call>()
    }

    /// As `wire::REGISTERS` has them.
    pub(in crate::sys) fn registers(&self) -> [u64; REGISTERS] {
        let [x19, x20, x21, x22, x23, x24, x25, x26, x27, x28] = self.x19_to_x28;
        let (pc, sp) = (self.x30, self.stack_pointer() as u64);
        [
            pc, sp, self.x29, x19, x20, x21, x22, x23, x24, x25, x26, x27, x28, 0, 0, 0,
        ]
    }
}

/// Calls [`slow`] with the [`Call`] and the function's [`Descriptor`], whose address is in x16, and returns its result
/// to the caller.
#[unsafe(naked)]
pub(in crate::sys) unsafe extern "C" fn slow_path() {
    naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-144]!",
        ".cfi_def_cfa_offset 144",
        ".cfi_offset x29, -144",
        ".cfi_offset x30, -136",
        "mov x29, sp",
        "stp x0, x1, [sp, #16]",
        "stp x2, x3, [sp, #32]",
        "stp x4, x5, [sp, #48]",
        "stp x19, x20, [sp, #64]",
        "stp x21, x22, [sp, #80]",
        "stp x23, x24, [sp, #96]",
        "stp x25, x26, [sp, #112]",
        "stp x27, x28, [sp, #128]",
        "mov x0, sp",
        "mov x1, x16",
        "bl {slow}",
        "ldp x29, x30, [sp], #144",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "ret",
        ".cfi_endproc",
        slow = sym slow,
    )
}

/// Goes to the slow path where the countdown ends with these bytes, which a register has.
macro_rules! count {
    ($bytes:literal) => {
        concat!(
            "adrp x16, :gottprel:sprof_heap_thread\n",
            "ldr x16, [x16, :gottprel_lo12:sprof_heap_thread]\n",
            "mrs x17, tpidr_el0\n",
            "add x16, x16, x17\n",
            "ldr x17, [x16]\n",
            "subs x17, x17, ",
            $bytes,
            "\nstr x17, [x16]\nb.ls {slow}\nb.mi {slow}"
        )
    };
}

/// Goes to the slow path where the address in x0 may be a sample's.
macro_rules! look_up {
    () => {
        concat!(
            "lsr x16, x0, #6\n",
            "eor x16, x16, x0, lsr #15\n",
            "and x16, x16, #0xffff\n",
            "adrp x17, sprof_heap_filter\n",
            "add x17, x17, :lo12:sprof_heap_filter\n",
            "ldrb w16, [x17, x16]\n",
            "cbnz w16, {slow}"
        )
    };
}

/// The two entries of a function: their names, its index, and what it does before it goes on to `NEXT`. `hint #34` is
/// `bti c`, where an indirect jump may lead to.
macro_rules! entries {
    ($name:ident, $slow:ident, $index:ident, $($line:expr),*) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "hint #34",
                $($line,)*
                "adrp x16, sprof_heap_next + 8 * {index}",
                "ldr x16, [x16, :lo12:sprof_heap_next + 8 * {index}]",
                "br x16",
                ".cfi_endproc",
                slow = sym $slow,
                index = const $index,
            )
        }

        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $slow() {
            naked_asm!(
                "hint #34",
                "adrp x16, sprof_heap_allocator + {bytes} * {index}",
                "add x16, x16, :lo12:sprof_heap_allocator + {bytes} * {index}",
                "b {path}",
                bytes = const size_of::<Descriptor>(),
                index = const $index,
                path = sym slow_path,
            )
        }
    };
}

entries!(malloc, slow_malloc, MALLOC, count!("x0"));
entries!(calloc, slow_calloc, CALLOC, "mul x9, x0, x1", count!("x9"));
entries!(realloc, slow_realloc, REALLOC, count!("x1"), look_up!());
entries!(free, slow_free, FREE, look_up!());
entries!(aligned_alloc, slow_aligned_alloc, ALIGNED_ALLOC, count!("x1"));
entries!(memalign, slow_memalign, MEMALIGN, count!("x1"));
entries!(posix_memalign, slow_posix_memalign, POSIX_MEMALIGN, count!("x2"));
entries!(valloc, slow_valloc, VALLOC, count!("x0"));
entries!(pvalloc, slow_pvalloc, PVALLOC, count!("x0"));
entries!(
    reallocarray,
    slow_reallocarray,
    REALLOCARRAY,
    "mul x9, x1, x2",
    count!("x9"),
    look_up!()
);
