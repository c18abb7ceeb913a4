//! Sums of the threads' off-CPU times.

use recording::wait::{WaitGuess, WaitReason};

/// The sum of some waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitSum {
    /// Number of waits.
    pub count: u64,
    /// Their duration, ns.
    pub ns: u64,
}

impl WaitSum {
    fn add(&mut self, ns: u64) {
        self.count += 1;
        self.ns = self.ns.saturating_add(ns);
    }
}

impl std::iter::Sum for WaitSum {
    fn sum<I: Iterator<Item = WaitSum>>(sums: I) -> WaitSum {
        sums.fold(WaitSum::default(), |sum, more| WaitSum {
            count: sum.count + more.count,
            ns: sum.ns.saturating_add(more.ns),
        })
    }
}

/// All waits of all threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitTotals {
    /// In the order of [`WaitReason::ALL`].
    by_reason: [WaitSum; WaitReason::ALL.len()],
    /// In the order of [`GUESSES`].
    by_guess: [WaitSum; GUESSES.len()],
    /// Waits that had not ended at the recording's end; counted up to the end.
    pub still_waiting: u64,
    /// Initial waits: they began before the recording, and are counted from its start.
    pub initial: u64,
    /// Threads that were off-CPU throughout, and were left out: see `BuildOptions::awake_threads_only`.
    pub never_ran: u64,
    /// CPU time of samples plus time of waits of all threads, ns, to compare with the recorded time. The sum can be
    /// larger: the kernel counts a switch between threads as CPU time of the next thread, which the records still show
    /// as waiting. 0 if samples do not count time.
    pub accounted_ns: u64,
    /// Recorded time of all threads, ns: see `accounted_ns`.
    pub recorded_ns: u64,
    /// Waits left out because their start or end was lost.
    pub unpaired: u64,
}

const GUESSES: [WaitGuess; 3] = [WaitGuess::OtherWait, WaitGuess::LastOnCpu, WaitGuess::NotSampled];

impl WaitTotals {
    pub(crate) fn add(&mut self, reason: WaitReason, guess: Option<WaitGuess>, ns: u64) {
        self.by_reason[reason as usize].add(ns);
        if let Some(guess) = guess {
            self.by_guess[guess as usize].add(ns);
        }
    }

    /// Waits for this reason.
    pub fn of(&self, reason: WaitReason) -> WaitSum {
        self.by_reason[reason as usize]
    }

    /// Waits with a guessed stack, for this cause.
    pub fn guessed(&self, guess: WaitGuess) -> WaitSum {
        self.by_guess[guess as usize]
    }

    /// CPU time and waits as a share of the recorded time; `None` if not known.
    pub fn accounted_share(&self) -> Option<f64> {
        (self.recorded_ns > 0).then(|| self.accounted_ns as f64 / self.recorded_ns as f64)
    }

    /// Waits for anything except a CPU.
    pub fn blocked(&self) -> WaitSum {
        let blocked = WaitReason::ALL.iter().filter(|reason| **reason != WaitReason::Cpu);
        blocked.map(|reason| self.of(*reason)).sum()
    }

    /// All waits.
    pub fn all(&self) -> WaitSum {
        self.by_reason.iter().copied().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_kept_apart_by_reason_and_by_guess() {
        let mut totals = WaitTotals::default();
        for reason in WaitReason::ALL {
            totals.add(reason, None, 1);
        }
        totals.add(WaitReason::Cpu, Some(WaitGuess::LastOnCpu), 10);
        totals.add(WaitReason::Unknown, Some(WaitGuess::NotSampled), 100);
        let sum = |count, ns| WaitSum { count, ns };
        assert_eq!(totals.of(WaitReason::Cpu), sum(2, 11));
        assert_eq!(totals.of(WaitReason::Unknown), sum(2, 101));
        assert_eq!(totals.guessed(WaitGuess::LastOnCpu), sum(1, 10));
        assert_eq!(totals.guessed(WaitGuess::NotSampled), sum(1, 100));
        assert_eq!(totals.guessed(WaitGuess::OtherWait), sum(0, 0));
        assert_eq!(totals.all(), sum(13, 121));
        assert_eq!(totals.blocked(), sum(11, 110));
    }
}
