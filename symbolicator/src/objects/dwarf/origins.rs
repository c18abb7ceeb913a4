//! What an entry says of its function, and the entries that it refers to.

use gimli::{AttributeValue, DebugInfoOffset, UnitOffset, UnitRef};

use super::lazy_unit::{AbbreviationTables, DwarfOf, LazyUnit};
use super::lines::path_in;
use super::store::Slice;
use super::units::{Described, EntryName, Units};

/// References that are followed from entry to entry for a name. Valid chains have two or three.
const MAX_HOPS: usize = 16;

impl<'a> Units<'a> {
    /// Name and source file of an entry's function. Inlined calls and definitions refer to another entry for theirs.
    pub(super) fn describe(&self, index: usize, entry: UnitOffset) -> gimli::Result<Described<'a>> {
        let (mut linkage, mut plain, mut file) = (None, None, None);
        self.attributes(index, entry, |unit, attribute| {
            match (attribute.name(), attribute.value()) {
                (gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name, name) if linkage.is_none() => {
                    linkage = unit.attr_string(name).ok();
                }
                (gimli::DW_AT_name, name) if plain.is_none() => plain = unit.attr_string(name).ok(),
                (gimli::DW_AT_decl_file, AttributeValue::FileIndex(path)) if file.is_none() => {
                    file = self.path(index, unit, path);
                }
                _ => {}
            }
            linkage.is_some() && file.is_some()
        })?;
        let name = linkage.or(plain).map(|best| EntryName { best, plain });
        Ok(Described { name, file })
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

    /// Calls `each` with the attributes of an entry, then with those of the entries that it refers to, until `each` was true of an entry.
    fn attributes(
        &self,
        index: usize,
        entry: UnitOffset,
        mut each: impl FnMut(UnitRef<'_, Slice<'a>>, &gimli::Attribute<Slice<'a>>) -> bool,
    ) -> gimli::Result<()> {
        let unit = self.units.get(index);
        let mut place = unit.and_then(|unit| Some((unit.unit_ref(&self.dwarf, &self.tables)?, entry)));
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
                    _ => is_enough |= each(unit, &attribute),
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
