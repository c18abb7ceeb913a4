//! `sprof check`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use profile::view::diff::lengths::LengthFigure;
use profile::view::diff::rules::{IncreaseRule, LimitedMeasure};
use profile::view::heap::Measure;

use super::diff::{By, LimitArgs};
use super::input::{EventArgs, InputArgs, MeasureArgs};
use super::select::PartArgs;

#[derive(Args, Clone, Debug)]
#[command(
    before_help = "\
Examples:
  sprof check new.json.gz --base old.json.gz --max-total-increase 5% --max-increase '*=10%'
  sprof check new.json.gz --base old.json.gz --max-increase heap.peak=5% --max-increase 'heap.allocated:*=10%'
  sprof check new*.json.gz --base old*.json.gz -f junit -o sprof.xml",
    after_help = "\
Each rule has one of three outcomes:
  kept         chance may explain the increase above the limit, and sprof would have seen an increase
               of 10 points more (shares: 5 points; a rule with a *: 10 % of the whole time)
  broken       chance does not explain the increase: of 100 rules that hold, at most 1 is called
               broken (--false-discoveries)
  cannot tell  too few samples, runs that differ too much, or no such function

Recordings of equal programs differ. One recording a side does not show by how much, so sprof assumes
a standard deviation of 1.5 %. Several recordings a side, taken in turn, show it. Several runs in one
recording (sprof record --iteration-count 5) find smaller changes. A program that ended by itself does
the same work in each run; other recordings are windows of time, which differ by more.
The error of a recording of the heap is known from its blocks, and 0.5 % is assumed of what runs take;
a smaller --heap-interval makes the error smaller.
Files of DHAT, heaptrack, massif and pprof are compared as they are: each rule on them is kept or broken.

Exit status: 0 all rules are kept; 1 a rule is broken; 3 no rule is broken and sprof cannot tell for
some (0 with --allow-unknown); 2 wrong usage; 125 sprof itself failed.",
    mut_arg("event", |arg| arg.help("Check this event, if the files have several (from perf record, pprof, callgrind, cachegrind, DHAT, heaptrack or massif) \
                                     [default: the files' choice, or the first event]"))
)]
pub(crate) struct CheckArgs {
    /// One or more profiles to check, or files of `sprof stat -f json`; one after --base OLD. `-` is stdin.
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// One or more profiles to compare to. Not for a file of `sprof stat --against`, which has both programs.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) base: Vec<PathBuf>,

    /// Rule for one function: each run may spend at most PERCENT more time in it than before. FUNCTION is the whole
    /// name or its last part. With `*`, which stands for any text, the rule applies to each such function: 'parse*=2%',
    /// '*=10%'. May be given several times. heap.peak=5% limits the heap by a measure (allocated, retained, peak,
    /// temporary, blocks), heap.allocated:parse=10% what is taken in one function: record with --heap.
    /// span:parse.p99=10% limits the length that 99 % of the spans `parse` do not exceed (also mean, p50, p90). On
    /// files of `sprof stat`, a rule limits a measure: wall=5%, instructions=1%.
    #[arg(long, value_name = "FUNCTION=PERCENT", value_parser = rule_of_time)]
    pub(crate) max_increase: Vec<MeasuredRule>,

    /// Rule for the whole program: each run may take at most PERCENT more time than before.
    #[arg(long, value_name = "PERCENT", value_parser = total)]
    pub(crate) max_total_increase: Option<MeasuredRule>,

    /// Rule for one function: its share of the program's time may grow by at most POINTS points. FUNCTION=2 allows 20 %
    /// to become 22 %. The rule does not see that the whole program gets slower. May be given several times.
    #[arg(long, value_name = "FUNCTION=POINTS", value_parser = rule_of_share)]
    pub(crate) max_share_increase: Vec<MeasuredRule>,

    /// End with status 0, not 3, if no rule is broken and the outcome of some is "cannot tell".
    #[arg(long)]
    pub(crate) allow_unknown: bool,

    /// File with more rules [default: sprof.toml, if it exists].
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) event: EventArgs,

    #[command(flatten)]
    pub(crate) heap: MeasureArgs,

    /// What the rules compare.
    #[arg(long, value_name = "WHAT", default_value = "total")]
    pub(crate) by: By,

    #[command(flatten)]
    pub(crate) limits: LimitArgs,

    /// What to print: text, md (Markdown, for a pull request), junit (for CI systems) or json.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: CheckFormat,

    /// Print JSON: the same as --format json.
    #[arg(long, hide = true, conflicts_with = "format")]
    json: bool,

    /// File to write to [default: stdout]. It replaces an earlier report.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) part: PartArgs,

    #[command(flatten, next_help_heading = "Names and messages")]
    pub(crate) input: InputArgs,
}

impl CheckArgs {
    pub(crate) fn format(&self) -> CheckFormat {
        if self.json { CheckFormat::Json } else { self.format }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckFormat {
    Text,
    Md,
    Junit,
    Json,
}

/// What a rule limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RuleSubject {
    /// What the other options choose.
    Chosen,
    /// A measure of the heap.
    Heap(Measure),
    /// A figure of the lengths of spans, whose name stands for the function.
    Span(LengthFigure),
}

/// A rule, and what it limits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MeasuredRule {
    pub(crate) subject: RuleSubject,
    pub(crate) rule: IncreaseRule,
}

