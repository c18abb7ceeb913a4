//! What runs of programs take, and how programs differ in it.

pub(crate) mod of_cargo;
mod text;

pub(crate) use text::{markdown, text};

use std::collections::BTreeSet;

use profile::text::numbers::number_json;
use profile::view::diff::values::{ValueDifference, compare_values};
use profile::view::scaling::{NoScaling, Ranged, Scaling, scaling};
use recording::counting::{CountedRun, Measure, MeasureUnit, Missing, Reading};
use serde_json::{Value, json};

/// Runs after which `--until-sure` looks first: of fewer, only large differences can be certain.
const FIRST_LOOK: u32 = 16;

/// Names and values in a command.
pub(crate) type Parameters = Vec<(String, String)>;

/// The runs of one program that count.
#[derive(Debug, Default)]
pub(crate) struct ProgramRuns {
    pub(crate) command: Vec<String>,
    /// Names what ran already when counting began.
    pub(crate) title: Option<String>,
    /// Of cargo: the programs that it ran, most in a run.
    pub(crate) programs_of_cargo: Option<usize>,
    pub(crate) parameters: Parameters,
    pub(crate) runs: Vec<CountedRun>,
}

impl ProgramRuns {
    fn readings(&self, measure: Measure) -> impl Iterator<Item = &Reading> {
        let readings = self.runs.iter().flat_map(|run| &run.readings);
        readings.filter(move |reading| reading.measure == measure)
    }

    fn values(&self, measure: Measure) -> Vec<f64> {
        self.readings(measure).map(|reading| reading.value).collect()
    }

    fn median(&self, measure: Measure) -> Option<f64> {
        Quartiles::of(&self.values(measure)).map(|quartiles| quartiles.median)
    }

    /// The name of a measure; as in perf, `:u` is of user code alone.
    fn name(&self, measure: Measure) -> String {
        let user_only = self.readings(measure).any(|reading| reading.user_only);
        format!("{}{}", measure.name(), if user_only { ":u" } else { "" })
    }

    /// True if some of it may not have been seen.
    fn is_at_least(&self, measure: Measure) -> bool {
        self.readings(measure).any(|reading| reading.at_least)
    }

    /// The least part of the time in which a measure was counted.
    fn counted(&self, measure: Measure) -> f64 {
        let counted = self.readings(measure).map(|reading| reading.counted);
        counted.fold(1.0, f64::min)
    }

    /// Runs whose wall time is far above the others': above the median by more than a tenth and by five times what the
    /// runs usually differ by.
    fn late(&self) -> Vec<f64> {
        let values = self.values(Measure::Wall);
        let Some(quartiles) = Quartiles::of(&values).filter(|_| values.len() >= 5) else {
            return Vec::new();
        };
        let distances: Vec<f64> = values.iter().map(|value| (value - quartiles.median).abs()).collect();
        // 1.4826 times the median of the distances is the standard deviation of a normal distribution.
        let usual = Quartiles::of(&distances).map_or(0.0, |distances| 1.4826 * distances.median);
        let limit = quartiles.median + (5.0 * usual).max(0.1 * quartiles.median);
        values.into_iter().filter(|value| *value > limit).collect()
    }
}

/// The values that a quarter, a half and three quarters of all do not exceed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Quartiles {
    low: f64,
    median: f64,
    high: f64,
}

impl Quartiles {
    /// Between two values, in proportion. `None` without a value.
    fn of(values: &[f64]) -> Option<Quartiles> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |part: f64| {
            let place = part * (sorted.len().checked_sub(1)? as f64);
            let (below, above) = (sorted.get(place.floor() as usize)?, sorted.get(place.ceil() as usize)?);
            Some(below + (above - below) * place.fract())
        };
        Some(Quartiles {
            low: at(0.25)?,
            median: at(0.5)?,
            high: at(0.75)?,
        })
    }
}

