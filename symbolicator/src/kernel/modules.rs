//! Files, lines and inlined functions of kernel modules, from debug info that is installed.
//!
//! A module lies elsewhere after each boot, and each of its sections has a place of its own that only root may read. So
//! an address is looked up by its function and the offset in it: the running kernel lists functions with their
//! addresses, the file with their sections.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use names::symbol::AddressInfo;
use object::{Object, ObjectSection, ObjectSymbol, SectionIndex, SymbolKind};
use recording::module::BuildId;
use rustc_hash::FxHashMap;
use unwind::compression::{FileCompression, decompress_file};

use super::kallsyms::{self, KernelSymbols};
use crate::cache::Cache;
use crate::error::SymbolError;
use crate::files::object_file::{ObjectFile, is_code};
use crate::files::options::SymbolOptions;
use crate::files::separate;
use crate::module_cache::{self, ModuleCache};
use crate::objects::ObjectModule;
use crate::objects::relocatable;
use crate::sys::Mapping;

/// Largest ratio of unpacked to packed that is believed, and largest module, packed as a file or section by section.
/// Modules shrink 3 to 5 times; amdgpu.ko with debug info has 0.4 GB.
const MAX_UNPACKED_RATIO: usize = 100;
const MAX_UNPACKED_BYTES: usize = 1 << 30;

/// Files of a kernel's modules at most. A distribution's kernel has 6,000.
const MAX_FILES: usize = 100_000;

/// Heap that laid out modules may take, in bytes, besides the one that was used last. The kernel's image and other
/// files also need some.
const MAX_HELD_BYTES: usize = module_cache::MAX_HELD_BYTES / 2;

/// The modules of the running kernel.
pub(crate) struct KernelModules {
    root: PathBuf,
    options: SymbolOptions,
    /// Installed files by name of the module; `None` until one is looked for.
    installed: Option<FxHashMap<String, Vec<PathBuf>>>,
    /// By name; `None` for those without debug info. Those that were dropped for others are opened again.
    opened: BTreeMap<String, Option<KernelModule>>,
    /// Names of those with debug info.
    held: ModuleCache<String>,
    /// Files that are not used, a sentence each.
    notes: Vec<String>,
    /// Also the damage of modules that were dropped.
    damage: Vec<String>,
}

/// A module whose debug info is installed.
struct KernelModule {
    name: Arc<String>,
    file: ObjectModule,
    /// By start in the kernel's list.
    functions: FxHashMap<u64, LaidOutFunction>,
}

/// A function in the laid out file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LaidOutFunction {
    start: u64,
    end: u64,
    section: SectionIndex,
}

impl KernelModules {
    /// Opens nothing. `root` is `/`.
    pub(crate) fn new(root: &Path, options: &SymbolOptions) -> KernelModules {
        KernelModules::within(MAX_HELD_BYTES, root, options)
    }

    fn within(max_held_bytes: usize, root: &Path, options: &SymbolOptions) -> KernelModules {
        KernelModules {
            root: root.to_owned(),
            options: SymbolOptions {
                debuginfod: None,
                ..options.clone()
            },
            installed: None,
            opened: BTreeMap::new(),
            held: ModuleCache::new(max_held_bytes),
            notes: Vec::new(),
            damage: Vec::new(),
        }
    }

    /// Adds frames to the answers for those relative addresses of the kernel that are modules'. `running` has the
    /// functions.
    pub(crate) fn add_to(&mut self, infos: &mut [AddressInfo], addresses: &[u64], running: &KernelSymbols) {
        // Of each module: (index of the answer, start of the function, offset in it).
        let mut asked: BTreeMap<&str, Vec<(usize, u64, u64)>> = BTreeMap::new();
        for (index, address) in addresses.iter().enumerate() {
            if let Some((module, start)) = running.in_module(*address) {
                asked.entry(module).or_default().push((index, start, address - start));
            }
        }
        for (name, asked) in asked {
            if !self.opened.contains_key(name) {
                let module = self.open(name, running);
                self.opened.insert(name.to_owned(), module);
            }
            let Some(Some(module)) = self.opened.get_mut(name) else {
                continue;
            };
            let found = |(index, start, offset): &(usize, u64, u64)| {
                let function = module.functions.get(start)?;
                let address = function.start.checked_add(*offset)?;
                (address < function.end).then_some((*index, address))
            };
            let (indices, addresses): (Vec<usize>, Vec<u64>) = asked.iter().filter_map(found).unzip();
            for (index, answer) in indices.into_iter().zip(module.file.lookup(&addresses)) {
                let info = &mut infos[index];
                info.frames = answer.frames;
                // The same function has one name, with and without debug info: `nf_hook [nf_tables]`.
                if let (Some(outer), Some(function)) = (info.frames.last_mut(), &info.function) {
                    outer.function = Some(function.name.clone());
                }
            }
            let (name, bytes) = (Arc::clone(&module.name), module.held_bytes());
            self.used(&name, bytes);
        }
    }

