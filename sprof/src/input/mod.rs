//! Reads a file of any kind without a browser: a saved profile, a perf.data file, the `.partial` file of a recording,
//! folded stacks, or a file of another profiler. All become the same data, with names where they are known.
//!
//! [`perf_data`]: files of perf record. [`stdin`]: stdin as a file.

pub(crate) mod perf_data;
pub(crate) mod stdin;

use std::path::Path;
use std::sync::Arc;

use profile::data::Data;
use profile::export::pprof;
use profile::read::{self, ForeignFormat, ReadError, ReadLimits};
use profile::view::heap::Measure;
use symbolicator::Symbolicator;

use crate::args::{SymbolArgs, WantedSamples};
use crate::exit::Failure;
use crate::symbols::library::module;
use crate::symbols::look_ups::{INTERRUPTED, LookUps, interrupt_of, say_nameless, symbolicator_of};
use crate::terminal::Term;
use perf_data::Imported;

pub(crate) struct Input {
    /// Samples, with all names that were found.
    pub(crate) data: Data,
    /// Looks up names, source and assembly in the libraries of the samples.
    pub(crate) symbolicator: Arc<Symbolicator>,
    /// Limits of the data, a line each: addresses without names, what the file lacked.
    pub(crate) notes: Vec<String>,
}

/// How much of a file to read.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum ReadExtent {
    /// The samples of one event.
    OneEvent,
    /// The samples of one event, and the fields of markers.
    WithMarkers,
    /// The samples of one event; of a heap, the blocks themselves if all of their measures are known.
    AllMeasures,
    /// The samples of all events: for the viewer's page.
    Page,
}

/// Reads a file of any known kind, with the samples of one event: the named event, or the file's own choice. `symbols`
/// adds folders of debug files.
pub(crate) fn open<'a>(
    path: &Path,
    wanted: impl Into<WantedSamples<'a>>,
    symbols: &SymbolArgs,
    term: &Term,
) -> Result<Input, Failure> {
    open_extent(path, &wanted.into(), ReadExtent::OneEvent, symbols, term)
}

/// Reads a file as [`open`] does, with the fields of markers.
pub(crate) fn open_with_markers(
    path: &Path,
    wanted: &WantedSamples<'_>,
    symbols: &SymbolArgs,
    term: &Term,
) -> Result<Input, Failure> {
    open_extent(path, wanted, ReadExtent::WithMarkers, symbols, term)
}

/// Reads a file as [`open`] does, with the samples of all events if none is named.
pub(crate) fn open_page(
    path: &Path,
    wanted: &WantedSamples<'_>,
    symbols: &SymbolArgs,
    term: &Term,
) -> Result<Input, Failure> {
    open_extent(path, wanted, ReadExtent::Page, symbols, term)
}

/// Reads a file as [`open`] does, but blocks of memory stay blocks, if all of their measures are known.
pub(crate) fn open_with_measures(
    path: &Path,
    wanted: &WantedSamples<'_>,
    symbols: &SymbolArgs,
    term: &Term,
) -> Result<Input, Failure> {
    open_extent(path, wanted, ReadExtent::AllMeasures, symbols, term)
}

fn open_extent(
    path: &Path,
    wanted: &WantedSamples<'_>,
    extent: ReadExtent,
    symbols: &SymbolArgs,
    term: &Term,
) -> Result<Input, Failure> {
    term.progress(false, format_args!("reading {}", path.display()));
    let input = read(path, wanted, extent, ReadLimits::default(), Some(symbols), term);
    term.erase_progress();
    input
}

/// Reads a file that the user did not choose, such as one of a folder: within `limits`, and without further folders of
/// debug files.
pub(crate) fn open_within(path: &Path, extent: ReadExtent, limits: ReadLimits, term: &Term) -> Result<Input, Failure> {
    read(path, &WantedSamples::Event(None), extent, limits, None, term)
}

/// Reads a file as [`open`] does, and prints its notes as warnings.
pub(crate) fn open_and_warn<'a>(
    path: &Path,
    wanted: impl Into<WantedSamples<'a>>,
    symbols: &SymbolArgs,
    term: &Term,
) -> Result<Input, Failure> {
    let input = open(path, wanted, symbols, term)?;
    term.warnings(path, &input.notes);
    Ok(input)
}

