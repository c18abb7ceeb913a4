//! `sprof record`: run, record, save, show.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use profile::builder::BuildOptions;
use profile::data::Data;
use profile::enrich::Enriched;
use profile::export::firefox;
use profile::text::numbers::bytes;
use profile::{Profile, Tracks};
use recording::command::{on_file, own};
use recording::event::Pid;
use recording::heap::{HeapOptions, HeapPatches, USUAL_HEAP_INTERVAL};
use recording::session::{ProgramExit, RecordOptions, RecordTarget, StopReason, USUAL_STACK_BYTES};
use server::Listener;
use share::commit;
use symbolicator::{SymbolOptions, Symbolicator};
use unwind::UnwindEngine;

use super::events;
use super::push::{self, Servers};
use super::share::{STEP, SharedPart, Sharing};
use super::show::{self, ServedProfile};
use crate::args::{
    self, BrowseArgs, CallGraph, HeapHow, ProgramWords, RecordArgs, RecordingArgs, SelectArgs, SymbolArgs, UnwinderName,
};
use crate::cargo;
use crate::exit::{Failure, Outcome, Status};
use crate::interrupt::Interrupt;
use crate::output::file_kind::FileKind;
use crate::output::screen;
use crate::output::{Earlier, Output, Saved};
use crate::page;
use crate::pipeline::spool::Spool;
use crate::pipeline::trigger_files::TriggerOutput;
use crate::pipeline::triggers::TriggerWatch;
use crate::pipeline::{self, Recorded, RecordingPlan};
use crate::summary::{Highlights, Summary, rate_limit_hz};
use crate::symbols::build_ids;
use crate::symbols::look_ups::{self, LookUps};
use crate::symbols::sources;
use crate::terminal::Term;
use crate::terminal::style::Style;

pub(crate) fn run(args: RecordArgs) -> Outcome {
    if let Some(pattern) = events::asked_for_list(&args.recording) {
        return events::list(pattern);
    }
    check_stdout(&args)?;
    let term = Term::stderr(args.serve.input.verbosity());
    let mut plan = plan(&args.recording, &args.serve.input.symbols, "record", &term)?;

    // Everything that can fail early fails before the program runs.
    let then = match (args.share, shows(&args)) {
        (true, _) => {
            let ui = args.serve.ui_url.as_deref();
            NextStep::Share(Box::new(Sharing::prepare("record", &args.upload, ui, STEP)?))
        }
        (false, true) => NextStep::Show(show::listen(&args.serve, &term)?),
        (false, false) => NextStep::End,
    };
    let servers = Servers::prepare("record", &args.push, false)?;
    let form = form(&args);
    let output = output(&args.output, form)?;
    let html = match &args.html {
        Some(path) => Some((path, Output::prepare(path, FileKind::Page, Earlier::Replaced)?)),
        None => None,
    };
    let interrupt = Interrupt::watch()?;
    let symbols = look_ups::options(&args.serve.input.symbols, None, &interrupt, &term)?;

    if !args.trigger.is_empty() {
        if form != FileKind::Profile || output.partial_path().is_none() {
            return args::refuse(
                "record",
                "--trigger writes profiles beside the output; name a file with -o, for example -o app.json.gz",
            );
        }
        let output = TriggerOutput {
            path: args.output.clone(),
            symbols: (!args.no_symbolicate).then(|| symbols.clone()),
            interrupt: interrupt.clone(),
            term: term.clone(),
        };
        plan.triggers = Some((TriggerWatch::new(&args.trigger)?, output));
    }
    let spool = output.partial_path().and_then(|path| Spool::create(&path, &term));
    let mut recorded = pipeline::record(&mut plan, &term, &interrupt, spool, None)?;
    let failure = recorded.failure.take();
    let symbolicator = Arc::new(symbolicator(&mut recorded, symbols, &term));
    let mut look_ups = LookUps::new(&symbolicator, &term);
    let mut enriched = None;
    if !args.no_symbolicate {
        let profile = &mut recorded.profile;
        enriched = Some(look_ups.name(profile, &interrupt));
        if args.embed_sources {
            sources::embed_hot(profile, &symbolicator, &interrupt, &term);
        }
        // Markers of benchmarks and tests are made from named stacks.
        if let Some(cargo) = &plan.cargo {
            cargo.mark_benchmarks(profile, recorded.iterations);
        }
    }
    // A user who ended sprof with a signal wants no server, and nothing leaves the machine.
    let is_ended = recorded.stop == StopReason::Terminated || interrupt.is_seen();
    let then = match then {
        NextStep::Show(_) if is_ended => NextStep::End,
        then => then,
    };
    let highlights = Highlights::of(&recorded.profile, &look_ups, Some(&plan.recorder));
    if let Some((path, html)) = html {
        write_page(&recorded.profile, &symbolicator, path, html, &term);
    }
    let status = save_and_show(
        &args,
        &term,
        recorded,
        output,
        (highlights, enriched, plan.recorder),
        AfterSave {
            servers,
            then,
            is_ended,
        },
        &symbolicator,
    )?;
    failure.map_or(Ok(status), Err)
}

