//! `-e`: the named events, and the list of all events.

use perf_data::events::{self, EventSelector};
use recording::probe::Probe;

use crate::args::{self, RecordingArgs, SymbolArgs};
use crate::exit::{Failure, Outcome};
use crate::output::screen;
use crate::pipeline::probes;
use crate::recorder;

/// The word for the list of all events.
const LIST: &str = "list";

/// The named events, checked, and the probes among them, found in their files and in the folders of debug files.
pub(super) fn named(args: &RecordingArgs, symbols: &SymbolArgs) -> Result<(Vec<String>, Vec<Probe>), Failure> {
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
            probes.push(probes::find(*kind, &spec.text, place, &options)?);
        }
    }
    Ok((args.event.clone(), probes))
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
