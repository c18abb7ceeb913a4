//! The units of debug info: finds the unit of an address, and its frames there.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::ops::Range;

use gimli::{UnitOffset, UnitRef};
use names::symbol::SourceFrame;
use rustc_hash::FxHashMap;

use super::aranges::Aranges;
use super::budget::{Budget, Flaw};
use super::lazy_unit::{AbbreviationTables, DwarfOf, GimliUnit, LazyUnit};
use super::names::EntryName;
use super::prepared::{self, PreparedAnswers, UnitContext};
use super::ranges::{RangeMap, RangeOf};
use super::scopes::Scopes;
use super::store::Slice;
use super::unit::{OwnRanges, SplitUnit, Unit, UnitAnswer, own_ranges, unit_ranges};

/// More frames at one address are cut: only damaged debug info has them.
const MAX_FRAMES: usize = 512;

/// What the debug info says of a function.
#[derive(Default)]
pub(super) struct FunctionDescription<'a, 'u> {
    pub(super) linkage: Option<Slice<'a>>,
    pub(super) plain: Option<Slice<'a>>,
    /// The entry that has the plain name.
    pub(super) named_at: Option<(UnitRef<'u, Slice<'a>>, UnitOffset)>,
    /// Path of the source file that declares it.
    pub(super) file: Option<String>,
}

/// The answer of the debug info for an address.
#[derive(Default)]
pub(super) struct AddressAnswer<'a> {
    /// The frames, innermost first, with the name of each.
    pub(super) frames: Vec<(SourceFrame, Option<EntryName<'a>>)>,
    /// The part of the outer function that holds the address: (stated virtual address, bytes).
    pub(super) function: Option<(u64, u64)>,
}

/// All units of a file.
pub(super) struct Units<'a> {
    pub(super) dwarf: DwarfOf<'a>,
    pub(super) tables: AbbreviationTables,
    /// By offset in `.debug_info`.
    pub(super) units: Vec<Unit<'a>>,
    /// With the padding between the functions of a unit.
    ranges: RangeMap<usize>,
    aranges: Aranges<'a>,
    pub(super) supplementary: Vec<LazyUnit<'a>>,
    prepared: PreparedAnswers,
    pub(super) scopes: RefCell<Scopes<'a>>,
    /// Whether linkage names can be demangled, by their place in memory.
    pub(super) readable: RefCell<FxHashMap<usize, bool>>,
    /// Flaws where functions are described.
    pub(super) flaws_of_names: RefCell<Vec<Flaw>>,
    flaws: Vec<Flaw>,
}

