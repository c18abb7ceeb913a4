//! `sprof load` of what is no Firefox profile: convert, then serve or save.

use std::io::{self, BufWriter, IsTerminal, Seek, Write};
use std::path::Path;
use std::sync::Arc;

use profile::data::{Data, Unit};
use profile::export::firefox;
use profile::{Profile, Tracks};
use symbolicator::Symbolicator;
use tempfile::NamedTempFile;

use super::{record, show};
use crate::args::LoadArgs;
use crate::exit::{Failure, Outcome, Status};
use crate::file_kind::FileKind;
use crate::highlights::Highlights;
use crate::import::{self, Imported};
use crate::input::{self, InputOptions};
use crate::interrupt::Interrupt;
use crate::names::{LookUps, symbolicator_of};
use crate::output::{Earlier, Output, Saved};
use crate::pipeline::{self, StopReason};
use crate::serve::{Content, Listener, Server};
use crate::summary::Summary;
use crate::term::{Style, Term};

/// Runs the command on a file that is known to be perf's.
pub(super) fn run(args: LoadArgs, term: &Term) -> Outcome {
    let symbolicator = symbolicator_of(&args.file, args.serve.symbol_dir.clone());
    match args.save_only {
        true => save(&args, term, &symbolicator),
        false => serve(&args, term, symbolicator),
    }
}

fn read(args: &LoadArgs, term: &Term, symbolicator: &Symbolicator) -> Result<Profile, Failure> {
    term.progress(false, format_args!("converting {}", args.file.display()));
    let Imported { profile, notes } = import::read(&args.file, args.event.as_deref(), symbolicator)?;
    term.erase_progress();
    notes
        .iter()
        .for_each(|note| term.warning(format_args!("{}: {note}", args.file.display())));
    Ok(profile)
}

fn save(args: &LoadArgs, term: &Term, symbolicator: &Symbolicator) -> Outcome {
    let output = Output::prepare(&args.output, FileKind::Profile, Earlier::Kept).map_err(Failure::failed)?;
    let interrupt =
        Interrupt::watch().map_err(|error| Failure::failed(format_args!("cannot watch for signals: {error}")))?;
    let mut profile = read(args, term, symbolicator)?;
    let mut look_ups = LookUps::new(symbolicator, term);
    let enriched = pipeline::symbolicate(&mut profile, &mut look_ups, term, &interrupt);
    let saved = output
        .save(term, |out| firefox::write_gz(&profile, out))
        .map_err(Failure::failed)?;
    let summary = Summary {
        highlights: Highlights::of(&profile, &look_ups),
        enriched: Some(enriched),
        path: saved.path.clone(),
        ..Summary::of(&profile, StopReason::ProgramEnded)
    };
    summary.print(term);
    say_saved(saved, term)
}

/// Where the converted profile is.
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

fn serve(args: &LoadArgs, term: &Term, symbolicator: Arc<Symbolicator>) -> Outcome {
    let listener = Listener::bind(&args.serve).map_err(Failure::failed)?;
    show::warn_of_others(term, &args.serve);
    let mut profile = read(args, term, &symbolicator)?;
    let mut look_ups = LookUps::new(&symbolicator, term);
    let enriched = pipeline::symbolicate(&mut profile, &mut look_ups, term, &Interrupt::default());
    let file = unnamed_file(&profile).map_err(|error| {
        Failure::failed(format_args!(
            "writing the converted profile to a temporary file failed: {error}"
        ))
    })?;
    for lib in profile.libs() {
        symbolicator.add_module(&lib.module);
    }
    let (links, address) = (listener.links(Some(&Tracks::of(&profile))), listener.address());
    let summary = Summary {
        highlights: Highlights::of(&profile, &look_ups),
        enriched: Some(enriched),
        link: Some(links.open.clone()),
        ..Summary::of(&profile, StopReason::ProgramEnded)
    };
    summary.print(term);
    drop(profile);
    let content = Content {
        profile: file,
        base: None,
        symbols: pipeline::symbol_answers(symbolicator),
    };
    let server = Server::start(listener, content).map_err(Failure::failed)?;
    let may_open = io::stderr().is_terminal() && !record::in_ci();
    show::open(term, &args.serve, address, &links, may_open);
    server.wait();
    Ok(Status::SUCCESS)
}

/// Another profiler's file as a profile, in a file that is gone when sprof ends.
pub(super) fn foreign(path: &Path, options: &InputOptions, term: &Term) -> Result<NamedTempFile, Failure> {
    let input = input::open(path, options, term)?;
    (input.notes.iter()).for_each(|note| term.warning(format_args!("{}: {note}", path.display())));
    foreign_data(path, input.data, term)
}

/// Warns of a file whose samples are none.
pub(super) fn say_what_is_counted(path: &Path, data: &Data, term: &Term) {
    if let Some(weights) = data.weights.as_ref().filter(|_| data.unit == Unit::Counts) {
        term.warning(format_args!(
            "{}: what the UI calls samples are {}",
            path.display(),
            weights.name
        ));
    }
}

/// The same of a file that was read already.
pub(super) fn foreign_data(path: &Path, data: Data, term: &Term) -> Result<NamedTempFile, Failure> {
    say_what_is_counted(path, &data, term);
    let data = data.into_saved();
    let written = NamedTempFile::new().and_then(|mut file| {
        firefox::write_data_gz(&data, &mut file)?;
        Ok(file)
    });
    written.map_err(|error| {
        Failure::failed(format_args!(
            "converting {} failed: {error}; free space in the folder of temporary files",
            path.display()
        ))
    })
}

/// The profile in a file that is gone when sprof ends: nobody asked for one.
pub(super) fn unnamed_file(profile: &Profile) -> io::Result<std::fs::File> {
    let mut file = tempfile::tempfile()?;
    let mut buffered = BufWriter::with_capacity(1 << 16, &file);
    firefox::write_gz(profile, &mut buffered)?;
    buffered.flush()?;
    drop(buffered);
    file.rewind()?;
    Ok(file)
}
