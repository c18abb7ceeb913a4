//! The probes of one recording, defined: names to tracepoints.

use recording::probe::{CallMoment, Probe, ProbePlace, SpanFunction};

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

/// What the kernel has for one recording.
#[derive(Debug, Default)]
pub(crate) struct DefinedProbes {
    /// They exist until this is dropped.
    pub(crate) held: Option<Probes>,
    pub(crate) named: Vec<DefinedProbe>,
    /// Of each function. `None` where this user may not define them.
    pub(crate) calls: Option<Vec<DefinedCalls>>,
}

/// Group and event of each definition at a function's calls.
pub(crate) type DefinedCalls = Vec<(CallMoment, String, String)>;

/// Defines all probes that the kernel has to know, and, if that is allowed, those at calls. Leftovers of killed
/// recordings are removed before. The error is for the user.
pub(crate) fn define_all(probes: &[Probe], spans: &[SpanFunction]) -> Result<DefinedProbes, String> {
    let probes: Vec<&Probe> = probes.iter().filter(|probe| !probe.by_register).collect();
    let first = probes.first().map(|first| first.text.clone());
    let first_span = || spans.first().map(|first| format!("--span {}", first.name));
    let Some(text) = first.or_else(first_span) else {
        return Ok(DefinedProbes::default());
    };
    let first_place = probes.first().and_then(|first| first.places.first());
    let list = first_place.map_or(ProbeList::Uprobes, ProbeList::of);
    let failed = |text: &str, error: ProbeError| format!("cannot record {text}: {error}");
    let tracefs = match ProbeFiles::find(list) {
        // Breakpoint registers find calls, too.
        Err(_) if probes.is_empty() => return Ok(DefinedProbes::default()),
        found => found.map_err(|error| failed(&text, error))?,
    };
    let removed = match remove_leftovers(&tracefs) {
        Err(_) if probes.is_empty() => return Ok(DefinedProbes::default()),
        removed => removed.map_err(|error| failed(&text, error))?,
    };
    let mut held = Probes::none(tracefs).map_err(|error| failed(&text, error))?;
    let mut defined: Vec<DefinedProbe> = Vec::with_capacity(probes.len());
    for probe in probes {
        let tracepoints = add(&mut held, &probe.places).map_err(|error| failed(&probe.text, error))?;
        let mut notes = probe.notes.clone();
        notes.extend(what_is_left_out(probe));
        defined.push(DefinedProbe {
            text: probe.text.clone(),
            name: probe.name.clone(),
            tracepoints,
            notes,
        });
    }
    let mut calls = Vec::with_capacity(spans.len());
    for span in spans {
        let failed = |error| failed(&format!("--span {}", span.name), error);
        let mut of_span = DefinedCalls::new();
        for moment in CallMoment::ALL {
            let places = span.places.iter().filter(|place| place.moment == moment);
            let places: Vec<ProbePlace> = places.map(|place| place.place.clone()).collect();
            let defined = add(&mut held, &places).map_err(failed)?.into_iter();
            of_span.extend(defined.map(|(group, event)| (moment, group, event)));
        }
        calls.push(of_span);
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
    Ok(DefinedProbes {
        held: Some(held),
        named: defined,
        calls: Some(calls),
    })
}

/// Defines places of one name. Returns group and event of each tracepoint.
fn add(held: &mut Probes, places: &[ProbePlace]) -> Result<Vec<(String, String)>, ProbeError> {
    let before = held.tracepoints().count();
    held.add(places)?;
    let new = held.tracepoints().skip(before);
    Ok(new.map(|(group, event)| (group.to_owned(), event.to_owned())).collect())
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
