//! The head of a report: what was recorded, and the quality of the profile.

use std::path::Path;

use profile::RecordingLimit;
use profile::data::{Data, HeapGrowthFacts, RowValue, WeightUnit};
use profile::text::date::utc;
use profile::text::numbers::{bytes, count, grouped, number_json, time, with_share};
use profile::view::cost_scale::{CostScale, has_times};
use profile::view::nameless::NamelessSamples;
use profile::view::parallelism::WALL_TIME;
use profile::view::resources::shortage;
use profile::view::select::Selection;

use crate::terminal::style::Style;

/// What was lost or guessed.
pub(crate) struct QualityText {
    /// All of it.
    pub(crate) line: String,
    /// What is not zero; `None` if nothing limits the quality.
    pub(crate) limits: Option<String>,
}

pub(crate) struct About {
    /// Program, date, duration, recorder.
    pub(crate) recorded: String,
    /// Processes, threads and samples.
    pub(crate) samples: String,
    /// The unit of weights, if the file names it.
    pub(crate) counted: Option<String>,
    pub(crate) quality: QualityText,
    /// What the recorded programs were short of.
    pub(crate) short: Option<String>,
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
        let kinds = if waits {
            ["wait", "waits"]
        } else {
            ["sample", "samples"]
        };
        let selected = (!conditions.is_empty()).then(|| {
            let found = count(selection.total.samples, kinds[0], kinds[1]);
            let mut text = format!("{}: {found}", conditions.join(", "));
            if !data.is_end {
                let samples = data.threads.iter().flat_map(|thread| thread.samples.iter());
                let of = samples.filter(|(_, stack, _)| data.is_wait(*stack) == waits).count() as u64;
                text.push_str(&format!(" of {}", grouped(of.max(selection.total.samples))));
            }
            text
        });
        About {
            recorded: recorded(file, data),
            samples: samples(selection, waits),
            counted: counted(data),
            quality: quality(data),
            short: shortage(selection).map(|shortage| shortage.text),
            selected,
            apart: apart(selection, waits),
            json: json(file, selection, conditions, waits, &notes),
            notes,
        }
    }

    /// The head as lines: a label, a text, and the style of both.
    pub(crate) fn lines(&self) -> Vec<(&'static str, &String, Option<Style>)> {
        let QualityText { line: quality, limits } = &self.quality;
        let bold = Some(Style::Bold);
        let warning = Some(Style::Warning);
        let mut lines = vec![("", &self.recorded, bold), ("", &self.samples, None)];
        lines.extend(self.counted.iter().map(|line| ("", line, None)));
        lines.push(("quality: ", quality, warning.filter(|_| limits.is_some())));
        lines.extend(self.short.iter().map(|line| ("short: ", line, warning)));
        lines.extend(self.selected.iter().map(|line| ("selected: ", line, bold)));
        lines.extend(self.apart.iter().map(|line| ("", line, None)));
        lines.extend(self.notes.iter().map(|line| ("note: ", line, warning)));
        lines
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
    if let Some(sampled) = data.recorded.as_ref().and_then(|recorded| recorded.sampled.as_ref()) {
        text.push_str(&format!(
            ", sampled for {} in {}",
            time(sampled.sampled_ns as f64 / 1e6),
            count(sampled.parts, "part", "parts")
        ));
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
    let mut text = match data.is_end {
        true => String::new(),
        false => format!(
            "{}, {}",
            count(data.processes(), "process", "processes"),
            count(data.threads_in_all(), "thread", "threads"),
        ),
    };
    if data.has_samples() {
        text.push_str(", ");
        text.push_str(&match waits {
            false => count(selection.total.samples, "sample", "samples"),
            true => count(selection.total.samples, "wait", "waits"),
        });
    }
    if let (Some(name), false) = (data.counted_name(), data.unit == WeightUnit::Samples) {
        text.push_str(&format!(", {name} "));
        text.push_str(&CostScale::new(data, selection.total).amount(selection.total));
    }
    match data.unit {
        WeightUnit::Samples if has_times(data) => {
            text.push_str(&format!(" of {} each", time(data.interval_ms)));
        }
        WeightUnit::Samples | WeightUnit::Counts => {}
        WeightUnit::Milliseconds | WeightUnit::Bytes if data.counted_name().is_some() => {}
        WeightUnit::Milliseconds => text.push_str(&format!(", {}", time(selection.total.weight))),
        WeightUnit::Bytes => text.push_str(&format!(", {}", bytes(selection.total.weight))),
    }
    if selection.without_stack.samples > 0 {
        text.push_str(&format!(
            ", {} of them without a stack",
            grouped(selection.without_stack.samples)
        ));
    }
    text.trim_start_matches(", ").to_owned()
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
            "; the file also counts {}: --event NAME",
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

fn quality(data: &Data) -> QualityText {
    let only = |line: String, is_limited: bool| QualityText {
        limits: is_limited.then(|| line.clone()),
        line,
    };
    if data.newer_facts {
        let text = "a newer sprof wrote the file: this one cannot read what was lost or guessed; update sprof";
        return only(text.to_owned(), true);
    }
    if data.weights.as_ref().is_some_and(|weights| weights.is_exact) {
        return only("each was counted, none sampled".to_owned(), false);
    }
    let nameless = NamelessSamples::count(data).unwrap_or_default();
    let without_symbols = format!("{} without symbols", with_share(nameless.nameless, nameless.of));
    let Some(recorded) = &data.recorded else {
        let text = format!("the file does not say what was lost or guessed; {without_symbols}");
        return only(text, nameless.nameless > 0);
    };
    let of_samples = |number: u64, what: &str| match recorded.samples {
        Some(samples) => (
            number,
            format!("{} {what}", with_share(number, samples + recorded.lost)),
        ),
        None => (number, format!("{} {what}", grouped(number))),
    };
    let facts = [
        of_samples(recorded.lost, "lost"),
        of_samples(
            recorded.truncated.saturating_sub(recorded.truncated_beside),
            "truncated",
        ),
        of_samples(
            recorded.unverified.saturating_sub(recorded.unverified_beside),
            "unverified",
        ),
        (nameless.nameless, without_symbols),
    ];
    let mut line = joined(&facts, |_| true);
    let mut limits = vec![joined(&facts, |number| number > 0)];
    if recorded.stacks_beside > 0 {
        let of_stacks = |number: u64, what: &str| {
            let share = with_share(number, recorded.stacks_beside);
            (number, format!("{share} {what}"))
        };
        let facts = [
            of_stacks(recorded.truncated_beside, "truncated"),
            of_stacks(recorded.unverified_beside, "unverified"),
        ];
        let of = format!(
            "of {} stacks of {}",
            grouped(recorded.stacks_beside),
            match recorded.heap {
                None => "waits and point events",
                Some(_) => "waits, point events and blocks of memory",
            }
        );
        line.push_str(&format!("; {of} {}", joined(&facts, |_| true)));
        if facts.iter().any(|(number, _)| *number > 0) {
            limits.push(format!("{of} {}", joined(&facts, |number| number > 0)));
        }
    }
    let growth = { recorded.heap.as_ref() }.and_then(|heap| heap.growth.as_ref());
    if let Some(seen) = growth.and_then(HeapGrowthFacts::text) {
        line.push_str(&format!("; {seen}"));
    }
    for limit in &recorded.limits {
        let RecordingLimit { count, ns, words, .. } = limit;
        let mut text = format!("{}: ", limit.what);
        text.extend(count.map(grouped));
        text.extend(ns.map(|ns| time(ns as f64 / 1e6)));
        text.extend(words.as_deref());
        line.push_str(&format!("; {text}"));
        limits.push(text);
    }
    limits.retain(|text| !text.is_empty());
    let rate = |hz: f64| format!("{hz:.1}").trim_end_matches(".0").to_owned();
    let mut parts = vec![format!("event {}", recorded.event)];
    if recorded.by_framehop > 0 {
        let stacks = count(recorded.by_framehop, "stack", "stacks");
        parts.push(format!("{stacks} unwound by framehop"));
    }
    parts.extend(recorded.asked_rate_hz.map(|hz| format!("asked {} Hz", rate(hz))));
    parts.extend(recorded.achieved_rate_hz.map(|hz| format!("achieved {} Hz", rate(hz))));
    parts.push(format!("kernel {}", recorded.kernel_code));
    line.push_str(&format!(" ({})", parts.join(", ")));
    QualityText {
        line,
        limits: (!limits.is_empty()).then(|| limits.join("; ")),
    }
}

/// The texts of the facts whose numbers are chosen.
fn joined(facts: &[(u64, String)], is_chosen: impl Fn(u64) -> bool) -> String {
    let chosen = facts.iter().filter(|(number, _)| is_chosen(*number));
    chosen.map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(", ")
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
            "sampled_ms": data.recorded.as_ref().and_then(|recorded| Some(recorded.sampled.as_ref()?.sampled_ns as f64 / 1e6)),
            "interval_ms": data.interval_ms,
            "processes": data.processes(),
            "threads": data.threads_in_all(),
            "symbolicated": data.symbolicated,
            "extra": extra,
        },
        "selection": {
            "kind": match (waits, data.unit) {
                (true, _) => "waits",
                (false, WeightUnit::Bytes) => "bytes",
                (false, WeightUnit::Counts) => "count",
                (false, _) if data.counted_name() == Some(WALL_TIME) => "latency",
                (false, WeightUnit::Samples | WeightUnit::Milliseconds) => "cpu",
            },
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
            "exact": weights.is_exact,
        })),
        "shortage": shortage(selection).map(|shortage| serde_json::json!({
            "resource": shortage.resource,
            "text": shortage.text,
            "share": number_json(shortage.share),
        })),
        "notes": notes,
    })
}
