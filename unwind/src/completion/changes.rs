//! How often a thread's stack changes between two readings of it.
//!
//! Two readings that agree are evidence only if most do. Where a thread takes two paths by turns, faster than it is
//! read, every second reading agrees with the one before, and says nothing of the time in between. And between two that
//! lie further apart than usual, because the recorder had to wait for a CPU or had much to read, more may have changed.

use recording::clock::Timestamp;

/// Window of the moving share, in readings. In a program in which every second reading differs, a window of 16
/// held too few of these by chance now and then: 2 % of the samples were verified and wrong.
const READINGS: f32 = 64.0;
/// Share of differing readings from which two equal readings may be equal by chance. If a thread leaves its path at
/// random times, so that this share of the readings differs, it has taken another path and come back between 2 % of the
/// readings that agree (a Poisson process).
const FREQUENT: f32 = 1.0 / 6.0;
/// A thread begins as if this number of readings had been made and one had differed: three more are too many. Many of
/// rustc's threads have one or two when they begin.
const AT_FIRST: f32 = 16.0;

/// Time between two readings that is taken as usual for a new thread.
const GAP_AT_FIRST_NS: f32 = 8e6;
/// Window of the moving average of the time between two readings, in readings.
const GAPS: f32 = 8.0;

/// The share of readings that differ from the one before.
pub(crate) struct ReadingChanges {
    share: f32,
    readings: f32,
    /// ns between two readings, in which the thread ran.
    gap_ns: f32,
    present: Option<ReadingComparison>,
}

/// A reading beside the one before it.
#[derive(Clone, Copy)]
struct ReadingComparison {
    begun: Timestamp,
    gap_ns: f32,
    /// For all samples so far.
    agrees: bool,
}

impl Default for ReadingChanges {
    fn default() -> ReadingChanges {
        ReadingChanges {
            share: 1.0 / AT_FIRST,
            readings: AT_FIRST,
            gap_ns: GAP_AT_FIRST_NS,
            present: None,
        }
    }
}

impl ReadingChanges {
    /// Takes what a sample found: whether the reading that began at `begun` agrees with the last one before the sample.
    /// True if they may agree by chance.
    pub(crate) fn take(&mut self, sampled: Timestamp, begun: Timestamp, agrees: bool) -> bool {
        let gap_ns = match &mut self.present {
            Some(present) if present.begun == begun => {
                present.agrees &= agrees;
                present.gap_ns
            }
            present => {
                // From the first sample on: a thread that waited before has not changed its stack.
                let gap_ns = begun.0.saturating_sub(sampled.0) as f32;
                let next = ReadingComparison { begun, gap_ns, agrees };
                if let Some(past) = present.replace(next) {
                    self.readings = (self.readings + 1.0).min(READINGS);
                    self.share += (f32::from(u8::from(!past.agrees)) - self.share) / self.readings;
                    self.gap_ns += (past.gap_ns - self.gap_ns) / GAPS;
                }
                gap_ns
            }
        };
        // In twice the time, twice as many change.
        self.share * (gap_ns / self.gap_ns).max(1.0) > FREQUENT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Whether two readings agree by chance after these, 4 ms apart.
    fn frequent_after(changes: impl Iterator<Item = bool>) -> bool {
        let mut thread = ReadingChanges::default();
        let mut at = 0;
        for differs in changes {
            at += 4 * MS;
            thread.take(Timestamp(at - 4 * MS), Timestamp(at), !differs);
        }
        thread.take(Timestamp(at), Timestamp(at + 4 * MS), true)
    }

    #[test]
    fn few_changes_among_many_readings_are_rare_and_every_fourth_is_frequent() {
        assert!(!frequent_after([false].into_iter()));
        assert!(!frequent_after([true].into_iter()));
        assert!(frequent_after([true, true, true].into_iter()));
        assert!(!frequent_after((0..100).map(|at| at == 50 || at == 51)));
        assert!(frequent_after((0..100).map(|at| at % 4 == 0)));
        assert!(!frequent_after((0..200).map(|at| at % 20 == 0)));
        assert!(!frequent_after((0..200).map(|at| at < 50)));
    }

    #[test]
    fn samples_of_one_reading_count_once() {
        let mut thread = ReadingChanges::default();
        (1..50).for_each(|at| {
            thread.take(Timestamp(at - 1), Timestamp(at), true);
        });
        (0..100).for_each(|_| {
            thread.take(Timestamp(49), Timestamp(50), false);
        });
        assert!(!thread.take(Timestamp(50), Timestamp(51), true));
    }

    #[test]
    fn readings_much_further_apart_than_usual_agree_by_chance_unless_the_stack_never_changed() {
        let mut thread = ReadingChanges::default();
        assert!(!thread.take(Timestamp(0), Timestamp(16 * MS), true));
        let mut thread = ReadingChanges::default();
        assert!(thread.take(Timestamp(0), Timestamp(80 * MS), true));
        assert!(
            thread.take(Timestamp(79 * MS), Timestamp(80 * MS), true),
            "of the same reading"
        );
        let mut at = 0;
        let mut take = |gap: u64, agrees| {
            at += gap * MS;
            thread.take(Timestamp(at - gap * MS), Timestamp(at), agrees)
        };
        for gap in (4..64).flat_map(|gap| [gap; 4]) {
            take(gap, true);
        }
        assert!(!take(600, true));
        (0..8).for_each(|at| {
            take(64, at > 3);
        });
        assert!(!take(64, true));
        assert!(take(600, true));
    }
}
