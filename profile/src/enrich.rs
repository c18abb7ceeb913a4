//! Symbolicates a built profile: addresses become functions, inlined functions, files and lines.

use names::symbol::{AddressInfo, SourceFrame, is_nameless};
use names::v8;
use recording::module::Module;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::category::{CodeKind, Installed};
use crate::crate_sources::CrateSources;
use crate::function_files::FunctionFiles;
use crate::recorded::Profile;
use crate::recorded::stacks::{StackId, StackTree};
use crate::recorded::strings::{StringId, StringTable};
use crate::recorded::tables::{FrameId, FrameRow, FrameTables, FuncId, FuncRow, LibId, SymbolRow};
use crate::recorded::thread::{MarkerKind, PointValue};
use crate::source_paths::PathIndex;

/// The format keeps the inline depth in a byte. Debug info with a larger depth is wrong.
const MAX_INLINE_DEPTH: u16 = 255;

/// The result of symbolication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enriched {
    /// Requested addresses.
    pub addresses: u64,
    /// Requested addresses without a name. They keep their old name, or are named by their function's address.
    pub addresses_without_name: u64,
    /// Requested modules.
    pub modules: u64,
    /// Modules for which `resolve` returned `None`.
    pub modules_without_symbols: u64,
    /// Samples whose leaf is code without a name.
    pub samples_without_name: u64,
}

/// Calls `resolve` once for each module, with lookup addresses relative to its image base, ascending, without
/// duplicates. `resolve` returns one [`AddressInfo`] for each address in the same order, or `None` without symbols. An
/// answer of another length counts as `None`.
///
/// Source files get the paths of profiles ([`names::source_path`]).
///
/// The profile is then marked as symbolicated, so the front end does not request symbols. A symbolicated profile is
/// unchanged.
pub fn enrich(profile: &mut Profile, mut resolve: impl FnMut(&Module, &[u64]) -> Option<Vec<AddressInfo>>) -> Enriched {
    let mut result = Enriched::default();
    if profile.symbolicated {
        return result;
    }
    let mut new = Rebuilt::new(profile);
    for (index, lib) in profile.libs().into_iter().enumerate() {
        let infos = resolve(&lib.module, &lib.addresses).filter(|infos| infos.len() == lib.addresses.len());
        result.modules += 1;
        result.modules_without_symbols += u64::from(infos.is_none());
        result.addresses += lib.addresses.len() as u64;
        let unknown = AddressInfo::default();
        let file = lib.module.name();
        new.installed = installed(&file, infos.iter().flatten());
        let crates = CrateSources::new(infos.iter().flatten());
        let files = FunctionFiles::new(infos.iter().flatten());
        for frame in new.frames_of(LibId(index as u32)) {
            let address = profile.tables.frame(frame).address.unwrap_or_default();
            let known = lib.addresses.binary_search(&address).ok();
            let info = known.and_then(|at| infos.as_ref()?.get(at)).unwrap_or(&unknown);
            let named = new.expand(profile, frame, info, &crates, &files);
            result.addresses_without_name += u64::from(!named);
        }
    }
    new.keep_frames_without_lib(profile);
    let unnamed = std::mem::take(&mut new.unnamed);
    new.replace(profile);
    result.samples_without_name = samples_without_name(profile, &unnamed);
    result
}

/// All functions at an address, outermost first: inline depth, name, source place. At least one.
pub(crate) fn functions_at(info: &AddressInfo) -> impl Iterator<Item = (u16, Option<&str>, &SourceFrame)> {
    const NOWHERE: &[SourceFrame] = &[SourceFrame {
        function: None,
        file: None,
        declared_in: None,
        line: None,
        column: None,
        krate: None,
    }];
    let frames = if info.frames.is_empty() { NOWHERE } else { &info.frames };
    let outer = info.function.as_ref().map(|function| function.name.as_str());
    (0..=MAX_INLINE_DEPTH)
        .zip(frames.iter().rev())
        .map(move |(depth, source)| {
            let name = source.function.as_deref().or(outer.filter(|_| depth == 0));
            (depth, name, source)
        })
}

/// What V8 records of the function that the address belongs to.
pub(crate) fn v8_code(info: &AddressInfo) -> v8::Code {
    let code = info.function.as_ref().and_then(|function| function.v8);
    code.unwrap_or_default()
}

