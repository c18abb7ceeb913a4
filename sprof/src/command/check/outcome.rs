//! The outcomes of rules as text, Markdown, JUnit and JSON.

use std::fmt::Write as _;

use profile::text::numbers::count;
use profile::view::diff::describe::{amount, describe, describe_increase, finite, range, signed_percent, unit};
use profile::view::diff::rules::{
    CheckedRule, FEWEST_SAMPLES, FoundIncrease, IncreaseRule, LimitedMeasure, UnknownReason, Verdict,
};
use profile::view::diff::{Increase, Sides};
use recording::command::own;
use serde_json::{Value, json};

/// Version of the JSON form. A changed field increases it, a new field does not.
pub(super) const SCHEMA_VERSION: u32 = 1;
/// Functions that are named at most as a reason why a rule is unknown.
const SHOWN: usize = 3;

/// Rules with their outcomes.
pub(super) struct Outcomes<'a> {
    pub(super) sides: &'a Sides,
    /// Notes on the files.
    pub(super) notes: Vec<String>,
    pub(super) rules: Vec<(&'a IncreaseRule, &'a CheckedRule)>,
}

impl Outcomes<'_> {
    pub(super) fn text(&self) -> String {
        let sides = self.sides;
        let mut out = format!(
            "       base: {}\n    checked: {}\n      total: {}\n",
            describe(sides, &sides.base),
            describe(sides, &sides.new),
            describe_increase(sides, &sides.increase)
        );
        for note in &self.notes {
            let _ = writeln!(out, "             {note}");
        }
        out.push('\n');
        for (rule, checked) in &self.rules {
            let state = match outcome(checked) {
                "broken" => "BROKEN",
                other => other,
            };
            let _ = writeln!(out, "{state:>11}  {}", describe_rule(rule));
            for line in self.reasons(rule, checked) {
                let _ = writeln!(out, "             {line}");
            }
        }
        out
    }

    pub(super) fn markdown(&self) -> String {
        let mut out = String::from("| rule | | |\n|---|---|---|\n");
        let cell = |text: &str| text.replace('|', "\\|").replace('<', "&lt;");
        for (rule, checked) in &self.rules {
            let state = match outcome(checked) {
                "broken" => "**broken**",
                other => other,
            };
            let _ = writeln!(
                out,
                "| {} | {state} | {} |",
                cell(&describe_rule(rule)),
                cell(&self.reasons(rule, checked).join("; "))
            );
        }
        let sides = self.sides;
        let mut notes = vec![
            format!("total: {}", describe_increase(sides, &sides.increase)),
            format!("base: {}", describe(sides, &sides.base)),
            format!("checked: {}", describe(sides, &sides.new)),
        ];
        notes.extend(self.notes.iter().cloned());
        let _ = writeln!(out, "\n{}", notes.join("; "));
        out
    }

    /// JUnit's XML, which CI systems read: <https://github.com/testmoapp/junitxml>. An unknown rule is a skipped test
    /// there.
    pub(super) fn junit(&self) -> String {
        let number = |is: fn(&Verdict) -> bool| self.rules.iter().filter(|(_, checked)| is(&checked.verdict)).count();
        let counts = format!(
            "tests=\"{}\" failures=\"{}\" skipped=\"{}\"",
            self.rules.len(),
            number(|verdict| matches!(verdict, Verdict::Broken)),
            number(|verdict| matches!(verdict, Verdict::Unknown(_))),
        );
        let mut out = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n  <testsuite name=\"sprof check\" {counts}>\n"
        );
        for (rule, checked) in &self.rules {
            let name = xml(&describe_rule(rule));
            let reasons = xml(&self.reasons(rule, checked).join("; "));
            let _ = write!(out, "    <testcase classname=\"sprof check\" name=\"{name}\">\n      ");
            let _ = match checked.verdict {
                Verdict::Broken => write!(out, "<failure message=\"{reasons}\"/>"),
                Verdict::Kept => write!(out, "<system-out>{reasons}</system-out>"),
                Verdict::Unknown(_) => write!(out, "<skipped message=\"cannot tell: {reasons}\"/>"),
            };
            out.push_str("\n    </testcase>\n");
        }
        out + "  </testsuite>\n</testsuites>\n"
    }

    pub(super) fn json(&self) -> Value {
        let sides = self.sides;
        let increase = |increase: &Increase| {
            let range = [finite(increase.range.0), finite(increase.range.1)];
            json!({"increase": finite(increase.by), "range": range, "base": increase.base, "new": increase.new})
        };
        let found = |found: &FoundIncrease| {
            let mut value = increase(&found.increase);
            value["function"] = json!(found.function);
            value["functions"] = json!(found.functions);
            value["base_samples"] = json!(found.samples.0);
            value["new_samples"] = json!(found.samples.1);
            value
        };
        let rules: Vec<Value> = (self.rules.iter())
            .map(|(rule, checked)| {
                json!({
                    "function": rule.function,
                    "of": match rule.measure {
                        LimitedMeasure::Time => "time",
                        LimitedMeasure::Share => "share",
                    },
                    "limit_percent": rule.limit_percent,
                    "outcome": outcome(checked),
                    "why": match checked.verdict {
                        Verdict::Unknown(UnknownReason::NoFunction { .. }) => Some("no such function"),
                        Verdict::Unknown(UnknownReason::FewSamples { .. }) => Some("too few samples"),
                        Verdict::Unknown(UnknownReason::TooWide) => Some("too uncertain"),
                        Verdict::Kept | Verdict::Broken => None,
                    },
                    "words": self.reasons(rule, checked),
                    "found": checked.found.iter().map(found).collect::<Vec<_>>(),
                    "alike": (checked.alike.iter())
                        .map(|(function, share)| json!({"function": function, "share": share}))
                        .collect::<Vec<_>>(),
                })
            })
            .collect();
        json!({
            "confidence": sides.confidence,
            "unit": unit(sides),
            "total": increase(&sides.increase),
            "notes": self.notes,
            "rules": rules,
        })
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
        let (sides, increase) = (self.sides, &found.increase);
        let mut name = found.function.clone().unwrap_or_else(|| "the whole program".to_owned());
        if found.functions > 1 {
            let _ = write!(name, " ({} functions)", found.functions);
        }
        let (before, after) = (found.shares.0 * 100.0, found.shares.1 * 100.0);
        let what = match &sides.weights {
            Some(weights) => format!(" {weights}"),
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
            None => format!("{:.0} -> {:.0} {} a run", increase.base, increase.new, unit(sides)),
        };
        let share = match found.function {
            Some(_) => format!(", {before:.1} % -> {after:.1} % of all"),
            None => String::new(),
        };
        let sure = match sides.weights {
            Some(_) => String::new(),
            None => format!(" ({})", range(sides, increase.range)),
        };
        format!("{name} took {more}: {amounts}{share}{sure}")
    }

    /// `+0.3 % (98 % sure: -4.5 to +5.1 %)`
    fn describe_range(&self, rule: &IncreaseRule, found: &FoundIncrease) -> String {
        let increase = &found.increase;
        match (rule.measure, &self.sides.weights) {
            (LimitedMeasure::Time, Some(_)) => signed_percent(increase.by),
            (LimitedMeasure::Time, None) => format!(
                "{} ({})",
                signed_percent(increase.by),
                range(self.sides, increase.range)
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

fn outcome(checked: &CheckedRule) -> &'static str {
    match checked.verdict {
        Verdict::Kept => "kept",
        Verdict::Broken => "broken",
        Verdict::Unknown(_) => "cannot tell",
    }
}

fn describe_rule(rule: &IncreaseRule) -> String {
    let name = rule.function.as_deref().unwrap_or("the whole program");
    match rule.measure {
        LimitedMeasure::Time => format!("{name} may take {} % more", rule.limit_percent),
        LimitedMeasure::Share => format!("{name} may take {} points more of all", rule.limit_percent),
    }
}

/// Escapes text for XML, which allows no control characters in any form.
fn xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            control if control.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}
