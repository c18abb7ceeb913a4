//! Rules on what `sprof stat -f json` has counted.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use profile::text::numbers::{bytes, count, counts, time};
use profile::view::diff::describe::{range, signed_percent};
use profile::view::diff::rules::{LimitedMeasure, UnknownReason, Verdict};
use profile::view::diff::values::check_values;
use recording::command::{own, quoted};
use recording::regular_file;
use serde::Deserialize;
use serde_json::json;

use super::functions::json_increase;
use super::outcome::{OutcomeGroup, RuleOutcome};
use crate::args::{self, MeasuredRule, RuleSubject};
use crate::exit::Failure;
use crate::terminal::columns::{clean, cut};

/// How a file of `sprof stat` begins.
const BEGINNING: &[u8] = b"{\"schema\":\"sprof-stat\"";
/// Columns of a command.
const COMMAND_COLUMNS: usize = 60;
/// Fewer runs a side do not show how much runs differ.
const FEWEST_RUNS: usize = 2;

/// See docs/json.md.
#[derive(Deserialize)]
struct StatFile {
    commands: Vec<CountedCommand>,
}

#[derive(Deserialize)]
struct CountedCommand {
    command: Vec<String>,
    measures: BTreeMap<String, CountedMeasure>,
}

#[derive(Clone, Deserialize)]
struct CountedMeasure {
    unit: String,
    values: Vec<Option<f64>>,
    #[serde(default)]
    user_only: bool,
}

/// The runs of one program, in one or several files.
pub(super) struct CountedSide {
    command: String,
    measures: BTreeMap<String, CountedMeasure>,
}

/// What was counted before and after; `None` if the files are profiles. A file with two programs has both: the program,
/// and the one that it was compared with.
pub(super) fn sides(new: &[PathBuf], base: &[PathBuf]) -> Result<Option<(CountedSide, CountedSide)>, Failure> {
    let of_stat = |path: &&PathBuf| is_of_stat(path);
    let Some(first) = new.iter().chain(base).find(of_stat) else {
        return Ok(None);
    };
    if let Some(other) = new.iter().chain(base).find(|path| !of_stat(path)) {
        return Err(Failure::failed(format_args!(
            "{} is of `sprof stat`, and {} is not: compare files of one kind",
            first.display(),
            other.display()
        )));
    }
    if let ([file], []) = (new, base) {
        let mut commands = read(file)?.into_iter();
        return match (commands.next(), commands.next(), commands.next()) {
            (Some(new), Some(base), None) => Ok(Some((side(vec![base]), side(vec![new])))),
            _ => Err(Failure::failed(format_args!(
                "{} has not two programs: count both in turn (`{} stat --against OLD NEW`), or give another file by --base",
                file.display(),
                own()
            ))),
        };
    }
    let read_side = |files: &[PathBuf]| {
        let mut all = Vec::new();
        for file in files {
            match <[CountedCommand; 1]>::try_from(read(file)?) {
                Ok(only) => all.extend(only),
                Err(several) => {
                    return Err(Failure::failed(format_args!(
                        "{} has {} programs: only a file with one can be compared with other files",
                        file.display(),
                        several.len()
                    )));
                }
            }
        }
        Ok(side(all))
    };
    Ok(Some((read_side(base)?, read_side(new)?)))
}

fn is_of_stat(path: &Path) -> bool {
    let mut start = [0; BEGINNING.len()];
    regular_file::open(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok()) && start == *BEGINNING
}

