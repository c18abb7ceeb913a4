//! Functions of a unit by address, and the calls that were inlined into them.

use std::ops::Range;

use gimli::{UnitOffset, UnitRef};

use super::budget::{Budget, Flaw};
use super::ranges::{RangeAttributes, RangeMap, RangeOf};
use super::store::Slice;

/// The functions of a unit by address. A look-up reads the unit only as far as it needs.
pub(super) struct UnitFunctions {
    /// The offset of each function's entry in the unit.
    known: RangeMap<UnitOffset>,
    /// Where to read on; `None` at the end of the unit or where it is damaged.
    next: Option<UnitOffset>,
}

impl UnitFunctions {
    pub(super) fn new(unit: UnitRef<'_, Slice<'_>>) -> UnitFunctions {
        UnitFunctions {
            known: RangeMap::new(Vec::new()),
            next: Some(unit.header.root_offset()),
        }
    }

    /// The function that holds an address. After a flaw, functions before it are still found.
    pub(super) fn find(
        &mut self,
        unit: UnitRef<'_, Slice<'_>>,
        address: u64,
        budget: &mut Budget,
    ) -> (Option<RangeOf<UnitOffset>>, Option<Flaw>) {
        if let Some(found) = self.known.find(address).next() {
            return (Some(found), None);
        }
        let Some(from) = self.next.take() else {
            return (None, None);
        };
        let mut new = Vec::new();
        // Reads as many functions again as are known: each `extend` sorts all of them.
        let at_least = self.known.len();
        let flaw = match read_until(unit, from, (address, at_least), budget, &mut new) {
            Ok(next) => {
                self.next = next;
                None
            }
            Err(flaw) => Some(flaw),
        };
        self.known.extend(new);
        (self.known.find(address).next(), flaw)
    }

    /// The other ranges of the function that holds an address, among those that were read.
    pub(super) fn other_parts(&self, address: u64) -> Vec<Range<u64>> {
        let Some(part) = self.known.find(address).next() else {
            return Vec::new();
        };
        let parts = self
            .known
            .all()
            .filter(|other| other.what == part.what && other.begin != part.begin);
        parts.map(|other| other.begin..other.end).collect()
    }
}

/// Reads the entries of a unit up to the function that holds `address`, and further until `at_least` functions were
/// read. Returns the offset of the next entry.
fn read_until(
    unit: UnitRef<'_, Slice<'_>>,
    from: UnitOffset,
    (address, at_least): (u64, usize),
    budget: &mut Budget,
    ranges: &mut Vec<RangeOf<UnitOffset>>,
) -> Result<Option<UnitOffset>, Flaw> {
    let mut entries = unit.entries_raw(Some(from))?;
    let mut found = false;
    while (!found || ranges.len() < at_least) && !entries.is_empty() {
        let offset = entries.next_offset();
        let Some(abbreviation) = entries.read_abbreviation()? else {
            continue;
        };
        budget.take_attributes(abbreviation)?;
        if abbreviation.tag() != gimli::DW_TAG_subprogram {
            entries.skip_attributes(abbreviation.attributes())?;
            continue;
        }
        let mut attributes = RangeAttributes::default();
        for specification in abbreviation.attributes() {
            attributes.note(&entries.read_attribute(*specification)?);
        }
        attributes.for_each(unit, budget, |begin, end| {
            found |= (begin..end).contains(&address);
            ranges.push(RangeOf {
                begin,
                end,
                what: offset,
            });
        })?;
    }
    let next = entries.next_offset();
    budget.take(next.0.saturating_sub(from.0) as u64)?;
    Ok((!entries.is_empty()).then_some(next))
}

/// A call that the compiler replaced by the body of the callee.
#[derive(Debug)]
pub(super) struct InlinedCall {
    /// Number of inlined calls around this one in the same function.
    depth: usize,
    /// Its part of [`InlinedCalls::ranges`].
    ranges: Range<usize>,
    /// The entry, which refers to the name of the callee.
    pub(super) entry: UnitOffset,
    /// Source file of the call.
    pub(super) call_file: Option<u64>,
    pub(super) call_line: Option<u32>,
    pub(super) call_column: Option<u32>,
}

/// The inlined calls of one function, in the order of the debug info: each before those inside it.
#[derive(Debug)]
pub(super) struct InlinedCalls {
    calls: Vec<InlinedCall>,
    ranges: Vec<(u64, u64)>,
}

