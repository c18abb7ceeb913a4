//! The calls of libc that the standard library does not have, which is linked to it anyway.

use core::ffi::{c_int, c_long, c_void};
use core::mem::{size_of, size_of_val, ManuallyDrop};
use core::ptr::{null_mut, NonNull};
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::fs::File;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;

use crate::format::{MOST_SLOTS, NAME, OFF, RINGS_AT, RING_WORDS, SLOT_WORDS, UNSET};

/// Control words, slots and texts.
pub(super) type Head = [AtomicU64; RINGS_AT / 8];
pub(super) type Ring = [AtomicU64; RING_WORDS];
pub(super) type Slot = [AtomicU64; SLOT_WORDS];

static NOT_SET: AtomicU64 = AtomicU64::new(UNSET);
static GIVEN_UP: AtomicU64 = AtomicU64::new(OFF);
/// What each span looks at. It always points to a word that stays.
static STATE: AtomicPtr<AtomicU64> = AtomicPtr::new((&NOT_SET as *const AtomicU64).cast_mut());
/// The memory, also of the parent in a fork; null before there is one.
static HEAD: AtomicPtr<Head> = AtomicPtr::new(null_mut());
static OWN: AtomicPtr<Own> = AtomicPtr::new(null_mut());

/// What is of this process alone: the kernel gives a fork zeros in its place.
#[repr(C)]
pub(super) struct Own {
    /// 0 before anything is made.
    pub(super) progress: AtomicU64,
    /// How many rings the memory has. The memory says so to sprof, and may say anything after that.
    pub(super) slots: AtomicUsize,
    descriptor: AtomicI32,
    /// Device and inode of the memory.
    file: [AtomicU64; 2],
    head: AtomicPtr<Head>,
    rings: [AtomicPtr<Ring>; MOST_SLOTS],
}

const PROT_READ: c_int = 1;
const PROT_WRITE: c_int = 2;
const PROT_EXEC: c_int = 4;
const MAP_SHARED: c_int = 1;
const MAP_PRIVATE: c_int = 2;
const MAP_ANONYMOUS: c_int = 0x20;
const MADV_DONTFORK: c_int = 10;
const MADV_DONTDUMP: c_int = 16;
const MADV_WIPEONFORK: c_int = 18;
const MFD_CLOEXEC: c_long = 1;
const MFD_ALLOW_SEALING: c_long = 2;
const MFD_NOEXEC_SEAL: c_long = 8;
const F_DUPFD_CLOEXEC: c_int = 1030;
const F_ADD_SEALS: c_int = 1033;
const F_SEAL_SHRINK: c_int = 2;
const F_SEAL_GROW: c_int = 4;
const RLIMIT_FSIZE: c_int = 1;
const CLOCK_MONOTONIC: c_int = 1;
const SOL_SOCKET: c_int = 1;
const SO_PEERCRED: c_int = 17;
const SCM_RIGHTS: c_int = 1;
const MSG_NOSIGNAL: c_int = 0x4000;
/// Older C libraries lack this call, and the next.
const SYS_GETTID: c_long = if cfg!(target_arch = "x86_64") { 186 } else { 178 };
const SYS_MEMFD_CREATE: c_long = if cfg!(target_arch = "x86_64") { 319 } else { 279 };
/// Programs may use many descriptors by number, from the lowest on.
const LEAST_DESCRIPTOR: c_int = 100;
/// A page, or several.
const CODE_BYTES: usize = 64 << 10;

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: c_long,
}

#[repr(C)]
struct IoSlice {
    start: *const c_void,
    bytes: usize,
}

#[repr(C)]
struct Message {
    name: *mut c_void,
    name_bytes: u32,
    slices: *const IoSlice,
    slice_count: usize,
    control: *const c_void,
    control_bytes: usize,
    flags: c_int,
}

/// A control message with one descriptor.
#[repr(C, align(8))]
struct Rights {
    bytes: usize,
    level: c_int,
    kind: c_int,
    descriptor: c_int,
}

extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
    fn mmap(address: *mut c_void, bytes: usize, protection: c_int, flags: c_int, fd: c_int, offset: i64)
        -> *mut c_void;
    fn munmap(address: *mut c_void, bytes: usize) -> c_int;
    fn madvise(address: *mut c_void, bytes: usize, advice: c_int) -> c_int;
    fn ftruncate(fd: c_int, bytes: i64) -> c_int;
    fn fcntl(fd: c_int, command: c_int, ...) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn getrlimit(resource: c_int, limits: *mut [u64; 2]) -> c_int;
    fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, bytes: *mut u32) -> c_int;
    fn sendmsg(fd: c_int, message: *const Message, flags: c_int) -> isize;
    fn geteuid() -> u32;
}

