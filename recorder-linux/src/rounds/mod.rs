//! Rounds: when the recorder empties the ring buffers, and what it does then.
//!
//! The kernel writes records into the rings and wakes nobody: a wake-up for each sample costs the program 2 us. The
//! recorder works in rounds instead:
//!
//! 1. It sleeps, as long as [`RoundRule`] says, or until a process ends or a signal comes.
//! 2. It takes all records up to half a millisecond ago from all rings, in time order, and sends their events to the
//!    sink ([`drain`]). The unwinder completes a stack that is deeper than its sample's copy from the program's memory
//!    as that is now (live memory).
//! 3. It calls [`EventSink::end_round`](recording::sink::EventSink::end_round). The stages pass on what they collected,
//!    and return how many stacks the copies did not hold, and how many could not be verified.
//! 4. It has the kernel copy more of each stack where many stacks are deeper than their copies ([`dump_size`]).
//! 5. It decides how long the next round is.
//!
//! # How long a round is
//!
//! A wake-up costs 200 to 310 us of CPU time however little there is to do: code and data have to come into the caches
//! again. At 1 kHz that is as much as 40 samples. So rounds should be long. But three things should be read soon:
//!
//! - **Live memory.** A sample is verified if the readings before and after it found the same callers. A thread that
//!   returns from callers, or takes another path, between two readings makes its samples unverified. So *a round is no
//!   longer than an eighth of the time since callers of deep stacks last changed*: callers that stayed the same for
//!   half a second are likely to stay for 64 ms more. At least 3 ms, at most 64 ms.
//! - **Mapped files**, which may be deleted: at most 16 ms, for some rounds after one with a record that maps a file or
//!   starts a program.
//! - **Full rings**: at the end of a round they have room for 190 ms more, or are half full, because the recorder may
//!   have to wait for a CPU.
//!
//! While all stacks are whole, rounds grow to 0.4 s, but to no more than an eighth of the recording: the last reading
//! of a short program should be near its end. After much work the recorder sleeps for about as long as it worked.
//!
//! # Many CPUs
//!
//! With 64 busy CPUs some thread changes its callers in each round, and rounds would stay at 3 ms. So from
//! [`MANY_CPUS`] on, callers count as changed once more than [`UNVERIFIED_SHARE`] of the round's deep stacks is
//! unverified. With fewer CPUs any unverified stack counts: with the share, rustc on 2 CPUs at 4 kHz had half as many
//! unverified stacks again. `simulation` drives the rule with threads that change their callers by chance (each has
//! 0.05 changes a second for 2 s, then 20 a second for 50 ms; 1 kHz; a wake-up at 300 us). The first figure of each
//! pair is with any unverified stack as the limit, the second one with the rule:
//!
//! | CPUs | rounds a second | wake-ups, part of a CPU | unverified |
//! |---|---|---|---|
//! | 2 | 31.90, 31.90 | 0.96, 0.96 % | 1.28, 1.28 % |
//! | 16 | 112.20, 112.20 | 3.37, 3.37 % | 0.66, 0.66 % |
//! | 64 | 281.25, 112.35 | 8.44, 3.37 % | 0.25, 0.83 % |
//! | 256 | 372.50, 81.40 | 11.17, 2.44 % | 0.14, 1.04 % |
//!
//! With a share of 1/25, 256 CPUs have more unverified stacks than two. The share is a share of deep stacks, not of
//! all: where few threads are deep, each of their changes counts.
//!
//! # Constants
//!
//! Measured with `cargo bench -p sprof --bench recording -- cost`, on 2 CPUs at 1 and 4 kHz; docs/decisions/rounds.md
//! has the figures, the settings that were not chosen, and how to measure again.

pub(crate) mod drain;
mod dump_size;
#[cfg(test)]
mod simulation;

use std::time::Duration;

use recording::info::PeriodUnit;

use crate::open::RingBytes;

