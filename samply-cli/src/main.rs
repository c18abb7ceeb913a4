//! `sprof`: records a program, and shows where its time goes in the Firefox Profiler.
//!
//! The stages, in reading order:
//!
//! 1. [`args`]: the command line as typed.
//! 2. [`command`]: what each command does with it.
//! 3. [`pipeline`]: [`recorder`] -> unwinder -> profile, the libraries' work.
//!    [`probes`]: from names of functions to file offsets. [`kernel`]: the kernel's image, and its functions that wait.
//!    [`import`]: the same journey from a perf.data file.
//!    [`cargo`]: the same journey for programs that cargo builds and runs.
//!    [`jit`]: finds the files of JIT compilers.
//! 4. [`names`]: looks up names, for each [`library`]; [`downloads`]: debug info from servers; [`sources`]: source
//!    files for the profile; [`advice`]: what helps if the result is poor; [`packages`]: the packages of debug symbols.
//! 5. [`output`]: the file, with its [`file_kind`] and [`owner`]; [`spool`]: the recording so far, beside it.
//! 6. [`summary`]: what was recorded, and its quality.
//! 7. [`serve`]: the local server, and the browser. [`page`]: the viewer, as a file. [`http`]: requests to other
//!    machines: [`share`] to the store of shared profiles, [`push`] to servers that keep profiles, [`s3`] to buckets.
//! 8. [`stdin`], [`input`]: reads any file. [`report`] reports on it without a browser, [`diff`] compares it.
//!
//! An arrow goes one way: arguments -> commands -> pipeline, input, diff -> parts. No part imports a command.
//!
//! [`style`] has the styles, and escapes control characters; [`fit`] fits text into columns; [`term`] writes messages
//! to stderr, [`screen`] text to stdout; [`json`] writes objects. [`interrupt`] has the signals, [`exit`] the exit
//! statuses.

mod advice;
mod args;
mod build_ids;
mod cargo;
mod command;
mod commit;
mod crates;
mod diff;
mod downloads;
mod exit;
mod file_kind;
mod fit;
mod http;
mod import;
mod input;
mod interrupt;
mod jit;
mod json;
mod kernel;
mod library;
mod named;
mod names;
mod numbers;
mod output;
mod owner;
mod packages;
mod page;
mod pipeline;
mod probes;
mod push;
mod recorder;
mod report;
mod s3;
mod screen;
mod serve;
mod share;
mod sources;
mod spool;
mod stdin;
mod style;
mod summary;
mod term;

use std::process::ExitCode;

use args::Command;

fn main() -> ExitCode {
    if let Some(folder) = cargo::runner::asked() {
        return cargo::runner::run(&folder);
    }
    if command::self_test::asked() {
        return command::self_test::work();
    }
    // Only while sprof is at its path: an update may have replaced it.
    if let Some(path) = std::env::current_exe().ok().filter(|path| path.exists()) {
        recording::command::set_own(&path);
    }
    if let Some(shell) = std::env::var_os(command::complete::SHELL) {
        return exit::run(|| command::complete::answer(&shell.to_string_lossy()));
    }
    exit::run(|| {
        let mut args = args::parse(style::clap_color(), named::look)?;
        stdin::stand_in(args.command.files())?;
        match args.command {
            Command::Record(args) => command::record::run(*args),
            Command::Cargo { words } => command::cargo::run(&words),
            Command::Load(args) => command::load::run(&args),
            Command::Serve(args) => command::serve::run(&args),
            Command::Check(args) => command::check::run(&args),
            Command::Merge(args) => command::merge::run(&args),
            Command::Diff(args) => command::diff::run(&args),
            Command::Report(args) => command::report::run(&args),
            Command::Annotate(args) => command::annotate::run(&args),
            Command::Export(args) => command::export::run(&args),
            Command::Flamegraph(args) => command::flamegraph::run(*args),
            Command::Share(args) => command::share::run(&args),
            Command::Push(args) => command::push::run(&args),
            Command::Doctor(args) => command::doctor::run(&args),
            Command::Setup(args) => command::setup::run(&args),
            Command::Completions { shell } => command::complete::script(shell),
            Command::Man { command } => command::docs::man(command.as_deref()),
        }
    })
}
