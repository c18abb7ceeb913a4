//! Symbolicates saved data: addresses become functions, inlined functions, files and lines.

use names::symbol::{AddressInfo, FunctionSymbol, SymbolSource, is_nameless};
use rustc_hash::FxHashMap;

use crate::category::{CATEGORIES, CodeKind, INLINED_NAME, Installed};
use crate::crate_sources::CrateSources;
use crate::data::SavedLib;
use crate::data::v8_names::subcategory;
use crate::data::{Calls, Data, Frame, Func, NONE, Script, Stack, Symbol};
use crate::enrich::{functions_at, installed, v8_code};
use crate::function_files::FunctionFiles;
use crate::source_paths::PathIndex;
use crate::unique::Unique;

/// The result of symbolication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamedAddresses {
    /// Requested addresses.
    pub addresses: u64,
    /// Requested addresses without a name. They keep their old name, or are named by their function's address.
    pub addresses_without_name: u64,
    /// True if an answer was taken.
    pub is_changed: bool,
}

/// The addresses of a library that are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedNames {
    /// None.
    Nothing,
    /// All.
    Names,
    /// All, and an answer counts if its function has the known name: files and lines of the kernel's functions. Kernel
    /// modules lie elsewhere after each boot.
    LinesOfNames,
}

/// Calls `resolve` once for each library, with the addresses of its frames, ascending, without duplicates. `resolve`
/// returns one [`AddressInfo`] for each address in the same order, or `None` without symbols. An answer of another
/// length counts as `None`.
///
/// Symbolicated data is unchanged. Other data becomes symbolicated if any symbol was found.
pub fn name_addresses(
    data: &mut Data,
    resolve: impl FnMut(&SavedLib, &[u64]) -> Option<Vec<AddressInfo>>,
) -> NamedAddresses {
    let wanted = match data.symbolicated {
        true => WantedNames::Nothing,
        false => WantedNames::Names,
    };
    name_wanted(data, &vec![wanted; data.libs.len()], resolve)
}

/// [`name_addresses`] of these libraries, also in symbolicated data. An answer that has less than what the data have of
/// its address does not count.
pub fn name_wanted(
    data: &mut Data,
    wanted: &[WantedNames],
    mut resolve: impl FnMut(&SavedLib, &[u64]) -> Option<Vec<AddressInfo>>,
) -> NamedAddresses {
    let mut named = NamedAddresses::default();
    let asked = asked_addresses(data, wanted);
    // Arcs refer to the rows as they are.
    if asked.iter().all(Vec::is_empty) || matches!(data.calls, Calls::Arcs(_)) {
        return named;
    }
    let mut found = false;
    let mut known: Vec<FxHashMap<u64, AddressInfo>> = Vec::with_capacity(asked.len());
    for (lib, addresses) in data.libs.iter().zip(asked) {
        let answers = match addresses.is_empty() {
            true => None,
            false => resolve(lib, &addresses).filter(|answers| answers.len() == addresses.len()),
        };
        named.addresses += addresses.len() as u64;
        let nameless = |info: &&AddressInfo| !info.is_named() && info.frames.is_empty();
        found |= (answers.iter().flatten()).any(|info| info.function.is_some() || !info.frames.is_empty());
        named.addresses_without_name += match &answers {
            Some(answers) => answers.iter().filter(nameless).count() as u64,
            None => addresses.len() as u64,
        };
        known.push(addresses.into_iter().zip(answers.into_iter().flatten()).collect());
    }
    if found {
        named.is_changed = !data.symbolicated || drop_lesser(data, wanted, &mut known);
    }
    if named.is_changed {
        NamedTables::new(data, &known).replace(&known);
        data.symbolicated = true;
    }
    named
}

/// The addresses that [`name_wanted`] asks for, of each library.
pub fn asked_addresses(data: &Data, wanted: &[WantedNames]) -> Vec<Vec<u64>> {
    let mut asked: Vec<Vec<u64>> = vec![Vec::new(); data.libs.len()];
    let is_wanted = |lib: u32| {
        wanted
            .get(lib as usize)
            .is_some_and(|wanted| *wanted != WantedNames::Nothing)
    };
    for frame in data.frames.iter().filter(|frame| is_wanted(frame.lib)) {
        if let (Some(asked), Some(address)) = (asked.get_mut(frame.lib as usize), frame.address) {
            asked.push(address);
        }
    }
    for addresses in &mut asked {
        addresses.sort_unstable();
        addresses.dedup();
    }
    asked
}