/// Packages from which the file of these addresses was installed.
pub(crate) fn installed<'a>(file: &str, infos: impl Iterator<Item = &'a AddressInfo>) -> Installed {
    let frames = infos.flat_map(|info| &info.frames);
    Installed::of(frames.filter_map(|frame| Some((file, frame.function.as_deref()?, frame.function_file()?))))
}

/// The new tables under construction.
struct Rebuilt {
    tables: FrameTables,
    strings: StringTable,
    sources: PathIndex<StringId>,
    funcs: FxHashMap<FuncRow, FuncId>,
    /// Functions of symbols without a name.
    unnamed: FxHashSet<FuncId>,
    symbols: FxHashMap<(LibId, u64), u32>,
    /// For each old frame, its new frames: (first, count), outermost first.
    expansions: Vec<(u32, u32)>,
    /// The old frames of each library; the last list is of frames without one.
    by_lib: Vec<Vec<FrameId>>,
    /// Packages that the current library is, and does not depend on.
    installed: Installed,
}

impl Rebuilt {
    fn new(profile: &Profile) -> Self {
        let mut strings = StringTable::default();
        let mut tables = FrameTables::default();
        tables.libs.clone_from(&profile.tables.libs);
        for lib in &mut tables.libs {
            lib.name = strings.intern(profile.strings.get(lib.name));
        }
        let mut by_lib = vec![Vec::new(); profile.tables.libs.len() + 1];
        for (id, frame) in profile.tables.frames.iter().enumerate() {
            let lib = frame.lib.map_or(profile.tables.libs.len(), |lib| lib.0 as usize);
            by_lib[lib].push(FrameId(id as u32));
        }
        Rebuilt {
            tables,
            strings,
            sources: PathIndex::default(),
            funcs: FxHashMap::default(),
            unnamed: FxHashSet::default(),
            symbols: FxHashMap::default(),
            expansions: vec![(0, 0); profile.tables.frames.len()],
            by_lib,
            installed: Installed::default(),
        }
    }

    fn frames_of(&mut self, lib: LibId) -> Vec<FrameId> {
        std::mem::take(&mut self.by_lib[lib.0 as usize])
    }

    /// Replaces one frame by the frames of all functions at its address. Returns true if any has a name.
    fn expand(
        &mut self,
        profile: &Profile,
        old: FrameId,
        info: &AddressInfo,
        crates: &CrateSources<'_>,
        files: &FunctionFiles<'_>,
    ) -> bool {
        let row = *profile.tables.frame(old);
        let hex = profile.strings.get(profile.tables.func(row.func).name);
        let native_symbol = row.lib.and_then(|lib| self.symbol(lib, info));
        let first = self.tables.frames.len() as u32;
        let v8 = v8_code(info);
        for (inline_depth, known, source) in functions_at(info) {
            let krate = crates.crate_at(info, inline_depth, source);
            let declared_in = files.file(info, inline_depth, source);
            let mut path = |path| self.sources.index(path, |path| self.strings.intern(path));
            let (func_source, line_source) = (declared_in.map(&mut path), source.file.as_deref().map(&mut path));
            let line = source.line.filter(|&line| line > 0);
            let func = FuncRow {
                name: self.strings.intern(known.unwrap_or(hex)),
                lib: row.lib,
                source: func_source,
                start: v8.start.filter(|_| inline_depth == 0),
                krate: krate.map(|krate| self.strings.intern(krate)),
            };
            let func = self.func(func);
            if info.function.as_ref().is_some_and(|function| !function.is_named) {
                self.unnamed.insert(func);
            }
            let kind = match v8.tier {
                Some(tier) if inline_depth == 0 => CodeKind::V8(tier),
                _ => row
                    .kind
                    .of_source(declared_in.unwrap_or_default(), krate, &self.installed),
            };
            self.tables.push_frame(FrameRow {
                func,
                kind,
                inline_depth,
                native_symbol,
                line,
                line_source: line_source.filter(|_| line.is_some() && line_source != func_source),
                column: source.column.filter(|&column| column > 0),
                ..row
            });
        }
        self.expansions[old.0 as usize] = (first, self.tables.frames.len() as u32 - first);
        info.is_named()
    }

    fn keep_frames_without_lib(&mut self, profile: &Profile) {
        for old in self.by_lib.pop().unwrap_or_default() {
            self.expand(
                profile,
                old,
                &AddressInfo::default(),
                &CrateSources::default(),
                &FunctionFiles::default(),
            );
        }
    }

