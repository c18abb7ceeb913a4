//! `sprof top`: a recording, looked at while it goes on.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use profile::export::firefox;

use super::{browse, record};
use crate::args::{self, RecordingArgs, SAVED, TopArgs};
use crate::browse::terminal;
use crate::exit::{Failure, Outcome, Status};
use crate::interrupt::Interrupt;
use crate::output::file_kind::FileKind;
use crate::output::{Output, screen};
use crate::pipeline::snapshots::SnapshotRequest;
use crate::pipeline::spool::Spool;
use crate::pipeline::{self, Recorded, RecordingPlan};
use crate::symbols::look_ups;
use crate::terminal::{Term, Verbosity};
use crate::top::names::LiveNames;
use crate::top::screen::LiveScreen;
use crate::top::streams::OwnStreams;
use crate::top::table::LiveTables;
use crate::top::watch::TopWatch;

pub(crate) fn run(args: &TopArgs) -> Outcome {
    let term = Term::stderr(args.input.verbosity());
    let is_screen = args.times.is_none() && terminal::is_usable();
    // What runs is seen within a second.
    let interval_ms = if is_screen { 500 } else { 1000 };
    let interval = args.interval.unwrap_or(Duration::from_millis(interval_ms));
    let recording = RecordingArgs {
        duration: args.times.map(|times| interval * times).or(args.recording.duration),
        ..args.recording.clone()
    };
    let plan = record::plan(&recording, &args.input.symbols, "top", &term)?;
    if plan.last.is_some() {
        return args::refuse(
            "top",
            "--last is an option of `sprof record`: top keeps all that it shows",
        );
    }
    let output = args
        .output
        .as_deref()
        .map(|path| record::output(path, FileKind::Profile));
    let output = output.transpose()?;
    let spool = output.as_ref().and_then(Output::partial_path);
    let spool = spool.and_then(|path| Spool::create(&path, &term));
    let interrupt = Interrupt::watch()?;
    let symbols = look_ups::options(&args.input.symbols, None, &interrupt, &term)?;
    let live = LiveRecording {
        plan,
        interrupt: interrupt.clone(),
        names: Arc::new(LiveNames::new(symbols, interrupt)),
        output,
        spool,
    };
    match is_screen {
        true => live.on_screen(args, interval, &term),
        false => live.in_tables(args, interval, &term),
    }
}

struct LiveRecording {
    plan: RecordingPlan,
    interrupt: Interrupt,
    names: Arc<LiveNames>,
    /// Where the whole recording is saved.
    output: Option<Output>,
    /// What is left of it if sprof is killed.
    spool: Option<Spool>,
}

impl LiveRecording {
    fn in_tables(mut self, args: &TopArgs, interval: Duration, term: &Term) -> Outcome {
        let tables = LiveTables::new(self.names.clone(), interval, args.sort, args.times);
        let streams = OwnStreams::keep_stdout()?;
        // Also where a table took longer.
        let end = 3 * interval + Duration::from_secs(1);
        let watch = TopWatch::new(streams, end, SnapshotRequest::default(), |snapshots| {
            tables.run(snapshots)
        });
        let (mut recorded, mut tables) = self.record(watch, term)?;
        let printed = match tables.problem.take() {
            Some(problem) => Err(problem),
            None => self
                .names
                .input(&recorded.profile, false)
                .and_then(|input| tables.print_last(&input)),
        };
        let exit = record::wait(term, &mut recorded);
        self.save(&mut recorded, term)?;
        let failure = printed.err().or(recorded.failure);
        match failure {
            // The reader of tables has seen enough.
            None | Some(Failure::BrokenPipe) => Ok(Status::from(exit)),
            Some(failure) => Err(failure),
        }
    }

    fn on_screen(mut self, args: &TopArgs, interval: Duration, term: &Term) -> Outcome {
        let file = args.output.clone().unwrap_or_else(|| PathBuf::from(SAVED));
        let (streams, request) = (OwnStreams::keep_terminal()?, SnapshotRequest::default());
        let names = self.names.clone();
        let shown = LiveScreen::new(names, request.clone(), interval, file, browse::annotate_of);
        let watch = TopWatch::new(streams, LiveScreen::LONGEST_END, request, |snapshots| {
            shown.run(snapshots)
        });
        // Lines would be in the middle of the screen.
        let quiet = Term::stderr(Verbosity::Quiet);
        let (mut recorded, mut shown) = self.record(watch, &quiet)?;
        let exit = record::wait(&quiet, &mut recorded);
        let saved = self.save(&mut recorded, &quiet);
        let announcements = std::mem::take(&mut shown.announcements);
        let command = shown.finish(recorded.profile, saved.as_ref().is_ok_and(|is_saved| *is_saved));
        announcements.iter().for_each(|line| term.line(line));
        saved?;
        if let Some(command) = command? {
            screen::print("the command", |out| writeln!(out, "{command}"))?;
        }
        recorded.failure.map_or(Ok(Status::from(exit)), Err)
    }

    /// Records to the end, and gives names to all.
    fn record<V: Send + 'static>(&mut self, mut watch: TopWatch<V>, term: &Term) -> Result<(Recorded, V), Failure> {
        let spool = self.spool.take();
        let recorded = pipeline::record(&mut self.plan, term, &self.interrupt, spool, Some(&mut watch));
        let left = watch.finish();
        let mut recorded = recorded?;
        self.names.add_files(
            std::mem::take(&mut recorded.kept_files),
            std::mem::take(&mut recorded.jit_symbols),
        );
        self.names.name(&mut recorded.profile, term);
        Ok((recorded, left?))
    }

    /// Saves all where the user named a file. False if none was named, or if it was saved elsewhere.
    fn save(&mut self, recorded: &mut Recorded, term: &Term) -> Result<bool, Failure> {
        let Some(output) = self.output.take() else {
            return Ok(false);
        };
        let saved = output.save(term, |out| firefox::write_gz(&recorded.profile, out));
        let saved = saved.map_err(|error| match &recorded.spool {
            Some(spool) => Failure::failed(format_args!("{error}; {}", spool.left())),
            None => Failure::failed(error),
        })?;
        recorded.spool.take().into_iter().for_each(Spool::remove);
        record::say_where(term, &saved);
        Ok(saved.problem.is_none())
    }
}
