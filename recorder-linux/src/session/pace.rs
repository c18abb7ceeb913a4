//! How long the recorder sleeps until it empties the rings again. Waking up costs it 200 to 300 us of CPU time, however
//! little there is to do: all of its code and data have to come into the caches again. At 1 kHz and 16 rounds a second
//! that was as much as all of the samples.

use std::time::Duration;

use recording::info::PeriodUnit;
use recording::sink::Looked;

use crate::open::RingBytes;
use crate::session::look::Seen;

/// Rounds are this share of the time that a busy CPU needs to fill its ring: 16 ms at 4 kHz, if all dumps are full.
const FILL_SHARE: f64 = 1.0 / 16.0;
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(16);
/// Rounds are longer as long as the rings have room for what comes while the recorder waits for a CPU. Small rings may
/// be a quarter full all the same, and half full once all CPUs are busy that were not in the round before. A busy CPU
/// fills its ring at one pace: a record has the size of the largest dump, however much is copied
/// (perf_sample_ustack_size in kernel/events/core.c).
const LEAST_FILL: f64 = 1.0 / 4.0;
const LEAST_FILL_WHEN_BUSY: f64 = 1.0 / 2.0;
/// A recorder that waited for a CPU for longer than this competes with others, and may have to wait longer the next
/// time.
const LONG_WAIT: Duration = Duration::from_millis(5);
/// The longest round after one with stacks larger than their dumps. These are completed from the target's memory, which
/// changes more the later it is read.
const LONGEST_FOR_DEEP_STACKS: Duration = Duration::from_millis(3);
/// While nothing is recorded, rounds double up to this: an idle program costs nothing.
const LONGEST_IDLE: Duration = Duration::from_millis(32);

/// So many rounds in a row with nothing but samples are calm: no process starts, no file is mapped, which is to be
/// opened soon.
const CALM_ROUNDS: u32 = 8;
/// The same after one larger than its dump that could not be verified, where many are larger: others may follow.
const CALM_ROUNDS_AFTER_DEEP_STACKS: u32 = 16;
/// And after a long wait for a CPU.
const CALM_ROUNDS_AFTER_LONG_WAIT: u32 = 64;
/// Only where a clock samples. On an emulated arm64 machine that samples cycles, 3 to 5 of 500 samples were missing,
/// uncounted, when rounds were longer than the usual ones; why is not known. What a killed recorder loses is up to half
/// a second longer (`perf-data/src/spool/writer.rs`), and shall be less than a second. Memory and CPU time of processes
/// are read as seldom.
const LONGEST_CALM: Duration = Duration::from_millis(400);
/// And no longer than this part of the recording so far: the last readings of a short program are near its end, too.
const PART_OF_RECORDING: u32 = 8;
/// Where many stacks are larger than their dumps, and their callers stay the same: the longest time between two
/// readings of these. Unverified are then the last samples of a process, whose memory is gone when it is to be read,
/// and the first ones of a thread.
const LONGEST_WITH_DEEP_STACKS: Duration = Duration::from_millis(64);
/// The same while no thread has such a stack: one that comes to have one is seen so late at most.
const LONGEST_BETWEEN_DEEP_STACKS: Duration = Duration::from_millis(128);
/// So rounds with deep stacks are no longer than this part of the recording so far, once it is longer than a second.
const PART_WITH_DEEP_STACKS: u32 = 160;
const SHORTEST_PART_WITH_DEEP_STACKS: Duration = Duration::from_millis(8);
/// And where not all stacks are deep, rounds are longer by as much, up to four times: no more samples are unverified
/// then.
const LEAST_DEEP_SHARE: f64 = 1.0 / 4.0;

