//! The connection to the recorder, at the first sample: a process that allocates little makes none of these calls.

use core::sync::atomic::{
    AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use super::machine::MACHINE;
use super::{system, thread};
use crate::wire::{self, Header, Hello};

/// What the environment says.
pub(super) struct Settings {
    /// As in `wire::VARIABLE`.
    pub(super) interval: AtomicU64,
    pub(super) stack_bytes: AtomicU64,
    pub(super) ring_bytes: AtomicU64,
    pub(super) patch: AtomicU64,
    /// The socket's `sockaddr_un`, and its length.
    pub(super) address: [AtomicU8; ADDRESS_BYTES],
    pub(super) address_bytes: AtomicUsize,
}

/// Family, path, 0.
pub(super) const ADDRESS_BYTES: usize = 2 + wire::MAX_SOCKET_BYTES + 1;

/// The first call of all sets them. A program may write over its environment.
pub(super) static SETTINGS: Settings = Settings {
    interval: AtomicU64::new(0),
    stack_bytes: AtomicU64::new(0),
    ring_bytes: AtomicU64::new(0),
    patch: AtomicU64::new(0),
    address: [const { AtomicU8::new(0) }; ADDRESS_BYTES],
    address_bytes: AtomicUsize::new(0),
};

/// Nothing is known yet.
pub(super) const UNKNOWN: u32 = 0;
/// There was no sample yet.
pub(super) const WAITING: u32 = 1;
/// A thread connects. Samples of the others are lost.
const CONNECTING: u32 = 2;
const CONNECTED: u32 = 3;
/// There will be no sample: nobody wants them, or the connection failed.
pub(super) const OFF: u32 = 4;

/// One of the above.
pub(super) static STATE: AtomicU32 = AtomicU32::new(UNKNOWN);
static MEMORY: AtomicPtr<Header> = AtomicPtr::new(core::ptr::null_mut());

/// The shared memory.
#[derive(Clone, Copy)]
pub(super) struct SharedMemory {
    pub(super) header: &'static Header,
    /// Behind the header's page.
    pub(super) ring: *mut u8,
    pub(super) ring_bytes: u64,
}

/// The memory, if there is a connection.
pub(super) fn memory() -> Option<SharedMemory> {
    if STATE.load(Acquire) != CONNECTED {
        return None;
    }
    let header = MEMORY.load(Relaxed);
    Some(SharedMemory {
        // SAFETY: the state says that it is mapped. Nothing unmaps it, and any bytes are a `Header`.
        header: unsafe { &*header },
        ring: header.cast::<u8>().wrapping_add(wire::RING_OFFSET as usize),
        ring_bytes: SETTINGS.ring_bytes.load(Relaxed),
    })
}

/// The memory, for a sample. `None` where another thread is connecting, or there is no recorder; also in a child of
/// vfork(2): the recorder would take all that its parent writes for that of this process.
pub(super) fn memory_for_sample() -> Option<SharedMemory> {
    if STATE.load(Relaxed) == WAITING && system::process_id() == thread::process_id() {
        // A signal handler that jumped out would leave descriptors, and the state.
        let mask = system::set_signal_mask(u64::MAX);
        if STATE.compare_exchange(WAITING, CONNECTING, AcqRel, Relaxed).is_ok() {
            STATE.store(if connect() { CONNECTED } else { OFF }, Release);
        }
        system::set_signal_mask(mask);
    }
    memory()
}

/// The mean number of bytes between samples.
pub(super) fn interval() -> u64 {
    memory()
        .map_or(&SETTINGS.interval, |memory| &memory.header.interval)
        .load(Relaxed)
}

/// The thread that was connecting is not in the fork.
pub(super) fn reset_in_fork() {
    let _ = STATE.compare_exchange(CONNECTING, WAITING, AcqRel, Relaxed);
}

/// A connection to the recorder.
pub(super) fn open_socket() -> Option<usize> {
    let mut address = [0; ADDRESS_BYTES];
    for (byte, setting) in address.iter_mut().zip(&SETTINGS.address) {
        *byte = setting.load(Relaxed);
    }
    let address = address.get(..SETTINGS.address_bytes.load(Relaxed)).unwrap_or_default();
    system::connect(address, wire::SEND_MS)
}

/// Sends the hello. Returns whether the memory is there.
fn connect() -> bool {
    let Some(socket) = open_socket() else {
        return false;
    };
    let file = system::memory_file();
    let mapped = match file {
        Ok(file) => make_memory(file),
        Err(error) => Err((1, error)),
    };
    let (refused_step, error) = mapped.err().unwrap_or_default();
    let hello = Hello {
        machine: MACHINE,
        pid: thread::process_id(),
        ring_bytes: SETTINGS.ring_bytes.load(Relaxed),
        refused_step,
        error,
    };
    let is_sent = system::send(socket, &hello.to_words(), file.ok().filter(|_| mapped.is_ok()));
    system::close(socket);
    if let Ok(file) = file {
        system::close(file);
    }
    is_sent && mapped.is_ok()
}

/// Gives the file its memory, and maps it. An error is a step of `wire::STEPS` with its error number.
fn make_memory(file: usize) -> Result<(), (u32, u32)> {
    let bytes = wire::memory_bytes(SETTINGS.ring_bytes.load(Relaxed)) as usize;
    system::set_length(file, bytes).map_err(|error| (2, error))?;
    system::allocate_if_counted(file, bytes).map_err(|error| (5, error))?;
    system::seal(file).map_err(|error| (3, error))?;
    let memory = system::map_shared(file, bytes).map_err(|error| (4, error))? as *mut Header;
    // SAFETY: it was just mapped, and zeros are a `Header`.
    let header = unsafe { &*memory };
    header.interval.store(SETTINGS.interval.load(Relaxed), Relaxed);
    header.stack_bytes.store(SETTINGS.stack_bytes.load(Relaxed), Relaxed);
    header.magic.store(wire::MAGIC, Relaxed);
    MEMORY.store(memory, Relaxed);
    Ok(())
}
