//! Inline frames, files and lines from DWARF.
//!
//! gimli parses sections, entries and the headers of line programs. The tables over them are our own: they must not
//! recurse or grow without bound in hostile files, they must look up only the names that a batch of addresses needs,
//! and they must know the bounds of a function without a symbol table.
//!
//! addr2line is the reference of the tests: no difference at 20,000 addresses of a binary of 213 MB. It does not serve
//! here, because it recurses as deep as the inlined calls of a file, so that a damaged file ends the process. Of a
//! debug build of 182 MB sprof needs 0.045 s of CPU time for 100 addresses, 0.22 s for 10,000, and 0.02 s for those
//! that the cache has. addr2line needs 0.10 s and 0.36 s, with 257 instead of 198 MB of memory
//! (examples/random_addresses.rs, whole processes). On two free CPUs the 10,000 take 0.69 of the time that they take on
//! one, with 5 % more CPU time (medians of 15 runs, under SCHED_FIFO: the machine was not idle).
//!
//! `store` (sections) -> `units` (which unit; `aranges`) -> `unit` -> `functions` (which function, which inlined calls)
//! and `lines` (`line_program`); names through `origins`. `scopes` has the namespaces and classes of functions without
//! a linkage name. `prepared` asks several units at once.

mod aranges;
mod budget;
mod functions;
mod inlined;
mod lazy_unit;
mod line_program;
mod lines;
mod names;
mod origins;
mod prepared;
mod ranges;
mod scopes;
mod store;
mod unit;
mod units;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use ::names::rust_crate;
use ::names::symbol::{FunctionSymbol, SourceFrame};
use gimli::DwarfPackage;
use typed_arena::Arena;

use self::budget::Budget;
use self::names::{DemangledNames, EntryName};
pub(super) use self::store::reads_section;
use self::store::{SectionStore, Slice};
use self::unit::SplitUnit;
use self::units::Units;
use crate::error::SymbolError;
use crate::files::object_file::ObjectFile;
use crate::files::separate::SplitDwarfPaths;

/// The files of a module's debug info.
pub(super) struct DwarfFiles {
    /// The file with `.debug_info`.
    pub(super) main: Arc<ObjectFile>,
    /// The file that dwz moved common debug info to.
    pub(super) supplementary: Option<Arc<ObjectFile>>,
    /// Paths of split DWARF.
    pub(super) split: SplitDwarfPaths,
    /// See [`SymbolOptions::cache`](crate::SymbolOptions::cache).
    pub(super) cache: Option<PathBuf>,
}

/// The units over the sections of a [`SectionStore`].
struct DwarfTables<'a> {
    units: Units<'a>,
    package: Option<DwarfPackage<Slice<'a>>>,
    /// Bytes of debug info, without `.dwo` files.
    size: u64,
}

self_cell::self_cell!(
    struct Cell {
        owner: SectionStore,
        #[not_covariant]
        dependent: DwarfTables,
    }
);

/// The debug info of one module. A unit is read at the first look-up of one of its addresses.
pub(crate) struct Dwarf {
    cell: Cell,
    base_svma: u64,
    split: SplitDwarfPaths,
    names: DemangledNames,
    budget: Budget,
    /// `.dwo` files that were not found.
    missing_dwo: Vec<PathBuf>,
}

impl Dwarf {
    /// Reads the unit headers.
    pub(super) fn open(files: DwarfFiles) -> Result<Dwarf, SymbolError> {
        let DwarfFiles {
            main,
            supplementary,
            split,
            cache,
        } = files;
        let base_svma = main.base_svma();
        let store = SectionStore {
            package: split.package(),
            main,
            supplementary,
            opened: Arena::new(),
            unpacked: Arena::new(),
            cache,
            held_bytes: std::cell::Cell::default(),
        };
        let mut budget = Budget::for_bytes(0);
        let lowest_code = u64::from(!store.main.is_unlinked());
        let cell = Cell::try_new(store, |store| {
            let mut dwarf = store.load(&store.main)?;
            if let Some(supplementary) = &store.supplementary {
                dwarf.set_sup(store.load(supplementary)?);
            }
            let size = debug_bytes(&dwarf) + dwarf.sup().map_or(0, debug_bytes);
            budget = Budget::for_bytes(size).with_code_from(lowest_code);
            Ok::<_, SymbolError>(DwarfTables {
                units: Units::open(dwarf, size, &mut budget),
                package: store.load_package(),
                size,
            })
        })?;
        Ok(Dwarf {
            cell,
            base_svma,
            split,
            names: DemangledNames::default(),
            budget,
            missing_dwo: Vec::new(),
        })
    }

