//! What an entry says of its function, and the entries that it refers to.

use gimli::{AttributeValue, DebugInfoOffset, UnitOffset, UnitRef};

use super::super::symbol::MAX_NAME_BYTES;
use super::budget::{Budget, BudgetExhausted, Flaw};
use super::lazy_unit::{AbbreviationTables, DwarfOf, LazyUnit};
use super::lines::path_in;
use super::names::{EntryName, text};
use super::scopes::{ScopeName, part_of_path};
use super::store::Slice;
use super::units::{FunctionDescription, Units};
use crate::demangle::{demangle, is_mangled};

/// References that are followed from entry to entry for a name. Valid chains have two or three.
const MAX_HOPS: usize = 16;

/// Linkage names that are known to be readable or not, at most.
const MAX_KNOWN: usize = 100_000;

/// An entry and its unit.
type EntryRef<'u, 'a> = (UnitRef<'u, Slice<'a>>, UnitOffset);

impl<'a> Units<'a> {
    /// Names and source file of an entry's function. Inlined calls and definitions refer to another entry for theirs.
    pub(super) fn describe(&self, index: usize, entry: UnitOffset, budget: &mut Budget) -> FunctionDescription<'a, '_> {
        let unit = self.units.get(index);
        let place = unit.and_then(|unit| Some((unit.unit_ref(&self.dwarf, &self.tables)?, entry)));
        let described = place.map(|place| self.describe_at(index, place, budget));
        self.or_note(described.unwrap_or_else(|| Ok(FunctionDescription::default())))
    }

    /// What was found, or nothing where a flaw was, which is noted.
    fn or_note<T: Default>(&self, found: Result<T, Flaw>) -> T {
        const MAX_FLAWS: usize = 20;
        found.unwrap_or_else(|flaw| {
            let mut flaws = self.flaws_of_names.borrow_mut();
            if flaws.len() < MAX_FLAWS {
                flaws.push(flaw);
            }
            T::default()
        })
    }