/// What spans look at first.
#[inline]
pub(super) fn state() -> u64 {
    // SAFETY: it points to a static, or to memory that is never unmapped.
    unsafe { (*STATE.load(Ordering::Relaxed)).load(Ordering::Relaxed) }
}

pub(super) fn publish(head: &'static Head) {
    HEAD.store((head as *const Head).cast_mut(), Ordering::Release);
    STATE.store((&head[0] as *const AtomicU64).cast_mut(), Ordering::Release);
}

/// From now on nothing is recorded.
pub(super) fn give_up() {
    STATE.store((&GIVEN_UP as *const AtomicU64).cast_mut(), Ordering::Release);
}

/// The memory of this process, or of its parent in a fork.
pub(super) fn published() -> Option<&'static Head> {
    at(&HEAD)
}

/// What is of this process alone.
pub(super) fn own() -> Option<&'static Own> {
    if let Some(own) = at(&OWN) {
        return Some(own);
    }
    let made = map(
        size_of::<Own>(),
        PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS,
        -1,
        0,
    )?
    .cast::<Own>();
    // Without that a fork would write into the rings of its parent.
    let is_wiped = advise(made.cast(), size_of::<Own>(), MADV_WIPEONFORK);
    let is_first = || OWN.compare_exchange(null_mut(), made.as_ptr(), Ordering::AcqRel, Ordering::Acquire);
    if !is_wiped || is_first().is_err() {
        // SAFETY: nobody else knows of it.
        unsafe { munmap(made.as_ptr().cast(), size_of::<Own>()) };
    }
    at(&OWN)
}

/// What one of the pointers above points to.
fn at<T>(pointer: &AtomicPtr<T>) -> Option<&'static T> {
    // SAFETY: the pointer is null, or that of a mapping of this size, which is never unmapped. All of `T` is atomic,
    // and any bytes are valid.
    unsafe { pointer.load(Ordering::Acquire).as_ref() }
}

fn map(bytes: usize, protection: c_int, flags: c_int, fd: c_int, offset: usize) -> Option<NonNull<c_void>> {
    // SAFETY: the kernel chooses a place where nothing is.
    let address = unsafe { mmap(null_mut(), bytes, protection, flags, fd, offset as i64) };
    NonNull::new(address).filter(|address| address.as_ptr() as isize != -1)
}

fn advise(start: NonNull<c_void>, bytes: usize, advice: c_int) -> bool {
    // SAFETY: it is a mapping of this module, and none of the advices changes what this process sees.
    unsafe { madvise(start.as_ptr(), bytes, advice) == 0 }
}

impl Own {
    pub(super) fn head(&self) -> Option<&'static Head> {
        at(&self.head)
    }

    /// Makes memory of this length, with the mapping by which it is found. Also returns its descriptor.
    pub(super) fn make_head(&self, bytes: u64) -> Option<(&'static Head, c_int)> {
        let descriptor = memory(bytes)?;
        self.descriptor.store(descriptor, Ordering::Relaxed);
        let of_file = self.file.iter().zip(file_of(descriptor)?);
        of_file.for_each(|(known, number)| known.store(number, Ordering::Relaxed));
        let head = map(size_of::<Head>(), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)?;
        self.head.store(head.as_ptr().cast(), Ordering::Release);
        map(
            CODE_BYTES,
            PROT_READ | PROT_EXEC,
            MAP_PRIVATE,
            descriptor,
            RINGS_AT - CODE_BYTES,
        );
        Some((self.head()?, descriptor))
    }

    /// The ring of a slot.
    pub(super) fn ring(&self, index: usize) -> Option<&'static Ring> {
        let known = self.rings.get(index)?;
        if known.load(Ordering::Acquire).is_null() {
            let (bytes, descriptor) = (size_of::<Ring>(), self.descriptor.load(Ordering::Relaxed));
            let offset = RINGS_AT + index * bytes;
            let ring = map(bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, offset)?;
            // A program may close all descriptors, and get their numbers for its own files.
            if file_of(descriptor) != Some(self.file.each_ref().map(|number| number.load(Ordering::Relaxed))) {
                // SAFETY: nobody else knows of it.
                unsafe { munmap(ring.as_ptr(), bytes) };
                return None;
            }
            advise(ring, bytes, MADV_DONTFORK);
            advise(ring, bytes, MADV_DONTDUMP);
            known.store(ring.as_ptr().cast(), Ordering::Release);
        }
        at(known)
    }
}

