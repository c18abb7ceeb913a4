//! Files of any kind as the data of a Firefox profile, with names.

use std::path::Path;

use profile::data::SavedData;
use profile::read::{self, ReadLimits};
use profile::view::NamedAddresses;
use symbolicator::Symbolicator;

use crate::args::SymbolArgs;
use crate::exit::Failure;
use crate::input;
use crate::input::perf_data;
use crate::interrupt::Interrupt;
use crate::symbols::look_ups::{INTERRUPTED, LookUps, interrupt_of, symbolicator_of};
use crate::terminal::Term;

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

/// A Firefox profile with all names that are available now. Warns of parts that sprof does not write again.
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

/// A file of perf or of another profiler as a Firefox profile. `None` if it is a Firefox profile, or of no known kind.
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
