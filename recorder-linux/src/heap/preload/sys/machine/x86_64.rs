//! x86_64, by the System V ABI: at a function's entry rax and r11 are free, `[rsp]` is the return address.

use core::arch::{asm, global_asm, naked_asm};
use core::mem::offset_of;

use super::{
    ALIGNED_ALLOC, ALLOCATOR, CALLOC, FREE, MALLOC, MEMALIGN, NEXT, POSIX_MEMALIGN, PVALLOC, REALLOC, REALLOCARRAY,
    THREAD_BYTES, VALLOC,
};
use crate::live::FILTER;
use crate::sys::slow::slow;
use crate::wire::{Descriptor, FREES, REGISTERS};

/// `EM_X86_64` (elf.h).
pub(in crate::sys) const MACHINE: u32 = 62;
/// The vDSO's function (vdso(7)).
pub(in crate::sys) const VDSO_CLOCK: &str = "__vdso_clock_gettime";

// asm/unistd_64.h.
pub(in crate::sys) const CLOSE: usize = 3;
pub(in crate::sys) const MMAP: usize = 9;
pub(in crate::sys) const MPROTECT: usize = 10;
pub(in crate::sys) const MUNMAP: usize = 11;
pub(in crate::sys) const SIGPROCMASK: usize = 14;
pub(in crate::sys) const PREAD: usize = 17;
pub(in crate::sys) const PWRITE: usize = 18;
pub(in crate::sys) const MADVISE: usize = 28;
pub(in crate::sys) const GETPID: usize = 39;
pub(in crate::sys) const SOCKET: usize = 41;
pub(in crate::sys) const CONNECT: usize = 42;
pub(in crate::sys) const RECVFROM: usize = 45;
pub(in crate::sys) const SENDMSG: usize = 46;
pub(in crate::sys) const SETSOCKOPT: usize = 54;
pub(in crate::sys) const GETSOCKOPT: usize = 55;
pub(in crate::sys) const FCNTL: usize = 72;
pub(in crate::sys) const FTRUNCATE: usize = 77;
pub(in crate::sys) const GETEUID: usize = 107;
pub(in crate::sys) const GETTID: usize = 186;
pub(in crate::sys) const CLOCK_GETTIME: usize = 228;
pub(in crate::sys) const OPENAT: usize = 257;
pub(in crate::sys) const FSTATAT: usize = 262;
pub(in crate::sys) const FALLOCATE: usize = 285;
pub(in crate::sys) const PRLIMIT: usize = 302;
pub(in crate::sys) const PROCESS_VM_READV: usize = 310;
pub(in crate::sys) const MEMFD_CREATE: usize = 319;

/// A system call. Returns `-errno` where it fails.
///
/// # Safety
///
/// The caller keeps the call's contract for these arguments.
pub(in crate::sys) unsafe fn system_call(number: usize, args: [usize; 6]) -> isize {
    let [rdi, rsi, rdx, r10, r8, r9] = args;
    let result;
    // SAFETY: the kernel changes rax, rcx and r11 alone, and what the caller answers for.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") rdi, in("rsi") rsi, in("rdx") rdx, in("r10") r10, in("r8") r8, in("r9") r9,
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    result
}

