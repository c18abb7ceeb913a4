//! Looks up names of addresses, and records the outcome for each library.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use names::symbol::{AddressInfo, SymbolSource, is_nameless};
use profile::Profile;
use profile::data::Data;
use profile::data::SavedLib;
use profile::enrich::{Enriched, enrich};
use profile::read::SavedProfile;
use profile::view::{NamedAddresses, WantedNames, asked_addresses, name_wanted, symbol_sources};
use recording::module::{Module, ModuleKind};
use symbolicator::{Ahead, ModuleKey, SymbolError, SymbolOptions, Symbolicator};

use crate::args::SymbolArgs;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::symbols::build_ids;
use crate::symbols::downloads;
use crate::symbols::library::module;
use crate::terminal::Term;
use crate::terminal::columns::clean;

/// The failure of a command whose look-ups a signal ended.
pub(crate) const INTERRUPTED: &str = "interrupted while names were looked up";

/// Looks up names for a file's addresses; a binary that is newer than the file is another build.
pub(crate) fn symbolicator_of(
    file: &Path,
    symbols: &SymbolArgs,
    interrupt: &Interrupt,
    term: &Term,
) -> Result<Arc<Symbolicator>, Failure> {
    let recorded_at = std::fs::metadata(file).and_then(|file| file.modified()).ok();
    let options = options(symbols, recorded_at, interrupt, term)?;
    Ok(Arc::new(Symbolicator::new(options)))
}

/// Signals of a command that looks up names. With servers, the first Ctrl-C ends a download, and the second one sprof.
pub(crate) fn interrupt_of(symbols: &SymbolArgs) -> Result<Interrupt, Failure> {
    match symbols.uses_network() {
        true => Interrupt::default().or_watch(),
        false => Ok(Interrupt::default()),
    }
}

/// Options of the symbolicator, with its servers. Asks no server yet.
pub(crate) fn options(
    symbols: &SymbolArgs,
    recorded_at: Option<SystemTime>,
    interrupt: &Interrupt,
    term: &Term,
) -> Result<SymbolOptions, Failure> {
    let servers = symbols.debuginfod.then(|| downloads::servers(interrupt, term));
    let symbol_servers = match symbols.symbol_servers().as_slice() {
        [] => None,
        urls => Some(downloads::symbol_servers(urls, interrupt, term)?),
    };
    Ok(SymbolOptions {
        debuginfod: servers.transpose()?,
        symbol_servers,
        ..symbols.options(recorded_at)
    })
}

/// Looks up names, reports with -v which addresses have none and why, and remembers the source of names.
pub(crate) struct LookUps<'a> {
    pub(crate) symbolicator: &'a Symbolicator,
    term: &'a Term,
    sources: HashMap<ModuleKey, SymbolSource>,
    /// Files that could not be read, a sentence each.
    damage: Vec<String>,
    /// True once it was said that names can't be kept: the folder is the same for all modules.
    said_not_kept: bool,
    /// False if a signal ended the look-ups early.
    is_whole: bool,
}

