//! The mappings of one process.

use std::sync::Arc;

use crate::address::Avma;

/// Something that covers a range of addresses, and can be cut.
pub trait MappedRange {
    /// The first address, and one past the last.
    fn range(&self) -> (Avma, Avma);

    /// A copy with a range inside its own.
    fn with_range(&self, start: Avma, end: Avma) -> Self;
}

/// Most mappings in a chunk. Most processes have fewer executable mappings than that, and so one chunk.
const CHUNK: usize = 64;

/// Mappings, sorted by address, without overlaps. A copy shares its chunks until one of the two is written: a process
/// that forks often gives its children what it has.
#[derive(Clone, Debug)]
pub struct AddressSpace<T> {
    /// Not empty, each of them.
    chunks: Arc<Vec<Arc<Vec<T>>>>,
}

impl<T> Default for AddressSpace<T> {
    fn default() -> Self {
        AddressSpace { chunks: Arc::default() }
    }
}

impl<T: MappedRange + Clone> AddressSpace<T> {
    /// Adds a mapping over others, as `mmap(MAP_FIXED)` does: what it covers is cut or removed. A mapping without
    /// addresses is ignored.
    pub fn insert(&mut self, mapping: T) {
        let (start, end) = mapping.range();
        if start >= end {
            return;
        }
        let chunks = Arc::make_mut(&mut self.chunks);
        let first = chunks.partition_point(|chunk| end_of(chunk) <= start);
        let last = chunks.partition_point(|chunk| chunk.first().is_some_and(|other| other.range().0 < end));
        // A mapping between two chunks goes to the end of the earlier one.
        let at = if first < last { first } else { first.saturating_sub(1) };
        let mut covered = chunks.drain(at..last.max(at + 1).min(chunks.len()));
        let mut chunk = covered.next().unwrap_or_default();
        let sorted = Arc::make_mut(&mut chunk);
        covered.for_each(|more| sorted.extend(Arc::unwrap_or_clone(more)));
        insert(sorted, mapping);
        if sorted.len() <= CHUNK {
            chunks.insert(at, chunk);
        } else {
            let pieces = sorted.chunks(CHUNK / 2).map(|piece| Arc::new(piece.to_vec()));
            chunks.splice(at..at, pieces);
        }
    }

    /// The mappings that have addresses in this range, whole.
    pub fn overlapping(&self, start: Avma, end: Avma) -> impl Iterator<Item = &T> {
        let first = self.chunks.partition_point(|chunk| end_of(chunk) <= start);
        let from = self.chunks.get(first..).unwrap_or_default().iter();
        from.flat_map(|chunk| chunk.iter())
            .skip_while(move |mapping| mapping.range().1 <= start)
            .take_while(move |mapping| mapping.range().0 < end)
    }

    /// The last mapping that ends at or below an address, and the first that starts at or above it.
    pub fn neighbours(&self, address: Avma) -> [Option<&T>; 2] {
        let at = self.chunks.partition_point(|chunk| end_of(chunk) <= address);
        let chunk = self.chunks.get(at).map_or(&[][..], |chunk| chunk);
        let inside = chunk.partition_point(|mapping| mapping.range().1 <= address);
        let before = match inside.checked_sub(1) {
            Some(inside) => chunk.get(inside),
            None => at.checked_sub(1).and_then(|at| self.chunks[at].last()),
        };
        let behind = chunk[inside..].iter().find(|mapping| mapping.range().0 >= address);
        [before, behind.or_else(|| self.chunks.get(at + 1)?.first())]
    }

    /// All mappings, by address.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// The mapping that holds the address; `None` if none does.
    pub fn find(&self, address: Avma) -> Option<&T> {
        let chunk = match &self.chunks[..] {
            [only] => only,
            chunks => chunks.get(chunks.partition_point(|chunk| end_of(chunk) <= address))?,
        };
        let at = chunk.partition_point(|mapping| mapping.range().1 <= address);
        chunk.get(at).filter(|mapping| mapping.range().0 <= address)
    }

    /// One past the highest address; 0 if there is no mapping.
    pub fn end(&self) -> Avma {
        self.chunks.last().map_or(Avma(0), |chunk| end_of(chunk))
    }

    /// Forgets everything: the process called exec.
    pub fn clear(&mut self) {
        *self = AddressSpace::default();
    }
}

fn end_of<T: MappedRange>(chunk: &[T]) -> Avma {
    chunk.last().map_or(Avma(0), |mapping| mapping.range().1)
}