/// Rounds are no shorter than this, however small the rings are.
const SHORTEST: Duration = Duration::from_millis(1);
/// The round after one in which callers of deep stacks changed.
const AFTER_CHANGED_CALLERS: Duration = Duration::from_millis(3);
/// Rounds while files are mapped, and the shortest ones while all stacks are whole.
const USUAL: Duration = Duration::from_millis(16);
/// The longest round while stacks are completed from live memory. rustc at 1 kHz, us of CPU time a sample and share of
/// unverified stacks: flat 16 ms 8.7 us and 0.40 %, doubling to 32 ms 8.0 us and 1.3 %, this rule 8.5 us and 0.31 %.
const LONGEST_WITH_DEEP_STACKS: Duration = Duration::from_millis(64);
/// The longest round while all stacks are whole. A killed recorder loses the records in the rings and up to half a
/// second in the spool (`perf-data/src/spool/writer.rs`): together less than a second.
const LONGEST: Duration = Duration::from_millis(400);
/// A round is no longer than this part of the time since callers of deep stacks changed, or of the recording. A
/// sixteenth: rustc at 1 kHz 10.9 us a sample instead of 8.5.
const PART: u32 = 8;
/// Deep stacks and mapped files count for this number of rounds.
const ROUNDS_LATER: u32 = 8;
/// The time for which rings have room at the end of a round; half of a ring is enough where that is less. An ordinary
/// user's recorder was seen to wait 160 ms for a CPU, with 200 busy threads on 2 CPUs. With half of each ring kept
/// free, 40 small frames at 4 kHz cost a fifth more (rings hold 0.5 s there); with three quarters of small rings kept
/// free, 40 frames of 1 KiB cost a third more (rings for larger copies hold 0.25 s).
const ROOM: Duration = Duration::from_millis(190);
/// The number of CPUs from which on some deep stacks may be unverified and callers still count as unchanged, and their
/// share. See "Many CPUs" above.
const MANY_CPUS: usize = 50;
const UNVERIFIED_SHARE: f64 = 1.0 / 50.0;

/// What one round found.
#[derive(Clone, Copy, Debug, Default)]
struct RoundFindings {
    /// A record came.
    has_records: bool,
    /// A record for which a file may have to be opened.
    opens_file: bool,
    /// Stacks that needed more bytes than their samples have.
    deep: u64,
    /// Deep stacks that were completed from live memory and not verified.
    unverified: u64,
    /// How full the fullest ring was, 0 to 1.
    fill: f64,
}

/// The length of the rounds of one recording: see the module's documentation. Lengths are planned ones.
#[derive(Clone, Copy, Debug)]
struct RoundRule {
    /// The part of a ring that may be full at the end of a round.
    most_fill: f64,
    /// How long a busy CPU needs to fill that part. It fills the ring at one pace: a record has the size of the largest
    /// copy, however much is copied (perf_sample_ustack_size in kernel/events/core.c).
    time_to_fill: Duration,
    /// The longest round while all stacks are whole.
    longest: Duration,
    /// Callers count as changed once more than this share of deep stacks is unverified.
    unverified_share: f64,
    /// The present round.
    round: Duration,
    /// All rounds before the present one.
    recorded: Duration,
    /// `recorded` when callers of deep stacks changed last.
    changed: Duration,
    /// Rounds since the last deep stack, and since the last mapped file.
    since_deep: u32,
    since_file: u32,
}

impl RoundRule {
    /// The rule for a recording that begins. The first round is short: samples of a thread's first round have no
    /// earlier reading to agree with.
    fn new(bytes: RingBytes, rate_hz: f64, unit: PeriodUnit, cpus: usize) -> RoundRule {
        let longest = match unit {
            PeriodUnit::CpuNanoseconds => LONGEST,
            _ => USUAL,
        };
        let rule = RoundRule {
            most_fill: 0.0,
            time_to_fill: Duration::ZERO,
            longest,
            unverified_share: if cpus < MANY_CPUS { 0.0 } else { UNVERIFIED_SHARE },
            round: AFTER_CHANGED_CALLERS,
            recorded: Duration::ZERO,
            changed: Duration::ZERO,
            since_deep: 0,
            since_file: 0,
        };
        rule.with_rings(bytes, rate_hz)
    }

    /// The rule for other rings and copies. Findings about the earlier ones are dropped.
    fn with_rings(self, bytes: RingBytes, rate_hz: f64) -> RoundRule {
        let ring_seconds = bytes.seconds(rate_hz);
        let most_fill = (1.0 - ROOM.as_secs_f64() / ring_seconds).max(1.0 / 2.0);
        let rule = RoundRule {
            most_fill,
            time_to_fill: Duration::from_secs_f64(ring_seconds * most_fill).max(SHORTEST),
            since_deep: 0,
            since_file: 0,
            ..self
        };
        rule.with_round(AFTER_CHANGED_CALLERS.min(rule.time_to_fill), Duration::ZERO)
    }

