//! `sprof flamegraph`: run, record, draw. With a saved profile it is `sprof export --format svg` with a default output.

use std::io;
use std::path::PathBuf;

use profile::Profile;
use profile::data::Data;
use profile::export::{Picked, svg};
use profile::view::diff::DiffLimits;
use profile::view::select::{KeptKinds, keep};
use recording::command::on_file;
use recording::event::Role;
use recording::info::RecordingInfo;

use super::target::ResultTarget;
use super::{differential, export, record};
use crate::args::{self, FlamegraphArgs, RecordingArgs, WantedSamples};
use crate::exit::{Failure, Outcome, Status};
use crate::input;
use crate::interrupt::Interrupt;
use crate::output::file_kind::FileKind;
use crate::pipeline;
use crate::pipeline::spool::Spool;
use crate::summary::{Highlights, Summary};
use crate::symbols::look_ups::{self, LookUps};
use crate::terminal::Term;
use crate::terminal::style::Style;

pub(crate) fn run(args: FlamegraphArgs) -> Outcome {
    let term = Term::stderr(args.input.verbosity());
    let time = export::time(args.recording.off_cpu, &args.pick);
    let options = export::svg_options(&args.svg, args.pick.threads);
    if let Some(file) = &args.file {
        if std::fs::metadata(file).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return args::refuse(
                "flamegraph",
                format_args!(
                    "there is no file {}; to record a program, put -- before it: {}",
                    file.display(),
                    on_file("flamegraph --", file)
                ),
            );
        }
        let target = ResultTarget::prepare(Some(&args.output), FileKind::FlameGraph)?;
        let event = event(&args.recording.event)?;
        let wanted = WantedSamples::new(event, &args.heap, args.part.filter());
        let read = |file: &PathBuf| {
            let mut data = input::open_and_warn(file, wanted.clone(), &args.input.symbols, &term)?.data;
            export::keep_part(&mut data, &args.part, file, &term)?;
            Ok(data)
        };
        let data = read(file)?;
        if !args.base.is_empty() {
            let base = args.base.iter().map(read);
            let base = base.collect::<Result<Vec<_>, Failure>>()?;
            return differential::write(target, &base, &[data], time, &options, DiffLimits::default(), &term);
        }
        let picked = Picked::new(&data, time);
        export::say_what_is_missing(&picked, file, &term)?;
        return target.write(&term, |out| svg::write(&picked, &options, out));
    }

    let recording = RecordingArgs {
        off_cpu: args.recording.off_cpu || args.pick.wall,
        ..args.recording
    };
    let mut plan = record::plan(&recording, &args.input.symbols, "flamegraph", &term)?;
    let output = record::output(&args.output, FileKind::FlameGraph)?;
    let interrupt = Interrupt::watch()?;
    let symbols = look_ups::options(&args.input.symbols, None, &interrupt, &term)?;
    let spool = output.partial_path().and_then(|path| Spool::create(&path, &term));
    let mut recorded = pipeline::record(&mut plan, &term, &interrupt, spool, None)?;
    let failure = recorded.failure.take();
    let symbolicator = record::symbolicator(&mut recorded, symbols, &term);
    let mut look_ups = LookUps::new(&symbolicator, &term);
    let enriched = look_ups.name(&mut recorded.profile, &interrupt);

    term.progress(false, "drawing the flame graph");
    let event = match recording.off_cpu {
        true => None,
        false => drawn_event(recorded.profile.info(), &recorded.profile),
    };
    let mut data = Data::from(&recorded.profile);
    let kept = data
        .keep_event(event)
        .map_err(|error| error.to_string())
        .and_then(|_| keep(&mut data, &args.part.filter(), KeptKinds::Both).map_err(|error| error.to_string()));
    let drawn = kept.and_then(|()| {
        data.make_printable();
        output.save(&term, |out| svg::write(&Picked::new(&data, time), &options, out))
    });
    term.erase_progress();
    let exit = record::wait(&term, &mut recorded);
    let saved = drawn.map_err(|error| match &recorded.spool {
        Some(spool) => Failure::failed(format_args!("{error}; {}", spool.left())),
        None => Failure::failed(error),
    })?;
    if let Some(problem) = &saved.problem {
        term.error(problem);
    }
    recorded.spool.take().into_iter().for_each(Spool::remove);
    let summary = Summary {
        iterations: recorded.iterations,
        highlights: Highlights::of(&recorded.profile, &look_ups, Some(&plan.recorder)),
        enriched: Some(enriched),
        asked: Some(plan.recorder),
        ..Summary::of(&recorded.profile, recorded.stop)
    };
    summary.print(&term);
    let status = Status::from(exit);
    let path = saved.path.unwrap_or(args.output);
    let wrote = term.style(Style::Link, path.display());
    match status == Status::SUCCESS {
        true => term.line(format_args!("wrote {wrote}")),
        // `cargo bench` with arguments that it refused gave a picture of two samples.
        false => term.warning(format_args!(
            "wrote {wrote}, of the time until {} failed",
            recorded.profile.info().program
        )),
    }
    match (failure, saved.problem) {
        (Some(failure), _) => Err(failure),
        (None, Some(_)) => Ok(Status::PARTIAL),
        (None, None) => Ok(status),
    }
}

/// The event to draw if the sample weights do not count it: the first named event that happened.
fn drawn_event<'a>(info: &'a RecordingInfo, profile: &Profile) -> Option<&'a str> {
    let events = || info.events.iter().enumerate();
    if events().any(|(_, event)| event.role == Role::Running) {
        return None;
    }
    let first = events().find(|(index, _)| profile.in_profile(*index) > 0);
    first.or(events().next()).map(|(_, event)| event.name.as_str())
}

/// The one event to draw of a file.
fn event(asked: &[String]) -> Result<Option<&str>, Failure> {
    match asked {
        [] => Ok(None),
        [event] => Ok(Some(event)),
        _ => args::refuse("flamegraph", "of a file, one event is drawn: give --event once"),
    }
}