/// A difference between the first program and another one.
struct Difference {
    measure: Measure,
    /// The other one, from 1.
    against: usize,
    difference: ValueDifference,
}

/// Programs whose runs were taken in turn, the one in question first.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) programs: Vec<ProgramRuns>,
    /// The parameter that is a number of threads.
    pub(crate) concurrency: Option<String>,
    /// From the first to the last of the runs, ns.
    pub(crate) took_ns: u64,
    pub(crate) cpus: usize,
    /// What `--until-sure` is to be sure of.
    pub(crate) until_sure: Option<UntilSure>,
}

/// Ends runs as soon as it is known whether programs differ.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UntilSure {
    /// The least difference that matters: 0.01 is 1 %.
    least: f64,
    /// Numbers of runs after which it looks.
    looks: Vec<u32>,
}

impl UntilSure {
    pub(crate) fn new(least: f64, most_runs: u32) -> UntilSure {
        let looks = std::iter::successors(Some(FIRST_LOOK), |runs| runs.checked_mul(2));
        UntilSure {
            least,
            looks: looks.take_while(|runs| *runs < most_runs).chain([most_runs]).collect(),
        }
    }
}

impl Counted {
    pub(crate) fn new(concurrency: Option<String>, until_sure: Option<UntilSure>) -> Counted {
        Counted {
            programs: Vec::new(),
            concurrency,
            took_ns: 0,
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            until_sure,
        }
    }

    /// True if it is time to look, and each program is known to differ in wall time and in CPU time, or not to differ
    /// by as much as matters.
    pub(crate) fn is_sure_after(&self, runs: u32) -> bool {
        self.until_sure
            .as_ref()
            .is_some_and(|until| until.looks.contains(&runs))
            && self.is_sure()
    }

    /// False without `--until-sure`.
    fn is_sure(&self) -> bool {
        let Some(UntilSure { least, .. }) = self.until_sure else {
            return false;
        };
        let differences = self.differences();
        let of_time = |found: &&Difference| matches!(found.measure, Measure::Wall | Measure::TaskClock);
        let is_known = |found: &Difference| {
            found.difference.is_certain || found.difference.detectable.is_some_and(|part| part <= least)
        };
        !differences.is_empty() && differences.iter().filter(of_time).all(is_known)
    }

    /// All that any of the programs has.
    fn measures(&self) -> BTreeSet<Measure> {
        let runs = self.programs.iter().flat_map(|program| &program.runs);
        runs.flat_map(|run| &run.readings)
            .map(|reading| reading.measure)
            .collect()
    }

    /// What no run has, with the reasons.
    fn missing(&self) -> Vec<Missing> {
        let mut all: Vec<Missing> = Vec::new();
        for missing in self
            .programs
            .iter()
            .flat_map(|program| &program.runs)
            .flat_map(|run| &run.missing)
        {
            if !all.contains(missing) {
                all.push(missing.clone());
            }
        }
        all
    }

    /// True if the programs are one, with several values of parameters.
    fn has_parameters(&self) -> bool {
        self.programs.iter().any(|program| !program.parameters.is_empty())
    }

    /// How the time of each program falls with the number of threads: its other parameters, and what the times show.
    fn scalings(&self) -> Vec<(Parameters, Result<Scaling, NoScaling>)> {
        let Some(name) = &self.concurrency else {
            return Vec::new();
        };
        type Series = Vec<(f64, Vec<f64>)>;
        let mut groups: Vec<(Parameters, Series)> = Vec::new();
        for program in &self.programs {
            let (threads, others): (Vec<_>, Vec<_>) =
                { program.parameters.iter().cloned() }.partition(|(of, _)| of == name);
            let number = threads.first().and_then(|(_, value)| value.parse().ok());
            // More threads than CPUs wait for each other, whatever the program does.
            let Some(number) = number.filter(|number| *number <= self.cpus as f64) else {
                continue;
            };
            let series = (number, program.values(Measure::Wall));
            match groups.iter_mut().find(|(group, _)| *group == others) {
                Some((_, runs)) => runs.push(series),
                None => groups.push((others, vec![series])),
            }
        }
        let fit = |(others, runs): (Parameters, Series)| {
            let runs: Vec<(f64, &[f64])> = runs.iter().map(|(threads, times)| (*threads, &times[..])).collect();
            (others, scaling(&runs))
        };
        groups.into_iter().map(fit).collect()
    }

