//! A file that is to be looked at without a browser: a saved profile, a perf.data file, what is left of a recording, folded
//! stacks, or what another profiler wrote. All become the same data, with names if they can be had.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use profile::data::Data;
use profile::read::{self, Kind, ReadError, ReadLimits};
use profile::view::name_addresses;
use recording::symbol::SymbolSource;
use symbolicator::Symbolicator;

use crate::args::Named;
use crate::command::load::module;
use crate::exit::Failure;
use crate::import::{self, Imported};
use crate::names::{LookUps, say_nameless, symbolicator_of};
use crate::term::Term;

/// What a word of the command line names: a program to run (also by its name in PATH), or a file to read.
pub(crate) fn named(word: &OsStr) -> Named {
    let path = Path::new(word);
    let in_path = || {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders).any(|folder| folder.join(path).is_file())
    };
    // Opening a pipe would wait for its other end.
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => return Named::Nothing,
        Ok(metadata) if !metadata.is_file() => return Named::File,
        Err(_) if path.components().count() == 1 && in_path() => return Named::Program,
        Err(_) => return Named::Nothing,
        Ok(_) => {}
    }
    let is_executable = std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0);
    let mut start = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read(&mut start));
    match is_executable && read.is_ok() && (start == *b"\x7fELF" || start.starts_with(b"#!")) {
        true => Named::Program,
        false => Named::File,
    }
}

/// How to read an input.
#[derive(Clone, Debug, Default)]
pub(crate) struct InputOptions {
    /// Of a file that counts several things, this one; the file's own choice, or the first, unless it is named.
    pub(crate) event: Option<String>,
    /// Folders to look for debug files in, too.
    pub(crate) symbol_dirs: Vec<PathBuf>,
}

/// An input that was read.
pub(crate) struct Input {
    /// Its samples, named as far as possible.
    pub(crate) data: Data,
    /// What answers for its libraries.
    pub(crate) symbolicator: Arc<Symbolicator>,
    /// What the names of each library were looked up in.
    pub(crate) sources: Vec<SymbolSource>,
    /// What limits the data, a line each: addresses without names, what the file lacked.
    pub(crate) notes: Vec<String>,
}

/// Reads a file of any kind that is known.
pub(crate) fn open(path: &Path, options: &InputOptions, term: &Term) -> Result<Input, Failure> {
    term.progress(false, format_args!("reading {}", path.display()));
    let input = read(path, options, term);
    term.erase_progress();
    input
}

fn read(path: &Path, options: &InputOptions, term: &Term) -> Result<Input, Failure> {
    let symbolicator = symbolicator_of(path, options.symbol_dirs.clone());
    let mut notes = Vec::new();
    let mut data = if import::is_perf_data(path) {
        let Imported { profile, notes: lacks } = import::read(path, options.event.as_deref(), &symbolicator)?;
        notes.extend(lacks);
        for lib in profile.libs() {
            symbolicator.add_module(&lib.module);
        }
        let mut data = Data::from(&profile);
        data.keep_event(None).map_err(Failure::failed)?;
        data
    } else if let Some(kind) = read::kind(path) {
        if kind == Kind::Folded && options.event.is_some() {
            return Err(Failure::failed(format_args!(
                "{} has folded stacks, which do not say what they count: leave --event away",
                path.display()
            )));
        }
        let read::Foreign { data, notes: lacks } =
            read::foreign(path, kind, options.event.as_deref(), ReadLimits::default()).map_err(Failure::failed)?;
        notes.extend(lacks);
        data
    } else {
        let mut data = read::whole(path, ReadLimits::default()).map_err(|error| failure(&error))?;
        let others = (data.keep_event(options.event.as_deref())).map_err(|error| {
            Failure::failed(format_args!(
                "cannot show {}: {error}; name one of these, or leave --event away",
                path.display()
            ))
        })?;
        if !others.is_empty() {
            notes.push(format!(
                "the file counts {}, too: --event NAME shows that",
                some_of(&others)
            ));
        }
        data
    };
    if data.symbolicated && term.is_verbose() {
        say_nameless(&data, term);
    }
    let mut look_ups = LookUps::new(&symbolicator, term);
    let named = name_addresses(&mut data, |lib, addresses| {
        let module = module(lib)?;
        term.progress(false, format_args!("looking up symbols: {}", module.name()));
        look_ups.look_up(&module, addresses)
    });
    let sources = look_ups.sources(&data);
    if named.addresses_without_name > 0 {
        notes.push(format!(
            "{} of {} addresses have no name, and stand as addresses or as fun_ADDRESS of their function; --verbose tells why, --symbol-dir names a folder with \
             symbols",
            named.addresses_without_name, named.addresses
        ));
    } else if !data.symbolicated && named.addresses == 0 && !data.stacks.is_empty() {
        notes.push("the profile has no function names and no libraries to look them up in".to_owned());
    }
    for module in data.libs.iter().filter_map(module) {
        symbolicator.add_module(&module);
    }
    data.make_printable();
    Ok(Input {
        data,
        symbolicator,
        sources,
        notes,
    })
}

/// `syscalls:*` are 700.
fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 8;
    match names.len().saturating_sub(SHOWN) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names[..SHOWN].join(", ")),
    }
}

/// A file that is no profile may have been meant as any of the others.
fn failure(error: &ReadError) -> Failure {
    Failure::failed(match error {
        ReadError::NotAProfile { path, found } => format!(
            "{} is {found}; expected a Firefox profile (JSON, or JSON in gzip), a file of perf record, a .partial file, text of \
             perf script, folded stacks (lines like `main;work;leaf 12`), or a file of pprof, callgrind, cachegrind or DHAT",
            path.display()
        ),
        error => error.to_string(),
    })
}