/// The source of the names of each library's code: as sprof recorded it, or else as the frames show it. `None` for
/// libraries without addresses.
pub fn symbol_sources(data: &Data) -> Vec<Option<SymbolSource>> {
    #[derive(Clone, Copy, Default)]
    struct LibFrames {
        frames: bool,
        nameless: bool,
        lines: bool,
    }
    let nameless: Vec<bool> = (data.funcs.iter())
        .map(|func| is_nameless(data.text(func.name)))
        .collect();
    let mut of_libs = vec![LibFrames::default(); data.libs.len()];
    for frame in data.frames.iter().filter(|frame| frame.address.is_some()) {
        if let Some(of) = of_libs.get_mut(frame.lib as usize) {
            of.frames = true;
            of.nameless |= nameless[frame.func as usize];
            of.lines |= frame.line != NONE;
        }
    }
    let sources = data.libs.iter().zip(of_libs).map(|(lib, of)| {
        let seen = SymbolSource::Files {
            symbol_table: !of.nameless,
            debug_info: of.lines,
        };
        let source = match lib.symbol_source {
            SymbolSource::NotAsked => seen,
            // The kernel's functions have their names from its list, and lines from files.
            SymbolSource::Recorded if of.lines => seen,
            source => source,
        };
        of.frames.then_some(source)
    });
    sources.collect()
}

/// What is known of an address: (whether its functions have names, whether they have lines, number of functions).
type KnownOfAddress = (bool, bool, usize);

/// Drops answers that have less than what the data have of the same address, and those that are not wanted. True if the
/// others say anything new.
fn drop_lesser(data: &Data, wanted: &[WantedNames], known: &mut [FxHashMap<u64, AddressInfo>]) -> bool {
    let mut had: FxHashMap<(u32, u64), (KnownOfAddress, &str)> = FxHashMap::default();
    for frame in &data.frames {
        let Some(address) = frame.address else { continue };
        if !(known.get(frame.lib as usize)).is_some_and(|known| known.contains_key(&address)) {
            continue;
        }
        let name = data.func_name(frame.func);
        let ((named, lines, depth), outer) = had.entry((frame.lib, address)).or_default();
        *named |= !is_nameless(name);
        *lines |= frame.line != NONE;
        *depth = (*depth).max(usize::from(frame.inline_depth) + 1);
        if !frame.is_inlined() {
            *outer = name;
        }
    }
    let mut is_new = false;
    for (lib, (known, wanted)) in (0..).zip(known.iter_mut().zip(wanted)) {
        known.retain(|address, info| {
            let (had, name) = had.get(&(lib, *address)).copied().unwrap_or_default();
            let has_lines = info.frames.iter().any(|frame| frame.line.is_some());
            let has = (info.is_named(), has_lines, info.frames.len().max(1));
            let of_symbol = info.function.as_ref().map(|function| function.name.as_str());
            let of_source = info.frames.last().and_then(|frame| frame.function.as_deref());
            let has_all = had.0 <= has.0 && had.1 <= has.1 && had.2 <= has.2;
            let is_wanted = has_all && (*wanted != WantedNames::LinesOfNames || of_symbol == Some(name));
            is_new |= is_wanted && (had != has || of_source.or(of_symbol) != Some(name));
            is_wanted
        });
    }
    is_new
}

/// The new tables under construction.
struct NamedTables<'a> {
    data: &'a mut Data,
    texts: Unique<Box<str>>,
    sources: PathIndex<u32>,
    symbols: Unique<Symbol>,
    funcs: Unique<Func>,
    scripts: Unique<Script>,
    /// Categories for [`CodeKind::Program`], [`CodeKind::RustStd`] and [`CodeKind::Dependency`], if the file has them.
    categories: [Option<u32>; 3],
    /// By library: packages that it is, and does not depend on.
    installed: Vec<Installed>,
    /// By library.
    crates: Vec<CrateSources<'a>>,
    /// By library.
    files: Vec<FunctionFiles<'a>>,
}

