//! Runs a program and counts what it takes, without samples.
//!
//! The kernel keeps most numbers of each process anyway (getrusage(2)). perf_event adds the exact CPU time, what the
//! CPUs count, and records of threads (`tasks`).

mod tasks;

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use recording::counting::{CountedProgram, CountedRun, Measure, Missing, Reading};
use recording::program;
use recording::session::{ProgramExit, RecordError};

use self::tasks::TaskCounter;
use crate::machine::refusal::{PerfEventRefusal, may_always, paranoid};
use crate::processes::{launch, procfs, stop};
use crate::sys::perf_event::{self as perf, Attr, EventFd, flag, read_format};
use crate::sys::process::{self, Child, Signal, WaitStatus};
use crate::sys::signals::{self, Signals};

/// Events and their measures: type, config.
const EVENTS: [(Measure, u32, u64); 10] = [
    (Measure::TaskClock, perf::TYPE_SOFTWARE, perf::SW_TASK_CLOCK),
    (Measure::MinorFaults, perf::TYPE_SOFTWARE, perf::SW_PAGE_FAULTS_MIN),
    (Measure::MajorFaults, perf::TYPE_SOFTWARE, perf::SW_PAGE_FAULTS_MAJ),
    (Measure::CpuMigrations, perf::TYPE_SOFTWARE, perf::SW_CPU_MIGRATIONS),
    (Measure::Cycles, perf::TYPE_HARDWARE, perf::HW_CPU_CYCLES),
    (Measure::Instructions, perf::TYPE_HARDWARE, perf::HW_INSTRUCTIONS),
    (Measure::Branches, perf::TYPE_HARDWARE, perf::HW_BRANCH_INSTRUCTIONS),
    (Measure::BranchMisses, perf::TYPE_HARDWARE, perf::HW_BRANCH_MISSES),
    (Measure::CacheReferences, perf::TYPE_HARDWARE, perf::HW_CACHE_REFERENCES),
    (Measure::CacheMisses, perf::TYPE_HARDWARE, perf::HW_CACHE_MISSES),
];

/// What the kernel's account of an ended process has.
const OF_USAGE: [Measure; 10] = [
    Measure::TaskClock,
    Measure::User,
    Measure::System,
    Measure::PeakMemory,
    Measure::MinorFaults,
    Measure::MajorFaults,
    Measure::VoluntarySwitches,
    Measure::ForcedSwitches,
    Measure::ReadBytes,
    Measure::WrittenBytes,
];
const OF_TASKS: [Measure; 3] = [Measure::CpuWait, Measure::Processes, Measure::Threads];
/// Signals within this time are one: timeout(1) sends its signal to the process, and to the group of the process.
const ONE_SIGNAL: Duration = Duration::from_millis(500);
/// What a process may touch on its way to its exec, at most.
const BEFORE_EXEC_BYTES: u64 = 1 << 20;

/// Runs programs, one after the other.
///
/// SIGINT, SIGTERM and SIGHUP are blocked as long as this lives: make it in the only thread.
#[derive(Debug)]
pub struct RunCounter {
    signals: Signals,
}

impl RunCounter {
    /// Takes over the signals.
    ///
    /// # Errors
    ///
    /// The system refuses that.
    pub fn new() -> Result<RunCounter, RecordError> {
        let signals = Signals::block()
            .map_err(|error| RecordError::Failed(format!("cannot take over signals (signalfd): {error}")))?;
        Ok(RunCounter { signals })
    }

    /// True if a signal came since the last run.
    pub fn is_asked_to_end(&self) -> bool {
        self.signals.next().is_some()
    }

    /// Runs the program once. It gets the signals that this process gets; the second one kills it.
    ///
    /// # Errors
    ///
    /// The program can't be run.
    pub fn run(&self, program: &CountedProgram) -> Result<CountedRun, RecordError> {
        let image = program::resolve(&program.command, &program.env)?;
        let stopped = launch::fork(&image, &self.signals)?;
        let mut events = CountedEvents::open(stopped.pid());
        let mut tasks = TaskCounter::open(&[stopped.pid()], true);
        let before = Before::of(stopped.pid());
        let machine = procfs::machine_time();
        let start = process::monotonic_ns();
        let mut child = stopped
            .start()
            .map_err(|error| launch::exec_error(&program.command, &error))?;
        let executed = process::monotonic_ns();
        let is_interrupted = self.wait(&child, tasks.as_mut().ok());
        let end = process::monotonic_ns();
        let stolen = procfs::machine_time().zip(machine);

        if let Err(reason) = &tasks {
            OF_TASKS
                .iter()
                .for_each(|measure| events.miss(*measure, reason.clone()));
        }
        let (mut readings, mut missing) = events.read();
        if let Ok(tasks) = &mut tasks {
            tasks.end(end);
            if tasks.has_lost_events() {
                // The kernel's account has the whole run.
                readings.retain(|reading| !OF_USAGE.contains(&reading.measure));
                readings.iter_mut().for_each(|reading| reading.at_least = true);
            }
            readings.extend(tasks.readings(1));
        }
        readings.push(exact(Measure::Wall, end - start));
        readings.push(exact(Measure::Start, executed - start));
        before.of_ended(&child, &mut readings, &mut missing);
        readings.sort_by_key(|reading| reading.measure);
        // The event has the more exact CPU time: it comes first.
        readings.dedup_by_key(|reading| reading.measure);
        for missing in &mut missing {
            let is_read = |measure: &Measure| readings.iter().any(|reading| reading.measure == *measure);
            missing.measures.retain(|measure| !is_read(measure));
        }
        missing.retain(|missing| !missing.measures.is_empty());
        Ok(CountedRun {
            exit: match child.wait() {
                WaitStatus::Exited(code) => ProgramExit::Code(code),
                WaitStatus::Signaled(signal) => ProgramExit::Signal(signal),
            },
            readings,
            missing,
            stolen_ns: stolen.map_or(0, |(now, before)| now.since(before).stolen_ns),
            is_interrupted,
        })
    }

