//! Copies stacks of suspended threads, without allocating meanwhile.

use std::ops::Range;

use crate::kernel::Mach;

/// Stack bytes copied at most, as with ptrace.
const STACK_BYTES: usize = 256 << 10;

/// Bytes copied at once. Above this the kernel does not copy the target's pages but shares them, and the target pays
/// for a fault with each page that it writes next: `mach_vm_read_overwrite` copies up to KHEAP_MAX_SIZE
/// (osfmk/vm/vm_map.c).
const PIECE: usize = if cfg!(target_arch = "x86_64") {
    16 << 10
} else {
    32 << 10
};

/// Smallest page: what is readable is so by pages.
const PAGE: u64 = if cfg!(target_arch = "x86_64") {
    4 << 10
} else {
    16 << 10
};

/// The buffer for all stacks.
#[derive(Debug)]
pub(super) struct StackCopy {
    bytes: Box<[u8]>,
}

impl StackCopy {
    pub(super) fn new() -> StackCopy {
        StackCopy {
            bytes: vec![0; STACK_BYTES].into(),
        }
    }

    /// Copies from the stack pointer to the end of the stack's region. Returns how many bytes could be read. `region`
    /// is where the thread's stack was last.
    pub(super) fn copy<M: Mach>(&mut self, mach: &M, task: &M::Task, region: &mut Range<u64>, sp: u64) -> usize {
        // A look-up costs a call, while the thread is suspended. Most threads have one stack for all of their life.
        if !region.contains(&sp) {
            *region = mach
                .region(task, sp)
                .filter(|found| found.contains(&sp))
                .unwrap_or(sp..sp);
        }
        let wanted = usize::try_from(region.end.saturating_sub(sp))
            .unwrap_or(usize::MAX)
            .min(self.bytes.len());
        let mut copied = 0;
        let mut piece = PIECE;
        while copied < wanted {
            let address = sp + copied as u64;
            // The pieces end with pages, so that none crosses the page where readable memory ends.
            let into_page = (address % PAGE) as usize;
            let end = (copied + piece.saturating_sub(into_page)).min(wanted);
            if mach.read(task, address, &mut self.bytes[copied..end]).is_ok() {
                copied = end;
            } else if piece > PAGE as usize {
                // The region has changed since it was looked up. What can be read is still the stack's.
                piece /= 2;
            } else {
                break;
            }
        }
        if copied < wanted {
            *region = 0..0;
        }
        copied
    }

    /// The last copy, which had this length.
    pub(super) fn bytes(&self, len: usize) -> &[u8] {
        &self.bytes[..len]
    }
}
