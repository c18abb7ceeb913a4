//! What is read of a file, of a recording that goes on: names are looked up again for each snapshot, and the symbols of
//! files are read once.

use std::sync::Arc;
use std::time::SystemTime;

use profile::Profile;
use profile::data::Data;
use recording::module::Module;
use recording::sink::KeptFile;
use symbolicator::{SymbolOptions, Symbolicator};

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
        }
    }

    pub(crate) fn of_snapshot(&self, snapshot: Snapshot) -> Profile {
        let (mut profile, kept_files, jit_symbols) = snapshot.finish();
        self.add_files(kept_files, jit_symbols);
        self.name(&mut profile, &Term::stderr(Verbosity::Quiet));
        profile
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