    /// Waits for the program's end. Returns whether a signal came.
    fn wait(&self, child: &Child, mut tasks: Option<&mut TaskCounter>) -> bool {
        let mut first: Option<Instant> = None;
        loop {
            while let Some(received) = self.signals.next() {
                match (Signal::from_named_raw(received.signal), first) {
                    (_, Some(first)) if first.elapsed() > ONE_SIGNAL => child.signal(Signal::KILL),
                    // A key of the terminal has reached the program as well.
                    (Some(signal), None) if !(signal == Signal::INT && received.from_kernel) => child.signal(signal),
                    _ => {}
                }
                first.get_or_insert_with(Instant::now);
            }
            // A wait that fails is tried again: the program has an end.
            let of_tasks = tasks.as_ref().map(|tasks| tasks.fds()).into_iter().flatten();
            let fds: Vec<BorrowedFd<'_>> = [child.pidfd().as_fd(), self.signals.fd()]
                .into_iter()
                .chain(of_tasks)
                .collect();
            let rest = tasks.as_ref().map_or(Duration::MAX, |tasks| tasks.rest());
            let readable = signals::wait_any_readable(&fds, rest);
            if stop::ended(child.pidfd()) {
                return first.is_some();
            }
            if readable.is_err() {
                std::thread::sleep(Duration::from_millis(1));
            }
            if let Some(tasks) = &mut tasks {
                tasks.look();
            }
        }
    }
}

fn exact(measure: Measure, value: u64) -> Reading {
    Reading {
        measure,
        value: value as f64,
        counted: 1.0,
        user_only: false,
        at_least: false,
    }
}

/// The events of a program, which count from its exec on, with all that it starts.
struct CountedEvents {
    open: Vec<(Measure, EventFd, bool)>,
    missing: Vec<Missing>,
}

impl CountedEvents {
    fn open(pid: i32) -> CountedEvents {
        let mut events = CountedEvents {
            open: Vec::new(),
            missing: Vec::new(),
        };
        for (measure, kind, config) in EVENTS {
            match open(pid, kind, config) {
                // Without the right to see the kernel, nobody sees what happens in it.
                Ok((_, true)) if measure == Measure::CpuMigrations => events.miss(measure, kernel_needed()),
                // Of faults in the kernel, that account has all.
                Ok((_, true)) if matches!(measure, Measure::MinorFaults | Measure::MajorFaults) => {}
                Ok((event, user_only)) => {
                    // The clock runs in the kernel as well.
                    events
                        .open
                        .push((measure, event, user_only && measure != Measure::TaskClock));
                }
                // The kernel's account of the process has it as well, with what comes between the fork and the exec.
                Err(_) if OF_USAGE.contains(&measure) => {}
                Err(error) => events.miss(measure, refused(&error)),
            }
        }
        events
    }

    fn miss(&mut self, measure: Measure, reason: String) {
        match self.missing.iter_mut().find(|missing| missing.reason == reason) {
            Some(missing) => missing.measures.push(measure),
            None => self.missing.push(Missing {
                measures: vec![measure],
                reason,
            }),
        }
    }

    fn read(mut self) -> (Vec<Reading>, Vec<Missing>) {
        let mut readings = Vec::new();
        for (measure, event, user_only) in std::mem::take(&mut self.open) {
            match event.counts() {
                Ok(counts) if counts.running_ns > 0 || OF_USAGE.contains(&measure) => {
                    let counted = counts.running_ns as f64 / counts.enabled_ns.max(1) as f64;
                    readings.push(Reading {
                        measure,
                        value: match counts.running_ns < counts.enabled_ns && counted > 0.0 {
                            true => counts.value as f64 / counted,
                            false => counts.value as f64,
                        },
                        counted: counted.min(1.0),
                        user_only,
                        at_least: false,
                    });
                }
                Ok(_) => self.miss(measure, "others had all counters of the CPU".to_owned()),
                Err(error) => self.miss(measure, format!("reading the event failed: {error}")),
            }
        }
        (readings, self.missing)
    }
}

