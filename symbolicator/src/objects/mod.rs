//! Modules that are ELF or Mach-O files: symbol tables and DWARF, read at the first look-up that no earlier start has
//! answered.

mod answers;
mod by_address;
mod debug_info;
mod dwarf;
mod dynamic;
pub(crate) mod extent;
mod lookup;
mod mach_o;
mod plt;
pub(crate) mod relocatable;
mod symbol;
mod symtab;

use std::ops::Range;
use std::sync::Arc;

use names::symbol::{ENTRY_POINT, FunctionSymbol, SymbolSource};
use recording::module::Module;
use recording::sink::KeptFile;
use rustc_hash::FxHashMap;
use unwind::Functions;

use self::answers::AnswerCache;
use self::debug_info::DebugInfo;
use self::dwarf::{Dwarf, DwarfFiles};
use self::extent::EndEvidence;
use self::mach_o::debug_map::DebugMap;
use self::symtab::SymbolTable;
use crate::demangle::demangle;
use crate::error::SymbolError;
use crate::files::locate::{self, LocatedFiles};
use crate::files::object_file::ObjectFile;
use crate::files::options::SymbolOptions;
use crate::files::separate::{self, SplitDwarfPaths, Supplementary};

/// The files of one module, and what has been read of them.
pub(crate) struct ObjectModule {
    /// The file with the machine code.
    binary: Option<Arc<ObjectFile>>,
    /// Files with symbols; names of an earlier file are preferred.
    symbol_files: Vec<Arc<ObjectFile>>,
    symbols: Option<SymbolTable>,
    /// For functions without a symbol.
    functions: Option<Functions>,
    /// Ends of functions without a size, by their start.
    ends: FxHashMap<u64, u64>,
    /// Code without symbols and unwind rules, divided into functions, by the start of the gap.
    gaps: FxHashMap<u64, Vec<Range<u64>>>,
    /// File offsets of function names, by the address of the slot of the global offset table that has the function's
    /// address.
    slots: Option<FxHashMap<u64, u64>>,
    dwarf: DebugInfoStage,
    /// Answers of earlier starts. `None` where nothing is kept.
    kept: Option<AnswerCache>,
    /// Files that were not found, a sentence each.
    notes: Vec<String>,
    /// Files that could not be read, or not wholly, a sentence each.
    damage: Vec<String>,
}

/// How far the debug info was read.
enum DebugInfoStage {
    Unread(Option<Box<DwarfFiles>>),
    /// The module has no debug info that can be read.
    Absent,
    Read(DebugInfo),
}

impl ObjectModule {
    /// Finds and opens the files; reads only headers, and unpacks `.gnu_debugdata`.
    pub(crate) fn open(
        module: &Module,
        kept: Option<&KeptFile>,
        options: &SymbolOptions,
    ) -> Result<ObjectModule, SymbolError> {
        let LocatedFiles {
            binary,
            debug,
            not_used,
        } = locate::locate(module, kept, options)?;
        let mut module = ObjectModule::new(binary, debug, options);
        not_used.iter().for_each(|error| module.note_damage(error.to_string()));
        Ok(module)
    }

