//! Compact entries of aarch64.

use crate::arch::CompactRule;
use crate::arch::rule::{CfaBase, Rule};

/// `<mach-o/compact_unwind_encoding.h>`
const UNWIND_ARM64_MODE_MASK: u32 = 0x0f00_0000;
const UNWIND_ARM64_MODE_FRAMELESS: u32 = 0x0200_0000;
const UNWIND_ARM64_MODE_DWARF: u32 = 0x0300_0000;
const UNWIND_ARM64_MODE_FRAME: u32 = 0x0400_0000;

/// What an entry says.
pub(crate) fn rule(encoding: u32) -> CompactRule {
    let rule = match encoding & UNWIND_ARM64_MODE_MASK {
        UNWIND_ARM64_MODE_FRAME => Rule::from_frame_record(),
        UNWIND_ARM64_MODE_FRAMELESS => Rule::new(
            CfaBase::StackPointer,
            i64::from(encoding >> 12 & 0xfff) * 16,
            None,
            None,
        ),
        UNWIND_ARM64_MODE_DWARF => return CompactRule::Dwarf,
        _ => None,
    };
    rule.map_or(CompactRule::None, CompactRule::Rule)
}