    /// The rule after a round with these findings, in which the recorder worked for `worked`.
    fn after(self, found: RoundFindings, worked: Duration) -> RoundRule {
        let recorded = self.recorded + self.round;
        let are_changed = found.unverified as f64 > found.deep as f64 * self.unverified_share;
        let rule = RoundRule {
            recorded,
            changed: if are_changed { recorded } else { self.changed },
            since_deep: if found.deep > 0 {
                0
            } else {
                self.since_deep.saturating_add(1)
            },
            since_file: if found.opens_file {
                0
            } else {
                self.since_file.saturating_add(1)
            },
            ..self
        };
        let (shortest, longest, since) = if rule.has_deep_stacks() {
            (AFTER_CHANGED_CALLERS, LONGEST_WITH_DEEP_STACKS, rule.changed)
        } else {
            (USUAL, LONGEST, Duration::ZERO)
        };
        let longest = if rule.since_file < ROUNDS_LATER { USUAL } else { longest };
        // Without records none can be lost, so an idle program costs nothing.
        let by_unit = if found.has_records { rule.longest } else { LONGEST };
        let longest = longest.min(by_unit).min((recorded - since) / PART);
        // At most twice the present round, or the shortest one. Rings of waits and points fill at any pace.
        let by_fill = rule
            .round
            .mul_f64(rule.most_fill / found.fill.max(rule.most_fill / 2.0));
        rule.with_round(by_fill.min(longest).max(shortest).min(rule.time_to_fill), worked)
    }

    /// The rule with a next round no longer than `longest`.
    fn capped(self, longest: Duration, worked: Duration) -> RoundRule {
        self.with_round(self.round.min(longest), worked)
    }

    /// About half of a CPU at most: records that find no room are lost and counted, and the program goes on. A
    /// recorder that was stopped in a round (SIGSTOP for 2.5 s) did not work as long.
    fn with_round(self, round: Duration, worked: Duration) -> RoundRule {
        RoundRule {
            round: round.max(worked.min(LONGEST)),
            ..self
        }
    }

    /// True if a stack was completed from live memory in the last rounds.
    fn has_deep_stacks(&self) -> bool {
        self.since_deep < ROUNDS_LATER
    }

    /// Time to sleep. With deep stacks, a random part of the round: rounds of equal length could always read a stack
    /// that changes in time with them in the same state, and take it for one that stays.
    fn sleep(&self, jitter: &mut Jitter) -> Duration {
        if self.has_deep_stacks() {
            self.round.mul_f64(jitter.next_factor())
        } else {
            self.round
        }
    }
}

/// Pseudo-random numbers.
#[derive(Debug)]
struct Jitter(u64);

