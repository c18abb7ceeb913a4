//! The modules of a recording, each opened at its first look-up.
//!
//! - this file: from addresses to names.
//! - [`ahead`]: look-ups of several modules at once.
//! - `assembly`, `source`: the code of an address as text.

pub(crate) mod ahead;
mod assembly;
mod source;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use names::symbol::{AddressInfo, SymbolSource};
use recording::module::{Module, ModuleKind};
use recording::sink::KeptFile;
use rustc_hash::FxHashMap;

use crate::error::SymbolError;
use crate::files::locate::locate;
use crate::files::options::SymbolOptions;
use crate::foreign::{self, ForeignFile};
use crate::jit::{self, JitSymbols};
use crate::kernel::Kernel;
use crate::module_cache::{MAX_HELD_BYTES, ModuleCache};
use crate::objects::ObjectModule;
use crate::recorded::RecordedSymbols;
use crate::sources::LocalSources;

/// The name under which a profile and its requests know a module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModuleKey {
    /// File name without folders.
    pub debug_name: String,
    /// Breakpad id: 33 hex digits; all 0 without a build id.
    pub debug_id: String,
}

impl ModuleKey {
    /// The key of a module.
    pub fn from_module(module: &Module) -> ModuleKey {
        ModuleKey {
            debug_name: module.name(),
            debug_id: module.breakpad_id(),
        }
    }

    /// The key with the digits that [`ModuleKey::from_module`] writes. In ids of other profilers, the age may be in
    /// upper case (`...1A`).
    fn canonical(&self) -> ModuleKey {
        let canonical = |(at, digit): (usize, char)| {
            if at < 32 {
                digit.to_ascii_uppercase()
            } else {
                digit.to_ascii_lowercase()
            }
        };
        ModuleKey {
            debug_name: self.debug_name.clone(),
            debug_id: self.debug_id.chars().enumerate().map(canonical).collect(),
        }
    }
}

/// Answers for the modules of a recording. Shared between threads; look-ups in one module wait for each other. A
/// look-up of thousands of addresses uses up to 4 CPUs; look-ups ahead, in many modules, use up to 4, and up to 7 while
/// one of them has thousands of addresses. What was read of a module stays in memory for its next look-up, unless many
/// modules need more than 256 MB: then it is read again.
pub struct Symbolicator {
    options: SymbolOptions,
    modules: RwLock<FxHashMap<ModuleKey, Vec<Arc<ModuleEntry>>>>,
    /// By path.
    recorded: RwLock<FxHashMap<PathBuf, Arc<RecordedSymbols>>>,
    held: ModuleCache<ModuleEntry>,
    local_sources: Mutex<LocalSources>,
}

/// One module, and what has been read of it.
pub(crate) struct ModuleEntry {
    pub(crate) module: Module,
    /// The file that ran, kept open: its path may be gone.
    kept: Mutex<Option<KeptFile>>,
    opened: Mutex<OpenedModule>,
}

/// What was read of a module.
#[derive(Default)]
struct OpenedModule {
    engine: Option<Engine>,
    /// Facts about engines that were dropped for other modules. The next look-up opens another engine.
    dropped: ModuleFacts,
}

/// What is known of a module's symbols after the first look-up.
#[derive(Clone, Default)]
struct ModuleFacts {
    notes: Vec<String>,
    damage: Vec<String>,
    source: SymbolSource,
    /// Why the answers are not kept for the next start, though they should be.
    not_kept: Option<String>,
}

impl OpenedModule {
    fn facts(&self) -> ModuleFacts {
        let Some(engine) = &self.engine else {
            return self.dropped.clone();
        };
        let mut facts = engine.facts();
        let earlier = self.dropped.clone();
        let add = |all: &mut Vec<String>, earlier: Vec<String>| {
            let more: Vec<String> = earlier.into_iter().filter(|text| !all.contains(text)).collect();
            all.extend(more);
        };
        add(&mut facts.notes, earlier.notes);
        add(&mut facts.damage, earlier.damage);
        facts.not_kept = facts.not_kept.or(earlier.not_kept);
        facts
    }

    /// Returns the engine, if its files can be opened again; what is known of the module stays.
    fn take(&mut self) -> Option<Engine> {
        if !self.engine.as_ref()?.is_in_place() {
            return None;
        }
        self.dropped = self.facts();
        self.engine.take()
    }
}

