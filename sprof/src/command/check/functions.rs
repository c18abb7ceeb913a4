//! Rules on profiles, and what became of them, in words.

use std::fmt::Write as _;

use profile::text::numbers::count;
use profile::view::diff::describe::{
    amount, counted, describe, describe_increase, finite, range, signed_percent, unit,
};
use profile::view::diff::rules::{
    CheckedRule, FEWEST_SAMPLES, FoundIncrease, IncreaseRule, LimitedMeasure, UnknownReason, Verdict,
};
use profile::view::diff::{Increase, Sides};
use profile::view::heap::Measure;
use recording::command::own;
use serde_json::{Value, json};

use super::outcome::{OutcomeGroup, RuleOutcome};

/// Functions that are named at most as a reason why a rule is unknown.
const SHOWN: usize = 3;

/// Rules on one measure of the heap, or on none, with their outcomes.
pub(super) struct CheckedGroup {
    /// The measure that the rules name.
    pub(super) heap: Option<Measure>,
    pub(super) sides: Sides,
    /// Notes on the files.
    pub(super) notes: Vec<String>,
    pub(super) rules: Vec<(IncreaseRule, CheckedRule)>,
}

pub(super) fn json_increase(increase: &Increase) -> Value {
    let range = [finite(increase.range.0), finite(increase.range.1)];
    json!({"increase": finite(increase.by), "range": range, "base": increase.base, "new": increase.new})
}

impl CheckedGroup {
    /// The same in words.
    pub(super) fn outcome(self) -> OutcomeGroup {
        let sides = &self.sides;
        let rules = self.rules.iter().map(|(rule, checked)| RuleOutcome {
            rule: self.describe_rule(rule),
            verdict: checked.verdict,
            reasons: self.reasons(rule, checked),
            json: self.json_of(rule, checked),
        });
        OutcomeGroup {
            about: vec![
                ("base", describe(sides, &sides.base)),
                ("checked", describe(sides, &sides.new)),
                ("total", describe_increase(sides, &sides.increase)),
            ],
            json: json!({
                "measure": self.heap.map(Measure::name),
                "confidence": sides.confidence,
                "unit": unit(sides),
                "total": json_increase(&sides.increase),
            }),
            rules: rules.collect(),
            notes: self.notes,
        }
    }

    fn json_of(&self, rule: &IncreaseRule, checked: &CheckedRule) -> Value {
        let found = |found: &FoundIncrease| {
            let mut value = json_increase(&found.increase);
            value["function"] = json!(found.function);
            value["functions"] = json!(found.functions);
            value["base_samples"] = json!(found.samples.0);
            value["new_samples"] = json!(found.samples.1);
            value
        };
        json!({
            "function": rule.function,
            "measure": self.heap.map(Measure::name),
            "of": match (rule.measure, self.heap) {
                (LimitedMeasure::Time, None) => "time",
                (LimitedMeasure::Time, Some(_)) => "amount",
                (LimitedMeasure::Share, _) => "share",
            },
            "limit_percent": rule.limit_percent,
            "why": match checked.verdict {
                Verdict::Unknown(UnknownReason::NoFunction { .. }) => Some("no such function"),
                Verdict::Unknown(UnknownReason::FewSamples { .. }) => Some("too few samples"),
                Verdict::Unknown(UnknownReason::TooWide) => Some("too uncertain"),
                Verdict::Kept | Verdict::Broken => None,
            },
            "found": checked.found.iter().map(found).collect::<Vec<_>>(),
            "alike": (checked.alike.iter())
                .map(|(function, share)| json!({"function": function, "share": share}))
                .collect::<Vec<_>>(),
        })
    }

    fn describe_rule(&self, rule: &IncreaseRule) -> String {
        let IncreaseRule {
            function,
            measure,
            limit_percent,
        } = rule;
        let name = match (self.heap, function) {
            (Some(measure), Some(function)) => format!("heap.{}:{function}", measure.name()),
            (Some(measure), None) => format!("heap.{}", measure.name()),
            (None, Some(function)) => function.clone(),
            (None, None) => "the whole program".to_owned(),
        };
        match measure {
            LimitedMeasure::Time if self.heap.is_some() => format!("{name} may be {limit_percent} % more"),
            LimitedMeasure::Time => format!("{name} may take {limit_percent} % more"),
            LimitedMeasure::Share => format!("{name} may take {limit_percent} points more of all"),
        }
    }

    /// The reasons of an outcome, a line each.
    fn reasons(&self, rule: &IncreaseRule, checked: &CheckedRule) -> Vec<String> {
        let found = &checked.found;
        match checked.verdict {
            Verdict::Broken => found.iter().map(|found| self.describe_found(rule, found)).collect(),
            Verdict::Kept => found.iter().map(|found| self.describe_range(rule, found)).collect(),
            Verdict::Unknown(why) => {
                let mut lines = vec![self.describe_why(rule, why)];
                if !checked.alike.is_empty() {
                    lines.push(describe_alike(rule, &checked.alike));
                }
                if matches!(why, UnknownReason::TooWide) {
                    let shown = found.iter().take(SHOWN);
                    lines.extend(shown.map(|found| {
                        let name = found.function.as_deref().unwrap_or("the whole program");
                        format!("{name}: {}", self.describe_range(rule, found))
                    }));
                    if found.len() > SHOWN {
                        lines.push(format!("and {} more", found.len() - SHOWN));
                    }
                }
                lines
            }
        }
    }

