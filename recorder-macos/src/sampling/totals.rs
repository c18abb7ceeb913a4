//! What was recorded, and what was not.

use std::path::PathBuf;

/// Sums over all processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Samples.
    pub samples: u64,
    /// Samples of threads whose CPU sprof had taken, because no other CPU was free. Part of `samples`.
    pub displaced_samples: u64,
    /// Samples of threads that waited for a CPU, because they were never found on one. Part of `samples`.
    pub queued_samples: u64,
    /// CPU time counted by the kernel, ns.
    pub cpu_ns: u64,
    /// CPU time of threads after their last sample, or without samples, ns. Part of `cpu_ns`.
    pub unsampled_ns: u64,
    /// CPU time of threads that lived between two looks, or after the last look, ns. Part of `cpu_ns`.
    pub unseen_ns: u64,
    /// How often a thread was suspended and found to be waiting for a CPU: no sample.
    pub queued: u64,
    /// Ticks that were left out, because the recorder was late or ticks took long.
    pub missed_ticks: u64,
    /// For how long threads were suspended, ns.
    pub suspended_ns: u64,
    /// The longest time for which a thread was suspended, ns.
    pub longest_suspended_ns: u64,
    /// Processes that could not be recorded, or only up to some time: the kernel gave no right to their tasks.
    pub unreached: u64,
    /// CPU time of `unreached` processes, ns. It is not part of the other sums.
    pub unreached_cpu_ns: u64,
    /// Ticks took too long for a realtime policy, which was given up.
    pub gave_up_realtime: bool,
    /// Programs that announced themselves, and had stopped waiting when they were reached.
    pub late_programs: u64,
    /// Messages to the recorder's port that were refused: not verified, or from a process that is not below a recorded
    /// one.
    pub refused_messages: u64,
}

/// A process that the kernel gave no right to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreachedProcess {
    /// The process.
    pub pid: i32,
    /// Its name.
    pub name: String,
    /// What it executed, where that is known.
    pub program: Option<PathBuf>,
    /// CPU time meanwhile, ns.
    pub cpu_ns: u64,
}

impl Totals {
    /// Adds the time for which a thread was suspended.
    pub(super) fn suspended(&mut self, ns: u64) {
        self.suspended_ns = self.suspended_ns.saturating_add(ns);
        self.longest_suspended_ns = self.longest_suspended_ns.max(ns);
    }

    /// What a reader must know to judge the recording, a sentence each.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = vec![format!(
            "threads were suspended for {:.1} us for a sample on average, and for {:.0} us at most",
            self.suspended_ns as f64 / 1e3 / (self.samples + self.queued).max(1) as f64,
            self.longest_suspended_ns as f64 / 1e3
        )];
        if self.missed_ticks > 0 {
            notes.push(format!(
                "{} ticks were missed because sprof got no CPU in time: the samples after them weigh more",
                self.missed_ticks
            ));
        }
        let percent = 100.0 * self.displaced_samples as f64 / self.samples.max(1) as f64;
        if percent >= 1.0 {
            notes.push(format!(
                "{percent:.0} % of the samples are of threads whose CPU sprof had just taken: no other one was free"
            ));
        }
        let percent = 100.0 * self.queued_samples as f64 / self.samples.max(1) as f64;
        if percent >= 1.0 {
            notes.push(format!(
                "{percent:.0} % of the samples are of threads that waited for a CPU: functions that wait have too large a share"
            ));
        }
        let percent = 100.0 * self.unseen_ns as f64 / self.cpu_ns.max(1) as f64;
        if percent >= 1.0 {
            notes.push(format!(
                "{percent:.0} % of the CPU time was used by threads that lived for less than an interval: it has no samples"
            ));
        }
        if self.gave_up_realtime {
            notes.push("sprof gave up its realtime priority: the program has too many threads for that".to_owned());
        }
        if self.late_programs > 0 {
            let programs = if self.late_programs == 1 { "program" } else { "programs" };
            notes.push(format!(
                "{} {programs} had stopped waiting for sprof before sprof reached them: the first seconds have no samples",
                self.late_programs
            ));
        }
        if self.refused_messages > 0 {
            let messages = if self.refused_messages == 1 {
                "message"
            } else {
                "messages"
            };
            notes.push(format!(
                "{} {messages} to sprof were refused: what sent them is not below the program, or another process than it says",
                self.refused_messages
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_recorded_is_in_the_notes() {
        let mut totals = Totals {
            samples: 3,
            queued: 1,
            cpu_ns: 1000,
            ..Totals::default()
        };
        [2000, 6000, 4000, 4000].into_iter().for_each(|ns| totals.suspended(ns));
        assert_eq!(
            totals.notes(),
            ["threads were suspended for 4.0 us for a sample on average, and for 6 us at most"]
        );
        totals.missed_ticks = 7;
        totals.displaced_samples = 2;
        totals.queued_samples = 1;
        totals.unseen_ns = 30;
        totals.gave_up_realtime = true;
        (totals.late_programs, totals.refused_messages) = (2, 1);
        let notes = totals.notes();
        assert_eq!(notes.len(), 8);
        assert!(notes[1].starts_with("7 ticks") && notes[2].starts_with("67 %") && notes[3].starts_with("33 %"));
        assert!(notes[4].starts_with("3 %") && notes[5].contains("realtime"));
        assert!(notes[6].starts_with("2 programs had stopped") && notes[7].starts_with("1 message to"));
    }
}
