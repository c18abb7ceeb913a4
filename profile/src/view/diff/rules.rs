//! Rules on increases: kept, broken, or unknown.
//!
//! A rule is broken if the increase is significantly above its limit. A rule is kept if the increase is not, and the
//! recordings could have shown an increase of [`RESOLUTION`] above the limit. Otherwise the rule is unknown: a check
//! must not pass because samples are missing.

use std::collections::BTreeMap;

use super::amounts::Side;
pub use super::estimate::LimitedMeasure;
use super::exact::ExactCosts;
use super::increase::{EstimatePair, Increase};
use super::keys::{self, ComparedKeys};
use super::test::discoveries;
use super::{Compared, DiffLimits, KeyAmount, Sides};
use crate::data::Data;
use crate::view::names;

/// To keep a rule, an increase this far above its limit must be ruled out: a part of the old amount; for a rule with a
/// `*`, of the whole time. A range wholly below the limit would need recordings that differ by less than a third of the
/// limit.
pub const RESOLUTION: f64 = 0.1;
/// As [`RESOLUTION`], for shares: a difference of shares.
pub const RESOLUTION_OF_SHARE: f64 = 0.05;
/// Functions with fewer samples on both sides are not checked: start-up, interrupts and chance. The error of few blocks
/// of memory is known.
pub const FEWEST_SAMPLES: u64 = 30;

/// A limit on an increase.
#[derive(Clone, Debug, PartialEq)]
pub struct IncreaseRule {
    /// A function name as in [`of_name`](names::of_name), or a pattern where `*` is any text. `None`: the whole
    /// program.
    pub function: Option<String>,
    /// Time or share; an amount of memory counts as time.
    pub measure: LimitedMeasure,
    /// Percent of the old time; for shares, percentage points.
    pub limit_percent: f64,
}

/// The result of a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedRule {
    /// The answer.
    pub verdict: Verdict,
    /// The functions that broke it or are unknown; for a rule on one name, that function.
    pub found: Vec<FoundIncrease>,
    /// If no function has the rule's name, or too few samples: other functions whose names contain it, with the larger
    /// of their shares of both sides, largest first.
    pub alike: Vec<(String, f64)>,
}

/// The result of a rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// No increase is significantly above the limit.
    Kept,
    /// An increase is significantly above the limit.
    Broken,
    /// The recordings do not show which.
    Unknown(UnknownReason),
}

/// Why a rule is unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UnknownReason {
    /// No checked function has this name.
    NoFunction {
        /// Functions with this name on the old side.
        before: usize,
    },
    /// Fewer than [`FEWEST_SAMPLES`] on both sides.
    FewSamples {
        /// Before.
        base: u64,
        /// After.
        new: u64,
    },
    /// The recordings could not show an increase far above the limit.
    TooWide,
}

/// The increase of one function, of all functions with one name, or of the whole program.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundIncrease {
    /// The function's name; `None` for the whole program.
    pub function: Option<String>,
    /// Number of functions.
    pub functions: usize,
    /// Samples on both sides; 0 for counts.
    pub samples: (u64, u64),
    /// The increase of time or share.
    pub increase: Increase,
    /// Old and new share of the whole.
    pub shares: (f64, f64),
}

impl IncreaseRule {
    /// True if the rule applies to each matching function separately.
    pub fn is_pattern(&self) -> bool {
        self.function.as_ref().is_some_and(|function| function.contains('*'))
    }

    fn allowed(&self) -> f64 {
        self.limit_percent / 100.0
    }

    fn resolution(&self) -> f64 {
        match self.measure {
            LimitedMeasure::Time => RESOLUTION,
            LimitedMeasure::Share => RESOLUTION_OF_SHARE,
        }
    }

    /// Indices of the names that the rule applies to.
    fn about<'a>(&self, names: impl Iterator<Item = &'a str> + Clone) -> Vec<usize> {
        match &self.function {
            None => Vec::new(),
            Some(pattern) if self.is_pattern() => {
                let matching = names.enumerate().filter(|(_, name)| matches(pattern, name));
                matching.map(|(index, _)| index).collect()
            }
            Some(function) => names::of_name(names, function),
        }
    }
}

/// `*` is any text.
pub(in crate::view) fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
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

