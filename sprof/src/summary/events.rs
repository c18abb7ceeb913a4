//! The summary's lines about the events that the user named: their counts, and the share that the profile holds.

use profile::Profile;
use profile::text::numbers::grouped;
use recording::event::Role;
use recording::info::{EventInfo, PeriodUnit, SampleBy};
use recording::quality::Quality;
use serde_json::{Value, json};

use crate::terminal::Term;
use crate::terminal::style::Style;

/// Usual share of events without a sample. A sample stands for the events before it, so no sample has the events after
/// a thread's last sample.
const USUAL_REST: f64 = 0.02;
/// Each CPU of a thread may have events after its last sample; on this many CPUs that is usual.
const FEW_CPUS: u64 = 8;

pub(crate) struct NamedEvent {
    info: EventInfo,
    in_profile: u64,
}

pub(crate) fn of(profile: &Profile) -> Vec<NamedEvent> {
    (profile.info().events.iter().enumerate())
        .map(|(index, info)| NamedEvent {
            info: info.clone(),
            in_profile: profile.in_profile(index),
        })
        .collect()
}

/// Prints the lines for the terminal. Of many point events without anything special only the number is printed.
pub(crate) fn print(events: &[NamedEvent], quality: &Quality, term: &Term) {
    /// Point events with a line of their own: `syscalls:*` are 700 events.
    const MOST_SHOWN: usize = 12;
    let mut shown: Vec<&NamedEvent> = events.iter().collect();
    if shown.len() > MOST_SHOWN {
        shown.retain(|event| event.info.role != Role::Point || event.in_profile > 0);
        shown.sort_by_key(|event| (event.info.role == Role::Point, std::cmp::Reverse(event.in_profile)));
    }
    for event in shown.iter().take(MOST_SHOWN) {
        let line = event.line();
        match event.has_doubt() {
            true => term.detail(term.style(Style::Warning, line)),
            false => term.detail(line),
        }
    }
    if shown.len() < events.len() || shown.len() > MOST_SHOWN {
        let others = events.len() - shown.len().min(MOST_SHOWN);
        term.detail(format_args!("{} more events were recorded", grouped(others as u64)));
    }
    for (lost, what) in [
        (
            quality.counted_lost(),
            "samples of events were lost: their ring was full",
        ),
        (
            quality.points_lost(),
            "point events were lost: they came faster than sprof can record them; name fewer events",
        ),
    ] {
        if lost > 0 {
            term.detail(term.style(Style::Warning, format!("{} {what}", grouped(lost))));
        }
    }
}

impl NamedEvent {
    fn amount(&self, number: u64) -> String {
        match self.info.unit {
            PeriodUnit::CpuNanoseconds => format!("{:.3} s", number as f64 / 1e9),
            PeriodUnit::Cycles | PeriodUnit::Counts => grouped(number),
        }
    }

    fn line(&self) -> String {
        let what = match self.info.role {
            Role::Point => "markers",
            _ => "in samples",
        };
        let mut line = format!("event {}: {} {what}", self.info.name, self.amount(self.in_profile));
        if let Some(counts) = self.info.counts {
            line += &format!(" of {} counted", self.amount(counts.counted));
            if let Some(share) = counts.partial_share() {
                line += &format!(
                    "; counted for {:.1} % of the time only, more events than hardware counters",
                    share * 100.0
                );
            }
        }
        line += &match self.info.sample_by {
            SampleBy::Period(1) => String::new(),
            SampleBy::Period(period) => format!(", one each {}", self.amount(period)),
            SampleBy::Frequency(rate_hz) => format!(", asked {rate_hz} a second"),
        };
        if let Some(why) = self.info.without_kernel {
            line += &format!(" (user code only: {why})");
        }
        line
    }

    /// True if the profile holds much less or more than the kernel counted.
    fn has_doubt(&self) -> bool {
        let Some(counts) = self.info.counts else { return false };
        let period = match self.info.sample_by {
            SampleBy::Period(period) => period,
            SampleBy::Frequency(_) => 1,
        };
        let missing = match self.info.role {
            Role::Point => (counts.counted / period).abs_diff(self.in_profile),
            _ => counts.counted.abs_diff(self.in_profile),
        };
        let tolerated = match self.info.role {
            Role::Point => 0.0,
            _ => (counts.counted as f64 * USUAL_REST).max((period.saturating_mul(FEW_CPUS)) as f64),
        };
        missing as f64 > tolerated || counts.lost > 0 || counts.partial_share().is_some()
    }

    fn json(&self) -> Value {
        let (period, rate_hz) = match self.info.sample_by {
            SampleBy::Period(period) => (Some(period), None),
            SampleBy::Frequency(rate_hz) => (None, Some(rate_hz)),
        };
        let counts = self.info.counts;
        json!({
            "event": self.info.name,
            "role": match self.info.role {
                Role::Counted => "track",
                Role::Point => "marker",
                _ => "weight",
            },
            "unit": match self.info.unit {
                PeriodUnit::CpuNanoseconds => "ns",
                PeriodUnit::Cycles | PeriodUnit::Counts => "count",
            },
            "period": period,
            "rate_hz": rate_hz,
            "in_profile": self.in_profile,
            "counted": counts.map(|counts| counts.counted),
            "lost": counts.map(|counts| counts.lost),
            "counted_share_of_time": counts.map(|counts| counts.partial_share().unwrap_or(1.0)),
            "without_kernel": self.info.without_kernel,
        })
    }
}

/// The events as JSON.
pub(crate) fn to_json(events: &[NamedEvent]) -> Vec<Value> {
    events.iter().map(NamedEvent::json).collect()
}