    /// Drops modules whose last use is longest ago, if all take too much memory. What was said of them stays said.
    fn used(&mut self, name: &Arc<String>, bytes: usize) {
        for dropped in self.held.used(name, bytes, |other| self.opened.remove(other).flatten()) {
            let damage = dropped.file.damage().iter();
            let new: Vec<String> = damage.filter(|text| !self.damage.contains(text)).cloned().collect();
            self.damage.extend(new);
        }
    }

    /// What the answers lack, a sentence each.
    pub(crate) fn notes(&self) -> Vec<String> {
        [&self.notes[..], &self.damage()].concat()
    }

    /// Files that could not be read, or not wholly, a sentence each.
    pub(crate) fn damage(&self) -> Vec<String> {
        let of_files = self.modules().flat_map(|module| module.file.damage());
        // A module that was opened again says the same again.
        let of_files = of_files.filter(|text| !self.damage.contains(text));
        self.damage.iter().chain(of_files).cloned().collect()
    }

    /// Heap bytes, about.
    pub(crate) fn held_bytes(&self) -> usize {
        self.modules().map(KernelModule::held_bytes).sum()
    }

    fn modules(&self) -> impl Iterator<Item = &KernelModule> {
        self.opened.values().flatten()
    }

    /// Finds the file of a module by the build id of the loaded one. `None` if none with debug info is installed.
    fn open(&mut self, name: &str, running: &KernelSymbols) -> Option<KernelModule> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if !name.bytes().all(is_name) {
            return None;
        }
        // What the kernel lists as modules and is none has no such file: BPF programs, trampolines of kprobes.
        let notes = self.root.join("sys/module").join(name).join("notes/.note.gnu.build-id");
        let id = kallsyms::build_id_in(&std::fs::read(notes).ok()?)?;
        let (mut other, mut damaged) = (None, None);
        for path in self.candidates(name, &id) {
            match self.read(&path, &id) {
                Ok(Some(file)) => {
                    let functions = functions(&file, running.functions_in_module(name).collect());
                    let file = ObjectModule::new(None, Some(file), &self.options);
                    return Some(KernelModule {
                        name: Arc::new(name.to_owned()),
                        file,
                        functions,
                    });
                }
                Ok(None) => {}
                Err(SymbolError::Replaced { path, .. }) => other = other.or(Some(path)),
                Err(error) => damaged = damaged.or(Some(error)),
            }
        }
        self.damage.extend(damaged.map(|error| error.to_string()));
        self.notes.extend(other.map(|path| {
            format!(
                "{} is not the loaded module (build id {}): its frames have no lines; install the debug info of that kernel, or give its \
                 folder with --symbol-dir",
                path.display(),
                id.to_hex()
            )
        }));
        None
    }

    /// Files that may belong to a module, compressed files last.
    fn candidates(&mut self, name: &str, id: &BuildId) -> Vec<PathBuf> {
        let mut paths = separate::build_id_paths(id, &self.options.symbol_dirs);
        paths.retain(|path| path.is_file());
        for folder in &self.options.symbol_dirs {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
            files.retain(|path| name_of(path).as_deref() == Some(&*module_name(name)));
            files.sort();
            paths.extend(files);
        }
        let root = &self.root;
        let installed = self.installed.get_or_insert_with(|| installed(root));
        paths.extend(installed.get(&*module_name(name)).into_iter().flatten().cloned());
        paths.sort_by_key(|path| compression_of(path).is_some());
        paths
    }

    /// Reads a file and lays it out. `None` if it has no debug info.
    fn read(&self, path: &Path, id: &BuildId) -> Result<Option<ObjectFile>, SymbolError> {
        let Some(compression) = compression_of(path) else {
            return checked(ObjectFile::open(path)?, id);
        };
        // Distributions' modules are packed and have no debug info: each start would unpack them to see that.
        let packed = Mapping::open(path).map_err(|error| SymbolError::unreadable(path, error))?;
        let known = self.options.cache.as_deref().map(Cache::new).zip(packed.identity());
        let entry = format!("no-debug-info-{}", id.to_hex());
        if let Some((cache, identity)) = &known
            && cache.get(&entry).is_some_and(|known| known == *identity)
        {
            return Ok(None);
        }
        let bytes = packed.bytes();
        let limit = bytes.len().saturating_mul(MAX_UNPACKED_RATIO).min(MAX_UNPACKED_BYTES);
        let unpacked =
            decompress_file(compression, bytes, limit).map_err(|error| SymbolError::unreadable(path, error))?;
        let file = checked(ObjectFile::from_bytes(path, unpacked)?, id)?;
        if let (None, Some((cache, identity))) = (&file, known) {
            // Without it the next start unpacks the file again.
            let _ = cache.put(&entry, &identity);
        }
        Ok(file)
    }
}

impl KernelModule {
    fn held_bytes(&self) -> usize {
        self.file.held_bytes() + self.functions.capacity() * size_of::<(u64, LaidOutFunction)>()
    }
}