/// The symbols of a module, by kind.
pub(crate) enum Engine {
    Object(Box<ObjectModule>),
    Foreign(Box<ForeignFile>),
    Kernel(Box<Kernel>),
    Jit(Arc<JitSymbols>),
    Recorded(Arc<RecordedSymbols>),
}

impl Engine {
    fn open(module: &Module, kept: Option<&KeptFile>, options: &SymbolOptions) -> Result<Engine, SymbolError> {
        match module.kind {
            ModuleKind::File => match ObjectModule::open(module, kept, options) {
                Ok(file) => Ok(Engine::Object(Box::new(file))),
                Err(error) => Engine::open_foreign(module, options, Some(error)),
            },
            ModuleKind::Windows { .. } => Engine::open_foreign(module, options, None),
            ModuleKind::Vdso => Ok(Engine::Object(Box::new(crate::kernel::vdso::open(module)?))),
            ModuleKind::Kernel => Ok(Engine::Kernel(Box::new(Kernel::open(module, options)?))),
            ModuleKind::Jit => Ok(Engine::Jit(Arc::new(JitSymbols::open(module)?))),
        }
    }

    fn open_foreign(
        module: &Module,
        options: &SymbolOptions,
        object: Option<SymbolError>,
    ) -> Result<Engine, SymbolError> {
        let file = foreign::open(module, &options.symbol_dirs, options.symbol_servers.as_deref(), object)?;
        Ok(Engine::Foreign(Box::new(file)))
    }

    fn check_unchanged(&self) -> bool {
        match self {
            Engine::Foreign(file) => file.check_unchanged(),
            Engine::Object(file) => file.check_unchanged(),
            Engine::Kernel(kernel) => kernel.check_unchanged(),
            Engine::Jit(_) | Engine::Recorded(_) => true,
        }
    }

    fn facts(&self) -> ModuleFacts {
        match self {
            Engine::Object(file) => ModuleFacts {
                notes: file.notes(),
                damage: file.damage().to_vec(),
                source: file.looked_up_in(),
                not_kept: file.not_kept().map(str::to_owned),
            },
            Engine::Jit(jit) => ModuleFacts {
                notes: jit.notes(),
                source: SymbolSource::Recorded,
                ..ModuleFacts::default()
            },
            Engine::Kernel(kernel) => ModuleFacts {
                notes: kernel.notes(),
                damage: kernel.damage(),
                source: kernel.looked_up_in(),
                ..ModuleFacts::default()
            },
            Engine::Recorded(_) => ModuleFacts {
                source: SymbolSource::Recorded,
                ..ModuleFacts::default()
            },
            Engine::Foreign(_) => ModuleFacts {
                source: SymbolSource::Files {
                    symbol_table: true,
                    debug_info: true,
                },
                ..ModuleFacts::default()
            },
        }
    }

    fn is_in_place(&self) -> bool {
        match self {
            Engine::Object(file) => file.is_in_place(),
            Engine::Kernel(kernel) => kernel.is_in_place(),
            Engine::Foreign(_) | Engine::Jit(_) | Engine::Recorded(_) => true,
        }
    }

    /// Heap bytes that are free once the symbols are dropped. Symbols of JIT code may be all that is left of it: these
    /// stay.
    fn held_bytes(&self) -> usize {
        match self {
            Engine::Object(file) => file.held_bytes(),
            Engine::Foreign(file) => file.held_bytes(),
            Engine::Kernel(kernel) => kernel.held_bytes(),
            Engine::Jit(_) | Engine::Recorded(_) => 0,
        }
    }
}

impl Symbolicator {
    /// A symbolicator that knows no module yet.
    pub fn new(options: SymbolOptions) -> Symbolicator {
        Symbolicator {
            options,
            modules: RwLock::new(FxHashMap::default()),
            recorded: RwLock::new(FxHashMap::default()),
            held: ModuleCache::new(MAX_HELD_BYTES),
            local_sources: Mutex::new(LocalSources::of_user()),
        }
    }

    /// Registers a module, so that requests by its [`ModuleKey`] find it. Opens nothing.
    pub fn add_module(&self, module: &Module) {
        self.entry(module);
    }

    /// Registers a module with its opened file, which is then read instead of the file at the module's path. Opens
    /// nothing.
    pub fn add_kept_file(&self, module: &Module, file: KeptFile) {
        *lock(&self.entry(module).kept) = Some(file);
    }

    /// Registers a module of JIT code with its symbols.
    pub fn add_jit(&self, module: &Module, symbols: Arc<JitSymbols>) {
        lock(&self.entry(module).opened).engine = Some(Engine::Jit(symbols));
    }

