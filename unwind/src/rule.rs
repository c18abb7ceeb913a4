//! What the tables say of an address, in a few bytes. To parse an entry takes a microsecond, and to look it up here some nanoseconds.

use std::num::NonZeroI32;

use gimli::{CfaRule, Register, RegisterRule};

use crate::cfi::{Columns, Row};

/// What the tables say of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Offsets from the stack pointer or the frame pointer.
    Usual(Rule),
    /// A row that [`Cfi::step`](crate::cfi::Cfi::step) follows: expressions, unusual registers.
    Unusual,
    /// The return address is undefined: nothing called this code (`_start`, `clone`).
    Root,
    /// In the function that macOS starts signal handlers with.
    Trampoline,
    /// A row that holds as long as the function has not exchanged the stack pointer for that of another stack.
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
    /// The same of the return address.
    ra: Option<NonZeroI32>,
}

/// The register that a CFA counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    StackPointer,
    FramePointer,
}

impl Rule {
    /// CFA = base + `cfa`; the caller's frame pointer and the return address at offsets from there, if they were stored. `None`: an offset
    /// is larger than any frame.
    pub(crate) fn new(base: Base, cfa: i64, fp: Option<i64>, ra: Option<i64>) -> Option<Rule> {
        let saved = |offset: Option<i64>| match offset {
            Some(offset) => Some(Some(NonZeroI32::new(i32::try_from(offset).ok()?)?)),
            None => Some(None),
        };
        Some(Rule {
            is_from_fp: base == Base::FramePointer,
            cfa: i32::try_from(cfa).ok()?,
            fp: saved(fp)?,
            ra: saved(ra)?,
        })
    }

    /// `None` if the row is unusual. `sp`: the register of the stack pointer.
    pub(crate) fn of(row: &Row, sp: Register, columns: Columns) -> Option<Rule> {
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

    /// At the first instruction of a function, where the CFA is this register plus this: the return address is pushed, or in a register.
    pub(crate) fn at_entry((_, cfa): (Register, i64)) -> Option<Rule> {
        Rule::new(Base::StackPointer, cfa, None, (cfa != 0).then_some(-8))
    }

    /// Where the frame pointer points to the caller's frame pointer and the return address, and nothing of the frame is above.
    pub(crate) fn of_frame_record() -> Option<Rule> {
        Rule::new(Base::FramePointer, 16, Some(-16), Some(-8))
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

/// Remembers the [`Place`] of addresses: a table of fixed size in which a later address displaces an earlier one.
pub(crate) struct Places {
    entries: Box<[Entry]>,
}

#[derive(Clone, Copy)]
struct Entry {
    key: u32,
    place: Option<Place>,
}

impl Places {
    /// Room for four addresses of each function, 1.3 MB at most.
    pub(crate) fn new(functions: usize) -> Self {
        let count = functions.saturating_mul(4).clamp(1 << 8, 1 << 16).next_power_of_two();
        Places {
            entries: vec![Entry { key: 0, place: None }; count].into(),
        }
    }

    /// What is known of an address.
    pub(crate) fn get(&self, key: u32) -> Option<Place> {
        let entry = self.entries.get(self.slot(key))?;
        entry.place.filter(|_| entry.key == key)
    }

    /// Remembers an address.
    pub(crate) fn set(&mut self, key: u32, place: Place) {
        let slot = self.slot(key);
        if let Some(entry) = self.entries.get_mut(slot) {
            let place = Some(place);
            *entry = Entry { key, place };
        }
    }

    /// Fibonacci hashing spreads neighbouring addresses: the upper bits of the product are the well mixed ones.
    fn slot(&self, key: u32) -> usize {
        (u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize & (self.entries.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_takes_20_bytes() {
        assert_eq!(size_of::<Entry>(), 20);
    }

    #[test]
    fn a_later_address_displaces_an_earlier_one() {
        let mut places = Places::new(0);
        for key in 0..1000 {
            assert_eq!(places.get(key), None);
            places.set(key, if key % 2 == 0 { Place::Root } else { Place::Uncovered });
            assert_eq!(
                places.get(key),
                Some(if key % 2 == 0 { Place::Root } else { Place::Uncovered })
            );
        }
        let known = (0..1000).filter(|key| places.get(*key).is_some()).count();
        assert_eq!(known, 256);
    }
}
