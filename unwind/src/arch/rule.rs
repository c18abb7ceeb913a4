//! The rule at an address, in a few bytes. Parsing a table's entry takes a microsecond, a look-up here some
//! nanoseconds.

use std::num::NonZeroI32;

use gimli::{CfaRule, Register, RegisterRule};

use crate::files::cfi::{CfiRow, DwarfColumns};
use crate::files::huge_pages::TableBytes;

/// The rule that a file's tables have for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressRule {
    /// Offsets from the stack pointer or the frame pointer.
    Usual(Rule),
    /// Like `Usual`, at the last byte of a function. A return address behind that byte may be another function's first:
    /// see [`StackWalk`](crate::walk::stack_walk::StackWalk).
    Last(Rule),
    /// A row that [`Cfi::step`](crate::files::cfi::Cfi::step) follows: expressions, unusual registers.
    Unusual,
    /// The return address is undefined: nothing called this code (`_start`, `clone`).
    Root,
    /// In the function that macOS starts signal handlers with.
    Trampoline,
    /// A row that holds until the function switches to another stack.
    SwitchesStack,
    /// No entry: assembly without annotations, padding, or a table that can't be read.
    Uncovered,
}

/// A row of offsets alone, as nearly all are. The CFA is the stack pointer of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// The CFA counts from the frame pointer, and not from the stack pointer.
    is_from_fp: bool,
    cfa: i32,
    /// Where the caller's frame pointer is, from the CFA; `None`: where the callee's is.
    fp: Option<NonZeroI32>,
    /// Where the return address is, from the CFA; `None`: in the register.
    ra: Option<NonZeroI32>,
}

/// The register that a CFA counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CfaBase {
    StackPointer,
    FramePointer,
}

impl Rule {
    /// CFA = base + `cfa`; the caller's frame pointer and the return address at offsets from there, if they were
    /// stored. `None`: an offset is larger than any frame.
    pub(crate) fn new(base: CfaBase, cfa: i64, fp: Option<i64>, ra: Option<i64>) -> Option<Rule> {
        let saved = |offset: Option<i64>| match offset {
            Some(offset) => Some(Some(NonZeroI32::new(i32::try_from(offset).ok()?)?)),
            None => Some(None),
        };
        Some(Rule {
            is_from_fp: base == CfaBase::FramePointer,
            cfa: i32::try_from(cfa).ok()?,
            fp: saved(fp)?,
            ra: saved(ra)?,
        })
    }

    /// `None` if the row is unusual. `sp`: the register of the stack pointer.
    pub(crate) fn from_row(row: &CfiRow, sp: Register, columns: DwarfColumns) -> Option<Rule> {
        let CfaRule::RegisterAndOffset { register, offset } = row.cfa else {
            return None;
        };
        let saved = |rule: &Option<RegisterRule<usize>>| match rule {
            None | Some(RegisterRule::SameValue) => Some(None),
            Some(RegisterRule::Offset(offset)) => Some(Some(NonZeroI32::new(i32::try_from(*offset).ok()?)?)),
            _ => None,
        };
        Some(Rule {
            is_from_fp: match register {
                register if register == columns.fp => true,
                register if register == sp => false,
                _ => return None,
            },
            cfa: i32::try_from(offset).ok()?,
            fp: saved(&row.fp)?,
            ra: saved(&row.ra)?,
        })
    }

    /// The rule at the first instruction of a function, where the CFA is this register plus this offset: the return
    /// address is pushed, or in a register.
    pub(crate) fn at_entry((_, cfa): (Register, i64)) -> Option<Rule> {
        Rule::new(CfaBase::StackPointer, cfa, None, (cfa != 0).then_some(-8))
    }

    /// Where the frame pointer points to the caller's frame pointer and the return address, and nothing of the frame is
    /// above.
    pub(crate) fn from_frame_record() -> Option<Rule> {
        Rule::new(CfaBase::FramePointer, 16, Some(-16), Some(-8))
    }

    /// True if the CFA counts from the stack pointer.
    pub(crate) fn is_from_sp(&self) -> bool {
        !self.is_from_fp
    }

    /// The CFA of a frame with these registers.
    pub(crate) fn cfa(&self, sp: u64, fp: u64) -> u64 {
        let base = if self.is_from_fp { fp } else { sp };
        base.wrapping_add_signed(self.cfa.into())
    }

