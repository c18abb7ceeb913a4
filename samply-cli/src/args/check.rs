//! `sprof check`.

use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};
use profile::view::diff::rules::{Measure, Rule};

use super::{By, LimitArgs, PartArgs};

/// Flags of `sprof check`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  sprof check --base old.json.gz new.json.gz --max-total-increase 5%
  sprof check new.json.gz --base old.json.gz --max-increase slow_count=5% --max-increase '*=10%'
  sprof check new*.json.gz --base old*.json.gz -f junit > sprof.xml

Each rule has one of three outcomes:
  kept         chance explains what got slower by more than the rule allows, and an increase of 10
               points more than that would have been seen (of shares 5 points; of a rule with a *, 10 %
               of the whole time)
  broken       chance does not explain it: of 100 rules that hold, at most 1 is called broken
               (--false-discoveries)
  cannot tell  neither: too few samples, runs that differ too much, or no such function

Recordings of equal programs differ, and one a side does not show by how much: a standard deviation
of 1.5 % is assumed. Several a side, taken in turn, show it; several runs in one (sprof record
--iteration-count 5) find smaller changes.

Exit status: 0 all rules are kept, 1 a rule is broken, 3 none is broken and sprof cannot tell of some
(with --allow-unknown 0), 2 wrong usage, 125 sprof itself failed.")]
pub(crate) struct CheckArgs {
    /// Profiles of what is checked, one or more. After --base OLD, one. `-` is stdin.
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Profiles to compare to, one or more.
    #[arg(long, value_name = "FILE", num_args = 1.., required = true, env = "SPROF_BASE", hide_env = true)]
    pub(crate) base: Vec<PathBuf>,

    /// A rule: a function of this name, or of this last part, may take at most so much more time a run. `*` stands for any text, and
    /// the rule is on each of these functions then: 'parse*=2%', '*=10%'. May be given several times.
    #[arg(long, value_name = "FUNCTION=PERCENT", env = "SPROF_MAX_INCREASE", hide_env = true,
          value_parser = rule_of_time)]
    pub(crate) max_increase: Vec<Rule>,

    /// A rule: the whole program may take at most so much more time a run.
    #[arg(long, value_name = "PERCENT", env = "SPROF_MAX_TOTAL_INCREASE", hide_env = true, value_parser = total)]
    pub(crate) max_total_increase: Option<Rule>,

    /// A rule: the function's share of the program's time may grow by at most so many points, from 20 % to 22 % with FUNCTION=2. It does
    /// not see that the whole program gets slower. May be given several times.
    #[arg(long, value_name = "FUNCTION=POINTS", env = "SPROF_MAX_SHARE_INCREASE", hide_env = true,
          value_parser = rule_of_share)]
    pub(crate) max_share_increase: Vec<Rule>,

    /// End with status 0, not 3, where no rule is broken and sprof cannot tell whether all are kept.
    #[arg(long, env = "SPROF_ALLOW_UNKNOWN", hide_env = true, value_parser = FalseyValueParser::new())]
    pub(crate) allow_unknown: bool,

    /// File with more rules [default: sprof.toml, where there is one].
    #[arg(long, value_name = "FILE", env = "SPROF_CONFIG", hide_env = true)]
    pub(crate) config: Option<PathBuf>,

    /// Of files that count several things (of perf record, pprof, callgrind, cachegrind, DHAT), this one [default: the files' own
    /// choice, or the first].
    #[arg(short, long, value_name = "NAME", env = "SPROF_EVENT", hide_env = true)]
    pub(crate) event: Option<String>,

    /// Whose time is meant.
    #[arg(
        long,
        value_name = "WHAT",
        env = "SPROF_BY",
        hide_env = true,
        default_value = "total"
    )]
    pub(crate) by: By,

    #[command(flatten)]
    pub(crate) limits: LimitArgs,

    /// text for people, md for a comment on a pull request, junit for CI systems, json for programs.
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        env = "SPROF_FORMAT",
        hide_env = true,
        default_value = "text"
    )]
    pub(crate) format: CheckFormat,

    #[command(flatten)]
    pub(crate) part: PartArgs,
}

/// [`CheckArgs::format`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckFormat {
    Text,
    Md,
    Junit,
    Json,
}

fn rule_of_time(text: &str) -> Result<Rule, String> {
    rule(
        text,
        Measure::Time,
        increase,
        "a function and a percentage, for example 'parse*=2%'",
    )
}

fn rule_of_share(text: &str) -> Result<Rule, String> {
    rule(
        text,
        Measure::Share,
        points,
        "a function and points of all, for example 'parse*=2'",
    )
}

fn total(text: &str) -> Result<Rule, String> {
    let limit_percent = increase(text).ok_or("a percentage, for example 5%")?;
    Ok(Rule {
        function: None,
        measure: Measure::Time,
        limit_percent,
    })
}

/// `FUNCTION=LIMIT`. The last `=` counts: names of functions may hold some (`operator==`).
fn rule(text: &str, measure: Measure, limit: fn(&str) -> Option<f64>, expected: &str) -> Result<Rule, String> {
    let (function, number) = text.rsplit_once('=').ok_or(expected)?;
    let limit_percent = limit(number).ok_or(expected)?;
    match function.trim() {
        "" => Err(expected.into()),
        function => Ok(Rule {
            function: Some(function.to_owned()),
            measure,
            limit_percent,
        }),
    }
}

/// `2%`, `2`.
pub(crate) fn increase(text: &str) -> Option<f64> {
    let number = text.trim().trim_end_matches('%').trim_end().parse().ok()?;
    (0.0..1e6).contains(&number).then_some(number)
}

/// `2`, `2%` of all.
pub(crate) fn points(text: &str) -> Option<f64> {
    increase(text).filter(|points| *points <= 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_a_function_and_a_percentage() {
        let of = |text: &str| rule_of_time(text).map(|rule| (rule.function.unwrap_or_default(), rule.limit_percent));
        assert_eq!(of("parse=2%"), Ok(("parse".into(), 2.0)));
        assert_eq!(of("operator== = 0.5 %"), Ok(("operator==".into(), 0.5)));
        for bad in [
            "parse",
            "parse=",
            "=2%",
            "parse=-1%",
            "parse=two",
            "parse=inf",
            "parse=nan",
        ] {
            assert!(of(bad).is_err(), "{bad}");
        }
        assert!(rule_of_share("parse=101").is_err() && rule_of_share("parse=2").is_ok());
        assert!(total("parse=5%").is_err() && total("5%").is_ok());
    }
}
