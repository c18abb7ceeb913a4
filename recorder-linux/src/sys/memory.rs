//! Reading the memory of another process.

use std::io::IoSliceMut;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

/// Reads up to `buffer.len()` bytes at `address` with `process_vm_readv(2)`; returns how many, 0 on any failure.
pub(crate) fn read(pid: i32, address: u64, buffer: &mut [u8]) -> usize {
    let Ok(base) = usize::try_from(address) else {
        return 0;
    };
    let len = buffer.len();
    let local = &mut [IoSliceMut::new(buffer)];
    process_vm_readv(Pid::from_raw(pid), local, &[RemoteIoVec { base, len }]).unwrap_or(0)
}