    /// The file with `.debug_info`.
    pub(super) fn main_file(&self) -> &ObjectFile {
        &self.cell.borrow_owner().main
    }

    /// The supplementary file and the package of split debug info.
    pub(super) fn files_beside(&self) -> impl Iterator<Item = &ObjectFile> {
        let store = self.cell.borrow_owner();
        store.supplementary.iter().map(|file| &**file).chain(&store.package)
    }

    /// Heap bytes, about: what was read of units is not counted one by one.
    pub(super) fn held_bytes(&self) -> usize {
        let tables = self.cell.with_dependent(|_, tables| tables.units.held_bytes());
        let store = self.cell.borrow_owner();
        store.held_bytes.get() + tables + self.budget.held_bytes() + self.names.held_bytes()
    }

    /// Starts a batch of look-ups, which may do a bounded amount of work.
    pub(super) fn begin_batch(&mut self) {
        let size = self.cell.with_dependent(|_, tables| tables.size);
        self.budget.begin_batch(size);
    }

    /// Looks up relative addresses of a batch on several threads, so that [`Dwarf::find`] has their answers. Runs
    /// `first` meanwhile.
    pub(super) fn prepare(&mut self, addresses: &[u64], first: impl FnOnce()) {
        let base = self.base_svma;
        let svmas: Vec<u64> = addresses.iter().map(|address| address.wrapping_add(base)).collect();
        let budget = &mut self.budget;
        self.cell
            .with_dependent_mut(|_, tables| tables.units.prepare(&svmas, budget, first));
    }

    /// The frames at a relative address, innermost first, and the outer function. Both are empty if the debug info has
    /// neither.
    pub(super) fn find(&mut self, address: u64) -> (Vec<SourceFrame>, Option<FunctionSymbol>) {
        let svma = address.wrapping_add(self.base_svma);
        let base_svma = self.base_svma;
        let Dwarf {
            cell,
            split,
            names,
            budget,
            missing_dwo,
            ..
        } = self;
        cell.with_dependent_mut(|store, tables| {
            let package = tables.package.as_ref();
            let found = tables.units.find(svma, budget, |dwarf, skeleton| {
                load_split(store, package, split, dwarf, skeleton, missing_dwo)
            });
            let frames: Vec<SourceFrame> = found
                .frames
                .into_iter()
                .map(|(frame, name)| {
                    let function = name.as_ref().and_then(|name| names.demangled(name));
                    SourceFrame {
                        krate: crate_of(name.as_ref(), function.as_deref(), frame.function_file()),
                        function,
                        ..frame
                    }
                })
                .collect();
            let outer = frames
                .last()
                .and_then(|outer| Some((outer.function.clone()?, outer.krate.clone())));
            let function = (found.function.zip(outer)).map(|((begin, size), (name, krate))| FunctionSymbol {
                krate,
                ..FunctionSymbol::named(name, begin.wrapping_sub(base_svma), Some(size))
            });
            (frames, function)
        })
    }

    /// The relative addresses of the other parts of the function that holds a relative address.
    pub(super) fn other_parts(&mut self, address: u64) -> Vec<Range<u64>> {
        let base = self.base_svma;
        // The function is read here: its names may be of an earlier start.
        self.find(address);
        let parts = (self.cell).with_dependent(|_, tables| tables.units.other_parts(address.wrapping_add(base)));
        let relative = |part: Range<u64>| Some(part.start.checked_sub(base)?..part.end.checked_sub(base)?);
        parts.into_iter().filter_map(relative).collect()
    }

