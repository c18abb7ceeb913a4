//! `sprof check`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{By, LimitArgs};

/// Flags of `sprof check`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  sprof check new.json.gz --base old.json.gz --max-increase 'parse*=5%'
  sprof check new.json.gz --base old.json.gz -f junit > report.xml")]
pub(crate) struct CheckArgs {
    /// Profiles of what is checked, one or more.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// Profiles to compare to, one or more.
    #[arg(long, value_name = "FILE", num_args = 1.., required = true, env = "SPROF_BASE", hide_env = true)]
    pub(crate) base: Vec<PathBuf>,

    /// A rule: functions of this name may take at most so much more time. `*` stands for any text: 'parse*=2%', '*=10%'.
    #[arg(long, value_name = "FUNCTION=PERCENT", env = "SPROF_MAX_INCREASE", hide_env = true,
          value_parser = rule)]
    pub(crate) max_increase: Vec<Rule>,

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

    /// text for people, md for a comment on a pull request, junit for CI systems.
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        env = "SPROF_FORMAT",
        hide_env = true,
        default_value = "text"
    )]
    pub(crate) format: CheckFormat,
}

/// [`CheckArgs::format`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckFormat {
    Text,
    Md,
    Junit,
}

/// Functions by name, and how much more time they may take.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rule {
    /// With `*` for any text.
    pub(crate) function: String,
    /// Of the time that it took before.
    pub(crate) max_increase_percent: f64,
}

impl Rule {
    /// True if the rule is about a function of this name.
    pub(crate) fn is_about(&self, name: &str) -> bool {
        let mut parts = self.function.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.strip_prefix(first) else {
            return false;
        };
        let Some(last) = parts.next_back() else {
            return rest.is_empty();
        };
        for part in parts {
            match rest.split_once(part) {
                Some((_, after)) => rest = after,
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}

/// `FUNCTION=PERCENT`. The last `=` counts: names of functions may hold some (`operator==`).
pub(crate) fn rule(text: &str) -> Result<Rule, String> {
    let expected = "a function and a percentage, for example 'parse*=2%'";
    let (function, percent) = text.rsplit_once('=').ok_or(expected)?;
    let max_increase_percent = increase(percent).ok_or(expected)?;
    match function.trim() {
        "" => Err(expected.into()),
        function => Ok(Rule {
            function: function.to_owned(),
            max_increase_percent,
        }),
    }
}

/// `2%`, `2`.
pub(crate) fn increase(text: &str) -> Option<f64> {
    let number = text.trim().trim_end_matches('%').trim_end().parse().ok()?;
    (0.0..1e6).contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_a_function_and_a_percentage() {
        let of = |text: &str| rule(text).map(|rule| (rule.function, rule.max_increase_percent));
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
    }

    #[test]
    fn a_star_stands_for_any_text() {
        let about = |function: &str, name: &str| {
            let function = function.to_owned();
            Rule {
                function,
                max_increase_percent: 0.0,
            }
            .is_about(name)
        };
        for (function, name) in [
            ("parse", "parse"),
            ("parse*", "parse"),
            ("parse*", "parse::json"),
            ("*::json", "parse::json"),
            ("a*b*c", "a1b2c"),
            ("a*b*c", "abbc"),
            ("*", ""),
        ] {
            assert!(about(function, name), "{function} {name}");
        }
        for (function, name) in [
            ("parse", "parser"),
            ("*::json", "json"),
            ("a*b*c", "acb"),
            ("aa*aa", "aaa"),
        ] {
            assert!(!about(function, name), "{function} {name}");
        }
    }
}