/// Reports changed options: a rate that the machine does not permit, another way to unwind.
fn say_changes(rate_hz: f64, args: &RecordingArgs, term: &Term) {
    match args.call_graph {
        None | Some(CallGraph::Dwarf(_)) => {}
        Some(CallGraph::FramePointers | CallGraph::LastBranches) => term.line(
            "stacks are unwound by unwind rules, as with --call-graph dwarf; frame pointers are used for code without rules",
        ),
    }
    if rate_hz < args.rate_hz() {
        term.line(format_args!(
            "sampling at {rate_hz} Hz instead of {0} Hz, which is above this machine's limit; to raise it: \
             sysctl kernel.perf_event_max_sample_rate={0:.0}",
            args.rate_hz()
        ));
    }
}

/// A symbolicator with the files of the recording and the symbols of JIT compilers.
pub(super) fn symbolicator(recorded: &mut Recorded, symbols: SymbolOptions, term: &Term) -> Symbolicator {
    build_ids::warn_of_recorded(&recorded.kept_files, term);
    let symbolicator = Symbolicator::new(SymbolOptions {
        recorded_at: Some(std::time::SystemTime::now()),
        ..symbols
    });
    for (module, file) in recorded.kept_files.drain(..) {
        symbolicator.add_kept_file(&module, file);
    }
    for (module, symbols) in recorded.jit_symbols.drain(..) {
        symbolicator.add_jit(&module, symbols);
    }
    symbolicator
}

/// Writes the profile and waits for the program. With a listener, serves the profile.
fn save_and_show(
    args: &RecordArgs,
    term: &Term,
    recorded: Recorded,
    output: Output,
    (highlights, enriched, asked): (Highlights, Option<Enriched>, RecordOptions),
    follows: AfterSave,
    symbolicator: &Arc<Symbolicator>,
) -> Outcome {
    let (saved, mut recorded) = write(term, output, form(args), recorded, symbolicator)?;
    let is_ended = follows.is_ended;
    let (listener, sharing) = match follows.then {
        NextStep::Show(listener) => (Some(listener), None),
        NextStep::Share(sharing) => (None, Some(sharing)),
        NextStep::End => (None, None),
    };
    // Opened before the program ends: the next recording may replace the file.
    let opened = (listener.as_ref()).map(|_| File::open(saved.path.as_deref().unwrap_or(Path::new("-"))));
    let links = (listener.as_ref()).map(|listener| listener.links(Some(&Tracks::from_profile(&recorded.profile))));
    let summary = Summary {
        iterations: recorded.iterations,
        asked: Some(asked),
        highlights,
        enriched,
        path: saved.path.clone(),
        link: links.as_ref().map(|links| links.open.clone()),
        ..Summary::of(&recorded.profile, recorded.stop)
    };
    summary.print(term);
    say_where(term, &saved);
    if let Some(path) = &saved.path {
        match form(args) {
            FileKind::Page => term.line("open it with any browser"),
            _ => say_next(term, path, listener.is_some()),
        }
    }
    // The UI will request source and assembly.
    let libs = recorded.profile.libs();
    libs.iter().for_each(|lib| symbolicator.add_module(&lib.module));
    // Before the server has a thread: until then Ctrl-C goes to the program, then to the server.
    let exit = wait(term, &mut recorded);
    // With -p and -a the command, such as `sleep 10`, only ends the recording; it is not what was recorded.
    let is_program = args.recording.pid.is_empty() && !args.recording.all;
    if is_program && recorded.stop.is_end_of_program() {
        say_exit(term, &recorded.profile.info().program, exit);
    }
    match (follows.servers.is_empty(), is_ended) {
        (true, _) => {}
        (false, true) => say_kept_back("pushed", "push --to KIND=URL", saved.path.as_deref(), term),
        (false, false) => push(&follows.servers, &recorded, saved.path.as_deref(), term),
    }
    drop(recorded);
    let status = end(args, summary, exit, &saved)?;
    if let (Some(sharing), Some(path)) = (sharing, &saved.path) {
        match is_ended {
            true => say_kept_back("shared", "share", Some(path), term),
            false => share(&sharing, path, args, term)?,
        }
        return Ok(status);
    }
    let (Some(listener), Some(links), Some(opened)) = (listener, links, opened) else {
        return Ok(status);
    };
    let profile = opened.map_err(|error| format!("opening the saved profile failed: {error}"))?;
    let shown = ServedProfile {
        profile,
        base: None,
        symbolicator: Arc::clone(symbolicator),
        links,
        browsed: saved.path.map(|file| {
            let select = SelectArgs {
                symbols: args.serve.input.symbols.clone(),
                ..SelectArgs::default()
            };
            BrowseArgs { file, select }
        }),
    };
    shown.serve(listener, &args.serve, term)?;
    Ok(status)
}