    /// The address of the caller's frame pointer, if it was stored.
    pub(crate) fn saved_fp(&self, cfa: u64) -> Option<u64> {
        Some(cfa.wrapping_add_signed(self.fp?.get().into()))
    }

    /// The address of the return address, if it was stored.
    pub(crate) fn saved_ra(&self, cfa: u64) -> Option<u64> {
        Some(cfa.wrapping_add_signed(self.ra?.get().into()))
    }
}

/// Remembers the [`AddressRule`] of addresses: a table of fixed size in which a later address displaces an earlier one.
///
/// An entry has 8 bytes, because most look-ups find it in no cache: the upper 40 bits are the place, and the lower ones
/// are the part of the address that its slot does not say.
pub(crate) struct RuleCache {
    /// Entries of 8 bytes each.
    entries: TableBytes,
    slot_bits: u32,
}

/// Bits of an address that an entry has room for.
const TAG_BITS: u32 = 24;
/// The code whose addresses share a cache line, 2 to the power of this in bytes, and the entries in a line of 64 bytes.
const CODE_BITS: u32 = 7;
const LINE_BITS: u32 = 3;

impl RuleCache {
    /// Room for four addresses of each function, 2 MiB at most.
    pub(crate) fn new(functions: usize) -> Self {
        let count = functions
            .saturating_mul(4)
            .clamp(1 << (32 - TAG_BITS), 1 << 18)
            .next_power_of_two();
        RuleCache {
            entries: TableBytes::new(count * 8),
            slot_bits: count.trailing_zeros(),
        }
    }

    /// The rule of an address. `None`: the address was not set, or another one has displaced it.
    #[inline]
    pub(crate) fn get(&self, key: u32) -> Option<AddressRule> {
        let (slot, tag) = self.split(key);
        let entry = u64::from_ne_bytes(*self.entries.get(slot * 8..)?.first_chunk()?);
        if entry as u32 & ((1 << TAG_BITS) - 1) != tag {
            return None;
        }
        unpacked(entry >> TAG_BITS)
    }

    /// Remembers the rule of an address, unless the rule has an unusual offset.
    pub(crate) fn set(&mut self, key: u32, place: AddressRule) {
        let (slot, tag) = self.split(key);
        let entry = self.entries.get_mut(slot * 8..).and_then(<[u8]>::first_chunk_mut);
        if let Some((entry, place)) = entry.zip(packed(place)) {
            *entry = (place << TAG_BITS | u64::from(tag)).to_ne_bytes();
        }
    }

    /// The slot of an address, and the rest of it. The addresses of 128 bytes of code share a cache line: samples of
    /// one function find the rules of each other's callers there. Multiplying by an odd number mixes neighbours, and
    /// merges none.
    fn split(&self, key: u32) -> (usize, u32) {
        let (code, within) = (key >> CODE_BITS, key & ((1 << CODE_BITS) - 1));
        let (line, line_tag) = mixed(code, u32::BITS - CODE_BITS, self.slot_bits - LINE_BITS);
        let (slot, slot_tag) = mixed(within, CODE_BITS, LINE_BITS);
        let slot = (line << LINE_BITS | slot) as usize;
        (slot, line_tag << (CODE_BITS - LINE_BITS) | slot_tag)
    }
}

/// Mixes a number of `bits` bits. Returns its `upper` upper bits, and the other ones.
fn mixed(number: u32, bits: u32, upper: u32) -> (u32, u32) {
    let mixed = number.wrapping_mul(0x9e37_79b9) & ((1 << bits) - 1);
    (mixed >> (bits - upper), mixed & ((1 << (bits - upper)) - 1))
}

/// A place in 40 bits: 3 for what it is (0: nothing), and of a rule 1 for the base, 14 for the CFA and 11 for each of
/// the saved registers, in words of 8 bytes. `None`: an offset is unusual.
pub(crate) fn packed(place: AddressRule) -> Option<u64> {
    let words = |bytes: i32, bits: u32| {
        let words = u64::try_from(bytes).ok()? / 8;
        (bytes % 8 == 0 && words < 1 << bits).then_some(words)
    };
    // Stored below the CFA: 0 is not stored.
    let saved = |offset: Option<NonZeroI32>| match offset {
        None => Some(0),
        Some(offset) => words(offset.get().checked_neg()?, 11),
    };
    Some(match place {
        AddressRule::Usual(rule) | AddressRule::Last(rule) => {
            let offsets = words(rule.cfa, 14)? | saved(rule.fp)? << 14 | saved(rule.ra)? << 25;
            let kind = if matches!(place, AddressRule::Last(_)) { 7 } else { 1 };
            kind | u64::from(rule.is_from_fp) << 3 | offsets << 4
        }
        AddressRule::Unusual => 2,
        AddressRule::Root => 3,
        AddressRule::Trampoline => 4,
        AddressRule::SwitchesStack => 5,
        AddressRule::Uncovered => 6,
    })
}

