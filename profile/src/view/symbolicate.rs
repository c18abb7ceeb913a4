//! Symbolicates saved data: addresses become functions, inlined functions, files and lines.

use recording::symbol::{AddressInfo, FunctionSymbol};
use rustc_hash::FxHashMap;

use crate::category::{CATEGORIES, INLINED_NAME, Installed, Kind};
use crate::crate_sources::CrateSources;
use crate::data::{Data, Frame, Func, NONE, Script, Stack, Symbol};
use crate::enrich::{functions_at, installed, v8_code};
use crate::function_files::FunctionFiles;
use crate::read::SavedLib;
use crate::read::v8::subcategory;
use crate::source_paths::PathIndex;
use crate::unique::Unique;

/// The result of symbolication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Requested addresses.
    pub addresses: u64,
    /// Requested addresses without a name. They keep their old name, or are named by their function's address.
    pub addresses_without_name: u64,
}

/// Calls `resolve` once for each library, with the addresses of its frames, ascending, without duplicates. `resolve` returns one
/// [`AddressInfo`] for each address in the same order, or `None` without symbols. An answer of another length counts as `None`.
///
/// Symbolicated data is unchanged. Other data becomes symbolicated if any symbol was found.
pub fn name_addresses(
    data: &mut Data,
    mut resolve: impl FnMut(&SavedLib, &[u64]) -> Option<Vec<AddressInfo>>,
) -> Named {
    let mut named = Named::default();
    if data.symbolicated {
        return named;
    }
    let asked = asked_addresses(data);
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
        Naming::new(data, &known).replace(&known);
        data.symbolicated = true;
    }
    named
}

/// The addresses that [`name_addresses`] asks for, of each library; none for symbolicated data.
pub fn asked_addresses(data: &Data) -> Vec<Vec<u64>> {
    let mut asked: Vec<Vec<u64>> = vec![Vec::new(); data.libs.len()];
    let frames = data.frames.iter().filter(|_| !data.symbolicated);
    for frame in frames {
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

/// The new tables under construction.
struct Naming<'a> {
    data: &'a mut Data,
    texts: Unique<Box<str>>,
    sources: PathIndex<u32>,
    /// By library and address.
    symbols: FxHashMap<(u32, u64), u32>,
    funcs: Unique<Func>,
    scripts: Unique<Script>,
    /// Of [`Kind::Program`], [`Kind::RustStd`] and [`Kind::Dependency`], where the file has them.
    categories: [Option<u32>; 3],
    /// By library: packages that it is, and does not depend on.
    installed: Vec<Installed>,
    /// By library.
    crates: Vec<CrateSources<'a>>,
    /// By library.
    files: Vec<FunctionFiles<'a>>,
}

impl<'a> Naming<'a> {
    fn new(data: &'a mut Data, known: &'a [FxHashMap<u64, AddressInfo>]) -> Self {
        let category = |kind: Kind| {
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
            FunctionFiles::of(in_order.into_iter().map(|(_, info)| info))
        };
        Naming {
            files: known.iter().map(files_of).collect(),
            categories: [Kind::Program, Kind::RustStd, Kind::Dependency].map(category),
            installed: data.libs.iter().zip(known).map(of_lib).collect(),
            crates: known.iter().map(|known| CrateSources::of(known.values())).collect(),
            texts: std::mem::take(&mut data.texts).into(),
            sources: PathIndex::default(),
            symbols: FxHashMap::default(),
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
        for old in &old_frames {
            let first = self.data.frames.len() as u32;
            let info = known.get(old.lib as usize).and_then(|infos| infos.get(&old.address?));
            self.expand(*old, old_funcs[old.func as usize], info);
            expansions.push((first, self.data.frames.len() as u32 - first));
        }
        self.data.texts = self.texts.all;
        self.data.funcs = self.funcs.all;
        self.data.scripts = self.scripts.all;

        let old_stacks = std::mem::take(&mut self.data.stacks);
        let mut leaf_of: Vec<u32> = Vec::with_capacity(old_stacks.len());
        for old in &old_stacks {
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
            Kind::Program
        } else {
            Kind::Unknown
        };
        let known = match kind.of_source(source, krate, installed) {
            Kind::RustStd => rust_std,
            Kind::Dependency => dependency,
            _ => None,
        };
        known.unwrap_or(old.category)
    }

    /// Adds the frames of all functions at the frame's address: at least one.
    fn expand(&mut self, old: Frame, old_func: Func, info: Option<&AddressInfo>) {
        let (unknown, no_crates, no_files) = (
            AddressInfo::default(),
            CrateSources::default(),
            FunctionFiles::default(),
        );
        let info = info.unwrap_or(&unknown);
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
            let func = Func {
                script: start.map_or(old_func.script, |start| self.scripts.index(Script::of(start))),
                name: name.map_or(old_func.name, |name| self.texts.index_of(name)),
                file: func_file.unwrap_or(old_func.file),
                krate: krate.map_or(old_func.krate, |krate| self.texts.index_of(krate)),
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
        let (texts, symbols) = (&mut self.texts, &mut self.data.symbols);
        *self.symbols.entry((lib, symbol.start)).or_insert_with(|| {
            symbols.push(Symbol {
                lib,
                address: symbol.start,
                name: texts.index_of(&*symbol.name),
                size: symbol.size,
            });
            symbols.len() as u32 - 1
        })
    }
}