    /// A module whose files are known.
    pub(crate) fn new(binary: Option<ObjectFile>, debug: Option<ObjectFile>, options: &SymbolOptions) -> ObjectModule {
        let symbol_dirs = &options.symbol_dirs;
        let binary = binary.map(Arc::new);
        let debug = debug.map(Arc::new);
        let with_info = [&binary, &debug]
            .into_iter()
            .flatten()
            .find(|file| file.has_debug_info());
        let (mut notes, mut damage) = (Vec::new(), Vec::new());
        let mut sources: Vec<Arc<ObjectFile>> = [&binary, &debug].into_iter().flatten().cloned().collect();
        let unread = with_info.map(|file| {
            let supplementary = match separate::supplementary(file, options) {
                Supplementary::NotNeeded => None,
                Supplementary::Found(file) => {
                    let file = Arc::new(file);
                    sources.push(Arc::clone(&file));
                    Some(file)
                }
                Supplementary::Missing(path) => {
                    notes.push(format!(
                        "{} keeps names in {}, which was not found: inlined functions may have none; give its \
                         folder with --symbol-dir",
                        file.path().display(),
                        path.display()
                    ));
                    None
                }
            };
            let beside = binary.as_ref().unwrap_or(file).path().to_owned();
            Box::new(DwarfFiles {
                main: Arc::clone(file),
                supplementary,
                split: SplitDwarfPaths::new(beside, symbol_dirs.to_vec()),
                cache: options.cache.clone(),
            })
        });
        let mut symbol_files: Vec<Arc<ObjectFile>> = debug.iter().chain(&binary).cloned().collect();
        let mini = binary
            .as_ref()
            .filter(|_| !symbol_files.iter().any(|file| file.has_symbols()));
        match mini.and_then(|file| file.mini_debug_info()) {
            Some(Ok(mini)) => symbol_files.push(Arc::new(mini)),
            Some(Err(error)) => damage.push(error.to_string()),
            None => {}
        }
        let map = (binary.as_ref().filter(|_| unread.is_none())).and_then(|file| DebugMap::read(file, options));
        let kept = (options.cache.clone()).and_then(|dir| {
            let beside = map.as_ref().map(DebugMap::identity).unwrap_or_default();
            AnswerCache::new(dir, sources.iter().map(|file| &**file), &beside)
        });
        ObjectModule {
            symbol_files,
            kept,
            binary,
            symbols: None,
            functions: None,
            ends: FxHashMap::default(),
            gaps: FxHashMap::default(),
            slots: None,
            dwarf: match map {
                Some(map) => DebugInfoStage::Read(DebugInfo::Objects(Box::new(map))),
                None => DebugInfoStage::Unread(unread),
            },
            notes,
            damage,
        }
    }

    /// The file with the machine code, if it was found.
    pub(crate) fn binary(&self) -> Option<Arc<ObjectFile>> {
        self.binary.clone()
    }

    /// The files with symbol tables, those whose names count more first.
    pub(crate) fn symbol_files(&self) -> &[Arc<ObjectFile>] {
        &self.symbol_files
    }

    /// How many calls of a function were inlined, by the debug info; `is_meant` recognises its names.
    pub(crate) fn inlined_copies(&mut self, is_meant: impl Fn(&str) -> bool) -> u64 {
        self.dwarf().map_or(0, |dwarf| dwarf.inlined_copies(is_meant))
    }

    /// The function at a relative address: by symbol table, debug info, or unwind rules (without a name).
    pub(crate) fn function(&mut self, address: u64) -> Option<FunctionSymbol> {
        let by_symbol = self.by_symbol(address);
        let by_debug_info = by_symbol.or_else(|| self.dwarf()?.find(address).1);
        by_debug_info.or_else(|| self.unnamed(address))
    }

    /// The end of the function that holds a relative address: by its size, or the start of the next function, or the
    /// end of the section.
    pub(crate) fn function_end(&mut self, address: u64) -> Option<u64> {
        if let Some(dwarf) = self.dwarf() {
            dwarf.begin_batch();
        }
        let function = self.function(address)?;
        match function.size {
            Some(size) => function.start.checked_add(size),
            None => Some(self.end_without_size(function.start)),
        }
    }

    /// The other parts of the function that holds a relative address: by debug info, or by the names of symbols.
    pub(crate) fn other_parts(&mut self, address: u64) -> Vec<FunctionSymbol> {
        let ranges = self.dwarf().map_or(Vec::new(), |dwarf| {
            dwarf.begin_batch();
            dwarf.other_parts(address)
        });
        if ranges.is_empty() {
            return self.symbols().other_parts(address);
        }
        let mut named = |range: &Range<u64>| self.by_symbol(range.start).filter(|part| part.start == range.start);
        let symbol = |range: Range<u64>| FunctionSymbol {
            size: range.end.checked_sub(range.start),
            ..named(&range).unwrap_or_else(|| FunctionSymbol::unnamed(&range))
        };
        ranges.into_iter().map(symbol).collect()
    }