/// Checks rules. Both sides hold the same kind of samples or counts.
pub fn check(
    base: &[Data],
    new: &[Data],
    what: Compared,
    rules: &[IncreaseRule],
    limits: DiffLimits,
) -> (Sides, Vec<CheckedRule>) {
    if base.iter().chain(new).any(Data::is_exact) {
        return check_figures(base, new, what, rules, limits);
    }
    let mut keys = ComparedKeys::default();
    let [base_frames, new_frames] = [base, new]
        .map(|side| -> Vec<Vec<u32>> { side.iter().map(|data| keys::of_frames(data, what, &mut keys)).collect() });
    // Keys of paths follow; their functions are those of frame keys.
    let frames = keys.len();
    let about: Vec<Vec<usize>> = (rules.iter())
        .map(|rule| rule.about((0..frames).map(|key| keys.function(key))))
        .collect();
    for (number, (rule, about)) in rules.iter().zip(&about).enumerate() {
        if !rule.is_pattern() {
            keys.add_group(number, about);
        }
    }
    let sides = SampledSides {
        base: Side::of_frames(base, base_frames, what, &mut keys),
        new: Side::of_frames(new, new_frames, what, &mut keys),
        keys,
        limits,
    };
    let checked = rules.iter().zip(about).enumerate();
    let checked = checked.map(|(number, (rule, about))| match (&rule.function, rule.is_pattern()) {
        (Some(_), true) => sides.check_each(rule),
        (Some(name), false) => sides.check_group(rule, name, number, &about),
        (None, _) => sides.check_one(rule, None, None, 1),
    });
    let checked = checked.collect();
    // Each end of a range has the error rate at which a kept rule may be called broken.
    let confidence = 1.0 - 2.0 * limits.false_discoveries;
    (Sides::new(&sides.base, &sides.new, base, confidence), checked)
}

struct SampledSides {
    keys: ComparedKeys,
    base: Side,
    new: Side,
    limits: DiffLimits,
}

impl SampledSides {
    /// Checks all functions of a name as one: the time with any of them on the stack.
    fn check_group(&self, rule: &IncreaseRule, name: &str, number: usize, members: &[usize]) -> CheckedRule {
        let seen = |side: &Side| members.iter().filter(|key| side.amount(**key).samples > 0).count();
        let (before, after) = (seen(&self.base), seen(&self.new));
        if after == 0 {
            return CheckedRule {
                verdict: Verdict::Unknown(UnknownReason::NoFunction { before }),
                found: Vec::new(),
                alike: self.alike(name, members),
            };
        }
        let asked = name;
        let mut functions: Vec<&str> = members.iter().map(|key| self.keys.function(*key)).collect();
        functions.sort_unstable();
        functions.dedup();
        let name = match functions.as_slice() {
            [only] => only,
            _ => name,
        };
        let checked = self.check_one(rule, Some(keys::group(number)), Some(name), functions.len());
        let alike = match checked.verdict {
            Verdict::Unknown(UnknownReason::FewSamples { .. }) => self.alike(asked, members),
            _ => Vec::new(),
        };
        CheckedRule { alike, ..checked }
    }

    /// Other functions whose names contain this text: see [`CheckedRule::alike`].
    fn alike(&self, name: &str, members: &[usize]) -> Vec<(String, f64)> {
        let keys = (0..self.keys.len()).filter(|key| !members.contains(key));
        let share = |key: usize| self.base.amount(key).share.max(self.new.amount(key).share);
        let found = keys.map(|key| (self.keys.function(key), share(key)));
        largest(found.filter(|(function, share)| function.contains(name) && *share > 0.0))
    }

    fn check_one(&self, rule: &IncreaseRule, key: Option<usize>, name: Option<&str>, functions: usize) -> CheckedRule {
        let pair = EstimatePair::new(&self.base, &self.new, key, rule.measure);
        let found = self.found(key, name.map(str::to_owned), functions, &pair);
        let p = self.limits.false_discoveries;
        let (base, new) = found.samples;
        let is_few = base.max(new) < FEWEST_SAMPLES;
        let verdict = if is_few && !self.base.is_heap {
            Verdict::Unknown(UnknownReason::FewSamples { base, new })
        } else if pair.p_above(rule.allowed(), 0.0) <= p {
            Verdict::Broken
        } else if found.increase.range.1 <= rule.allowed() + rule.resolution() {
            Verdict::Kept
        } else if is_few {
            Verdict::Unknown(UnknownReason::FewSamples { base, new })
        } else {
            Verdict::Unknown(UnknownReason::TooWide)
        };
        CheckedRule {
            verdict,
            found: vec![found],
            alike: Vec::new(),
        }
    }

