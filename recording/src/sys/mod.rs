//! Hints to the CPU, and all of this crate's `unsafe`.

/// Has the CPU fetch the cache line of an address, which need not be one of this process's memory. Does nothing on
/// other processors than x86_64, for which the standard library has no stable hint.
#[inline(always)]
pub fn prefetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of x86_64. The instruction reads nothing that a program could see, and no address makes
        // it fault (PREFETCHh in Intel's Software Developer's Manual, volume 2B).
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
