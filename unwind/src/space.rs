//! The executable mappings of one process.

/// Index of a module in the stage's list; [`ANONYMOUS`] for executable memory without a file.
pub(crate) type ModuleIndex = u32;
/// Executable memory without a file: JIT code, for example.
pub(crate) const ANONYMOUS: ModuleIndex = ModuleIndex::MAX;

/// One executable mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Where relative address 0 of the module is.
    pub(crate) base: u64,
    pub(crate) module: ModuleIndex,
}

/// Sorted, without overlaps.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddressSpace {
    regions: Vec<Region>,
}

impl AddressSpace {
    /// Adds a mapping over whatever was there, as `mmap(MAP_FIXED)` does.
    pub(crate) fn insert(&mut self, region: Region) {
        if region.start >= region.end {
            return;
        }
        let first = self.regions.partition_point(|other| other.end <= region.start);
        let last = self.regions.partition_point(|other| other.start < region.end);
        let left = self.regions[first..last]
            .first()
            .filter(|other| other.start < region.start)
            .copied();
        let right = self.regions[first..last]
            .last()
            .filter(|other| other.end > region.end)
            .copied();
        let kept = [
            left.map(|left| Region {
                end: region.start,
                ..left
            }),
            Some(region),
            right.map(|right| Region {
                start: region.end,
                ..right
            }),
        ];
        self.regions.splice(first..last, kept.into_iter().flatten());
    }

    /// The mapping that holds the address.
    pub(crate) fn find(&self, address: u64) -> Option<&Region> {
        let at = self.regions.partition_point(|region| region.end <= address);
        self.regions.get(at).filter(|region| region.start <= address)
    }

    /// One past the highest executable address; 0 if there is none.
    pub(crate) fn end(&self) -> u64 {
        self.regions.last().map_or(0, |region| region.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: u64, end: u64, module: ModuleIndex) -> Region {
        Region {
            start,
            end,
            base: 0,
            module,
        }
    }

    #[test]
    fn a_mapping_in_the_middle_cuts_the_old_one_in_two() {
        let mut space = AddressSpace::default();
        space.insert(region(0x1000, 0x9000, 0));
        space.insert(region(0x3000, 0x5000, 1));
        assert_eq!(
            space.regions,
            [
                region(0x1000, 0x3000, 0),
                region(0x3000, 0x5000, 1),
                region(0x5000, 0x9000, 0)
            ]
        );
    }

    #[test]
    fn a_mapping_over_several_removes_them_and_cuts_the_outer_ones() {
        let mut space = AddressSpace::default();
        for (at, module) in [(0x1000, 0), (0x3000, 1), (0x5000, 2)] {
            space.insert(region(at, at + 0x1000, module));
        }
        space.insert(region(0x1800, 0x5800, 3));
        assert_eq!(
            space.regions,
            [
                region(0x1000, 0x1800, 0),
                region(0x1800, 0x5800, 3),
                region(0x5800, 0x6000, 2)
            ]
        );
        assert_eq!(space.find(0x57ff).map(|region| region.module), Some(3));
        assert_eq!(space.find(0x6000), None);
    }

    #[test]
    fn empty_and_backward_mappings_are_ignored() {
        let mut space = AddressSpace::default();
        space.insert(region(0x1000, 0x1000, 0));
        space.insert(region(0x2000, 0x1000, 0));
        assert!(space.regions.is_empty());
    }
}
