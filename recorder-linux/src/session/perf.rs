//! A recording with perf_event.

use std::collections::HashSet;
use std::ffi::OsString;

use recording::clock::{ClockReference, Timestamp};
use recording::cpu_account::{CpuAccount, UnrecordedCause};
use recording::event::{Pid, Role};
use recording::info::RecordingInfo;
use recording::session::{Finished, RecordError, RecordTarget, StopReason};
use recording::sink::EventSink;

use super::attach::{self, RunningTarget};
use super::common::SessionParts;
use crate::calls::CallPairs;
use crate::heap::{HeapRecorder, HeapSink, StaticStart};
use crate::machine::host;
use crate::open::events::Events;
use crate::open::{EventSet, NoCycles, OpenedEvents};
use crate::probes::Probes;
use crate::processes::launch::{self, ExecStop};
use crate::processes::stop::{HeldProgram, Target};
use crate::processes::unrecorded::{self, Unrecorded};
use crate::processes::watched::Watched;
use crate::resources::Resources;
use crate::rounds::drain::{RoundLoop, report_remaining_losses};
use crate::spans::SpanSink;
use crate::sys::priority::RealtimePriority;
use crate::sys::process::{Child, HeldProcess, Signal, Stopped, monotonic_ns};
use perf_data::translate::{TaskZero, Translator};

/// All events are open.
#[derive(Debug)]
pub(super) struct PerfSession {
    pub(super) opened: OpenedEvents,
    // Dropped after `opened`, which holds their events open: the kernel keeps what is in use.
    pub(super) probes: Option<Probes>,
    pub(super) events: Events,
    pub(super) begin: Begin,
    pub(super) common: SessionParts,
}

/// The last step before the recording begins.
#[derive(Debug)]
pub(super) enum Begin {
    /// The program is to be started; its exec enables the events.
    Launch(Stopped),
    /// Events are enabled; a program is to be started whose end ends the recording.
    Attached(RunningTarget, Option<Stopped>),
    /// Events of the launched program are enabled. It ran before.
    Held(HeldProgram, RunningTarget),
}

impl PerfSession {
    /// What holds for every recording on this machine without being a loss; `None` if nothing does.
    pub(super) fn remark(&self) -> Option<&'static str> {
        self.opened.choice.no_cycles.map(NoCycles::remark)
    }

    /// The facts of the recording before it begins.
    pub(super) fn info_so_far(&self, clock: ClockReference) -> RecordingInfo {
        let names = match &self.begin {
            Begin::Attached(running, _) => Some(running.names.join(", ")),
            Begin::Launch(_) | Begin::Held(..) => None,
        };
        info(&self.common, &self.opened, &self.events, clock, clock.timestamp, names)
    }

    /// When events were enabled, of what ran before.
    pub(super) fn began(&self) -> Option<Timestamp> {
        match &self.begin {
            Begin::Held(_, running) | Begin::Attached(running, _) => Some(running.start),
            Begin::Launch(_) => None,
        }
    }

    pub(super) fn run(
        mut self,
        clock: ClockReference,
        sink: &mut dyn EventSink,
    ) -> Result<Finished<Target>, RecordError> {
        // Needed from here on: running processes are being sampled, but no sample is read until all processes are
        // reported.
        let quick_turns = RealtimePriority::ask();
        let mut heap = self.common.heap.take();
        let static_start = heap.as_mut().and_then(HeapRecorder::take_static_start);
        let start = self.began().unwrap_or_else(|| Timestamp(monotonic_ns()));
        let mut stages = SpanSink::new(
            HeapSink::new(sink, heap),
            self.common.spans.take(),
            self.common.sampling_switch(),
            start,
        );
        let sink = &mut stages;
        let (common, opened) = (&self.common, &mut self.opened);
        let options = &common.options;
        let mut translator = Translator::new(opened.layout);
        translator.watch_for_lost_events();
        let mut unrecorded = Unrecorded::default();
        let mut resources = Resources::new(options.resources);
        if options.target == RecordTarget::WholeMachine {
            match opened.events.has_points() && attach::in_first_pid_namespace() {
                // Interrupts that come to an idle CPU, and its own switches.
                true => translator.name_idle_task(start, sink),
                false => translator.admit_task_zero(TaskZero::OtherNamespaces),
            }
        }
        let ran_before = matches!(self.begin, Begin::Held(..));
        let (mut watched, names) = match self.begin {
            Begin::Launch(stopped) => {
                translator.start_process(start, Pid(stopped.pid()), sink);
                // What the program does from now on counts.
                let program = std::iter::once(Pid(stopped.pid()));
                resources.look(program, &mut |message| message.deliver(sink));
                let child = start_program(stopped, static_start, &mut opened.events, &options.command)?;
                (Watched::Program(child), None)
            }
            Begin::Attached(running, timer) => {
                let names = running.names.join(", ");
                for pid in &running.refused {
                    unrecorded.add(*pid, None, UnrecordedCause::OtherUser);
                }
                let others = report_running(running, opened, &mut translator, sink);
                let timer = timer.map(|timer| start_program(timer, None, &mut opened.events, &options.command));
                let timer = timer.transpose()?;
                (timer.map_or(others, Watched::Timer), Some(names))
            }
            Begin::Held(program, running) => {
                let others = report_running(running, opened, &mut translator, sink);
                (program.release().map_or(others, Watched::Program), None)
            }
        };
        let mut calls = CallPairs::new(&options.spans);
        let ended = RoundLoop {
            opened,
            translator: &mut translator,
            watched: &mut watched,
            unrecorded: &mut unrecorded,
            signals: &common.signals,
            start,
            deadline: common.duration_ns().map(|ns| Timestamp(start.0.saturating_add(ns))),
            rate_hz: options.rate_hz,
            resources: &mut resources,
            calls: &mut calls,
            sink,
        }
        .run();
        drop(quick_turns);
        // The last samples needed the program's memory and files; only now may it be asked to end.
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
                // How much CPU time a program used before it was recorded is not known.
                program = child.usage().filter(|_| !ran_before).map(|usage| unrecorded::Program {
                    usage,
                    processes: translator.processes_seen(),
                });
                if stop.is_end_of_program() {
                    left_running = unrecorded::running(live.iter().copied().filter(|pid| *pid != child.pid()));
                }
                Some(Target::after(child, stop, options.keep_running, live))
            }
            // The timer ends with the recording; the recorded processes do not.
            Watched::Timer(timer) => Some(Target::after(timer, stop, false, [].into())),
            Watched::Others(_) | Watched::Machine => None,
        };
        for role in [Role::Running, Role::Switch, Role::Counted, Role::Point] {
            report_remaining_losses(opened.events.totals(role).lost, role, &mut translator, end, sink);
        }
        let of_calls = calls.finish(|function| opened.events.lost_calls(function), start, end, sink);
        let (heap, unread_spans) = stages.finish(end);
        // Events of whole CPUs also count idle time.
        let of_tasks = options.target != RecordTarget::WholeMachine;
        let counted = opened.events.of_tasks(opened.events.totals(Role::Running));
        let cpu_time_ns = (of_tasks && counted.enabled_ns > 0).then_some(counted.enabled_ns);
        // An event that only some CPUs have counts nothing on the others.
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
        let mut counts_of = opened.events.counts();
        for (index, event) in (0..).zip(&mut self.events.infos) {
            event.counts = match event.role {
                Role::Counted | Role::Point => counts_of.remove(&index),
                _ => Some(counted),
            };
        }
        let mut notes = std::mem::take(&mut opened.notes);
        notes.extend(unread_spans);
        notes.extend(of_calls);
        // The kernel switches and reads events one after the other, which alone accounts for less than a hundredth.
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
        let info = info(common, opened, &self.events, clock, end, names);
        Ok(Finished {
            info: RecordingInfo { notes, heap, ..info },
            stop,
            asked_rate_hz: options.rate_hz,
            achieved_rate_hz,
            cpu_time_ns,
            cpu_account,
            problem,
            target,
        })
    }
}