fn read(
    path: &Path,
    wanted: &WantedSamples<'_>,
    extent: ReadExtent,
    limits: ReadLimits,
    given: Option<&SymbolArgs>,
    term: &Term,
) -> Result<Input, Failure> {
    let symbols = &given.cloned().unwrap_or_default();
    let interrupt = interrupt_of(symbols)?;
    let symbolicator = symbolicator_of(path, symbols, &interrupt, term)?;
    let mut notes = Vec::new();
    let event = wanted.event();
    let keeps_event = match wanted {
        WantedSamples::Event(event) => event.is_some() || extent != ReadExtent::Page,
        WantedSamples::Latency => true,
        WantedSamples::Heap { .. } => false,
    };
    let mut is_measured = false;
    let mut data = if perf_data::is_perf_data(path) {
        let Imported { profile, notes: lacks } = perf_data::read(path, event, &symbolicator)?;
        notes.extend(lacks);
        profile
            .libs()
            .iter()
            .for_each(|lib| symbolicator.add_module(&lib.module));
        let mut data = match extent {
            ReadExtent::WithMarkers => profile::for_page(&profile),
            ReadExtent::OneEvent | ReadExtent::AllMeasures | ReadExtent::Page => Data::from(&profile),
        };
        if keeps_event {
            data.keep_event(None).map_err(Failure::failed)?;
        }
        data
    } else if let Some(kind) = read::kind(path) {
        if kind == ForeignFormat::Folded && event.is_some() {
            return Err(Failure::failed(format_args!(
                "{} has folded stacks, which do not say what they count: leave out --event",
                path.display()
            )));
        }
        let sum = match wanted {
            WantedSamples::Heap { measure, .. } => sum_of_heap(kind, *measure),
            WantedSamples::Event(_) | WantedSamples::Latency => None,
        };
        is_measured = sum.is_some();
        let read::Foreign { mut data, notes: lacks } = read::foreign(path, kind, sum.or(event), limits)?;
        data.rename_functions(|name| Some(symbolicator::demangle(name)).filter(|new| new != name));
        notes.extend(lacks);
        data
    } else {
        let read = match extent {
            ReadExtent::OneEvent | ReadExtent::AllMeasures => read::whole(path, limits),
            ReadExtent::Page | ReadExtent::WithMarkers => read::for_page(path, limits),
        };
        let mut data = read.map_err(|error| failure(&error))?;
        let others = match keeps_event {
            true => kept(&mut data, path, event)?,
            false => Vec::new(),
        };
        if !others.is_empty() {
            notes.push(format!(
                "the file also counts {}: --event NAME shows it",
                some_of(&others)
            ));
        }
        data
    };
    let stays_blocks = extent == ReadExtent::AllMeasures && data.measures().eq(Measure::ALL);
    if let WantedSamples::Heap {
        measure,
        filter,
        of_each_run,
    } = wanted
        && !is_measured
        && !stays_blocks
    {
        let kept = data.keep_measure(*measure, filter, *of_each_run);
        kept.map_err(|error| Failure::failed(format_args!("cannot show the heap of {}: {error}", path.display())))?;
    }
    if let WantedSamples::Latency = wanted {
        let weighed = data.weigh_by_latency();
        let is_not = |error| Failure::failed(format_args!("cannot weigh {} by latency: {error}", path.display()));
        notes.extend(weighed.map_err(is_not)?.doubt(&data));
    }
    let came_with_names = data.symbolicated;
    let mut look_ups = LookUps::new(&symbolicator, term);
    let named = look_ups.name_read(&mut data, &interrupt);
    if came_with_names && term.is_verbose() {
        say_nameless(&data, term);
    }
    if interrupt.is_seen() {
        return Err(Failure::failed(INTERRUPTED));
    }
    notes.extend(
        look_ups
            .damage()
            .iter()
            .map(|damage| format!("symbols were not read: {damage}")),
    );
    if named.addresses_without_name > 0 && !came_with_names {
        let next = match given {
            Some(_) => "; --verbose says why, --symbol-dir names a folder with symbols",
            None => "",
        };
        notes.push(format!(
            "{} of {} addresses have no name, and are shown as addresses or as fun_ADDRESS of their function{next}",
            named.addresses_without_name, named.addresses
        ));
    } else if !data.symbolicated && named.addresses == 0 && !data.stacks.is_empty() {
        notes.push("the profile has no function names and no libraries to look them up in".to_owned());
    }
    let modules = data.libs.iter().filter_map(module);
    modules.for_each(|module| symbolicator.add_module(&module));
    data.make_printable();
    Ok(Input {
        data,
        symbolicator,
        notes,
    })
}

/// Keeps one event; returns the names of the others.
fn kept(data: &mut Data, path: &Path, event: Option<&str>) -> Result<Vec<String>, Failure> {
    data.keep_event(event).map_err(|error| {
        Failure::failed(format_args!(
            "cannot show {}: {error}; name one of these events, or leave out --event",
            path.display()
        ))
    })
}

/// The first few names: `syscalls:*` has 700.
fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 8;
    match names.len().saturating_sub(SHOWN) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names[..SHOWN].join(", ")),
    }
}

/// The name of the sum that a measure of the heap is in a file of such a kind; `None` if the kind has no heap.
fn sum_of_heap(kind: ForeignFormat, measure: Measure) -> Option<&'static str> {
    match (kind, measure) {
        (ForeignFormat::Dhat, Measure::Allocated) => Some("total-bytes"),
        (ForeignFormat::Dhat, Measure::Retained) => Some("at-end-bytes"),
        (ForeignFormat::Dhat, Measure::Peak) => Some("at-gmax-bytes"),
        (ForeignFormat::Dhat, Measure::Blocks) => Some("total-blocks"),
        // Not all of these files have all measures: reading one says so.
        (ForeignFormat::Dhat | ForeignFormat::Massif | ForeignFormat::Heaptrack, measure) => Some(measure.name()),
        (ForeignFormat::Pprof, measure) => Some(pprof::heap_type(measure).unwrap_or(measure.name())),
        _ => None,
    }
}

/// The error for a file that could not be read as any known kind.
fn failure(error: &ReadError) -> Failure {
    Failure::failed(match error {
        ReadError::NotAProfile { path, found } => format!(
            "{} is {found}; expected a Firefox profile (JSON, or JSON in gzip), a file of perf record, a .partial file, text of \
             perf script, folded stacks (lines like `main;work;leaf 12`), or a file of pprof, callgrind, cachegrind, DHAT, \
             massif, heaptrack, speedscope or gperftools, or a .cpuprofile",
            path.display()
        ),
        error => error.to_string(),
    })
}