    /// Uses these names for the module at this path if its file is absent, or cannot be identified as the recorded one.
    pub fn add_recorded(&self, path: PathBuf, symbols: RecordedSymbols) {
        let mut recorded = self.recorded.write().unwrap_or_else(PoisonError::into_inner);
        recorded.insert(path, Arc::new(symbols));
    }

    pub(crate) fn options(&self) -> &SymbolOptions {
        &self.options
    }

    /// True if look-ups may download.
    pub(crate) fn asks_servers(&self) -> bool {
        self.options.debuginfod.is_some() || self.options.symbol_servers.is_some()
    }

    /// True if the user named folders or servers to look at.
    pub fn looks_further(&self) -> bool {
        self.has_symbol_dirs() || self.asks_servers()
    }

    /// True if the user named folders.
    pub fn has_symbol_dirs(&self) -> bool {
        !self.options.symbol_dirs.is_empty()
    }

    /// True if the user asked for debug info from servers.
    pub fn asks_debuginfod(&self) -> bool {
        self.options.debuginfod.is_some()
    }

    /// Where sources of Rust's library and of cargo's packages are.
    pub(crate) fn local_sources(&self) -> MutexGuard<'_, LocalSources> {
        lock(&self.local_sources)
    }

    pub(crate) fn entry(&self, module: &Module) -> Arc<ModuleEntry> {
        let mut modules = self.modules.write().unwrap_or_else(PoisonError::into_inner);
        let entries = modules.entry(ModuleKey::from_module(module)).or_default();
        // A build id proves nothing: two files may claim the same one. Each has a path of its own.
        let place = |module: &Module| (module.kind, module.path.clone(), module.readable_path.clone());
        let same = |entry: &&Arc<ModuleEntry>| {
            entry.module.build_id == module.build_id && place(&entry.module) == place(module)
        };
        if let Some(known) = entries.iter().find(same) {
            return Arc::clone(known);
        }
        let entry = Arc::new(ModuleEntry {
            module: module.clone(),
            kept: Mutex::new(None),
            opened: Mutex::default(),
        });
        entries.push(Arc::clone(&entry));
        entry
    }

    /// The answer for the registered module of this name and id. Of several files, copies mostly, their common answer.
    ///
    /// # Errors
    ///
    /// No module has this key, the files have different answers, or the first error of `ask`.
    pub(crate) fn ask_all<T: PartialEq, E: From<SymbolError>>(
        &self,
        key: &ModuleKey,
        ask: impl Fn(&Module) -> Result<T, E>,
    ) -> Result<T, E> {
        let modules = self.modules.read().unwrap_or_else(PoisonError::into_inner);
        let entries = modules.get(&key.canonical()).cloned().unwrap_or_default();
        drop(modules);
        let (mut answer, mut failure) = (None, None);
        for entry in &entries {
            match (ask(&entry.module), &answer) {
                (Ok(found), None) => answer = Some(found),
                (Ok(found), Some(known)) if found == *known => {}
                // A file that is gone may be a copy of the other one, if it has its build id.
                (Err(error), _) if entry.module.build_id.is_some() || entries.len() == 1 => {
                    failure.get_or_insert(error);
                }
                (Ok(_) | Err(_), _) => {
                    return Err(E::from(SymbolError::Ambiguous {
                        name: key.debug_name.clone(),
                        paths: entries.iter().map(|entry| entry.module.path.clone()).collect(),
                    }));
                }
            }
        }
        match (answer, failure) {
            (Some(answer), _) => Ok(answer),
            (None, Some(failure)) => Err(failure),
            (None, None) => Err(E::from(SymbolError::UnknownModule {
                name: key.debug_name.clone(),
                id: key.debug_id.clone(),
            })),
        }
    }

    /// Looks up relative addresses; answers are in the order of the addresses. Registers the module if needed.
    ///
    /// # Errors
    ///
    /// No file has the symbols of the module's build, or the file can't be read or was written to meanwhile. An address
    /// without a name is not an error: its answer has no function.
    pub fn lookup(&self, module: &Module, addresses: &[u64]) -> Result<Vec<AddressInfo>, SymbolError> {
        self.lookup_entry(&self.entry(module), addresses)
    }

    pub(crate) fn lookup_entry(
        &self,
        entry: &Arc<ModuleEntry>,
        addresses: &[u64],
    ) -> Result<Vec<AddressInfo>, SymbolError> {
        self.with_engine(entry, |engine| match engine {
            Engine::Object(file) if jit::is_injected(&entry.module.name()) => {
                Ok(file.lookup(addresses).into_iter().map(jit::readable).collect())
            }
            Engine::Object(file) => Ok(file.lookup(addresses)),
            Engine::Foreign(file) => file.lookup(addresses),
            Engine::Kernel(kernel) => Ok(kernel.lookup(addresses)),
            Engine::Jit(jit) => Ok(jit.lookup(addresses)),
            Engine::Recorded(recorded) => Ok(recorded.lookup(addresses)),
        })
    }

    /// The source that a look-up would have: which files of the module's build are available, by their headers. May
    /// download. [`SymbolSource::NotAsked`] for code that files do not identify.
    pub fn available(&self, module: &Module) -> SymbolSource {
        let foreign = |object: Option<SymbolError>| {
            let opened = Engine::open_foreign(module, &self.options, object);
            opened.map_or_else(|error| error.source(), |engine| engine.facts().source)
        };
        match module.kind {
            _ if module.build_id.is_none() => SymbolSource::NotAsked,
            ModuleKind::File => match locate(module, None, &self.options) {
                Ok(files) => files.source(),
                Err(error) => foreign(Some(error)),
            },
            ModuleKind::Windows { .. } => foreign(None),
            ModuleKind::Kernel => Kernel::image_source(module, &self.options),
            ModuleKind::Vdso | ModuleKind::Jit => SymbolSource::NotAsked,
        }
    }

    /// What the answers for a module lack, each as a sentence: damaged debug info, split debug info that was not found.
    /// Empty before the first look-up.
    pub fn notes(&self, module: &Module) -> Vec<String> {
        lock(&self.entry(module).opened).facts().notes
    }

    /// Which files of a module could not be read, or not wholly, a sentence each; also among [`Symbolicator::notes`].
    pub fn damage(&self, module: &Module) -> Vec<String> {
        lock(&self.entry(module).opened).facts().damage
    }

    /// Where the answers for a module come from; known after the first look-up.
    pub fn looked_up_in(&self, module: &Module) -> SymbolSource {
        lock(&self.entry(module).opened).facts().source
    }

    /// Why answers for a module could not be kept in [`SymbolOptions::cache`], a sentence. `None` if they were, or were
    /// not to be. They are right; the next start looks them up again.
    pub fn not_kept(&self, module: &Module) -> Option<String> {
        lock(&self.entry(module).opened).facts().not_kept
    }

    fn open(&self, module: &Module, kept: Option<&KeptFile>) -> Result<Engine, SymbolError> {
        let recorded = self.recorded.read().unwrap_or_else(PoisonError::into_inner);
        let Some(recorded) = recorded.get(&module.path) else {
            return Engine::open(module, kept, &self.options);
        };
        let recorded = || Engine::Recorded(Arc::clone(recorded));
        // A file that can be identified is better than recorded names: it also has lines.
        if module.build_id.is_some() || kept.is_some() {
            Engine::open(module, kept, &self.options).or_else(|_| Ok(recorded()))
        } else {
            Ok(recorded())
        }
    }

    /// Runs `task` on the engine, opened if needed, and opened again if its file was written to.
    pub(crate) fn with_engine<T>(
        &self,
        entry: &Arc<ModuleEntry>,
        task: impl FnOnce(&mut Engine) -> Result<T, SymbolError>,
    ) -> Result<T, SymbolError> {
        let mut opened = lock(&entry.opened);
        if opened.engine.as_ref().is_some_and(|engine| !engine.check_unchanged()) {
            *opened = OpenedModule::default();
        }
        // A failure is not kept: the file may exist at the next look-up.
        let engine = match &mut opened.engine {
            Some(engine) => engine,
            empty => {
                let kept = lock(&entry.kept).clone();
                empty.insert(self.open(&entry.module, kept.as_ref())?)
            }
        };
        let answer = task(engine);
        // Part of the answer may be from the new content, or cut off.
        if !engine.check_unchanged() {
            *opened = OpenedModule::default();
            return Err(SymbolError::Rewritten {
                path: entry.module.path.clone(),
            });
        }
        // A module that another thread looks at is not waited for.
        let others = |other: &ModuleEntry| other.opened.try_lock().ok()?.take();
        let dropped = self.held.used(entry, engine.held_bytes(), others);
        // To free what they hold takes longer than a look-up.
        drop(opened);
        drop(dropped);
        answer
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
