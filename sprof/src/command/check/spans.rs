//! Rules on the lengths of spans.

use profile::data::Data;
use profile::text::numbers::{count, time};
use profile::view::diff::describe::{range, signed_percent};
use profile::view::diff::lengths::{LengthFigure, check_lengths};
use profile::view::diff::rules::{IncreaseRule, UnknownReason, Verdict};
use profile::view::select::Filter;
use profile::view::spans::{lengths_ms, names};
use serde_json::json;

use super::functions::json_increase;
use super::outcome::{OutcomeGroup, RuleOutcome};
use crate::terminal::columns::clean;

/// Names of spans that are listed where one is not found.
const SHOWN: usize = 8;

/// The spans of both sides.
pub(super) struct CheckedSpans<'a> {
    pub(super) base: &'a [Data],
    pub(super) new: &'a [Data],
    pub(super) filter: &'a Filter,
    /// Of 100 rules that hold, as many parts may be called broken.
    pub(super) p: f64,
    pub(super) notes: Vec<String>,
}

impl CheckedSpans<'_> {
    /// Checks rules on a figure.
    pub(super) fn outcome(self, figure: LengthFigure, rules: &[IncreaseRule]) -> OutcomeGroup {
        let confidence = 1.0 - 2.0 * self.p;
        let recordings = |side: &[Data]| count(side.len() as u64, "recording", "recordings");
        OutcomeGroup {
            about: vec![("base", recordings(self.base)), ("checked", recordings(self.new))],
            json: json!({"measure": format!("span.{}", figure.name()), "confidence": confidence, "unit": "ms", "total": null}),
            rules: rules.iter().map(|rule| self.check(figure, rule, confidence)).collect(),
            notes: self.notes,
        }
    }

    fn check(&self, figure: LengthFigure, rule: &IncreaseRule, confidence: f64) -> RuleOutcome {
        let name = rule.function.as_deref().unwrap_or_default();
        let shown_name = clean(name);
        let side =
            |side: &[Data]| -> Vec<Vec<f64>> { side.iter().map(|data| lengths_ms(data, self.filter, name)).collect() };
        let (base, new) = (side(self.base), side(self.new));
        let numbers = [&base, &new].map(|side| side.iter().map(|lengths| lengths.len() as u64).sum::<u64>());
        let (increase, mut verdict) = check_lengths(&base, &new, figure, rule.limit_percent / 100.0, self.p);
        if numbers[1] == 0 {
            verdict = Verdict::Unknown(UnknownReason::NoFunction {
                before: usize::from(numbers[0] > 0),
            });
        }
        let sure = increase
            .map(|increase| range(confidence, increase.range))
            .unwrap_or_default();
        let by = increase.map(|increase| signed_percent(increase.by)).unwrap_or_default();
        let of_spans = format!("{} and {}", numbers[0], count(numbers[1], "span", "spans"));
        let reason = match (verdict, increase) {
            (Verdict::Broken, Some(increase)) => format!(
                "the {} of {shown_name} is {} more: {} -> {} ({sure}), by {of_spans}",
                figure.name(),
                by.trim_start_matches('+'),
                time(increase.base),
                time(increase.new),
            ),
            (Verdict::Unknown(UnknownReason::NoFunction { before: 0 }), _) => {
                let mut known: Vec<String> = self.new.iter().flat_map(names).collect();
                known.sort_unstable();
                known.dedup();
                let more = known.len().saturating_sub(SHOWN);
                let known = clean(&known[..known.len() - more].join(", "));
                match (known.is_empty(), more) {
                    (true, _) => format!("no span is called `{shown_name}`: there are none at all"),
                    (false, 0) => format!("no span is called `{shown_name}`; there are {known}"),
                    (false, more) => format!("no span is called `{shown_name}`; there are {known} and {more} more"),
                }
            }
            (Verdict::Unknown(UnknownReason::NoFunction { .. }), _) => {
                format!("there was a span `{shown_name}` before, and there is none now")
            }
            (Verdict::Unknown(UnknownReason::FewSamples { .. }), _) => format!(
                "{of_spans} are too few, a side needs {} for its {}: record longer, or several times",
                figure.fewest(),
                figure.name()
            ),
            (Verdict::Unknown(UnknownReason::TooWide), _) => format!(
                "an increase far above the limit can't be ruled out: {by} ({sure}), by {of_spans}; record longer, or several times"
            ),
            (Verdict::Kept | Verdict::Broken, _) => format!("{by} ({sure}), by {of_spans}"),
        };
        RuleOutcome {
            rule: format!(
                "the {} of span {shown_name} may be {} % more",
                figure.name(),
                rule.limit_percent
            ),
            verdict,
            reasons: vec![reason],
            json: json!({
                "function": null,
                "span": name,
                "measure": format!("span.{}", figure.name()),
                "of": "length",
                "limit_percent": rule.limit_percent,
                "why": match verdict {
                    Verdict::Unknown(UnknownReason::NoFunction { .. }) => Some("no such span"),
                    Verdict::Unknown(UnknownReason::FewSamples { .. }) => Some("too few spans"),
                    Verdict::Unknown(UnknownReason::TooWide) => Some("too uncertain"),
                    Verdict::Kept | Verdict::Broken => None,
                },
                "found": increase.map(|increase| {
                    let mut found = json_increase(&increase);
                    found["base_samples"] = json!(numbers[0]);
                    found["new_samples"] = json!(numbers[1]);
                    found
                }).into_iter().collect::<Vec<_>>(),
                "alike": [],
            }),
        }
    }
}
