//! `sprof browse`: a profile on the screen of the terminal.

use std::path::PathBuf;

use recording::command::on_file;

use super::annotate;
use crate::args::{AnnotateArgs, BrowseArgs, SelectArgs};
use crate::browse::screen::{Annotate, BrowseScreen};
use crate::browse::terminal;
use crate::exit::{Failure, Outcome};
use crate::input;
use crate::output::screen;
use crate::terminal::{Term, Verbosity};

pub(crate) fn run(args: BrowseArgs) -> Outcome {
    let file = args.file.clone();
    if !terminal::is_usable() {
        return Err(Failure::failed(format_args!(
            "browse needs a terminal, and there is none, or TERM is dumb; print the profile: {}",
            on_file("report", &file)
        )));
    }
    let command = show(args)?;
    screen::print("the command", |out| writeln!(out, "{command}"))
}

/// Shows a profile until the user ends it; returns the command that prints the last view.
pub(super) fn show(args: BrowseArgs) -> Result<String, Failure> {
    let BrowseArgs { file, select } = args;
    let term = Term::stderr(select.messages.verbosity());
    let first = std::cell::Cell::new(true);
    let path = file.clone();
    let read = move |select: &SelectArgs, has_markers: bool| {
        // Later the screen is there.
        let term = match first.replace(false) {
            true => term.clone(),
            false => Term::stderr(Verbosity::Quiet),
        };
        match has_markers {
            true => input::open_with_markers(&path, &select.wanted(), &select.symbols, &term),
            false => input::open(&path, select.wanted(), &select.symbols, &term),
        }
    };
    let annotate = annotate_of(file.clone());
    let mut shown = BrowseScreen::new(file, select, Box::new(read), annotate)?;
    terminal::run(&mut shown, |_| false)
        .map_err(|error| Failure::failed(format_args!("the terminal cannot be used: {error}")))?;
    Ok(shown.command())
}

/// Source and machine code of functions in what was read of a file.
pub(super) fn annotate_of(file: PathBuf) -> Annotate {
    Box::new(move |input, select, function, columns| {
        let args = AnnotateArgs::of_function(file.clone(), function.to_owned(), select.clone());
        annotate::lines(&args, input, columns)
    })
}