impl<'a> LookUps<'a> {
    pub(crate) fn new(symbolicator: &'a Symbolicator, term: &'a Term) -> LookUps<'a> {
        LookUps {
            symbolicator,
            term,
            sources: HashMap::new(),
            damage: Vec::new(),
            said_not_kept: false,
            is_whole: true,
        }
    }

    /// Looks up the names of addresses; `None` if the module has no names.
    fn look_up(&mut self, module: &Module, addresses: &[u64], ahead: &Ahead<'_>) -> Option<Vec<AddressInfo>> {
        let path = module.path.display();
        let found = ahead.lookup(module, addresses);
        let source = match &found {
            Ok(_) => self.symbolicator.looked_up_in(module),
            Err(error) => error.source(),
        };
        self.sources.insert(ModuleKey::from_module(module), source);
        let infos = match found {
            Ok(infos) => infos,
            Err(error) => {
                if let SymbolError::Unreadable { .. } = error {
                    let damage = error.to_string();
                    if !self.damage.contains(&damage) {
                        self.damage.push(damage);
                    }
                }
                self.term.verbose(format_args!("no names for {path}: {error}"));
                return None;
            }
        };
        (self.symbolicator.notes(module).iter()).for_each(|note| self.term.verbose(note));
        if !self.said_not_kept
            && let Some(problem) = self.symbolicator.not_kept(module)
        {
            self.term.verbose(problem);
            self.said_not_kept = true;
        }
        let damage = self.symbolicator.damage(module);
        let is_new = |text: &String| !self.damage.contains(text);
        let damage: Vec<String> = damage.into_iter().filter(is_new).collect();
        self.damage.extend(damage);
        let is_nameless = |info: &&AddressInfo| !info.is_named() && info.frames.is_empty();
        let nameless = infos.iter().filter(is_nameless).count();
        if nameless > 0 {
            self.term.verbose(format_args!(
                "{path}: {nameless} of {} addresses have no name: {}",
                addresses.len(),
                why_nameless(source)
            ));
        }
        Some(infos)
    }

    /// Gives names to all addresses of the profile. With -v, reports the modules without names.
    pub(crate) fn name(&mut self, profile: &mut Profile, interrupt: &Interrupt) -> Enriched {
        let term = self.term;
        let modules = profile.libs().len();
        term.progress(true, format_args!("looking up symbols in {modules} modules"));
        let started = Instant::now();
        let mut done = 0;
        let libs = profile.libs().into_iter();
        let requests: Vec<(Arc<Module>, Vec<u64>)> = libs.map(|lib| (lib.module, lib.addresses)).collect();
        let symbolicator = self.symbolicator;
        let enriched = symbolicator.look_up_ahead(&requests, |ahead| {
            enrich(profile, |module, addresses| {
                done += 1;
                if interrupt.is_seen() {
                    self.is_whole = false;
                    return None;
                }
                let name = module.name();
                term.progress(false, format_args!("looking up symbols: {done} of {modules}, {name}"));
                self.look_up(module, addresses, ahead)
            })
        });
        profile.add_damaged_symbols(self.damage.iter().cloned());
        profile.set_symbol_sources(|module| self.source(module).unwrap_or_default());
        term.erase_progress();
        term.verbose(format_args!(
            "looked up {} addresses in {} modules in {:.1?}; {} have no name",
            enriched.addresses,
            enriched.modules,
            started.elapsed(),
            enriched.addresses_without_name
        ));
        if !self.is_whole {
            term.warning("interrupted: saving without the remaining symbols");
        }
        enriched
    }

    /// Gives names to data that was read from a file: to all addresses if the data has no names, else where today's
    /// files have more names than the files that named it. After an interrupt, the rest stays as it is.
    pub(crate) fn name_read(&mut self, data: &mut Data, interrupt: &Interrupt) -> NamedAddresses {
        let wanted = self.wanted(data, interrupt);
        let asked = data.libs.iter().zip(asked_addresses(data, &wanted));
        let requests: Vec<(Arc<Module>, Vec<u64>)> = asked
            .filter(|(_, addresses)| !addresses.is_empty())
            .filter_map(|(lib, addresses)| Some((Arc::new(module(lib)?), addresses)))
            .collect();
        let (symbolicator, term) = (self.symbolicator, self.term);
        build_ids::warn_of_read(&requests, term);
        let named = symbolicator.look_up_ahead(&requests, |ahead| {
            name_wanted(data, &wanted, |lib, addresses| {
                let module = module(lib).filter(|_| !interrupt.is_seen())?;
                term.progress(false, format_args!("looking up symbols: {}", module.name()));
                self.look_up(&module, addresses, ahead)
            })
        });
        for lib in &mut data.libs {
            if let Some(source) = module(lib).and_then(|module| self.source(&module)) {
                lib.symbol_source = source;
            }
        }
        term.erase_progress();
        named
    }

    /// What to look up for each library. Also records why a library has no names, if it was not looked up before.
    fn wanted(&self, data: &mut Data, interrupt: &Interrupt) -> Vec<WantedNames> {
        if !data.symbolicated {
            return vec![WantedNames::Names; data.libs.len()];
        }
        let known = symbol_sources(data);
        let wanted = data.libs.iter_mut().zip(known).map(|(lib, known)| {
            let Some(known) = known.filter(|_| !interrupt.is_seen()) else {
                return WantedNames::Nothing;
            };
            let (wanted, available) = wanted_of(lib, known, self.symbolicator);
            let is_nameless = matches!(
                known,
                SymbolSource::Files {
                    symbol_table: false,
                    ..
                }
            );
            if is_nameless && lib.symbol_source == SymbolSource::NotAsked {
                lib.symbol_source = available;
            }
            wanted
        });
        wanted.collect()
    }

    fn source(&self, module: &Module) -> Option<SymbolSource> {
        self.sources.get(&ModuleKey::from_module(module)).copied()
    }

    /// Files that could not be read, or only in part, a sentence each.
    pub(crate) fn damage(&self) -> &[String] {
        &self.damage
    }

    /// True if all addresses were looked up.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }
}

