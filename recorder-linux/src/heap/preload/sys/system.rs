//! System calls, by themselves: libc's set `errno`, and other libraries interpose them.

use core::ffi::CStr;
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::machine::{
    CLOCK_GETTIME, CLOSE, CONNECT, FALLOCATE, FCNTL, FSTATAT, FTRUNCATE, GETEUID, GETPID, GETSOCKOPT, GETTID, MADVISE,
    MEMFD_CREATE, MMAP, MPROTECT, MUNMAP, OPENAT, PREAD, PRLIMIT, PROCESS_VM_READV, PWRITE, RECVFROM, SENDMSG,
    SETSOCKOPT, SIGPROCMASK, SOCKET, system_call,
};

/// `EINTR`, `EINVAL` (asm-generic/errno-base.h).
const INTERRUPTED: u32 = 4;
const INVALID: u32 = 22;
/// `CLOCK_MONOTONIC` (time.h).
const MONOTONIC: usize = 1;
/// The smallest page.
const PAGE: usize = 4096;
/// `PROT_READ | PROT_WRITE`.
const READ_WRITE: usize = 3;
/// `PROT_READ | PROT_EXEC`, and with `PROT_WRITE`.
pub(super) const READ_EXECUTE: usize = 5;
pub(super) const READ_WRITE_EXECUTE: usize = 7;

/// The vDSO's `clock_gettime`, or 0.
pub(super) static CLOCK: AtomicUsize = AtomicUsize::new(0);

/// What a system call returned, or the error number.
fn checked(result: isize) -> Result<usize, u32> {
    usize::try_from(result).map_err(|_| result.unsigned_abs() as u32)
}

/// A system call that takes numbers alone, or addresses that the kernel checks and only reads.
fn numbers(number: usize, args: [usize; 6]) -> Result<usize, u32> {
    // SAFETY: the callers, all in this file, pass calls that write nowhere into this process's memory.
    checked(unsafe { system_call(number, args) })
}

/// The process, in its own namespace.
pub(super) fn process_id() -> u32 {
    numbers(GETPID, [0; 6]).unwrap_or_default() as u32
}

/// The thread, in its own namespace.
pub(super) fn thread_id() -> u32 {
    numbers(GETTID, [0; 6]).unwrap_or_default() as u32
}

/// `CLOCK_MONOTONIC`, ns.
pub(super) fn now_ns() -> u64 {
    let mut time = [0u64; 2];
    let clock = CLOCK.load(Relaxed);
    if clock == 0 {
        let to = time.as_mut_ptr() as usize;
        // SAFETY: the kernel writes a timespec, which is two words.
        unsafe { system_call(CLOCK_GETTIME, [MONOTONIC, to, 0, 0, 0, 0]) };
    } else {
        // SAFETY: `CLOCK` is 0, or the address of this function of the vDSO, which stays mapped.
        let clock: extern "C" fn(usize, *mut u64) -> i32 = unsafe { core::mem::transmute(clock) };
        clock(MONOTONIC, time.as_mut_ptr());
    }
    let [seconds, ns] = time;
    seconds.wrapping_mul(1_000_000_000).wrapping_add(ns)
}

/// Blocks these signals, and no others. Returns those that were blocked.
pub(super) fn set_signal_mask(mask: u64) -> u64 {
    const SIG_SETMASK: usize = 2;
    let (mut before, bytes) = (0_u64, size_of::<u64>());
    let (mask, to) = (&raw const mask as usize, &raw mut before as usize);
    // SAFETY: the kernel writes a mask of this length.
    unsafe { system_call(SIGPROCMASK, [SIG_SETMASK, mask, to, bytes, 0, 0]) };
    before
}

pub(super) fn close(file: usize) {
    // Nobody can do anything about an error.
    let _ = numbers(CLOSE, [file, 0, 0, 0, 0, 0]);
}

