//! Signal return functions, to which signal handlers return.
//!
//! The kernel pushes a frame with all registers, often onto another stack, and lets the handler return into a function
//! that only calls `rt_sigreturn`. To unwind through it, restore the registers from that frame.

use std::ops::RangeInclusive;

use crate::files::cfi::Cfi;
use crate::files::elf::Elf;
use crate::files::file_slice::{FileSlice, read_slice};
use recording::sink::ReadAt;

/// The signal return functions of a file, relative to its base: functions declared as signal frames whose code is
/// known. The declaration alone is not enough: it does not say where the registers are.
pub(crate) fn returns_in(elf: &Elf, file: &dyn ReadAt, cfi: &Cfi, patterns: &[&[u8]]) -> Vec<RangeInclusive<u64>> {
    let mut found = Vec::new();
    for range in cfi.signal_frames() {
        let size = range.end.saturating_sub(range.start).min(64);
        let Some(piece) = elf.rest_from(range.start) else {
            continue;
        };
        let Some(code) = read_slice(
            file,
            FileSlice {
                size: size.min(piece.size),
                ..piece
            },
        ) else {
            continue;
        };
        // The declared range of glibc's starts one byte early, for unwinders that look up the byte before.
        for at in 0..code.len().min(16) {
            if let Some(pattern) = patterns.iter().find(|pattern| code[at..].starts_with(pattern)) {
                let start = range.start.wrapping_add(at as u64).wrapping_sub(elf.base_svma);
                // One past the end is in it: the address of a thread that is inside of the system call.
                found.push(start..=start.saturating_add(pattern.len() as u64));
                break;
            }
        }
    }
    found
}

/// True if `code` begins with a signal return function.
pub(crate) fn is_return_code(code: &[u8], patterns: &[&[u8]]) -> bool {
    patterns.iter().any(|pattern| code.starts_with(pattern))
}

/// True if `code` ends with a signal return function.
pub(crate) fn has_return_code(code: &[u8], patterns: &[&[u8]]) -> bool {
    patterns.iter().any(|pattern| code.ends_with(pattern))
}