    /// Checks each matching function separately.
    fn check_each(&self, rule: &IncreaseRule) -> CheckedRule {
        let whole = match rule.measure {
            LimitedMeasure::Time => {
                EstimatePair::new(&self.base, &self.new, None, LimitedMeasure::Time)
                    .means()
                    .0
            }
            LimitedMeasure::Share => 1.0,
        };
        // A function below this amount cannot have increased by as much.
        let least = self.limits.least_change * whole;
        let (mut seen, mut gone) = (0, 0);
        let mut tested: Vec<(f64, usize, EstimatePair)> = Vec::new();
        for key in (0..self.keys.len()).filter(|key| self.is_about(rule, *key)) {
            let samples = [&self.base, &self.new].map(|side| side.amount(key).samples);
            seen += usize::from(samples[1] > 0);
            gone += usize::from(samples[1] == 0 && samples[0] > 0);
            let pair = EstimatePair::new(&self.base, &self.new, Some(key), rule.measure);
            if samples[1] == 0 || pair.means().1 < least {
                continue;
            }
            let p = match samples.iter().max() {
                Some(samples) if *samples >= FEWEST_SAMPLES || self.base.is_heap => {
                    pair.p_above(rule.allowed(), 0.0).max(pair.p_above(0.0, least))
                }
                _ => 1.0,
            };
            tested.push((p, key, pair));
        }
        if seen == 0 {
            return CheckedRule {
                verdict: Verdict::Unknown(UnknownReason::NoFunction { before: gone }),
                found: Vec::new(),
                alike: Vec::new(),
            };
        }
        tested.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
        let p = self.limits.false_discoveries;
        let broken = discoveries(tested.iter().map(|(p, ..)| *p), p);
        let is_wide = |pair: &EstimatePair| pair.most_beyond(rule.allowed(), p) > rule.resolution() * whole;
        let (verdict, found): (_, Vec<_>) = match broken {
            0 => {
                let wide: Vec<_> = tested.iter().filter(|(.., pair)| is_wide(pair)).collect();
                let verdict = match (wide.is_empty(), self.base.samples().max(self.new.samples())) {
                    (true, _) if self.base.is_heap => Verdict::Kept,
                    (_, samples) if samples < FEWEST_SAMPLES => Verdict::Unknown(UnknownReason::FewSamples {
                        base: self.base.samples(),
                        new: self.new.samples(),
                    }),
                    (true, _) => Verdict::Kept,
                    (false, _) => Verdict::Unknown(UnknownReason::TooWide),
                };
                (verdict, wide)
            }
            _ => (Verdict::Broken, tested[..broken].iter().collect()),
        };
        let mut found: Vec<FoundIncrease> = (found.into_iter())
            .map(|(_, key, pair)| self.found(Some(*key), Some(self.keys.function(*key).to_owned()), 1, pair))
            .collect();
        // Largest increase first.
        let more = |found: &FoundIncrease| found.increase.new - found.increase.base;
        found.sort_by(|a, b| more(b).total_cmp(&more(a)).then_with(|| a.function.cmp(&b.function)));
        CheckedRule {
            verdict,
            found,
            alike: Vec::new(),
        }
    }

    fn is_about(&self, rule: &IncreaseRule, key: usize) -> bool {
        (rule.function.as_ref()).is_some_and(|pattern| matches(pattern, self.keys.function(key)))
    }

    fn found(
        &self,
        key: Option<usize>,
        function: Option<String>,
        functions: usize,
        pair: &EstimatePair,
    ) -> FoundIncrease {
        let amount = |side: &Side| match key {
            Some(key) => {
                let amount = side.amount(key);
                (amount.samples, amount.share)
            }
            None => (side.samples(), 1.0),
        };
        let ((base_samples, base_share), (new_samples, new_share)) = (amount(&self.base), amount(&self.new));
        FoundIncrease {
            function,
            functions,
            samples: (base_samples, new_samples),
            increase: pair.increase(self.limits.false_discoveries),
            shares: (base_share, new_share),
        }
    }
}

