//! The events of waits: the switches of threads away from a CPU and back, and the stacks of waiting threads.
//!
//! Two more events per CPU beside those that sample, with rings of their own; further threads write into the same
//! rings. A program that switches a million times a second fills 64 MB a second, and must not push out the samples.
//! Stacks must not push out switches.
//!
//! - Switch records: each switch with its exact time, 40 bytes.
//! - Stacks: a sample at each switch away from a CPU. Where stacks come too fast to be unwound, they are switched off
//!   for a while. The kernel's own limit, a frequency, does not serve: a burst of three switches raises the period, and
//!   only a timer tick that finds the thread running lowers it. For a thread that mostly waits it left out half of the
//!   waits, at 80 switches a second.
//!
//! Cost with hundreds of thousands of switches a second: a switch takes 1.4 times its time under sprof without
//! `--off-cpu`, nearly all of it for the two switch records; no record was lost. With threads that only yield, 700,000
//! times in a second of CPU time: 1.6 times. To measure again: `cargo bench -p sprof --bench recording -- offcpu`.
//!
//! The thread that wakes another one is not recorded. `sched:sched_waking` on every thread made each switch 1.4 to 1.6
//! times as expensive (1.1 to 1.7 us more), and its pid belongs to the first PID namespace: in another one it would
//! name the wrong thread.

use std::io;
use std::time::Duration;

use super::rings::larger_stack_bytes;
use super::sampling_event::SharedSettings;
use super::scope::WantedEvents;
use crate::sys::perf_event::{Attr, SW_CONTEXT_SWITCHES, SW_DUMMY, TYPE_SOFTWARE, flag};
use perf_data::decode::SAMPLE_CALLCHAIN;

/// A thread keeps its stack during a long wait, so the part that is not in the dump can still be read. Short waits are
/// many, so a single stack matters little.
const USUAL_STACK_BYTES: u32 = 8 << 10;
/// Most stacks of waits a second, for each sample a second that was asked for. A stack takes about 10 us to unwind.
const STACKS_PER_SAMPLE: f64 = 4.0;
/// Shortest pause of stacks: switching them off and on takes a microsecond for each thread and CPU.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
/// Longest pause of stacks.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The attributes of the event that writes a record for each switch.
pub(super) fn switches(common: &SharedSettings) -> Attr {
    let common = common.choice.common_attr(common.scope, 0);
    Attr {
        kind: TYPE_SOFTWARE,
        config: SW_DUMMY,
        sample_period_or_freq: 1,
        flags: common.flags | flag::EXCLUDE_KERNEL | flag::CONTEXT_SWITCH,
        ..common
    }
}

/// Size of the stack copies of waits, and the size once many stacks are deeper: as much as samples may copy.
pub(super) fn stack_bytes(wanted: &WantedEvents<'_>, cpus: usize) -> (u32, Option<u32>) {
    let usual = wanted.stack_bytes.min(USUAL_STACK_BYTES);
    let larger = match wanted.larger_stacks {
        true => larger_stack_bytes(wanted.stack_bytes, wanted.rate_hz, cpus),
        // The user has chosen the size.
        false => Some(wanted.stack_bytes),
    };
    (
        usual,
        larger.filter(|larger| wanted.larger_wait_stacks && *larger > usual),
    )
}

/// Attributes of an event of the recorder's own thread that records nothing: its ring is for other events.
pub(super) fn owner(common: &SharedSettings) -> Attr {
    let common = common.choice.common_attr(common.scope, 0);
    Attr {
        kind: TYPE_SOFTWARE,
        config: SW_DUMMY,
        flags: (common.flags | flag::EXCLUDE_KERNEL) & !(flag::INHERIT | flag::ENABLE_ON_EXEC),
        ..common
    }
}

/// The attributes of the event that copies `stack_bytes` of the stack at each switch away from a CPU.
pub(super) fn stacks(common: &SharedSettings, stack_bytes: u32) -> Attr {
    let common = common.choice.common_attr(common.scope, stack_bytes);
    Attr {
        kind: TYPE_SOFTWARE,
        config: SW_CONTEXT_SWITCHES,
        sample_period_or_freq: 1,
        flags: common.flags | flag::EXCLUDE_CALLCHAIN_USER,
        sample_type: common.sample_type | SAMPLE_CALLCHAIN,
        ..common
    }
}

/// Why an event of waits did not open.
pub(super) fn failed(name: &str, cpu: u32, error: &io::Error) -> String {
    let what = format!("cannot open the perf event {name} on CPU {cpu}: {error}");
    match error.raw_os_error() {
        Some(libc::EMFILE) => {
            format!(
                "{what}; three files per CPU are needed: raise `ulimit -n`, or leave out --off-cpu and --parallelism"
            )
        }
        _ => format!("{what}; leave out --off-cpu and --parallelism"),
    }
}

/// Limits the number of stacks to what can be unwound beside the samples.
#[derive(Debug)]
pub(crate) struct StackLimit {
    per_second: f64,
    /// Number of stacks that may come at once.
    allowance: f64,
    last_ns: u64,
    paused_until_ns: Option<u64>,
    was_reached: bool,
}

impl StackLimit {
    /// The limit for a recording that asks for this many samples a second.
    pub(crate) fn new(rate_hz: f64, now_ns: u64) -> StackLimit {
        let per_second = rate_hz * STACKS_PER_SAMPLE;
        StackLimit {
            per_second,
            allowance: Self::MOST_SAVED_SECONDS * per_second,
            last_ns: now_ns,
            paused_until_ns: None,
            was_reached: false,
        }
    }

    const MOST_SAVED_SECONDS: f64 = 0.25;

    /// True if stacks were ever switched off.
    pub(crate) fn was_reached(&self) -> bool {
        self.was_reached
    }

    /// Counts `taken` stacks since the last call. `Some(true)`: switch stacks on. `Some(false)`: switch them off.
    /// `None`: change nothing.
    pub(crate) fn after(&mut self, taken: u64, now_ns: u64) -> Option<bool> {
        let seconds = now_ns.saturating_sub(self.last_ns) as f64 / 1e9;
        self.last_ns = now_ns;
        self.allowance += seconds * self.per_second - taken as f64;
        self.allowance = self.allowance.min(Self::MOST_SAVED_SECONDS * self.per_second);
        match self.paused_until_ns {
            Some(until_ns) if now_ns >= until_ns => {
                self.paused_until_ns = None;
                self.allowance = self.allowance.max(0.0);
                Some(true)
            }
            None if self.allowance < 0.0 => {
                let pause = Duration::from_secs_f64(-self.allowance / self.per_second);
                let pause = pause.clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
                self.paused_until_ns = Some(now_ns.saturating_add(pause.as_nanos() as u64));
                self.was_reached = true;
                Some(false)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_few_thousand_stacks_a_second_are_never_switched_off() {
        let mut limit = StackLimit::new(1000.0, 0);
        for round in 1..1000 {
            assert_eq!(limit.after(60, round * 16 * MS), None);
        }
    }

    #[test]
    fn a_flood_is_switched_off_for_as_long_as_it_was_above_the_limit() {
        let mut limit = StackLimit::new(1000.0, 0);
        assert_eq!(limit.after(2000, 16 * MS), Some(false));
        assert_eq!(limit.after(0, 100 * MS), None);
        assert_eq!(limit.after(0, 300 * MS), Some(true));
        assert_eq!(limit.after(10, 316 * MS), None);
        assert_eq!(limit.after(1_000_000, 332 * MS), Some(false));
        assert_eq!(limit.after(0, 1300 * MS), None);
        assert_eq!(limit.after(0, 1333 * MS), Some(true));
    }
}
