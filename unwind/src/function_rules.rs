//! The rules of the functions that were sampled. Most leaves are at addresses that no sample was at before, but nine of ten of these are in a
//! function that was: its entry is parsed once.

use crate::large::Large;
use crate::rule::{Place, packed, unpacked};

/// 8 MiB. All functions are forgotten when there are more: a build of syn samples 11,000 functions of rustc, which have some ten rows each.
const MAX_ROWS: usize = 1 << 20;
/// The bits of a row that hold its end, counted from the function's start. The largest function seen has 1 MiB.
const END_BITS: u32 = 24;
const END_MASK: u64 = (1 << END_BITS) - 1;

/// Rules by function and row.
pub(crate) struct FunctionRules {
    /// By the number of the function, in 4 bytes: 0, or where its rows begin.
    starts: Large,
    /// Of each function the number of its rows, then these by address: what the tables say, and where the row ends.
    rows: Vec<u64>,
}

impl FunctionRules {
    /// For so many functions.
    pub(crate) fn new(functions: usize) -> FunctionRules {
        FunctionRules {
            starts: Large::new(functions.saturating_mul(4)),
            rows: vec![0],
        }
    }

    /// Whether the rules of a function are known.
    pub(crate) fn has(&self, function: usize) -> bool {
        self.rows_of(function).is_some()
    }

    /// What is known of the address at this offset in a function.
    pub(crate) fn get(&self, function: usize, offset: u64) -> Option<Place> {
        let rows = self.rows_of(function)?;
        let row = rows.partition_point(|row| row & END_MASK <= offset);
        unpacked(rows.get(row)? >> END_BITS)
    }

    fn rows_of(&self, function: usize) -> Option<&[u64]> {
        let start = u32::from_ne_bytes(*self.starts.get(function * 4..)?.first_chunk()?);
        let (count, rows) = self.rows.get(start as usize..)?.split_first()?;
        rows.get(..*count as usize).filter(|rows| !rows.is_empty())
    }

    /// Keeps a function of this length with its rows: the end of each, and what it says. Nothing is kept if one has an unusual offset.
    pub(crate) fn set(&mut self, function: usize, len: u64, rows: &[(u64, Place)]) {
        let row = |(end, place): &(u64, Place)| {
            let is_fine = *end <= END_MASK.min(len);
            is_fine.then_some(packed(*place)? << END_BITS | end)
        };
        let Some(rows) = rows.iter().map(row).collect::<Option<Vec<u64>>>() else {
            return;
        };
        if self.rows.len() + rows.len() >= MAX_ROWS {
            *self = FunctionRules::new(self.starts.len() / 4);
        }
        let place = self.starts.get_mut(function * 4..).and_then(<[u8]>::first_chunk_mut);
        if let Some(start) = place {
            *start = (self.rows.len() as u32).to_ne_bytes();
            self.rows.push(rows.len() as u64);
            self.rows.extend(rows);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::rule::{Base, Rule};

    fn usual(cfa: i64) -> Place {
        Place::Usual(Rule::new(Base::StackPointer, cfa, None, Some(-8)).unwrap())
    }

    #[test]
    fn an_address_has_the_rule_of_its_row() {
        let mut rules = FunctionRules::new(3);
        rules.set(2, 100, &[(1, usual(8)), (50, usual(16)), (100, Place::Root)]);
        rules.set(0, 10, &[(10, Place::Unusual)]);
        assert_eq!([0, 1, 2].map(|function| rules.has(function)), [true, false, true]);
        let known = [0, 1, 49, 50, 99, 100].map(|at| rules.get(2, at));
        let wanted = [usual(8), usual(16), usual(16), Place::Root, Place::Root].map(Some);
        assert_eq!((&known[..5], known[5]), (&wanted[..], None));
        let known = [(0, 9), (0, 10), (1, 0), (3, 0)].map(|(function, at)| rules.get(function, at));
        assert_eq!(known, [Some(Place::Unusual), None, None, None]);
    }

    #[test]
    fn what_does_not_fit_is_not_kept() {
        let mut rules = FunctionRules::new(3);
        rules.set(0, 8, &[(4, usual(8)), (8, usual(12))]);
        rules.set(1, 1 << 25, &[(1 << 25, usual(8))]);
        rules.set(2, 8, &[(9, usual(8))]);
        rules.set(3, 8, &[(8, usual(8))]);
        assert!((0..4).all(|function| !rules.has(function)));
        // All are forgotten, and later ones are kept.
        for function in [0, 1, 2] {
            rules.set(function, 1, &vec![(1, usual(8)); MAX_ROWS / 2 - 10]);
        }
        let known = [0, 1, 2].map(|function| rules.get(function, 0));
        assert_eq!(known, [None, None, Some(usual(8))]);
    }
}