impl InlinedCalls {
    /// Reads the inlined calls of the function whose entry is at `function`.
    pub(super) fn parse(
        unit: UnitRef<'_, Slice<'_>>,
        function: UnitOffset,
        budget: &mut Budget,
    ) -> Result<InlinedCalls, Flaw> {
        let mut inlines = InlinedCalls {
            calls: Vec::new(),
            ranges: Vec::new(),
        };
        let mut entries = unit.entries_raw(Some(function))?;
        let root_depth = entries.next_depth();
        // Depths in the tree of the inlined calls around the current entry. A list and no recursion: damaged
        // debug info nests as deep as it is long.
        let mut around: Vec<isize> = Vec::new();
        let mut skipped_function: Option<isize> = None;
        let mut first = true;
        while !entries.is_empty() {
            let depth = entries.next_depth();
            if !first && depth <= root_depth {
                break;
            }
            budget.take(1)?;
            let offset = entries.next_offset();
            let Some(abbreviation) = entries.read_abbreviation()? else {
                continue;
            };
            budget.take_attributes(abbreviation)?;
            if std::mem::take(&mut first) {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            // An entry ends all calls that are not around it; also a block does that has calls of its own.
            while around.last().is_some_and(|outer| *outer >= depth) {
                around.pop();
            }
            // A function defined inside this one (a closure, a local class) has calls of its own.
            if skipped_function.is_some_and(|outer| depth <= outer) {
                skipped_function = None;
            }
            if skipped_function.is_none() && abbreviation.tag() == gimli::DW_TAG_subprogram {
                skipped_function = Some(depth);
            }
            if skipped_function.is_some() || abbreviation.tag() != gimli::DW_TAG_inlined_subroutine {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            let mut attributes = RangeAttributes::default();
            let mut call = InlinedCall {
                depth: around.len(),
                ranges: 0..0,
                entry: offset,
                call_file: None,
                call_line: None,
                call_column: None,
            };
            for specification in abbreviation.attributes() {
                let attribute = entries.read_attribute(*specification)?;
                let number = |attribute: &gimli::Attribute<Slice<'_>>| {
                    let number = attribute.udata_value().and_then(|number| u32::try_from(number).ok());
                    number.filter(|number| *number != 0)
                };
                match attribute.name() {
                    gimli::DW_AT_call_file => {
                        if let gimli::AttributeValue::FileIndex(file) = attribute.value() {
                            // 0 is "no file" before DWARF 5, and the unit's own file since.
                            let known = file > 0 || unit.header.version() >= 5;
                            call.call_file = known.then_some(file);
                        }
                    }
                    gimli::DW_AT_call_line => call.call_line = number(&attribute),
                    gimli::DW_AT_call_column => call.call_column = number(&attribute),
                    _ => attributes.note(&attribute),
                }
            }
            let from = inlines.ranges.len();
            attributes.for_each(unit, budget, |begin, end| inlines.ranges.push((begin, end)))?;
            call.ranges = from..inlines.ranges.len();
            inlines.calls.push(call);
            around.push(depth);
        }
        Ok(inlines)
    }

    /// The file of the calls inlined directly into the call of an entry, or else into the function: they are written in
    /// its source.
    pub(super) fn file_within(&self, entry: UnitOffset, budget: &mut Budget) -> Result<Option<u64>, Flaw> {
        budget.take(self.calls.len() as u64 / 16)?;
        let call = self.calls.iter().position(|call| call.entry == entry);
        let (from, depth) = call.map_or((0, 0), |call| (call + 1, self.calls[call].depth + 1));
        let inside = self.calls[from..].iter().take_while(|call| call.depth >= depth);
        let mut direct = inside.filter(|call| call.depth == depth && call.call_line.is_some());
        Ok(direct.find_map(|call| call.call_file))
    }

    /// Where the call of an entry begins.
    pub(super) fn begin(&self, entry: UnitOffset) -> Option<u64> {
        let call = self.calls.iter().find(|call| call.entry == entry)?;
        Some(self.ranges.get(call.ranges.start)?.0)
    }

    /// The calls around an address, outermost first.
    pub(super) fn chain(&self, address: u64, budget: &mut Budget) -> Result<Vec<&InlinedCall>, Flaw> {
        let mut chain: Vec<&InlinedCall> = Vec::new();
        // A comparison is much cheaper than parsing.
        budget.take(self.ranges.len() as u64 / 16)?;
        for call in &self.calls {
            // This call is behind the innermost call that was found.
            if call.depth < chain.len() {
                break;
            }
            let holds = |(begin, end): &(u64, u64)| (*begin..*end).contains(&address);
            if call.depth == chain.len() && self.ranges[call.ranges.clone()].iter().any(holds) {
                chain.push(call);
            }
        }
        Ok(chain)
    }
}
