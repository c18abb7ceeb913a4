//! One recording from launch to end.

use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::SystemTime;

use recording::clock::{ClockReference, Timestamp};
use recording::command::own;
use recording::cpu_account::{CpuAccount, UnrecordedCause};
use recording::event::{Pid, Role};
use recording::info::{EventCounts, PeriodUnit, RecordingInfo};
use recording::session::{self, Finished, Held, RecordError, RecordOptions, StopReason, Target as _, Whom};
use recording::sink::EventSink;

use crate::machine::cpus;
use crate::machine::host;
use crate::open::events::Events;
use crate::open::{NoCycles, Opened, Wanted};
use crate::probes::{self, Probes};
use crate::processes::launch;
use crate::processes::procfs;
use crate::processes::stop::Target;
use crate::processes::unrecorded::{self, Unrecorded};
use crate::processes::watched::Watched;
use crate::ptrace::{self, TraceError};
use crate::sys::perf_event::EventFd;
use crate::sys::priority::QuickTurns;
use crate::sys::process::{self, Child, Stopped, monotonic_ns};
use crate::sys::signals::Signals;
use perf_data::events;
use perf_data::translate::{TaskZero, Translator};

mod attach;
mod backend;
mod drain;
mod existing;
mod hold;
mod initial_waits;
mod ring_copier;

use attach::Running;
use backend::Backend;

/// A recording with all events open: of a launched program, stopped before its exec, or of what runs already. Where events
/// are refused, the launched program is ready to be traced.
///
/// SIGINT, SIGTERM and SIGHUP are blocked from here until the recording has ended: make it in the only thread.
#[derive(Debug)]
pub struct Recording {
    options: RecordOptions,
    events: Events,
    who: Who,
    // Dropped before `signals`: the signal masks are put back in the reverse order.
    backend: Backend,
    // Dropped after `backend`, which holds their events open: the kernel keeps what is in use.
    #[expect(dead_code, reason = "held, not used")]
    probes: Option<Probes>,
    signals: Signals,
}

#[derive(Debug)]
enum Who {
    Stopped(Stopped),
    Running(Running),
    /// What runs already, for as long as a program runs that is started when recording starts.
    RunningDuring(Running, Stopped),
    /// Launched, and found running when recording began.
    Launched(Child, Running),
    /// The recording is over.
    Nobody,
}

impl session::Session for Recording {
    type Target = Target;

    fn open(options: &RecordOptions) -> Result<Recording, RecordError> {
        let mut specs = Vec::new();
        for list in &options.events {
            specs.extend(events::parse(list).map_err(|error| RecordError::Failed(error.to_string()))?);
        }
        let (probes, defined) = probes::define_all(&options.probes).map_err(RecordError::Failed)?;
        let events = Events::resolve(
            Path::new("/"),
            &specs,
            options.rate_hz,
            options.event_sampling,
            options.off_cpu,
            &defined,
        )
        .map_err(RecordError::Failed)?;
        let wanted = Wanted::of(options, &events);
        let pids: Option<Vec<i32>> = match &options.whom {
            Whom::Command => return Recording::launch(options, events, probes),
            Whom::Processes(pids) => Some(pids.iter().map(|pid| pid.0).collect()),
            Whom::WholeMachine => None,
        };
        let image = match options.command.is_empty() {
            true => None,
            false => Some(launch::resolve(options)?),
        };
        let signals = take_over_signals()?;
        // Before attaching, which may start a thread.
        let timer = image.map(|image| launch::fork(&image, &signals)).transpose()?;
        let attached = match pids {
            Some(pids) => attach::to_processes(&pids, &wanted),
            None => attach::to_whole_machine(&wanted),
        };
        let (opened, running) = match attached {
            Ok(attached) => attached,
            Err(error) => {
                timer.into_iter().for_each(Stopped::abandon);
                return Err(RecordError::Failed(error));
            }
        };
        let probes = probes.map(Probes::ready);
        Ok(Recording {
            options: options.clone(),
            events,
            who: match timer {
                Some(timer) => Who::RunningDuring(running, timer),
                None => Who::Running(running),
            },
            signals,
            backend: Backend::PerfEvent(Box::new(opened)),
            probes,
        })
    }

    fn announcements(&self) -> &[String] {
        match &self.backend {
            Backend::PerfEvent(opened) => &opened.announcements,
            Backend::Ptrace { announcements, .. } => announcements,
            Backend::NotYet => &[],
        }
    }

