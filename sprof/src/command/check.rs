//! `sprof check`: rules on what may get slower, for CI.

mod counts;
mod functions;
mod outcome;
mod spans;

use std::fs;
use std::path::{Path, PathBuf};

use profile::view::diff::describe::basis;
use profile::view::diff::rules::{IncreaseRule, LimitedMeasure, Verdict, check};
use profile::view::diff::sides::{ReadSides, check_sides};
use recording::command::own;
use serde::Deserialize;

use super::target::ResultTarget;
use crate::args::{self, CheckArgs, CheckFormat, MeasuredRule, RuleSubject, WantedSamples};
use crate::diff::read::ReadOptions;
use crate::exit::{Failure, Outcome, Status};
use crate::output::file_kind::FileKind;
use crate::output::json;
use crate::terminal::Term;
use functions::CheckedGroup;
use outcome::{OutcomeGroup, Outcomes};
use spans::CheckedSpans;

const CONFIG: &str = "sprof.toml";
/// Exit status if no rule is broken and some are unknown.
const UNKNOWN: i32 = 3;

pub(crate) fn run(args: &CheckArgs) -> Outcome {
    let term = Term::stderr(args.input.verbosity());
    let (base, new) = sides(args)?;
    let counted = counts::sides(new, base)?;
    if counted.is_none() && base.is_empty() {
        return args::refuse(
            "check",
            format_args!("what is it to be compared with? {} check NEW --base OLD", own()),
        );
    }
    if counted.is_some() && !args.part.is_all() {
        return args::refuse(
            "check",
            format_args!(
                "files of `sprof stat` have no samples to choose from: leave out what selects {}",
                args.part.describe().join(", ")
            ),
        );
    }
    let mut rules = args.max_increase.clone();
    rules.extend(args.max_total_increase.clone());
    rules.extend(args.max_share_increase.iter().cloned());
    match &args.config {
        Some(path) => rules.extend(read_rules(path)?),
        // Its rules are on functions.
        None if counted.is_none() && Path::new(CONFIG).exists() => rules.extend(read_rules(Path::new(CONFIG))?),
        None => {}
    }
    if rules.is_empty() {
        return args::refuse(
            "check",
            format_args!(
                "there is no rule to check: give one, such as --max-increase '*=10%' or --max-total-increase 5%, or write some \
                 into {CONFIG}"
            ),
        );
    }
    let kind = match args.format() {
        CheckFormat::Text => FileKind::ReportText,
        CheckFormat::Md => FileKind::ReportMarkdown,
        CheckFormat::Junit => FileKind::ReportJunit,
        CheckFormat::Json => FileKind::ReportJson,
    };
    let target = ResultTarget::for_text(args.output.as_deref(), kind)?;
    let mut groups: Vec<OutcomeGroup> = Vec::new();
    if let Some(counted) = counted {
        let rules = std::mem::take(&mut rules);
        groups.push(counts::check(&counted, &rules, args.limits.false_discoveries / 100.0)?);
    }
    // Rules on one measure, or on none, are checked together.
    while let Some(first) = rules.first() {
        let subject = first.subject;
        let (of_group, others): (Vec<_>, Vec<_>) = rules.into_iter().partition(|rule| rule.subject == subject);
        rules = others;
        let of_group: Vec<IncreaseRule> = of_group.into_iter().map(|rule| rule.rule).collect();
        let reading = ReadOptions {
            wanted: match subject {
                RuleSubject::Heap(measure) => WantedSamples::heap(measure, args.part.filter()),
                RuleSubject::Span(_) => WantedSamples::Event(None),
                RuleSubject::Chosen => WantedSamples::new(args.event.name(), &args.heap, args.part.filter()),
            },
            symbols: &args.input.symbols,
            filter: args.part.filter(),
            by: args.by,
            adds_up: false,
            warns: groups.is_empty(),
            term: &term,
        };
        let ReadSides { base, new, renamed } = reading.sides(base, new)?;
        if let RuleSubject::Span(figure) = subject {
            let spans = CheckedSpans {
                base: &base,
                new: &new,
                filter: &reading.filter,
                p: args.limits.false_discoveries / 100.0,
                notes: args.part.about(&renamed),
            };
            groups.push(spans.outcome(figure, &of_group));
            continue;
        }
        let by = args.by.resolve(&base, &new);
        let (sides, checked) = check(&base, &new, by.into(), &of_group, args.limits.into());
        check_sides(&sides)?;
        let checked = CheckedGroup {
            heap: match subject {
                RuleSubject::Heap(measure) => Some(measure),
                RuleSubject::Chosen | RuleSubject::Span(_) => None,
            },
            notes: [args.part.about(&renamed), basis(&sides)].concat(),
            sides,
            rules: of_group.into_iter().zip(checked).collect(),
        };
        groups.push(checked.outcome());
    }
    let outcomes = Outcomes(groups);
    target.write(&term, |out| match args.format() {
        CheckFormat::Text => out.write_all(outcomes.text().as_bytes()),
        CheckFormat::Md => out.write_all(outcomes.markdown().as_bytes()),
        CheckFormat::Junit => out.write_all(outcomes.junit().as_bytes()),
        CheckFormat::Json => json::write("sprof-check", outcome::SCHEMA_VERSION, outcomes.json(), out),
    })?;
    if outcomes.number(|verdict| matches!(verdict, Verdict::Broken)) > 0 {
        return Ok(Status::of_code(1));
    }
    match outcomes.number(|verdict| matches!(verdict, Verdict::Unknown(_))) > 0 && !args.allow_unknown {
        true => Ok(Status::of_code(UNKNOWN)),
        false => Ok(Status::SUCCESS),
    }
}

