//! The kernel's account of CPU time, beside the CPU time with events: what was not recorded, and why.

use crate::event::Pid;

/// A list of processes has at most this many; the others are counted.
pub const MOST_PROCESSES: usize = 100;

/// CPU time that no event was there for, as far as the kernel's accounting shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuAccount {
    /// CPU time of the launched program and of all processes that were waited for below it, by the scheduler's clock,
    /// ns. `None` where nothing was launched, or where it had run before recording began.
    pub accounted_ns: Option<u64>,
    /// Lower bound of the CPU time without events, ns. 0 if nothing is known to be missing.
    pub unrecorded_ns: u64,
    /// Processes without events, or with events only up to some time.
    pub unrecorded: Vec<ProcessTime>,
    /// Number of such processes that are not in the list.
    pub unrecorded_more: u64,
    /// Recorded processes that were still running when the recording ended with the launched program.
    pub left_running: Vec<ProcessTime>,
    /// Number of such processes that are not in the list.
    pub left_running_more: u64,
    /// CPU time of the whole machine while recording; `None` where the system does not say.
    pub machine: Option<MachineTime>,
}

/// CPU time of all CPUs of a machine, since it was started or between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineTime {
    /// CPU time that was used, ns.
    pub used_ns: u64,
    /// CPU time that the host of the virtual machine gave to others while something here could have run, ns.
    pub stolen_ns: u64,
}

impl MachineTime {
    /// From an earlier reading to this one.
    pub fn since(self, earlier: MachineTime) -> MachineTime {
        MachineTime {
            used_ns: self.used_ns.saturating_sub(earlier.used_ns),
            stolen_ns: self.stolen_ns.saturating_sub(earlier.stolen_ns),
        }
    }

    /// Share of the CPU time that the host took, 0 to 1. `None` if it is at most `HARMLESS_SHARE`, or within what two
    /// readings in ticks can differ by.
    ///
    /// It matters: with two thirds taken away, the events of a program counted twice the CPU time that the kernel
    /// accounted for it, and timers gave half of the samples (seen on Linux 6.18).
    pub fn stolen_share(self) -> Option<f64> {
        let share = self.stolen_ns as f64 / self.used_ns.saturating_add(self.stolen_ns).max(1) as f64;
        (self.stolen_ns > 2 * TICK_NS && share > HARMLESS_SHARE).then_some(share)
    }

    fn plus(self, other: MachineTime) -> MachineTime {
        MachineTime {
            used_ns: self.used_ns.saturating_add(other.used_ns),
            stolen_ns: self.stolen_ns.saturating_add(other.stolen_ns),
        }
    }
}

/// A process, with the kernel's account of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessTime {
    /// Process id.
    pub pid: Pid,
    /// Name of its program, at most 15 bytes.
    pub name: String,
    /// CPU time, ns. For an unrecorded process: lower bound of its CPU time without events. `None` if the process ended
    /// before that could be read.
    pub cpu_ns: Option<u64>,
    /// Why the process had no events; `None` if it had.
    pub cause: Option<UnrecordedCause>,
}

/// A smaller share changes no result that a reader would act on.
const HARMLESS_SHARE: f64 = 0.01;

/// Why a process had no events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnrecordedCause {
    /// The process executed a program that makes it undumpable: with the rights of another user or group, with more
    /// capabilities, or one that may not be read. There the kernel ends the events of a task, also those of others
    /// (begin_new_exec in fs/exec.c).
    UndumpableExec,
    /// The process ran below an attached process, and belongs to another user.
    OtherUser,
}

/// The longest scheduler tick: CONFIG_HZ is at least 100. At each tick the kernel samples whether user code runs, and
/// scales the sum to the scheduler's clock (cputime_adjust in kernel/sched/cputime.c).
const TICK_NS: u64 = 10_000_000;

/// CPU time of user code that the kernel accounts beyond what events were there for, ns; 0 if it can be chance, or the
/// ends of processes.
///
/// Only time of user code counts: an event begins at exec, and ends before a process gives back its memory (since Linux
/// 6.16, do_exit in kernel/exit.c), which took 15 ms of system time for 300 MB and 0.3 ms for each of 2000 children of
/// 20 MB.
///
/// A process shorter than a tick has no tick in the kernel, and its whole time is accounted as that of user code: one
/// tick a process. Of longer ones the kernel's split is a count of ticks, with a standard deviation of sqrt(user *
/// system / total) ticks; five of these.
pub fn user_time_without_events_ns(user_ns: u64, system_ns: u64, recorded_ns: u64, processes: u64) -> u64 {
    let (user, system) = (user_ns as f64, system_ns as f64);
    let deviation_ns = (user * system / (user + system).max(1.0) * TICK_NS as f64).sqrt();
    let processes_ns = TICK_NS.saturating_mul(processes.saturating_add(2));
    let chance_ns = processes_ns.saturating_add((5.0 * deviation_ns) as u64);
    let missing_ns = user_ns.saturating_sub(recorded_ns);
    if missing_ns > chance_ns { missing_ns } else { 0 }
}

