//! What the kernel's accounts say of processes that run already, and of the machine: two readings, and the difference.

use std::collections::HashMap;
use std::fs;

use recording::counting::{Measure, Missing, Reading};
use recording::session::RecordError;

use super::{exact, field_of};
use crate::processes::{procfs, stop};
use crate::session::attach::no_such_process;
use crate::sys::process::{HeldProcess, ticks_per_second};

/// What a process, or the machine, has taken so far.
type Figures = Vec<(Measure, u64)>;

/// Processes, and all that they start.
pub(super) struct RunningProcesses {
    roots: Vec<Root>,
    /// The processes when counting began, with their start times: a number may come to mean another process.
    before: HashMap<i32, u64>,
    taken_before: Figures,
    switches_before: HashMap<i32, [u64; 2]>,
}

/// A process whose parent is not counted. That of the others takes over their figures when it waits for them.
struct Root {
    pid: i32,
    held: HeldProcess,
    last: Figures,
}

impl RunningProcesses {
    pub(super) fn find(pids: &[i32]) -> Result<RunningProcesses, RecordError> {
        let all = procfs::with_descendants(pids);
        let mut roots = Vec::new();
        for pid in pids {
            let gone = || RecordError::Failed(no_such_process(*pid));
            let held = HeldProcess::open(*pid).ok_or_else(gone)?;
            let stat = procfs::stat(*pid, *pid).ok_or_else(gone)?;
            if !all.contains(&stat.parent) {
                let last = Figures::new();
                roots.push(Root { pid: *pid, held, last });
            }
        }
        let starts = { all.iter() }.filter_map(|pid| Some((*pid, procfs::stat(*pid, *pid)?.start_ticks)));
        Ok(RunningProcesses {
            roots,
            before: starts.collect(),
            taken_before: Figures::new(),
            switches_before: HashMap::new(),
        })
    }

    /// All threads of all processes.
    pub(super) fn threads(&self) -> Vec<i32> {
        self.before.keys().flat_map(|pid| procfs::threads(*pid)).collect()
    }

    pub(super) fn begin(&mut self) {
        self.look();
        let figures = self.before.keys().filter_map(|pid| figures(*pid));
        self.taken_before = figures.flatten().collect();
        self.switches_before = switches(self.before.keys());
    }

    /// Reads what only they have; nobody knows it once they have ended. Returns whether all have.
    pub(super) fn look(&mut self) -> bool {
        for root in &mut self.roots {
            // One that has ended can be read until its parent waits for it.
            if let Some(figures) = figures(root.pid) {
                root.last = figures;
            }
        }
        self.roots.iter().all(|root| stop::ended(root.held.pidfd()))
    }

    pub(super) fn living(&self) -> impl Iterator<Item = &HeldProcess> {
        { self.roots.iter() }
            .map(|root| &root.held)
            .filter(|held| !stop::ended(held.pidfd()))
    }

    pub(super) fn end(mut self) -> (Vec<Reading>, Vec<Missing>) {
        self.look();
        let pids: Vec<i32> = self.before.keys().copied().collect();
        let is_same = |pid: &i32| {
            let start = procfs::stat(*pid, *pid).map(|stat| stat.start_ticks);
            self.before.get(pid).is_none_or(|before| Some(*before) == start)
        };
        let now: Vec<i32> = procfs::with_descendants(&pids).into_iter().filter(is_same).collect();
        let of_root = |pid: &i32| self.roots.iter().find(|root| root.pid == *pid);
        let others = { now.iter() }.filter(|pid| of_root(pid).is_none());
        let taken: Figures = { others.filter_map(|pid| figures(*pid)).flatten() }
            .chain(self.roots.iter().flat_map(|root| root.last.iter().copied()))
            .collect();
        let has_ended = self.roots.iter().any(|root| stop::ended(root.held.pidfd()));
        let mut readings = since(&self.taken_before, &taken);
        let switches = switches(now.iter());
        let of_kind = |kind: usize| {
            let threads = { switches.iter() }.map(|(tid, now)| {
                now[kind].saturating_sub(self.switches_before.get(tid).map_or(0, |before| before[kind]))
            });
            threads.sum()
        };
        let kinds = [Measure::VoluntarySwitches, Measure::ForcedSwitches];
        let mut missing = Vec::new();
        if now.is_empty() {
            missing.push(Missing {
                measures: kinds.to_vec(),
                reason: "the kernel has them of living threads only, and all have ended".to_owned(),
            });
        } else {
            readings.extend(
                kinds
                    .into_iter()
                    .zip([of_kind(0), of_kind(1)])
                    .map(|(kind, count)| exact(kind, count)),
            );
        }
        for reading in &mut readings {
            let of_threads = kinds.contains(&reading.measure);
            let is_whole = !of_threads || self.switches_before.keys().all(|tid| switches.contains_key(tid));
            reading.at_least = has_ended || !is_whole;
        }
        missing.push(Missing {
            measures: vec![Measure::PeakMemory],
            reason: "the kernel has the peak since a process's start, not the one of this time".to_owned(),
        });
        if !readings.iter().any(|reading| reading.measure == Measure::ReadBytes) {
            missing.push(Missing {
                measures: vec![Measure::ReadBytes, Measure::WrittenBytes],
                reason: "/proc/PID/io is for the process's user and root".to_owned(),
            });
        }
        (readings, missing)
    }
}