    fn func(&mut self, row: FuncRow) -> FuncId {
        let tables = &mut self.tables;
        *self.funcs.entry(row).or_insert_with(|| tables.push_func(row))
    }

    fn symbol(&mut self, lib: LibId, info: &AddressInfo) -> Option<u32> {
        let function = info.function.as_ref()?;
        let (tables, strings) = (&mut self.tables, &mut self.strings);
        Some(*self.symbols.entry((lib, function.start)).or_insert_with(|| {
            tables.symbols.push(SymbolRow {
                lib,
                address: function.start,
                name: strings.intern(&function.name),
                size: function.size,
            });
            tables.symbols.len() as u32 - 1
        }))
    }

    /// Puts the new tables in place of the old ones.
    fn replace(mut self, profile: &mut Profile) {
        // A stack of old frames becomes the path of their expansions. Different stacks stay different, because each new
        // frame has one old frame. No lookup is needed.
        let len = profile
            .stacks
            .iter()
            .map(|(_, _, frame)| self.expansions[frame.0 as usize].1 as usize)
            .sum();
        let mut stacks = StackTree::with_capacity(len);
        let mut new_stacks: Vec<StackId> = Vec::with_capacity(profile.stacks.len());
        for (_, prefix, frame) in profile.stacks.iter() {
            let (first, count) = self.expansions[frame.0 as usize];
            let prefix = prefix.map(|prefix| new_stacks[prefix.0 as usize]);
            let mut stack = stacks.append(prefix, FrameId(first));
            for inlined in first + 1..first + count {
                stack = stacks.append(Some(stack), FrameId(inlined));
            }
            new_stacks.push(stack);
        }
        profile.stacks = stacks;
        for process in &mut profile.processes {
            let mapped = process.heap.rows.map_stacks_at(|_, stack| new_stacks[stack.0 as usize]);
            process.heap.rows = mapped;
        }
        for thread in &mut profile.threads {
            thread.samples = thread.samples.map_stacks(|stack| new_stacks[stack.0 as usize]);
            for marker in &mut thread.markers {
                match &mut marker.what {
                    MarkerKind::Child { pid: a, name: b }
                    | MarkerKind::Exec { from: a, to: b }
                    | MarkerKind::Renamed { from: a, to: b } => {
                        *a = self.strings.intern(profile.strings.get(*a));
                        *b = self.strings.intern(profile.strings.get(*b));
                    }
                    MarkerKind::Point(point) => {
                        point.stack = point.stack.map(|stack| new_stacks[stack.0 as usize]);
                        for value in &mut point.values {
                            if let PointValue::Text(text) = value {
                                *text = self.strings.intern(profile.strings.get(*text));
                            }
                        }
                    }
                    MarkerKind::Span(span) => {
                        let flow = span.flow.iter_mut().map(|(id, _)| id);
                        let texts = span.fields.iter_mut().filter_map(|(_, value)| match value {
                            PointValue::Text(text) => Some(text),
                            _ => None,
                        });
                        for text in texts.chain(flow).chain([&mut span.name]) {
                            *text = self.strings.intern(profile.strings.get(*text));
                        }
                    }
                    MarkerKind::Trigger { words: name } | MarkerKind::Ran { name, .. } => {
                        *name = self.strings.intern(profile.strings.get(*name))
                    }
                    MarkerKind::Lost { .. }
                    | MarkerKind::Throttled
                    | MarkerKind::Malformed { .. }
                    | MarkerKind::NoSamples { .. }
                    | MarkerKind::Paused => {}
                }
            }
        }
        let names = profile.event_names.iter().map(|name| profile.strings.get(*name));
        profile.event_names = names.map(|name| self.strings.intern(name)).collect();
        profile.marker_names = MarkerKind::NAMES.map(|name| self.strings.intern(name));
        profile.strings = self.strings;
        profile.tables = self.tables;
        profile.symbolicated = true;
    }
}

fn samples_without_name(profile: &Profile, unnamed: &FxHashSet<FuncId>) -> u64 {
    let nameless = |stack: StackId| {
        let frame = profile.tables.frame(profile.stacks.frame(stack));
        unnamed.contains(&frame.func) || is_nameless(profile.strings.get(profile.tables.func(frame.func).name))
    };
    profile
        .main_threads()
        .flat_map(|thread| thread.samples.iter())
        .filter(|sample| !sample.off_cpu && sample.stack.is_some_and(nameless))
        .count() as u64
}