    fn remark(&self) -> Option<&'static str> {
        match &self.backend {
            Backend::PerfEvent(opened) => opened.choice.no_cycles.map(NoCycles::remark),
            Backend::Ptrace { .. } | Backend::NotYet => None,
        }
    }

    fn info_so_far(&self, clock: ClockReference) -> RecordingInfo {
        let names = match &self.who {
            Who::Running(running) | Who::RunningDuring(running, _) => Some(running.names.join(", ")),
            Who::Stopped(_) | Who::Launched(..) | Who::Nobody => None,
        };
        match &self.backend {
            Backend::PerfEvent(opened) => {
                let info = self.info(clock, clock.timestamp, names, self.options.rate_hz);
                of_events(info, opened, &self.events)
            }
            Backend::Ptrace { rate_hz, .. } => self.info(clock, clock.timestamp, names, *rate_hz),
            Backend::NotYet => self.info(clock, clock.timestamp, names, self.options.rate_hz),
        }
    }

    fn began(&self) -> Option<Timestamp> {
        match &self.who {
            Who::Launched(_, running) => Some(running.start),
            Who::Stopped(_) | Who::Running(_) | Who::RunningDuring(..) | Who::Nobody => None,
        }
    }

    fn run(self, clock: ClockReference, sink: &mut dyn EventSink) -> Result<Finished<Target>, RecordError> {
        let before = procfs::machine_time();
        let mut finished = self.record(clock, sink)?;
        let time = procfs::machine_time().zip(before);
        finished.cpu_account.machine = time.map(|(now, before)| now.since(before));
        Ok(finished)
    }

    fn hold_until(self, begin: BorrowedFd<'_>) -> Result<Held<Recording>, RecordError> {
        self.hold(begin)
    }
}

impl Recording {
    fn launch(options: &RecordOptions, events: Events, probes: Option<Probes>) -> Result<Recording, RecordError> {
        let image = launch::resolve(options)?;
        let signals = take_over_signals()?;
        let stopped = launch::fork(&image, &signals)?;
        // After the fork: the program keeps the limit that it was given.
        process::raise_open_file_limit();
        match backend::choose(stopped.pid(), options, &events, &signals) {
            Ok(backend) => Ok(Recording {
                probes: probes.map(Probes::ready),
                options: options.clone(),
                events,
                who: Who::Stopped(stopped),
                signals,
                backend,
            }),
            Err(error) => {
                stopped.abandon();
                Err(RecordError::Failed(error))
            }
        }
    }