fn rule_of_time(text: &str) -> Result<MeasuredRule, String> {
    rule(
        text,
        LimitedMeasure::Time,
        increase,
        "a function and a percentage, for example 'parse*=2%'",
    )
}

fn rule_of_share(text: &str) -> Result<MeasuredRule, String> {
    rule(
        text,
        LimitedMeasure::Share,
        points,
        "a function and points of all, for example 'parse*=2'",
    )
}

fn total(text: &str) -> Result<MeasuredRule, String> {
    let limit_percent = increase(text).ok_or("a percentage, for example 5%")?;
    Ok(MeasuredRule {
        subject: RuleSubject::Chosen,
        rule: IncreaseRule {
            function: None,
            measure: LimitedMeasure::Time,
            limit_percent,
        },
    })
}

/// Parses `FUNCTION=LIMIT`. The last `=` separates them: names of functions may have some (`operator==`).
fn rule(
    text: &str,
    measure: LimitedMeasure,
    limit: fn(&str) -> Option<f64>,
    expected: &str,
) -> Result<MeasuredRule, String> {
    let (limited, number) = text.rsplit_once('=').ok_or(expected)?;
    let limit_percent = limit(number).ok_or(expected)?;
    match limited_by(limited)? {
        (_, Some(function)) if function.is_empty() => Err(expected.into()),
        (_, None) | (RuleSubject::Span(_), _) if measure == LimitedMeasure::Share => Err(expected.into()),
        (subject, function) => Ok(MeasuredRule {
            subject,
            rule: IncreaseRule {
                function,
                measure,
                limit_percent,
            },
        }),
    }
}

/// What a rule limits: a measure of the heap, of the whole program (`heap.peak`) or of a function
/// (`heap.allocated:parse`), a figure of a span (`span:parse.p99`), or else a function.
pub(crate) fn limited_by(text: &str) -> Result<(RuleSubject, Option<String>), &'static str> {
    let text = text.trim();
    if let Some(span) = text.strip_prefix("span:") {
        let (name, figure) = span.rsplit_once('.').unwrap_or((span, ""));
        let figure = LengthFigure::ALL
            .into_iter()
            .find(|known| known.name() == figure.trim_end());
        return match figure {
            Some(figure) => Ok((RuleSubject::Span(figure), Some(name.trim().to_owned()))),
            None => Err("of a span, the mean, p50, p90 or p99, for example span:parse.p99=10%"),
        };
    }
    let of_heap = text.strip_prefix("heap.").and_then(|rest| {
        let (name, function) = match rest.split_once(':') {
            Some((name, function)) => (name, Some(function.trim().to_owned())),
            None => (rest, None),
        };
        Some((RuleSubject::Heap(Measure::named(name)?), function))
    });
    Ok(of_heap.unwrap_or_else(|| (RuleSubject::Chosen, Some(text.to_owned()))))
}

/// Parses a limit in percent: `2%` and `2` are 2. `None` for other text, and for numbers below 0 or from 1,000,000 on.
pub(crate) fn increase(text: &str) -> Option<f64> {
    let number = text.trim().trim_end_matches('%').trim_end().parse().ok()?;
    (0.0..1e6).contains(&number).then_some(number)
}

/// Parses a limit in points, percent of the whole: `2` and `2%` are 2. `None` for other text, and for numbers outside
/// of 0 to 100.
pub(crate) fn points(text: &str) -> Option<f64> {
    increase(text).filter(|points| *points <= 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_a_function_and_a_percentage() {
        let of = |text: &str| {
            rule_of_time(text).map(|rule| (rule.rule.function.unwrap_or_default(), rule.rule.limit_percent))
        };
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
        let of_heap = |text: &str| rule_of_time(text).map(|rule| (rule.subject, rule.rule.function));
        for (text, subject, function) in [
            ("heap.peak=5%", RuleSubject::Heap(Measure::Peak), None),
            (
                "heap.allocated:a::b=5%",
                RuleSubject::Heap(Measure::Allocated),
                Some("a::b"),
            ),
            ("heap.blocks: * = 5%", RuleSubject::Heap(Measure::Blocks), Some("*")),
            // Go's container/heap.
            ("heap.Push=5%", RuleSubject::Chosen, Some("heap.Push")),
            ("heap.peaks:f=5%", RuleSubject::Chosen, Some("heap.peaks:f")),
            ("span:a.b.p99=10%", RuleSubject::Span(LengthFigure::P99), Some("a.b")),
        ] {
            assert_eq!(of_heap(text), Ok((subject, function.map(str::to_owned))), "{text}");
        }
        for bad in ["span:parse=5%", "span:parse.p95=5%", "span:.p99=5%"] {
            assert!(rule_of_time(bad).is_err(), "{bad}");
        }
        assert!(rule_of_share("span:parse.p99=5").is_err());
        assert!(rule_of_time("heap.peak:=5%").is_err() && rule_of_share("heap.peak=5").is_err());
        assert!(rule_of_share("parse=101").is_err() && rule_of_share("parse=2").is_ok());
        assert!(total("parse=5%").is_err() && total("5%").is_ok());
    }
}
