//! Why a recording has no samples.

use std::fmt;

use recording::cpu_account::UnrecordedCause;
use recording::info::{PeriodUnit, RecordingInfo};
use recording::quality::Quality;

use super::BuildCounts;

/// Why there are no samples, as far as the recording shows it. Its text is a sentence without full stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSamples {
    /// The program never resumed the recording.
    NeverResumed,
    /// All samples were of threads other than main threads.
    LeftOut,
    /// All samples were lost.
    Lost,
    /// The program's exec removed its events.
    LostEvents,
    /// The program ran for many intervals without events, for an unknown reason.
    WithoutEvents,
    /// The recorder received nothing from the program.
    NothingCame,
    /// The event does not count time, and is rare.
    EventIsRare,
    /// The program ran for many intervals, and only its user code was sampled.
    OnlyKernel,
    /// The program ran for many intervals of the processor's counter without a sample.
    NotDelivered,
    /// The program ran for many intervals in short tasks. The timer restarts for each task and never expired.
    ShortTasks,
    /// The program ran for a few intervals at most, or for an unknown time.
    TooShort,
}

impl NoSamples {
    /// The reason for a recording without samples.
    pub fn from_counts(counts: &BuildCounts, quality: &Quality, info: &RecordingInfo) -> NoSamples {
        // A few intervals may pass without a sample, because each CPU counts separately.
        const MANY: f64 = 10.0;
        let in_intervals = |ns: u64| ns as f64 / 1e9 * quality.asked_rate_hz;
        let intervals = in_intervals(quality.cpu_time_ns.unwrap_or_default());
        let account = &quality.cpu_account;
        if counts.sampled.is_some_and(|sampled| sampled.parts == 0) {
            NoSamples::NeverResumed
        } else if counts.samples_left_out > 0 {
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
            NoSamples::NeverResumed => {
                "the recording was paused, and no program has resumed it: it calls sprof_spans::Recording::resume(), or \
                 sprof_resume() of sprof.h"
            }
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
