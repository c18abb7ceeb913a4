//! Makes reads of mapped files that were cut short return zeros.
//!
//! A read of a page beyond the end of a mapped file raises SIGBUS (mmap(2)), which would end a recorder before it saves
//! its recording. The handler maps zeros there, and marks the mapping as cut. The owner of the mapping then drops what
//! was read. All other faults go to the previous handler of SIGBUS.

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use nix::errno::Errno;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};

/// An address range that the handler knows. It is never freed, because the handler may read it at any time; a released
/// guard is used for the next mapping.
pub(super) struct MappingGuard {
    /// Start address; 0 if the guard is free, [`TAKEN`] while it is prepared.
    start: AtomicUsize,
    end: AtomicUsize,
    is_cut: AtomicBool,
    next: AtomicPtr<MappingGuard>,
}

/// No address: page 0 is never mapped.
const TAKEN: usize = 1;

static GUARDS: AtomicPtr<MappingGuard> = AtomicPtr::new(ptr::null_mut());
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(0);
/// The previous handler of SIGBUS.
static BEFORE: OnceLock<SigAction> = OnceLock::new();

impl MappingGuard {
    /// Guards a mapping of the caller that begins on a page. The caller must call [`MappingGuard::release`] before
    /// unmapping.
    pub(super) fn new(mapped: &[u8]) -> &'static MappingGuard {
        install();
        let guard = free_one();
        guard.is_cut.store(false, Ordering::Relaxed);
        let start = mapped.as_ptr() as usize;
        guard.end.store(start + mapped.len(), Ordering::Release);
        guard.start.store(start, Ordering::Release);
        guard
    }

    /// True if a read met the end of the file: the bytes may be zeros.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Acquire)
    }

    pub(super) fn release(&self) {
        self.start.store(0, Ordering::Release);
    }

    /// The end of the mapping, if the address is in it.
    fn end_of(&self, address: usize) -> Option<usize> {
        let start = self.start.load(Ordering::Acquire);
        let end = self.end.load(Ordering::Acquire);
        // Read again: another thread may have used this guard for another mapping meanwhile.
        let is_same = self.start.load(Ordering::Acquire) == start;
        (is_same && start > TAKEN && (start..end).contains(&address)).then_some(end)
    }
}

/// All guards, free ones included.
fn all() -> impl Iterator<Item = &'static MappingGuard> {
    // SAFETY: the pointer is null, or one that `free_one` made of a leaked box: it is never freed, and shared from then
    // on.
    let first = unsafe { GUARDS.load(Ordering::Acquire).as_ref() };
    // SAFETY: `next` is null, or what `GUARDS` was before: a guard in a leaked box, which is never freed.
    std::iter::successors(first, |guard| unsafe { guard.next.load(Ordering::Acquire).as_ref() })
}

fn free_one() -> &'static MappingGuard {
    let take = |guard: &&MappingGuard| {
        (guard.start)
            .compare_exchange(0, TAKEN, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    };
    if let Some(free) = all().find(take) {
        return free;
    }
    let guard: &'static MappingGuard = Box::leak(Box::new(MappingGuard {
        start: AtomicUsize::new(TAKEN),
        end: AtomicUsize::new(0),
        is_cut: AtomicBool::new(false),
        next: AtomicPtr::new(ptr::null_mut()),
    }));
    let mut first = GUARDS.load(Ordering::Acquire);
    loop {
        guard.next.store(first, Ordering::Release);
        // Only ever read through: all fields that change are atomic.
        let new = ptr::from_ref(guard).cast_mut();
        match GUARDS.compare_exchange(first, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return guard,
            Err(now) => first = now,
        }
    }
}

/// The default action.
fn default_action() -> SigAction {
    SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty())
}

/// Sets the handler, once for the process.
fn install() {
    BEFORE.get_or_init(|| {
        PAGE_BYTES.store(rustix::param::page_size(), Ordering::Release);
        // On the alternate stack, where the thread has one.
        let action = SigAction::new(SigHandler::SigAction(handler), SaFlags::SA_ONSTACK, SigSet::empty());
        // SAFETY: the handler does only what signal handlers may: atomics of statics, errno, mmap, sigemptyset,
        // sigaction, raise.
        let before = unsafe { sigaction(Signal::SIGBUS, &action) };
        before.unwrap_or_else(|_| default_action())
    });
}

extern "C" fn handler(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the kernel hands over a siginfo_t that is valid until the handler returns.
    let info = unsafe { &*info };
    // SAFETY: for SIGBUS of the kernel's own (si_code above 0) si_addr is set, to the address that was read; else it is
    // not used.
    let address = unsafe { info.si_addr() } as usize;
    let is_fault = info.si_code > 0;
    if is_fault && all().any(|guard| fill(guard, address)) {
        return;
    }
    // Not set only if the signal comes within `install`.
    let default = default_action();
    let before = BEFORE.get().unwrap_or(&default);
    // SAFETY: `before` is what sigaction itself returned, or the default. A fault comes again when this handler
    // returns, and then goes there.
    let _ = unsafe { sigaction(Signal::SIGBUS, before) };
    if !is_fault {
        // A signal that was sent does not come again by itself.
        let _ = raise(Signal::SIGBUS);
    }
}

/// Maps zeros from the page of this address to the end of its mapping. In one piece: a piece for each page could exceed
/// the number of mappings that a process may have (`vm.max_map_count`).
fn fill(guard: &MappingGuard, address: usize) -> bool {
    let Some(end) = guard.end_of(address) else { return false };
    let page_bytes = PAGE_BYTES.load(Ordering::Acquire);
    let start = address & !(page_bytes - 1);
    // Before the zeros can be read.
    guard.is_cut.store(true, Ordering::Release);
    let (protection, flags) = (
        libc::PROT_READ,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
    );
    // The interrupted code may be about to read its own.
    let errno = Errno::last_raw();
    // SAFETY: the range is a part of a mapping that its owner keeps until `release`, and the owner is reading it right
    // now, in this thread: no other mapping can be there. It stays readable, and never was more than that. mmap is a
    // plain system call that takes no lock of this process.
    let mapped = unsafe { libc::mmap(start as *mut libc::c_void, end - start, protection, flags, -1, 0) };
    Errno::set_raw(errno);
    mapped != libc::MAP_FAILED
}
