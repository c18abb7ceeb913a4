//! Counts processes and threads, and the time for which they waited for a CPU.
//!
//! The kernel adds that time up for each thread (`run_delay` of /proc/PID/task/TID/schedstat), and forgets it when the
//! thread is gone. Only root may get it then (taskstats). So the sums of living threads are read from time to time, and
//! those of a program's first thread once more before it is reaped. For what a thread waited after its last reading
//! there are records of switches, which every user gets: the time from a fork to the first switch to a CPU, and from a
//! switch away from a CPU that the thread did not want to the next one. The time from a wake-up to the switch is in no
//! record.

use std::collections::{BinaryHeap, HashMap};
use std::fs;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use perf_data::decode::{self, TaskRecord};
use perf_data::merge;
use recording::counting::{Measure, Reading};

use super::{LOOK, refused};
use crate::machine::cpus;
use crate::open::rings;
use crate::processes::procfs;
use crate::sys::perf_event::{self as perf, Attr, EventFd, flag, read_format};
use crate::sys::process;
use crate::sys::ring::Ring;

/// Each CPU has an event, and each new thread gets them all, in some 3 us per event: more events would change what is
/// measured.
const MOST_CPUS: usize = 32;
/// Room for 13,000 switches: what every user may lock.
const RING_BYTES: usize = 512 << 10;
/// Reading takes at most this part of a CPU.
const LOOK_COST: u32 = 200;

/// The kernel ends the events of a process that executes a set-user-ID program, with the record of an exit some
/// microseconds after that of the exec (begin_new_exec() in fs/exec.c). No program is executed and ends that fast.
const EXIT_IN_EXEC_NS: u64 = 100_000;

/// Threads that are counted.
pub(super) struct TaskCounter {
    events: Vec<EventFd>,
    rings: Vec<Ring>,
    queue: BinaryHeap<std::cmp::Reverse<(u64, usize)>>,
    living: HashMap<i32, Task>,
    /// Time for which ended threads waited.
    ended_ns: u64,
    processes: u64,
    threads: u64,
    /// A thread has ended whose last sum is not known.
    has_unread: bool,
    /// Records found no room.
    has_lost: bool,
    has_lost_events: bool,
    next_look_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    /// Its sum when counting began.
    before_ns: u64,
    /// The last reading of its sum, and when that was.
    sum_ns: u64,
    read_at_ns: u64,
    /// Waits that ended later.
    since_ns: u64,
    executed_ns: u64,
    /// It could run from this time on, and has no CPU.
    ready_ns: Option<u64>,
}

impl Task {
    fn waited_ns(&self) -> u64 {
        self.sum_ns.saturating_sub(self.before_ns) + self.since_ns
    }

    /// Reads its sum, which has the waits up to now.
    fn read(&mut self, tid: i32) -> bool {
        let text = fs::read_to_string(format!("/proc/{tid}/schedstat"));
        let Some(reading) = text.ok().and_then(|text| procfs::parse_schedstat(&text)) else {
            return false;
        };
        // A thread of the same number has begun anew.
        if reading.waited_ns < self.sum_ns {
            return false;
        }
        (self.sum_ns, self.since_ns) = (reading.waited_ns, 0);
        self.read_at_ns = process::monotonic_ns();
        true
    }
}

impl TaskCounter {
    /// Counts what these threads start. The error is a reason.
    pub(super) fn open(tids: &[i32], at_exec: bool) -> Result<TaskCounter, String> {
        let cpus = cpus::online(Path::new("/"))?;
        if cpus.len() > MOST_CPUS {
            return Err(format!(
                "with {} CPUs, counting them would make each start of a thread some {} us slower",
                cpus.len(),
                3 * cpus.len()
            ));
        }
        let attr = Attr {
            kind: perf::TYPE_SOFTWARE,
            config: perf::SW_DUMMY,
            sample_type: decode::ID_TYPE,
            read_format: read_format::TOTAL_TIME_ENABLED | read_format::TOTAL_TIME_RUNNING,
            flags: flag::INHERIT
                | flag::EXCLUDE_KERNEL
                | flag::TASK
                | flag::COMM
                | flag::COMM_EXEC
                | flag::CONTEXT_SWITCH
                | flag::WATERMARK
                | flag::SAMPLE_ID_ALL
                | flag::USE_CLOCKID
                | if at_exec {
                    flag::DISABLED | flag::ENABLE_ON_EXEC
                } else {
                    0
                },
            wakeup_watermark: RING_BYTES as u32 / 2,
            clockid: libc::CLOCK_MONOTONIC,
            ..Attr::default()
        };
        let mut events: Vec<EventFd> = Vec::new();
        let mut living = HashMap::new();
        for tid in tids {
            let opened = { cpus.iter() }.map(|cpu| EventFd::open(&attr, *tid, *cpu));
            let opened = match opened.collect::<std::io::Result<Vec<_>>>() {
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => continue,
                opened => opened.map_err(|error| refused(&error))?,
            };
            events.extend(opened);
            let mut task = Task::default();
            task.read(*tid);
            task.before_ns = task.sum_ns;
            living.insert(*tid, task);
        }
        let (owners, others) = events.split_at(cpus.len().min(events.len()));
        let wanted: Vec<_> = owners.iter().map(|event| (event, RING_BYTES)).collect();
        let (rings, _) = rings::map_rings(&wanted, RING_BYTES, &mut Vec::new())?;
        for (at, event) in others.iter().enumerate() {
            let redirected = event.redirect_to(&owners[at % owners.len()]);
            redirected.map_err(|error| refused(&error))?;
        }
        Ok(TaskCounter {
            events,
            rings,
            queue: BinaryHeap::new(),
            living,
            ended_ns: 0,
            processes: 0,
            threads: 0,
            has_unread: false,
            has_lost: false,
            has_lost_events: false,
            next_look_ns: process::monotonic_ns() + LOOK.as_nanos() as u64,
        })
    }