    /// How many calls of a function were inlined.
    pub(crate) fn inlined_copies(&mut self, is_meant: impl Fn(&str) -> bool) -> u64 {
        self.begin_batch();
        let budget = &mut self.budget;
        self.cell
            .with_dependent(|_, tables| inlined::count(&tables.units, budget, is_meant))
    }

    /// Damage found since the last call, each as a sentence.
    pub(super) fn take_flaws(&mut self) -> Vec<String> {
        self.cell.with_dependent_mut(|store, tables| {
            let path = store.main.path().display();
            let flaws = tables.units.take_flaws();
            flaws.iter().map(|flaw| format!("{path}: {flaw}")).collect()
        })
    }

    /// True if a part of the debug info is in files of its own (`.dwo`, `.dwp`).
    pub(super) fn is_split(&self) -> bool {
        let store = self.cell.borrow_owner();
        store.package.is_some() || store.opened.len() > 0 || !self.missing_dwo.is_empty()
    }

    /// `.dwo` files that were needed and not found: functions inlined in their units are missing.
    pub(super) fn missing_dwo(&self) -> &[PathBuf] {
        &self.missing_dwo
    }
}

/// The crate of a function, by its linkage name and its source.
fn crate_of(name: Option<&EntryName<'_>>, demangled: Option<&str>, source: Option<&str>) -> Option<String> {
    let mangled = name.and_then(|name| std::str::from_utf8(name.best.slice()).ok());
    rust_crate::of_function(mangled.unwrap_or_default(), demangled.unwrap_or_default(), source)
}

fn debug_bytes(dwarf: &gimli::Dwarf<Slice<'_>>) -> u64 {
    use gimli::Section;
    let sections = [
        dwarf.debug_info.reader().len(),
        dwarf.debug_abbrev.reader().len(),
        dwarf.debug_line.reader().len(),
        dwarf.debug_aranges.reader().len(),
        dwarf.ranges.debug_ranges().reader().len(),
        dwarf.ranges.debug_rnglists().reader().len(),
    ];
    sections.iter().map(|bytes| *bytes as u64).sum()
}

/// The split part of a unit, from the package or its own file, if it has the id that the skeleton names.
fn load_split<'a>(
    store: &'a SectionStore,
    package: Option<&DwarfPackage<Slice<'a>>>,
    split: &SplitDwarfPaths,
    parent: &gimli::Dwarf<Slice<'a>>,
    skeleton: &gimli::Unit<Slice<'a>>,
    missing: &mut Vec<PathBuf>,
) -> Option<SplitUnit<'a>> {
    let id = skeleton.dwo_id?;
    let open = |dwarf: gimli::Dwarf<Slice<'a>>| {
        let header = dwarf.units().next().ok()??;
        let mut unit = dwarf.unit(header).ok()?;
        if unit.dwo_id != Some(id) {
            return None;
        }
        unit.copy_relocated_attributes(skeleton);
        Some(SplitUnit {
            dwarf: Arc::new(dwarf),
            unit,
        })
    };
    if let Some(package) = package
        && let Ok(Some(dwarf)) = package.find_cu(id, parent)
        && let Some(found) = open(dwarf)
    {
        return Some(found);
    }
    let name = skeleton.dwo_name().ok()??;
    let name = parent.attr_string(skeleton, name).ok()?.to_string_lossy().into_owned();
    let folder = skeleton.comp_dir.map(|folder| folder.to_string_lossy().into_owned());
    let candidates = split.dwo(folder.as_deref(), &name);
    for path in &candidates {
        let Ok(file) = ObjectFile::open_copied(path) else {
            continue;
        };
        let Ok(mut dwarf) = store.load_dwo(store.keep(file)) else {
            continue;
        };
        dwarf.make_dwo(parent);
        if let Some(found) = open(dwarf) {
            return Some(found);
        }
    }
    missing.push(candidates.into_iter().next().unwrap_or_else(|| PathBuf::from(name)));
    None
}