/// Waits for the program, which may run longer than the recording.
pub(super) fn wait(term: &Term, recorded: &mut Recorded) -> ProgramExit {
    if !recorded.stop.is_end_of_program() && recorded.program.may_be_running() {
        term.progress(false, "waiting for the program to end; Ctrl-C kills it");
    }
    let exit = recorded.program.wait();
    term.erase_progress();
    exit
}

/// Sends the recording to the servers. A server that refuses it does not change the exit status: the profile is saved.
fn push(servers: &Servers, recorded: &Recorded, path: Option<&Path>, term: &Term) {
    let mut data = Data::from(&recorded.profile);
    let sent = match data.keep_event(None) {
        Ok(_) => servers.send(path.unwrap_or(Path::new("-")), data, push::PushedPart::default(), term),
        Err(why) => Err(Failure::failed(why)),
    };
    // Requests have no other kind of failure.
    if let Err(Failure::Failed { message, .. }) = sent {
        term.warning(message);
    }
}

/// Shares the saved profile. A store that refuses it does not change the exit status.
fn share(sharing: &Sharing, path: &Path, args: &RecordArgs, term: &Term) -> Result<(), Failure> {
    match sharing.share(path, &SharedPart::default(), &args.serve.input.symbols, term) {
        Ok(None) => Ok(()),
        Ok(Some(done)) => screen::print("the link", |out| writeln!(out, "{}", done.link)).map(drop),
        Err(Failure::Failed { message, .. }) => {
            term.warning(message);
            Ok(())
        }
        Err(other) => Err(other),
    }
}

/// Reports that nothing left the machine, and names the command for it.
fn say_kept_back(what: &str, command: &str, path: Option<&Path>, term: &Term) {
    let later = path.map_or_else(String::new, |path| format!("; `{}` does it", on_file(command, path)));
    term.warning(format_args!("not {what}: sprof was ended by a signal{later}"));
}

/// Steps after the profile is saved.
struct AfterSave {
    servers: Servers,
    then: NextStep,
    /// True if a signal ended the recording: then saving is the last step.
    is_ended: bool,
}

/// The step after the profile is saved.
enum NextStep {
    End,
    Show(Listener),
    Share(Box<Sharing>),
}

/// True if a user at a terminal can read the link and end the server.
fn shows(args: &RecordArgs) -> bool {
    !args.save_only && !to_stdout(args) && form(args) == FileKind::Profile && show::may_open()
}

/// Kind of file to save: a page if the output's name says so, else a profile.
fn form(args: &RecordArgs) -> FileKind {
    match FileKind::promised(&args.output).first() {
        Some(FileKind::Page) => FileKind::Page,
        _ => FileKind::Profile,
    }
}

/// Writes the page beside the profile. The profile is saved even if the page can't be.
fn write_page(profile: &Profile, symbolicator: &Symbolicator, path: &Path, output: Output, term: &Term) {
    term.progress(false, "writing the page");
    let written = page::of_recording(profile, symbolicator);
    let written = written.and_then(|page| {
        output
            .save(term, |out| out.write_all(&page))
            .map_err(|error| error.to_string())
    });
    term.erase_progress();
    match written {
        Ok(_) => term.line(format_args!("wrote {}", term.style(Style::Link, path.display()))),
        Err(error) => term.error(error),
    }
}

fn to_stdout(args: &RecordArgs) -> bool {
    args.output == Path::new("-")
}

/// Refuses two uses of stdout.
fn check_stdout(args: &RecordArgs) -> Result<(), Failure> {
    let refused = |message| args::refuse("record", message);
    if args.json.is_json() && to_stdout(args) {
        return refused("--json and the profile cannot both go to stdout; name a file with -o");
    }
    if args.share && to_stdout(args) {
        return refused("--share prints a link on stdout, so the profile can't go there; name a file with -o");
    }
    if args.share && form(args) != FileKind::Profile {
        return refused("--share uploads the saved profile; give the page a name of its own with --html");
    }
    if to_stdout(args) && io::stdout().is_terminal() {
        return refused("the profile cannot go to a terminal; redirect stdout, or name a file with -o");
    }
    Ok(())
}

