//! Why a recording has no samples.

use std::fmt;

use recording::cpu_account::UnrecordedCause;
use recording::info::{PeriodUnit, RecordingInfo};
use recording::quality::Quality;

use super::Counts;

/// The reason that there are no samples, as far as the recording tells. Its text is a sentence without full stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSamples {
    /// All were of other threads than the main ones.
    LeftOut,
    /// All were lost.
    Lost,
    /// The program has lost its events with its exec.
    LostEvents,
    /// The program ran for many intervals without events, and nothing tells why.
    WithoutEvents,
    /// Nothing came from the program.
    NothingCame,
    /// Not an event of time, and seldom.
    EventIsRare,
    /// The program ran for many intervals, and only its user code was sampled.
    OnlyKernel,
    /// The program ran for many intervals of the processor's counter.
    NotDelivered,
    /// The program ran for many intervals, but the timer, which starts anew for each task, never came to its end.
    ShortTasks,
    /// The program ran for a few intervals at most, or it is not known for how long.
    TooShort,
}

impl NoSamples {
    /// Of a recording without samples.
    pub fn of(counts: &Counts, quality: &Quality, info: &RecordingInfo) -> NoSamples {
        // A few intervals may be over without a sample: each CPU counts for itself.
        const MANY: f64 = 10.0;
        let in_intervals = |ns: u64| ns as f64 / 1e9 * quality.asked_rate_hz;
        let intervals = in_intervals(quality.cpu_time_ns.unwrap_or_default());
        let account = &quality.cpu_account;
        if counts.samples_left_out > 0 {
            NoSamples::LeftOut
        } else if quality.lost_total() > 0 {
            NoSamples::Lost
        } else if account.has(UnrecordedCause::UndumpableExec) {
            NoSamples::LostEvents
        } else if in_intervals(account.unrecorded_ns) >= MANY {
            NoSamples::WithoutEvents
        } else if counts.processes == 0 {
            NoSamples::NothingCame
        } else if info.unit == PeriodUnit::Counts {
            NoSamples::EventIsRare
        } else if intervals < MANY {
            NoSamples::TooShort
        } else if !info.kernel_included {
            NoSamples::OnlyKernel
        } else if info.unit == PeriodUnit::Cycles {
            NoSamples::NotDelivered
        } else {
            NoSamples::ShortTasks
        }
    }
}

impl fmt::Display for NoSamples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoSamples::LeftOut => {
                "all samples were of other threads than the main ones, which were asked to be left out"
            }
            NoSamples::Lost => "all samples were lost: the buffers were full",
            NoSamples::LostEvents => {
                "the kernel ended the events when a program was executed that has other rights, or that may not be read"
            }
            NoSamples::WithoutEvents => "the program used CPU time that no event was there for; the cause is not known",
            NoSamples::NothingCame => {
                "no event came from the program: it ended before recording began, or it could not be recorded"
            }
            NoSamples::EventIsRare => "the event did not happen often enough for one sample",
            NoSamples::OnlyKernel => "none fell into user code, and kernel code was not recorded",
            NoSamples::NotDelivered => "the program ran, but the processor's counter gave none",
            NoSamples::ShortTasks => "each process and thread used too little CPU time for this rate",
            NoSamples::TooShort => "the program used too little CPU time for this rate",
        })
    }
}
