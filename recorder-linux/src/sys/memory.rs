//! Reading the memory of another process.

/// Reads up to `buffer.len()` bytes at `address` with `process_vm_readv(2)`; returns how many, 0 on any failure.
pub(crate) fn read(pid: i32, address: u64, buffer: &mut [u8]) -> usize {
    let Ok(remote_base) = usize::try_from(address) else {
        return 0;
    };
    let local = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let remote = libc::iovec {
        iov_base: remote_base as *mut libc::c_void,
        iov_len: buffer.len(),
    };
    // SAFETY: `local` describes exactly `buffer`, which is writable for the whole call; `remote` is an address in the
    // other process, which the kernel checks.
    let got = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(got).unwrap_or(0)
}
