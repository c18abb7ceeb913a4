//! `sprof merge`: several profiles as one, as tracks of one timeline.

use std::path::Path;

use profile::data::SavedData;
use profile::export::firefox;
use profile::merge::{MergeInput, TimeAlignment, merge, usual_align};
use profile::read::{self, ReadLimits};
use profile::text::numbers::count;
use profile::view::NamedAddresses;
use symbolicator::Symbolicator;

use super::convert::say_saved;
use crate::args::{self, AlignBy, MergeArgs, SymbolArgs};
use crate::exit::{Failure, Outcome};
use crate::input;
use crate::input::perf_data;
use crate::interrupt::Interrupt;
use crate::output::file_kind::FileKind;
use crate::output::{Earlier, Output};
use crate::symbols::look_ups::{INTERRUPTED, LookUps, interrupt_of, symbolicator_of};
use crate::terminal::Term;

pub(crate) fn run(args: &MergeArgs) -> Outcome {
    let term = Term::stderr(args.input.verbosity());
    if args.files.len() < 2 {
        return args::refuse("merge", "there is nothing to merge one file with; name two or more");
    }
    let output = Output::prepare(&args.output, FileKind::Profile, Earlier::Kept)?;
    let inputs = args.files.iter().map(|path| {
        term.progress(false, format_args!("reading {}", path.display()));
        let data = whole(path, None, &args.input.symbols, &term);
        term.erase_progress();
        Ok(MergeInput {
            name: name(path),
            data: data?,
        })
    });
    let inputs = inputs.collect::<Result<Vec<MergeInput>, Failure>>()?;
    let align = match args.align {
        Some(AlignBy::Clock) => TimeAlignment::Clock,
        Some(AlignBy::Start) => TimeAlignment::Start,
        None => usual_align(&inputs),
    };
    let files = inputs.len() as u64;
    let merged = merge(inputs, align).map_err(|error| format!("cannot merge: {error}"))?;
    let saved = output.save(&term, |out| firefox::write_data_gz(&merged, out))?;
    let how = match align {
        TimeAlignment::Clock => "by the clock",
        TimeAlignment::Start => "all from one start",
    };
    term.line(format_args!(
        "merged {}: {}, {how}",
        count(files, "profile", "profiles"),
        count(merged.threads.len() as u64, "thread", "threads")
    ));
    say_saved(saved, &term)
}

/// What a file is called beside others.
fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let endings = [".json.gz", ".json", ".pb.gz", ".folded"];
    let stem = endings.iter().find_map(|ending| name.strip_suffix(ending));
    stem.unwrap_or(&name).to_owned()
}

/// A file of any kind, with names, in the form of a Firefox profile. `event` is for files of other profilers.
pub(super) fn whole(path: &Path, event: Option<&str>, symbols: &SymbolArgs, term: &Term) -> Result<SavedData, Failure> {
    let interrupt = interrupt_of(symbols)?;
    if let Some(data) = converted(path, event, symbols, &interrupt, term)? {
        return Ok(data);
    }
    let symbolicator = symbolicator_of(path, symbols, &interrupt, term)?;
    let (data, _) = named(path, &symbolicator, &interrupt, term)?;
    Ok(data)
}

/// A Firefox profile, with the names that are available now. Warns of what it loses when it is written again.
pub(super) fn named(
    path: &Path,
    symbolicator: &Symbolicator,
    interrupt: &Interrupt,
    term: &Term,
) -> Result<(SavedData, NamedAddresses), Failure> {
    let (mut data, not_kept) = read::everything_but(path, ReadLimits::default())?;
    let mut look_ups = LookUps::new(symbolicator, term);
    let named = look_ups.name_read(&mut data, interrupt);
    if interrupt.is_seen() {
        return Err(Failure::failed(INTERRUPTED));
    }
    for damage in look_ups.damage() {
        term.warning(format_args!("{}: symbols were not read: {damage}", path.display()));
    }
    for (count, what) in [
        (
            not_kept.source_details,
            "source files have ids, positions or source maps",
        ),
        (not_kept.original_positions, "frames have positions from source maps"),
    ] {
        if count > 0 {
            term.warning(format_args!(
                "{}: {count} {what}, which sprof does not write: left out",
                path.display()
            ));
        }
    }
    Ok((data, named))
}

/// The same of a file that is no Firefox profile.
pub(super) fn converted(
    path: &Path,
    event: Option<&str>,
    symbols: &SymbolArgs,
    interrupt: &Interrupt,
    term: &Term,
) -> Result<Option<SavedData>, Failure> {
    if read::kind(path).is_some() {
        let input = input::open_and_warn(path, event, symbols, term)?;
        return Ok(Some(input.data.into_saved()));
    }
    if !perf_data::is_perf_data(path) {
        return Ok(None);
    }
    let symbolicator = symbolicator_of(path, symbols, interrupt, term)?;
    let mut look_ups = LookUps::new(&symbolicator, term);
    let (profile, _) = perf_data::read_named(path, event, &mut look_ups, interrupt, term)?;
    Ok(Some(SavedData::from(&profile)))
}
