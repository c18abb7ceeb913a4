//! When the recording samples: programs pause and resume it.

use std::collections::VecDeque;

/// Who may pause and resume a recording.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SamplingSwitch {
    /// Its programs.
    Programs {
        /// It begins without samples.
        begins_paused: bool,
    },
    /// Nobody: why.
    Nobody(&'static str),
}

/// The switches of all programs, in the order of their times.
///
/// A program writes the time of its switch some nanoseconds after it read the clock, and sprof takes records of half a
/// millisecond ago, so a switch is known before what follows it. If the program was interrupted in between for longer,
/// the switch counts from the last event that was sent on: the times in the profile are those that were sampled.
#[derive(Debug)]
pub(super) struct SamplingTimes {
    who: SamplingSwitch,
    start_ns: u64,
    samples: bool,
    /// Not 0 once an event was sent on: its time.
    passed_ns: u64,
    coming: VecDeque<(u64, bool)>,
    /// Switches that were not read.
    pub(super) lost: u64,
    /// A program switched where nobody may.
    was_refused: bool,
}

impl SamplingTimes {
    pub(super) fn new(who: SamplingSwitch, start_ns: u64) -> SamplingTimes {
        SamplingTimes {
            who,
            start_ns,
            samples: true,
            passed_ns: 0,
            coming: VecDeque::new(),
            lost: 0,
            was_refused: false,
        }
    }

    /// Adds a switch that a program made at this time.
    pub(super) fn add(&mut self, time_ns: u64, samples: bool) {
        match self.who {
            // A recording that is to have all has what a program chose for an earlier one.
            SamplingSwitch::Programs { begins_paused: false } if time_ns < self.start_ns => {}
            SamplingSwitch::Programs { .. } => {
                let time_ns = time_ns.max(self.passed_ns).max(self.start_ns);
                let next = self.coming.partition_point(|(time, _)| *time <= time_ns);
                self.coming.insert(next, (time_ns, samples));
            }
            SamplingSwitch::Nobody(_) => self.was_refused = true,
        }
    }

    /// Goes on to an event of this time. Returns whether it is sampled. `changed`: the times up to there from which on
    /// the recording samples, or does not.
    pub(super) fn pass(&mut self, time_ns: u64, changed: &mut dyn FnMut(u64, bool)) -> bool {
        if self.passed_ns == 0 && self.begins_paused() {
            self.samples = false;
            changed(self.start_ns, false);
        }
        while let Some((at_ns, samples)) = self.coming.pop_front_if(|(at_ns, _)| *at_ns <= time_ns) {
            if std::mem::replace(&mut self.samples, samples) != samples {
                changed(at_ns, samples);
            }
        }
        self.passed_ns = self.passed_ns.max(time_ns);
        self.samples
    }

    pub(super) fn begins_paused(&self) -> bool {
        matches!(self.who, SamplingSwitch::Programs { begins_paused: true })
    }

    /// What is to be said at the end.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> {
        let lost = (self.lost > 0).then(|| {
            format!(
                "{} of the calls that pause or resume the recording came faster than they were read: it was paused meanwhile",
                self.lost
            )
        });
        let refused = match self.who {
            SamplingSwitch::Nobody(why) if self.was_refused => Some(format!(
                "a program paused or resumed the recording, which had no effect: {why}"
            )),
            _ => None,
        };
        lost.into_iter().chain(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is sampled of events at these times, and the changes.
    fn sampled(times: &mut SamplingTimes, events: &[u64]) -> (Vec<bool>, Vec<(u64, bool)>) {
        let mut changes = Vec::new();
        let sampled = events
            .iter()
            .map(|time| times.pass(*time, &mut |at, on| changes.push((at, on))))
            .collect();
        (sampled, changes)
    }

    #[test]
    fn switches_of_all_programs_count_in_the_order_of_their_times_and_late_ones_from_what_was_sent() {
        let mut times = SamplingTimes::new(SamplingSwitch::Programs { begins_paused: true }, 100);
        // Of a section that ended before the recording, and of one that had begun.
        times.add(10, true);
        times.add(20, false);
        for (time, on) in [(200, true), (400, false), (300, true)] {
            times.add(time, on);
        }
        let (seen, changes) = sampled(&mut times, &[150, 199, 200, 399, 400, 500]);
        assert_eq!(seen, [false, false, true, true, false, false]);
        assert_eq!(
            changes,
            [(100, false), (100, true), (100, false), (200, true), (400, false)]
        );
        times.add(450, true);
        assert_eq!(sampled(&mut times, &[501]), (vec![true], vec![(500, true)]));
    }

    #[test]
    fn a_recording_of_all_begins_with_samples_whatever_was_chosen_before_it() {
        let mut times = SamplingTimes::new(SamplingSwitch::Programs { begins_paused: false }, 100);
        times.add(50, false);
        assert_eq!(sampled(&mut times, &[100]), (vec![true], vec![]));
        times.add(150, false);
        assert_eq!(sampled(&mut times, &[150]), (vec![false], vec![(150, false)]));
        let mut times = SamplingTimes::new(SamplingSwitch::Nobody("why"), 0);
        times.add(5, false);
        assert_eq!(sampled(&mut times, &[10]), (vec![true], vec![]));
        assert_eq!(times.notes().count(), 1);
    }
}