/// The share of deep stacks is that of about so many samples, the last ones.
const SAMPLES_FOR_DEPTH: f64 = 4000.0;
/// The share of changed stacks, of fewer: a thread that went down and up once is no reason for short rounds for
/// seconds.
const SAMPLES_FOR_CHANGES: f64 = 1000.0;
/// Stacks larger than their dumps are many if more than one in so many is.
const MANY_DEEP_STACKS: f64 = 1.0 / 100.0;
/// From this share of changed stacks on, rounds are as short as they get for deep stacks. Below, they last as much
/// longer as the share is smaller: a sample is verified if no caller beyond its dump returned between the readings
/// before and after it. All of rustc's stacks below `create_and_enter_global_ctxt` are deeper than the largest dump, by
/// a frame of 540 KiB, and their callers stay the same for seconds.
const MANY_CHANGED: f64 = 1.0 / 125.0;
/// The share that is expected of a recording until there are samples. It soon has less influence than these.
const EXPECTED_CHANGED: f64 = 1.0 / 333.0;
/// A thread whose stack is read for the first time has as many unverified samples as the round, and then no more. So
/// each counts for less than a change; threads that live for a few rounds make rounds short by their number.
const FIRST_READING: f64 = 1.0 / 8.0;

/// What a round found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    pub(super) records: u64,
    pub(super) samples: u64,
    /// Records for which a file may have to be opened.
    pub(super) others: u64,
    /// Stacks that needed more bytes than their samples have.
    pub(super) deep_stacks: u64,
    /// Of these, the ones completed from memory that is not what it was in earlier rounds.
    pub(super) changed: u64,
    /// And from memory of threads of which nothing was read in earlier rounds.
    pub(super) read_first: u64,
    /// How full the fullest ring was, 0 to 1.
    pub(super) fill: f64,
    /// How long the recorder waited for a CPU when the round was over.
    pub(super) late: Duration,
}

/// The length of the rounds of one recording.
#[derive(Debug)]
pub(super) struct Pace {
    rate_hz: f64,
    unit: PeriodUnit,
    /// For which the rings keep room.
    longest_wait: Duration,
    usual: Duration,
    longest_calm: Duration,
    most_fill: f64,
    round: Duration,
    /// How long the recorder worked before it.
    worked: Duration,
    /// How long all rounds were.
    recorded: Duration,
    /// How much of the present round was over when the recorder looked last.
    waited: Duration,
    /// Rounds until rounds are calm.
    rounds_to_calm: u32,
    varied: Varied,
    /// The share of stacks that are larger than their dumps, and that of the last round with samples alone.
    deep: f64,
    deep_of_round: f64,
    /// The last whole round had such stacks.
    is_deep: bool,
    /// The share of stacks whose memory changes in a round that is as short as those for deep stacks.
    changed: f64,
    /// So many samples of the present round are in this share: looks found that the memory of their stacks is what it
    /// was.
    counted: u64,
}

impl Pace {
    /// Short at first: the samples of a thread's first round at some depth have no earlier reading to agree with.
    /// `longest_wait`: for a CPU.
    pub(super) fn new(bytes: RingBytes, rate_hz: f64, unit: PeriodUnit, longest_wait: Duration) -> Pace {
        let seconds = bytes.seconds(rate_hz);
        let usual = Duration::from_secs_f64(seconds * FILL_SHARE).clamp(SHORTEST, LONGEST);
        let filled = 1.0 - longest_wait.as_secs_f64() / seconds;
        Pace {
            rate_hz,
            unit,
            longest_wait,
            usual,
            longest_calm: match unit {
                PeriodUnit::CpuNanoseconds => {
                    LONGEST_CALM.min(Duration::from_secs_f64(seconds * filled.max(LEAST_FILL_WHEN_BUSY)))
                }
                _ => LONGEST,
            },
            most_fill: filled.max(LEAST_FILL),
            round: usual.min(LONGEST_FOR_DEEP_STACKS),
            worked: Duration::ZERO,
            recorded: Duration::ZERO,
            waited: Duration::ZERO,
            rounds_to_calm: CALM_ROUNDS,
            varied: Varied(1),
            deep: 0.0,
            deep_of_round: 0.0,
            is_deep: false,
            changed: EXPECTED_CHANGED,
            counted: 0,
        }
    }

    /// Goes on with other rings and dumps: what was found was of the earlier ones. `took`: as in [`Pace::next`].
    pub(super) fn switch(&mut self, bytes: RingBytes, took: Duration) {
        *self = Pace {
            recorded: self.recorded,
            worked: took,
            ..Pace::new(bytes, self.rate_hz, self.unit, self.longest_wait)
        };
    }

