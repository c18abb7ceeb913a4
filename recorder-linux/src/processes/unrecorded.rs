//! Processes without events, and the CPU time that the kernel accounts to them.
//!
//! The kernel's account of a process is exact in two sources only: the rusage of a child, which includes all that it
//! waited for, and /proc/PID/stat as long as the process exists. No other source is both exact and open to ordinary
//! users:
//! - Records of `inherit_stat` (PERF_RECORD_READ) would state what each task used. For events of all CPUs, the CPU on
//!   which the task ends writes them, into rings that only their own CPU may write to (seen with Linux 6.18). And each
//!   switch between tasks that share inherited events would have to exchange their counts.
//! - Without `inherit_stat`, such a switch exchanges the events themselves (perf_event_context_sched_out): counts then
//!   belong to all tasks together.
//! - Taskstats and BSD accounting are for root.

use recording::clock::Timestamp;
use recording::cpu_account::{CpuAccount, MOST_PROCESSES, ProcessTime, UnrecordedCause, user_time_without_events_ns};
use recording::event::Pid;
use recording::sink::EventSink;

use crate::processes::procfs::{self, Stat};
use crate::processes::stop;
use crate::sys::process::{self, HeldProcess, ProcessUsage, monotonic_ns};
use perf_data::translate::Translator;

/// Time between two readings of /proc. A reading costs 10 us a process. CPU time after the last reading is not known.
const LOOK_NS: u64 = 50_000_000;

/// The processes without events of one recording.
#[derive(Debug, Default)]
pub(crate) struct Unrecorded {
    processes: Vec<UnrecordedProcess>,
    more: u64,
    looked_ns: u64,
}

#[derive(Debug)]
struct UnrecordedProcess {
    pid: i32,
    name: String,
    cause: UnrecordedCause,
    /// `None` once it has ended.
    held: Option<HeldProcess>,
    /// True if the process existed after its events had ended: it continued without events.
    was_seen: bool,
    first_ticks: u64,
    last_ticks: u64,
}

impl Unrecorded {
    /// Watches a process from now on.
    pub(crate) fn add(&mut self, pid: i32, name: Option<String>, cause: UnrecordedCause) {
        if self.processes.len() >= MOST_PROCESSES {
            self.more += 1;
            return;
        }
        let held = HeldProcess::open(pid);
        let stat = procfs::stat(pid, pid).filter(|stat| held.is_some() && !stat.has_ended());
        let found_name = stat.as_ref().map(|stat| lossy(&stat.name));
        let ticks = stat.as_ref().map_or(0, all_ticks);
        self.processes.push(UnrecordedProcess {
            pid,
            name: name.or(found_name).unwrap_or_default(),
            cause,
            was_seen: stat.is_some(),
            held: held.filter(|_| stat.is_some()),
            first_ticks: ticks,
            last_ticks: ticks,
        });
    }

    /// Reads the processes again, if the last reading is long enough ago. Reports the end of a process that lost its
    /// events at `time`.
    pub(crate) fn look(&mut self, time: Timestamp, translator: &mut Translator, sink: &mut dyn EventSink) {
        for lost in translator.take_tasks_without_events() {
            self.add(lost.pid, Some(lost.name), UnrecordedCause::UndumpableExec);
            if self
                .processes
                .last()
                .is_some_and(|watched| watched.pid == lost.pid && watched.held.is_none())
            {
                translator.end_without_record(time, Pid(lost.pid), sink);
            }
        }
        let now_ns = monotonic_ns();
        if self.processes.is_empty() || now_ns.saturating_sub(self.looked_ns) < LOOK_NS {
            return;
        }
        self.look_now(now_ns);
        for watched in &mut self.processes {
            let has_ended = (watched.held.as_ref()).is_some_and(|held| stop::ended(held.pidfd()));
            if has_ended {
                watched.held = None;
                if watched.cause == UnrecordedCause::UndumpableExec {
                    translator.end_without_record(time, Pid(watched.pid), sink);
                }
            }
        }
    }

