//! How a program's time falls with the number of threads that it is given, for the same work.
//!
//! With `n` threads it takes `T(1) * (1 + serial * (n - 1) + crosstalk * n * (n - 1)) / n`. The serial part has one
//! thread whatever `n` is (Amdahl 1967, doi:10.1145/1465482.1465560). Crosstalk is what each thread costs each other
//! one, and makes more threads slower in the end (the Universal Scalability Law: Gunther 2007,
//! doi:10.1007/978-3-540-31010-5).

use super::diff::values::Mean;

/// Series of runs that the ranges come from, each drawn anew from the runs.
const DRAWS: usize = 1000;
/// The part of the draws beyond either end of a range.
const BEYOND: f64 = 0.025;
/// Means that are so far from the curve follow another one: as a part of the mean, and in standard errors.
const WIDE: f64 = 0.05;
const FAR: f64 = 5.0;

/// A number and the range that has the truth in 95 of 100 cases, as far as the law holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranged {
    /// The best guess.
    pub value: f64,
    /// Lower and upper end.
    pub range: (f64, f64),
}

/// What the times show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaling {
    /// The part of the work that one thread does alone, 0 to 1.
    pub serial: Ranged,
    /// What each thread costs each other one, as a part of the work. `None`: fewer than four numbers of threads do not
    /// show it.
    pub crosstalk: Option<Ranged>,
    /// The number of threads with which it is fastest. `None`: more are always faster, as far as the times show.
    pub best: Option<Ranged>,
    /// The means could be off the curve, and are not. With two numbers of threads they can't be.
    pub is_checked: bool,
}

/// Why times show no such law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NoScaling {
    /// There are fewer than two numbers of threads, or fewer than two runs with one of them.
    TooLittle,
    /// The mean with this many threads is off the curve by this part.
    Off(f64, f64),
}

/// Fits the law to the times of runs, by number of threads. Each number stands once.
///
/// # Errors
///
/// The times show no such law.
pub fn scaling(runs: &[(f64, &[f64])]) -> Result<Scaling, NoScaling> {
    // The equations below are of numbers near 1.
    let unit = { runs.iter() }
        .find_map(|(_, times)| Mean::of(times))
        .map_or(1.0, |mean| mean.value);
    let means: Vec<Point> = { runs.iter() }
        .filter_map(|(threads, times)| Point::of(*threads, times, unit))
        .collect();
    if means.len() < 2 || means.len() < runs.len() {
        return Err(NoScaling::TooLittle);
    }
    let has_crosstalk = means.len() >= 4;
    let fit = Law::fit(&means, has_crosstalk).ok_or(NoScaling::TooLittle)?;
    for point in &means {
        let off = point.time / fit.time(point.threads) - 1.0;
        if off.abs() > WIDE && off.abs() * point.time > FAR * point.error {
            return Err(NoScaling::Off(point.threads, off));
        }
    }
    let mut chance = Chance(runs.len() as u64);
    let draws: Vec<Law> = (0..DRAWS)
        .filter_map(|_| {
            let drawn: Vec<Point> = { runs.iter() }
                .filter_map(|(threads, times)| Point::of(*threads, &chance.draw(times), unit))
                .collect();
            Law::fit(&drawn, has_crosstalk)
        })
        .collect();
    let ranged = |of: &dyn Fn(&Law) -> f64| {
        let mut all: Vec<f64> = draws.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        let last = all.len().saturating_sub(1) as f64;
        let at = |part: f64| all.get((part * last).round() as usize).copied().unwrap_or(f64::NAN);
        Ranged {
            value: of(&fit),
            range: (at(BEYOND), at(1.0 - BEYOND)),
        }
    };
    let best = ranged(&Law::best);
    Ok(Scaling {
        serial: ranged(&|law| law.serial),
        crosstalk: has_crosstalk.then(|| ranged(&|law| law.crosstalk)),
        best: best.value.is_finite().then_some(best),
        is_checked: means.len() > if has_crosstalk { 3 } else { 2 },
    })
}