    /// The present round. With deep stacks, lengths vary: rounds of 3 ms read a stack that changes every 0.5 ms always
    /// in the same state, and take it for one that stays.
    pub(super) fn round(&self) -> Duration {
        match self.deep > 0.0 {
            true => self.round.mul_f64(self.varied.factor()),
            false => self.round,
        }
    }

    /// Whether the records may stay in the rings until the recorder wakes up again: it woke up for stacks that are
    /// deeper than their dumps, or because others were, and would sleep longer without them. `fill`: how full the
    /// fullest ring is.
    pub(super) fn may_wait(&self, fill: f64) -> bool {
        let present = self.waited + self.round;
        let next = present + self.round;
        let longest = (self.recorded / PART_OF_RECORDING).clamp(LONGEST, self.longest_calm.max(LONGEST));
        let later = next.as_secs_f64() / present.as_secs_f64();
        let is_woken_for_stacks = self.is_deep || self.deep >= MANY_DEEP_STACKS;
        is_woken_for_stacks && next <= longest && fill * later <= self.most_fill
    }

    /// Goes on with the present round after a look that found this, and no change. `late`, `took`: as in [`Found`] and
    /// [`Pace::next`].
    pub(super) fn looked(&mut self, seen: Seen, late: Duration, took: Duration) {
        let (waited, counted) = (self.waited + self.round, self.counted + seen.samples);
        follow(&mut self.changed, 0.0, seen.samples, SAMPLES_FOR_CHANGES);
        let found = Found {
            records: 1,
            deep_stacks: u64::from(seen.callers != Looked::Nothing),
            late,
            ..Found::default()
        };
        self.next(found, took);
        (self.waited, self.counted) = (waited, counted);
    }

    /// The next round, after one that found this. `took`: the time that the recorder worked.
    pub(super) fn next(&mut self, found: Found, took: Duration) {
        let short = self.usual.min(LONGEST_FOR_DEEP_STACKS);
        self.varied.step();
        self.recorded += self.round;
        self.is_deep = found.deep_stacks > 0;
        // As many as a short round had had: one that was long, or late, or followed long work, has more of the same
        // program.
        let readings_apart = std::mem::replace(&mut self.worked, took) + self.round + found.late;
        let of_short = (short.as_secs_f64() / readings_apart.as_secs_f64()).min(1.0);
        let changed = found.changed as f64 * of_short + found.read_first as f64 * FIRST_READING;
        follow(
            &mut self.deep,
            found.deep_stacks as f64,
            found.samples,
            SAMPLES_FOR_DEPTH,
        );
        if found.samples > 0 {
            self.deep_of_round = found.deep_stacks as f64 / found.samples as f64;
        }
        let uncounted = found.samples.saturating_sub(std::mem::take(&mut self.counted));
        follow(&mut self.changed, changed, uncounted, SAMPLES_FOR_CHANGES);
        let were_deep = self.deep >= MANY_DEEP_STACKS;
        self.rounds_to_calm = if found.late > LONG_WAIT {
            CALM_ROUNDS_AFTER_LONG_WAIT
        } else if changed > 0.0 && were_deep {
            self.rounds_to_calm.max(CALM_ROUNDS_AFTER_DEEP_STACKS)
        } else if found.others > 0 {
            self.rounds_to_calm.max(CALM_ROUNDS)
        } else {
            self.rounds_to_calm.saturating_sub(1)
        };
        let doubled = self.round * 2;
        let next = if found.records == 0 {
            doubled.min(LONGEST_IDLE)
        } else {
            let whole = self.waited + self.round;
            let by_fill = whole.mul_f64((self.most_fill / found.fill.max(1e-6)).min(1e3));
            let (part, shortest, longest) = match were_deep {
                false => (PART_OF_RECORDING, LONGEST, LONGEST_CALM),
                true => {
                    let share = self.deep.max(self.deep_of_round).clamp(LEAST_DEEP_SHARE, 1.0);
                    let part = f64::from(PART_WITH_DEEP_STACKS) * share;
                    let longest = match self.is_deep {
                        true => LONGEST_WITH_DEEP_STACKS.div_f64(share).min(LONGEST_BETWEEN_DEEP_STACKS),
                        false => LONGEST_BETWEEN_DEEP_STACKS,
                    };
                    (part as u32, SHORTEST_PART_WITH_DEEP_STACKS, longest)
                }
            };
            let longest = longest.min(self.longest_calm).max(LONGEST);
            let longest = match self.rounds_to_calm {
                0 => (self.recorded / part).clamp(shortest, longest),
                _ => (self.recorded / part).clamp(shortest, LONGEST),
            };
            let by_changes = match self.is_deep {
                true => short.mul_f64((MANY_CHANGED / self.changed).min(1e3)),
                false => longest,
            };
            doubled
                .min(by_fill.max(self.usual))
                .min(longest)
                .min(by_changes)
                .max(short)
        };
        // Never more than half of a CPU: records that find no room are lost and counted, and the program goes on. A
        // recorder that was stopped in a round (SIGSTOP for 2.5 s) did not work as long.
        self.round = next.max(took.min(LONGEST_CALM));
        self.waited = Duration::ZERO;
    }

