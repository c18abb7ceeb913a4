//! `sprof load`: serves a saved profile, unchanged unless more names are available now. Files of other profilers are
//! converted first (see `convert`).

use std::io;

use profile::export::firefox;
use profile::read::{self, Form, ReadLimits, SavedProfile};

use super::convert;
use super::saved_data;
use super::show::{self, ServedProfile};
use crate::args::{self, LoadArgs};
use crate::exit::Outcome;
use crate::input::perf_data;
use crate::output::file_kind::FileKind;
use crate::output::{Earlier, Output};
use crate::symbols::library::module;
use crate::symbols::look_ups::{interrupt_of, symbolicator_of};
use crate::terminal::Term;

pub(crate) fn run(args: &LoadArgs) -> Outcome {
    let term = Term::stderr(args.serve.input.verbosity());
    let (event, symbols) = (args.event.name(), &args.serve.input.symbols);
    if perf_data::is_perf_data(&args.file) {
        return convert::run(args, &term);
    }
    term.progress(false, format_args!("reading {}", args.file.display()));
    let is_foreign = read::kind(&args.file).is_some();
    if !is_foreign && event.is_some() {
        return args::refuse(
            "load",
            "--event is for files of other profilers and .partial files; this is a Firefox profile",
        );
    }
    if args.save_only {
        return save(args, is_foreign, &term);
    }
    let converted = match is_foreign {
        true => Some(convert::foreign(&args.file, event, symbols, &term)?),
        false => None,
    };
    let path = converted.as_ref().map_or(args.file.as_path(), |file| file.path());
    let saved = read::open(path, ReadLimits::default())?;
    let listener = show::listen(&args.serve, &term)?;
    term.line(describe(args, &saved));

    let interrupt = interrupt_of(symbols)?;
    let symbolicator = symbolicator_of(&args.file, symbols, &interrupt, &term)?;
    let modules = saved.libs.iter().filter_map(module);
    modules.for_each(|module| symbolicator.add_module(&module));
    let links = listener.links(saved.tracks.as_ref());
    let named = match is_foreign {
        true => None,
        false => convert::named_again(path, &saved, &symbolicator, &interrupt, &term)?,
    };
    let profile = match named {
        Some(named) => named,
        None => saved
            .into_file()
            .map_err(|error| format!("reading {} failed: {error}", args.file.display()))?,
    };
    let shown = ServedProfile {
        profile,
        base: None,
        symbolicator,
        links,
        browsed: None,
    };
    shown.serve(listener, &args.serve, &term)
}

/// Saves the profile with the names that are available now.
fn save(args: &LoadArgs, is_foreign: bool, term: &Term) -> Outcome {
    let (event, symbols) = (args.event.name(), &args.serve.input.symbols);
    let output = Output::prepare(&args.output, FileKind::Profile, Earlier::Kept)?;
    let saved = match is_foreign {
        true => {
            let converted = convert::foreign(&args.file, event, symbols, term)?;
            output.save(term, |out| {
                io::copy(&mut converted.reopen()?, out)?;
                out.flush()
            })
        }
        false => {
            let interrupt = interrupt_of(symbols)?;
            let symbolicator = symbolicator_of(&args.file, symbols, &interrupt, term)?;
            let (data, named) = saved_data::named(&args.file, &symbolicator, &interrupt, term)?;
            term.line(convert::describe_named(&data, named));
            output.save(term, |out| firefox::write_data_gz(&data, out))
        }
    };
    convert::say_saved(saved?, term)
}

fn describe(args: &LoadArgs, saved: &SavedProfile) -> String {
    let form = match saved.form {
        Form::Processed { version } => format!("Firefox Profiler format {version}"),
        Form::Gecko { version } => format!("Firefox's own format {version}"),
    };
    let product = saved.product.as_deref().unwrap_or("a profile");
    let threads = match saved.threads {
        1 => "1 thread".to_owned(),
        count => format!("{count} threads"),
    };
    let symbols = match saved.symbolicated {
        Some(true) => "with function names",
        _ => "function names are looked up when the UI needs them",
    };
    format!("{}: {product}, {threads}, {form}, {symbols}", args.file.display())
}