    /// Measures of the first program and another one, tested together.
    fn differences(&self) -> Vec<Difference> {
        let Some((first, others)) = self.programs.split_first().filter(|_| !self.has_parameters()) else {
            return Vec::new();
        };
        let mut all = Vec::new();
        for (at, other) in others.iter().enumerate() {
            // How long an exec takes is no matter of the program.
            let measures = self.measures().into_iter().filter(|measure| *measure != Measure::Start);
            let series: Vec<(Measure, Vec<f64>, Vec<f64>)> = measures
                .map(|measure| (measure, other.values(measure), first.values(measure)))
                .collect();
            let pairs: Vec<(&[f64], &[f64])> = series.iter().map(|(_, old, new)| (&old[..], &new[..])).collect();
            let looks = self.until_sure.as_ref().map_or(1, |until| until.looks.len());
            let found = compare_values(&pairs, looks).into_iter().zip(&series);
            all.extend(found.filter_map(|(difference, (measure, _, _))| {
                Some(Difference {
                    measure: *measure,
                    against: at + 1,
                    difference: difference?,
                })
            }));
        }
        all
    }

    /// The share of the machine's CPU time that its host took.
    fn stolen(&self) -> f64 {
        let runs = self.programs.iter().flat_map(|program| &program.runs);
        let stolen: u64 = runs.map(|run| run.stolen_ns).sum();
        stolen as f64 / (self.took_ns.max(1) as f64 * self.cpus.max(1) as f64)
    }

    /// See docs/json.md.
    pub(crate) fn json(&self) -> Value {
        let number = |value: f64| {
            if value.is_finite() {
                number_json(value)
            } else {
                Value::Null
            }
        };
        let commands = self.programs.iter().map(|program| {
            let measures = self.measures().into_iter().filter_map(|measure| {
                let values = program.values(measure);
                let quartiles = Quartiles::of(&values)?;
                let values: Vec<Value> = values.into_iter().map(number).collect();
                let mut entry = json!({
                    "unit": match measure.unit() {
                        MeasureUnit::Nanoseconds => "ns",
                        MeasureUnit::Bytes => "bytes",
                        MeasureUnit::Count => "count",
                    },
                    "median": number(quartiles.median),
                    "low": number(quartiles.low),
                    "high": number(quartiles.high),
                    "values": values,
                });
                if program.readings(measure).any(|reading| reading.user_only) {
                    entry["user_only"] = true.into();
                }
                if program.is_at_least(measure) {
                    entry["at_least"] = true.into();
                }
                if program.counted(measure) < 1.0 {
                    entry["counted"] = number(program.counted(measure));
                }
                Some((measure.name().to_owned(), entry))
            });
            let mut command = json!({
                "command": program.command,
                "runs": program.runs.len(),
                "measures": measures.collect::<serde_json::Map<String, Value>>(),
            });
            if let Some(programs) = program.programs_of_cargo {
                command["programs"] = programs.into();
            }
            if !program.parameters.is_empty() {
                command["parameters"] = json_of(&program.parameters);
            }
            command
        });
        let ranged = |found: Ranged| json!({"value": number(found.value), "low": number(found.range.0), "high": number(found.range.1)});
        let scalings = self.scalings().into_iter().map(|(parameters, found)| match found {
            Ok(found) => json!({
                "parameters": json_of(&parameters),
                "serial": ranged(found.serial),
                "crosstalk": found.crosstalk.map(ranged),
                "best": found.best.map(ranged),
                "checked": found.is_checked,
            }),
            Err(_) => json!({"parameters": json_of(&parameters), "serial": null}),
        });
        let differences = self.differences().into_iter().map(|found| {
            let Difference {
                measure,
                against,
                difference,
            } = found;
            json!({
                "measure": measure.name(),
                "against": against,
                "relative": number(difference.relative),
                "low": number(difference.range.0),
                "high": number(difference.range.1),
                "certain": difference.is_certain,
                "detectable": difference.detectable.map(number),
            })
        });
        let missing = self.missing().into_iter().map(|missing| {
            let names: Vec<&str> = missing.measures.iter().map(|measure| measure.name()).collect();
            json!({"measures": names, "reason": missing.reason})
        });
        json!({
            "commands": commands.collect::<Vec<Value>>(),
            "differences": differences.collect::<Vec<Value>>(),
            "scaling": scalings.collect::<Vec<Value>>(),
            "missing": missing.collect::<Vec<Value>>(),
            "stolen": number(self.stolen()),
        })
    }
}

