//! The events beside the first one that a spool holds: those that the user named.

use recording::event::EventValue;
use recording::event::Role;
use recording::info::{EventInfo, PeriodUnit, SampleBy};

use super::attr::Attr;
use crate::events::{self, ONLY_USER_CODE};
use crate::spool::{ROLE_HEAP, ROLE_MARKER, ROLE_TRACK, ROLE_WEIGHT};

/// Which events of a file go where.
#[derive(Debug, Default)]
pub(super) struct NamedEvents {
    /// By the place in the file's list: role, and index into `infos`.
    places: Vec<Option<(Role, u32)>>,
    /// What is known of each.
    pub(super) infos: Vec<EventInfo>,
    /// Bytes between two samples of the heap on average, if it was recorded.
    pub(super) heap_interval: Option<u64>,
}

impl NamedEvents {
    /// The named events of a spool whose first event's samples are shown.
    pub(super) fn of_spool(attrs: &[Attr]) -> NamedEvents {
        let mut named = NamedEvents {
            places: vec![None; attrs.len()],
            infos: Vec::new(),
            heap_interval: None,
        };
        for (at, attr) in attrs.iter().enumerate() {
            if attr.config1 == ROLE_HEAP {
                named.places[at] = Some((Role::Allocation, 0));
                named.heap_interval = Some(attr.period_or_rate);
                continue;
            }
            let (role, place) = match (attr.config1, named.infos.len() as u32) {
                (ROLE_WEIGHT, _) => (Role::Running, None),
                (ROLE_TRACK, next) => (Role::Counted, Some((Role::Counted, next))),
                (ROLE_MARKER, next) => (Role::Point, Some((Role::Point, next))),
                _ => continue,
            };
            named.places[at] = place;
            named.infos.push(EventInfo {
                name: attr.label(),
                asked: attr.label(),
                role,
                unit: match attr.counts_cpu_time() {
                    true => PeriodUnit::CpuNanoseconds,
                    false => PeriodUnit::Counts,
                },
                sample_by: match attr.is_rate() {
                    true => SampleBy::Frequency(attr.period_or_rate),
                    false => SampleBy::Period(attr.period_or_rate),
                },
                without_kernel: attr.excludes_kernel().then(|| why_without_kernel(&attr.label())),
                fields: Vec::new(),
                counts: None,
            });
        }
        named
    }

    /// Role and index of a named event; `None` for other events.
    pub(super) fn place(&self, attr: usize) -> Option<(Role, u32)> {
        self.places.get(attr).copied().flatten()
    }

    /// The values of a sample; the first sample of each point event has their names.
    pub(super) fn values<'a>(&mut self, role: Role, index: u32, raw: &'a [u8]) -> Vec<EventValue<'a>> {
        if role != Role::Point {
            return Vec::new();
        }
        let Some(info) = self.infos.get_mut(index as usize) else {
            return Vec::new();
        };
        let texts = raw.split(|byte| *byte == 0).filter(|text| !text.is_empty());
        let (names, values): (Vec<_>, Vec<_>) = texts
            .take(MAX_VALUES)
            .map(|text| {
                let equals = text.iter().position(|byte| *byte == b'=').unwrap_or(text.len());
                let value = text.get(equals + 1..).unwrap_or_default();
                (&text[..equals], EventValue::Text(String::from_utf8_lossy(value)))
            })
            .unzip();
        if info.fields.is_empty() {
            let names = names.into_iter();
            info.fields = names.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        }
        values
    }
}

/// Values of one event, at most.
const MAX_VALUES: usize = 64;

/// An event's modifiers are in its name; where they do not leave the kernel out, the permission was missing.
fn why_without_kernel(name: &str) -> &'static str {
    match events::parse(name).as_deref() {
        Ok([spec]) if !spec.sides.kernel => ONLY_USER_CODE,
        _ => "no permission",
    }
}