/// Opens a file for reading, and for writing as well.
pub(super) fn open(path: &CStr, is_written: bool) -> Result<usize, u32> {
    const AT_FDCWD: usize = -100_isize as usize;
    /// `O_CLOEXEC`, `O_RDWR` (asm-generic/fcntl.h).
    const CLOEXEC: usize = 0o2_000_000;
    const RDWR: usize = 2;
    let flags = if is_written { CLOEXEC | RDWR } else { CLOEXEC };
    numbers(OPENAT, [AT_FDCWD, path.as_ptr() as usize, flags, 0, 0, 0])
}

/// Reads words of a file: as many as there is room for, or as the file has.
pub(super) fn read_words<const COUNT: usize>(file: usize, room: &mut MaybeUninit<[u64; COUNT]>, offset: u64) -> &[u64] {
    let (to, bytes) = (room.as_mut_ptr() as usize, size_of::<[u64; COUNT]>());
    // SAFETY: the kernel writes at most that many bytes.
    let read = checked(unsafe { system_call(PREAD, [file, to, bytes, offset as usize, 0, 0]) });
    // SAFETY: it has written these words.
    unsafe { core::slice::from_raw_parts(room.as_ptr().cast(), read.unwrap_or_default() / 8) }
}

/// Writes bytes at an offset of a file. Returns the number of bytes.
pub(super) fn write_bytes(file: usize, bytes: &[u8], offset: usize) -> Result<usize, u32> {
    numbers(PWRITE, [file, bytes.as_ptr() as usize, bytes.len(), offset, 0, 0])
}

/// The number of threads of this process; `None` without /proc.
pub(super) fn threads() -> Option<usize> {
    const AT_FDCWD: usize = -100_isize as usize;
    // A `stat`, which has 144 bytes on x86_64.
    let mut stat = [0_u64; 18];
    let (path, to) = (c"/proc/self/task".as_ptr() as usize, stat.as_mut_ptr() as usize);
    // SAFETY: the kernel writes a `stat`; on aarch64 it is shorter.
    checked(unsafe { system_call(FSTATAT, [AT_FDCWD, path, to, 0, 0, 0]) }).ok()?;
    // Links to a folder: its name, its `.`, and the `..` of each folder in it.
    let [_, _, links, ..] = stat;
    (links as usize).checked_sub(2)
}

/// Maps zeros at this address. `None` if something is there already.
pub(super) fn map_at(address: usize, bytes: usize) -> Option<usize> {
    /// `MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE`. Before Linux 4.17 the last flag is unknown, and the address
    /// a wish.
    const FLAGS: usize = 0x10_0022;
    let mapped = numbers(MMAP, [address, bytes, READ_WRITE, FLAGS, usize::MAX, 0]).ok()?;
    if mapped == address {
        return Some(address);
    }
    unmap(mapped, bytes);
    None
}

/// Unmaps what [`map_at`] has mapped.
pub(super) fn unmap(address: usize, bytes: usize) {
    let _ = numbers(MUNMAP, [address, bytes, 0, 0, 0, 0]);
}

/// Changes what the pages that hold these bytes allow.
pub(super) fn protect(address: usize, bytes: usize, protection: usize) -> Result<usize, u32> {
    let start = address & !(PAGE - 1);
    numbers(MPROTECT, [start, address + bytes - start, protection, 0, 0, 0])
}

/// Reads this process's memory as another one's: an error is no SIGSEGV. Copies from each of `from`, in order, to `to`,
/// as long as the memory is there. Returns the number of bytes.
///
/// # Safety
///
/// `to` has the sum of the lengths of `from`.
pub(super) unsafe fn read_own_memory(pid: u32, from: &[[usize; 2]], to: *mut u8) -> usize {
    let bytes = from.iter().fold(0_usize, |sum, [_, bytes]| sum.saturating_add(*bytes));
    let local = [to as usize, bytes];
    let args = [
        pid as usize,
        local.as_ptr() as usize,
        1,
        from.as_ptr() as usize,
        from.len(),
        0,
    ];
    // SAFETY: the caller has that many bytes at `to`. Both arrays are iovecs: an address, a length.
    checked(unsafe { system_call(PROCESS_VM_READV, args) }).unwrap_or_default()
}