/// What to look up for a library whose names came from `known`, and the source that is available. Nothing is looked up
/// unless files of its build have more names. Where the user named folders or servers, debug info is read again: its
/// parts may have been missing before.
fn wanted_of(lib: &SavedLib, known: SymbolSource, symbolicator: &Symbolicator) -> (WantedNames, SymbolSource) {
    let looks_further = symbolicator.looks_further();
    let module = module(lib).filter(|_| looks_further || !known.has_debug_info());
    let Some(module) = module else {
        return (WantedNames::Nothing, SymbolSource::NotAsked);
    };
    let available = symbolicator.available(&module);
    let wanted = match available.adds_to(known) || looks_further && available.has_debug_info() {
        false => WantedNames::Nothing,
        true if module.kind == ModuleKind::Kernel => WantedNames::LinesOfNames,
        true => WantedNames::Names,
    };
    (wanted, available)
}

/// True if the profile has no names, or if files that are available may have more.
pub(crate) fn may_name(profile: &SavedProfile, symbolicator: &Symbolicator) -> bool {
    // In a profile of another program only the frames show what it has. So files are read again for debug info alone.
    let named = SymbolSource::Files {
        symbol_table: true,
        debug_info: false,
    };
    let gets_more = |lib: &SavedLib| {
        let known = match lib.symbol_source {
            SymbolSource::NotAsked => named,
            known => known,
        };
        wanted_of(lib, known, symbolicator).0 != WantedNames::Nothing
    };
    profile.form.is_for_views() && (profile.symbolicated == Some(false) || profile.libs.iter().any(gets_more))
}

/// Prints with -v how many addresses of each library have no name, for data that came with names.
pub(crate) fn say_nameless(data: &Data, term: &Term) {
    // (addresses without a name, addresses) of each library; the last entry is code of no file.
    let mut counts = vec![(0u64, 0u64); data.libs.len() + 1];
    for frame in &data.frames {
        let count = &mut counts[data.libs.len().min(frame.lib as usize)];
        count.0 += u64::from(is_nameless(data.func_name(frame.func)));
        count.1 += 1;
    }
    for (at, (nameless, all)) in counts
        .into_iter()
        .enumerate()
        .filter(|(_, (nameless, _))| *nameless > 0)
    {
        let lib = data.libs.get(at);
        let path = lib.map(|lib| lib.path.as_deref().or(lib.name.as_deref()));
        let path = path.map_or("code of no file", |path| path.unwrap_or("a library"));
        term.verbose(format_args!(
            "{}: {nameless} of {all} addresses have no name: {}",
            clean(path),
            why_nameless(lib.map_or(SymbolSource::NotAsked, |lib| lib.symbol_source))
        ));
    }
}

/// Why code has no name, to follow `APP: `.
pub(crate) fn why_nameless(source: SymbolSource) -> &'static str {
    match source {
        SymbolSource::Files {
            symbol_table: false,
            debug_info: false,
        } => "it is stripped, and no debug file of its build was found",
        SymbolSource::Files { .. } => "its symbol table and debug info have no function there",
        SymbolSource::Recorded => "the files about this code have no function there",
        SymbolSource::NotAsked => "no name was found when the profile was made",
        SymbolSource::NoFile => "its file was not found",
        SymbolSource::OtherBuild => "the file is another build now",
        SymbolSource::Unreadable => "its file can't be read",
        SymbolSource::Hidden => "the kernel shows this user no addresses",
        SymbolSource::NotBuilt => "this sprof is built without the feature foreign-symbols",
    }
}
