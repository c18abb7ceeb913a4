//! `cargo sprof`.

use std::ffi::OsString;

use super::{flamegraph, record};
use crate::args::cargo::UnitTarget;
use crate::args::{self, Command};
use crate::cargo::{all_unit_tests, unit_tests};
use crate::exit::Outcome;
use crate::terminal::Term;
use crate::terminal::style;

/// Runs the command with the words after `cargo sprof`.
pub(crate) fn run(words: &[OsString]) -> Outcome {
    let asked = args::cargo::parse(words, style::clap_color())?;
    let of_unit = match &asked.unit {
        Some(UnitTarget::Named(name)) => unit_tests(name, asked.manifest_path.as_deref()).ok_or_else(|| {
            format!("there is no library or program called {name} here; `cargo metadata --no-deps` lists all targets")
        })?,
        Some(UnitTarget::All { packages }) => all_unit_tests(packages, asked.manifest_path.as_deref()),
        None => Vec::new(),
    };
    let command = asked.command(of_unit);
    let line: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    let left_out = match asked.had_bench_flag {
        true => ", without --bench after --: cargo bench adds it",
        false => "",
    };
    let line = format!("recording {}{left_out}", line.join(" "));
    match asked.of_sprof(command)? {
        Command::Record(args) => {
            Term::stderr(args.serve.input.verbosity()).line(line);
            record::run(*args)
        }
        Command::Flamegraph(args) => {
            Term::stderr(args.input.verbosity()).line(line);
            flamegraph::run(*args)
        }
        _ => Err(clap::Error::new(clap::error::ErrorKind::InvalidSubcommand).into()),
    }
}
