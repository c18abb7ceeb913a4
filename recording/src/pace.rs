//! When a recorder that stops threads takes samples: arithmetic, no system calls.
//!
//! [`Ticks`] are the times at which it looks for threads on a CPU. Each thread has an [`Account`]: a sample stands for
//! the CPU time since the thread's last one, so weights add up to the CPU time, however many ticks were missed.

/// What the scheduler has counted for one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadReading {
    /// Time on a CPU, ns. It is exact for a thread that is not on one. Of a running thread it is as of the last timer
    /// tick (Linux, 4 ms at CONFIG_HZ=250), or as of its last entry into the kernel (macOS).
    pub cpu_ns: u64,
    /// Time spent waiting for a CPU, ns, up to when it last got one. 0 where the kernel does not count this.
    pub waited_ns: u64,
    /// How often the thread was given a CPU. 0 where the kernel does not count this.
    pub slices: u64,
}

/// One thread's account.
#[derive(Clone, Copy, Debug, Default)]
pub struct Account {
    /// When the account was opened.
    opened: ThreadReading,
    /// CPU time at the last sample, ns.
    sampled_ns: u64,
    /// The last reading.
    seen: ThreadReading,
}

impl Account {
    /// An account that starts with this reading.
    pub fn open(reading: ThreadReading) -> Account {
        Account {
            opened: reading,
            sampled_ns: reading.cpu_ns,
            seen: reading,
        }
    }

    /// True if the thread was on a CPU since the last reading. If not, it is not on one now: getting a CPU counts as
    /// a slice at once, and keeping it as CPU time soon.
    pub fn has_run(&mut self, reading: ThreadReading) -> bool {
        let has_run = self.would_have_run(reading);
        self.see(reading);
        has_run
    }

    /// As [`Account::has_run`], without noting the reading.
    pub fn would_have_run(&self, reading: ThreadReading) -> bool {
        reading.cpu_ns > self.seen.cpu_ns || reading.slices != self.seen.slices
    }

    /// True if the thread has used at least `patience_ns` of CPU time without a sample.
    pub fn is_owed(&self, reading: ThreadReading, patience_ns: u64) -> bool {
        reading.cpu_ns.saturating_sub(self.sampled_ns) >= patience_ns
    }

    /// Notes a sample. Returns what the sample stands for: the CPU time since the last one, ns.
    pub fn sample(&mut self, reading: ThreadReading) -> u64 {
        self.see(reading);
        let since_ns = self.seen.cpu_ns - self.sampled_ns;
        self.sampled_ns = self.seen.cpu_ns;
        since_ns
    }

    /// Notes a later reading.
    pub fn see(&mut self, reading: ThreadReading) {
        // Two sources of different precision may seem to go back.
        let cpu_ns = self.seen.cpu_ns.max(reading.cpu_ns);
        self.seen = ThreadReading { cpu_ns, ..reading };
    }

    /// CPU time since the last sample, ns.
    pub fn unsampled_ns(&self) -> u64 {
        self.seen.cpu_ns - self.sampled_ns
    }

    /// CPU time since the account was opened, ns.
    pub fn used_ns(&self) -> u64 {
        self.seen.cpu_ns - self.opened.cpu_ns
    }

    /// Time spent waiting for a CPU since then, ns; 0 where the kernel does not count it.
    pub fn waited_ns(&self) -> u64 {
        self.seen.waited_ns.saturating_sub(self.opened.waited_ns)
    }
}

/// Pause after a tick, as a multiple of the tick's own CPU time: ticks take a tenth of a CPU at most.
const PAUSE_PER_WORK: u64 = 9;

/// The times of the ticks: an interval apart on average, by chance up to a half more or less, so that no program can
/// be in step with them, nor the scheduler's time slices.
#[derive(Debug)]
pub struct Ticks {
    interval_ns: u64,
    chance: u64,
    next_ns: u64,
}

impl Ticks {
    /// Ticks after `now_ns`, on any monotonic clock.
    pub fn new(interval_ns: u64, now_ns: u64) -> Ticks {
        let mut ticks = Ticks {
            interval_ns,
            chance: now_ns | 1,
            next_ns: now_ns,
        };
        ticks.advance(now_ns, 0);
        ticks
    }

    /// The interval that was asked for, ns.
    pub fn interval_ns(&self) -> u64 {
        self.interval_ns
    }

    /// When to stop a thread again that had to leave its CPU: after a tenth of an interval, by chance more or less,
    /// because the thread is still near the code where it was stopped.
    pub fn again_ns(&self, now_ns: u64) -> u64 {
        let tenth = self.interval_ns / 10;
        now_ns.saturating_add(tenth / 2 + self.chance % (tenth + 1))
    }

