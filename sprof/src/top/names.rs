//! What is read of a file, of a recording that goes on. The name of an address is looked up once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use names::symbol::SymbolSource;
use profile::Profile;
use profile::data::Data;
use profile::enrich::enrich;
use recording::module::{Module, ModuleKind};
use recording::sink::KeptFile;
use symbolicator::{AddressInfo, ModuleKey, SymbolOptions, Symbolicator};

use crate::exit::Failure;
use crate::input::Input;
use crate::interrupt::Interrupt;
use crate::pipeline::jit::JitModules;
use crate::pipeline::snapshots::Snapshot;
use crate::symbols::look_ups::LookUps;
use crate::terminal::{Term, Verbosity};

pub(crate) struct LiveNames {
    symbolicator: Arc<Symbolicator>,
    interrupt: Interrupt,
    known: Mutex<HashMap<ModuleKey, KnownNames>>,
}

/// What was found in a module so far.
#[derive(Default)]
struct KnownNames {
    /// Without a name if none was found.
    by_address: HashMap<u64, AddressInfo>,
    source: SymbolSource,
}

impl LiveNames {
    pub(crate) fn new(options: SymbolOptions, interrupt: Interrupt) -> LiveNames {
        let symbolicator = Symbolicator::new(SymbolOptions {
            recorded_at: Some(SystemTime::now()),
            ..options
        });
        LiveNames {
            symbolicator: Arc::new(symbolicator),
            interrupt,
            known: Mutex::default(),
        }
    }

    pub(crate) fn of_snapshot(&self, snapshot: Snapshot) -> Profile {
        let is_whole = snapshot.is_whole();
        let (mut profile, kept_files, jit_symbols) = snapshot.finish();
        self.add_files(kept_files, jit_symbols);
        match is_whole {
            // It may be saved: also what could not be read is noted.
            true => self.name(&mut profile, &Term::stderr(Verbosity::Quiet)),
            false => self.name_end(&mut profile),
        }
        profile
    }

    fn name_end(&self, profile: &mut Profile) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = profile.libs().into_iter().map(|lib| {
            let names = known.entry(ModuleKey::from_module(&lib.module)).or_default();
            if lib.module.kind == ModuleKind::Jit {
                // Compilers replace their code.
                names.by_address.clear();
            }
            let is_new = |address: &u64| !names.by_address.contains_key(address);
            let new: Vec<u64> = lib.addresses.into_iter().filter(is_new).collect();
            (lib.module, new)
        });
        let asked: Vec<(Arc<Module>, Vec<u64>)> = asked.filter(|(_, new)| !new.is_empty()).collect();
        if !asked.is_empty() {
            self.symbolicator.look_up_ahead(&asked, |ahead| {
                for (module, new) in &asked {
                    let answer = ahead.lookup(module, new);
                    let names = known.entry(ModuleKey::from_module(module)).or_default();
                    names.source = match &answer {
                        Ok(_) => self.symbolicator.looked_up_in(module),
                        Err(error) => error.source(),
                    };
                    let infos = answer.unwrap_or_else(|_| vec![AddressInfo::default(); new.len()]);
                    names.by_address.extend(new.iter().copied().zip(infos));
                }
            });
        }
        enrich(profile, |module, addresses| {
            let names = &known.get(&ModuleKey::from_module(module))?.by_address;
            addresses.iter().map(|address| names.get(address).cloned()).collect()
        });
        let source = |module: &Module| known.get(&ModuleKey::from_module(module)).map(|names| names.source);
        profile.set_symbol_sources(|module| source(module).unwrap_or_default());
    }

    /// Names are looked up in these files.
    pub(crate) fn add_files(&self, kept_files: Vec<(Arc<Module>, KeptFile)>, jit_symbols: JitModules) {
        for (module, file) in kept_files {
            self.symbolicator.add_kept_file(&module, file);
        }
        for (module, symbols) in jit_symbols {
            self.symbolicator.add_jit(&module, symbols);
        }
    }

    pub(crate) fn name(&self, profile: &mut Profile, term: &Term) {
        LookUps::new(&self.symbolicator, term).name(profile, &self.interrupt);
    }

    /// The same data that is read of the saved profile.
    pub(crate) fn input(&self, profile: &Profile, has_markers: bool) -> Result<Input, Failure> {
        let mut data = match has_markers {
            true => profile::for_page(profile),
            false => Data::from(profile),
        };
        data.keep_event(None).map_err(Failure::failed)?;
        data.make_printable();
        Ok(Input {
            data,
            symbolicator: self.symbolicator.clone(),
            notes: Vec::new(),
        })
    }
}