    /// Readable when a ring fills.
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.events.iter().take(self.rings.len()).map(|event| event.as_fd())
    }

    /// How long the next call of [`TaskCounter::look`] has time.
    pub(super) fn rest(&self) -> Duration {
        Duration::from_nanos(self.next_look_ns.saturating_sub(process::monotonic_ns()))
    }

    /// Takes what the rings have, and from time to time reads the sums.
    pub(super) fn look(&mut self) {
        let now = process::monotonic_ns();
        self.take(now.saturating_sub(merge::SETTLE_NS));
        if now >= self.next_look_ns {
            self.read_sums();
            let end = process::monotonic_ns();
            let pause = (LOOK.as_nanos() as u64).max((end - now).saturating_mul(LOOK_COST.into()));
            self.next_look_ns = end + pause;
        }
    }

    /// A thread that has ended since is found by its record.
    fn read_sums(&mut self) {
        for (tid, task) in &mut self.living {
            task.read(*tid);
        }
    }

    fn take(&mut self, until_ns: u64) {
        self.rings.iter_mut().for_each(Ring::refresh);
        let mut queue = std::mem::take(&mut self.queue);
        let mut rings = std::mem::take(&mut self.rings);
        merge::drain(&mut rings, until_ns, &mut queue, &mut |_, due| {
            self.count(decode::task_record(due.record), due.time);
        });
        (self.queue, self.rings) = (queue, rings);
    }

    fn count(&mut self, record: Option<TaskRecord>, time_ns: u64) {
        match record {
            Some(TaskRecord::Fork { is_process, tid }) => {
                self.processes += u64::from(is_process);
                self.threads += 1;
                let ready_ns = Some(time_ns);
                self.living.insert(
                    tid,
                    Task {
                        ready_ns,
                        ..Task::default()
                    },
                );
            }
            Some(TaskRecord::Exec { tid }) => {
                if let Some(task) = self.living.get_mut(&tid) {
                    task.executed_ns = time_ns;
                }
            }
            Some(TaskRecord::Exit { tid }) => {
                let Some(mut task) = self.living.remove(&tid) else {
                    return;
                };
                self.has_lost_events |= time_ns.saturating_sub(task.executed_ns) < EXIT_IN_EXEC_NS;
                // It may be there until its parent asks for it.
                self.has_unread |= !task.read(tid);
                self.ended_ns += task.waited_ns();
            }
            Some(TaskRecord::Switch {
                tid,
                is_out,
                is_preempted,
            }) => {
                let Some(task) = self.living.get_mut(&tid) else { return };
                let ready_ns = std::mem::replace(&mut task.ready_ns, (is_out && is_preempted).then_some(time_ns));
                if let Some(ready_ns) = ready_ns.filter(|_| !is_out && time_ns > task.read_at_ns) {
                    task.since_ns += time_ns.saturating_sub(ready_ns);
                }
            }
            Some(TaskRecord::Lost) => self.has_lost = true,
            None => {}
        }
    }

    /// True if a process goes on without events: it became a set-user-ID program.
    pub(super) fn has_lost_events(&self) -> bool {
        self.has_lost_events
    }

    /// Takes the last records, up to this time, and reads the sums once more.
    pub(super) fn end(&mut self, end_ns: u64) {
        self.take(end_ns);
        self.read_sums();
    }

    /// What was counted. `own`: the program itself, which is no child of what is counted.
    pub(super) fn readings(&self, own: u64) -> [Reading; 3] {
        let waited_ns = self.living.values().map(Task::waited_ns).sum::<u64>() + self.ended_ns;
        let reading = |measure, value: u64| Reading {
            at_least: self.has_lost || self.has_lost_events || self.has_unread && measure == Measure::CpuWait,
            ..super::exact(measure, value)
        };
        [
            reading(Measure::CpuWait, waited_ns),
            reading(Measure::Processes, self.processes + own),
            reading(Measure::Threads, self.threads + own),
        ]
    }
}