    /// The function whose address is in the slot of the global offset table at a relative address.
    pub(crate) fn slot(&mut self, address: u64) -> Option<String> {
        let file = self.binary.as_ref()?;
        let slots = self.slots.get_or_insert_with(|| match file.object() {
            Ok(object::File::MachO64(object)) => mach_o::symbols::slot_names(file, &object),
            Ok(object) => plt::slot_names(file, &object),
            Err(_) => FxHashMap::default(),
        });
        let name = slots.get(&address.checked_add(file.base_svma())?)?;
        Some(demangle(symbol::name_at(file, *name)))
    }

    /// The function of a symbol. One without a size, as of hand-written assembly, may end long before the next symbol.
    fn by_symbol(&mut self, address: u64) -> Option<FunctionSymbol> {
        let function = self.symbols().find(address)?;
        let holds = function.size.is_some() || address < self.end_without_size(function.start);
        holds.then_some(function)
    }

    /// The end of the function of a symbol without a size: by its unwind rules, or else by its code, and before the
    /// next function.
    fn end_without_size(&mut self, start: u64) -> u64 {
        if let Some(end) = self.ends.get(&start) {
            return *end;
        }
        let limit = self.symbols().limit(start);
        let end = match self.bounds_at(start) {
            Some(range) => range.end.min(limit),
            None => {
                let next = self.functions().and_then(|functions| functions.next_start(start));
                let limit = next.map_or(limit, |next| next.min(limit));
                self.with_code(start..limit, |arch, code| {
                    extent::end(start, limit, EndEvidence::Code(arch, code))
                })
                .unwrap_or_else(|| extent::end(start, limit, EndEvidence::Nothing))
            }
        };
        self.ends.insert(start, end);
        end
    }

    /// A function without a symbol, by its unwind rules or its code. The root of a stripped program's stacks is called
    /// `EntryPoint`.
    fn unnamed(&mut self, address: u64) -> Option<FunctionSymbol> {
        let range = self.bounds_at(address).or_else(|| self.in_gap(address))?;
        let entry = self.binary.as_ref().and_then(|file| file.entry());
        Some(if entry == Some(range.start) {
            FunctionSymbol::named(ENTRY_POINT.to_owned(), range.start, range.end.checked_sub(range.start))
        } else {
            FunctionSymbol::unnamed(&range)
        })
    }

    fn bounds_at(&mut self, address: u64) -> Option<Range<u64>> {
        self.functions()?.at(address)
    }

    /// The function at an address without symbol and unwind rules. The code that follows the last function with a
    /// symbol or a rule is divided into functions.
    fn in_gap(&mut self, address: u64) -> Option<Range<u64>> {
        let gap = self.symbols().gap(address)?;
        let without_rules = self.functions().map_or(0..u64::MAX, |functions| functions.gap(address));
        let limit = gap.end.min(without_rules.end);
        let start = gap.start.max(without_rules.start);
        let start = match self.symbols().find(start) {
            Some(function) if function.size.is_none() => self.end_without_size(function.start).max(start),
            _ => start,
        };
        if address.checked_sub(start)? > extent::MAX_GAP_BYTES {
            return None;
        }
        let mut functions = self.gaps.remove(&start).unwrap_or_default();
        let mut end = functions.last().map_or(start, |last| last.end);
        while end <= address {
            let first = self.with_code(end..limit, |arch, code| extent::first_in(arch?, code, end));
            let Some(function) = first.flatten().filter(|function| function.end > end) else {
                break;
            };
            end = function.end;
            functions.push(function);
        }
        let until = functions.partition_point(|function| function.start <= address);
        let found = until.checked_sub(1).and_then(|at| functions.get(at)).cloned();
        self.gaps.insert(start, functions);
        found.filter(|found| found.contains(&address))
    }

    /// Calls a function with the processor and the machine code of a range; `None` if the code is in no file.
    fn with_code<T>(&self, range: Range<u64>, use_it: impl FnOnce(Option<&str>, &[u8]) -> T) -> Option<T> {
        let binary = self.binary.as_deref()?;
        let range = extent::code_to_read(range.start, range.end);
        let size = range.end.checked_sub(range.start)?;
        let code = binary.code_at(&binary.object().ok()?, range.start, size)?;
        let size = usize::try_from(size).map_or(code.len(), |size| size.min(code.len()));
        Some(use_it(binary.arch(), &code[..size]))
    }