    fn describe_why(&self, rule: &IncreaseRule, why: UnknownReason) -> String {
        let name = rule.function.as_deref().unwrap_or_default();
        match why {
            UnknownReason::NoFunction { before: 0 } => {
                format!("no function is called `{name}`; `{} report FILE` lists names", own())
            }
            UnknownReason::NoFunction { before } => format!(
                "{} `{name}` before, and none now: renamed, inlined or gone",
                count(before as u64, "function was called", "functions were called")
            ),
            UnknownReason::FewSamples { base, new } if self.sides.is_heap => format!(
                "{base} and {} are too few: record with a smaller --heap-interval, or with --iteration-count 10",
                count(new, "sampled block", "sampled blocks")
            ),
            UnknownReason::FewSamples { base, new } => format!(
                "{base} and {} are too few, one side needs {FEWEST_SAMPLES}: record longer, at a higher --rate, or with \
                 --iteration-count 10",
                count(new, "sample", "samples")
            ),
            UnknownReason::TooWide => {
                let Sides { base, new, .. } = &self.sides;
                let (runs, recordings) = (base.runs.min(new.runs), base.recordings.min(new.recordings));
                format!(
                    "an increase far above the limit can't be ruled out: {}",
                    match (runs, recordings) {
                        _ if base.lost + new.lost > 0.0 => "blocks were lost; record with a longer --heap-interval",
                        _ if self.sides.is_heap =>
                            "record with a smaller --heap-interval, or more runs a side (--iteration-count 10)",
                        (..5, _) => "record several runs a side (--iteration-count 5)",
                        // Consecutive runs do not show how the machine changes.
                        (_, ..3) =>
                            "record both sides again, in turn, and name all files (NEW NEW NEW --base OLD OLD OLD)",
                        _ => "record longer, more often, or on a quieter machine",
                    }
                )
            }
        }
    }

    /// `version_1 took 20.3 % more: 634 -> 763 ms a run (98 % sure: +15.2 to +25.8 %)`
    fn describe_found(&self, rule: &IncreaseRule, found: &FoundIncrease) -> String {
        let (sides, increase) = (&self.sides, &found.increase);
        let mut name = found.function.clone().unwrap_or_else(|| "the whole program".to_owned());
        if found.functions > 1 {
            let _ = write!(name, " ({} functions)", found.functions);
        }
        let (before, after) = (found.shares.0 * 100.0, found.shares.1 * 100.0);
        let what = match &sides.weights {
            Some(weights) => format!(" {weights}"),
            None if sides.is_heap => format!(" {}", counted(sides)),
            None => String::new(),
        };
        if rule.measure == LimitedMeasure::Share {
            return format!(
                "{name} took {before:.1} % of all, now {after:.1} %: {}",
                self.describe_range(rule, found)
            );
        }
        let more = match increase.by.is_finite() {
            true => format!("{:.1} % more{what}", increase.by * 100.0),
            false => format!(
                "{} that it did not take before",
                if what.is_empty() { "time" } else { what.trim_start() }
            ),
        };
        let amounts = match sides.weights {
            Some(_) => format!("{} -> {}", amount(sides, increase.base), amount(sides, increase.new)),
            None if sides.is_heap => format!(
                "{} -> {} a run",
                amount(sides, increase.base),
                amount(sides, increase.new)
            ),
            None => format!("{:.0} -> {:.0} {} a run", increase.base, increase.new, unit(sides)),
        };
        let share = match found.function {
            Some(_) => format!(", {before:.1} % -> {after:.1} % of all"),
            None => String::new(),
        };
        let sure = match sides.weights {
            Some(_) => String::new(),
            None => format!(" ({})", range(sides.confidence, increase.range)),
        };
        match sides.is_heap {
            true => format!("{name}: {more}, {amounts}{share}{sure}"),
            false => format!("{name} took {more}: {amounts}{share}{sure}"),
        }
    }

    /// `+0.3 % (98 % sure: -4.5 to +5.1 %)`
    fn describe_range(&self, rule: &IncreaseRule, found: &FoundIncrease) -> String {
        let increase = &found.increase;
        match (rule.measure, &self.sides.weights) {
            (LimitedMeasure::Time, Some(_)) => signed_percent(increase.by),
            (LimitedMeasure::Time, None) => format!(
                "{} ({})",
                signed_percent(increase.by),
                range(self.sides.confidence, increase.range)
            ),
            (LimitedMeasure::Share, _) => format!(
                "{:+.1} points ({} % sure: {:+.1} to {:+.1})",
                increase.by * 100.0,
                self.sides.confidence * 100.0,
                increase.range.0 * 100.0,
                increase.range.1 * 100.0
            ),
        }
    }
}

/// A hint: `parse` may have been meant as `parse_line`. A rule applies to the name that it has, and never to a similar
/// one.
fn describe_alike(rule: &IncreaseRule, alike: &[(String, f64)]) -> String {
    let name = rule.function.as_deref().unwrap_or_default();
    let shown = alike.iter().take(SHOWN);
    let shown: Vec<String> = shown
        .map(|(function, share)| format!("{function} ({:.1} %)", share * 100.0))
        .collect();
    let more = match alike.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "other names contain it: {}{more}; give one of them, or '*{name}*' for a rule on each",
        shown.join(", ")
    )
}
