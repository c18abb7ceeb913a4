//! The rules of the functions that were sampled. Most leaves are at addresses that no earlier sample had, but nine of
//! ten new addresses are in a function that had one: the entry of a function is parsed once.

use crate::arch::rule::{AddressRule, packed, unpacked};
use crate::files::huge_pages::TableBytes;

/// 8 MiB. All functions are forgotten when there are more: a build of syn samples 11,000 functions of rustc, which have
/// some ten rows each.
const MAX_ROWS: usize = 1 << 20;
/// The bits of a row that hold its end, counted from the function's start. The largest function seen has 1 MiB.
const END_BITS: u32 = 24;
const END_MASK: u64 = (1 << END_BITS) - 1;

/// A function whose rules can't be kept: rustc's `create_and_enter_global_ctxt`, which is in most of its stacks, has a
/// frame of 540 KiB.
const UNUSUAL: u32 = u32::MAX;

/// Rules by function and row.
pub(crate) struct FunctionRules {
    /// By the number of the function, in 4 bytes: where its rows begin, or 0, or [`UNUSUAL`].
    starts: TableBytes,
    /// For each function: the number of its rows, then its rows by address. A row has a rule and its end.
    rows: Vec<u64>,
}

impl FunctionRules {
    /// An empty table for `functions` functions.
    pub(crate) fn new(functions: usize) -> FunctionRules {
        FunctionRules {
            starts: TableBytes::new(functions.saturating_mul(4)),
            rows: vec![0],
        }
    }

    /// Whether a function was [`set`](FunctionRules::set).
    pub(crate) fn has(&self, function: usize) -> bool {
        self.start(function).is_some_and(|start| start != 0)
    }

    /// The rule at an offset in a function. `None`: the function was not set, or its rows could not be kept.
    pub(crate) fn get(&self, function: usize, offset: u64) -> Option<AddressRule> {
        let (count, rows) = self.rows.get(self.start(function)? as usize..)?.split_first()?;
        let rows = rows.get(..*count as usize)?;
        let row = rows.partition_point(|row| row & END_MASK <= offset);
        unpacked(rows.get(row)? >> END_BITS)
    }

    /// The length of a function in bytes. `None`: its rows are not kept.
    pub(crate) fn len(&self, function: usize) -> Option<u64> {
        let (count, rows) = self.rows.get(self.start(function)? as usize..)?.split_first()?;
        let last = rows.get((*count as usize).checked_sub(1)?)?;
        Some(last & END_MASK)
    }

    fn start(&self, function: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(*self.starts.get(function * 4..)?.first_chunk()?))
    }

    /// Keeps a function of this length with its rows: the end of each, and what it says. No row is kept if one has an
    /// unusual offset. Without a length the rows could not all be read.
    pub(crate) fn set(&mut self, function: usize, len: Option<u64>, rows: &[(u64, AddressRule)]) {
        let row = |(end, place): &(u64, AddressRule)| {
            let is_fine = *end <= END_MASK.min(len?);
            is_fine.then_some(packed(*place)? << END_BITS | end)
        };
        let rows = rows.iter().map(row).collect::<Option<Vec<u64>>>();
        let rows = rows.filter(|_| len.is_some());
        if self.rows.len() + rows.as_ref().map_or(0, Vec::len) >= MAX_ROWS {
            *self = FunctionRules::new(self.starts.len() / 4);
        }
        let place = self.starts.get_mut(function * 4..).and_then(<[u8]>::first_chunk_mut);
        let Some(start) = place else { return };
        let Some(rows) = rows else {
            *start = UNUSUAL.to_ne_bytes();
            return;
        };
        *start = (self.rows.len() as u32).to_ne_bytes();
        self.rows.push(rows.len() as u64);
        self.rows.extend(rows);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::arch::rule::{CfaBase, Rule};

    fn usual(cfa: i64) -> AddressRule {
        AddressRule::Usual(Rule::new(CfaBase::StackPointer, cfa, None, Some(-8)).unwrap())
    }

    #[test]
    fn an_address_has_the_rule_of_its_row() {
        let mut rules = FunctionRules::new(3);
        rules.set(
            2,
            Some(100),
            &[(1, usual(8)), (50, usual(16)), (100, AddressRule::Root)],
        );
        rules.set(0, Some(10), &[(10, AddressRule::Unusual)]);
        assert_eq!([0, 1, 2].map(|function| rules.has(function)), [true, false, true]);
        let known = [0, 1, 49, 50, 99, 100].map(|at| rules.get(2, at));
        let wanted = [usual(8), usual(16), usual(16), AddressRule::Root, AddressRule::Root].map(Some);
        assert_eq!((&known[..5], known[5]), (&wanted[..], None));
        let known = [(0, 9), (0, 10), (1, 0), (3, 0)].map(|(function, at)| rules.get(function, at));
        assert_eq!(known, [Some(AddressRule::Unusual), None, None, None]);
    }

    #[test]
    fn what_does_not_fit_is_not_kept() {
        let mut rules = FunctionRules::new(4);
        rules.set(0, Some(8), &[(4, usual(8)), (8, usual(12))]);
        rules.set(1, Some(1 << 25), &[(1 << 25, usual(8))]);
        rules.set(2, Some(8), &[(9, usual(8))]);
        rules.set(3, None, &[]);
        // They are not to be set again.
        assert!((0..4).all(|function| rules.has(function) && rules.get(function, 0).is_none()));
        rules.set(4, Some(8), &[(8, usual(8))]);
        assert!(!rules.has(4));
        // All are forgotten, and later ones are kept.
        for function in [0, 1, 2] {
            rules.set(function, Some(1), &vec![(1, usual(8)); MAX_ROWS / 2 - 10]);
        }
        let known = [0, 1, 2].map(|function| rules.get(function, 0));
        assert_eq!(known, [None, None, Some(usual(8))]);
    }
}
