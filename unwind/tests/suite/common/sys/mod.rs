//! Reads the registers of the calling thread, and raises signals.

pub mod signals;

use recording::stack::Registers;

/// The registers at a point inside of the calling function.
#[inline(always)]
pub fn registers() -> Registers {
    #[cfg(target_arch = "x86_64")]
    {
        let (ip, sp, bp): (u64, u64, u64);
        // SAFETY: only reads registers into outputs; touches neither memory nor stack.
        unsafe {
            std::arch::asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp", out(reg) ip, out(reg) sp, out(reg) bp,
                options(nomem, nostack, preserves_flags));
        }
        Registers::X86_64 { ip, sp, bp }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let (pc, sp, fp, lr): (u64, u64, u64, u64);
        // SAFETY: only reads registers into outputs; touches neither memory nor stack.
        unsafe {
            std::arch::asm!("adr {}, .", "mov {}, sp", "mov {}, x29", "mov {}, x30",
                out(reg) pc, out(reg) sp, out(reg) fp, out(reg) lr, options(nomem, nostack, preserves_flags));
        }
        Registers::Aarch64 { pc, sp, fp, lr }
    }
}