    fn record(mut self, clock: ClockReference, sink: &mut dyn EventSink) -> Result<Finished<Target>, RecordError> {
        let opened = match &mut self.backend {
            Backend::PerfEvent(opened) => opened,
            Backend::Ptrace { .. } | Backend::NotYet => return self.run_traced(clock, sink),
        };
        let mut translator = Translator::new(opened.layout);
        translator.watch_for_lost_events();
        let mut unrecorded = Unrecorded::default();
        if self.options.whom == Whom::WholeMachine {
            match opened.further.has_points() && attach::in_first_pid_namespace() {
                // Interrupts that come to an idle CPU, and its own switches.
                true => translator.name_idle_task(Timestamp(monotonic_ns()), sink),
                false => translator.admit_task_zero(TaskZero::OtherNamespaces),
            }
        }
        let ran_before = matches!(self.who, Who::Launched(..));
        let (start, mut watched, names) = match std::mem::replace(&mut self.who, Who::Nobody) {
            Who::Stopped(stopped) => {
                let start = Timestamp(monotonic_ns());
                translator.start_process(start, Pid(stopped.pid()), sink);
                let child = stopped
                    .start()
                    .map_err(|error| launch::exec_error(&self.options, &error))?;
                (start, Watched::Program(child), None)
            }
            Who::Running(running) => {
                let names = running.names.join(", ");
                let start = running.start;
                for pid in &running.refused {
                    unrecorded.add(*pid, None, UnrecordedCause::OtherUser);
                }
                (
                    start,
                    tell_of_running(running, opened, &mut translator, sink),
                    Some(names),
                )
            }
            Who::RunningDuring(running, timer) => {
                let names = running.names.join(", ");
                let start = running.start;
                tell_of_running(running, opened, &mut translator, sink);
                let timer = timer
                    .start()
                    .map_err(|error| launch::exec_error(&self.options, &error))?;
                (start, Watched::Timer(timer), Some(names))
            }
            Who::Launched(child, running) => {
                let start = running.start;
                tell_of_running(running, opened, &mut translator, sink);
                (start, Watched::Program(child), None)
            }
            Who::Nobody => return Err(RecordError::Failed("the recording was already run".to_owned())),
        };
        let deadline = deadline(&self.options, start);
        let quick_turns = QuickTurns::ask();
        let ended = drain::until_end(
            opened,
            &mut translator,
            &mut watched,
            &mut unrecorded,
            &self.signals,
            deadline,
            self.options.rate_hz,
            sink,
        );
        drop(quick_turns);
        // The program's memory and files are still needed by the last samples; only now may it be told to end.
        // Never seen to fail. What was recorded until then is kept.
        let (stop, end, problem) = match ended {
            Ok((stop, end)) => (stop, end, None),
            Err(error) => {
                let problem = format!("recording stopped early: reading the perf rings failed: {error}");
                (StopReason::Terminated, Timestamp(monotonic_ns()), Some(problem))
            }
        };
        let mut program = None;
        let mut left_running = (Vec::new(), 0);
        let target = match watched {
            Watched::Program(child) => {
                let live: HashSet<i32> = translator.live_processes().map(|pid| pid.0).collect();
                // Of one that ran before it was recorded, it is not known how much that was.
                program = child
                    .cpu_time()
                    .filter(|_| !ran_before)
                    .map(|time| unrecorded::Program {
                        time,
                        processes: translator.processes_seen(),
                    });
                if stop == StopReason::ProgramEnded {
                    left_running = unrecorded::running(live.iter().copied().filter(|pid| *pid != child.pid));
                }
                Some(Target::after(child, stop, self.options.keep_running, live))
            }
            // What it started ends with it; what is recorded does not.
            Watched::Timer(timer) => Some(Target::after(timer, stop, false, [].into())),
            Watched::Others(_) | Watched::Machine => None,
        };
        let (counts, of_waits) = (totals(&opened.events), totals(&opened.waits.switches));
        drain::report_remaining_losses(counts.lost, Role::Running, &mut translator, end, sink);
        drain::report_remaining_losses(of_waits.lost, Role::Switch, &mut translator, end, sink);
        let (counted_lost, points_lost) = opened.further.lost();
        drain::report_remaining_losses(counted_lost, Role::Counted, &mut translator, end, sink);
        drain::report_remaining_losses(points_lost, Role::Point, &mut translator, end, sink);
        // Events of whole CPUs count idle time, too.
        let of_tasks = self.options.whom != Whom::WholeMachine;
        let counted = opened.further.common().of_tasks(counts, opened.cpus());
        let cpu_time_ns = (of_tasks && counted.enabled_ns > 0).then_some(counted.enabled_ns);
        // An event that only some of the CPUs have is not there for what runs on the others.
        let has_all_cpus = (opened.choice.named.as_ref()).is_none_or(|counter| counter.cpus.is_none());
        let recorded_ns = of_tasks.then_some(counted.enabled_ns).filter(|_| has_all_cpus);
        let cpu_account = CpuAccount {
            left_running: left_running.0,
            left_running_more: left_running.1,
            ..unrecorded.account(program, recorded_ns)
        };
        let achieved_rate_hz = cpu_time_ns
            .filter(|_| opened.choice.counts_kernel() && opened.choice.is_time())
            .map(|cpu_time_ns| translator.samples() as f64 * 1e9 / cpu_time_ns as f64);
        let mut counts_of = opened.further.counts();
        let mut events = std::mem::take(&mut self.events);
        for (index, event) in (0..).zip(&mut events.infos) {
            event.counts = match event.role {
                Role::Counted | Role::Point => counts_of.remove(&index),
                _ => Some(counted),
            };
        }
        let mut notes = std::mem::take(&mut opened.notes);
        // The kernel switches and reads events one after the other: less than a hundredth may be just that.
        if let Some(share) = counted.partial_share().filter(|share| *share < 0.99)
            && opened.choice.hardware
        {
            notes.push(format!(
                "{} found a free counter of the processor for {:.1} % of the CPU time; the rest has no samples; \
                 `-e cpu-clock` samples by the kernel's timer",
                opened.choice.name(),
                100.0 * share
            ));
        }
        let info = self.info(clock, end, names, self.options.rate_hz);
        let info = match &self.backend {
            Backend::PerfEvent(opened) => of_events(info, opened, &events),
            Backend::Ptrace { .. } | Backend::NotYet => info,
        };
        Ok(Finished {
            info: RecordingInfo { notes, ..info },
            stop,
            asked_rate_hz: self.options.rate_hz,
            achieved_rate_hz,
            cpu_time_ns,
            cpu_account,
            problem,
            target,
        })
    }

