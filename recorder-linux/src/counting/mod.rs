//! Counts what programs take, without samples.
//!
//! The kernel keeps most numbers of each process anyway (getrusage(2)). perf_event adds the exact CPU time, what the
//! CPUs count, and records of threads (`tasks`).

mod running;
mod tasks;

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use perf_data::events::{self, CountedCode, names};
use recording::counting::{CountedProgram, CountedRun, CountedTarget, Measure, Missing, Reading};
use recording::info::EventCounts;
use recording::program;
use recording::session::{ProgramExit, RecordError};

use self::running::{MachineFigures, RunningProcesses};
use self::tasks::TaskCounter;
use crate::machine::cpus;
use crate::machine::refusal::{PerfEventRefusal, may_always, paranoid};
use crate::open::events::{Events, PointSource};
use crate::processes::{launch, procfs, stop};
use crate::sys::perf_event::{self as perf, Attr, EventFd, flag, read_format};
use crate::sys::process::{self, Child, Signal};
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
/// Between two readings of what the kernel forgets.
const LOOK: Duration = Duration::from_millis(100);
/// A forked process takes less to wait for its exec, but for a machine that has no CPU for it: the host of a virtual
/// machine may take one away for seconds.
const FORK: Duration = Duration::from_secs(10);
/// What a process may touch on its way to its exec, at most.
const BEFORE_EXEC_BYTES: u64 = 1 << 20;

/// Runs programs, one after the other.
///
/// SIGINT, SIGTERM and SIGHUP are blocked as long as this lives: make it in the only thread.
#[derive(Debug)]
pub struct RunCounter {
    signals: Signals,
    events: Vec<WantedEvent>,
}

/// An event to count.
#[derive(Clone, Debug)]
struct WantedEvent {
    measure: Measure,
    kind: u32,
    configs: [u64; 3],
    /// Nothing of it happens in user code.
    is_in_kernel: bool,
    sides: CountedCode,
    /// The CPUs that have it; `None` if all have it.
    cpus: Option<Vec<u32>>,
}

/// The events that are always counted, and those that the user named.
fn wanted(named: &[String]) -> Result<Vec<WantedEvent>, String> {
    let usual = EVENTS.map(|(measure, kind, config)| WantedEvent {
        measure,
        kind,
        configs: [config, 0, 0],
        is_in_kernel: measure == Measure::CpuMigrations,
        sides: CountedCode::BOTH,
        cpus: None,
    });
    let mut all = usual.to_vec();
    let mut specs = Vec::new();
    for list in named {
        specs.extend(events::parse(list).map_err(|error| error.to_string())?);
    }
    // How often an event is sampled is no matter here.
    let found = Events::resolve(Path::new("/"), &specs, 1.0, None, true, &[], &[])?;
    let counters = found.counted.into_iter().map(|(_, counter)| WantedEvent {
        measure: Measure::named(&counter.name),
        kind: counter.kind,
        configs: counter.configs,
        is_in_kernel: counter.is_in_kernel,
        sides: counter.sides,
        cpus: counter.cpus,
    });
    let points = found.points.into_iter().filter_map(|(index, point)| {
        let PointSource::Tracepoint(tracepoint) = point.source else {
            return None;
        };
        Some(WantedEvent {
            measure: Measure::named(&found.infos.get(index as usize)?.name),
            kind: names::TRACEPOINT,
            configs: [tracepoint.id, 0, 0],
            is_in_kernel: true,
            sides: point.sides,
            cpus: None,
        })
    });
    for event in counters.chain(points) {
        if !all.iter().any(|other| other.measure == event.measure) {
            all.push(event);
        }
    }
    Ok(all)
}

impl RunCounter {
    /// Takes over the signals, and finds the events that the user named.
    ///
    /// # Errors
    ///
    /// The system refuses that, or has no such event.
    pub fn new(events: &[String]) -> Result<RunCounter, RecordError> {
        let events = wanted(events).map_err(RecordError::Failed)?;
        let signals = Signals::block()
            .map_err(|error| RecordError::Failed(format!("cannot take over signals (signalfd): {error}")))?;
        Ok(RunCounter { signals, events })
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
        wait_until_asleep(stopped.pid());
        let mut events = CountedEvents::open(&self.events, CountedTasks::FromExec(stopped.pid()));
        let mut tasks =
            { TaskCounter::open(&[stopped.pid()], true) }.map_err(|reason| events.miss_all(&OF_TASKS, &reason));
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

        let (mut readings, mut missing) = events.read(tasks.ok(), end, 1);
        readings.push(exact(Measure::Wall, end - start));
        readings.push(exact(Measure::Start, executed - start));
        before.of_ended(&child, &mut readings, &mut missing);
        let exit = child.wait().into();
        let stolen_ns = stolen.map_or(0, |(now, before)| now.since(before).stolen_ns);
        Ok(counted(exit, readings, missing, stolen_ns, is_interrupted))
    }