    fn functions(&mut self) -> Option<&Functions> {
        let binary = self.binary.as_deref()?;
        Some(self.functions.get_or_insert_with(|| Functions::read(binary)))
    }

    fn symbols(&mut self) -> &mut SymbolTable {
        self.symbols
            .get_or_insert_with(|| SymbolTable::read(&self.symbol_files))
    }

    fn dwarf(&mut self) -> Option<&mut DebugInfo> {
        if let DebugInfoStage::Unread(unread) = &mut self.dwarf {
            let opened = unread.take().map(|files| Dwarf::open(*files));
            self.dwarf = match opened {
                Some(Ok(dwarf)) => DebugInfoStage::Read(DebugInfo::Linked(Box::new(dwarf))),
                Some(Err(error)) => {
                    self.note_damage(error.to_string());
                    DebugInfoStage::Absent
                }
                None => DebugInfoStage::Absent,
            };
        }
        match &mut self.dwarf {
            DebugInfoStage::Read(dwarf) => Some(dwarf),
            _ => None,
        }
    }

    /// Each text once.
    fn note_damage(&mut self, damage: String) {
        const MAX_TEXTS: usize = 20;
        if self.damage.len() < MAX_TEXTS && !self.damage.contains(&damage) {
            self.damage.push(damage);
        }
    }

    /// Files that could not be read, or not wholly, a sentence each.
    pub(crate) fn damage(&self) -> &[String] {
        &self.damage
    }

    /// What the answers lack: damaged debug info, split DWARF that was not found.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = [&self.notes[..], &self.damage].concat();
        if let DebugInfoStage::Read(dwarf) = &self.dwarf {
            notes.extend(dwarf.notes());
        }
        notes
    }

    /// Why the answers could not be kept for the next start, a sentence.
    pub(crate) fn not_kept(&self) -> Option<&str> {
        self.kept.as_ref()?.problem()
    }

    /// Where names come from: symbol table, debug info, or neither.
    pub(crate) fn looked_up_in(&self) -> SymbolSource {
        let has = |is_there: fn(&ObjectFile) -> bool| self.symbol_files.iter().any(|file| is_there(file));
        let in_objects =
            matches!(&self.dwarf, DebugInfoStage::Read(DebugInfo::Objects(map)) if map.files().next().is_some());
        SymbolSource::Files {
            symbol_table: has(ObjectFile::has_symbols),
            debug_info: has(ObjectFile::has_debug_info) || in_objects,
        }
    }

    /// Heap bytes, about. Mapped files are not counted.
    pub(crate) fn held_bytes(&self) -> usize {
        let dwarf = match &self.dwarf {
            DebugInfoStage::Read(dwarf) => dwarf.held_bytes(),
            DebugInfoStage::Unread(_) | DebugInfoStage::Absent => 0,
        };
        let files = self.symbol_files.iter().map(|file| file.held_bytes()).sum::<usize>();
        let symbols = self.symbols.as_ref().map_or(0, SymbolTable::held_bytes);
        let functions = self.functions.as_ref().map_or(0, Functions::held_bytes);
        let kept = self.kept.as_ref().map_or(0, AnswerCache::held_bytes);
        let in_gaps: usize = self.gaps.values().map(|functions| size_of_val(&**functions)).sum();
        size_of::<ObjectModule>() + in_gaps + dwarf + files + symbols + functions + kept
    }

    /// False if a file was written to since it was opened: its answers are void.
    pub(crate) fn check_unchanged(&self) -> bool {
        self.all_files().all(ObjectFile::check_unchanged)
    }

    /// False if a file has another place now, or none: it can't be opened again.
    pub(crate) fn is_in_place(&self) -> bool {
        self.all_files().all(ObjectFile::is_in_place)
    }

    fn all_files(&self) -> impl Iterator<Item = &ObjectFile> {
        let beside = match &self.dwarf {
            DebugInfoStage::Read(dwarf) => Some(dwarf.files_beside()),
            DebugInfoStage::Unread(_) | DebugInfoStage::Absent => None,
        };
        let own = self.symbol_files.iter().map(|file| &**file);
        own.chain(beside.into_iter().flatten())
    }
}
