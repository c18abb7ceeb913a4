//! Inline frames, files and lines from DWARF, by addr2line.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::{Context, LookupContinuation, LookupResult, SplitDwarfLoad};
use gimli::{DwarfPackage, EndianSlice, RunTimeEndian, SectionId};
use object::Object;
use recording::symbol::SourceFrame;
use typed_arena::Arena;

use super::file::ElfFile;
use super::names::Names;
use crate::error::SymbolError;
use crate::locate::SplitDwarfPaths;

/// DWARF bytes, borrowed from the mapped file or from what was unpacked of it.
pub(super) type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

/// Frames deeper than this are cut: only damaged DWARF has them.
const MAX_FRAMES: usize = 512;

/// Where the sections are kept alive, also those of `.dwo` files that a look-up opens.
struct Store {
    main: Arc<ElfFile>,
    supplementary: Option<Arc<ElfFile>>,
    package: Option<ElfFile>,
    opened: Arena<ElfFile>,
    unpacked: Arena<Vec<u8>>,
}

impl Store {
    fn section<'a>(&'a self, file: &'a ElfFile, name: &str) -> Result<Slice<'a>, SymbolError> {
        let bytes: &'a [u8] = match file.section(name)? {
            Cow::Borrowed(bytes) => bytes,
            Cow::Owned(bytes) => self.unpacked.alloc(bytes),
        };
        let endian = match file.object()?.is_little_endian() {
            true => RunTimeEndian::Little,
            false => RunTimeEndian::Big,
        };
        Ok(EndianSlice::new(bytes, endian))
    }

    fn load<'a>(&'a self, file: &'a ElfFile) -> Result<gimli::Dwarf<Slice<'a>>, SymbolError> {
        gimli::Dwarf::load(|id| match needed(id) {
            true => self.section(file, id.name()),
            false => Ok(EndianSlice::new(&[], RunTimeEndian::Little)),
        })
    }

    fn load_dwo<'a>(&'a self, file: &'a ElfFile) -> Result<gimli::Dwarf<Slice<'a>>, SymbolError> {
        gimli::Dwarf::load(|id| match (needed(id), id.dwo_name()) {
            (true, Some(name)) => self.section(file, name),
            _ => Ok(EndianSlice::new(&[], RunTimeEndian::Little)),
        })
    }
}

/// Sections that a look-up reads. The others (variables' locations, macros) may be large and are not unpacked.
fn needed(id: SectionId) -> bool {
    !matches!(
        id,
        SectionId::DebugLoc
            | SectionId::DebugLocLists
            | SectionId::DebugMacinfo
            | SectionId::DebugMacro
            | SectionId::DebugNames
            | SectionId::DebugPubNames
            | SectionId::DebugPubTypes
            | SectionId::DebugTypes
    )
}

/// addr2line's tables over the sections of a [`Store`].
struct Tables<'a> {
    context: Context<Slice<'a>>,
    package: Option<DwarfPackage<Slice<'a>>>,
}

self_cell::self_cell!(
    struct Cell {
        owner: Store,
        #[not_covariant]
        dependent: Tables,
    }
);

/// What the debug info of a module is made of.
pub(super) struct DwarfFiles {
    /// The file with `.debug_info`.
    pub(super) main: Arc<ElfFile>,
    /// What dwz moved out of it.
    pub(super) supplementary: Option<Arc<ElfFile>>,
    /// Where the parts of split DWARF may be.
    pub(super) split: SplitDwarfPaths,
}

/// The debug info of one module. Units are parsed when an address first falls into them.
pub(crate) struct Dwarf {
    cell: Cell,
    base_svma: u64,
    split: SplitDwarfPaths,
    names: Names,
    /// `.dwo` files that could not be had.
    missing_dwo: Vec<PathBuf>,
}

