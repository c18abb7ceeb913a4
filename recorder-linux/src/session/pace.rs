//! How long the recorder sleeps until it empties the rings again. Waking up costs it 30 to 80 us of CPU time, however little there is
//! to do: at 1 kHz and 62 rounds a second that was as much as all of the samples.

use std::time::Duration;

use recording::info::PeriodUnit;

use crate::open::RingBytes;

/// Rounds are this share of the time that a busy CPU needs to fill its ring: 8 ms at 4 kHz, if all dumps are full.
const FILL_SHARE: f64 = 1.0 / 16.0;
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(16);
/// Rounds are longer as long as the rings are this full at most. The rest is for the time that the recorder waits for a CPU: 160 ms
/// were seen, and a ring holds 250 ms at 1 kHz.
const MOST_FILL: f64 = 1.0 / 4.0;
/// A recorder that waited for a CPU for longer than this competes with others, and may have to wait longer the next time.
const LONG_WAIT: Duration = Duration::from_millis(5);
/// The longest round after one with stacks larger than their dumps. These are completed from the target's memory, which
/// changes more the later it is read.
const LONGEST_FOR_DEEP_STACKS: Duration = Duration::from_millis(3);
/// While nothing is recorded, rounds double up to this: an idle program costs nothing.
const LONGEST_IDLE: Duration = Duration::from_millis(32);

/// So many rounds in a row with nothing but samples are calm: no process starts, no file is mapped, which is to be opened soon.
const CALM_ROUNDS: u32 = 8;
/// The same after a stack larger than its dump, and after a long wait for a CPU: another one may follow.
const CALM_ROUNDS_AFTER_TROUBLE: u32 = 128;
/// Only where a clock samples. On an emulated arm64 machine that samples cycles, 3 to 5 of 500 samples were missing, uncounted, when
/// rounds were longer than the usual ones; why is not known.
const LONGEST_CALM: Duration = Duration::from_millis(64);
/// So many rounds in a row with deep stacks, all verified: what is rootwards of the dumps stays as it is, and can be read later.
const VERIFIED_ROUNDS: u32 = 300;
const LONGEST_VERIFIED: Duration = Duration::from_millis(12);

/// What a round found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    pub(super) records: u64,
    /// Records that are no samples.
    pub(super) others: u64,
    /// Stacks that needed more bytes than their samples have.
    pub(super) deep_stacks: u64,
    /// Stacks that could not be verified.
    pub(super) unverified: u64,
    /// How full the fullest ring was, 0 to 1.
    pub(super) fill: f64,
    /// How long the recorder waited for a CPU when the round was over.
    pub(super) late: Duration,
}

/// The length of the rounds of one recording.
#[derive(Debug)]
pub(super) struct Pace {
    usual: Duration,
    longest_calm: Duration,
    round: Duration,
    /// Rounds until rounds are calm.
    rounds_to_calm: u32,
    verified_rounds: u32,
}

impl Pace {
    /// Short at first: the samples of a thread's first round at some depth have no earlier reading to agree with.
    pub(super) fn new(bytes: RingBytes, rate_hz: f64, unit: PeriodUnit) -> Pace {
        let usual = Duration::from_secs_f64(bytes.seconds(rate_hz) * FILL_SHARE).clamp(SHORTEST, LONGEST);
        Pace {
            usual,
            // Stacks may be deep from one round to the next: half of the ring is left for that.
            longest_calm: match unit {
                PeriodUnit::CpuNanoseconds => LONGEST_CALM.min(usual.mul_f64(0.5 / FILL_SHARE)),
                _ => LONGEST,
            },
            round: usual.min(LONGEST_FOR_DEEP_STACKS),
            rounds_to_calm: CALM_ROUNDS,
            verified_rounds: 0,
        }
    }

    /// The present round.
    pub(super) fn round(&self) -> Duration {
        self.round
    }