    /// Runs the program without counting. Returns how it ended, and whether a signal asked for the end.
    ///
    /// # Errors
    ///
    /// The program can't be run.
    pub fn run_uncounted(&self, program: &CountedProgram) -> Result<(ProgramExit, bool), RecordError> {
        let image = program::resolve(&program.command, &program.env)?;
        let started = launch::fork(&image, &self.signals)?.start();
        let mut child = started.map_err(|error| launch::exec_error(&program.command, &error))?;
        let is_interrupted = self.wait(&child, None);
        Ok((child.wait().into(), is_interrupted))
    }

    /// Counts what runs until the time is over, all processes have ended, or a signal comes.
    ///
    /// # Errors
    ///
    /// There is no such process.
    pub fn watch(&self, target: &CountedTarget, duration: Option<Duration>) -> Result<CountedRun, RecordError> {
        process::raise_open_file_limit();
        let pids: Vec<i32> = match target {
            CountedTarget::Processes(pids) => pids.iter().map(|pid| pid.0).collect(),
            CountedTarget::WholeMachine => Vec::new(),
        };
        let is_machine = pids.is_empty();
        let cpus = cpus::online(Path::new("/")).unwrap_or_default();
        let mut running = RunningProcesses::find(&pids)?;
        let threads = running.threads();
        let whose = match is_machine {
            true => CountedTasks::AllOn(&cpus),
            false => CountedTasks::FromNow(&threads),
        };
        let mut events = CountedEvents::open(&self.events, whose);
        let mut tasks = match is_machine {
            true => None,
            false => { TaskCounter::open(&threads, false) }
                .map_err(|reason| events.miss_all(&OF_TASKS, &reason))
                .ok(),
        };
        let machine = procfs::machine_time();
        let machine_before = MachineFigures::now();
        running.begin();
        let start = process::monotonic_ns();
        let deadline = duration.map_or(u64::MAX, |length| {
            start.saturating_add(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))
        });
        let end = loop {
            let now = process::monotonic_ns();
            let have_ended = !is_machine && running.look();
            if now >= deadline || have_ended || self.is_asked_to_end() {
                break now;
            }
            let mut rest = Duration::from_nanos(deadline - now);
            let mut fds = vec![self.signals.fd()];
            fds.extend(running.living().map(|held| held.pidfd().as_fd()));
            if !is_machine {
                rest = rest.min(LOOK);
            }
            if let Some(tasks) = &tasks {
                fds.extend(tasks.fds());
                rest = rest.min(tasks.rest());
            }
            // A wait that fails is tried again.
            if signals::wait_any_readable(&fds, rest).is_err() {
                std::thread::sleep(Duration::from_millis(1));
            }
            if let Some(tasks) = &mut tasks {
                tasks.look();
            }
        };
        let (mut readings, mut missing) = events.read(tasks, end, 0);
        let (of_kernel, not_there) = match is_machine {
            true => MachineFigures::now().since(&machine_before),
            false => running.end(),
        };
        let stolen = procfs::machine_time().zip(machine);
        readings.push(exact(Measure::Wall, end - start));
        readings.extend(of_kernel);
        missing.extend(not_there);
        let stolen_ns = stolen.map_or(0, |(now, before)| now.since(before).stolen_ns);
        Ok(counted(ProgramExit::NotOurs, readings, missing, stolen_ns, false))
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

/// Waits until a forked process waits for its exec. What it waits for a CPU before is not the program's wait.
fn wait_until_asleep(pid: i32) {
    let start = Instant::now();
    while start.elapsed() < FORK && procfs::stat(pid, pid).is_some_and(|stat| stat.can_run()) {
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Sorts the readings. Of two of one measure the first counts: the event has the more exact CPU time.
fn counted(
    exit: ProgramExit,
    mut readings: Vec<Reading>,
    mut missing: Vec<Missing>,
    stolen_ns: u64,
    is_interrupted: bool,
) -> CountedRun {
    readings.sort_by_key(|reading| reading.measure);
    readings.dedup_by_key(|reading| reading.measure);
    for missing in &mut missing {
        let is_read = |measure: &Measure| readings.iter().any(|reading| reading.measure == *measure);
        missing.measures.retain(|measure| !is_read(measure));
    }
    missing.retain(|missing| !missing.measures.is_empty());
    CountedRun {
        exit,
        readings,
        missing,
        stolen_ns,
        is_interrupted,
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

/// Whose events count.
#[derive(Clone, Copy, Debug)]
enum CountedTasks<'a> {
    /// Those of a process from its exec on, and of all that it starts.
    FromExec(i32),
    /// Those of threads, and of all that they start.
    FromNow(&'a [i32]),
    /// Those of all tasks on these CPUs.
    AllOn(&'a [u32]),
}

/// Events that count.
struct CountedEvents {
    /// With whether they count user code alone.
    open: Vec<(Measure, Vec<EventFd>, bool)>,
    missing: Vec<Missing>,
}

impl CountedEvents {
    fn open(wanted: &[WantedEvent], whose: CountedTasks<'_>) -> CountedEvents {
        let mut events = CountedEvents {
            open: Vec::new(),
            missing: Vec::new(),
        };
        let is_machine = matches!(whose, CountedTasks::AllOn(_));
        for event in wanted {
            let measure = event.measure;
            if is_machine && OF_USAGE.contains(&measure) {
                // A CPU's clock also runs when no task does, and the kernel counts all faults.
                continue;
            }
            match open(whose, event) {
                // Without the right to see the kernel, nobody sees what happens in it.
                Ok((_, true)) if event.is_in_kernel => events.miss(measure, kernel_needed()),
                // Of faults in the kernel, that account has all.
                Ok((_, true)) if matches!(measure, Measure::MinorFaults | Measure::MajorFaults) => {}
                Ok((opened, user_only)) => {
                    // The clock runs in the kernel as well.
                    let user_only = user_only && measure != Measure::TaskClock;
                    events.open.push((measure, opened, user_only));
                }
                // The kernel's account of the process has it as well, with what comes between the fork and the exec.
                Err(_) if OF_USAGE.contains(&measure) => {}
                Err(error) if (is_machine || event.is_in_kernel) && error.kind() == io::ErrorKind::PermissionDenied => {
                    events.miss(measure, kernel_needed());
                }
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

    fn miss_all(&mut self, measures: &[Measure], reason: &str) {
        { measures.iter() }.for_each(|measure| self.miss(*measure, reason.to_owned()));
    }

    /// Reads them, and what was counted of tasks up to this time; `own` of these were there before.
    fn read(mut self, tasks: Option<TaskCounter>, end_ns: u64, own: u64) -> (Vec<Reading>, Vec<Missing>) {
        let mut readings = Vec::new();
        for (measure, events, user_only) in std::mem::take(&mut self.open) {
            let mut sum = EventCounts::default();
            let read = events.iter().try_for_each(|event| {
                event.counts()?.add_to(&mut sum);
                Ok::<(), io::Error>(())
            });
            let (enabled, running) = (sum.enabled_ns as f64, sum.running_ns as f64);
            match read {
                Ok(()) if running > 0.0 || enabled == 0.0 || OF_USAGE.contains(&measure) => readings.push(Reading {
                    user_only,
                    value: match 0.0 < running && running < enabled {
                        true => sum.counted as f64 * enabled / running,
                        false => sum.counted as f64,
                    },
                    counted: if enabled > 0.0 {
                        (running / enabled).min(1.0)
                    } else {
                        1.0
                    },
                    ..exact(measure, 0)
                }),
                Ok(()) => self.miss(measure, "others had all counters of the CPU".to_owned()),
                Err(error) => self.miss(measure, format!("reading the event failed: {error}")),
            }
        }
        if let Some(mut tasks) = tasks {
            tasks.end(end_ns);
            if tasks.has_lost_events() {
                // The kernel's account has the whole run.
                readings.retain(|reading| !OF_USAGE.contains(&reading.measure));
                readings.iter_mut().for_each(|reading| reading.at_least = true);
            }
            readings.extend(tasks.readings(own));
        }
        (readings, self.missing)
    }
}

/// Opens an event, without the kernel's part where that is refused. Says whether it is.
fn open(whose: CountedTasks<'_>, event: &WantedEvent) -> io::Result<(Vec<EventFd>, bool)> {
    let [config, config1, config2] = event.configs;
    let attr = Attr {
        kind: event.kind,
        config,
        config1,
        config2,
        read_format: read_format::TOTAL_TIME_ENABLED | read_format::TOTAL_TIME_RUNNING,
        flags: match whose {
            CountedTasks::FromExec(_) => flag::DISABLED | flag::INHERIT | flag::ENABLE_ON_EXEC,
            CountedTasks::FromNow(_) => flag::INHERIT,
            CountedTasks::AllOn(_) => 0,
        } | if event.sides.user { 0 } else { flag::EXCLUDE_USER }
            | if event.sides.kernel {
                0
            } else {
                flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV
            },
        ..Attr::default()
    };
    let open = |attr: Attr| -> io::Result<Vec<EventFd>> {
        match whose {
            CountedTasks::FromExec(pid) => Ok(vec![EventFd::open_on_all_cpus(&attr, pid)?]),
            CountedTasks::FromNow(tids) => { tids.iter() }
                .map(|tid| EventFd::open_on_all_cpus(&attr, *tid))
                // The thread has ended.
                .filter(|opened| !matches!(opened, Err(error) if error.raw_os_error() == Some(libc::ESRCH)))
                .collect(),
            CountedTasks::AllOn(cpus) => { cpus.iter() }
                .filter(|cpu| event.cpus.as_ref().is_none_or(|having| having.contains(cpu)))
                .map(|cpu| EventFd::open(&attr, perf::EVERY_TASK, *cpu))
                .collect(),
        }
    };
    match open(attr) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && event.sides.kernel => {
            let flags = attr.flags | flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV;
            open(Attr { flags, ..attr }).map(|events| (events, true))
        }
        opened => opened.map(|events| (events, false)),
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