/// What to record, by the options and by what the machine permits; for cargo, with its programs. Reports what changes.
pub(super) fn plan(
    args: &RecordingArgs,
    symbols: &SymbolArgs,
    command: &str,
    term: &Term,
) -> Result<RecordingPlan, Failure> {
    let usage = |message: String| args::usage_error(command, message);
    let target = if args.all {
        RecordTarget::WholeMachine
    } else if !args.pid.is_empty() {
        RecordTarget::Processes(args.pid.iter().map(|pid| Pid(*pid)).collect())
    } else if args.command.is_empty() {
        return Err(usage(
            "nothing to record: give a command, or -p PID, or -a for the whole machine".into(),
        ));
    } else {
        RecordTarget::Command
    };
    let is_pid = |word: &OsString| word.to_str().is_some_and(|word| word.parse::<u32>().is_ok());
    if let (RecordTarget::Processes(_), Some(word)) = (&target, args.command.first().filter(|word| is_pid(word))) {
        let pids = args.pid.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        return Err(usage(format!(
            "process ids are separated by commas: -p {pids},{0}; a command of the name {0} is ./{0}",
            word.display()
        )));
    }
    let program = match args.command.is_empty() {
        true => ProgramWords::default(),
        false => args::split_environment(&args.command).ok_or_else(|| {
            usage(format!(
                "there is no command after the variables; to see them all, run: {} record env",
                own()
            ))
        })?,
    };
    if args.unwinder == UnwinderName::Framehop && !cfg!(target_os = "linux") {
        return Err(usage(
            "--unwinder framehop needs Linux: sprof contains framehop's reader of ELF files alone".into(),
        ));
    }
    if args.paused && !cfg!(target_os = "linux") {
        return Err(usage(
            "--paused needs Linux: elsewhere sprof reads nothing of what programs call".into(),
        ));
    }
    let limit_hz = rate_limit_hz().unwrap_or(f64::INFINITY);
    if let Some(rate_hz) = args.rate.filter(|rate_hz| *rate_hz > limit_hz) {
        return Err(usage(format!(
            "the rate of {rate_hz} Hz is above this machine's limit of {limit_hz} Hz; choose a lower one, or raise the \
             limit: sysctl kernel.perf_event_max_sample_rate={rate_hz:.0}"
        )));
    }
    // The kernel lowers its limit if interrupts take long, as in many virtual machines: seen down to 250 Hz.
    let rate_hz = args.rate_hz().min(limit_hz);
    let probes = events::probes(args, symbols, &target, &program)?;
    let spans = events::spans(args, symbols, &target, &program)?;
    let mut recorder = RecordOptions {
        target,
        command: program.command,
        env: program.env,
        rate_hz,
        ptrace_rate_hz: args.ptrace_rate_hz(),
        stack_bytes: args.stack_bytes().unwrap_or(USUAL_STACK_BYTES),
        larger_stacks: args.stack_bytes().is_none(),
        off_cpu: args.off_cpu,
        parallelism: args.parallelism,
        events: args.event.clone(),
        probes,
        spans,
        event_sampling: args.event_sampling(),
        heap: args.heap.filter(|how| *how != HeapHow::Off).map(|how| HeapOptions {
            interval: args.heap_interval.unwrap_or(USUAL_HEAP_INTERVAL),
            may_raise: args.heap_interval.is_none(),
            patches: match how {
                HeapHow::Patch => HeapPatches::All,
                HeapHow::On => HeapPatches::Known,
                HeapHow::Interpose | HeapHow::Off => HeapPatches::None,
            },
            cache: args::cache(),
            runner: None,
        }),
        resources: !args.no_resources,
        paused: args.paused,
        duration: args.duration,
        keep_running: args.keep_running,
        include_args: args.include_args.is_some(),
    };
    let cargo = cargo::prepare(&mut recorder, args, term)?;
    say_changes(rate_hz, args, term);
    let cargo_name = || cargo.as_ref().map(|cargo| cargo.command.clone());
    // sprof cannot know the commit of a process that was started by others.
    let is_launched = matches!(recorder.target, RecordTarget::Command);
    Ok(RecordingPlan {
        commit: is_launched.then(commit::of_surroundings).flatten(),
        recorder,
        build: BuildOptions {
            main_thread_only: args.main_thread_only,
            per_cpu_threads: args.per_cpu_threads,
            awake_threads_only: args.all,
            switches_without_waits: !args.off_cpu,
        },
        iterations: args.iteration_count,
        ignore_exit_code: args.ignore_exit_code,
        last: args.last,
        triggers: None,
        max_args: args.include_args.flatten().unwrap_or(usize::MAX),
        engine: match args.unwinder {
            UnwinderName::Sprof => UnwindEngine::Sprof,
            UnwinderName::Framehop => UnwindEngine::Framehop,
        },
        profile_name: args.profile_name.clone().or_else(cargo_name),
        cargo,
    })
}