impl<'a> Units<'a> {
    /// Reads the header of each unit, and the first entry where `.debug_aranges` does not say where the unit's code is.
    /// Damaged units give no answers and are reported by [`Units::take_flaws`]. `bytes` of debug info are in the file.
    pub(super) fn open(dwarf: DwarfOf<'a>, bytes: u64, budget: &mut Budget) -> Units<'a> {
        let mut flaws = Vec::new();
        let tables = AbbreviationTables::for_bytes(bytes);
        let supplementary = match dwarf.sup() {
            Some(dwarf) => headers(dwarf, budget, &mut flaws),
            None => Vec::new(),
        };
        let aranges = Aranges::read(&dwarf, budget.lowest_code(), &mut flaws);
        let mut ranges = Vec::new();
        let mut units = Vec::new();
        for skeleton in headers(&dwarf, budget, &mut flaws) {
            let mut unit = Unit::new(skeleton);
            if let Err(flaw) = unit_ranges(&dwarf, &tables, &mut unit, &aranges, budget, |begin, end| {
                ranges.push(RangeOf {
                    begin,
                    end,
                    what: units.len(),
                });
            }) {
                flaws.push(flaw);
            }
            units.push(unit);
        }
        Units {
            dwarf,
            tables,
            units,
            ranges: RangeMap::new(ranges),
            aranges,
            supplementary,
            prepared: PreparedAnswers::default(),
            scopes: RefCell::default(),
            readable: RefCell::default(),
            flaws_of_names: RefCell::default(),
            flaws,
        }
    }

    /// Looks up stated virtual addresses on several threads, where that is possible; [`Units::find`] then has their
    /// answers. This thread runs `first`, then looks up with the others.
    pub(super) fn prepare(&mut self, svmas: &[u64], budget: &mut Budget, first: impl FnOnce()) {
        let asked = svmas
            .iter()
            .filter_map(|svma| Some((*self.units_of(*svma).first()?, *svma)));
        let asked = asked.collect();
        let shared = UnitContext {
            dwarf: &self.dwarf,
            tables: &self.tables,
        };
        self.prepared = prepared::look_up(&mut self.units, asked, shared, budget, first);
        self.flaws.append(&mut self.prepared.flaws);
    }

    /// Heap bytes of the units themselves and of the tables of abbreviations, which take 30 times their size. Ranges
    /// are counted by [`Budget`].
    pub(super) fn held_bytes(&self) -> usize {
        let tables = 30 * usize::try_from(self.tables.read()).unwrap_or(usize::MAX / 64);
        size_of_val(&*self.units) + size_of_val(&*self.supplementary) + tables
    }

    /// Damage found since the last call.
    pub(super) fn take_flaws(&mut self) -> Vec<Flaw> {
        let mut flaws = std::mem::take(&mut self.flaws);
        flaws.append(self.flaws_of_names.get_mut());
        flaws.append(&mut self.tables.take_flaws());
        flaws
    }

    /// Looks up a stated virtual address. `load` finds the split part of a unit.
    pub(super) fn find(
        &mut self,
        svma: u64,
        budget: &mut Budget,
        mut load: impl FnMut(&DwarfOf<'a>, &GimliUnit<'a>) -> Option<SplitUnit<'a>>,
    ) -> AddressAnswer<'a> {
        if let Some((index, place)) = self.prepared.take(svma) {
            return self.frames(index, place, budget);
        }
        let listed = self.units_of(svma);
        if let Some(found) = self.find_in(&listed, svma, budget, &mut load) {
            return found;
        }
        let around = self.units_around(svma, budget);
        self.find_in(&around, svma, budget, &mut load).unwrap_or_default()
    }

    /// The other ranges of the function that holds a stated virtual address, for an address that was looked up in the
    /// debug info.
    pub(super) fn other_parts(&self, svma: u64) -> Vec<Range<u64>> {
        let units = self.ranges.find(svma).filter_map(|range| self.units.get(range.what));
        let mut parts = units.filter_map(|unit| Some(unit.functions.as_ref()?.other_parts(svma)));
        parts.find(|parts| !parts.is_empty()).unwrap_or_default()
    }

    /// The units whose code holds an address, the one with the innermost range first.
    fn units_of(&mut self, svma: u64) -> Vec<usize> {
        let mut found: Vec<RangeOf<usize>> = self.ranges.find(svma).collect();
        found.retain_mut(|range| {
            let exact = self.units.get_mut(range.what).map(|unit| unit.listed(&self.aranges));
            match exact.filter(|exact| exact.len() > 0) {
                Some(exact) => exact.find(svma).next().is_some_and(|exact| {
                    (range.begin, range.end) = (exact.begin, exact.end);
                    true
                }),
                // The ranges of a unit that `.debug_aranges` lacks have no padding.
                None => true,
            }
        });
        found.sort_by_key(|range| (Reverse(range.begin), range.end, Reverse(range.what)));
        found.into_iter().map(|range| range.what).collect()
    }

