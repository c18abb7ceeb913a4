//! `sprof stat`: runs programs by turns and counts what they take.

use std::fs::{self, File};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use perf_data::events::{self, EventSelector};
use recording::counting::{CountedProgram, CountedRun, CountedTarget};
use recording::session::ProgramExit;

use super::target::ResultTarget;
use crate::args::{self, StatArgs, StatFormat, StatProgram};
use crate::cargo;
use crate::exit::{Failure, Outcome, Status};
use crate::output::file_kind::FileKind;
use crate::output::json;
use crate::recorder::RunCounter;
use crate::stat::{self, Counted, ProgramRuns, of_cargo};
use crate::terminal::Term;

/// Version of the JSON form. A changed field increases it, a new field does not.
const SCHEMA_VERSION: u32 = 1;
/// Columns of text without a terminal.
const USUAL_COLUMNS: usize = 100;

pub(crate) fn run(args: &StatArgs) -> Outcome {
    let term = Term::stderr(args.verbosity());
    let running = args.target();
    let asked = match running {
        Some(_) => Vec::new(),
        None => args.programs().or_else(|error| args::refuse("stat", error))?,
    };
    let kind = match args.format() {
        StatFormat::Text => FileKind::ReportText,
        StatFormat::Md => FileKind::ReportMarkdown,
        StatFormat::Json => FileKind::ReportJson,
    };
    let target = match (&args.output, args.format()) {
        (None, StatFormat::Text) => None,
        (path, _) => Some(ResultTarget::for_text(path.as_deref(), kind)?),
    };
    for list in &args.event {
        let specs = events::parse(list).map_err(|error| args::usage_error("stat", error))?;
        if let Some(probe) = specs
            .iter()
            .find(|spec| matches!(spec.selector, EventSelector::Probe { .. }))
        {
            let text = &probe.text;
            return args::refuse(
                "stat",
                format!("{text} is a probe: `sprof record -e {text}` has each time that it is hit"),
            );
        }
    }
    let counter = RunCounter::new(&args.event)?;
    let (counted, status) = match running {
        Some(running) => (watch(&running, args, &counter)?, Status::SUCCESS),
        None => by_turns(asked, args, &counter, &term)?,
    };
    if counted.programs.iter().any(|program| program.runs.is_empty()) {
        return Ok(status);
    }
    match target {
        None => print(&stat::text(&counted, term.columns().unwrap_or(USUAL_COLUMNS)), &term),
        Some(target) => {
            target.write(&term, |out| match args.format() {
                StatFormat::Text => out.write_all(stat::text(&counted, USUAL_COLUMNS).as_bytes()),
                StatFormat::Md => out.write_all(stat::markdown(&counted).as_bytes()),
                StatFormat::Json => json::write("sprof-stat", SCHEMA_VERSION, counted.json(), out),
            })?;
        }
    }
    Ok(status)
}

/// Counts what runs already.
fn watch(running: &CountedTarget, args: &StatArgs, counter: &RunCounter) -> Result<Counted, Failure> {
    let (command, title) = match running {
        CountedTarget::WholeMachine => (vec!["-a".to_owned()], "this machine".to_owned()),
        CountedTarget::Processes(pids) => {
            let numbers: Vec<String> = pids.iter().map(|pid| pid.0.to_string()).collect();
            let named = numbers.iter().map(|pid| {
                let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                format!("process {pid} ({})", name.trim_end())
            });
            let title = named.collect::<Vec<String>>().join(", ");
            (vec!["-p".to_owned(), numbers.join(",")], title)
        }
    };
    let begin = Instant::now();
    let run = counter.watch(running, args.duration)?;
    Ok(Counted {
        programs: vec![ProgramRuns {
            command,
            title: Some(title),
            runs: vec![run],
            ..ProgramRuns::default()
        }],
        took_ns: u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX),
        ..Counted::new(None, None)
    })
}

