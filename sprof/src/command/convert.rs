//! `sprof load` of files that are not Firefox profiles: convert, then serve or save.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use names::symbol::is_nameless;
use profile::data::{Data, WeightUnit};
use profile::enrich::Enriched;
use profile::export::firefox;
use profile::read::SavedProfile;
use profile::text::numbers::count;
use profile::view::NamedAddresses;
use profile::{Profile, Tracks};
use recording::session::StopReason;
use symbolicator::Symbolicator;
use tempfile::NamedTempFile;

use super::saved_data;
use super::show::{self, ServedProfile};
use crate::args::{LoadArgs, SymbolArgs};
use crate::exit::{Failure, Outcome, Status};
use crate::input;
use crate::input::perf_data;
use crate::interrupt::Interrupt;
use crate::output::file_kind::FileKind;
use crate::output::{Earlier, Output, Saved};
use crate::summary::{Highlights, Summary};
use crate::symbols::look_ups::{LookUps, may_name, symbolicator_of};
use crate::terminal::Term;
use crate::terminal::style::Style;

/// Runs the command on a file of perf.
pub(super) fn run(args: &LoadArgs, term: &Term) -> Outcome {
    // Ctrl-C ends the look-up of names where a file is to be saved, and sprof where it is to be served.
    let interrupt = match args.save_only {
        true => Interrupt::watch()?,
        false => Interrupt::default(),
    };
    let symbolicator = symbolicator_of(&args.file, &args.serve.input.symbols, &interrupt, term)?;
    let mut look_ups = LookUps::new(&symbolicator, term);
    let event = args.event.name();
    let summary = |profile: &Profile, look_ups: &LookUps<'_>, enriched: Enriched| Summary {
        highlights: Highlights::of(profile, look_ups, None),
        enriched: Some(enriched),
        ..Summary::of(profile, StopReason::ProgramEnded)
    };
    if args.save_only {
        let output = Output::prepare(&args.output, FileKind::Profile, Earlier::Kept)?;
        let (profile, enriched) = perf_data::read_named(&args.file, event, &mut look_ups, &interrupt, term)?;
        let saved = output.save(term, |out| firefox::write_gz(&profile, out))?;
        let path = saved.path.clone();
        let summary = summary(&profile, &look_ups, enriched);
        Summary { path, ..summary }.print(term);
        return say_saved(saved, term);
    }
    let listener = show::listen(&args.serve, term)?;
    let (profile, enriched) = perf_data::read_named(&args.file, event, &mut look_ups, &interrupt, term)?;
    let file = unnamed_file(&args.file, |out| firefox::write_gz(&profile, out))?;
    profile
        .libs()
        .iter()
        .for_each(|lib| symbolicator.add_module(&lib.module));
    let links = listener.links(Some(&Tracks::from_profile(&profile)));
    let link = Some(links.open.clone());
    let summary = summary(&profile, &look_ups, enriched);
    Summary { link, ..summary }.print(term);
    drop(profile);
    let shown = ServedProfile {
        profile: file,
        base: None,
        symbolicator,
        links,
        browsed: None,
    };
    shown.serve(listener, &args.serve, term)
}

/// Reports where the profile is.
pub(super) fn say_saved(saved: Saved, term: &Term) -> Outcome {
    if let Some(path) = &saved.path {
        term.line(format_args!("saved {}", term.style(Style::Link, path.display())));
    }
    match saved.problem {
        Some(problem) => {
            term.error(problem);
            Ok(Status::PARTIAL)
        }
        None => Ok(Status::SUCCESS),
    }
}

/// Another profiler's file as a profile, in a temporary file that sprof deletes when it ends.
pub(super) fn foreign(
    path: &Path,
    event: Option<&str>,
    symbols: &SymbolArgs,
    term: &Term,
) -> Result<NamedTempFile, Failure> {
    let input = input::open_and_warn(path, event, symbols, term)?;
    foreign_data(path, input.data, term)
}

/// Warns of a file whose values are counts, which the UI calls samples.
pub(super) fn say_what_is_counted(path: &Path, data: &Data, term: &Term) {
    if let Some(weights) = data.weights.as_ref().filter(|_| data.unit == WeightUnit::Counts) {
        let (path, name) = (path.display(), &weights.name);
        term.warning(format_args!("{path}: what the UI calls samples are {name}"));
    }
}

/// Another profiler's data as a profile, in a temporary file that sprof deletes when it ends.
pub(super) fn foreign_data(path: &Path, data: Data, term: &Term) -> Result<NamedTempFile, Failure> {
    say_what_is_counted(path, &data, term);
    let data = data.into_saved();
    let written = NamedTempFile::new().and_then(|mut file| {
        firefox::write_data_gz(&data, &mut file)?;
        Ok(file)
    });
    written.map_err(|error| failed(path, &error))
}

/// A saved profile with more names, in a file without a name. `None` if no more names are available, or if the profile
/// has no names at all: then the UI asks for names when it needs them.
pub(super) fn named_again(
    path: &Path,
    saved: &SavedProfile,
    symbolicator: &Symbolicator,
    interrupt: &Interrupt,
    term: &Term,
) -> Result<Option<File>, Failure> {
    if saved.symbolicated == Some(false) || !may_name(saved, symbolicator) {
        return Ok(None);
    }
    let (data, named) = saved_data::named(path, symbolicator, interrupt, term)?;
    if !named.is_changed {
        return Ok(None);
    }
    term.line(describe_named(&data, named));
    unnamed_file(path, |out| firefox::write_data_gz(&data, out)).map(Some)
}

/// The result of looking up names for a saved profile.
pub(super) fn describe_named(data: &Data, named: NamedAddresses) -> String {
    let names = count(named.addresses - named.addresses_without_name, "address", "addresses");
    let lacks_names = || (0..data.funcs.len() as u32).any(|func| is_nameless(data.func_name(func)));
    match named.is_changed {
        true => format!("looked up names: {names} of {} have one", named.addresses),
        false if lacks_names() => "no more names are available than the profile has".to_owned(),
        false => "all functions of the profile have names, and no more is known of them".to_owned(),
    }
}

/// A converted profile in a file without a name: nobody asked for one.
pub(super) fn unnamed_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<File, Failure> {
    let written = tempfile::tempfile().and_then(|file| {
        let mut buffered = BufWriter::with_capacity(1 << 16, &file);
        write(&mut buffered)?;
        buffered.flush()?;
        drop(buffered);
        Ok(file)
    });
    written.map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format_args!(
        "converting {} failed: {error}; free space in the folder of temporary files",
        path.display()
    ))
}
