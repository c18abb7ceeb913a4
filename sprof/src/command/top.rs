//! `sprof top`: a recording, looked at while it goes on.

use std::path::PathBuf;
use std::sync::Arc;

use profile::Profile;
use profile::export::firefox;

use super::{browse, record};
use crate::args::{self, RecordingArgs, SAVED, TopArgs};
use crate::browse::terminal;
use crate::exit::{Failure, Outcome, Status};
use crate::interrupt::Interrupt;
use crate::output::file_kind::FileKind;
use crate::output::{Output, screen};
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
    let recording = RecordingArgs {
        duration: args
            .times
            .map(|times| args.interval * times)
            .or(args.recording.duration),
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
    let interrupt = Interrupt::watch()?;
    let symbols = look_ups::options(&args.input.symbols, None, &interrupt, &term)?;
    let live = LiveRecording {
        plan,
        interrupt: interrupt.clone(),
        names: Arc::new(LiveNames::new(symbols, interrupt)),
        output,
    };
    match args.times.is_none() && terminal::is_usable() {
        true => live.on_screen(args),
        false => live.in_tables(args, &term),
    }
}

struct LiveRecording {
    plan: RecordingPlan,
    interrupt: Interrupt,
    names: Arc<LiveNames>,
    /// Where the whole recording is saved.
    output: Option<Output>,
}

impl LiveRecording {
    fn in_tables(mut self, args: &TopArgs, term: &Term) -> Outcome {
        let tables = LiveTables::new(self.names.clone(), args.interval, args.sort);
        let watch = TopWatch::new(OwnStreams::keep_stdout()?, move |snapshots| tables.run(snapshots));
        let (mut recorded, mut tables) = self.record(watch, term)?;
        let printed = match tables.problem.take() {
            Some(problem) => Err(problem),
            None => self
                .names
                .input(&recorded.profile, false)
                .and_then(|input| tables.print_last(&input)),
        };
        let exit = record::wait(term, &mut recorded);
        self.save(&recorded.profile, term)?;
        let failure = printed.err().or(recorded.failure);
        match failure {
            // The reader of tables has seen enough.
            None | Some(Failure::BrokenPipe) => Ok(Status::from(exit)),
            Some(failure) => Err(failure),
        }
    }

    fn on_screen(mut self, args: &TopArgs) -> Outcome {
        let file = args.output.clone().unwrap_or_else(|| PathBuf::from(SAVED));
        let shown = LiveScreen::new(self.names.clone(), args.interval, file, browse::annotate_of);
        let watch = TopWatch::new(OwnStreams::keep_terminal()?, move |snapshots| shown.run(snapshots));
        // Lines would be in the middle of the screen.
        let quiet = Term::stderr(Verbosity::Quiet);
        let (mut recorded, shown) = self.record(watch, &quiet)?;
        let exit = record::wait(&quiet, &mut recorded);
        let saved = self.save(&recorded.profile, &quiet);
        let command = shown.finish(recorded.profile, saved.as_ref().is_ok_and(|is_saved| *is_saved));
        saved?;
        if let Some(command) = command? {
            screen::print("the command", |out| writeln!(out, "{command}"))?;
        }
        recorded.failure.map_or(Ok(Status::from(exit)), Err)
    }

    /// Records to the end, and gives names to all.
    fn record<V: Send + 'static>(&mut self, mut watch: TopWatch<V>, term: &Term) -> Result<(Recorded, V), Failure> {
        let recorded = pipeline::record(&mut self.plan, term, &self.interrupt, None, Some(&mut watch));
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
    fn save(&mut self, profile: &Profile, term: &Term) -> Result<bool, Failure> {
        let Some(output) = self.output.take() else {
            return Ok(false);
        };
        let saved = output.save(term, |out| firefox::write_gz(profile, out))?;
        record::say_where(term, &saved);
        Ok(saved.problem.is_none())
    }
}
