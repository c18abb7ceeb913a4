//! How far a share of samples may be from the truth by chance.

use super::Profile;
use super::profile::Share;

/// Standard deviations: chance refuses a right answer once in 1.7 million times.
const SIGMAS: f64 = 5.0;
/// The programs keep to their shares by counting rounds or CPU time; a CPU whose speed changes meanwhile makes such a difference.
const PROGRAM_POINTS: f64 = 1.0;
/// Fewer samples say nothing: at 60 % the bound is 17 points here, 2.5 at 10,000.
const FEWEST_SAMPLES: u64 = 200;

impl Share {
    /// So many points are chance, where a share is `percent` in truth and each sample falls where it does by itself.
    pub(crate) fn chance_points(self, percent: f64) -> f64 {
        let share = percent / 100.0;
        100.0 * SIGMAS * (share * (1.0 - share) / self.of.max(1) as f64).sqrt()
    }

    /// `what` has this share of the time, as far as so many samples can tell.
    pub(crate) fn assert_is(self, percent: f64, what: &str, profile: &Profile) {
        let summary = || profile.summary();
        assert!(
            self.of >= FEWEST_SAMPLES,
            "{what}: only {} samples\n{}",
            self.of,
            summary()
        );
        let (found, chance) = (self.percent(), self.chance_points(percent) + PROGRAM_POINTS);
        assert!(
            (found - percent).abs() <= chance,
            "{what}: {found:.1} %, not {percent} \u{b1} {chance:.1} %\n{}",
            summary()
        );
    }
}
