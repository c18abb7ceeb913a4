//! `cargo sprof`.

use std::ffi::OsString;

use super::{record, show};
use crate::args;
use crate::cargo::unit_tests;
use crate::exit::{Failure, Outcome};
use crate::term::{self, Term};

/// Runs the command with the words after `cargo sprof`.
pub(crate) fn run(words: &[OsString]) -> Outcome {
    let asked = args::cargo::parse(words, term::clap_color())?;
    let of_unit = match &asked.unit {
        Some(unit) => unit_tests(&unit.0, asked.manifest_path.as_deref()).ok_or_else(|| {
            Failure::failed(format_args!(
                "there is no library or program called {} here; `cargo metadata --no-deps` lists all targets",
                unit.0
            ))
        })?,
        None => Vec::new(),
    };
    let command = asked.command(of_unit);
    let args = asked.record(command.clone())?;
    let line: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    Term::stderr(show::verbosity(&args.serve)).line(format_args!("recording {}", line.join(" ")));
    record::run(args)
}
