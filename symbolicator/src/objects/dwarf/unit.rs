//! One unit of debug info: which functions are at an address, and where in the source.

use std::sync::Arc;

use gimli::{UnitOffset, UnitRef};
use names::symbol::SourceFrame;

use super::aranges::Aranges;
use super::budget::{Budget, Flaw};
use super::functions::{InlinedCalls, UnitFunctions};
use super::lazy_unit::{AbbreviationTables, DwarfOf, GimliUnit, LazyUnit};
use super::lines::LineTable;
use super::ranges::{RangeAttributes, RangeMap, RangeOf};
use super::store::Slice;

/// Finds the split part of a unit. No type parameter: the compiler then makes one [`Unit::find`], with all that it
/// calls in line.
pub(super) type LoadSplit<'l, 'a> = dyn FnMut(&DwarfOf<'a>, &GimliUnit<'a>) -> Option<SplitUnit<'a>> + 'l;

/// A unit, and the parts that were read.
pub(super) struct Unit<'a> {
    pub(super) skeleton: LazyUnit<'a>,
    pub(super) own: OwnRanges,
    /// The ranges that `.debug_aranges` has for the unit; `None` until they are needed.
    listed: Option<RangeMap<()>>,
    /// `None` until the first look-up; `Some(None)` for units without a split part, or whose split part was not found.
    split: Option<Option<SplitUnit<'a>>>,
    pub(super) functions: Option<UnitFunctions>,
    lines: LineTable,
    /// Inlined calls of the last function: look-ups come in address order.
    inlines: Option<(UnitOffset, InlinedCalls)>,
}

/// The ranges that the first entry of a unit has.
pub(super) enum OwnRanges {
    /// Ranges that find the unit.
    Known,
    /// The unit is found by `.debug_aranges`.
    Unread,
    Read(RangeMap<()>),
}

/// The part of a unit that the compiler put into a `.dwo` file.
pub(super) struct SplitUnit<'a> {
    pub(super) dwarf: Arc<DwarfOf<'a>>,
    pub(super) unit: GimliUnit<'a>,
}

/// The answer of one unit for an address, without names.
#[derive(Default)]
pub(super) struct UnitAnswer {
    /// Innermost first, with the entry of each. The last one is of the function.
    pub(super) frames: Vec<(SourceFrame, Option<UnitOffset>)>,
    /// (stated virtual address, bytes).
    pub(super) function: Option<(u64, u64)>,
}

impl UnitAnswer {
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

impl<'a> Unit<'a> {
    pub(super) fn new(skeleton: LazyUnit<'a>) -> Unit<'a> {
        Unit {
            skeleton,
            own: OwnRanges::Known,
            listed: None,
            split: None,
            functions: None,
            lines: LineTable::new(),
            inlines: None,
        }
    }

    /// The unit with the functions: the split part if there is one.
    pub(super) fn unit_ref<'u>(
        &'u self,
        dwarf: &'u DwarfOf<'a>,
        tables: &AbbreviationTables,
    ) -> Option<UnitRef<'u, Slice<'a>>> {
        match &self.split {
            Some(Some(split)) => Some(UnitRef::new(&split.dwarf, &split.unit)),
            _ => Some(UnitRef::new(dwarf, self.skeleton.get(dwarf, tables)?)),
        }
    }

    /// The ranges that `.debug_aranges` has for the unit.
    pub(super) fn listed(&mut self, aranges: &Aranges<'a>) -> &RangeMap<()> {
        self.listed.get_or_insert_with(|| {
            let mut ranges = Vec::new();
            aranges.for_each(&self.skeleton.header, |begin, end| {
                ranges.push(RangeOf { begin, end, what: () });
            });
            RangeMap::new(ranges)
        })
    }

    /// True if a part of the unit is in another file, as far as is known without that file.
    pub(super) fn may_be_split(&self, dwarf: &DwarfOf<'a>, tables: &AbbreviationTables) -> bool {
        let skeleton = self.skeleton.get(dwarf, tables);
        skeleton.is_some_and(|skeleton| skeleton.dwo_id.is_some())
    }

    pub(super) fn find(
        &mut self,
        dwarf: &DwarfOf<'a>,
        tables: &AbbreviationTables,
        svma: u64,
        budget: &mut Budget,
        flaws: &mut Vec<Flaw>,
        load: &mut LoadSplit<'_, 'a>,
    ) -> UnitAnswer {
        let Some(skeleton) = self.skeleton.get(dwarf, tables) else {
            return UnitAnswer::default();
        };
        if self.split.is_none() {
            let is_split = skeleton.dwo_id.is_some();
            self.split = Some(if is_split { load(dwarf, skeleton) } else { None });
        }
        // The lines of split units are in the main file.
        let skeleton = UnitRef::new(dwarf, skeleton);
        let (innermost, flaw) = self.lines.find(skeleton, svma, budget);
        flaws.extend(flaw);
        let unit = with_functions(&self.split, skeleton);
        let functions = self.functions.get_or_insert_with(|| UnitFunctions::new(unit));
        let (function, flaw) = functions.find(unit, svma, budget);
        flaws.extend(flaw);
        let Some(function) = function else {
            return UnitAnswer {
                frames: innermost.map(|frame| (frame, None)).into_iter().collect(),
                function: None,
            };
        };
        let inlines = read_inlines(&mut self.inlines, unit, function.what, budget);
        let chain = inlines.and_then(|inlines| inlines.chain(svma, budget));
        let chain = chain.unwrap_or_else(|flaw| {
            flaws.push(flaw);
            Vec::new()
        });
        // The line table has the line of the innermost frame; each inlined call has its line in the function around it.
        let mut frames = Vec::with_capacity(chain.len() + 1);
        let mut place = innermost.unwrap_or_default();
        for call in chain.iter().rev() {
            let outer = SourceFrame {
                file: call.call_file.and_then(|file| self.lines.path(skeleton, file, budget)),
                line: call.call_line,
                column: call.call_column,
                ..SourceFrame::default()
            };
            frames.push((std::mem::replace(&mut place, outer), Some(call.entry)));
        }
        frames.push((place, Some(function.what)));
        UnitAnswer {
            frames,
            function: Some((function.begin, function.end - function.begin)),
        }
    }

