//! `sprof load`: serves a saved profile unchanged. Files of other profilers are converted first (see `convert`).

use std::io::{self, IsTerminal};

use profile::read::{self, Form, ReadLimits, SavedLib, SavedProfile};
use recording::module::{BuildId, Module, ModuleKind};

use super::{convert, record, show};
use crate::args::{self, LoadArgs};
use crate::exit::{Failure, Outcome, Status};
use crate::file_kind::FileKind;
use crate::input::InputOptions;
use crate::names::symbolicator_of;
use crate::output::{Earlier, Output};
use crate::serve::{Content, Listener, Server};
use crate::term::Term;
use crate::{import, pipeline};

/// Runs the command.
pub(crate) fn run(args: LoadArgs) -> Outcome {
    let term = Term::stderr(show::verbosity(&args.serve));
    if import::is_perf_data(&args.file) {
        return convert::run(args, &term);
    }
    term.progress(false, format_args!("reading {}", args.file.display()));
    let is_foreign = read::kind(&args.file).is_some();
    let options = InputOptions {
        event: args.event.clone(),
        symbol_dirs: args.serve.symbol_dir.clone(),
    };
    if is_foreign && args.save_only {
        return save(&args, &options, &term);
    }
    let converted = match is_foreign {
        true => Some(convert::foreign(&args.file, &options, &term)?),
        false => None,
    };
    let path = converted.as_ref().map_or(args.file.as_path(), |file| file.path());
    let saved = read::open(path, ReadLimits::default()).map_err(Failure::failed)?;
    if !is_foreign && (args.save_only || args.event.is_some()) {
        return Err(Failure::from(args::usage_error(
            "load",
            "--save-only and --event are for files of other profilers and .partial files; this is a Firefox profile",
        )));
    }
    let listener = Listener::bind(&args.serve).map_err(Failure::failed)?;
    show::warn_of_others(&term, &args.serve);
    term.line(describe(&args, &saved));

    let symbolicator = symbolicator_of(&args.file, args.serve.symbol_dir.clone());
    for module in saved.libs.iter().filter_map(module) {
        symbolicator.add_module(&module);
    }
    let (links, address) = (listener.links(saved.tracks.as_ref()), listener.address());
    let profile = saved
        .into_file()
        .map_err(|error| Failure::failed(format_args!("reading {} failed: {error}", args.file.display())))?;
    let content = Content {
        profile,
        base: None,
        symbols: pipeline::symbol_answers(symbolicator),
    };
    let server = Server::start(listener, content).map_err(Failure::failed)?;
    let may_open = io::stderr().is_terminal() && !record::in_ci();
    show::open(&term, &args.serve, address, &links, may_open);
    server.wait();
    Ok(Status::SUCCESS)
}

/// Saves another profiler's file as a profile. The output is checked first.
fn save(args: &LoadArgs, options: &InputOptions, term: &Term) -> Outcome {
    let output = Output::prepare(&args.output, FileKind::Profile, Earlier::Kept).map_err(Failure::failed)?;
    let converted = convert::foreign(&args.file, options, term)?;
    let saved = output.save(term, |out| {
        io::copy(&mut converted.reopen()?, out)?;
        out.flush()
    });
    convert::say_saved(saved.map_err(Failure::failed)?, term)
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

/// The module of a profile's library, as far as the profile has it.
pub(crate) fn module(lib: &SavedLib) -> Option<Module> {
    let name = lib.debug_name.as_deref().or(lib.name.as_deref())?;
    // Symbol requests contain the file name, so the path must end with it.
    let ends_with_name = |path: &&str| path.rsplit('/').next() == Some(name);
    let paths = [lib.path.as_deref(), lib.debug_path.as_deref()];
    let path = paths.into_iter().flatten().find(ends_with_name).unwrap_or(name);
    let kind = match name {
        "[vdso]" => ModuleKind::Vdso,
        "[kernel.kallsyms]" => ModuleKind::Kernel,
        name if symbolicator::jit::is_jit_file(name) => ModuleKind::Jit,
        _ => ModuleKind::File,
    };
    let from_code_id = lib.code_id.as_deref().and_then(bytes_of_hex);
    let breakpad_id = lib.breakpad_id.as_deref();
    // A code id that is not the one of the breakpad id would be asked for in vain.
    let build_id = from_code_id
        .map(BuildId)
        .filter(|id| breakpad_id.is_none_or(|breakpad| id.to_breakpad().eq_ignore_ascii_case(breakpad)))
        .or_else(|| breakpad_id.and_then(build_id_of_breakpad));
    Some(Module {
        kind,
        path: path.into(),
        readable_path: None,
        build_id,
        arch: None,
    })
}

fn bytes_of_hex(hex: &str) -> Option<Vec<u8>> {
    if hex.is_empty() || !hex.len().is_multiple_of(2) || hex.len() > 128 || !hex.is_ascii() {
        return None;
    }
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).ok())
        .collect()
}

/// The first 16 bytes of the build id: all that a breakpad id keeps (see [`BuildId::to_breakpad`]).
fn build_id_of_breakpad(breakpad: &str) -> Option<BuildId> {
    let mut guid = bytes_of_hex(breakpad.get(..32)?)?;
    if guid.iter().all(|&byte| byte == 0) {
        return None;
    }
    guid[0..4].reverse();
    guid[4..6].reverse();
    guid[6..8].reverse();
    Some(BuildId(guid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_becomes_the_module_that_it_was() {
        let id = BuildId((1..=20).collect());
        let lib = SavedLib {
            name: Some("libc.so.6".into()),
            path: Some("/usr/lib/libc.so.6".into()),
            debug_name: Some("libc.so.6".into()),
            debug_path: Some("/usr/lib/libc.so.6".into()),
            breakpad_id: Some(id.to_breakpad()),
            code_id: Some(id.to_hex()),
            arch: None,
        };
        let found = module(&lib).unwrap();
        assert_eq!(found.build_id, Some(id.clone()));
        assert_eq!(found.path.to_str(), Some("/usr/lib/libc.so.6"));

        let without_code_id = SavedLib {
            code_id: None,
            ..lib.clone()
        };
        let found = module(&without_code_id).unwrap();
        assert_eq!(found.breakpad_id(), id.to_breakpad());

        let without_id = SavedLib {
            breakpad_id: Some("0".repeat(33)),
            code_id: None,
            ..lib
        };
        assert_eq!(module(&without_id).unwrap().build_id, None);
    }

    #[test]
    fn ids_that_are_no_hex_are_no_ids() {
        for bad in ["", "1", "zz", "é1", "1é"] {
            assert_eq!(bytes_of_hex(bad), None, "{bad}");
        }
        assert_eq!(build_id_of_breakpad("é".repeat(16).as_str()), None);
        assert_eq!(build_id_of_breakpad("12"), None);
    }
}