fn json_of(parameters: &[(String, String)]) -> Value {
    let entries = parameters
        .iter()
        .map(|(name, value)| (name.clone(), Value::from(value.as_str())));
    Value::Object(entries.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_values() {
        let of = |values: &[f64]| Quartiles::of(values).map(|found| [found.low, found.median, found.high]);
        assert_eq!(of(&[3.0]), Some([3.0; 3]));
        assert_eq!(of(&[4.0, 2.0]), Some([2.5, 3.0, 3.5]));
        assert_eq!(of(&[5.0, 1.0, 2.0, 4.0, 3.0]), Some([2.0, 3.0, 4.0]));
        assert_eq!(of(&[]), None);
    }

    /// Two programs with these runs of wall time, as `--until-sure` leaves them.
    fn until_sure(chance: &mut impl FnMut(f64) -> f64, factor: f64) -> Counted {
        let mut counted = Counted {
            programs: vec![ProgramRuns::default(), ProgramRuns::default()],
            concurrency: None,
            took_ns: 1,
            cpus: 1,
            until_sure: Some(UntilSure::new(0.01, 200)),
        };
        for runs in 1..=200 {
            for (program, factor) in counted.programs.iter_mut().zip([factor, 1.0]) {
                program.runs.push(CountedRun {
                    exit: recording::session::ProgramExit::Code(0),
                    readings: vec![Reading {
                        measure: Measure::Wall,
                        value: chance(factor),
                        counted: 1.0,
                        user_only: false,
                        at_least: false,
                    }],
                    missing: Vec::new(),
                    stolen_ns: 0,
                    is_interrupted: false,
                });
            }
            if counted.is_sure_after(runs) {
                break;
            }
        }
        counted
    }

    #[test]
    fn who_looks_several_times_finds_no_more_by_chance() {
        // The sum of twelve even chances is nearly normal, with a deviation of 1.
        let mut state = 1_u64;
        let mut even = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut time = |factor: f64| factor * 1e9 * (1.0 + 0.01 * ((0..12).map(|_| even()).sum::<f64>() - 6.0));
        let is_certain = |counted: &Counted| counted.differences().iter().any(|found| found.difference.is_certain);
        let equal: Vec<Counted> = (0..300).map(|_| until_sure(&mut time, 1.0)).collect();
        // 300 * 0.01, and five times the square root.
        let found = equal.iter().filter(|counted| is_certain(counted)).count();
        assert!(found <= 11, "{found} of 300 equal programs differ");
        assert!(equal.iter().all(Counted::is_sure), "200 runs show a difference of 1 %");
        let slower: Vec<Counted> = (0..100).map(|_| until_sure(&mut time, 1.05)).collect();
        assert!(
            slower
                .iter()
                .all(|counted| is_certain(counted) && counted.programs[0].runs.len() <= 64)
        );
    }
}