#[derive(Clone, Copy, Debug)]
struct Point {
    threads: f64,
    time: f64,
    error: f64,
}

impl Point {
    fn of(threads: f64, times: &[f64], unit: f64) -> Option<Point> {
        let mean = Mean::of(times).filter(|mean| mean.value > 0.0)?;
        Some(Point {
            threads,
            time: mean.value / unit,
            error: mean.error / unit,
        })
    }
}

#[derive(Clone, Copy, Debug)]
struct Law {
    one: f64,
    serial: f64,
    crosstalk: f64,
}

impl Law {
    fn time(&self, threads: f64) -> f64 {
        let more = threads - 1.0;
        self.one * (1.0 + self.serial * more + self.crosstalk * threads * more) / threads
    }

    /// Infinite if there is no crosstalk.
    fn best(&self) -> f64 {
        ((1.0 - self.serial).max(0.0) / self.crosstalk).sqrt().max(1.0)
    }

    /// `threads * time` is linear in what is sought: the least squares of its relative error. Neither part is negative,
    /// so where it would be, it is 0.
    fn fit(points: &[Point], has_crosstalk: bool) -> Option<Law> {
        let choices: &[[bool; 2]] = match has_crosstalk {
            true => &[[true, true], [true, false], [false, true], [false, false]],
            false => &[[true, false], [false, false]],
        };
        let fits = choices.iter().filter_map(|[serial, crosstalk]| {
            let mut sums = [[0.0; 4]; 3];
            for point in points {
                let (threads, more) = (point.threads, point.threads - 1.0);
                let whole = threads * point.time;
                let of = |is_sought: &bool, value: f64| if *is_sought { value / whole } else { 0.0 };
                let row = [1.0 / whole, of(serial, more), of(crosstalk, threads * more), 1.0];
                for (sums, factor) in sums.iter_mut().zip(row) {
                    for (sum, value) in sums.iter_mut().zip(row) {
                        *sum += factor * value;
                    }
                }
            }
            for (at, is_sought) in [(1, serial), (2, crosstalk)] {
                if !is_sought {
                    sums[at][at] = 1.0;
                }
            }
            let [one, serial, crosstalk] = solve(sums)?;
            let law = Law {
                one,
                serial: serial / one,
                crosstalk: crosstalk / one,
            };
            let is_law = one > 0.0 && law.serial >= 0.0 && law.crosstalk >= 0.0;
            let off: f64 = { points.iter() }
                .map(|point| (law.time(point.threads) / point.time - 1.0).powi(2))
                .sum();
            is_law.then_some((law, off))
        });
        let best = fits.min_by(|(_, a), (_, b)| a.total_cmp(b));
        // More than all of the work is none of a law: threads make it slower at once.
        best.map(|(law, _)| law)
    }
}

/// Three equations, by elimination with the largest pivot. `None` if they do not decide.
fn solve(mut rows: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    let scale = rows
        .iter()
        .flatten()
        .fold(0.0, |most: f64, value| most.max(value.abs()));
    for at in 0..3 {
        let pivot = (at..3).max_by(|a, b| rows[*a][at].abs().total_cmp(&rows[*b][at].abs()))?;
        rows.swap(at, pivot);
        let lead = rows[at];
        if lead[at].abs() <= 1e-14 * scale {
            return None;
        }
        for row in rows
            .iter_mut()
            .enumerate()
            .filter(|(other, _)| *other != at)
            .map(|(_, row)| row)
        {
            let factor = row[at] / lead[at];
            for (value, of_lead) in row.iter_mut().zip(lead) {
                *value -= factor * of_lead;
            }
        }
    }
    Some([0, 1, 2].map(|at| rows[at][3] / rows[at][at]))
}

/// Numbers by chance, the same for the same input.
pub(super) struct Chance(pub(super) u64);

