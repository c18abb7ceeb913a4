//! `sprof check`: rules on what may get slower, for CI.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use profile::view::diff::{Change, Comparison};
use recording::command::own;
use serde::Deserialize;

use super::diff::{self, describe};
use super::diff_figures;
use crate::args::{self, CheckArgs, CheckFormat, Rule};
use crate::exit::{Failure, Outcome, Status};
use crate::input::InputOptions;
use crate::screen;
use crate::term::{Term, Verbosity};

const CONFIG: &str = "sprof.toml";

/// Runs the command.
pub(crate) fn run(args: &CheckArgs) -> Outcome {
    let term = Term::stderr(Verbosity::Normal);
    let mut rules = args.max_increase.clone();
    match &args.config {
        Some(path) => rules.extend(read_rules(path)?),
        None if Path::new(CONFIG).exists() => rules.extend(read_rules(Path::new(CONFIG))?),
        None => {}
    }
    if rules.is_empty() {
        return Err(Failure::from(args::usage_error(
            "check",
            format_args!(
                "there is no rule to check: give one, such as --max-increase '*=10%', or write some into {CONFIG}"
            ),
        )));
    }
    let options = InputOptions {
        event: args.event.clone(),
        ..InputOptions::default()
    };
    let (base, new) = diff::read_sides(&args.base, &args.files, &options, args.by, &term)?;
    let compared = diff::compared(&base, &new, args.by, args.limits.into())?;
    let results: Vec<Checked> = rules.iter().map(|rule| check(rule, &compared)).collect();
    for checked in results.iter().filter(|checked| !checked.seen) {
        term.warning(format_args!(
            "no function with samples enough is called `{}`: that rule checks nothing; `{} report FILE` lists names",
            checked.rule.function,
            own()
        ));
    }
    let text = match args.format {
        CheckFormat::Text => text(&results, &compared),
        CheckFormat::Md => markdown(&results, &compared),
        CheckFormat::Junit => junit(&results, &compared),
    };
    screen::print("the result", |out| out.write_all(text.as_bytes()))?;
    match results.iter().any(|checked| !checked.broken_by.is_empty()) {
        true => Ok(Status::of_code(1)),
        false => Ok(Status::SUCCESS),
    }
}

/// `sprof.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default)]
    check: CheckConfig,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct CheckConfig {
    #[serde(default)]
    max_increase: toml::Table,
}

fn read_rules(path: &Path) -> Result<Vec<Rule>, Failure> {
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::failed(format_args!("cannot read the rules in {}: {error}", path.display())))?;
    let config: Config = toml::from_str(&text)
        .map_err(|error| Failure::failed(format_args!("the rules in {} can't be used: {error}", path.display())))?;
    let rule = |(function, limit): (String, toml::Value)| {
        let percent = match &limit {
            toml::Value::String(text) => args::increase(text),
            toml::Value::Integer(number) => args::increase(&number.to_string()),
            toml::Value::Float(number) => args::increase(&number.to_string()),
            _ => None,
        };
        let max_increase_percent = percent.ok_or_else(|| {
            Failure::failed(format_args!(
                "the rules in {} can't be used: the limit of `{function}` is not as expected: a percentage such as \"2%\"",
                path.display()
            ))
        })?;
        Ok(Rule {
            function,
            max_increase_percent,
        })
    };
    config.check.max_increase.into_iter().map(rule).collect()
}

/// A rule, and what became of it.
struct Checked<'a> {
    rule: &'a Rule,
    /// Functions that got slower by more.
    broken_by: Vec<&'a Change>,
    /// False if the rule is about no function at all.
    seen: bool,
}

fn check<'a>(rule: &'a Rule, compared: &'a Comparison) -> Checked<'a> {
    let is_broken = |change: &&Change| {
        let limit = change.base.per_run * (1.0 + rule.max_increase_percent / 100.0);
        rule.is_about(&change.function) && compared.delta(change) > 0.0 && change.new.per_run > limit
    };
    Checked {
        rule,
        broken_by: compared.changes.iter().filter(is_broken).collect(),
        seen: compared.functions.iter().any(|function| rule.is_about(function)),
    }
}