/// A page that is zero in forks, or null.
pub(super) fn map_page_zero_in_forks() -> *mut u8 {
    const MAP_PRIVATE_ANONYMOUS: usize = 0x22;
    const MADV_WIPEONFORK: usize = 18;
    let Ok(page) = numbers(MMAP, [0, PAGE, READ_WRITE, MAP_PRIVATE_ANONYMOUS, usize::MAX, 0]) else {
        return null_mut();
    };
    match numbers(MADVISE, [page, PAGE, MADV_WIPEONFORK, 0, 0, 0]) {
        Ok(_) => page as *mut u8,
        Err(_) => null_mut(),
    }
}

/// A file in memory without a name, which can be sealed.
pub(super) fn memory_file() -> Result<usize, u32> {
    /// `MFD_CLOEXEC | MFD_ALLOW_SEALING`, `MFD_NOEXEC_SEAL` (linux/memfd.h): Linux 6.3 warns without the latter,
    /// earlier ones refuse it.
    const FLAGS: usize = 3;
    const NOEXEC: usize = 8;
    let create = |flags| numbers(MEMFD_CREATE, [c"sprof-heap".as_ptr() as usize, flags, 0, 0, 0, 0]);
    match create(FLAGS | NOEXEC) {
        Err(INVALID) => create(FLAGS),
        result => result,
    }
}

/// Gives the file this length. Its pages come when they are written: to allocate 4 MiB takes 3 ms, and ends a program
/// whose control group has no room for all of it.
pub(super) fn set_length(file: usize, bytes: usize) -> Result<usize, u32> {
    const RLIMIT_FSIZE: usize = 1;
    /// `EFBIG` (asm-generic/errno-base.h).
    const TOO_LARGE: u32 = 27;
    // A soft and a hard limit. Beyond the former, the kernel would also send SIGXFSZ.
    let mut limits = [0_u64; 2];
    let to = limits.as_mut_ptr() as usize;
    // SAFETY: the kernel writes two words.
    checked(unsafe { system_call(PRLIMIT, [0, RLIMIT_FSIZE, 0, to, 0, 0]) })?;
    let [soft_limit, _] = limits;
    if soft_limit < bytes as u64 {
        return Err(TOO_LARGE);
    }
    retry(|| numbers(FTRUNCATE, [file, bytes, 0, 0, 0, 0]))
}

/// Allocates all of a file, if the kernel promises no more memory than there is (`vm.overcommit_memory` is 2 in
/// proc(5)), or that is not known. It may then refuse a page later, which would be SIGBUS. No tmpfs limits a memfd.
pub(super) fn allocate_if_counted(file: usize, bytes: usize) -> Result<usize, u32> {
    let mut mode = 0_u8;
    if let Ok(setting) = open(c"/proc/sys/vm/overcommit_memory", false) {
        let to = &raw mut mode as usize;
        // SAFETY: the kernel writes one byte.
        unsafe { system_call(PREAD, [setting, to, 1, 0, 0, 0]) };
        close(setting);
    }
    match mode {
        b'0' | b'1' => Ok(0),
        _ => retry(|| numbers(FALLOCATE, [file, 0, 0, bytes, 0, 0])),
    }
}

/// Nobody can change the file's length, so its reader can map it.
pub(super) fn seal(file: usize) -> Result<usize, u32> {
    const F_ADD_SEALS: usize = 1033;
    /// `F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW`.
    const SEALS: usize = 7;
    numbers(FCNTL, [file, F_ADD_SEALS, SEALS, 0, 0, 0])
}

/// Maps the file, shared.
pub(super) fn map_shared(file: usize, bytes: usize) -> Result<usize, u32> {
    const MAP_SHARED: usize = 1;
    numbers(MMAP, [0, bytes, READ_WRITE, MAP_SHARED, file, 0])
}

