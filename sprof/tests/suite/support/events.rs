//! The program `events`, recorded with `-e`, and what its profiles hold of each event.

use serde_json::Value;

use super::profile::{Sample, Thread};
use super::{Profile, Recording, program, record};

/// Records `events` with these arguments.
pub(crate) fn record_events(options: &[&str], arguments: &[&str]) -> (Recording, Profile) {
    record().options(options).profile(program("events").unwrap(), arguments)
}

/// The weight of the samples of which the predicate holds for their function names, root first.
pub(crate) fn weight<'a>(
    profile: &Profile,
    samples: impl IntoIterator<Item = &'a Sample>,
    what: impl Fn(&[&str]) -> bool,
) -> f64 {
    samples
        .into_iter()
        .filter(|sample| {
            let names: Vec<&str> = sample.stack.map_or(Vec::new(), |stack| profile.names(stack).collect());
            what(&names)
        })
        .map(|sample| sample.weight)
        .sum()
}

pub(crate) fn thread<'a>(profile: &'a Profile, name: &'a str) -> &'a Thread {
    let names: Vec<&str> = profile.threads.iter().map(|thread| thread.name.as_str()).collect();
    let mut found = profile.threads_named(name);
    let thread = found
        .next()
        .unwrap_or_else(|| panic!("no thread `{name}` in {names:?}"));
    assert!(found.next().is_none(), "{names:?}");
    thread
}

/// The markers of an event on a thread, with their data.
pub(crate) fn markers<'a>(thread: &'a Thread, event: &str) -> Vec<&'a Value> {
    let names = thread.marker_names.iter().zip(&thread.markers);
    names.filter(|(name, _)| *name == event).map(|(_, data)| data).collect()
}