/// Each function once, with its largest share, largest first.
fn largest<'a>(found: impl Iterator<Item = (&'a str, f64)>) -> Vec<(String, f64)> {
    let mut shares: BTreeMap<&str, f64> = BTreeMap::new();
    for (function, share) in found {
        let known = shares.entry(function).or_default();
        *known = known.max(share);
    }
    let mut found: Vec<(String, f64)> = shares
        .into_iter()
        .map(|(name, share)| (name.to_owned(), share))
        .collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    found
}

/// Compares other profilers' counts exactly. Each function is checked separately, and each rule is kept or broken.
fn check_figures(
    base: &[Data],
    new: &[Data],
    what: Compared,
    rules: &[IncreaseRule],
    limits: DiffLimits,
) -> (Sides, Vec<CheckedRule>) {
    let mut keys = ComparedKeys::default();
    let files = [base, new];
    let (base, new) = (
        ExactCosts::new(base, what, &mut keys),
        ExactCosts::new(new, what, &mut keys),
    );
    let names = || (0..keys.len()).map(|key| keys.function(key));
    let whole = base.total.per_run.max(new.total.per_run);
    let checked = rules.iter().map(|rule| {
        let found = |key: Option<usize>| {
            let [before, after] = [&base, &new].map(|side| match key {
                Some(key) => side.amount(key),
                None => KeyAmount {
                    samples: 0,
                    share: 1.0,
                    per_run: side.total.per_run,
                },
            });
            FoundIncrease {
                function: key.map(|key| keys.function(key).to_owned()),
                functions: 1,
                samples: (0, 0),
                increase: match rule.measure {
                    LimitedMeasure::Time => Increase::of_time(before.per_run, after.per_run),
                    LimitedMeasure::Share => Increase::of_share(before.share, after.share),
                },
                shares: (before.share, after.share),
            }
        };
        let all: Vec<FoundIncrease> = match rule.function {
            None => vec![found(None)],
            Some(_) => rule.about(names()).into_iter().map(|key| found(Some(key))).collect(),
        };
        let is_there = |found: &FoundIncrease| found.shares.1 != 0.0 || found.function.is_none();
        let least = match (rule.is_pattern(), rule.measure) {
            (false, _) => 0.0,
            (true, LimitedMeasure::Time) => limits.least_change * whole,
            (true, LimitedMeasure::Share) => limits.least_change,
        };
        let is_broken = |found: &FoundIncrease| {
            let Increase { base, new, by, .. } = found.increase;
            by > rule.allowed() && new - base >= least
        };
        let alike = |name: &String| {
            let share = |key: usize| base.amount(key).share.max(new.amount(key).share);
            let found = names()
                .enumerate()
                .filter(|(_, function)| function.contains(name.as_str()));
            largest(found.map(|(key, function)| (function, share(key))))
        };
        if !all.iter().any(is_there) {
            return CheckedRule {
                verdict: Verdict::Unknown(UnknownReason::NoFunction {
                    before: all.iter().filter(|found| found.shares.0 != 0.0).count(),
                }),
                found: Vec::new(),
                alike: rule.function.as_ref().map_or_else(Vec::new, alike),
            };
        }
        let (broken, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(is_broken);
        let only = if kept.len() == 1 { kept } else { Vec::new() };
        match broken.is_empty() {
            false => CheckedRule {
                verdict: Verdict::Broken,
                found: broken,
                alike: Vec::new(),
            },
            true => CheckedRule {
                verdict: Verdict::Kept,
                found: only,
                alike: Vec::new(),
            },
        }
    });
    let checked = checked.collect();
    (Sides::exact(base.total, new.total, files), checked)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name) in [
            ("parse*", "parse"),
            ("parse*", "parse::json"),
            ("*::json", "parse::json"),
            ("a*b*c", "a1b2c"),
            ("a*b*c", "abbc"),
            ("*", ""),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("*::json", "json"), ("a*b*c", "acb"), ("aa*aa", "aaa")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
