//! The head of a report: what was recorded, and the quality of the profile.

use std::path::Path;

use profile::RecordingLimit;
use profile::data::{Data, RowValue, WeightUnit};
use profile::view::select::Selection;

use super::measure::{Measure, has_times};
use crate::numbers::{bytes, count, grouped, number_json, time, with_share};

pub(crate) struct About {
    /// Program, date, duration, recorder.
    pub(crate) recorded: String,
    /// Processes, threads and samples.
    pub(crate) samples: String,
    /// The unit of weights, if the file names it.
    pub(crate) counted: Option<String>,
    /// The quality line; true if something limits the quality.
    pub(crate) quality: (String, bool),
    pub(crate) selected: Option<String>,
    /// Waits, which are not part of the CPU time.
    pub(crate) apart: Option<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) json: serde_json::Value,
}

impl About {
    pub(crate) fn new(
        file: &Path,
        selection: &Selection<'_>,
        conditions: &[String],
        waits: bool,
        notes: Vec<String>,
    ) -> About {
        let data = selection.data;
        let kind = if waits { "waits" } else { "samples" };
        let selected = (!conditions.is_empty()).then(|| {
            let of = data
                .threads
                .iter()
                .map(|thread| thread.samples.len() as u64)
                .sum::<u64>();
            format!(
                "{}: {} {kind} of {}",
                conditions.join(", "),
                grouped(selection.total.samples),
                grouped(of.max(selection.total.samples))
            )
        });
        About {
            recorded: recorded(file, data),
            samples: samples(selection, waits),
            counted: counted(data),
            quality: quality(data),
            selected,
            apart: apart(selection, waits),
            json: json(file, selection, conditions, waits, &notes),
            notes,
        }
    }
}

fn recorded(file: &Path, data: &Data) -> String {
    let program = match data.product.as_str() {
        "" => file
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        product => product.to_owned(),
    };
    let mut text = program;
    if !data.arguments.is_empty() {
        text.push_str(&format!(" {}", data.arguments));
    }
    if let Some(commit) = data.commit() {
        text.push_str(&format!(", commit {commit}"));
    }
    if data.start_ms > 0.0 {
        text.push_str(&format!(", {}", utc(data.start_ms)));
    }
    if let Some(ms) = data.length_ms() {
        text.push_str(&format!(", {} long", time(ms)));
    }
    let by = [data.imported_from.as_str(), data.os.as_str(), data.cpu.as_str()];
    let by: Vec<&str> = by.into_iter().filter(|part| !part.is_empty()).collect();
    if !by.is_empty() {
        text.push_str(&format!(" ({})", by.join(", ")));
    }
    text
}

fn samples(selection: &Selection<'_>, waits: bool) -> String {
    let data = selection.data;
    let mut text = format!(
        "{}, {}",
        count(data.processes(), "process", "processes"),
        count(data.threads_in_all(), "thread", "threads"),
    );
    if data.has_samples() {
        text.push_str(", ");
        text.push_str(&match waits {
            false => count(selection.total.samples, "sample", "samples"),
            true => count(selection.total.samples, "wait", "waits"),
        });
    }
    if let (Some(name), false) = (data.counted_name(), data.unit == WeightUnit::Samples) {
        text.push_str(&format!(", {name} "));
        text.push_str(&Measure::of(data, selection.total).amount(selection.total));
    }
    match data.unit {
        WeightUnit::Samples if has_times(data) => {
            text.push_str(&format!(" of {} each", time(data.interval_ms)));
        }
        WeightUnit::Samples | WeightUnit::Counts => {}
        WeightUnit::Milliseconds | WeightUnit::Bytes if data.weights.is_some() => {}
        WeightUnit::Milliseconds => text.push_str(&format!(", {}", time(selection.total.weight))),
        WeightUnit::Bytes => text.push_str(&format!(", {}", bytes(selection.total.weight))),
    }
    if selection.without_stack.samples > 0 {
        text.push_str(&format!(
            ", {} of them without a stack",
            grouped(selection.without_stack.samples)
        ));
    }
    text
}

/// What an imported file counts, and its other events.
fn counted(data: &Data) -> Option<String> {
    let weights = data.weights.as_ref()?;
    let mut text = format!("shown: {}", weights.name);
    if !weights.unit.is_empty() {
        text.push_str(&format!(" ({})", weights.unit));
    }
    if !weights.others.is_empty() {
        text.push_str(&format!(
            "; the file counts {}, too: --event NAME",
            weights.others.join(", ")
        ));
    }
    Some(text)
}

fn apart(selection: &Selection<'_>, waits: bool) -> Option<String> {
    let other = selection.other_kind;
    (other.samples > 0).then(|| match waits {
        false => format!(
            "{} ({}) are not included: --waits shows them",
            count(other.samples, "wait", "waits"),
            time(other.weight)
        ),
        true => format!(
            "{} of running threads ({}) are not included: they are shown without --waits",
            count(other.samples, "sample", "samples"),
            time(other.weight)
        ),
    })
}