fn read(path: &Path) -> Result<Vec<CountedCommand>, Failure> {
    let file = File::open(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let file: StatFile = serde_json::from_reader(std::io::BufReader::new(file))
        .map_err(|error| format!("{} is no file of `sprof stat -f json`: {error}", path.display()))?;
    Ok(file.commands)
}

fn side(commands: Vec<CountedCommand>) -> CountedSide {
    let command = commands.first().map_or_else(String::new, |first| {
        let words: Vec<_> = first.command.iter().map(|word| quoted(word)).collect();
        cut(&clean(&words.join(" ")), COMMAND_COLUMNS).to_string()
    });
    let mut measures: BTreeMap<String, CountedMeasure> = BTreeMap::new();
    for (name, measure) in commands.into_iter().flat_map(|command| command.measures) {
        match measures.get_mut(&name) {
            Some(known) => {
                known.user_only |= measure.user_only;
                known.values.extend(measure.values);
            }
            None => {
                measures.insert(name, measure);
            }
        }
    }
    CountedSide { command, measures }
}

impl CountedSide {
    fn about(&self) -> String {
        let runs = self
            .measures
            .values()
            .map(|measure| measure.values.len())
            .max()
            .unwrap_or_default();
        format!("{}: {}", self.command, count(runs as u64, "run", "runs"))
    }
}

impl CountedMeasure {
    fn values(&self) -> Vec<f64> {
        self.values.iter().copied().flatten().collect()
    }

    fn figure(&self, value: f64) -> String {
        match &*self.unit {
            "ns" => time(value / 1e6),
            "bytes" => bytes(value),
            _ => counts(value),
        }
    }
}

/// Checks rules. `p`: of 100 rules that hold, so many may be called broken.
pub(super) fn check(
    (base, new): &(CountedSide, CountedSide),
    rules: &[MeasuredRule],
    p: f64,
) -> Result<OutcomeGroup, Failure> {
    let confidence = 1.0 - 2.0 * p;
    let mut outcomes = Vec::new();
    for MeasuredRule { subject, rule } in rules {
        let (RuleSubject::Chosen, Some(name), LimitedMeasure::Time) = (subject, &rule.function, rule.measure) else {
            return args::refuse(
                "check",
                "files of `sprof stat` have neither functions, spans nor a heap: limit a measure, for example --max-increase wall=5%",
            );
        };
        let known = base.measures.get(name).zip(new.measures.get(name));
        let checked = known
            .filter(|(base, new)| base.user_only == new.user_only)
            .map(|(base, new)| {
                let values = [base.values(), new.values()];
                let runs = values.each_ref().map(Vec::len);
                (
                    base,
                    runs,
                    check_values(&values[0], &values[1], rule.limit_percent / 100.0, p),
                )
            });
        let few = |runs: [usize; 2]| UnknownReason::FewSamples {
            base: runs[0] as u64,
            new: runs[1] as u64,
        };
        let (verdict, reasons, found) = match checked {
            None if known.is_some() => (
                Verdict::Unknown(UnknownReason::NoFunction { before: 1 }),
                vec!["one side has the kernel's code in it, and the other has not".to_owned()],
                None,
            ),
            None => {
                let both = base.measures.keys().filter(|name| new.measures.contains_key(*name));
                let both: Vec<&str> = both.map(String::as_str).collect();
                (
                    Verdict::Unknown(UnknownReason::NoFunction { before: 0 }),
                    vec![format!(
                        "`{}` was not counted on both sides: these have {}",
                        clean(name),
                        clean(&both.join(", "))
                    )],
                    None,
                )
            }
            Some((_, runs, None)) => (
                Verdict::Unknown(few(runs)),
                vec![format!(
                    "{} and {} are too few, a side needs {FEWEST_RUNS}, and ten are better: `{} stat -r 10`",
                    runs[0],
                    count(runs[1] as u64, "run", "runs"),
                    own()
                )],
                None,
            ),
            Some((measure, _, Some((increase, verdict)))) => {
                let sure = range(confidence, increase.range);
                let reason = match verdict {
                    Verdict::Broken => format!(
                        "{name} took {} more: {} -> {} ({sure})",
                        signed_percent(increase.by).trim_start_matches('+'),
                        measure.figure(increase.base),
                        measure.figure(increase.new),
                    ),
                    Verdict::Kept => format!("{} ({sure})", signed_percent(increase.by)),
                    Verdict::Unknown(_) => format!(
                        "an increase far above the limit can't be ruled out: {} ({sure}); count more runs",
                        signed_percent(increase.by)
                    ),
                };
                (verdict, vec![reason], Some(json_increase(&increase)))
            }
        };
        outcomes.push(RuleOutcome {
            rule: format!("{} may take {} % more", clean(name), rule.limit_percent),
            verdict,
            json: json!({
                "function": null,
                "measure": name,
                "of": "count",
                "limit_percent": rule.limit_percent,
                "why": match verdict {
                    Verdict::Unknown(UnknownReason::NoFunction { .. }) => Some("not counted"),
                    Verdict::Unknown(UnknownReason::FewSamples { .. }) => Some("too few runs"),
                    Verdict::Unknown(UnknownReason::TooWide) => Some("too uncertain"),
                    Verdict::Kept | Verdict::Broken => None,
                },
                "found": found.into_iter().collect::<Vec<_>>(),
                "alike": [],
            }),
            reasons,
        });
    }
    Ok(OutcomeGroup {
        about: vec![("base", base.about()), ("checked", new.about())],
        notes: Vec::new(),
        json: json!({"measure": null, "confidence": confidence, "unit": null, "total": null}),
        rules: outcomes,
    })
}
