//! `-e`: the named events, and the list of all events.

use std::path::PathBuf;

use perf_data::events::{self, Selector};
use recording::probe::Probe;
use symbolicator::SymbolOptions;

use crate::args::{self, RecordingArgs};
use crate::exit::{Failure, Outcome};
use crate::probes;
use crate::recorder;
use crate::screen;

/// The word for the list of all events.
const LIST: &str = "list";

/// The named events, checked.
pub(super) fn parse(args: &RecordingArgs) -> Result<Vec<String>, Failure> {
    for list in &args.event {
        events::parse(list).map_err(|error| args::usage_error("record", error))?;
    }
    Ok(args.event.clone())
}

/// Finds the probes in their files and in the folders of debug files. [`parse`] reports wrong text.
pub(super) fn probes(args: &RecordingArgs, symbol_dirs: &[PathBuf]) -> Result<Vec<Probe>, Failure> {
    let options = SymbolOptions {
        symbol_dirs: symbol_dirs.to_vec(),
        recorded_at: None,
    };
    let mut found: Vec<Probe> = Vec::new();
    for spec in args.event.iter().filter_map(|list| events::parse(list).ok()).flatten() {
        if let Selector::Probe { kind, place } = &spec.selector
            && !found.iter().any(|probe| probe.text == spec.text)
        {
            found.push(probes::find(*kind, &spec.text, place, &options).map_err(Failure::failed)?);
        }
    }
    Ok(found)
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
    let text = recorder::list_events(pattern).map_err(Failure::failed)?;
    screen::print("the list", |out| out.write_all(text.as_bytes()))
}
