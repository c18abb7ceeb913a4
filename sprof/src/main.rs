//! `sprof`: records a program, and shows where its time goes in the Firefox Profiler.
//!
//! The stages, in reading order:
//!
//! 1. [`args`]: the command line as typed.
//! 2. [`command`]: what each command does with it.
//! 3. [`pipeline`]: [`recorder`] -> unwinder -> profile, the libraries' work. [`cargo`]: the same for programs that
//!    cargo builds and runs.
//! 4. [`input`]: reads any file. [`symbols`]: names for a profile.
//! 5. [`output`]: the files that are written, and stdout. [`page`]: the viewer, as a file.
//! 6. [`summary`]: what was recorded, and its quality. [`report`] reports on a profile without a web browser,
//!    [`browse`] is the screen of a terminal that walks through reports, [`top`] shows a recording while it goes on,
//!    [`diff`] compares profiles, [`stat`] counts what programs take.
//! 7. [`terminal`]: messages, styles, and the browser. [`interrupt`] has the signals, [`exit`] the exit statuses.
//!
//! An arrow goes one way: arguments -> commands -> top -> pipeline, input, diff -> parts. No part imports a command.
//! The server of a profile is the crate `server`; requests to other machines are made by the crate `share`.

mod args;
mod browse;
mod cargo;
mod command;
mod diff;
mod exit;
mod input;
mod interrupt;
mod output;
mod page;
mod pipeline;
mod recorder;
mod report;
mod span_files;
mod stat;
mod summary;
mod symbols;
mod terminal;
mod top;

use std::process::ExitCode;

use args::Command;
use cargo::runner::AskedRole;

/// musl's allocator maps and unmaps pages for a few small objects. CPU time of `sprof --version` and of `sprof report`
/// on a recording of rustc, medians by turns on x86_64: musl's 3.3 and 387 ms, this one 1.8 and 311 ms, with glibc 2.9
/// and 303 ms, with mimalloc 1.9, and between 216 and 551 ms. A sample costs no more with any.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    match cargo::runner::asked() {
        Some(AskedRole::Runner(folder)) => return cargo::runner::run(&folder),
        Some(AskedRole::Counter(folder)) => {
            let command = std::env::args_os().skip(1).collect();
            let events = cargo::runner::orders(&folder).counted_events.unwrap_or_default();
            return exit::run(|| stat::of_cargo::run(&folder, &events, command));
        }
        None => {}
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
        let mut args = args::parse(terminal::style::clap_color(), args::argument_kind::look)?;
        input::stdin::stand_in(args.command.files())?;
        match args.command {
            Command::Record(args) => command::record::run(*args),
            Command::Cargo { words } => command::cargo::run(&words),
            Command::Stat(args) => command::stat::run(&args),
            Command::Count(args) => command::count::run(&args),
            Command::Load(args) => command::load::run(&args),
            Command::Serve(args) => command::serve::run(&args),
            Command::Check(args) => command::check::run(&args),
            Command::Merge(args) => command::merge::run(&args),
            Command::Diff(args) => command::diff::run(&args),
            Command::Report(args) => command::report::run(&args),
            Command::Browse(args) => command::browse::run(*args),
            Command::Top(args) => command::top::run(&args),
            Command::Annotate(args) => command::annotate::run(&args),
            Command::Export(args) => command::export::run(&args),
            Command::Flamegraph(args) => command::flamegraph::run(*args),
            Command::Share(args) => command::share::run(&args),
            Command::Push(args) => command::push::run(&args),
            Command::Doctor(args) => command::doctor::run(&args),
            Command::Guide(args) => command::guide::run(&args),
            Command::Setup(args) => command::setup::run(&args),
            Command::Completions { shell } => command::complete::script(shell),
            Command::Man { command } => command::docs::man(command.as_deref()),
        }
    })
}