/// Prepares the output. If it is stdout, the program gets stderr as its stdout, so that its output does not mix with
/// the profile.
pub(super) fn output(path: &Path, kind: FileKind) -> Result<Output, Failure> {
    if path != Path::new("-") {
        let earlier = match kind {
            FileKind::FlameGraph => Earlier::Replaced,
            _ => Earlier::Kept,
        };
        return Ok(Output::prepare(path, kind, earlier)?.of_recording(kind));
    }
    let failed = |error: io::Error| Failure::failed(format_args!("cannot write the profile to stdout: {error}"));
    let stdout = io::stdout().as_fd().try_clone_to_owned().map_err(failed)?;
    rustix::stdio::dup2_stdout(io::stderr()).map_err(|error| failed(error.into()))?;
    Ok(Output::stdout(File::from(stdout), kind))
}

/// Writes the profile. If that fails, waits for the program all the same.
fn write(
    term: &Term,
    output: Output,
    form: FileKind,
    mut recorded: Recorded,
    symbolicator: &Symbolicator,
) -> Result<(Saved, Recorded), Failure> {
    term.progress(false, "writing the profile");
    let started = Instant::now();
    let profile = &recorded.profile;
    let saved = match form {
        FileKind::Page => {
            let page = page::of_recording(profile, symbolicator);
            output.save(term, |out| match &page {
                Ok(page) => out.write_all(page),
                Err(error) => Err(io::Error::other(error.clone())),
            })
        }
        _ => output.save(term, |out| firefox::write_gz(profile, out)),
    };
    term.erase_progress();
    match saved {
        Ok(saved) => {
            term.verbose(format_args!("wrote the profile in {:.1?}", started.elapsed()));
            if let Some(problem) = &saved.problem {
                term.error(problem);
            }
            recorded.spool.take().into_iter().for_each(Spool::remove);
            Ok((saved, recorded))
        }
        Err(error) => {
            wait(term, &mut recorded);
            Err(match &recorded.spool {
                Some(spool) => Failure::failed(format_args!("{error}; {}", spool.left())),
                None => Failure::failed(error),
            })
        }
    }
}

pub(super) fn say_where(term: &Term, saved: &Saved) {
    if let Some(path) = &saved.path {
        let size =
            std::fs::metadata(path).map_or_else(|_| String::new(), |meta| format!(" ({})", bytes(meta.len() as f64)));
        term.line(format_args!("saved {}{size}", term.style(Style::Link, path.display())));
    }
}

/// Prints the next commands; fewer if the profile will be served.
fn say_next(term: &Term, path: &Path, is_served: bool) {
    let ways = [("open it with", "load"), ("read it with", "report")];
    for (how, command) in ways.into_iter().skip(usize::from(is_served)) {
        term.line(format_args!(
            "{how} {}",
            term.style(Style::Bold, on_file(command, path))
        ));
    }
}

/// Reports how a program failed: the shell reports only signals that ended sprof.
fn say_exit(term: &Term, program: &str, exit: ProgramExit) {
    let how = match exit {
        ProgramExit::Code(0) | ProgramExit::StillRunning | ProgramExit::NotOurs => return,
        ProgramExit::Code(code) => format!("ended with exit status {code}"),
        ProgramExit::Signal(signal) => match signal_hook::low_level::signal_name(signal) {
            Some(name) => format!("was killed by signal {signal} ({name})"),
            None => format!("was killed by signal {signal}"),
        },
    };
    term.line(term.style(Style::Warning, format_args!("{program} {how}")));
}

/// Prints the JSON summary, and returns the status.
fn end(args: &RecordArgs, summary: Summary, exit: ProgramExit, saved: &Saved) -> Outcome {
    if args.json.is_json() {
        match screen::print("the summary", |out| writeln!(out, "{}", summary.json(exit))) {
            // The reader of stdout has left; the profile is saved.
            Err(Failure::BrokenPipe) => {}
            printed => drop(printed?),
        }
    }
    if saved.problem.is_some() {
        return Ok(Status::PARTIAL);
    }
    Ok(Status::from(exit))
}
