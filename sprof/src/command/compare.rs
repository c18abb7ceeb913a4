//! `sprof diff --open`: serves both profiles, and opens the compare view of the UI.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use profile::data::{Data, Thread};
use profile::export::firefox;
use profile::read::{self, ReadLimits};
use server::{ComparedProfile, Listener};
use symbolicator::Symbolicator;

use super::convert;
use super::show::{Base, ServedProfile};
use crate::args::ServeArgs;
use crate::exit::{Failure, Outcome};
use crate::input::perf_data::{self, Imported};
use crate::interrupt::Interrupt;
use crate::symbols::library::module;
use crate::symbols::look_ups::{LookUps, interrupt_of, options};
use crate::terminal::Term;

/// Serves both files until a signal, and `comparison` for the viewer. `data` was read from the files.
pub(super) fn serve(
    listener: Listener,
    args: &ServeArgs,
    base: (&Path, &Data),
    new: (&Path, &Data),
    comparison: Option<Vec<u8>>,
    term: &Term,
) -> Outcome {
    let modified = |path: &Path| std::fs::metadata(path).and_then(|file| file.modified()).ok();
    let interrupt = interrupt_of(&args.input.symbols)?;
    let recorded_at = modified(base.0).min(modified(new.0));
    let symbolicator = Arc::new(Symbolicator::new(options(
        &args.input.symbols,
        recorded_at,
        &interrupt,
        term,
    )?));
    let profile = file(new, &symbolicator, term)?;
    let base_profile = file(base, &symbolicator, term)?;
    let (base_name, new_name) = (view_name("before", base.0), view_name("after", new.0));
    let (base_thread, new_thread) = (busiest(base.1)?, busiest(new.1)?);
    let about = |data: &Data, thread: usize| {
        let own = weight(data, &data.threads[thread]);
        let all: f64 = data.threads.iter().map(|thread| weight(data, thread)).sum();
        let Thread { name, tid, .. } = &data.threads[thread];
        format!("{name} ({tid}), which has {:.0} % of the samples", 100.0 * own / all)
    };
    let say_threads = || {
        term.line(format_args!(
            "the compare view shows one thread of each profile: before, {}; after, {}",
            about(base.1, base_thread),
            about(new.1, new_thread),
        ))
    };
    if !args.viewer {
        say_threads();
    }
    let compared = |name, thread| ComparedProfile { name, thread };
    let links = listener.compare_links(compared(&base_name, base_thread), compared(&new_name, new_thread));
    let shown = ServedProfile {
        profile,
        base: Some(Base {
            profile: base_profile,
            comparison,
        }),
        symbolicator,
        links,
        browsed: None,
    };
    shown.serve(listener, args, term)
}

/// The file for the UI: a saved profile, unchanged unless more names are available now; a file of perf converted.
pub(super) fn file((path, data): (&Path, &Data), symbolicator: &Symbolicator, term: &Term) -> Result<File, Failure> {
    let failed = |error: io::Error| Failure::failed(format_args!("reading {} again failed: {error}", path.display()));
    if perf_data::is_perf_data(path) {
        let Imported { mut profile, .. } = perf_data::read(path, None, symbolicator)?;
        let mut look_ups = LookUps::new(symbolicator, term);
        look_ups.name(&mut profile, &Interrupt::default());
        profile
            .libs()
            .iter()
            .for_each(|lib| symbolicator.add_module(&lib.module));
        return convert::unnamed_file(path, |out| firefox::write_gz(&profile, out));
    }
    let modules = data.libs.iter().filter_map(module);
    modules.for_each(|module| symbolicator.add_module(&module));
    if read::kind(path).is_some() {
        return convert::foreign_data(path, data.clone(), term)?
            .reopen()
            .map_err(failed);
    }
    let saved = read::open(path, ReadLimits::default())?;
    match convert::named_again(path, &saved, symbolicator, &Interrupt::default(), term)? {
        Some(named) => Ok(named),
        None => saved.into_file().map_err(failed),
    }
}

fn view_name(side: &str, path: &Path) -> String {
    format!("{side}: {}", path.file_name().unwrap_or(path.as_os_str()).display())
}

fn busiest(data: &Data) -> Result<usize, Failure> {
    let weights = data.threads.iter().map(|thread| weight(data, thread));
    let busiest = weights.enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b));
    busiest
        .map(|(index, _)| index)
        .ok_or_else(|| Failure::failed("a profile has no threads: there is nothing to show"))
}

fn weight(data: &Data, thread: &Thread) -> f64 {
    let running = thread
        .samples
        .iter()
        .filter(|(_, stack, weight)| *weight > 0.0 && !data.is_wait(*stack));
    running.map(|(_, _, weight)| weight).sum()
}
