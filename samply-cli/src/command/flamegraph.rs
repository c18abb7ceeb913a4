//! `sprof flamegraph`: run, record, draw. With a saved profile it is `sprof export --format svg` with a default output.

use std::io;
use std::path::PathBuf;

use profile::Profile;
use profile::data::Data;
use profile::export::{Picked, svg};
use profile::view::diff::Limits;
use recording::command::on_file;
use recording::event::Role;
use recording::info::RecordingInfo;

use super::{differential, export, record};
use crate::args::{self, FlamegraphArgs, RecordingArgs};
use crate::cargo;
use crate::exit::{Failure, Outcome};
use crate::file_kind::FileKind;
use crate::highlights::Highlights;
use crate::interrupt::Interrupt;
use crate::names::LookUps;
use crate::pipeline;
use crate::spool::Spool;
use crate::style::Style;
use crate::summary::Summary;
use crate::term::Term;

/// Runs the command.
pub(crate) fn run(args: FlamegraphArgs) -> Outcome {
    let term = Term::stderr(export::verbosity(&args.input));
    let time = export::time(args.recording.off_cpu, &args.pick);
    let options = export::svg_options(&args.svg, args.pick.threads);
    if let Some(file) = &args.file {
        if std::fs::metadata(file).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Err(Failure::from(args::usage_error(
                "flamegraph",
                format_args!(
                    "there is no file {}; to record a program, put -- before it: {}",
                    file.display(),
                    on_file("flamegraph --", file)
                ),
            )));
        }
        let target = export::Target::prepare(Some(&args.output), FileKind::FlameGraph)?;
        let event = event(&args.recording.event)?;
        let input = export::read(file, event.clone(), &args.input, &term)?;
        if !args.base.is_empty() {
            let read = |file: &PathBuf| Ok(export::read(file, event.clone(), &args.input, &term)?.data);
            let base = args.base.iter().map(read).collect::<Result<Vec<_>, Failure>>()?;
            return differential::write(target, &base, &[input.data], time, &options, Limits::default(), &term);
        }
        let picked = Picked::new(&input.data, time);
        export::say_what_is_missing(&picked, file, &term)?;
        return target.write(&term, |out| svg::write(&picked, &options, out));
    }

    let recording = RecordingArgs {
        off_cpu: args.recording.off_cpu || args.pick.wall,
        ..args.recording
    };
    let mut plan = record::plan(&recording, &args.input.symbol_dir, "flamegraph")?;
    cargo::prepare(&mut plan, &recording, &term)?;
    record::say_changes(&plan, &recording, &term);
    let output = record::output(&args.output, FileKind::FlameGraph)?;
    let interrupt =
        Interrupt::watch().map_err(|error| Failure::failed(format_args!("cannot watch for signals: {error}")))?;
    let spool = output.partial_path().and_then(|path| Spool::create(&path, &term));
    let mut recorded = pipeline::record(&mut plan, &term, &interrupt, spool)?;
    let failure = recorded.failure.take();
    let symbolicator = record::symbolicator(&mut recorded, args.input.symbol_dir);
    let mut look_ups = LookUps::new(&symbolicator, &term);
    let enriched = pipeline::symbolicate(&mut recorded.profile, &mut look_ups, &term, &interrupt);

    term.progress(false, "drawing the flame graph");
    let event = match recording.off_cpu {
        true => None,
        false => drawn_event(recorded.profile.info(), &recorded.profile),
    };
    let mut data = Data::from(&recorded.profile);
    let drawn = data.keep_event(event).map_err(|error| error.to_string()).and_then(|_| {
        data.make_printable();
        let saved = output.save_there(&term, |out| svg::write(&Picked::new(&data, time), &options, out));
        saved.map_err(|error: io::Error| error.to_string())
    });
    term.erase_progress();
    let exit = record::wait(&term, &mut recorded);
    if let Err(error) = drawn {
        let output = args.output.display();
        return Err(Failure::failed(match &recorded.spool {
            Some(spool) => format!("writing {output} failed: {error}; free space; {}", spool.left()),
            None => format!("writing {output} failed: {error}"),
        }));
    }
    recorded.spool.take().into_iter().for_each(Spool::remove);
    let summary = Summary {
        iterations: recorded.iterations,
        highlights: Highlights::of(&recorded.profile, &look_ups),
        enriched: Some(enriched),
        ..Summary::of(&recorded.profile, recorded.stop)
    };
    summary.print(&term);
    term.line(format_args!("wrote {}", term.style(Style::Link, args.output.display())));
    failure.map_or(Ok(record::status(exit)), Err)
}

/// The event to draw, if it is not the event of the sample weights: the first named event that happened.
fn drawn_event<'a>(info: &'a RecordingInfo, profile: &Profile) -> Option<&'a str> {
    let events = || info.events.iter().enumerate();
    if events().any(|(_, event)| event.role == Role::Running) {
        return None;
    }
    let first = events().find(|(index, _)| profile.in_profile(*index) > 0);
    first.or(events().next()).map(|(_, event)| event.name.as_str())
}

/// The one event to draw of a file.
fn event(asked: &[String]) -> Result<Option<String>, Failure> {
    match asked {
        [] => Ok(None),
        [event] => Ok(Some(event.clone())),
        _ => Err(Failure::from(args::usage_error(
            "flamegraph",
            "of a file, one event is drawn: give --event once",
        ))),
    }
}