impl<'a> NamedTables<'a> {
    fn new(data: &'a mut Data, known: &'a [FxHashMap<u64, AddressInfo>]) -> Self {
        let category = |kind: CodeKind| {
            let name = CATEGORIES[kind.category(false).0].name;
            let at = data.categories.iter().position(|category| category.name == name)?;
            Some(at as u32)
        };
        let of_lib = |(lib, known): (&SavedLib, &FxHashMap<u64, AddressInfo>)| {
            installed(lib.name.as_deref().unwrap_or_default(), known.values())
        };
        let files_of = |known: &'a FxHashMap<u64, AddressInfo>| {
            let mut in_order: Vec<(&u64, &AddressInfo)> = known.iter().collect();
            in_order.sort_unstable_by_key(|(address, _)| **address);
            FunctionFiles::new(in_order.into_iter().map(|(_, info)| info))
        };
        NamedTables {
            files: known.iter().map(files_of).collect(),
            categories: [CodeKind::Program, CodeKind::RustStd, CodeKind::Dependency].map(category),
            installed: data.libs.iter().zip(known).map(of_lib).collect(),
            crates: known.iter().map(|known| CrateSources::new(known.values())).collect(),
            texts: std::mem::take(&mut data.texts).into(),
            sources: PathIndex::default(),
            symbols: std::mem::take(&mut data.symbols).into(),
            funcs: Unique::default(),
            scripts: std::mem::take(&mut data.scripts).into(),
            data,
        }
    }

    fn replace(mut self, known: &[FxHashMap<u64, AddressInfo>]) {
        let old_frames = std::mem::take(&mut self.data.frames);
        let old_funcs = std::mem::take(&mut self.data.funcs);
        // For each old frame, its new frames: (first, count), outermost first.
        let mut expansions: Vec<(u32, u32)> = Vec::with_capacity(old_frames.len());
        let answer = |frame: &Frame| known.get(frame.lib as usize)?.get(&frame.address?);
        let old_stacks = std::mem::take(&mut self.data.stacks);
        // The answer for a function with code of its own has all that is inlined there: frames of earlier answers go.
        let is_dropped = |stack: &Stack| {
            let frame = &old_frames[stack.frame as usize];
            let caller = old_stacks.get(stack.prefix as usize);
            let caller = caller.map(|caller| &old_frames[caller.frame as usize]);
            frame.is_inlined()
                && answer(frame).is_some()
                && caller.is_some_and(|caller| (caller.lib, caller.address) == (frame.lib, frame.address))
        };
        let mut is_frame_dropped = vec![false; old_frames.len()];
        for stack in old_stacks.iter().filter(|stack| is_dropped(stack)) {
            is_frame_dropped[stack.frame as usize] = true;
        }
        for stack in old_stacks.iter().filter(|stack| !is_dropped(stack)) {
            is_frame_dropped[stack.frame as usize] = false;
        }
        for (old, is_dropped) in old_frames.iter().zip(is_frame_dropped) {
            let first = self.data.frames.len() as u32;
            let old_func = old_funcs[old.func as usize];
            match answer(old) {
                _ if is_dropped => {}
                Some(info) => self.expand(*old, old_func, info),
                None => {
                    let func = self.funcs.index(old_func);
                    self.data.frames.push(Frame { func, ..*old });
                }
            }
            expansions.push((first, self.data.frames.len() as u32 - first));
        }
        self.data.texts = self.texts.all;
        self.data.funcs = self.funcs.all;
        self.data.scripts = self.scripts.all;
        self.data.symbols = self.symbols.all;

        let mut leaf_of: Vec<u32> = Vec::with_capacity(old_stacks.len());
        for old in &old_stacks {
            if is_dropped(old) {
                leaf_of.push(leaf_of[old.prefix as usize]);
                continue;
            }
            let (first, count) = expansions[old.frame as usize];
            let mut prefix = leaf_of.get(old.prefix as usize).copied().unwrap_or(NONE);
            for frame in first..first + count {
                self.data.stacks.push(Stack { prefix, frame });
                prefix = self.data.stacks.len() as u32 - 1;
            }
            leaf_of.push(prefix);
        }
        self.data
            .map_stacks(|stack| leaf_of.get(stack as usize).copied().unwrap_or(NONE));
    }

    /// The category of a function of this source and crate, where the frame has another one until now.
    fn category(&self, old: &Frame, source: &str, krate: Option<&str>) -> u32 {
        let [program, rust_std, dependency] = self.categories;
        let none = Installed::default();
        let installed = self.installed.get(old.lib as usize).unwrap_or(&none);
        let kind = if program == Some(old.category) {
            CodeKind::Program
        } else {
            CodeKind::Unknown
        };
        let known = match kind.of_source(source, krate, installed) {
            CodeKind::RustStd => rust_std,
            CodeKind::Dependency => dependency,
            _ => None,
        };
        known.unwrap_or(old.category)
    }

    /// Adds the frames of all functions at the frame's address: at least one.
    fn expand(&mut self, old: Frame, old_func: Func, info: &AddressInfo) {
        let (no_crates, no_files) = (CrateSources::default(), FunctionFiles::default());
        let of_lib = info.function.as_ref().filter(|_| old.lib != NONE);
        let native = of_lib.map_or(old.symbol, |symbol| self.symbol(old.lib, symbol));
        let v8 = v8_code(info);
        for (inline_depth, name, source) in functions_at(info) {
            let start = v8.start.filter(|_| inline_depth == 0);
            let crates = self.crates.get(old.lib as usize).unwrap_or(&no_crates);
            let krate = crates.crate_at(info, inline_depth, source);
            let files = self.files.get(old.lib as usize).unwrap_or(&no_files);
            let declared_in = files.file(info, inline_depth, source);
            let mut path = |path| self.sources.index(path, |path| self.texts.index_of(path));
            let (func_file, line_file) = (declared_in.map(&mut path), source.file.as_deref().map(&mut path));
            let line = source.line.filter(|line| *line > 0);
            let line_file = match (line, old.line) {
                (Some(_), _) => line_file.unwrap_or(NONE),
                (None, NONE) => NONE,
                (None, _) if old.line_file == NONE => old_func.file,
                (None, _) => old.line_file,
            };
            let name = match (name, inline_depth) {
                (Some(name), _) => self.texts.index_of(name),
                (None, 0) => old_func.name,
                (None, _) => self.texts.index_of(&*format!("{:#x}", old.address.unwrap_or_default())),
            };
            // What was known is of the function with code of its own.
            let (old_file, old_krate) = match inline_depth {
                0 => (old_func.file, old_func.krate),
                _ => (NONE, NONE),
            };
            let func = Func {
                script: start.map_or(old_func.script, |start| self.scripts.index(Script::from_start(start))),
                name,
                file: func_file.unwrap_or(old_file),
                krate: krate.map_or(old_krate, |krate| self.texts.index_of(krate)),
                ..old_func
            };
            let category = self.category(&old, declared_in.unwrap_or_default(), krate);
            let inlined = || {
                let names = &self.data.categories.get(category as usize)?.subcategories;
                names.iter().position(|name| name == INLINED_NAME)
            };
            let usual = if category == old.category { old.subcategory } else { 0 };
            let subcategory = match inline_depth {
                0 if let Some(tier) = v8.tier => subcategory(&mut self.data.categories, category, tier),
                0 => usual,
                // `vDSO`
                _ if usual > 0 => usual,
                _ => inlined().map_or(usual, |at| at as u16),
            };
            self.data.frames.push(Frame {
                func: self.funcs.index(func),
                line: line.unwrap_or(old.line),
                line_file: if line_file == func.file { NONE } else { line_file },
                category,
                subcategory,
                column: source.column.filter(|column| *column > 0).unwrap_or(old.column),
                inline_depth,
                symbol: native,
                ..old
            });
        }
    }

    fn symbol(&mut self, lib: u32, symbol: &FunctionSymbol) -> u32 {
        self.symbols.index(Symbol {
            lib,
            address: symbol.start,
            name: self.texts.index_of(&*symbol.name),
            size: symbol.size,
        })
    }
}