/// Lets the program run, with its breakpoints set.
fn start_program(
    stopped: Stopped,
    static_start: Option<StaticStart>,
    events: &mut EventSet,
    command: &[OsString],
) -> Result<Child, RecordError> {
    let pid = stopped.pid();
    let mut refused = None;
    let started = if events.waits_for_exec() {
        let stop = ExecStop::seize(pid);
        stopped.start_and(|| {
            let set = stop.and_then(|stop| {
                stop.at_exec(|pid| {
                    if events.waits_for_libraries(pid) {
                        // If that fails, a breakpoint has no address.
                        let _ = launch::run_to_entry(pid);
                    }
                    let set = events.set_breakpoints(pid);
                    if set.is_err()
                        && let Some(process) = HeldProcess::open(pid)
                    {
                        process.signal(Signal::KILL);
                    } else if let Some(static_start) = static_start {
                        static_start.load(pid);
                    }
                    set
                })
            });
            refused = match set {
                Ok(set) => set.and_then(Result::err).map(|error| error.to_string()),
                Err(error) => Some(format!(
                    "cannot set breakpoints: the program can't be stopped at its exec (ptrace: {error}); \
                     start it, and record it with -p"
                )),
            };
        })
    } else if let Some(static_start) = static_start {
        static_start.start(stopped)
    } else {
        stopped.start()
    };
    let mut child = started.map_err(|error| launch::exec_error(command, &error))?;
    match refused {
        None => Ok(child),
        Some(refused) => {
            child.signal(Signal::KILL);
            child.wait();
            Err(RecordError::Failed(refused))
        }
    }
}

fn info(
    common: &SessionParts,
    opened: &OpenedEvents,
    events: &Events,
    clock: ClockReference,
    end: Timestamp,
    names: Option<String>,
) -> RecordingInfo {
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
        host: host::describe(opened.events.cpus().len()),
        ..common.info(clock, end, names, common.options.rate_hz)
    }
}

/// Reports what was there when events were enabled. Returns whose end ends the recording.
fn report_running(
    running: RunningTarget,
    opened: &mut OpenedEvents,
    translator: &mut Translator,
    sink: &mut dyn EventSink,
) -> Watched {
    running.existing.report(translator, sink);
    if let Some(initial_waits) = &running.initial_waits {
        initial_waits.report(running.start, sink);
    }
    if let Some(ring_copier) = running.ring_copier {
        ring_copier.end(opened);
    }
    running.watched
}