impl Dwarf {
    /// Reads the unit headers.
    pub(super) fn open(files: DwarfFiles) -> Result<Dwarf, SymbolError> {
        let DwarfFiles {
            main,
            supplementary,
            split,
        } = files;
        let path = main.path().to_owned();
        let base_svma = main.base_svma();
        let store = Store {
            package: split.package(),
            main,
            supplementary,
            opened: Arena::new(),
            unpacked: Arena::new(),
        };
        let cell = Cell::try_new(store, |store| {
            let mut dwarf = store.load(&store.main)?;
            if let Some(supplementary) = &store.supplementary {
                dwarf.set_sup(store.load(supplementary)?);
            }
            let context = Context::from_dwarf(dwarf).map_err(|error| damaged(&path, &error))?;
            let package = match &store.package {
                Some(file) => {
                    let empty = EndianSlice::new(&[], RunTimeEndian::Little);
                    // A package that can't be read is no worse than none: its units keep their symbol names.
                    DwarfPackage::load(
                        |id| match id.dwo_name() {
                            Some(name) if needed(id) => store.section(file, name).map_err(|_| gimli::Error::Io),
                            _ => Ok(empty),
                        },
                        empty,
                    )
                    .ok()
                }
                None => None,
            };
            Ok::<_, SymbolError>(Tables { context, package })
        })?;
        Ok(Dwarf {
            cell,
            base_svma,
            split,
            names: Names::default(),
            missing_dwo: Vec::new(),
        })
    }

    /// The frames at a relative address, innermost first. Empty where the debug info says nothing.
    pub(crate) fn frames(&mut self, address: u64) -> Result<Vec<SourceFrame>, SymbolError> {
        let svma = address.wrapping_add(self.base_svma);
        let (split, names, missing) = (&self.split, &mut self.names, &mut self.missing_dwo);
        self.cell.with_dependent(|store, tables| {
            let mut lookup = tables.context.find_frames(svma);
            let frames = loop {
                match lookup {
                    LookupResult::Output(frames) => break frames,
                    LookupResult::Load { load, continuation } => {
                        let dwo = load_split(store, tables, split, &load, missing);
                        lookup = continuation.resume(dwo);
                    }
                }
            };
            let damaged = |error| damaged(store.main.path(), &error);
            let mut frames = frames.map_err(damaged)?;
            let mut out = Vec::new();
            while let Some(frame) = frames.next().map_err(damaged)? {
                let location = frame.location;
                let file = location.as_ref().and_then(|location| location.file);
                out.push(SourceFrame {
                    function: frame
                        .function
                        .and_then(|function| names.demangled(function.name.slice())),
                    file: file.filter(|file| !file.is_empty()).map(str::to_owned),
                    line: location.as_ref().and_then(|location| location.line),
                    column: location
                        .as_ref()
                        .and_then(|location| location.column)
                        .filter(|column| *column > 0),
                });
                if out.len() >= MAX_FRAMES {
                    break;
                }
            }
            Ok(out)
        })
    }

    /// The `.dwo` files that were asked for and not found: functions inlined in their units are not shown.
    pub(crate) fn missing_dwo(&self) -> &[PathBuf] {
        &self.missing_dwo
    }
}

fn damaged(path: &Path, error: &gimli::Error) -> SymbolError {
    SymbolError::unreadable(path, format!("damaged debug info: {error}"))
}

/// The split part of a unit, from the package or from its own file, if it is the one that the skeleton names.
fn load_split<'a>(
    store: &'a Store,
    tables: &Tables<'a>,
    split: &SplitDwarfPaths,
    load: &SplitDwarfLoad<Slice<'a>>,
    missing: &mut Vec<PathBuf>,
) -> Option<Arc<gimli::Dwarf<Slice<'a>>>> {
    if let Some(package) = &tables.package
        && let Ok(Some(dwarf)) = package.find_cu(load.dwo_id, &load.parent)
    {
        return Some(Arc::new(dwarf));
    }
    let text = |slice: Option<Slice<'a>>| slice.map(|slice| slice.to_string_lossy().into_owned());
    let name = text(load.path)?;
    let candidates = split.dwo(text(load.comp_dir).as_deref(), &name);
    for path in &candidates {
        let Ok(file) = ElfFile::open(path) else { continue };
        let Ok(mut dwarf) = store.load_dwo(store.opened.alloc(file)) else {
            continue;
        };
        dwarf.make_dwo(&load.parent);
        let id = dwarf
            .units()
            .next()
            .ok()
            .flatten()
            .and_then(|header| dwarf.unit(header).ok()?.dwo_id);
        if id == Some(load.dwo_id) {
            return Some(Arc::new(dwarf));
        }
    }
    missing.push(candidates.into_iter().next().unwrap_or_else(|| PathBuf::from(name)));
    None
}
