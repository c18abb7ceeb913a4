//! Address ranges: of units, functions and inlined calls.

use gimli::{AttributeValue, UnitRef};

use super::budget::{Budget, Flaw};
use super::store::Slice;

/// The attributes of an entry with its address ranges.
#[derive(Default)]
pub(super) struct RangeAttributes<'a> {
    low: Option<AttributeValue<Slice<'a>>>,
    high: Option<AttributeValue<Slice<'a>>>,
    list: Option<AttributeValue<Slice<'a>>>,
}

impl<'a> RangeAttributes<'a> {
    /// Keeps the attribute if it is about ranges.
    pub(super) fn note(&mut self, attribute: &gimli::Attribute<Slice<'a>>) {
        let slot = match attribute.name() {
            gimli::DW_AT_low_pc => &mut self.low,
            gimli::DW_AT_high_pc => &mut self.high,
            gimli::DW_AT_ranges => &mut self.list,
            _ => return,
        };
        *slot = Some(attribute.value());
    }

    /// Calls `each` with each range [begin, end); declarations and code that the linker dropped have none.
    pub(super) fn for_each(
        &self,
        unit: UnitRef<'_, Slice<'a>>,
        budget: &mut Budget,
        mut each: impl FnMut(u64, u64),
    ) -> Result<(), Flaw> {
        let lowest_code = budget.lowest_code();
        let mut give = |begin: u64, end: u64| {
            // Linkers set the addresses of dropped functions to 0 or close to u64::MAX.
            if (lowest_code..end).contains(&begin) {
                each(begin, end);
            }
        };
        if let Some(list) = &self.list {
            if let Some(offset) = unit.attr_ranges_offset(*list)? {
                let mut ranges = unit.ranges(offset)?;
                while let Some(range) = ranges.next()? {
                    budget.keep(1)?;
                    give(range.begin, range.end);
                }
            }
            return Ok(());
        }
        let Some(low) = self.low else { return Ok(()) };
        let Some(begin) = unit.attr_address(low)? else {
            return Ok(());
        };
        match self.high {
            Some(AttributeValue::Udata(size)) => give(begin, begin.wrapping_add(size)),
            Some(high) => {
                if let Some(end) = unit.attr_address(high)? {
                    give(begin, end);
                }
            }
            None => {}
        }
        Ok(())
    }
}

/// An address range of something.
#[derive(Clone, Copy, Debug)]
pub(super) struct RangeOf<T> {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) what: T,
}

/// Ranges by address, which may overlap and nest.
#[derive(Debug)]
pub(super) struct RangeMap<T> {
    ranges: Vec<RangeOf<T>>,
    /// Greatest end of all ranges up to and including this one. A look-up going back stops at it.
    reach: Vec<u64>,
}

/// Ranges that a look-up visits at most. More ranges overlap only in damaged debug info.
const MAX_VISITED: usize = 64;

impl<T: Copy> RangeMap<T> {
    pub(super) fn new(ranges: Vec<RangeOf<T>>) -> RangeMap<T> {
        let mut map = RangeMap {
            ranges: Vec::new(),
            reach: Vec::new(),
        };
        map.extend(ranges);
        map
    }

    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    pub(super) fn extend(&mut self, new: Vec<RangeOf<T>>) {
        if new.is_empty() {
            return;
        }
        self.ranges.extend(new);
        // Of ranges with the same start the inner one is last, and is found first.
        self.ranges
            .sort_by_key(|range| (range.begin, std::cmp::Reverse(range.end)));
        let reach = self.ranges.iter().scan(0, |reach, range| {
            *reach = range.end.max(*reach);
            Some(*reach)
        });
        self.reach = reach.collect();
    }

    /// All ranges, by address.
    pub(super) fn all(&self) -> impl Iterator<Item = RangeOf<T>> {
        self.ranges.iter().copied()
    }

    /// The ranges that begin next before and behind the address.
    pub(super) fn around(&self, address: u64) -> [Option<RangeOf<T>>; 2] {
        let after = self.ranges.partition_point(|range| range.begin <= address);
        [after.checked_sub(1), Some(after)].map(|at| self.ranges.get(at?).copied())
    }

    /// The ranges that hold the address, innermost first.
    pub(super) fn find(&self, address: u64) -> impl Iterator<Item = RangeOf<T>> {
        let after = self.ranges.partition_point(|range| range.begin <= address);
        self.ranges[..after]
            .iter()
            .zip(&self.reach[..after])
            .rev()
            .take(MAX_VISITED)
            .take_while(move |(_, reach)| **reach > address)
            .map(|(range, _)| *range)
            .filter(move |range| address < range.end)
    }
}

#[cfg(test)]
mod tests {
    use super::{RangeMap, RangeOf};

    #[test]
    fn nested_and_overlapping_ranges_are_found_innermost_first() {
        let range = |begin, end, what| RangeOf { begin, end, what };
        let map = RangeMap::new(vec![
            range(10, 100, "outer"),
            range(20, 30, "inner"),
            range(20, 40, "middle"),
            range(200, 210, "far"),
        ]);
        let at = |address| map.find(address).map(|range| range.what).collect::<Vec<_>>();
        assert_eq!(at(25), ["inner", "middle", "outer"]);
        assert_eq!(at(35), ["middle", "outer"]);
        assert_eq!(at(99), ["outer"]);
        assert_eq!(at(100), [""; 0]);
        assert_eq!(at(209), ["far"]);
        assert_eq!(at(9), [""; 0]);
        let around = |address| map.around(address).map(|range| range.map_or("", |range| range.what));
        assert_eq!(around(150), ["inner", "far"]);
        assert_eq!((around(5), around(300)), (["", "outer"], ["far", ""]));
    }
}
