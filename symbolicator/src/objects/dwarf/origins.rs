//! What an entry says of its function, and the entries that it refers to.

use gimli::{AttributeValue, DebugInfoOffset, UnitOffset, UnitRef};

use super::budget::Budget;
use super::lazy_unit::{AbbreviationTables, DwarfOf, LazyUnit};
use super::lines::path_in;
use super::names::text;
use super::scopes::{ScopeName, part_of_path};
use super::store::Slice;
use super::units::{Described, EntryName, Units};
use crate::demangle::{demangle, is_mangled};

/// References that are followed from entry to entry for a name. Valid chains have two or three.
const MAX_HOPS: usize = 16;

/// Linkage names that are known to be readable or not, at most.
const MAX_KNOWN: usize = 100_000;

impl<'a> Units<'a> {
    /// Names and source file of an entry's function. Inlined calls and definitions refer to another entry for theirs.
    pub(super) fn describe(&self, index: usize, entry: UnitOffset) -> gimli::Result<Described<'a, '_>> {
        let unit = self.units.get(index);
        let place = unit.and_then(|unit| Some((unit.unit_ref(&self.dwarf, &self.tables)?, entry)));
        place.map_or(Ok(Described::default()), |place| self.describe_at(index, place))
    }

    fn describe_at<'u>(
        &'u self,
        index: usize,
        place: (UnitRef<'u, Slice<'a>>, UnitOffset),
    ) -> gimli::Result<Described<'a, 'u>> {
        let mut found = Described::default();
        self.attributes(place, |(unit, entry), attribute| {
            match (attribute.name(), attribute.value()) {
                (gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name, name) if found.linkage.is_none() => {
                    found.linkage = unit.attr_string(name).ok();
                }
                (gimli::DW_AT_name, name) if found.plain.is_none() => {
                    found.plain = unit.attr_string(name).ok();
                    found.named_at = Some((unit, entry));
                }
                (gimli::DW_AT_decl_file, AttributeValue::FileIndex(path)) if found.file.is_none() => {
                    found.file = self.path(index, unit, path);
                }
                _ => {}
            }
            found.linkage.is_some() && found.file.is_some()
        })?;
        Ok(found)
    }

    /// The name of a described function.
    pub(super) fn name(&self, described: &Described<'a, '_>, budget: &mut Budget) -> Option<EntryName<'a>> {
        let (linkage, plain) = (described.linkage, described.plain);
        let name = |best, scope| EntryName { best, plain, scope };
        if let Some(linkage) = linkage
            && (plain.is_none() || self.is_readable(linkage))
        {
            return Some(name(linkage, None));
        }
        let scope = described.named_at.and_then(|at| self.scope(at, budget, 0));
        Some(name(plain?, scope))
    }

    /// False for a linkage name that stays mangled.
    fn is_readable(&self, linkage: Slice<'a>) -> bool {
        let mut known = self.readable.borrow_mut();
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        let is_readable = || !is_mangled(&demangle(&text(linkage)));
        *known.entry(linkage.slice().as_ptr().addr()).or_insert_with(is_readable)
    }

    /// The namespaces, classes and functions around an entry, as demanglers write them.
    fn scope(
        &self,
        (unit, entry): (UnitRef<'_, Slice<'a>>, UnitOffset),
        budget: &mut Budget,
        depth: usize,
    ) -> Option<String> {
        let scopes = self.scopes.borrow_mut().of(unit, budget);
        let parts = scopes.around(entry).into_iter().map(|scope| match scope {
            ScopeName::Namespace(name) => Some(part_of_path(name, true)),
            ScopeName::Type(name) => Some(part_of_path(name, false)),
            ScopeName::Function(function) => self.function_around((unit, function), budget, depth),
        });
        // A function has its own path.
        let parts: Vec<String> = parts.collect::<Option<_>>()?;
        let from = scopes
            .around(entry)
            .iter()
            .rposition(|scope| matches!(scope, ScopeName::Function(_)));
        let path = parts[from.unwrap_or(0)..].join("::");
        (!path.is_empty()).then_some(path)
    }

    /// The name of a function that holds a type, with its path.
    fn function_around(
        &self,
        place: (UnitRef<'_, Slice<'a>>, UnitOffset),
        budget: &mut Budget,
        depth: usize,
    ) -> Option<String> {
        // Of the file itself: source files are not asked for.
        let described = self.describe_at(usize::MAX, place).ok()?;
        if let Some(linkage) = described.linkage.filter(|linkage| self.is_readable(*linkage)) {
            return Some(demangle(&text(linkage)));
        }
        let plain = text(described.plain?).into_owned();
        let around = described.named_at.filter(|_| depth < MAX_HOPS);
        Some(match around.and_then(|at| self.scope(at, budget, depth + 1)) {
            Some(scope) => format!("{scope}::{plain}"),
            None => plain,
        })
    }

    /// The path of a file that an attribute in `unit` refers to.
    fn path(&self, index: usize, unit: UnitRef<'_, Slice<'a>>, file: u64) -> Option<String> {
        // Split units have no line table: that of the main file has their files. Other units without one name no files.
        let skeleton = || self.units.get(index)?.skeleton.get(&self.dwarf, &self.tables);
        let table = match unit.line_program {
            Some(_) => Some(unit),
            None if unit.dwo_id.is_some() => skeleton().map(|skeleton| UnitRef::new(&self.dwarf, skeleton)),
            None => None,
        };
        // 0 is "no file" before DWARF 5.
        let is_known = file > 0 || unit.header.version() >= 5;
        table.filter(|_| is_known).and_then(|table| path_in(table, file))
    }

    /// Calls `each` with the attributes of an entry, then with those of the entries that it refers to, until `each` was
    /// true of an entry.
    fn attributes<'u>(
        &'u self,
        place: (UnitRef<'u, Slice<'a>>, UnitOffset),
        mut each: impl FnMut((UnitRef<'u, Slice<'a>>, UnitOffset), &gimli::Attribute<Slice<'a>>) -> bool,
    ) -> gimli::Result<()> {
        let mut place = Some(place);
        for _ in 0..MAX_HOPS {
            let Some((unit, entry)) = place.take() else {
                break;
            };
            let mut entries = unit.entries_raw(Some(entry))?;
            let Some(abbreviation) = entries.read_abbreviation()? else {
                break;
            };
            let mut is_enough = false;
            for specification in abbreviation.attributes() {
                let attribute = entries.read_attribute(*specification)?;
                match attribute.name() {
                    gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => {
                        place = self.target(unit, attribute.value());
                    }
                    _ => is_enough |= each((unit, entry), &attribute),
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
                match self.dwarf.sup().is_some_and(|sup| std::ptr::eq(sup, unit.dwarf)) {
                    true => unit_at(unit.dwarf, &self.tables, &self.supplementary, |unit| unit, offset),
                    false => unit_at(&self.dwarf, &self.tables, &self.units, |unit| &unit.skeleton, offset),
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
