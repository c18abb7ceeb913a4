//! `-e`: the named events, and the list of all events.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use perf_data::events::{self, EventSelector};
use recording::event::Pid;
use recording::probe::{Probe, SpanFunction};
use recording::program;
use recording::session::RecordTarget;

use crate::args::{self, ProgramWords, RecordingArgs, SymbolArgs};
use crate::exit::{Failure, Outcome};
use crate::output::screen;
use crate::pipeline::{libraries, probes};
use crate::recorder;

/// The word for the list of all events.
const LIST: &str = "list";

/// The probes among the named events, which are checked: found in their files and in the folders of debug files.
/// Breakpoints are in `program`, or in the processes of `target`.
pub(super) fn probes(
    args: &RecordingArgs,
    symbols: &SymbolArgs,
    target: &RecordTarget,
    program: &ProgramWords,
) -> Result<Vec<Probe>, Failure> {
    let options = symbols.options(None);
    let mut specs = Vec::new();
    for list in &args.event {
        specs.extend(events::parse(list).map_err(|error| args::usage_error("record", error))?);
    }
    let mut probes: Vec<Probe> = Vec::new();
    for spec in specs {
        if let EventSelector::Probe { kind, place } = &spec.selector
            && !probes.iter().any(|probe| probe.text == spec.text)
        {
            let programs = || programs(target, program);
            probes.push(probes::find(*kind, &spec.text, place, &programs, &options)?);
        }
    }
    Ok(probes)
}

/// The functions of `--span`, found in `program` or in the processes of `target`, or in their libraries.
pub(super) fn spans(
    args: &RecordingArgs,
    symbols: &SymbolArgs,
    target: &RecordTarget,
    program: &ProgramWords,
) -> Result<Vec<SpanFunction>, Failure> {
    let options = symbols.options(None);
    let spans = args.span.iter().map(|name| {
        let span =
            programs(target, program).and_then(|programs| probes::span(name, &programs, &libraries_of, &options));
        span.map_err(|reason| format!("cannot record --span {name}: {reason}").into())
    });
    spans.collect()
}

/// The libraries of one of these programs.
fn libraries_of(program: &Path) -> Vec<PathBuf> {
    let process = program.strip_prefix("/proc").ok().and_then(Path::parent);
    match process.and_then(|pid| pid.to_str()?.parse().ok()) {
        Some(pid) => libraries::of_process(pid),
        None => libraries::of_program(program),
    }
}

/// The files of the programs that are recorded.
fn programs(target: &RecordTarget, program: &ProgramWords) -> Result<Vec<PathBuf>, String> {
    match target {
        _ if !cfg!(target_os = "linux") => Err("only Linux gives sprof breakpoints".to_owned()),
        RecordTarget::Command if program.command.first().is_some_and(|word| word == "cargo") => {
            Err("the program that starts is cargo: name the one that cargo builds (target/release/...)".to_owned())
        }
        RecordTarget::Command => {
            let image = program::resolve(&program.command, &program.env).map_err(|error| error.to_string())?;
            Ok(vec![PathBuf::from(OsString::from_vec(image.path.into_bytes()))])
        }
        RecordTarget::Processes(pids) => {
            let mut paths = BTreeMap::new();
            for Pid(pid) in pids {
                let path = PathBuf::from(format!("/proc/{pid}/exe"));
                let file = fs::metadata(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                paths.insert((file.dev(), file.ino()), path);
            }
            Ok(paths.into_values().collect())
        }
        RecordTarget::WholeMachine => {
            Err("breakpoints are in processes: name them with -p; as root, uprobe:FILE:FUNCTION is for all".to_owned())
        }
    }
}

/// The pattern of `-e list:PATTERN`, empty for `-e list`.
pub(super) fn asked_for_list(args: &RecordingArgs) -> Option<&str> {
    args.event.iter().find_map(|event| {
        let rest = event.strip_prefix(LIST)?;
        match rest {
            "" => Some(""),
            _ => rest.strip_prefix(':'),
        }
    })
}

pub(super) fn list(pattern: &str) -> Outcome {
    let text = recorder::list_events(pattern)?;
    screen::print("the list", |out| out.write_all(text.as_bytes()))
}