    /// The file of a function or inlined call without a declaration (`line-tables-only` has none), in the function of
    /// this entry that begins here: the file of the calls inlined into it, or else of its first instruction. Of 7,659
    /// functions of Rust with a declaration, this is another file for 134: macros of `core` hold calls.
    pub(super) fn file_within(
        &mut self,
        dwarf: &DwarfOf<'a>,
        tables: &AbbreviationTables,
        entry: UnitOffset,
        (function, begin): (UnitOffset, u64),
        budget: &mut Budget,
    ) -> Option<String> {
        let skeleton = UnitRef::new(dwarf, self.skeleton.get(dwarf, tables)?);
        let unit = with_functions(&self.split, skeleton);
        let inlines = read_inlines(&mut self.inlines, unit, function, budget).ok()?;
        if let Some(file) = inlines.file_within(entry, budget).ok()? {
            return self.lines.path(skeleton, file, budget);
        }
        let begin = inlines.begin(entry).unwrap_or(begin);
        let chain = inlines.chain(begin, budget).ok()?;
        let innermost = chain.last().map_or(function, |call| call.entry);
        let (place, _) = self.lines.find_begin(skeleton, begin, budget);
        place.filter(|place| innermost == entry && place.line.is_some())?.file
    }
}

/// The unit with the functions: the split part if there is one.
fn with_functions<'u, 'a>(
    split: &'u Option<Option<SplitUnit<'a>>>,
    skeleton: UnitRef<'u, Slice<'a>>,
) -> UnitRef<'u, Slice<'a>> {
    match split {
        Some(Some(split)) => UnitRef::new(&split.dwarf, &split.unit),
        _ => skeleton,
    }
}

/// The inlined calls of a function. `last` holds the inlined calls of the function of the last look-up.
fn read_inlines<'l>(
    last: &'l mut Option<(UnitOffset, InlinedCalls)>,
    unit: UnitRef<'_, Slice<'_>>,
    function: UnitOffset,
    budget: &mut Budget,
) -> Result<&'l InlinedCalls, Flaw> {
    if last.as_ref().is_some_and(|(of, _)| *of != function) {
        *last = None;
    }
    let (_, inlines) = match last {
        Some(known) => known,
        none => none.insert((function, InlinedCalls::parse(unit, function, budget)?)),
    };
    Ok(inlines)
}

/// The address ranges of a unit: from `.debug_aranges` (without the padding between functions), or its own list, or its
/// bounds, or its line table, in this order.
pub(super) fn unit_ranges<'a>(
    dwarf: &DwarfOf<'a>,
    tables: &AbbreviationTables,
    unit: &mut Unit<'a>,
    aranges: &Aranges<'a>,
    budget: &mut Budget,
    mut each: impl FnMut(u64, u64),
) -> Result<(), Flaw> {
    let header = &unit.skeleton.header;
    let mut any = false;
    aranges.runs(header, |begin, end| {
        any = true;
        each(begin, end);
    });
    if any {
        unit.own = OwnRanges::Unread;
    }
    if any || matches!(header.type_(), gimli::UnitType::Partial) {
        return Ok(());
    }
    let Some(skeleton) = unit.skeleton.get(dwarf, tables) else {
        return Ok(());
    };
    let reference = UnitRef::new(dwarf, skeleton);
    let tag = own_ranges(reference, budget, |begin, end| {
        any = true;
        each(begin, end);
    })?;
    // What dwz moves to partial units has no code. The line table of such a unit is another unit's, whose files it
    // names.
    if !any && tag != gimli::DW_TAG_partial_unit && skeleton.line_program.is_some() {
        let (ranges, flaw) = unit.lines.ranges(reference, budget);
        ranges.for_each(|(begin, end)| each(begin, end));
        flaw.map_or(Ok(()), Err)?;
    }
    Ok(())
}

/// The address ranges that the first entry of a unit has: a list, or bounds. Returns the tag of the entry.
pub(super) fn own_ranges(
    unit: UnitRef<'_, Slice<'_>>,
    budget: &mut Budget,
    each: impl FnMut(u64, u64),
) -> Result<gimli::DwTag, Flaw> {
    let mut entries = unit.entries_raw(None)?;
    let mut attributes = RangeAttributes::default();
    let mut tag = gimli::DW_TAG_null;
    if let Some(abbreviation) = entries.read_abbreviation()? {
        tag = abbreviation.tag();
        for specification in abbreviation.attributes() {
            attributes.note(&entries.read_attribute(*specification)?);
        }
    }
    attributes.for_each(unit, budget, each)?;
    Ok(tag)
}