impl Jitter {
    /// A factor from 3/4 to 1. A congruential generator: Knuth, The Art of Computer Programming, volume 2, section
    /// 3.3.4, line 26.
    fn next_factor(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        1.0 - (self.0 >> 32) as f64 / 2f64.powi(34)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: RoundFindings = RoundFindings {
        has_records: true,
        opens_file: false,
        deep: 0,
        unverified: 0,
        fill: 0.01,
    };
    const FILE: RoundFindings = RoundFindings {
        opens_file: true,
        ..CALM
    };
    const DEEP: RoundFindings = RoundFindings { deep: 100, ..CALM };
    const CHANGED: RoundFindings = RoundFindings { unverified: 1, ..DEEP };
    const FULL: RoundFindings = RoundFindings { fill: 1.0, ..CALM };

    /// Findings, and the number of rounds in a row that have them.
    type Rounds = &'static [(RoundFindings, usize)];

    /// For 1 kHz, with 16 KiB of each stack.
    fn rule(ring_kib: usize, unit: PeriodUnit) -> RoundRule {
        let bytes = RingBytes {
            ring_bytes: ring_kib << 10,
            stack_bytes: 16 << 10,
        };
        RoundRule::new(bytes, 1000.0, unit, 2)
    }

    fn after(rule: RoundRule, rounds: &[(RoundFindings, usize)]) -> RoundRule {
        let all = rounds
            .iter()
            .flat_map(|(found, count)| std::iter::repeat_n(*found, *count));
        all.fold(rule, |rule, found| rule.after(found, Duration::ZERO))
    }

    #[test]
    fn rounds_are_as_long_as_what_was_found_allows() {
        // The size of a ring in KiB, what the rounds found, the length of the next round in ms.
        let table: [(usize, Rounds, u128); 17] = [
            (16 << 10, &[], 3),
            (16 << 10, &[(CALM, 8)], 16),
            (16 << 10, &[(CALM, 30)], 99),
            (16 << 10, &[(CALM, 100)], 400),
            (16 << 10, &[(CALM, 100), (FILE, 1)], 16),
            (16 << 10, &[(CALM, 100), (FILE, 1), (CALM, 7)], 16),
            (16 << 10, &[(CALM, 100), (FILE, 1), (CALM, 8)], 32),
            (16 << 10, &[(CALM, 100), (DEEP, 1)], 64),
            (16 << 10, &[(CALM, 100), (DEEP, 1), (CALM, 8)], 128),
            (16 << 10, &[(CALM, 100), (CHANGED, 1)], 3),
            (16 << 10, &[(CALM, 100), (CHANGED, 1), (DEEP, 8)], 3),
            (16 << 10, &[(CALM, 100), (CHANGED, 1), (DEEP, 60)], 64),
            (16 << 10, &[(CALM, 100), (FULL, 1)], 325),
            (16 << 10, &[(CALM, 100), (FULL, 100)], 16),
            // Rings that a busy CPU fills in 256, 4 and 1 ms.
            (4096, &[(CALM, 100)], 128),
            (64, &[(CALM, 100)], 2),
            (16, &[(CHANGED, 100)], 1),
        ];
        for (ring_kib, rounds, expected) in table {
            let rule = after(rule(ring_kib, PeriodUnit::CpuNanoseconds), rounds);
            assert_eq!(rule.round.as_millis(), expected, "{ring_kib} KiB, {rounds:?}");
        }
    }

    #[test]
    fn with_many_cpus_some_stacks_may_be_unverified() {
        let few = RoundFindings { unverified: 2, ..DEEP };
        let many = RoundFindings { unverified: 3, ..DEEP };
        let bytes = RingBytes {
            ring_bytes: 16 << 20,
            stack_bytes: 16 << 10,
        };
        let rounds = [(49, few), (50, few), (50, many)].map(|(cpus, found)| {
            let rule = RoundRule::new(bytes, 1000.0, PeriodUnit::CpuNanoseconds, cpus);
            after(rule, &[(CALM, 100), (found, 1)]).round.as_millis()
        });
        assert_eq!(rounds, [3, 64, 3]);
    }

    #[test]
    fn rounds_stay_short_where_no_clock_samples() {
        let rule = after(rule(16 << 10, PeriodUnit::Cycles), &[(CALM, 100)]);
        assert_eq!(rule.round, USUAL);
        let idle = RoundFindings {
            has_records: false,
            ..CALM
        };
        assert_eq!(after(rule, &[(idle, 100)]).round, LONGEST);
    }

    /// An earlier rule gave rounds of a negative length, with rustc at 10 kHz.
    #[test]
    fn rounds_have_a_length_whatever_is_found() {
        let mut jitter = Jitter(1);
        let mut below = |end: f64| (jitter.next_factor() - 0.75) * 4.0 * end;
        for _ in 0..200 {
            let bytes = RingBytes {
                ring_bytes: 1 << (12.0 + below(16.0)) as u32,
                stack_bytes: below(65_528.0) as u32,
            };
            let cpus = below(256.0) as usize;
            let mut rule = RoundRule::new(bytes, 0.1 + below(20_000.0), PeriodUnit::CpuNanoseconds, cpus);
            for _ in 0..200 {
                let deep = below(3.0).powi(8) as u64;
                let found = RoundFindings {
                    has_records: below(1.0) < 0.9,
                    opens_file: below(1.0) < 0.1,
                    deep,
                    unverified: below(deep as f64) as u64,
                    fill: below(1.1),
                };
                rule = rule.after(found, Duration::from_secs_f64(below(0.1).powi(2) * 100.0));
                assert!((SHORTEST..=LONGEST).contains(&rule.round), "{rule:?}");
            }
        }
    }

    #[test]
    fn the_recorder_takes_half_of_a_cpu_at_most() {
        let ms = Duration::from_millis;
        let rule = rule(16 << 10, PeriodUnit::CpuNanoseconds).after(CALM, ms(100));
        assert_eq!(rule.round, ms(100));
        assert_eq!(rule.capped(ms(2), ms(5)).round, ms(5));
        assert_eq!(rule.after(CALM, ms(2500)).round, LONGEST, "it was stopped");
    }

    #[test]
    fn other_rings_begin_with_a_short_round() {
        let rule = after(rule(16 << 10, PeriodUnit::CpuNanoseconds), &[(CALM, 100)]);
        let larger = RingBytes {
            ring_bytes: 32 << 20,
            stack_bytes: 64 << 10,
        };
        let rule = rule.with_rings(larger, 1000.0);
        assert_eq!(rule.round, AFTER_CHANGED_CALLERS);
        assert_eq!(after(rule, &[(DEEP, 100)]).round, LONGEST_WITH_DEEP_STACKS);
    }

    #[test]
    fn rounds_vary_with_deep_stacks() {
        let mut jitter = Jitter(1);
        let calm = after(rule(16 << 10, PeriodUnit::CpuNanoseconds), &[(CALM, 100)]);
        assert_eq!(calm.sleep(&mut jitter), calm.round);
        let deep = calm.after(DEEP, Duration::ZERO);
        let mut part = || deep.sleep(&mut jitter).as_secs_f64() / deep.round.as_secs_f64();
        let parts: Vec<f64> = (0..1000).map(|_| part()).collect();
        assert!(parts.iter().all(|part| (0.75..=1.0).contains(part)));
        let mean = parts.iter().sum::<f64>() / 1000.0;
        assert!((mean - 0.875).abs() < 0.02, "{mean}");
    }
}