/// A file with the build id and debug info, laid out.
fn checked(file: ObjectFile, id: &BuildId) -> Result<Option<ObjectFile>, SymbolError> {
    if file.build_id() != Some(id) {
        return Err(SymbolError::Replaced {
            path: file.path().to_owned(),
            recorded: id.to_hex(),
            found: file.build_id().map_or_else(|| "none".to_owned(), BuildId::to_hex),
        });
    }
    if !file.has_section(".debug_info") {
        return Ok(None);
    }
    let laid_out = relocatable::lay_out(&file, MAX_UNPACKED_BYTES as u64)?;
    match file.check_unchanged() {
        // Other files may have what is lost: `.zdebug_info`, which old compressors wrote.
        true => Ok(Some(laid_out).filter(|file| file.has_section(".debug_info"))),
        false => Err(SymbolError::Rewritten {
            path: file.path().to_owned(),
        }),
    }
}

/// Finds the functions of the kernel's list in the file. If several functions have one name, the address of the section
/// decides, which other functions of the section show. If that address is unknown, the name has no function.
fn functions(file: &ObjectFile, listed: Vec<(&str, u64)>) -> FxHashMap<u64, LaidOutFunction> {
    let mut by_name: FxHashMap<Vec<u8>, Vec<LaidOutFunction>> = FxHashMap::default();
    let Ok(object) = file.object() else {
        return FxHashMap::default();
    };
    let code: FxHashMap<SectionIndex, u64> = object
        .sections()
        .filter(is_code)
        .map(|section| (section.index(), section.address().saturating_add(section.size())))
        .collect();
    for symbol in object.symbols() {
        let section = symbol
            .section_index()
            .and_then(|index| Some((index, *code.get(&index)?)));
        let is_label = matches!(
            symbol.kind(),
            SymbolKind::Text | SymbolKind::Unknown | SymbolKind::Label
        );
        let (Some((section, end)), Ok(name), true) = (section, symbol.name_bytes(), is_label) else {
            continue;
        };
        let start = symbol.address();
        let end = match symbol.size() {
            0 => end,
            size => start.saturating_add(size).min(end),
        };
        let function = LaidOutFunction { start, end, section };
        let known = by_name.entry(name.to_vec()).or_default();
        if !known.contains(&function) {
            known.push(function);
        }
    }
    let mut count: FxHashMap<&str, usize> = FxHashMap::default();
    for (name, _) in &listed {
        *count.entry(name).or_default() += 1;
    }
    // Names that are unique in both show how far each section was moved; other names are matched by that distance.
    // `None` where these disagree.
    let mut moved: FxHashMap<SectionIndex, Option<u64>> = FxHashMap::default();
    for (name, start) in &listed {
        if let (1, Some([function])) = (count[name], by_name.get(name.as_bytes()).map(Vec::as_slice)) {
            let by = start.wrapping_sub(function.start);
            let all = moved.entry(function.section).or_insert(Some(by));
            *all = all.filter(|all| *all == by);
        }
    }
    let found = listed.iter().filter_map(|(name, start)| {
        let is_it = |function: &&LaidOutFunction| {
            let moved = moved.get(&function.section).copied().flatten();
            moved == Some(start.wrapping_sub(function.start))
        };
        let function = by_name.get(name.as_bytes())?.iter().find(is_it)?;
        Some((*start, *function))
    });
    found.collect()
}

/// The files of the running kernel's modules, by name: separate debug files first.
fn installed(root: &Path) -> FxHashMap<String, Vec<PathBuf>> {
    let mut found: FxHashMap<String, Vec<PathBuf>> = FxHashMap::default();
    let Ok(release) = std::fs::read_to_string(root.join("proc/sys/kernel/osrelease")) else {
        return found;
    };
    let mut left = MAX_FILES;
    for folder in [
        "usr/lib/debug/lib/modules",
        "usr/lib/debug/usr/lib/modules",
        "lib/modules",
    ] {
        let mut folders = vec![root.join(folder).join(release.trim())];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten().take(left) {
                left -= 1;
                // `build` and `source` are links to the kernel's own tree.
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    Ok(kind) if kind.is_file() => {
                        if let Some(name) = name_of(&entry.path()) {
                            found.entry(name).or_default().push(entry.path());
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    found
}

/// The module that a file is of: `snd_hda_intel` of `snd-hda-intel.ko.xz` and `snd-hda-intel.ko.debug`.
fn name_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let name = [".gz", ".xz", ".zst"]
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))
        .unwrap_or(name);
    let name = name.strip_suffix(".debug").unwrap_or(name);
    name.strip_suffix(".ko").map(module_name)
}

/// The kernel has no hyphens in names of modules (KBUILD_MODNAME), their files may.
fn module_name(name: &str) -> String {
    name.replace('-', "_")
}

/// How modules_install compresses files (CONFIG_MODULE_COMPRESS).
fn compression_of(path: &Path) -> Option<FileCompression> {
    match path.extension()?.to_str()? {
        "gz" => Some(FileCompression::Gzip),
        "xz" => Some(FileCompression::Xz),
        "zst" => Some(FileCompression::Zstandard),
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests;
