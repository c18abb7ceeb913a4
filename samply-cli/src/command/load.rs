//! `sprof load`: serves a saved profile unchanged. Files of other profilers are converted first (see `convert`).

use std::io;

use profile::read::{self, Form, ReadLimits, SavedProfile};

use super::convert;
use super::show::{self, Shown};
use crate::args::{self, LoadArgs};
use crate::exit::Outcome;
use crate::file_kind::FileKind;
use crate::import;
use crate::interrupt::Interrupt;
use crate::library::module;
use crate::names::symbolicator_of;
use crate::output::{Earlier, Output};
use crate::term::Term;

pub(crate) fn run(args: &LoadArgs) -> Outcome {
    let term = Term::stderr(args.serve.input.verbosity());
    let (event, symbols) = (args.event.name(), &args.serve.input.symbols);
    if import::is_perf_data(&args.file) {
        return convert::run(args, &term);
    }
    term.progress(false, format_args!("reading {}", args.file.display()));
    let is_foreign = read::kind(&args.file).is_some();
    if is_foreign && args.save_only {
        let output = Output::prepare(&args.output, FileKind::Profile, Earlier::Kept)?;
        let converted = convert::foreign(&args.file, event, symbols, &term)?;
        let saved = output.save(&term, |out| {
            io::copy(&mut converted.reopen()?, out)?;
            out.flush()
        });
        return convert::say_saved(saved?, &term);
    }
    let converted = match is_foreign {
        true => Some(convert::foreign(&args.file, event, symbols, &term)?),
        false => None,
    };
    let path = converted.as_ref().map_or(args.file.as_path(), |file| file.path());
    let saved = read::open(path, ReadLimits::default())?;
    if !is_foreign && (args.save_only || event.is_some()) {
        return args::refuse(
            "load",
            "--save-only and --event are for files of other profilers and .partial files; this is a Firefox profile",
        );
    }
    let listener = show::listen(&args.serve, &term)?;
    term.line(describe(args, &saved));

    let symbolicator = symbolicator_of(&args.file, symbols, &Interrupt::default(), &term)?;
    let modules = saved.libs.iter().filter_map(module);
    modules.for_each(|module| symbolicator.add_module(&module));
    let links = listener.links(saved.tracks.as_ref());
    let profile = saved
        .into_file()
        .map_err(|error| format!("reading {} failed: {error}", args.file.display()))?;
    let shown = Shown {
        profile,
        base: None,
        symbolicator,
        links,
    };
    shown.serve(listener, &args.serve, &term)
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