    /// When the next tick is, ns on the clock of [`Ticks::new`].
    pub fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Chooses the time of the next tick. This one took `work_ns` of CPU time. Missed ticks are left out, and a tick
    /// that took long (thousands of threads) is followed by a longer pause. Returns how many are left out.
    pub fn advance(&mut self, now_ns: u64, work_ns: u64) -> u64 {
        // xorshift64, Marsaglia 2003.
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        let spread = self.interval_ns;
        let gap = self.interval_ns - spread / 2 + self.chance % (spread + 1);
        let pause = work_ns.saturating_mul(PAUSE_PER_WORK);
        // From the planned time, not from now: a small delay must not lower the rate. But a tick right after
        // a very late one would count the same moment twice.
        let planned = self.next_ns.saturating_add(gap);
        let earliest = now_ns.saturating_add(pause);
        if planned >= earliest {
            self.next_ns = planned;
            return 0;
        }
        self.next_ns = earliest.saturating_add(gap);
        let left_out_ns = self.next_ns.saturating_sub(planned);
        left_out_ns.saturating_add(self.interval_ns / 2) / self.interval_ns.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: u64 = 10_000_000;

    fn reading(cpu_ns: u64, waited_ns: u64, slices: u64) -> ThreadReading {
        ThreadReading {
            cpu_ns,
            waited_ns,
            slices,
        }
    }

    #[test]
    fn a_thread_that_has_not_run_since_is_left_alone() {
        let mut account = Account::open(reading(0, 0, 0));
        assert!(
            account.has_run(reading(0, 100, 1)),
            "it got its first CPU, the time is not up to date"
        );
        assert!(account.has_run(reading(4_000_000, 100, 1)), "it still has it");
        assert!(!account.has_run(reading(4_000_000, 100, 1)), "it sleeps, or waits");
        assert!(account.has_run(reading(4_000_000, 900, 2)), "it is back");
    }

    #[test]
    fn a_sample_stands_for_the_cpu_time_since_the_last() {
        let mut account = Account::open(reading(7_000, 0, 1));
        assert_eq!(account.sample(reading(9_000, 0, 1)), 2_000);
        account.see(reading(9_500, 0, 2));
        assert_eq!(account.sample(reading(10_000, 0, 2)), 1_000);
        assert_eq!(account.used_ns(), 3_000);
    }

    #[test]
    fn a_thread_that_is_never_met_on_a_cpu_gets_a_sample_all_the_same() {
        let mut account = Account::open(reading(5, 0, 1));
        assert!(!account.is_owed(reading(2 * INTERVAL, 0, 9), 2 * INTERVAL));
        assert!(account.is_owed(reading(2 * INTERVAL, 0, 9), INTERVAL));
        assert!(account.is_owed(reading(2 * INTERVAL + 5, 0, 9), 2 * INTERVAL));
        account.sample(reading(2 * INTERVAL + 5, 0, 9));
        assert_eq!(account.unsampled_ns(), 0);
        assert!(!account.is_owed(reading(3 * INTERVAL, 0, 9), INTERVAL));
    }

    #[test]
    fn cpu_time_that_goes_back_is_not_believed() {
        let mut account = Account::open(reading(50, 0, 1));
        account.see(reading(100, 0, 1));
        assert_eq!(account.sample(reading(60, 0, 1)), 50);
        assert_eq!(account.sample(reading(u64::MAX, 0, 1)), u64::MAX - 100);
    }

    #[test]
    fn ticks_are_an_interval_apart_on_average_and_never_in_step() {
        let mut ticks = Ticks::new(INTERVAL, 5);
        let mut gaps = Vec::new();
        for _ in 0..10_000 {
            let now = ticks.next_ns();
            ticks.advance(now, 0);
            gaps.push(ticks.next_ns() - now);
        }
        let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
        assert!((mean / INTERVAL as f64 - 1.0).abs() < 0.01, "{mean}");
        assert!(gaps.iter().all(|gap| (INTERVAL / 2..=INTERVAL * 3 / 2).contains(gap)));
        assert!(gaps.iter().collect::<std::collections::HashSet<_>>().len() > 5000);
    }

    #[test]
    fn missed_ticks_are_not_made_up_for_and_long_ones_are_followed_by_pauses() {
        let mut ticks = Ticks::new(INTERVAL, 0);
        let gap = |ticks: &Ticks, from: u64| (ticks.next_ns() - from) as f64 / INTERVAL as f64;
        let planned = ticks.next_ns();
        let left_out = ticks.advance(100 * INTERVAL, 0);
        assert!((left_out as f64 - gap(&ticks, planned)).abs() <= 2.0, "{left_out}");
        assert!(ticks.next_ns() >= 100 * INTERVAL + INTERVAL / 2);
        ticks.advance(202 * INTERVAL, 2 * INTERVAL);
        assert!(ticks.next_ns() >= 220 * INTERVAL);
    }
}