    /// The next round, after one that found this. `took`: the time that the recorder worked.
    pub(super) fn next(&mut self, found: Found, took: Duration) {
        let short = self.usual.min(LONGEST_FOR_DEEP_STACKS);
        self.rounds_to_calm = if found.deep_stacks > 0 || found.late > LONG_WAIT {
            CALM_ROUNDS_AFTER_TROUBLE
        } else if found.others > 0 {
            self.rounds_to_calm.max(CALM_ROUNDS)
        } else {
            self.rounds_to_calm.saturating_sub(1)
        };
        if found.unverified > 0 {
            self.verified_rounds = 0;
        } else if found.deep_stacks > 0 {
            self.verified_rounds = self.verified_rounds.saturating_add(1);
        }
        let doubled = self.round * 2;
        let next = if found.records == 0 {
            doubled.min(LONGEST_IDLE)
        } else if found.deep_stacks > 0 {
            match self.verified_rounds >= VERIFIED_ROUNDS {
                true => doubled.clamp(short, LONGEST_VERIFIED.min(self.usual)),
                false => short,
            }
        } else {
            let by_fill = self.round.mul_f64((MOST_FILL / found.fill.max(1e-6)).min(1e3));
            let longest = match self.rounds_to_calm {
                0 => self.longest_calm,
                _ => LONGEST,
            };
            doubled.clamp(short, by_fill.min(longest).max(self.usual))
        };
        // Never more than half of a CPU: records that find no room are lost and counted, and the program goes on.
        self.round = next.max(took);
    }

    /// Makes the next round no longer than this.
    pub(super) fn at_most(&mut self, longest: Duration, took: Duration) {
        self.round = self.round.min(longest).max(took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: Found = Found {
        records: 16,
        others: 0,
        deep_stacks: 0,
        unverified: 0,
        fill: 0.01,
        late: Duration::ZERO,
    };

    fn after(pace: &mut Pace, found: Found, rounds: u32) -> u128 {
        (0..rounds).for_each(|_| pace.next(found, Duration::ZERO));
        pace.round().as_millis()
    }

    /// 1 kHz with rings of 4 MiB.
    fn pace() -> Pace {
        let bytes = RingBytes {
            ring_bytes: 4 << 20,
            stack_bytes: 16 << 10,
        };
        Pace::new(bytes, 1000.0, PeriodUnit::CpuNanoseconds)
    }

    #[test]
    fn rounds_grow_while_there_are_samples_alone_and_shrink_at_anything_else() {
        let mut pace = pace();
        assert_eq!(pace.round().as_millis(), 3);
        assert_eq!(after(&mut pace, SAMPLES, CALM_ROUNDS - 1), 16);
        assert_eq!(after(&mut pace, SAMPLES, 4), 64);
        assert_eq!(after(&mut pace, Found { others: 1, ..SAMPLES }, 1), 16);
        assert_eq!(after(&mut pace, Found { records: 0, ..SAMPLES }, 8), 32);
    }

    #[test]
    fn rings_stay_nearly_empty() {
        let mut pace = pace();
        after(&mut pace, SAMPLES, 20);
        // Twice as full as it may be in 64 ms.
        assert_eq!(after(&mut pace, Found { fill: 0.5, ..SAMPLES }, 1), 32);
        assert_eq!(after(&mut pace, Found { fill: 0.25, ..SAMPLES }, 3), 32);
        // No shorter than usual, which is by the size of the rings.
        assert_eq!(after(&mut pace, Found { fill: 0.9, ..SAMPLES }, 3), 16);
    }

    #[test]
    fn a_recorder_that_has_to_wait_for_a_cpu_wakes_up_in_time() {
        let mut pace = pace();
        assert_eq!(after(&mut pace, SAMPLES, 20), 64);
        let late = Duration::from_millis(6);
        assert_eq!(after(&mut pace, Found { late, ..SAMPLES }, 1), 16);
        assert_eq!(after(&mut pace, SAMPLES, CALM_ROUNDS_AFTER_TROUBLE - 1), 16);
        assert_eq!(after(&mut pace, SAMPLES, 1), 32);
    }

    #[test]
    fn deep_stacks_are_read_soon_unless_what_is_read_stays_the_same() {
        let deep = Found {
            deep_stacks: 3,
            ..SAMPLES
        };
        let unverified = Found { unverified: 1, ..deep };
        let mut pace = pace();
        assert_eq!(after(&mut pace, deep, VERIFIED_ROUNDS - 1), 3);
        assert_eq!(after(&mut pace, deep, 3), 12);
        assert_eq!(after(&mut pace, SAMPLES, CALM_ROUNDS_AFTER_TROUBLE - 1), 16);
        assert_eq!(after(&mut pace, SAMPLES, 1), 32);
        assert_eq!(after(&mut pace, unverified, 1), 3);
        assert_eq!(after(&mut pace, deep, VERIFIED_ROUNDS - 1), 3);
    }

    #[test]
    fn the_recorder_takes_half_of_a_cpu_at_most() {
        let mut pace = pace();
        pace.next(SAMPLES, Duration::from_millis(100));
        assert_eq!(pace.round().as_millis(), 100);
        pace.at_most(Duration::from_millis(2), Duration::from_millis(5));
        assert_eq!(pace.round().as_millis(), 5);
    }
}