/// Copies bytes, also where memcpy(3) is someone else's.
///
/// # Safety
///
/// Both places have that many bytes, and do not overlap.
pub(in crate::sys) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller answers for both places. The ABI has the direction flag clear.
    unsafe {
        asm!(
            "rep movsb",
            inout("rcx") bytes => _, inout("rsi") from => _, inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
}

/// A number that is another one each time.
pub(in crate::sys) fn ticks() -> u64 {
    // SAFETY: every processor has the instruction; it changes these two registers.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Where this library's dynamic section is.
pub(in crate::sys) fn own_dynamic_section() -> usize {
    let address;
    // SAFETY: computes an address.
    unsafe {
        asm!("lea {}, [rip + _DYNAMIC]", out(reg) address, options(pure, nomem, nostack, preserves_flags));
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
            "mov {glibc}, qword ptr [rip + _r_debug@GOTPCREL]",
            "mov {musl}, qword ptr [rip + _dl_debug_addr@GOTPCREL]",
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

/// The thread's [`THREAD_BYTES`], zero in a new thread, and its thread pointer: the thread's control block, which lies
/// above its stack unless it is the first thread.
pub(in crate::sys) fn thread_block() -> (*mut u8, usize) {
    let pointer: usize;
    // SAFETY: reads the word that the ABI has at fs:0.
    unsafe {
        asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(pure, readonly, nostack, preserves_flags));
    }
    (pointer.wrapping_add_signed(thread_offset()) as *mut u8, pointer)
}

/// Where each thread's [`THREAD_BYTES`] are from its thread pointer.
pub(in crate::sys) fn thread_offset() -> isize {
    let offset;
    // SAFETY: reads a relocated word of this library.
    unsafe {
        asm!(
            "mov {}, qword ptr [rip + sprof_heap_thread@GOTTPOFF]",
            out(reg) offset,
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    offset
}

/// What [`slow_path`] pushes: the call as it was made.
#[repr(C)]
pub(in crate::sys) struct Call {
    /// rdi, rsi, rdx, rcx, r8, r9.
    pub(in crate::sys) args: [usize; 6],
    rbx: u64,
    rbp: u64,
    r12: u64,
    r13: u64,
    r14: u64,
    r15: u64,
    r10: u64,
    r11: u64,
    rax: u64,
    return_address: u64,
}

impl Call {
    /// The caller's stack pointer after the call returns.
    pub(in crate::sys) fn stack_pointer(&self) -> usize {
        &raw const *self as usize + size_of::<Call>()
    }

    /// As `wire::REGISTERS` has them.
    pub(in crate::sys) fn registers(&self) -> [u64; REGISTERS] {
        let (rip, rsp) = (self.return_address, self.stack_pointer() as u64);
        let Call {
            rbx,
            rbp,
            r12,
            r13,
            r14,
            r15,
            ..
        } = *self;
        [rip, rsp, rbp, rbx, r12, r13, r14, r15, 0, 0, 0, 0, 0, 0, 0, 0]
    }
}

/// An instruction for each of the 16 vector registers, with its number between the parts.
macro_rules! vectors {
    ($before:literal, $between:literal, $after:literal) => {
        vectors!(@ $before, $between, $after, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@ $before:literal, $between:literal, $after:literal, $($number:literal)*) => {
        concat!($($before, $number, $between, $number, $after, "\n"),*)
    };
}

/// Calls [`slow`] with the [`Call`] and the function's [`Descriptor`], whose address is in r11, and returns its result
/// to the caller. The caller's rax is in the word below the stack, its r11 in the next one; of a caller in another file
/// both are free.
///
/// All other registers are afterwards as before, and the stack may have any alignment: in the file of a patched
/// function, gcc knows what the function needs and which registers it changes (`-fipa-ra`). rax may be one that a
/// function does not change, if that only frees.
#[unsafe(naked)]
pub(in crate::sys) unsafe extern "C" fn slow_path() {
    naked_asm!(
        ".cfi_startproc",
        "endbr64",
        // Over r11 and rax.
        "lea rsp, [rsp - 16]",
        "push r10",
        "push r15",
        "push r14",
        "push r13",
        "push r12",
        "push rbp",
        "push rbx",
        "push r9",
        "push r8",
        "push rcx",
        "push rdx",
        "push rsi",
        "push rdi",
        // 15 words.
        ".cfi_adjust_cfa_offset 120",
        "mov rdi, rsp",
        "mov rsi, r11",
        "mov rbx, rsp",
        "mov r12, r11",
        // `operator new` may throw: then these registers are of use to the caller.
        ".cfi_def_cfa rbx, 128",
        ".cfi_offset rbx, -80",
        ".cfi_offset r12, -64",
        "sub rsp, 256",
        "and rsp, -16",
        vectors!("movups xmmword ptr [rsp + 16 * ", "], xmm", ""),
        "call {slow}",
        vectors!("movups xmm", ", xmmword ptr [rsp + 16 * ", "]"),
        "cmp byte ptr [r12 + {class}], {frees}",
        "cmove rax, qword ptr [rbx + 112]",
        "mov rsp, rbx",
        ".cfi_def_cfa rsp, 128",
        "mov rbx, qword ptr [rsp + 48]",
        "mov r12, qword ptr [rsp + 64]",
        ".cfi_restore rbx",
        ".cfi_restore r12",
        "mov rdi, qword ptr [rsp]",
        "mov rsi, qword ptr [rsp + 8]",
        "mov rdx, qword ptr [rsp + 16]",
        "mov rcx, qword ptr [rsp + 24]",
        "mov r8, qword ptr [rsp + 32]",
        "mov r9, qword ptr [rsp + 40]",
        "mov r10, qword ptr [rsp + 96]",
        "mov r11, qword ptr [rsp + 104]",
        "lea rsp, [rsp + 120]",
        ".cfi_adjust_cfa_offset -120",
        "ret",
        ".cfi_endproc",
        slow = sym slow,
        class = const offset_of!(Descriptor, class),
        frees = const FREES,
    )
}

/// Goes to the slow path where the countdown ends with these bytes, which a register has.
macro_rules! count {
    ($bytes:literal) => {
        concat!(
            "mov rax, qword ptr [rip + sprof_heap_thread@GOTTPOFF]\n",
            "sub qword ptr fs:[rax], ",
            $bytes,
            "\njbe {slow}\njs {slow}"
        )
    };
}

/// Goes to the slow path where the address in rdi may be a sample's.
macro_rules! look_up {
    () => {
        concat!(
            "mov rax, rdi\n",
            "shr rax, 6\n",
            "mov r11, rdi\n",
            "shr r11, 15\n",
            "xor eax, r11d\n",
            "movzx eax, ax\n",
            "lea r11, [rip + sprof_heap_filter]\n",
            "cmp byte ptr [r11 + rax], 0\n",
            "jne {slow}"
        )
    };
}

/// The two entries of a function: their names, its index, and what it does before it goes on to `NEXT`.
macro_rules! entries {
    ($name:ident, $slow:ident, $index:ident, $($line:expr),*) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "endbr64",
                $($line,)*
                "jmp qword ptr [rip + sprof_heap_next + 8 * {index}]",
                ".cfi_endproc",
                slow = sym $slow,
                index = const $index,
            )
        }

        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $slow() {
            naked_asm!(
                "endbr64",
                "lea r11, [rip + sprof_heap_allocator + {bytes} * {index}]",
                "jmp {path}",
                bytes = const size_of::<Descriptor>(),
                index = const $index,
                path = sym slow_path,
            )
        }
    };
}

entries!(malloc, slow_malloc, MALLOC, count!("rdi"));
entries!(
    calloc,
    slow_calloc,
    CALLOC,
    "mov r11, rdi",
    "imul r11, rsi",
    count!("r11")
);
entries!(realloc, slow_realloc, REALLOC, count!("rsi"), look_up!());
entries!(free, slow_free, FREE, look_up!());
entries!(aligned_alloc, slow_aligned_alloc, ALIGNED_ALLOC, count!("rsi"));
entries!(memalign, slow_memalign, MEMALIGN, count!("rsi"));
entries!(posix_memalign, slow_posix_memalign, POSIX_MEMALIGN, count!("rdx"));
entries!(valloc, slow_valloc, VALLOC, count!("rdi"));
entries!(pvalloc, slow_pvalloc, PVALLOC, count!("rdi"));
entries!(
    reallocarray,
    slow_reallocarray,
    REALLOCARRAY,
    "mov r11, rsi",
    "imul r11, rdx",
    count!("r11"),
    look_up!()
);