    /// Makes the next round no longer than this.
    pub(super) fn at_most(&mut self, longest: Duration, took: Duration) {
        self.round = self.round.min(longest).max(took);
    }
}

/// A number that varies without a period.
#[derive(Debug)]
struct Varied(u64);

impl Varied {
    /// A congruential generator: Knuth, The Art of Computer Programming, volume 2, section 3.3.4, line 26.
    fn step(&mut self) {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    }

    /// 3/4 to 1.
    fn factor(&self) -> f64 {
        1.0 - (self.0 >> 32) as f64 / 2f64.powi(34)
    }
}

/// Takes a count, and samples that were not taken before, into a share of about the last `of` samples.
fn follow(share: &mut f64, count: f64, samples: u64, of: f64) {
    let samples = samples as f64;
    let of = of.max(samples).max(count);
    // Never less than 0, as `share - share * samples / of` may be by rounding: a recording of rustc at 10 kHz ended at
    // a round of negative length.
    *share = *share * (1.0 - samples / of) + count / of;
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: Found = Found {
        records: 16,
        samples: 16,
        others: 0,
        deep_stacks: 0,
        changed: 0,
        read_first: 0,
        fill: 0.01,
        late: Duration::ZERO,
    };

    fn after(pace: &mut Pace, found: Found, rounds: u32) -> u128 {
        (0..rounds).for_each(|_| pace.next(found, Duration::ZERO));
        pace.round.as_millis()
    }

    /// For a CPU, of an ordinary user's recorder.
    const USUAL_WAIT: Duration = Duration::from_millis(190);

    /// 1 kHz with rings of so many MiB.
    fn pace(ring_mebibytes: usize) -> Pace {
        pace_that_may_wait(ring_mebibytes, USUAL_WAIT)
    }

    fn pace_that_may_wait(ring_mebibytes: usize, longest_wait: Duration) -> Pace {
        let bytes = RingBytes {
            ring_bytes: ring_mebibytes << 20,
            stack_bytes: 16 << 10,
        };
        Pace::new(bytes, 1000.0, PeriodUnit::CpuNanoseconds, longest_wait)
    }

    #[test]
    fn rounds_grow_while_there_are_samples_alone_and_shrink_at_anything_else() {
        let mut pace = pace(16);
        assert_eq!(pace.round().as_millis(), 3);
        assert_eq!(after(&mut pace, SAMPLES, CALM_ROUNDS + 1), 16);
        // Longer and longer, while the recording is short.
        assert_eq!(after(&mut pace, SAMPLES, 20), 155);
        assert!(pace.round() <= pace.recorded / PART_OF_RECORDING);
        assert_eq!(after(&mut pace, SAMPLES, 60), 400);
        assert_eq!(after(&mut pace, Found { others: 1, ..SAMPLES }, 1), 16);
        assert_eq!(after(&mut pace, Found { records: 0, ..SAMPLES }, 8), 32);
    }

    #[test]
    fn rings_keep_room_for_a_recorder_that_waits_for_a_cpu() {
        let mut large = pace(16);
        after(&mut large, SAMPLES, 100);
        // Full in 400 ms: 190 ms before the ring's 1024 are over it is to be 0.81 full.
        assert_eq!(after(&mut large, Found { fill: 1.0, ..SAMPLES }, 1), 325);
        assert_eq!(after(&mut large, Found { fill: 0.815, ..SAMPLES }, 3), 325);
        // No shorter than usual, which is by the size of the rings.
        assert_eq!(after(&mut large, Found { fill: 1.0, ..SAMPLES }, 20), 16);
        // These hold 256 ms.
        let mut small = pace(4);
        assert_eq!(after(&mut small, SAMPLES, 100), 128);
        assert_eq!(after(&mut small, Found { fill: 0.5, ..SAMPLES }, 1), 66);
        // With less room where the wait is shorter.
        let mut quick = pace_that_may_wait(4, Duration::from_millis(80));
        assert_eq!(after(&mut quick, SAMPLES, 100), 176);
        assert_eq!(after(&mut quick, Found { fill: 0.8, ..SAMPLES }, 1), 151);
    }

    #[test]
    fn a_recorder_that_has_to_wait_for_a_cpu_wakes_up_in_time() {
        let mut pace = pace(16);
        assert_eq!(after(&mut pace, SAMPLES, 200), 400);
        let late = Duration::from_millis(6);
        assert_eq!(after(&mut pace, Found { late, ..SAMPLES }, 1), 16);
        assert_eq!(after(&mut pace, SAMPLES, CALM_ROUNDS_AFTER_LONG_WAIT - 1), 16);
        assert_eq!(after(&mut pace, SAMPLES, 1), 32);
    }

    fn seen(callers: Looked) -> Seen {
        Seen { callers, samples: 16 }
    }

    const DEEP: Found = Found {
        deep_stacks: 16,
        ..SAMPLES
    };

    #[test]
    fn deep_stacks_are_read_soon_unless_what_is_read_stays_the_same() {
        let mut pace = pace(16);
        assert_eq!(after(&mut pace, DEEP, 10), 8);
        // Longer and longer, by the recording's length.
        assert_eq!(after(&mut pace, DEEP, 400), 37);
        assert_eq!(pace.round, pace.recorded / PART_WITH_DEEP_STACKS);
        assert_eq!(after(&mut pace, DEEP, 400), 64);
        // A stack that changes always, as seen in rounds that get shorter.
        let changed = Found { changed: 16, ..DEEP };
        assert_eq!(after(&mut pace, changed, 1), 16);
        assert_eq!(after(&mut pace, changed, 1), 6);
        assert_eq!(after(&mut pace, changed, 2), 3);
        assert_eq!(after(&mut pace, DEEP, 400), 64);
        // One sample of a round, however long it is, would be one in shorter ones, too.
        let one = Found {
            changed: 1,
            samples: 200,
            deep_stacks: 200,
            ..SAMPLES
        };
        assert_eq!(after(&mut pace, one, 20), 16);
    }

    #[test]
    fn changes_count_by_how_far_readings_are_apart() {
        let changed = Found { changed: 16, ..DEEP };
        let share = |late: u64, took: u64| {
            let mut pace = pace(16);
            pace.next(DEEP, Duration::from_millis(took));
            pace.round = Duration::from_millis(12);
            pace.changed = 0.0;
            let late = Duration::from_millis(late);
            pace.next(Found { late, ..changed }, Duration::ZERO);
            pace.changed * 1000.0
        };
        let shares = [(0, 0), (12, 0), (0, 12), (18, 18)].map(|(late, took)| share(late, took));
        assert_eq!(shares, [4.0, 2.0, 2.0, 1.0]);
    }

    /// At 10 kHz a round may have more samples than a share is of.
    #[test]
    fn a_round_without_changes_leaves_a_share_of_nothing_and_not_less() {
        for changed in 1..2000 {
            let mut pace = pace(16);
            let some = Found { changed, ..DEEP };
            assert!(after(&mut pace, some, 2) > 0);
            let many = Found {
                samples: 1999,
                deep_stacks: 1999,
                ..SAMPLES
            };
            assert!(after(&mut pace, many, 3) > 0);
            assert!(pace.changed >= 0.0 && pace.deep >= 0.0, "{changed}: {pace:?}");
        }
    }

    #[test]
    fn threads_that_are_read_first_make_rounds_short_if_they_are_many() {
        let mut pace = pace(16);
        assert_eq!(after(&mut pace, DEEP, 800), 64);
        let first = Found { read_first: 16, ..DEEP };
        assert_eq!(after(&mut pace, first, 1), 11);
        assert_eq!(after(&mut pace, DEEP, 400), 64);
        let every_other = |pace: &mut Pace| (after(pace, first, 1), after(pace, DEEP, 1)).1;
        assert_eq!((0..20).map(|_| every_other(&mut pace)).last(), Some(3));
    }

    #[test]
    fn records_wait_in_the_rings_while_callers_are_looked_at() {
        let mut pace = pace(16);
        after(&mut pace, SAMPLES, 60);
        assert!(!pace.may_wait(0.01), "no stack is deep");
        after(&mut pace, DEEP, 100);
        // Rounds by the fill are as long as all looks together.
        let mut looks = 0;
        let mut waited = Duration::ZERO;
        while pace.may_wait(0.01) {
            waited += pace.round;
            pace.looked(seen(Looked::Same), Duration::ZERO, Duration::ZERO);
            looks += 1;
        }
        assert!((4..=12).contains(&looks), "{looks}");
        assert!((300..400).contains(&waited.as_millis()), "{waited:?}");
        // Not until the rings are fuller than they may be.
        let half = Found { fill: 0.4, ..DEEP };
        pace.next(half, Duration::ZERO);
        assert!(pace.may_wait(0.40));
        assert!(!pace.may_wait(0.41));
        // A recorder that had to wait for its CPU looks more often.
        pace.looked(seen(Looked::Same), Duration::from_millis(6), Duration::ZERO);
        assert_eq!(pace.round.as_millis(), 16);
    }

    #[test]
    fn looks_are_seldom_once_no_stack_is_deep_and_then_there_are_none() {
        let mut pace = pace(16);
        after(&mut pace, SAMPLES, 60);
        let changed = Found { changed: 16, ..DEEP };
        assert_eq!(after(&mut pace, changed, 8), 3);
        assert!(pace.may_wait(0.01));
        assert_eq!(after(&mut pace, SAMPLES, 1), 6);
        // They may be again.
        assert!(pace.may_wait(0.01));
        pace.looked(seen(Looked::Nothing), Duration::ZERO, Duration::ZERO);
        assert_eq!(pace.round.as_millis(), 12);
        assert_eq!(after(&mut pace, SAMPLES, 100), 128);
        assert!(pace.may_wait(0.01));
        after(&mut pace, SAMPLES, 1000);
        assert!(!pace.may_wait(0.01));
        // As after larger dumps came into use.
        assert_eq!(after(&mut pace, changed, 8), 3);
        let larger = RingBytes {
            ring_bytes: 16 << 20,
            stack_bytes: 64 << 10,
        };
        pace.switch(larger, Duration::ZERO);
        after(&mut pace, SAMPLES, 1);
        assert!(!pace.may_wait(0.01));
    }

    #[test]
    fn rounds_vary_with_deep_stacks() {
        let mut pace = pace(16);
        after(&mut pace, SAMPLES, 20);
        assert_eq!(pace.round(), pace.round);
        after(&mut pace, DEEP, 100);
        let rounds: Vec<f64> = { 0..1000 }
            .map(|_| {
                (
                    after(&mut pace, DEEP, 1),
                    pace.round().as_secs_f64() / pace.round.as_secs_f64(),
                )
                    .1
            })
            .collect();
        assert!(rounds.iter().all(|part| (0.75..=1.0).contains(part)));
        let mean = rounds.iter().sum::<f64>() / 1000.0;
        assert!((mean - 0.875).abs() < 0.02, "{mean}");
    }

    #[test]
    fn a_few_deep_stacks_leave_the_rounds_long() {
        let mut pace = pace(16);
        after(&mut pace, SAMPLES, 200);
        let one = Found {
            samples: 400,
            deep_stacks: 1,
            ..SAMPLES
        };
        assert_eq!(after(&mut pace, one, 100), 400);
    }

    #[test]
    fn the_recorder_takes_half_of_a_cpu_at_most() {
        let mut pace = pace(4);
        pace.next(SAMPLES, Duration::from_millis(100));
        assert_eq!(pace.round().as_millis(), 100);
        pace.at_most(Duration::from_millis(2), Duration::from_millis(5));
        assert_eq!(pace.round().as_millis(), 5);
    }
}