    fn look_now(&mut self, now_ns: u64) {
        self.looked_ns = now_ns;
        for watched in &mut self.processes {
            let Some(held) = &watched.held else { continue };
            let stat = procfs::stat(watched.pid, watched.pid);
            // An ended process keeps its number as long as it is a zombie.
            let is_same = |stat: &Stat| stat.has_ended() || !stop::ended(held.pidfd());
            if let Some(stat) = stat.filter(is_same) {
                watched.last_ticks = watched.last_ticks.max(all_ticks(&stat));
            }
        }
    }

    /// The account at the end. `recorded_ns`: time for which events existed, for all tasks together, over all CPUs.
    pub(crate) fn account(mut self, program: Option<Program>, recorded_ns: Option<u64>) -> CpuAccount {
        self.look_now(monotonic_ns());
        let used_ns = |watched: &UnrecordedProcess| ns_of_ticks(watched.last_ticks - watched.first_ticks);
        let watched_ns = self.processes.iter().map(used_ns).fold(0, u64::saturating_add);
        let mut unrecorded_ns = watched_ns;
        if let Some((program, recorded_ns)) = program.zip(recorded_ns) {
            let ProcessUsage { user_ns, system_ns, .. } = program.usage;
            let without_events_ns = user_ns.saturating_add(system_ns).saturating_sub(recorded_ns);
            let is_evident = user_time_without_events_ns(user_ns, system_ns, recorded_ns, program.processes) > 0;
            if is_evident || watched_ns > 0 {
                unrecorded_ns = unrecorded_ns.max(without_events_ns);
            }
            // An exec that failed beyond its point of no return looks the same in the records. Then the process ends
            // there.
            self.processes.retain(|watched| watched.was_seen || is_evident);
        }
        CpuAccount {
            accounted_ns: program.map(|program| program.usage.user_ns.saturating_add(program.usage.system_ns)),
            unrecorded_ns,
            unrecorded_more: self.more,
            unrecorded: (self.processes.iter())
                .map(|watched| ProcessTime {
                    pid: Pid(watched.pid),
                    name: watched.name.clone(),
                    cpu_ns: Some(used_ns(watched)).filter(|_| watched.was_seen),
                    cause: Some(watched.cause),
                })
                .collect(),
            ..CpuAccount::default()
        }
    }
}

/// The launched program, as the kernel accounts it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    /// CPU time of the program and of all processes that it waited for.
    pub(crate) usage: ProcessUsage,
    /// Number of those processes, by the records.
    pub(crate) processes: u64,
}

/// The given processes that have not ended, with their CPU time. Also returns how many more there are than a list may
/// have.
pub(crate) fn running(pids: impl Iterator<Item = i32>) -> (Vec<ProcessTime>, u64) {
    let mut processes: Vec<ProcessTime> = pids
        .filter_map(|pid| {
            let stat = procfs::stat(pid, pid)?;
            let runs = !stat.has_ended() || !procfs::threads(pid).is_empty();
            runs.then(|| ProcessTime {
                pid: Pid(pid),
                name: lossy(&stat.name),
                cpu_ns: Some(ns_of_ticks(stat.cpu_ticks)),
                cause: None,
            })
        })
        .collect();
    processes.sort_by_key(|process| process.pid);
    let more = processes.len().saturating_sub(MOST_PROCESSES);
    processes.truncate(MOST_PROCESSES);
    (processes, more as u64)
}

fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// CPU time of the process and of all processes that it waited for, which have no events either, in clock ticks.
fn all_ticks(stat: &Stat) -> u64 {
    stat.cpu_ticks.saturating_add(stat.children_ticks)
}

fn ns_of_ticks(ticks: u64) -> u64 {
    ticks.saturating_mul(1_000_000_000 / process::ticks_per_second())
}
