//! What is mapped where in one process.

use crate::address::Avma;

/// Something that covers a range of addresses, and can be cut.
pub trait Span {
    /// The first address, and one past the last.
    fn range(&self) -> (Avma, Avma);

    /// The same thing with another range, which lies in its own.
    fn with_range(&self, start: Avma, end: Avma) -> Self;
}

/// Mappings, sorted by address, without overlaps.
#[derive(Clone, Debug)]
pub struct AddressSpace<T> {
    sorted: Vec<T>,
}

impl<T> Default for AddressSpace<T> {
    fn default() -> Self {
        AddressSpace { sorted: Vec::new() }
    }
}

impl<T: Span> AddressSpace<T> {
    /// Adds a mapping over others, as `mmap(MAP_FIXED)` does: what it covers is cut or removed. A mapping without
    /// addresses is ignored.
    pub fn insert(&mut self, mapping: T) {
        let (start, end) = mapping.range();
        if start >= end {
            return;
        }
        let first = self.sorted.partition_point(|other| other.range().1 <= start);
        let last = self.sorted.partition_point(|other| other.range().0 < end);
        let covered = self.sorted.get(first..last).unwrap_or_default();
        let left = (covered.first().map(|left| (left, left.range().0)))
            .filter(|(_, from)| *from < start)
            .map(|(left, from)| left.with_range(from, start));
        let right = (covered.last().map(|right| (right, right.range().1)))
            .filter(|(_, to)| *to > end)
            .map(|(right, to)| right.with_range(end, to));
        let kept = left.into_iter().chain([mapping]).chain(right);
        self.sorted.splice(first..last, kept);
    }

    /// The mapping that holds the address.
    pub fn find(&self, address: Avma) -> Option<&T> {
        let at = self.sorted.partition_point(|mapping| mapping.range().1 <= address);
        self.sorted.get(at).filter(|mapping| mapping.range().0 <= address)
    }

    /// One past the highest address; 0 if there is no mapping.
    pub fn end(&self) -> Avma {
        self.sorted.last().map_or(Avma(0), |mapping| mapping.range().1)
    }

    /// Forgets everything: the process called exec.
    pub fn clear(&mut self) {
        self.sorted.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Numbered {
        start: Avma,
        end: Avma,
        number: u32,
    }

    impl Span for Numbered {
        fn range(&self) -> (Avma, Avma) {
            (self.start, self.end)
        }

        fn with_range(&self, start: Avma, end: Avma) -> Numbered {
            Numbered {
                start,
                end,
                number: self.number,
            }
        }
    }

    fn span(start: u64, end: u64, number: u32) -> Numbered {
        Numbered {
            start: Avma(start),
            end: Avma(end),
            number,
        }
    }

    #[test]
    fn a_mapping_in_the_middle_cuts_the_old_one_in_two() {
        let mut space = AddressSpace::default();
        space.insert(span(0x1000, 0x9000, 0));
        space.insert(span(0x3000, 0x5000, 1));
        assert_eq!(
            space.sorted,
            [
                span(0x1000, 0x3000, 0),
                span(0x3000, 0x5000, 1),
                span(0x5000, 0x9000, 0)
            ]
        );
    }

    #[test]
    fn a_mapping_over_several_removes_them_and_cuts_the_outer_ones() {
        let mut space = AddressSpace::default();
        for (at, module) in [(0x1000, 0), (0x3000, 1), (0x5000, 2)] {
            space.insert(span(at, at + 0x1000, module));
        }
        space.insert(span(0x1800, 0x5800, 3));
        assert_eq!(
            space.sorted,
            [
                span(0x1000, 0x1800, 0),
                span(0x1800, 0x5800, 3),
                span(0x5800, 0x6000, 2)
            ]
        );
        assert_eq!(space.find(Avma(0x57ff)).map(|found| found.number), Some(3));
        assert_eq!(space.find(Avma(0x6000)), None);
    }

    #[test]
    fn empty_and_backward_mappings_are_ignored() {
        let mut space = AddressSpace::default();
        space.insert(span(0x1000, 0x1000, 0));
        space.insert(span(0x2000, 0x1000, 0));
        assert!(space.sorted.is_empty());
    }
}