/// Adds a mapping to sorted ones.
fn insert<T: MappedRange>(sorted: &mut Vec<T>, mapping: T) {
    let (start, end) = mapping.range();
    let first = sorted.partition_point(|other| other.range().1 <= start);
    let last = sorted.partition_point(|other| other.range().0 < end);
    let covered = sorted.get(first..last).unwrap_or_default();
    let left = (covered.first().map(|left| (left, left.range().0)))
        .filter(|(_, from)| *from < start)
        .map(|(left, from)| left.with_range(from, start));
    let right = (covered.last().map(|right| (right, right.range().1)))
        .filter(|(_, to)| *to > end)
        .map(|(right, to)| right.with_range(end, to));
    let kept = left.into_iter().chain([mapping]).chain(right);
    sorted.splice(first..last, kept);
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

    impl MappedRange for Numbered {
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

    fn all(space: &AddressSpace<Numbered>) -> Vec<Numbered> {
        space.chunks.iter().flat_map(|chunk| chunk.iter().cloned()).collect()
    }

    #[test]
    fn copies_share_what_neither_has_written_and_differ_in_the_rest() {
        // One list without chunks is the reference.
        let mut random = 1u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % below
        };
        let mut spaces = vec![(AddressSpace::default(), Vec::new())];
        for number in 0..3000 {
            let at = next(spaces.len() as u64) as usize;
            if next(50) == 0 {
                let copy = spaces[at].clone();
                spaces.push(copy);
            }
            let start = next(5000);
            let len = if next(40) == 0 { 1 + next(3000) } else { 1 + next(9) };
            let (space, reference) = &mut spaces[at];
            space.insert(span(start, start + len, number));
            insert(reference, span(start, start + len, number));
            for address in [start, start + len, next(5000), next(5000)].map(Avma) {
                let found = reference.iter().find(|one| one.start <= address && address < one.end);
                assert_eq!(space.find(address), found);
            }
        }
        for (space, reference) in &spaces {
            assert_eq!(&all(space), reference);
            assert!(space.chunks.iter().all(|chunk| (1..=CHUNK).contains(&chunk.len())));
            assert_eq!(space.end(), reference.last().map_or(Avma(0), |last| last.end));
        }
        let mut space = AddressSpace::default();
        (1..1000).for_each(|at| space.insert(span(at * 10, at * 10 + 5, 0)));
        let mut copy = space.clone();
        copy.insert(span(1, 2, 0));
        let shared = |chunk: &Arc<Vec<Numbered>>| space.chunks.iter().any(|other| Arc::ptr_eq(chunk, other));
        assert!(copy.chunks.len() > 10);
        assert_eq!(copy.chunks.iter().filter(|chunk| !shared(chunk)).count(), 1);
    }

    #[test]
    fn a_mapping_in_the_middle_cuts_the_old_one_in_two() {
        let mut space = AddressSpace::default();
        space.insert(span(0x1000, 0x9000, 0));
        space.insert(span(0x3000, 0x5000, 1));
        assert_eq!(
            all(&space),
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
            all(&space),
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
    fn mappings_in_a_range_and_beside_it_are_found() {
        let mut space = AddressSpace::default();
        // More than a chunk holds.
        for number in 0..200 {
            space.insert(span(number * 0x100, number * 0x100 + 0x80, number as u32));
        }
        let numbers = |start: u64, end: u64| -> Vec<u32> {
            let found = space.overlapping(Avma(start), Avma(end));
            found.map(|found| found.number).collect()
        };
        assert_eq!(numbers(0x1080, 0x1100), []);
        assert_eq!(numbers(0x107f, 0x1101), [16, 17]);
        assert_eq!(numbers(0, u64::MAX).len(), 200);
        assert_eq!(space.all().count(), 200);
        let beside = |at: u64| space.neighbours(Avma(at)).map(|found| found.map(|found| found.number));
        assert_eq!(beside(0), [None, Some(0)]);
        for number in 1..199u32 {
            let start = u64::from(number) * 0x100;
            assert_eq!(beside(start), [Some(number - 1), Some(number)]);
            assert_eq!(beside(start + 1), [Some(number - 1), Some(number + 1)]);
            assert_eq!(beside(start + 0x80), [Some(number), Some(number + 1)]);
        }
        assert_eq!(beside(u64::MAX), [Some(199), None]);
    }

    #[test]
    fn empty_and_backward_mappings_are_ignored() {
        let mut space = AddressSpace::default();
        space.insert(span(0x1000, 0x1000, 0));
        space.insert(span(0x2000, 0x1000, 0));
        assert!(all(&space).is_empty());
    }
}
