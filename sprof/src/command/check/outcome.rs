//! The outcomes of rules as text, Markdown, JUnit and JSON.

use std::fmt::Write as _;

use profile::view::diff::rules::Verdict;
use serde_json::{Value, json};

/// Version of the JSON form. A changed field increases it, a new field does not.
pub(super) const SCHEMA_VERSION: u32 = 1;

/// A rule with its outcome, in words.
pub(super) struct RuleOutcome {
    /// What it allows.
    pub(super) rule: String,
    pub(super) verdict: Verdict,
    /// A line each.
    pub(super) reasons: Vec<String>,
    /// Its entry in the JSON form, but for what is above.
    pub(super) json: Value,
}

/// Rules on one measure, or on none.
pub(super) struct OutcomeGroup {
    /// What is compared: a name, and the words.
    pub(super) about: Vec<(&'static str, String)>,
    /// Notes on the files.
    pub(super) notes: Vec<String>,
    /// Its entry in the JSON form, but for the notes.
    pub(super) json: Value,
    pub(super) rules: Vec<RuleOutcome>,
}

/// All rules; at least one group.
pub(super) struct Outcomes(pub(super) Vec<OutcomeGroup>);

impl Outcomes {
    /// The number of rules with such a verdict.
    pub(super) fn number(&self, is: fn(&Verdict) -> bool) -> usize {
        self.rules().filter(|rule| is(&rule.verdict)).count()
    }

    fn rules(&self) -> impl Iterator<Item = &RuleOutcome> {
        self.0.iter().flat_map(|group| &group.rules)
    }

    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        for (at, group) in self.0.iter().enumerate() {
            if at > 0 {
                out.push('\n');
            }
            for (name, words) in &group.about {
                let _ = writeln!(out, "{name:>11}: {words}");
            }
            for note in &group.notes {
                let _ = writeln!(out, "             {note}");
            }
            out.push('\n');
            for rule in &group.rules {
                let state = match rule.outcome() {
                    "broken" => "BROKEN",
                    other => other,
                };
                let _ = writeln!(out, "{state:>11}  {}", rule.rule);
                for line in &rule.reasons {
                    let _ = writeln!(out, "             {line}");
                }
            }
        }
        out
    }

    pub(super) fn markdown(&self) -> String {
        let mut out = String::from("| rule | | |\n|---|---|---|\n");
        let cell = |text: &str| text.replace('|', "\\|").replace('<', "&lt;");
        for rule in self.rules() {
            let state = match rule.outcome() {
                "broken" => "**broken**",
                other => other,
            };
            let _ = writeln!(
                out,
                "| {} | {state} | {} |",
                cell(&rule.rule),
                cell(&rule.reasons.join("; "))
            );
        }
        for OutcomeGroup { about, notes, .. } in &self.0 {
            // The result first.
            let about: Vec<String> = about.iter().map(|(name, words)| format!("{name}: {words}")).collect();
            let (sides, result) = about.split_at(about.len().min(2));
            let _ = writeln!(out, "\n{}", [result, sides, notes].concat().join("; "));
        }
        out
    }

    /// JUnit's XML, which CI systems read: <https://github.com/testmoapp/junitxml>. An unknown rule is a skipped test
    /// there.
    pub(super) fn junit(&self) -> String {
        let counts = format!(
            "tests=\"{}\" failures=\"{}\" skipped=\"{}\"",
            self.rules().count(),
            self.number(|verdict| matches!(verdict, Verdict::Broken)),
            self.number(|verdict| matches!(verdict, Verdict::Unknown(_))),
        );
        let mut out = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n  <testsuite name=\"sprof check\" {counts}>\n"
        );
        for rule in self.rules() {
            let (name, reasons) = (xml(&rule.rule), xml(&rule.reasons.join("; ")));
            let _ = write!(out, "    <testcase classname=\"sprof check\" name=\"{name}\">\n      ");
            let _ = match rule.verdict {
                Verdict::Broken => write!(out, "<failure message=\"{reasons}\"/>"),
                Verdict::Kept => write!(out, "<system-out>{reasons}</system-out>"),
                Verdict::Unknown(_) => write!(out, "<skipped message=\"cannot tell: {reasons}\"/>"),
            };
            out.push_str("\n    </testcase>\n");
        }
        out + "  </testsuite>\n</testsuites>\n"
    }

    /// Each rule has its measure. What is known of the files is that of the first group, and in `groups` of each.
    pub(super) fn json(&self) -> Value {
        let group = |group: &OutcomeGroup| {
            let mut value = group.json.clone();
            value["notes"] = json!(group.notes);
            value
        };
        let first = self.0.first().map(group).unwrap_or_default();
        let rules = self.rules().map(|rule| {
            let mut value = rule.json.clone();
            value["outcome"] = json!(rule.outcome());
            value["words"] = json!(rule.reasons);
            value
        });
        json!({
            "confidence": first["confidence"],
            "unit": first["unit"],
            "total": first["total"],
            "notes": first["notes"],
            "groups": self.0.iter().map(group).collect::<Vec<_>>(),
            "rules": rules.collect::<Vec<_>>(),
        })
    }
}

impl RuleOutcome {
    fn outcome(&self) -> &'static str {
        match self.verdict {
            Verdict::Kept => "kept",
            Verdict::Broken => "broken",
            Verdict::Unknown(_) => "cannot tell",
        }
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