impl Chance {
    /// splitmix64 (Steele, Lea, Flood 2014, doi:10.1145/2660193.2660195).
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// From 0 to 1.
    #[cfg(test)]
    pub(super) fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// With a mean of 0 and a deviation of 1, nearly normal.
    #[cfg(test)]
    pub(super) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.part()).sum::<f64>() - 6.0
    }

    /// As many of the numbers, each drawn from all.
    fn draw(&mut self, from: &[f64]) -> Vec<f64> {
        let one = |_| from[(self.next() % from.len() as u64) as usize];
        from.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs by a law, with a deviation of 1 %.
    fn runs(law: Law, threads: &[f64], number: usize) -> Vec<(f64, Vec<f64>)> {
        let mut chance = Chance((1e6 * (law.serial + law.crosstalk)) as u64 + number as u64);
        let mut time = |threads: f64| law.time(threads) * (1.0 + 0.01 * chance.normal());
        threads
            .iter()
            .map(|n| (*n, (0..number).map(|_| time(*n)).collect()))
            .collect()
    }

    fn found(law: Law, threads: &[f64], number: usize) -> Result<Scaling, NoScaling> {
        let runs = runs(law, threads, number);
        let runs: Vec<(f64, &[f64])> = runs.iter().map(|(threads, times)| (*threads, &times[..])).collect();
        scaling(&runs)
    }

    fn law(serial: f64, crosstalk: f64) -> Law {
        Law {
            // ns.
            one: 3e9,
            serial,
            crosstalk,
        }
    }

    const TO_64: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

    /// True if the range has the truth, a little widened: the ranges of ten runs are a little narrow.
    fn has(found: Ranged, truth: f64) -> bool {
        let (low, high) = found.range;
        let margin = 0.75 * (high - low) + 1e-12;
        (low - margin..=high + margin).contains(&truth)
    }

    #[test]
    fn the_serial_part_and_the_crosstalk_are_found() {
        for serial in [0.0, 0.02, 0.1, 0.5] {
            for crosstalk in [0.0, 0.0005, 0.01] {
                let found = found(law(serial, crosstalk), &TO_64, 10).unwrap();
                assert!(has(found.serial, serial), "{serial} {crosstalk}: {found:?}");
                assert!(
                    has(found.crosstalk.unwrap(), crosstalk),
                    "{serial} {crosstalk}: {found:?}"
                );
                assert!((found.serial.value - serial).abs() < 0.01 && found.is_checked);
                if crosstalk > 0.0 {
                    let best = ((1.0 - serial) / crosstalk).sqrt();
                    assert!(has(found.best.unwrap(), best), "{best}: {found:?}");
                }
            }
        }
    }

    #[test]
    fn two_numbers_of_threads_show_the_serial_part_alone_and_check_nothing() {
        for serial in [0.0, 0.1, 0.5] {
            let found = found(law(serial, 0.0), &[1.0, 2.0], 20).unwrap();
            assert!(has(found.serial, serial), "{serial}: {found:?}");
            assert_eq!((found.crosstalk, found.best, found.is_checked), (None, None, false));
        }
    }

    #[test]
    fn times_of_another_law_and_too_few_are_refused() {
        // As fast with 16 as with 4: four CPUs.
        let mut times = runs(law(0.0, 0.0), &TO_64, 10);
        for (threads, times) in &mut times {
            let lost = (*threads / 4.0).max(1.0);
            times.iter_mut().for_each(|time| *time *= lost);
        }
        let times: Vec<(f64, &[f64])> = times.iter().map(|(threads, times)| (*threads, &times[..])).collect();
        assert!(
            matches!(scaling(&times), Err(NoScaling::Off(..))),
            "{:?}",
            scaling(&times)
        );
        assert_eq!(found(law(0.1, 0.0), &[2.0], 10), Err(NoScaling::TooLittle));
        assert_eq!(found(law(0.1, 0.0), &[1.0, 2.0], 1), Err(NoScaling::TooLittle));
        assert_eq!(scaling(&[]), Err(NoScaling::TooLittle));
    }
}