impl CpuAccount {
    /// The account of two recordings together.
    pub fn plus(mut self, mut other: CpuAccount) -> CpuAccount {
        self.accounted_ns = (self.accounted_ns.zip(other.accounted_ns)).map(|(sum, more)| sum.saturating_add(more));
        self.unrecorded_ns = self.unrecorded_ns.saturating_add(other.unrecorded_ns);
        self.unrecorded_more += other.unrecorded_more + join(&mut self.unrecorded, &mut other.unrecorded);
        self.machine = (self.machine.zip(other.machine)).map(|(sum, more)| sum.plus(more));
        self.left_running_more += other.left_running_more + join(&mut self.left_running, &mut other.left_running);
        self
    }

    /// True if a process is missing for this cause.
    pub fn has(&self, cause: UnrecordedCause) -> bool {
        self.unrecorded.iter().any(|process| process.cause == Some(cause))
    }
}

/// Moves what there is room for, and returns how many are left.
fn join(list: &mut Vec<ProcessTime>, more: &mut Vec<ProcessTime>) -> u64 {
    let room = MOST_PROCESSES.saturating_sub(list.len()).min(more.len());
    list.extend(more.drain(..room));
    more.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_host_that_took_much_is_reported_and_chance_is_not() {
        let time = |used, stolen| MachineTime {
            used_ns: used * MS,
            stolen_ns: stolen * MS,
        };
        let took = time(1750, 260).since(time(1000, 10));
        assert_eq!(took, time(750, 250));
        assert_eq!(took.stolen_share(), Some(0.25));
        assert_eq!(took.plus(time(3000, 0)).stolen_share(), Some(0.0625));
        // Two ticks of a short recording, and a hundredth of a long one.
        for harmless in [time(40, 20), time(9900, 100), time(0, 0)] {
            assert_eq!(harmless.stolen_share(), None);
        }
    }

    #[test]
    fn a_second_of_user_code_without_events_is_missing() {
        assert_eq!(user_time_without_events_ns(1000 * MS, 0, 0, 1), 1000 * MS);
        assert_eq!(user_time_without_events_ns(1300 * MS, 5 * MS, 305 * MS, 3), 995 * MS);
    }

    #[test]
    fn what_ticks_and_ends_of_processes_explain_is_not_missing() {
        // Measured as an ordinary user (user, system, recorded, processes): no loss in any of them.
        let whole = [
            // 2000 children that only end, and as many of 20 MB.
            (227 * MS, 0, 172 * MS, 2001),
            (1175 * MS, 0, 594 * MS, 2001),
            // One child that gives back 300 MB.
            (100 * MS, 101 * MS, 186 * MS, 2),
            (0, 0, 0, 1),
        ];
        for (user_ns, system_ns, recorded_ns, processes) in whole {
            let missing_ns = user_time_without_events_ns(user_ns, system_ns, recorded_ns, processes);
            assert_eq!(missing_ns, 0, "{user_ns} {system_ns} {recorded_ns} {processes}");
        }
        // 50 ticks each: a split of 72 to 28 is within five standard deviations.
        assert_eq!(user_time_without_events_ns(720 * MS, 280 * MS, 500 * MS, 1), 0);
    }

    #[test]
    fn accounts_add_up_and_lists_stay_short() {
        let process = |pid| ProcessTime {
            pid: Pid(pid),
            name: "su".to_owned(),
            cpu_ns: None,
            cause: Some(UnrecordedCause::UndumpableExec),
        };
        let one = CpuAccount {
            accounted_ns: Some(5),
            unrecorded_ns: 3,
            unrecorded: (0..60).map(process).collect(),
            ..CpuAccount::default()
        };
        let both = one.clone().plus(one.clone());
        assert_eq!((both.accounted_ns, both.unrecorded_ns), (Some(10), 6));
        assert_eq!((both.unrecorded.len(), both.unrecorded_more), (MOST_PROCESSES, 20));
        assert!(both.has(UnrecordedCause::UndumpableExec) && !both.has(UnrecordedCause::OtherUser));
        assert_eq!(one.plus(CpuAccount::default()).accounted_ns, None);
    }
}
