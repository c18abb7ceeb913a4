//! Which event's samples are shown, and which are stacks or times of waits beside them.

use super::attr::Attr;
use super::error::ImportError;

/// What the samples of an event are in the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShownAs {
    /// Its samples.
    Samples,
    /// The stacks with which threads leave their CPUs.
    WaitStacks,
    /// Times off the CPU.
    Waits,
    /// Nothing.
    LeftOut,
}

/// What is shown of a file.
#[derive(Debug)]
pub(super) struct EventChoice {
    /// Whose samples are shown, or would be if there were any.
    pub(super) event: usize,
    /// By event.
    shown: Vec<ShownAs>,
    /// Switch records are shown as waits.
    pub(super) switches: bool,
}

impl EventChoice {
    /// The event of this name, or the first that has samples of running threads. Waits stand beside it if it measures
    /// time as well: counts and durations are not added up.
    pub(super) fn new(attrs: &[Attr], asked: Option<&str>) -> Result<EventChoice, ImportError> {
        let event = match asked {
            None => first(attrs),
            Some(asked) => named(attrs, asked)?,
        };
        let attr = attrs.get(event);
        let has_switches = attrs.iter().any(Attr::records_switches);
        // Asked for by name, switches are counted like any event.
        let is_only_waits = attr
            .is_some_and(|attr| attr.is_off_cpu_time() || (asked.is_none() && has_switches && attr.is_of_switches()));
        let with_waits = is_only_waits || attr.is_some_and(Attr::measures_cpu);
        let shown = |(index, attr): (usize, &Attr)| match index == event {
            _ if with_waits && attr.is_off_cpu_time() => ShownAs::Waits,
            _ if with_waits && has_switches && attr.is_of_switches() => ShownAs::WaitStacks,
            true => ShownAs::Samples,
            false => ShownAs::LeftOut,
        };
        Ok(EventChoice {
            event,
            shown: attrs.iter().enumerate().map(shown).collect(),
            switches: with_waits && has_switches,
        })
    }

    /// What the samples of an event are.
    pub(super) fn shown(&self, index: usize) -> ShownAs {
        self.shown.get(index).copied().unwrap_or(ShownAs::LeftOut)
    }

    /// Some samples stand for waits, perhaps for several at once.
    pub(super) fn has_sums(&self) -> bool {
        self.shown.contains(&ShownAs::Waits)
    }

    /// The file has waits of threads.
    pub(super) fn has_waits(&self) -> bool {
        self.switches || self.has_sums()
    }
}

fn first(attrs: &[Attr]) -> usize {
    let has_switches = attrs.iter().any(Attr::records_switches);
    let is_of_waits = |attr: &Attr| attr.is_off_cpu_time() || (has_switches && attr.is_of_switches());
    let real = || attrs.iter().enumerate().filter(|(_, attr)| !attr.is_dummy());
    let first = real().find(|(_, attr)| !is_of_waits(attr)).or_else(|| real().next());
    first.map_or(0, |(index, _)| index)
}

fn named(attrs: &[Attr], asked: &str) -> Result<usize, ImportError> {
    let mut real = attrs.iter().enumerate().filter(|(_, attr)| !attr.is_dummy());
    // perf adds modifiers: `cycles:u`.
    let is_asked = |attr: &Attr| {
        let label = attr.label();
        label == asked || attr.base_name() == asked || label.split_once(':').is_some_and(|(name, _)| name == asked)
    };
    let found = real.clone().find(|(_, attr)| is_asked(attr));
    found.map(|(index, _)| index).ok_or_else(|| ImportError::NoSuchEvent {
        asked: asked.to_owned(),
        known: real
            .by_ref()
            .map(|(_, attr)| attr.label())
            .collect::<Vec<_>>()
            .join(", "),
    })
}