/// A Unix stream socket that is connected to the address in `sockaddr_un`, or `None`. It sends and receives for at most
/// `wait_ms`.
///
/// `None` also where another user listens there than root or the one whom this program runs as: after a recording,
/// anybody can make a socket of that name, and children of the program still connect to it.
pub(super) fn connect(sockaddr_un: &[u8], wait_ms: u32) -> Option<usize> {
    const AF_UNIX: usize = 1;
    /// `SOCK_STREAM | SOCK_CLOEXEC`.
    const STREAM: usize = 0o2_000_001;
    const SOL_SOCKET: usize = 1;
    const SO_PEERCRED: usize = 17;
    const SO_RCVTIMEO: usize = 20;
    const SO_SNDTIMEO: usize = 21;
    let socket = numbers(SOCKET, [AF_UNIX, STREAM, 0, 0, 0, 0]).ok()?;
    // A timeval.
    let time = [(wait_ms / 1000) as usize, (wait_ms % 1000) as usize * 1000];
    let (time, bytes) = (time.as_ptr() as usize, size_of_val(&time));
    let (address, len) = (sockaddr_un.as_ptr() as usize, sockaddr_un.len());
    let limits = [SO_RCVTIMEO, SO_SNDTIMEO];
    let mut limited = limits
        .map(|limit| numbers(SETSOCKOPT, [socket, SOL_SOCKET, limit, time, bytes, 0]))
        .into_iter();
    let is_connected =
        limited.all(|result| result.is_ok()) && retry(|| numbers(CONNECT, [socket, address, len, 0, 0, 0])).is_ok();
    // A ucred: process, user, group of who listens. No user has the number -1.
    let mut listener = [u32::MAX; 3];
    let mut bytes = size_of_val(&listener) as u32;
    let (to, bytes) = (listener.as_mut_ptr() as usize, &raw mut bytes as usize);
    // SAFETY: the kernel writes at most three words, and their length.
    unsafe { system_call(GETSOCKOPT, [socket, SOL_SOCKET, SO_PEERCRED, to, bytes, 0]) };
    let [_, user, _] = listener;
    let is_trusted = user == 0 || numbers(GETEUID, [0; 6]) == Ok(user as usize);
    if !is_connected || !is_trusted {
        close(socket);
        return None;
    }
    Some(socket)
}

/// Sends these words as one message, and a descriptor beside it. Returns whether all went.
pub(super) fn send(socket: usize, words: &[u64], file: Option<usize>) -> bool {
    /// No SIGPIPE.
    const MSG_NOSIGNAL: usize = 0x4000;
    const SOL_SOCKET: u64 = 1;
    const SCM_RIGHTS: u64 = 1;
    /// Length of a cmsghdr with one descriptor, and with its padding (cmsg(3)).
    const ONE_DESCRIPTOR: u64 = 20;
    const PADDED: usize = 24;
    let part = [words.as_ptr() as usize, size_of_val(words)];
    let control = [
        ONE_DESCRIPTOR,
        SOL_SOCKET | SCM_RIGHTS << 32,
        file.unwrap_or_default() as u64,
    ];
    let (control, bytes) = match file {
        Some(_) => (control.as_ptr() as usize, PADDED),
        None => (0, 0),
    };
    // A msghdr: name and its length, parts and their number, control and its length, flags.
    let message = [0, 0, part.as_ptr() as usize, 1, control, bytes, 0];
    let sent = retry(|| numbers(SENDMSG, [socket, message.as_ptr() as usize, MSG_NOSIGNAL, 0, 0, 0]));
    sent == Ok(size_of_val(words))
}

/// Receives words. Returns whether all came in time.
///
/// # Safety
///
/// `to` has that many words.
pub(super) unsafe fn receive(socket: usize, to: *mut u64, words: usize) -> bool {
    const MSG_WAITALL: usize = 0x100;
    let args = [socket, to as usize, 8 * words, MSG_WAITALL, 0, 0];
    // SAFETY: the caller's contract: the kernel writes at most that many words.
    retry(|| checked(unsafe { system_call(RECVFROM, args) })) == Ok(8 * words)
}

fn retry(call: impl Fn() -> Result<usize, u32>) -> Result<usize, u32> {
    loop {
        match call() {
            Err(INTERRUPTED) => {}
            result => return result,
        }
    }
}