fn sides(args: &CheckArgs) -> Result<(&[PathBuf], &[PathBuf]), Failure> {
    match new_and_base(&args.files, &args.base) {
        Some(sides) => Ok(sides),
        None => args::refuse(
            "check",
            match args.base.len() {
                0 | 1 => format!("there is no profile to check: {} check --base OLD NEW", own()),
                _ => format!("which of these are new? {} check NEW NEW --base OLD OLD", own()),
            },
        ),
    }
}

/// The files from before and from after. clap gives both files of `--base OLD NEW` to `--base`.
pub(super) fn new_and_base<'a>(new: &'a [PathBuf], base: &'a [PathBuf]) -> Option<(&'a [PathBuf], &'a [PathBuf])> {
    match (base, new) {
        ([base, new], []) => Some((std::slice::from_ref(base), std::slice::from_ref(new))),
        (_, []) => None,
        (base, new) => Some((base, new)),
    }
}

/// `sprof.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckFile {
    #[serde(default)]
    check: CheckConfig,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct CheckConfig {
    #[serde(default)]
    max_increase: toml::Table,
    #[serde(default)]
    max_share_increase: toml::Table,
    max_total_increase: Option<toml::Value>,
}

fn read_rules(path: &Path) -> Result<Vec<MeasuredRule>, Failure> {
    let text =
        fs::read_to_string(path).map_err(|error| format!("cannot read the rules in {}: {error}", path.display()))?;
    let config: CheckFile =
        toml::from_str(&text).map_err(|error| format!("the rules in {} can't be used: {error}", path.display()))?;
    let rule = |limited: Option<String>, measure: LimitedMeasure, limit: &toml::Value| {
        let parse = match measure {
            LimitedMeasure::Time => args::increase,
            LimitedMeasure::Share => args::points,
        };
        let limit_percent = match limit {
            toml::Value::String(text) => parse(text),
            toml::Value::Integer(number) => parse(&number.to_string()),
            toml::Value::Float(number) => parse(&number.to_string()),
            _ => None,
        };
        let limited_by = limited
            .as_deref()
            .map_or(Ok((RuleSubject::Chosen, None)), args::limited_by);
        let (expected, limit_percent) = match (&limited_by, limit_percent) {
            (Err(expected), _) => (*expected, None),
            (Ok((_, None) | (RuleSubject::Span(_), _)), _) if measure == LimitedMeasure::Share => {
                ("the share of a function", None)
            }
            (_, limit) => ("a percentage such as \"2%\"", limit),
        };
        let (Some(limit_percent), Ok((subject, function))) = (limit_percent, limited_by) else {
            return Err(format!(
                "the rules in {} can't be used: the limit of `{}` is not as expected: {expected}",
                path.display(),
                limited.as_deref().unwrap_or("max-total-increase"),
            )
            .into());
        };
        Ok(MeasuredRule {
            subject,
            rule: IncreaseRule {
                function,
                measure,
                limit_percent,
            },
        })
    };
    let CheckConfig {
        max_increase,
        max_share_increase,
        max_total_increase,
    } = config.check;
    let time = max_increase
        .into_iter()
        .map(|(name, limit)| (Some(name), LimitedMeasure::Time, limit));
    let total = max_total_increase
        .into_iter()
        .map(|limit| (None, LimitedMeasure::Time, limit));
    let share = max_share_increase
        .into_iter()
        .map(|(name, limit)| (Some(name), LimitedMeasure::Share, limit));
    time.chain(total)
        .chain(share)
        .map(|(function, measure, limit)| rule(function, measure, &limit))
        .collect()
}