    fn run_traced(&mut self, clock: ClockReference, sink: &mut dyn EventSink) -> Result<Finished<Target>, RecordError> {
        let who = std::mem::replace(&mut self.who, Who::Nobody);
        let (
            Who::Stopped(stopped),
            Backend::Ptrace {
                rate_hz, child_news, ..
            },
        ) = (who, &self.backend)
        else {
            return Err(RecordError::Failed("the recording was already run".to_owned()));
        };
        let rate_hz = *rate_hz;
        let deadline = deadline(&self.options, Timestamp(monotonic_ns()));
        let traced =
            ptrace::record(stopped, rate_hz, &self.signals, child_news, deadline, sink).map_err(
                |error| match error {
                    TraceError::Exec(error) => launch::exec_error(&self.options, &error),
                    TraceError::Failed(what, error) => RecordError::Failed(format!(
                        "cannot {what}: {error}; `{} doctor` tells what this machine allows",
                        own()
                    )),
                },
            )?;
        let cpu_time_ns = (traced.cpu_time_ns > 0).then_some(traced.cpu_time_ns);
        let info = RecordingInfo {
            notes: vec![traced.note()],
            ..self.info(clock, traced.end, None, rate_hz)
        };
        let problem = traced.problem;
        Ok(Finished {
            info,
            stop: traced.stop,
            asked_rate_hz: rate_hz,
            achieved_rate_hz: cpu_time_ns.map(|ns| traced.samples as f64 * 1e9 / ns as f64),
            cpu_time_ns,
            cpu_account: CpuAccount::default(),
            problem: problem.map(|error| format!("recording stopped early: tracing failed: {error}")),
            target: Some(Target::after(
                traced.child,
                traced.stop,
                self.options.keep_running,
                traced.live_processes,
            )),
        })
    }

    /// What is the same whatever the way of recording; the rest is that of a traced one.
    fn info(&self, clock: ClockReference, end: Timestamp, names: Option<String>, rate_hz: f64) -> RecordingInfo {
        let mut words = self
            .options
            .command
            .iter()
            .map(|word| word.to_string_lossy().into_owned());
        let command = words.next().unwrap_or_default();
        let program = Path::new(&command)
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        RecordingInfo {
            program: names.or(program).unwrap_or(command),
            args: self.options.include_args.then(|| words.collect()),
            clock,
            end,
            run_starts: Vec::new(),
            interval_ns: (1e9 / rate_hz).round() as u64,
            event: "ptrace".to_owned(),
            unit: PeriodUnit::CpuNanoseconds,
            kernel_included: false,
            notes: Vec::new(),
            events: Vec::new(),
            host: host::describe(cpus::online(Path::new("/")).map_or(0, |cpus| cpus.len())),
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.who, Who::Nobody) {
            Who::Stopped(stopped) | Who::RunningDuring(_, stopped) => stopped.abandon(),
            Who::Launched(child, _) => drop(Target::after(child, StopReason::Terminated, false, [].into()).wait()),
            Who::Running(_) | Who::Nobody => {}
        }
    }
}

/// Tells of what is found when events are enabled. Returns whose end ends the recording.
fn tell_of_running(
    running: Running,
    opened: &mut Opened,
    translator: &mut Translator,
    sink: &mut dyn EventSink,
) -> Watched {
    existing::tell(&running.pids, running.start, translator, sink);
    if let Some(initial_waits) = &running.initial_waits {
        initial_waits::tell(initial_waits, running.start, sink);
    }
    if let Some(ring_copier) = running.ring_copier {
        ring_copier.end(opened);
    }
    running.watched
}

fn of_events(info: RecordingInfo, opened: &Opened, events: &Events) -> RecordingInfo {
    let choice = &opened.choice;
    let mut events = events.infos.clone();
    for event in events
        .iter_mut()
        .filter(|event| event.role != Role::Point && !choice.may_sample_kernel)
    {
        event.without_kernel.get_or_insert("no permission");
    }
    RecordingInfo {
        event: choice.name().to_owned(),
        unit: choice.unit(),
        kernel_included: choice.counts_kernel(),
        events,
        host: host::describe(opened.cpus()),
        ..info
    }
}

fn deadline(options: &RecordOptions, start: Timestamp) -> Option<Timestamp> {
    let duration_ns = u64::try_from(options.duration?.as_nanos()).unwrap_or(u64::MAX);
    Some(Timestamp(start.0.saturating_add(duration_ns)))
}

fn totals(events: &[EventFd]) -> EventCounts {
    let mut totals = EventCounts::default();
    for counts in events.iter().filter_map(|event| event.counts().ok()) {
        counts.add_to(&mut totals);
    }
    totals
}

fn take_over_signals() -> Result<Signals, RecordError> {
    Signals::block().map_err(|error| RecordError::Failed(format!("cannot take over signals (signalfd): {error}")))
}

/// Reads both clocks at one instant.
pub fn clock_reference() -> ClockReference {
    let before = monotonic_ns();
    let wall = SystemTime::now();
    let after = monotonic_ns();
    ClockReference {
        timestamp: Timestamp(before + (after - before) / 2),
        wall,
    }
}