/// The place of its 40 bits.
#[inline]
pub(crate) fn unpacked(packed: u64) -> Option<AddressRule> {
    let bytes = |shift: u32, bits: u32| (packed >> shift & ((1 << bits) - 1)) as i32 * 8;
    let rule = || Rule {
        is_from_fp: packed >> 3 & 1 == 1,
        cfa: bytes(4, 14),
        fp: NonZeroI32::new(-bytes(18, 11)),
        ra: NonZeroI32::new(-bytes(29, 11)),
    };
    Some(match packed & 7 {
        1 => AddressRule::Usual(rule()),
        7 => AddressRule::Last(rule()),
        2 => AddressRule::Unusual,
        3 => AddressRule::Root,
        4 => AddressRule::Trampoline,
        5 => AddressRule::SwitchesStack,
        6 => AddressRule::Uncovered,
        _ => return None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn a_later_address_displaces_an_earlier_one() {
        let mut places = RuleCache::new(0);
        let place = |key: u32| match key % 2 {
            0 => AddressRule::Root,
            _ => AddressRule::Uncovered,
        };
        let keys = 0..256 << CODE_BITS;
        for key in keys.clone() {
            assert_eq!(places.get(key), None);
            places.set(key, place(key));
            assert_eq!(places.get(key), Some(place(key)));
        }
        let known = keys.filter(|key| places.get(*key).is_some());
        assert_eq!(known.count(), 256);
    }

    #[test]
    fn addresses_with_the_same_slot_are_told_apart() {
        for functions in [0, 1 << 12, 1 << 20] {
            let mut places = RuleCache::new(functions);
            let of_one_slot: Vec<u32> = (0..u32::MAX)
                .step_by(7919)
                .filter(|key| places.split(*key).0 == 3)
                .collect();
            assert!(of_one_slot.len() > 1);
            for key in &of_one_slot {
                places.set(*key, AddressRule::Root);
                let known: Vec<&u32> = of_one_slot.iter().filter(|key| places.get(**key).is_some()).collect();
                assert_eq!(known, [key]);
            }
        }
    }

    #[test]
    fn places_come_back_as_they_went_in_or_not_at_all() {
        let mut places = RuleCache::new(0);
        let rule = |base, cfa, fp, ra| AddressRule::Usual(Rule::new(base, cfa, fp, ra).unwrap());
        let usual = [
            rule(CfaBase::StackPointer, 8, None, Some(-8)),
            rule(CfaBase::FramePointer, 16, Some(-16), Some(-8)),
            rule(CfaBase::StackPointer, 0, None, None),
            rule(
                CfaBase::StackPointer,
                (1 << 17) - 8,
                Some(-(1 << 14) + 8),
                Some(-(1 << 14) + 8),
            ),
            AddressRule::Unusual,
            AddressRule::Root,
            AddressRule::Trampoline,
            AddressRule::SwitchesStack,
            AddressRule::Uncovered,
        ];
        for (key, place) in (0..).zip(usual) {
            places.set(key, place);
            assert_eq!(places.get(key), Some(place));
        }
        let unusual = [
            rule(CfaBase::StackPointer, 1 << 17, None, Some(-8)),
            rule(CfaBase::StackPointer, -8, None, Some(-8)),
            rule(CfaBase::StackPointer, 12, None, Some(-8)),
            rule(CfaBase::StackPointer, 16, Some(8), Some(-8)),
            rule(CfaBase::StackPointer, 16, Some(-(1 << 14)), Some(-8)),
            rule(CfaBase::StackPointer, 16, None, Some(-4)),
            rule(CfaBase::StackPointer, 16, None, Some(i64::from(i32::MIN))),
        ];
        for (key, place) in (100..).zip(unusual) {
            places.set(key, place);
            assert_eq!(places.get(key), None);
        }
    }
}