/// Of a process, with all processes that it has waited for.
fn figures(pid: i32) -> Option<Figures> {
    let stat = procfs::process_stat(pid)?;
    let mut figures = vec![
        (
            Measure::TaskClock,
            ns_of_ticks(stat.cpu_ticks.saturating_add(stat.children_ticks)),
        ),
        (Measure::User, ns_of_ticks(stat.all_user_ticks)),
        (Measure::System, ns_of_ticks(stat.all_system_ticks)),
        (Measure::MinorFaults, stat.all_minor_faults),
        (Measure::MajorFaults, stat.all_major_faults),
    ];
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    for (measure, name) in [
        (Measure::ReadBytes, "read_bytes"),
        (Measure::WrittenBytes, "write_bytes"),
    ] {
        figures.extend(field_of(&io, name).map(|bytes| (measure, bytes)));
    }
    Some(figures)
}

fn ns_of_ticks(ticks: u64) -> u64 {
    ticks.saturating_mul(1_000_000_000 / ticks_per_second())
}

/// Voluntary and forced switches of each thread so far.
fn switches<'a>(pids: impl Iterator<Item = &'a i32>) -> HashMap<i32, [u64; 2]> {
    let threads = pids.flat_map(|pid| procfs::thread_numbers(*pid).map(|tid| (*pid, tid)));
    let of_thread = |(pid, tid): (i32, i32)| {
        let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok()?;
        let voluntary = field_of(&status, "voluntary_ctxt_switches")?;
        Some((tid, [voluntary, field_of(&status, "nonvoluntary_ctxt_switches")?]))
    };
    threads.filter_map(of_thread).collect()
}

/// What was taken between two readings, each with several figures of a measure.
fn since(before: &Figures, now: &Figures) -> Vec<Reading> {
    let sum = |figures: &Figures, measure: Measure| -> u64 {
        let of_measure = figures.iter().filter(|figure| figure.0 == measure);
        of_measure.map(|figure| figure.1).fold(0, u64::saturating_add)
    };
    let mut measures: Vec<Measure> = now.iter().map(|figure| figure.0).collect();
    measures.sort_unstable();
    measures.dedup();
    let of = |measure| exact(measure, sum(now, measure).saturating_sub(sum(before, measure)));
    measures.into_iter().map(of).collect()
}

/// The machine's figures at one time.
pub(super) struct MachineFigures(Figures);

impl MachineFigures {
    pub(super) fn now() -> MachineFigures {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mut figures = Figures::new();
        let stat = text("/proc/stat");
        let user_ticks = stat
            .split_ascii_whitespace()
            .skip(1)
            .take(2)
            .map(|ticks| ticks.parse::<u64>().ok());
        let user_ns = ns_of_ticks(user_ticks.sum::<Option<u64>>().unwrap_or_default());
        if let Some(time) = procfs::parse_machine_time(&stat, ticks_per_second()) {
            figures.extend([
                (Measure::TaskClock, time.used_ns),
                (Measure::User, user_ns),
                (Measure::System, time.used_ns.saturating_sub(user_ns)),
            ]);
        }
        // proc_stat(5): of clone() as well, so of threads.
        let forks = stat
            .lines()
            .find_map(|line| line.strip_prefix("processes ")?.parse().ok());
        figures.extend(forks.map(|forks| (Measure::Threads, forks)));
        let vmstat = text("/proc/vmstat");
        let count = |name: &str| -> Option<u64> {
            vmstat
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
        };
        let major = count("pgmajfault");
        let minor = count("pgfault")
            .zip(major)
            .map(|(all, major)| all.saturating_sub(major));
        let bytes = |name: &str| count(name)?.checked_mul(1024);
        for (measure, value) in [
            (Measure::MinorFaults, minor),
            (Measure::MajorFaults, major),
            (Measure::ReadBytes, bytes("pgpgin")),
            (Measure::WrittenBytes, bytes("pgpgout")),
            (Measure::CpuWait, run_delay(&text("/proc/schedstat"))),
        ] {
            figures.extend(value.map(|value| (measure, value)));
        }
        MachineFigures(figures)
    }

    /// What was taken since an earlier time.
    pub(super) fn since(&self, earlier: &MachineFigures) -> (Vec<Reading>, Vec<Missing>) {
        let because = |measures: &[Measure], reason: &str| Missing {
            measures: measures.to_vec(),
            reason: reason.to_owned(),
        };
        let switches = [Measure::VoluntarySwitches, Measure::ForcedSwitches];
        let mut missing = vec![
            because(&[Measure::PeakMemory], "the kernel has the peaks of processes only"),
            because(&switches, "the kernel has them of threads only"),
            because(
                &[Measure::Processes],
                "the kernel counts processes and threads together",
            ),
        ];
        let has = |measure: Measure| self.0.iter().any(|figure| figure.0 == measure);
        let files = [
            (Measure::TaskClock, "/proc/stat"),
            (Measure::MinorFaults, "/proc/vmstat"),
            (Measure::ReadBytes, "/proc/vmstat"),
            (Measure::CpuWait, "/proc/schedstat"),
        ];
        let unread = files.into_iter().filter(|(measure, _)| !has(*measure));
        missing.extend(unread.map(|(measure, file)| because(&[measure], &format!("{file} does not have it"))));
        (since(&earlier.0, &self.0), missing)
    }
}

/// The eighth number of each CPU in /proc/schedstat: time for which threads waited for it, ns
/// (Documentation/scheduler/sched-stats.rst).
fn run_delay(schedstat: &str) -> Option<u64> {
    let cpus = schedstat.lines().filter(|line| line.starts_with("cpu"));
    let waited = cpus.map(|line| line.split_ascii_whitespace().nth(8)?.parse::<u64>().ok());
    let waited: Option<Vec<u64>> = waited.collect();
    waited
        .filter(|cpus| !cpus.is_empty())
        .map(|cpus| cpus.into_iter().fold(0, u64::saturating_add))
}
