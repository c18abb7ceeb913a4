//! Counts inlined calls.

use gimli::{AttributeValue, UnitRef};
use rustc_hash::FxHashMap;

use super::budget::{Budget, Flaw};
use super::ranges::RangeAttributes;
use super::store::Slice;
use super::units::Units;

/// Counts the inlined calls of a function over all units, without code that the linker dropped. Damage ends the count
/// of a unit.
pub(super) fn count(units: &Units<'_>, budget: &mut Budget, is_meant: impl Fn(&str) -> bool) -> u64 {
    let mut count = 0;
    for (index, unit) in units.all() {
        // Most entries are calls of the same few functions: each name is compared once.
        let mut meant: FxHashMap<usize, bool> = FxHashMap::default();
        let mut is_call_of = |origin: gimli::UnitOffset, entry: gimli::UnitOffset, budget: &mut Budget| {
            *meant.entry(origin.0).or_insert_with(|| {
                let described = units.describe(index, entry, budget);
                let name = described.linkage.or(described.plain);
                name.is_some_and(|name| is_meant(&String::from_utf8_lossy(name.slice())))
            })
        };
        if count_in(unit, budget, &mut is_call_of, &mut count).is_err() {
            continue;
        }
    }
    count
}

fn count_in(
    unit: UnitRef<'_, Slice<'_>>,
    budget: &mut Budget,
    is_call_of: &mut impl FnMut(gimli::UnitOffset, gimli::UnitOffset, &mut Budget) -> bool,
    count: &mut u64,
) -> Result<(), Flaw> {
    let mut entries = unit.entries_raw(None)?;
    budget.take(unit.header.length_including_self() as u64)?;
    while !entries.is_empty() {
        let entry = entries.next_offset();
        let Some(abbreviation) = entries.read_abbreviation()? else {
            continue;
        };
        budget.take_attributes(abbreviation)?;
        if abbreviation.tag() != gimli::DW_TAG_inlined_subroutine {
            entries.skip_attributes(abbreviation.attributes())?;
            continue;
        }
        let mut attributes = RangeAttributes::default();
        let mut origin = None;
        for specification in abbreviation.attributes() {
            let attribute = entries.read_attribute(*specification)?;
            match (attribute.name(), attribute.value()) {
                (gimli::DW_AT_abstract_origin, AttributeValue::UnitRef(offset)) => origin = Some(offset),
                // The entry is in another unit.
                (gimli::DW_AT_abstract_origin, AttributeValue::DebugInfoRef(offset)) => {
                    origin = Some(gimli::UnitOffset(!offset.0));
                }
                (gimli::DW_AT_abstract_origin, AttributeValue::DebugInfoRefSup(_)) => origin = Some(entry),
                _ => attributes.note(&attribute),
            }
        }
        if origin.is_some_and(|origin| is_call_of(origin, entry, budget)) {
            let mut is_there = false;
            attributes.for_each(unit, budget, |_, _| is_there = true)?;
            *count += u64::from(is_there);
        }
    }
    Ok(())
}