/// `version_1 took 20.3 % more: 634 -> 763 ms a run, 19.1 % -> 22.3 % of all`.
fn describe_change(compared: &Comparison, change: &Change) -> String {
    if compared.weights.is_some() {
        return diff_figures::describe_change(compared, change);
    }
    let unit = diff::unit(compared);
    let more = match change.base.per_run > 0.0 {
        true => format!("{:.1} % more", (change.new.per_run / change.base.per_run - 1.0) * 100.0),
        false => "time that it did not take before".to_owned(),
    };
    format!(
        "{} took {more}: {:.0} -> {:.0} {unit} a run, {:.1} % -> {:.1} % of all (95 % sure: {:+.1} to {:+.1} points)",
        change.function,
        change.base.per_run,
        change.new.per_run,
        change.base.share * 100.0,
        change.new.share * 100.0,
        change.share_change.0 * 100.0,
        change.share_change.1 * 100.0,
    )
}

fn describe_rule(rule: &Rule) -> String {
    format!("{} may take {} % more", rule.function, rule.max_increase_percent)
}

fn text(results: &[Checked<'_>], compared: &Comparison) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "   base: {}", describe(compared, &compared.base, None));
    let _ = writeln!(
        out,
        "checked: {}\n",
        describe(compared, &compared.new, Some(&compared.base))
    );
    for checked in results {
        let state = match (checked.broken_by.is_empty(), checked.seen) {
            (false, _) => "BROKEN",
            (true, true) => "kept",
            (true, false) => "not seen",
        };
        let _ = writeln!(out, "{state:>8}  {}", describe_rule(checked.rule));
        for change in &checked.broken_by {
            let _ = writeln!(out, "          {}", describe_change(compared, change));
        }
    }
    out
}

fn markdown(results: &[Checked<'_>], compared: &Comparison) -> String {
    let mut out = String::from("| rule | | |\n|---|---|---|\n");
    for checked in results {
        let what: Vec<String> = checked
            .broken_by
            .iter()
            .map(|change| describe_change(compared, change))
            .collect();
        let state = match (checked.broken_by.is_empty(), checked.seen) {
            (false, _) => "**broken**",
            (true, true) => "kept",
            (true, false) => "not seen",
        };
        let cell = |text: &str| text.replace('|', "\\|").replace('<', "&lt;");
        let _ = writeln!(
            out,
            "| {} | {state} | {} |",
            cell(&describe_rule(checked.rule)),
            cell(&what.join("; "))
        );
    }
    let _ = writeln!(
        out,
        "\nbase: {}; checked: {}",
        describe(compared, &compared.base, None),
        describe(compared, &compared.new, Some(&compared.base))
    );
    out
}

/// The form that CI systems agree on: <https://github.com/testmoapp/junitxml>.
fn junit(results: &[Checked<'_>], compared: &Comparison) -> String {
    let failures = results.iter().filter(|checked| !checked.broken_by.is_empty()).count();
    let skipped = results.iter().filter(|checked| !checked.seen).count();
    let counts = format!(
        "tests=\"{}\" failures=\"{failures}\" skipped=\"{skipped}\"",
        results.len()
    );
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n  <testsuite name=\"sprof check\" {counts}>\n"
    );
    for checked in results {
        let name = xml(&describe_rule(checked.rule));
        let _ = write!(out, "    <testcase classname=\"sprof check\" name=\"{name}\"");
        if !checked.broken_by.is_empty() {
            let what: Vec<String> = checked
                .broken_by
                .iter()
                .map(|change| describe_change(compared, change))
                .collect();
            let _ = writeln!(
                out,
                ">\n      <failure message=\"{}\"/>\n    </testcase>",
                xml(&what.join("; "))
            );
        } else if !checked.seen {
            let _ = writeln!(out, ">\n      <skipped message=\"no such function\"/>\n    </testcase>");
        } else {
            let _ = writeln!(out, "/>");
        }
    }
    out + "  </testsuite>\n</testsuites>\n"
}

/// Text in an XML attribute. Control characters are not allowed in any form.
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