/// Device and inode of the file that has this number now.
fn file_of(descriptor: c_int) -> Option<[u64; 2]> {
    // SAFETY: it is looked at, and not closed.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) });
    let metadata = file.metadata().ok()?;
    Some([metadata.dev(), metadata.ino()])
}

/// A memfd of this length, which keeps it.
fn memory(bytes: u64) -> Option<c_int> {
    let mut name = [0; NAME.len() + 1];
    name[..NAME.len()].copy_from_slice(NAME.as_bytes());
    // Kernels before 6.3 refuse the last flag, and later ones warn where it is missing.
    let made = [MFD_NOEXEC_SEAL, 0].into_iter().find_map(|flag| {
        // SAFETY: the name ends with a zero.
        let made = unsafe { syscall(SYS_MEMFD_CREATE, name.as_ptr(), MFD_CLOEXEC | MFD_ALLOW_SEALING | flag) };
        c_int::try_from(made).ok().filter(|made| *made >= 0)
    })?;
    // SAFETY: the descriptor was made above.
    let moved = unsafe { fcntl(made, F_DUPFD_CLOEXEC, LEAST_DESCRIPTOR) };
    let descriptor = if moved < 0 {
        made
    } else {
        // SAFETY: nobody else has its number.
        unsafe { close(made) };
        moved
    };
    // SAFETY: as above.
    let has_length = unsafe { ftruncate(descriptor, bytes as i64) } == 0;
    // SAFETY: as above.
    let is_sealed = unsafe { fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) } == 0;
    (has_length && is_sealed).then_some(descriptor)
}

/// How long a file of this process can be, bytes. The kernel ends programs that make a longer one (SIGXFSZ).
pub(super) fn file_limit() -> u64 {
    let mut limits = [0; 2];
    // SAFETY: it has room for a `struct rlimit`.
    unsafe { getrlimit(RLIMIT_FSIZE, &mut limits) };
    limits[0]
}

pub(super) fn thread_id() -> u32 {
    // SAFETY: it has no arguments.
    unsafe { syscall(SYS_GETTID) as u32 }
}

/// ns of CLOCK_MONOTONIC.
pub(super) fn monotonic() -> u64 {
    let mut time = Timespec {
        seconds: 0,
        nanoseconds: 0,
    };
    // SAFETY: it has room for a `struct timespec`.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &mut time) };
    time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64
}

/// The counter of the processor that the kernel's clock is made of.
#[inline]
pub(super) fn counter() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86_64 has it, and sprof asks for it only where the kernel's own clock uses it in programs.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    {
        let count: u64;
        // SAFETY: the same.
        unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags)) };
        count
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    monotonic()
}

/// True if root or this process's user listens there.
pub(super) fn is_ours_or_root(stream: &UnixStream) -> bool {
    let mut peer = [0u32; 3];
    let mut bytes = size_of_val(&peer) as u32;
    // SAFETY: it has room for a `struct ucred`: process, user, group.
    let result = unsafe {
        getsockopt(
            stream.as_raw_fd(),
            SOL_SOCKET,
            SO_PEERCRED,
            peer.as_mut_ptr().cast(),
            &mut bytes,
        )
    };
    // SAFETY: it has no arguments.
    result == 0 && (peer[1] == 0 || peer[1] == unsafe { geteuid() })
}

/// Sends a message, and a descriptor beside it.
pub(super) fn send(stream: &UnixStream, words: &[u64; 8], descriptor: c_int) -> Option<()> {
    let bytes = core::mem::offset_of!(Rights, descriptor) + size_of::<c_int>();
    let rights = Rights {
        bytes,
        level: SOL_SOCKET,
        kind: SCM_RIGHTS,
        descriptor,
    };
    let slice = IoSlice {
        start: words.as_ptr().cast(),
        bytes: size_of_val(words),
    };
    let message = Message {
        name: null_mut(),
        name_bytes: 0,
        slices: &slice,
        slice_count: 1,
        control: (&raw const rights).cast(),
        control_bytes: size_of::<Rights>(),
        flags: 0,
    };
    // SAFETY: the message points to values that live, with their lengths.
    let sent = unsafe { sendmsg(stream.as_raw_fd(), &message, MSG_NOSIGNAL) };
    (sent == size_of_val(words) as isize).then_some(())
}