/// Opens an event, without the kernel's part where that is refused. Says whether it is.
fn open(pid: i32, kind: u32, config: u64) -> io::Result<(EventFd, bool)> {
    let attr = Attr {
        kind,
        config,
        read_format: read_format::TOTAL_TIME_ENABLED | read_format::TOTAL_TIME_RUNNING,
        flags: flag::DISABLED | flag::INHERIT | flag::ENABLE_ON_EXEC,
        ..Attr::default()
    };
    match EventFd::open_on_all_cpus(&attr, pid) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let attr = Attr {
                flags: attr.flags | flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV,
                ..attr
            };
            EventFd::open_on_all_cpus(&attr, pid).map(|event| (event, true))
        }
        opened => opened.map(|event| (event, false)),
    }
}

fn kernel_needed() -> String {
    let level = paranoid().map_or_else(String::new, |level| format!(" (kernel.perf_event_paranoid is {level})"));
    format!(
        "only who may record the kernel can count them{level}: `{}`",
        may_always()
    )
}

fn refused(error: &io::Error) -> String {
    match (PerfEventRefusal::of(error), error.raw_os_error()) {
        (Some(refusal), _) => match refusal.remedy() {
            Some(remedy) => format!("{refusal}; what helps: {remedy}"),
            None => refusal.to_string(),
        },
        (None, Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::ENXIO)) => {
            "this machine's CPUs have no such counter, or the virtual machine does not show it".to_owned()
        }
        (None, _) => format!("perf_event_open failed: {error}"),
    }
}

/// What the process had taken before it became the program: the kernel's numbers begin with the fork.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    cpu_ns: u64,
    minor_faults: u64,
    major_faults: u64,
    voluntary_switches: u64,
    forced_switches: u64,
    peak_bytes: u64,
}

impl Before {
    /// Of a process that is stopped before its exec. A number that can't be read is 0.
    fn of(pid: i32) -> Before {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let schedstat = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
        let faults = procfs::stat(pid, pid).map_or((0, 0), |stat| (stat.minor_faults, stat.major_faults));
        let field = |name: &str| field_of(&status, name).unwrap_or_default();
        Before {
            cpu_ns: { schedstat.split_ascii_whitespace().next() }
                .and_then(|word| word.parse().ok())
                .unwrap_or_default(),
            minor_faults: faults.0,
            major_faults: faults.1,
            voluntary_switches: field("voluntary_ctxt_switches"),
            forced_switches: field("nonvoluntary_ctxt_switches"),
            peak_bytes: field("VmHWM") << 10,
        }
    }

    /// Adds what the ended child has taken since.
    fn of_ended(&self, child: &Child, readings: &mut Vec<Reading>, missing: &mut Vec<Missing>) {
        let Some(usage) = child.usage() else {
            missing.push(Missing {
                measures: OF_USAGE.to_vec(),
                reason: "the kernel has forgotten the program: the parent of sprof ignores SIGCHLD".to_owned(),
            });
            return;
        };
        let all_ns = usage.user_ns.saturating_add(usage.system_ns);
        // What was before belongs to neither part, and the exec itself to none: the event's clock begins after it.
        let clock = readings.iter().find(|reading| reading.measure == Measure::TaskClock);
        let own_ns = (all_ns.saturating_sub(self.cpu_ns) as f64).min(clock.map_or(f64::MAX, |clock| clock.value));
        let of_part = |ns: u64| (ns as f64 * own_ns / all_ns.max(1) as f64) as u64;
        let since = u64::saturating_sub;
        // exec keeps the peak of before (setmax_mm_hiwater_rss in begin_new_exec of fs/exec.c).
        let peak = usage.peak_kib << 10;
        let values = [
            of_part(all_ns),
            of_part(usage.user_ns),
            of_part(usage.system_ns),
            peak,
            since(usage.minor_faults, self.minor_faults),
            since(usage.major_faults, self.major_faults),
            since(usage.voluntary_switches, self.voluntary_switches),
            since(usage.forced_switches, self.forced_switches),
            usage.read_blocks << 9,
            usage.written_blocks << 9,
        ];
        readings.extend(
            OF_USAGE
                .into_iter()
                .zip(values)
                .map(|(measure, value)| exact(measure, value)),
        );
        if peak <= self.peak_bytes + BEFORE_EXEC_BYTES {
            readings.retain(|reading| reading.measure != Measure::PeakMemory);
            missing.push(Missing {
                measures: vec![Measure::PeakMemory],
                // The same for all runs.
                reason: "the program had no more than sprof itself has before it executes the program".to_owned(),
            });
        }
    }
}

/// The number of `NAME: NUMBER` in a file of /proc.
fn field_of(text: &str, name: &str) -> Option<u64> {
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.split_ascii_whitespace().next()?.parse().ok()
}
