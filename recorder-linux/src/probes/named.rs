//! The probes of one recording, defined: names to tracepoints.

use recording::probe::{Probe, ProbePlace};

use super::arguments;
use super::defined::Probes;
use super::error::ProbeError;
use super::leftovers::remove_leftovers;
use super::tracefs::{ProbeFiles, ProbeList};

/// A probe that the kernel has.
#[derive(Clone, Debug)]
pub(crate) struct DefinedProbe {
    /// As the user wrote it.
    pub(crate) text: String,
    /// Name in the profile.
    pub(crate) name: String,
    /// Groups and events of its places.
    pub(crate) tracepoints: Vec<(String, String)>,
    /// A line each for the user.
    pub(crate) notes: Vec<String>,
}

/// Defines all probes that the kernel has to know. They exist until the first value is dropped. Leftovers of killed
/// recordings are removed before. The error is for the user.
pub(crate) fn define_all(probes: &[Probe]) -> Result<(Option<Probes>, Vec<DefinedProbe>), String> {
    let probes = || probes.iter().filter(|probe| !probe.by_register);
    let Some((first, place)) = probes().next().and_then(|first| Some((first, first.places.first()?))) else {
        return Ok((None, Vec::new()));
    };
    let failed = |probe: &Probe, error: ProbeError| format!("cannot record {}: {error}", probe.text);
    let tracefs = ProbeFiles::find(ProbeList::of(place)).map_err(|error| failed(first, error))?;
    let removed = remove_leftovers(&tracefs).map_err(|error| failed(first, error))?;
    let mut held = Probes::none(tracefs).map_err(|error| failed(first, error))?;
    let mut defined: Vec<DefinedProbe> = Vec::new();
    for probe in probes() {
        let before = held.tracepoints().count();
        held.add(&probe.places).map_err(|error| failed(probe, error))?;
        let new = held.tracepoints().skip(before);
        let mut notes = probe.notes.clone();
        notes.extend(what_is_left_out(probe));
        defined.push(DefinedProbe {
            text: probe.text.clone(),
            name: probe.name.clone(),
            tracepoints: new.map(|(group, event)| (group.to_owned(), event.to_owned())).collect(),
            notes,
        });
    }
    if let (false, Some(first)) = (removed.places.is_empty(), defined.first_mut()) {
        let pids: Vec<String> = removed.pids.iter().map(ToString::to_string).collect();
        let probes = if removed.places.len() == 1 { "probe" } else { "probes" };
        let count = removed.places.len();
        let note = format!(
            "removed {count} {probes} that a killed sprof (process {}) had left",
            pids.join(", ")
        );
        first.notes.insert(0, note);
    }
    Ok((Some(held), defined))
}

/// Arguments of marks that the kernel can't read.
fn what_is_left_out(probe: &Probe) -> Option<String> {
    let of_marks = probe.places.iter().filter_map(|place| match place {
        ProbePlace::File(place) => Some(&place.arguments),
        ProbePlace::Kernel(_) => None,
    });
    let mut left_out: Vec<String> = of_marks
        .flat_map(|arguments| arguments::translate(arguments).left_out)
        .collect();
    left_out.sort();
    left_out.dedup();
    (!left_out.is_empty()).then(|| {
        let shown = left_out.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
        format!(
            "{}: arguments that the kernel can't read are left out: {shown}",
            probe.name
        )
    })
}
