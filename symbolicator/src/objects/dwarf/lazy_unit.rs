//! A unit of debug info whose first entry is read when it is needed, and the tables of abbreviations that this takes.

use std::cell::OnceCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimli::{Reader, Section};
use rustc_hash::FxHashMap;

use super::budget::{FLOOR, Flaw};
use super::store::Slice;

pub(super) type DwarfOf<'a> = gimli::Dwarf<Slice<'a>>;
pub(super) type GimliUnit<'a> = gimli::Unit<Slice<'a>>;

/// A unit whose first entry is read when it is needed: its table of abbreviations is the most of the work. Debian's
/// libc has 1,900 units, and a profile needs 30 of them.
pub(super) struct LazyUnit<'a> {
    pub(super) header: gimli::UnitHeader<Slice<'a>>,
    /// `None` where it is damaged.
    read: OnceCell<Option<Box<GimliUnit<'a>>>>,
}

impl<'a> LazyUnit<'a> {
    pub(super) fn new(header: gimli::UnitHeader<Slice<'a>>) -> LazyUnit<'a> {
        LazyUnit {
            header,
            read: OnceCell::new(),
        }
    }

    pub(super) fn get(&self, dwarf: &DwarfOf<'a>, tables: &AbbreviationTables) -> Option<&GimliUnit<'a>> {
        let read = || {
            let table = tables.get(dwarf, &self.header)?;
            tables.take_first_entry(&self.header, &table)?;
            let unit = gimli::Unit::new_with_abbreviations(dwarf, self.header, table);
            unit.map_err(|error| tables.lock().flaws.push(error.into()))
                .ok()
                .map(Box::new)
        };
        self.read.get_or_init(read).as_deref()
    }
}

/// The tables of abbreviations that were read. After dwz, many units share one, which may be looked up from several
/// threads.
pub(super) struct AbbreviationTables(Mutex<TablesRead>);

struct TablesRead {
    known: FxHashMap<usize, Option<Arc<gimli::Abbreviations>>>,
    /// Bytes that may still be read: tables of hostile files overlap.
    left: u64,
    read: u64,
    flaws: Vec<Flaw>,
}

impl AbbreviationTables {
    /// For debug info of this many bytes. Tables unpack to 30 times their size.
    pub(super) fn for_bytes(bytes: u64) -> AbbreviationTables {
        AbbreviationTables(Mutex::new(TablesRead {
            known: FxHashMap::default(),
            left: bytes.saturating_add(FLOOR),
            read: 0,
            flaws: Vec::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, TablesRead> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that were read.
    pub(super) fn read(&self) -> u64 {
        self.lock().read
    }

    /// Damage found since the last call.
    pub(super) fn take_flaws(&self) -> Vec<Flaw> {
        std::mem::take(&mut self.lock().flaws)
    }

    /// Takes the work for the attributes of a unit's first entry; `None` if none is left. Many units may share one
    /// entry of 100,000 attributes that have no bytes.
    fn take_first_entry(&self, header: &gimli::UnitHeader<Slice<'_>>, table: &gimli::Abbreviations) -> Option<()> {
        const USUAL: usize = 64;
        let code = header.range_from(header.root_offset()..).ok()?.read_uleb128().ok()?;
        let attributes = table.get(code).map_or(0, |entry| entry.attributes().len());
        let mut tables = self.lock();
        let left = tables.left.checked_sub(attributes.saturating_sub(USUAL) as u64);
        tables.left = left.unwrap_or(0);
        if left.is_none() {
            tables.flaws.push(Flaw::TooMuch);
        }
        left.map(drop)
    }

    fn get(&self, dwarf: &DwarfOf<'_>, header: &gimli::UnitHeader<Slice<'_>>) -> Option<Arc<gimli::Abbreviations>> {
        let offset = header.debug_abbrev_offset();
        // The supplementary file has tables at the same offsets.
        let table = dwarf.debug_abbrev.reader().slice().as_ptr() as usize;
        let mut tables = self.lock();
        let TablesRead {
            known,
            left,
            read,
            flaws,
        } = &mut *tables;
        let read = || {
            if *left == 0 {
                return None;
            }
            let bytes = abbreviations_bytes(dwarf, offset);
            let rest = left.checked_sub(bytes);
            *read = read.saturating_add(bytes);
            *left = rest.unwrap_or(0);
            let table = match rest {
                Some(_) => header.abbreviations(&dwarf.debug_abbrev).map_err(Flaw::from),
                None => Err(Flaw::TooMuch),
            };
            table.map_err(|flaw| flaws.push(flaw)).ok().map(Arc::new)
        };
        known.entry(table.wrapping_add(offset.0)).or_insert_with(read).clone()
    }
}

/// The size of a table of abbreviations (DWARF 5, 7.5.3), up to the damage if it is damaged.
fn abbreviations_bytes(dwarf: &DwarfOf<'_>, offset: gimli::DebugAbbrevOffset) -> u64 {
    let mut rest = *dwarf.debug_abbrev.reader();
    if rest.skip(offset.0).is_err() {
        return 0;
    }
    let before = rest.len();
    let _ = skip_abbreviations(&mut rest);
    (before - rest.len()) as u64
}

fn skip_abbreviations(table: &mut Slice<'_>) -> gimli::Result<()> {
    while table.read_uleb128()? != 0 {
        table.read_uleb128()?; // tag
        table.skip(1)?; // children
        loop {
            let (name, form) = (table.read_uleb128()?, table.read_uleb128()?);
            if form == u64::from(gimli::DW_FORM_implicit_const.0) {
                table.read_sleb128()?;
            }
            if (name, form) == (0, 0) {
                break;
            }
        }
    }
    Ok(())
}