fn quality(data: &Data) -> (String, bool) {
    if data.newer_facts {
        let text = "a newer sprof wrote the file: this one cannot read what was lost or guessed; update sprof";
        return (text.to_owned(), true);
    }
    let Some(recorded) = &data.recorded else {
        return ("the file does not say what was lost or guessed".to_owned(), false);
    };
    let [lost, truncated, unverified] = [recorded.lost, recorded.truncated, recorded.unverified];
    let of_samples = |number: u64| match recorded.samples {
        Some(samples) => with_share(number, samples + lost),
        None => grouped(number),
    };
    let mut text = format!(
        "{} lost, {} truncated, {} unverified",
        of_samples(lost),
        of_samples(truncated.saturating_sub(recorded.truncated_beside)),
        of_samples(unverified.saturating_sub(recorded.unverified_beside))
    );
    if recorded.stacks_beside > 0 {
        text.push_str(&format!(
            "; of {} stacks of waits and point events {} truncated, {} unverified",
            grouped(recorded.stacks_beside),
            with_share(recorded.truncated_beside, recorded.stacks_beside),
            with_share(recorded.unverified_beside, recorded.stacks_beside)
        ));
    }
    for limit in &recorded.limits {
        text.push_str(&format!("; {}: ", limit.what));
        let RecordingLimit { count, ns, words, .. } = limit;
        text.extend(count.map(grouped));
        text.extend(ns.map(|ns| time(ns as f64 / 1e6)));
        text.extend(words.as_deref());
    }
    let rate = |hz: f64| format!("{hz:.1}").trim_end_matches(".0").to_owned();
    let mut parts = vec![format!("event {}", recorded.event)];
    parts.extend(recorded.unwinder.as_ref().map(|name| format!("unwound by {name}")));
    parts.extend(recorded.asked_rate_hz.map(|hz| format!("asked {} Hz", rate(hz))));
    parts.extend(recorded.achieved_rate_hz.map(|hz| format!("achieved {} Hz", rate(hz))));
    parts.push(format!("kernel {}", recorded.kernel_code));
    text.push_str(&format!(" ({})", parts.join(", ")));
    (text, lost + truncated + unverified > 0 || !recorded.limits.is_empty())
}

fn json(
    file: &Path,
    selection: &Selection<'_>,
    conditions: &[String],
    waits: bool,
    notes: &[String],
) -> serde_json::Value {
    let data = selection.data;
    let extra: serde_json::Map<String, serde_json::Value> = (data.extra.iter())
        .map(|section| {
            let rows = section.rows.iter().map(|row| {
                let value = match &row.value {
                    RowValue::Number(number) => number.as_f64().map_or(serde_json::Value::Null, number_json),
                    RowValue::Text(text) => text.as_str().into(),
                    RowValue::Other(_) | RowValue::None => serde_json::Value::Null,
                };
                (row.label.clone(), value)
            });
            (section.label.clone(), serde_json::Value::Object(rows.collect()))
        })
        .collect();
    serde_json::json!({
        "file": file.to_string_lossy(),
        "profile": {
            "product": data.product,
            "arguments": data.arguments,
            "commit": data.commit(),
            "recorded_by": data.imported_from,
            "os": data.os,
            "cpu": data.cpu,
            "start_unix_ms": data.start_ms,
            "duration_ms": data.length_ms(),
            "interval_ms": data.interval_ms,
            "processes": data.processes(),
            "threads": data.threads_in_all(),
            "symbolicated": data.symbolicated,
            "extra": extra,
        },
        "selection": {
            "kind": if waits { "waits" } else { "cpu" },
            "conditions": conditions,
            "samples": selection.total.samples,
            "weight": number_json(selection.total.weight),
            "without_stack": selection.without_stack.samples,
            "other_kind": { "samples": selection.other_kind.samples, "weight": number_json(selection.other_kind.weight) },
        },
        "unit": match data.unit {
            WeightUnit::Samples => "samples",
            WeightUnit::Milliseconds => "ms",
            WeightUnit::Bytes => "bytes",
            WeightUnit::Counts => "count",
        },
        "weights": data.weights.as_ref().map(|weights| serde_json::json!({
            "name": weights.name,
            "unit": weights.unit,
            "others": weights.others,
        })),
        "notes": notes,
    })
}

/// `2026-11-21 10:44:20 UTC`. Days to dates: <https://howardhinnant.github.io/date_algorithms.html#civil_from_days>.
pub(crate) fn utc(unix_ms: f64) -> String {
    let seconds = (unix_ms / 1000.0) as i64;
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::utc;

    /// `date -u -d @SECONDS`
    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0.0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_400_000.0), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_790_000_000_123.0), "2026-09-21 14:13:20 UTC");
    }
}