    /// The answer of the first unit that has one.
    fn find_in(
        &mut self,
        units: &[usize],
        svma: u64,
        budget: &mut Budget,
        load: &mut impl FnMut(&DwarfOf<'a>, &GimliUnit<'a>) -> Option<SplitUnit<'a>>,
    ) -> Option<AddressAnswer<'a>> {
        for &index in units {
            let unit = self.units.get_mut(index)?;
            let place = unit.find(&self.dwarf, &self.tables, svma, budget, &mut self.flaws, load);
            if !place.is_empty() {
                return Some(self.frames(index, place, budget));
            }
        }
        None
    }

    /// The units with code before and behind an address whose own lists hold the address. Older LLVMs leave functions
    /// out of `.debug_aranges` and list others of the same unit close by. A function that the linker put between two
    /// other units is not found.
    fn units_around(&mut self, svma: u64, budget: &mut Budget) -> Vec<usize> {
        let mut found = Vec::new();
        // A unit whose run of ranges spans the address may have one of another unit between.
        let near = self
            .ranges
            .find(svma)
            .chain(self.ranges.around(svma).into_iter().flatten());
        for index in near.map(|range| range.what) {
            let Some(unit) = self.units.get_mut(index) else {
                continue;
            };
            if matches!(unit.own, OwnRanges::Unread) {
                let mut ranges = Vec::new();
                let skeleton = unit.skeleton.get(&self.dwarf, &self.tables);
                let read = skeleton.map(|skeleton| {
                    own_ranges(UnitRef::new(&self.dwarf, skeleton), budget, |begin, end| {
                        ranges.push(RangeOf { begin, end, what: () });
                    })
                });
                self.flaws.extend(read.and_then(Result::err));
                unit.own = OwnRanges::Read(RangeMap::new(ranges));
            }
            if matches!(&unit.own, OwnRanges::Read(ranges) if ranges.find(svma).next().is_some()) {
                found.push(index);
            }
        }
        found
    }

    /// The units of the file itself, with their index.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, UnitRef<'_, Slice<'a>>)> {
        let units = self.units.iter().enumerate();
        units.filter_map(|(index, unit)| Some((index, unit.unit_ref(&self.dwarf, &self.tables)?)))
    }

    fn frames(&mut self, index: usize, place: UnitAnswer, budget: &mut Budget) -> AddressAnswer<'a> {
        let mut found = AddressAnswer {
            frames: Vec::with_capacity(place.frames.len()),
            function: place.function,
        };
        let outer = place.frames.last().and_then(|(_, entry)| *entry).zip(place.function);
        for (mut frame, entry) in place.frames.into_iter().take(MAX_FRAMES) {
            let Some(entry) = entry else {
                found.frames.push((frame, None));
                continue;
            };
            let described = self.describe(index, entry, budget);
            let name = self.name(&described, budget);
            let described_file = described.file;
            let within = || self.file_within(index, entry, outer?, budget);
            let declared_in = described_file.or_else(within);
            if frame.line.is_none() {
                // Code of the compiler's own has no line. Its row of the line table has any file, often the file of the
                // function that was inlined before it.
                frame.file = declared_in.or(frame.file);
            } else if declared_in != frame.file {
                frame.declared_in = declared_in;
            }
            found.frames.push((frame, name));
        }
        found
    }

    /// [`Unit::file_within`] of a unit.
    fn file_within(
        &mut self,
        index: usize,
        entry: UnitOffset,
        (function, (begin, _)): (UnitOffset, (u64, u64)),
        budget: &mut Budget,
    ) -> Option<String> {
        let unit = self.units.get_mut(index)?;
        unit.file_within(&self.dwarf, &self.tables, entry, (function, begin), budget)
    }
}

/// The units of a file, by offset, without type units, which have no code.
fn headers<'a>(dwarf: &DwarfOf<'a>, budget: &mut Budget, flaws: &mut Vec<Flaw>) -> Vec<LazyUnit<'a>> {
    let mut units = Vec::new();
    let mut headers = dwarf.units();
    while let Some(header) = headers.next().unwrap_or_else(|error| {
        flaws.push(error.into());
        None
    }) {
        if matches!(
            header.type_(),
            gimli::UnitType::Type { .. } | gimli::UnitType::SplitType { .. }
        ) {
            continue;
        }
        // A unit takes 500 bytes when it was read.
        if let Err(exhausted) = budget.keep(16) {
            flaws.push(exhausted.into());
            break;
        }
        units.push(LazyUnit::new(header));
    }
    units
}