/// Runs programs in turn. Returns the status of the first one that failed.
fn by_turns(
    asked: Vec<StatProgram>,
    args: &StatArgs,
    counter: &RunCounter,
    term: &Term,
) -> Result<(Counted, Status), Failure> {
    let (parameters, mut programs): (Vec<_>, Vec<_>) = { asked.into_iter() }
        .map(|StatProgram { words, parameters }| {
            let (command, env) = (words.command, words.env);
            (parameters, CountedProgram { command, env })
        })
        .unzip();
    let (warmup, runs) = (args.warmup(), args.runs());
    if warmup + runs > 1 {
        // The first program would read it all.
        File::open("/dev/null")
            .and_then(|null| Ok(rustix::stdio::dup2_stdin(null)?))
            .map_err(|error| Failure::failed(format_args!("cannot empty stdin: {error}")))?;
    }
    let mut counted = Counted {
        programs: { programs.iter() }
            .zip(parameters)
            .map(|(program, parameters)| ProgramRuns {
                parameters,
                command: (program.command.iter())
                    .map(|word| word.to_string_lossy().into_owned())
                    .collect(),
                ..ProgramRuns::default()
            })
            .collect(),
        ..Counted::new(args.concurrency().map(str::to_owned), args.until_sure())
    };
    let of_cargo = programs
        .iter_mut()
        .map(|program| cargo::run_by_counter(program, &args.event, term));
    let of_cargo: Vec<_> = of_cargo.collect::<Result<_, Failure>>()?;
    let mut planned = runs;
    let (mut status, mut is_interrupted) = (Status::SUCCESS, false);
    'rounds: for round in 0..warmup + runs {
        if let Some(done) = round.checked_sub(warmup).filter(|done| counted.is_sure_after(*done)) {
            planned = done;
            break;
        }
        for at in shuffled(programs.len()) {
            let Some(program) = programs.get(at) else { continue };
            is_interrupted = counter.is_asked_to_end();
            if is_interrupted {
                break 'rounds;
            }
            prepare(args.prepare.as_deref())?;
            let begin = Instant::now();
            let run = match &of_cargo[at] {
                None => counter.run(program)?,
                Some(runners) => {
                    let (exit, is_interrupted) = counter.run_uncounted(program)?;
                    let (run, programs) =
                        of_cargo::take(runners.folder(), exit, is_interrupted).ok_or_else(|| ran_nothing(exit))?;
                    let most = &mut counted.programs[at].programs_of_cargo;
                    *most = (*most).max(Some(programs));
                    run
                }
            };
            let took = begin.elapsed();
            is_interrupted = run.is_interrupted;
            term.erase_progress();
            say(&run, (at, programs.len() == 1), round, warmup, term);
            if !args.ignore_exit_code {
                status = Status::from(run.exit);
            }
            let is_last = is_interrupted || status != Status::SUCCESS;
            // A run that did not do all of its work is no run among others.
            let is_alone = programs.len() == 1 && warmup + runs == 1;
            if round >= warmup && (is_alone || !is_last) {
                counted.took_ns = counted
                    .took_ns
                    .saturating_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
                counted.programs[at].runs.push(run);
            }
            if is_last {
                break 'rounds;
            }
            if warmup + runs > 1 && !term.is_verbose() {
                term.progress(false, format_args!("run {} of {}", round + 1, warmup + runs));
            }
        }
    }
    term.erase_progress();
    let is_whole = counted
        .programs
        .iter()
        .all(|program| program.runs.len() == planned as usize);
    if !is_whole {
        let why = if is_interrupted {
            "a signal"
        } else {
            "a program that failed (-i goes on)"
        };
        term.warning(format_args!("{why} ended the runs early; its run does not count"));
    }
    Ok((counted, status))
}

fn ran_nothing(exit: ProgramExit) -> Failure {
    Failure::NothingRan {
        message: "cargo ran no program, so there is nothing to count".to_owned(),
        status: Status::from(exit),
    }
}

/// The result goes to stderr: stdout is the program's.
fn print(text: &str, term: &Term) {
    for line in text.lines() {
        term.plain(line);
    }
}

fn say(run: &CountedRun, (at, is_one): (usize, bool), round: u32, warmup: u32, term: &Term) {
    let wall = run.value(recording::counting::Measure::Wall).unwrap_or_default();
    let what = if round < warmup { "warm-up" } else { "run" };
    term.verbose(format_args!("{what} of program {}: {:.3} ms", at + 1, wall / 1e6));
    let program = if is_one {
        "the program".to_owned()
    } else {
        format!("program {}", at + 1)
    };
    match run.exit {
        ProgramExit::Code(0) | ProgramExit::StillRunning | ProgramExit::NotOurs => {}
        ProgramExit::Code(code) => term.line(format_args!("{program} ended with status {code}")),
        ProgramExit::Signal(signal) => term.line(format_args!("signal {signal} ended {program}")),
    }
}

/// Runs a line by the shell.
fn prepare(line: Option<&str>) -> Result<(), Failure> {
    let Some(line) = line else { return Ok(()) };
    let status = Command::new(Path::new("/bin/sh")).args(["-c", line]).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::failed(format_args!("--prepare `{line}` failed: {status}"))),
        Err(error) => Err(Failure::failed(format_args!("cannot run --prepare `{line}`: {error}"))),
    }
}

/// The numbers below `count` in random order.
fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_cached_key(|_| RandomState::new().build_hasher().finish());
    order
}