    fn describe_at<'u>(
        &'u self,
        index: usize,
        place: (UnitRef<'u, Slice<'a>>, UnitOffset),
        budget: &mut Budget,
    ) -> Result<FunctionDescription<'a, 'u>, Flaw> {
        let mut found = FunctionDescription::default();
        self.attributes(place, budget, |(unit, entry), attribute, budget| {
            match (attribute.name(), attribute.value()) {
                (gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name, name) if found.linkage.is_none() => {
                    found.linkage = budget.text(unit, name)?;
                }
                (gimli::DW_AT_name, name) if found.plain.is_none() => {
                    found.plain = budget.text(unit, name)?;
                    found.named_at = Some((unit, entry));
                }
                (gimli::DW_AT_decl_file, AttributeValue::FileIndex(path)) if found.file.is_none() => {
                    found.file = self.path(index, unit, path, budget)?;
                }
                _ => {}
            }
            Ok(found.linkage.is_some() && found.file.is_some())
        })?;
        Ok(found)
    }

    /// The name of a described function.
    pub(super) fn name(&self, described: &FunctionDescription<'a, '_>, budget: &mut Budget) -> Option<EntryName<'a>> {
        let (linkage, plain) = (described.linkage, described.plain);
        let name = |best, scope| EntryName { best, plain, scope };
        if let Some(linkage) = linkage
            && (plain.is_none() || self.or_note(self.is_readable(linkage, budget)))
        {
            return Some(name(linkage, None));
        }
        let scope = described.named_at.map(|at| self.scope(at, budget, 0));
        Some(name(plain?, self.or_note(scope.unwrap_or(Ok(None)))))
    }

    /// False for a linkage name that stays mangled.
    fn is_readable(&self, linkage: Slice<'a>, budget: &mut Budget) -> Result<bool, Flaw> {
        let mut known = self.readable.borrow_mut();
        let place = linkage.slice().as_ptr().addr();
        if let Some(known) = known.get(&place) {
            return Ok(*known);
        }
        let text = text(linkage);
        budget.take(text.len() as u64)?;
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        let is_readable = !is_mangled(&demangle(&text));
        known.insert(place, is_readable);
        Ok(is_readable)
    }

    /// The namespaces, classes and functions around an entry, as demanglers write them.
    fn scope(
        &self,
        (unit, entry): (UnitRef<'_, Slice<'a>>, UnitOffset),
        budget: &mut Budget,
        depth: usize,
    ) -> Result<Option<String>, Flaw> {
        let scopes = self.scopes.borrow_mut().of_unit(unit, budget)?;
        let mut path = String::new();
        for scope in scopes.map_or_else(Vec::new, |scopes| scopes.around(entry)) {
            let part = match scope {
                ScopeName::Namespace(name) => Some(part_of_path(name, true)),
                ScopeName::Type(name) => Some(part_of_path(name, false)),
                ScopeName::Function(function) => self.function_around((unit, function), budget, depth)?,
            };
            let Some(part) = part else { return Ok(None) };
            add_to_path(&mut path, &part, budget)?;
        }
        Ok(Some(path).filter(|path| !path.is_empty()))
    }

    /// The name of a function that holds a type, with its path.
    fn function_around(
        &self,
        place: (UnitRef<'_, Slice<'a>>, UnitOffset),
        budget: &mut Budget,
        depth: usize,
    ) -> Result<Option<String>, Flaw> {
        // Of the file itself: source files are not asked for.
        let described = self.describe_at(usize::MAX, place, budget)?;
        if let Some(linkage) = described.linkage
            && self.is_readable(linkage, budget)?
        {
            return Ok(Some(demangle(&text(linkage))));
        }
        let Some(plain) = described.plain else { return Ok(None) };
        let around = described.named_at.filter(|_| depth < MAX_HOPS);
        let scope = around.map_or(Ok(None), |at| self.scope(at, budget, depth + 1))?;
        let mut path = scope.unwrap_or_default();
        add_to_path(&mut path, &text(plain), budget)?;
        Ok(Some(path))
    }

    /// The path of a file that an attribute in `unit` refers to.
    fn path(
        &self,
        index: usize,
        unit: UnitRef<'_, Slice<'a>>,
        file: u64,
        budget: &mut Budget,
    ) -> Result<Option<String>, BudgetExhausted> {
        // Split units have no line table: the line table of the main file has their files. Other units without a line
        // table name no files.
        let skeleton = || self.units.get(index)?.skeleton.get(&self.dwarf, &self.tables);
        let table = match unit.line_program {
            Some(_) => Some(unit),
            None if unit.dwo_id.is_some() => skeleton().map(|skeleton| UnitRef::new(&self.dwarf, skeleton)),
            None => None,
        };
        // 0 is "no file" before DWARF 5.
        let is_known = file > 0 || unit.header.version() >= 5;
        (table.filter(|_| is_known)).map_or(Ok(None), |table| path_in(table, file, budget))
    }

    /// Calls `each` with the attributes of an entry, then with the attributes of the entries that it refers to, until
    /// `each` returns true for an entry.
    fn attributes<'u>(
        &'u self,
        place: (UnitRef<'u, Slice<'a>>, UnitOffset),
        budget: &mut Budget,
        mut each: impl FnMut(EntryRef<'u, 'a>, &gimli::Attribute<Slice<'a>>, &mut Budget) -> Result<bool, Flaw>,
    ) -> Result<(), Flaw> {
        let mut place = Some(place);
        for _ in 0..MAX_HOPS {
            let Some((unit, entry)) = place.take() else {
                break;
            };
            let mut entries = unit.entries_raw(Some(entry))?;
            let Some(abbreviation) = entries.read_abbreviation()? else {
                break;
            };
            budget.take_attributes(abbreviation)?;
            let mut is_enough = false;
            for specification in abbreviation.attributes() {
                let attribute = entries.read_attribute(*specification)?;
                match attribute.name() {
                    gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => {
                        place = self.target(unit, attribute.value());
                    }
                    _ => is_enough |= each((unit, entry), &attribute, budget)?,
                }
            }
            if is_enough {
                break;
            }
        }
        Ok(())
    }

    /// The entry that an attribute of a unit refers to.
    fn target<'u>(
        &'u self,
        unit: UnitRef<'u, Slice<'a>>,
        value: AttributeValue<Slice<'a>>,
    ) -> Option<(UnitRef<'u, Slice<'a>>, UnitOffset)> {
        match value {
            AttributeValue::UnitRef(offset) => Some((unit, offset)),
            // References in a supplementary file stay in that file.
            AttributeValue::DebugInfoRef(offset) => {
                if self.dwarf.sup().is_some_and(|sup| std::ptr::eq(sup, unit.dwarf)) {
                    unit_at(unit.dwarf, &self.tables, &self.supplementary, |unit| unit, offset)
                } else {
                    unit_at(&self.dwarf, &self.tables, &self.units, |unit| &unit.skeleton, offset)
                }
            }
            AttributeValue::DebugInfoRefSup(offset) => {
                let sup = self.dwarf.sup()?;
                unit_at(sup, &self.tables, &self.supplementary, |unit| unit, offset)
            }
            _ => None,
        }
    }
}

/// Appends a part to a path. An error if the path gets longer than any name may be.
fn add_to_path(path: &mut String, part: &str, budget: &mut Budget) -> Result<(), Flaw> {
    if path.len() + part.len() > MAX_NAME_BYTES {
        budget.take(path.len() as u64)?;
        return Err(Flaw::TooMuch);
    }
    if !path.is_empty() {
        path.push_str("::");
    }
    path.push_str(part);
    Ok(())
}

/// The unit that holds an offset in `.debug_info`, and the offset within it. `units` are by offset.
fn unit_at<'u, 'a, T>(
    dwarf: &'u DwarfOf<'a>,
    tables: &AbbreviationTables,
    units: &'u [T],
    unit_of: impl for<'t> Fn(&'t T) -> &'t LazyUnit<'a>,
    offset: DebugInfoOffset,
) -> Option<(UnitRef<'u, Slice<'a>>, UnitOffset)> {
    let after = units.partition_point(|unit| unit_of(unit).header.debug_info_offset() <= Some(offset));
    let unit = unit_of(units.get(after.checked_sub(1)?)?);
    let within = offset.to_unit_offset(&unit.header)?;
    Some((UnitRef::new(dwarf, unit.get(dwarf, tables)?), within))
}
