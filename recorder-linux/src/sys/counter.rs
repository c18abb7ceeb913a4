//! The processor's counter that programs can read.

/// TSC or CNTVCT_EL0.
pub(crate) fn counter() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: all of x86_64 has the instruction. A process can forbid it to itself (PR_SET_TSC), which sprof does not.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    {
        let count: u64;
        // SAFETY: Linux permits programs to read the register.
        unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags)) };
        count
    }
}
