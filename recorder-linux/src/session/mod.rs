//! One recording from launch to end.
//!
//! Opening a [`Recording`] chooses the best backend that this machine and this user allow. Each step down is announced.
//!
//! | backend | sees | needs |
//! |---|---|---|
//! | perf_event with the kernel | all | perf_event_paranoid 1, CAP_PERFMON or root |
//! | perf_event, user code only | user code | perf_event_paranoid 2 |
//! | ptrace | user code of a launched program, at a lower rate | nothing but a parent's right to trace its child |

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

use recording::clock::{ClockReference, Timestamp};
use recording::info::RecordingInfo;
use recording::program;
use recording::session::{Finished, HoldOutcome, RecordError, RecordOptions, RecordTarget, Session};
use recording::sink::EventSink;

use crate::heap::HeapRecorder;
use crate::open::events::Events;
use crate::open::{self, OpenError, Scope, WantedEvents, breakpoints};
use crate::probes::{self, Probes};
use crate::processes::launch;
use crate::processes::procfs;
use crate::processes::stop::Target;
use crate::spans::SpanSocket;
use crate::sys::process::{self, Stopped, monotonic_ns};
use perf_data::events;

pub(crate) mod attach;
mod common;
mod existing;
mod hold;
mod initial_waits;
mod perf;
mod ring_copier;
mod traced;

use common::SessionParts;
use perf::{Begin, PerfSession};
use traced::PtraceSession;

/// A recording with all events open: of a launched program, stopped before its exec, or of running processes. Where
/// events are refused, the launched program is ready to be traced.
///
/// SIGINT, SIGTERM and SIGHUP are blocked until the recording has ended: open it in the only thread.
#[derive(Debug)]
pub struct Recording(Backend);

#[derive(Debug)]
enum Backend {
    Perf(Box<PerfSession>),
    Ptrace(Box<PtraceSession>),
}

impl Session for Recording {
    type Target = Target;

    fn open(options: &RecordOptions) -> Result<Recording, RecordError> {
        let mut specs = Vec::new();
        for list in &options.events {
            specs.extend(events::parse(list).map_err(|error| RecordError::Failed(error.to_string()))?);
        }
        let defined = probes::define_all(&options.probes, &options.spans).map_err(RecordError::Failed)?;
        let mut events = Events::resolve(
            Path::new("/"),
            &specs,
            options.rate_hz,
            options.event_sampling,
            options.off_cpu,
            &options.probes,
            &defined.named,
        )
        .map_err(RecordError::Failed)?;
        let calls = defined.calls.as_deref();
        (events.add_calls(Path::new("/"), &options.spans, calls)).map_err(RecordError::Failed)?;
        let probes = defined.held;
        let backend = match &options.target {
            RecordTarget::Command => open_launched(options, events, probes),
            RecordTarget::Processes(pids) => {
                let pids: Vec<i32> = pids.iter().map(|pid| pid.0).collect();
                open_attached(options, events, probes, |wanted| attach::to_processes(&pids, wanted))
            }
            RecordTarget::WholeMachine => open_attached(options, events, probes, attach::to_whole_machine),
        };
        backend.map(Recording)
    }

    fn announcements(&self) -> &[String] {
        match &self.0 {
            Backend::Perf(session) => &session.opened.announcements,
            Backend::Ptrace(session) => &session.announcements,
        }
    }

    fn remark(&self) -> Option<&'static str> {
        match &self.0 {
            Backend::Perf(session) => session.remark(),
            Backend::Ptrace(_) => None,
        }
    }

    fn info_so_far(&self, clock: ClockReference) -> RecordingInfo {
        match &self.0 {
            Backend::Perf(session) => session.info_so_far(clock),
            Backend::Ptrace(session) => session.info(clock, clock.timestamp),
        }
    }

    fn began(&self) -> Option<Timestamp> {
        match &self.0 {
            Backend::Perf(session) => session.began(),
            Backend::Ptrace(_) => None,
        }
    }

    fn run(self, clock: ClockReference, sink: &mut dyn EventSink) -> Result<Finished<Target>, RecordError> {
        let before = procfs::machine_time();
        let mut finished = match self.0 {
            Backend::Perf(session) => session.run(clock, sink),
            Backend::Ptrace(session) => session.run(clock, sink),
        }?;
        let time = procfs::machine_time().zip(before);
        finished.cpu_account.machine = time.map(|(now, before)| now.since(before));
        Ok(finished)
    }

    fn hold_until(self, begin: BorrowedFd<'_>) -> Result<HoldOutcome<Recording>, RecordError> {
        let held = match self.0 {
            Backend::Perf(session) => hold::until(*session, begin)?,
            // ptrace can only record a program from its start.
            Backend::Ptrace(_) => return Ok(HoldOutcome::Begins(Box::new(self))),
        };
        Ok(match held {
            HoldOutcome::Begins(session) => HoldOutcome::Begins(Box::new(Recording(Backend::Perf(session)))),
            HoldOutcome::Ended(exit) => HoldOutcome::Ended(exit),
        })
    }
}

/// Forks the program, stopped before its exec, and opens what may sample it.
fn open_launched(options: &RecordOptions, events: Events, probes: Option<Probes>) -> Result<Backend, RecordError> {
    let mut image = program::resolve(&options.command, &options.env)?;
    if events.has_breakpoints() {
        breakpoints::check_program(Path::new(OsStr::from_bytes(image.path.as_bytes()))).map_err(RecordError::Failed)?;
    }
    let mut common = SessionParts::new(options)?;
    let mut announcement = None;
    if let Some(heap) = &options.heap {
        let prepared = HeapRecorder::prepare(heap, &mut image).map_err(RecordError::Failed)?;
        (common.heap, announcement) = (Some(prepared.0), prepared.1);
    }
    // Without it, spans of the first moments of a program are not seen.
    common.spans = SpanSocket::open(&mut image.env).ok();
    let stopped = launch::fork(&image, &common.signals)?;
    // After the fork: the program keeps the limit that it was given.
    process::raise_open_file_limit();
    let opened = open::open(Scope::OnExec, stopped.pid(), &WantedEvents::of(options, &events));
    let backend = match opened {
        Ok(mut opened) => Ok({
            opened.announcements.extend(announcement);
            Backend::Perf(Box::new(PerfSession {
                opened,
                probes: probes.map(Probes::ready),
                events,
                begin: Begin::Launch(stopped),
                common,
            }))
        }),
        Err(OpenError::NoPerfEvents(refusal)) => {
            PtraceSession::open(common, stopped, &refusal, &events).map(|mut session| {
                session.announcements.extend(announcement);
                Backend::Ptrace(Box::new(session))
            })
        }
        Err(error) => Err(error.to_string()),
    };
    backend.map_err(RecordError::Failed)
}

/// Opens the events of what runs, and forks the program with which the recording ends.
fn open_attached(
    options: &RecordOptions,
    events: Events,
    probes: Option<Probes>,
    attach: impl FnOnce(&WantedEvents<'_>) -> Result<(open::OpenedEvents, attach::RunningTarget), String>,
) -> Result<Backend, RecordError> {
    if options.heap.is_some() {
        return Err(RecordError::Failed(
            "cannot record the heap of running processes: a library has to be loaded when they start".to_owned(),
        ));
    }
    let image = match options.command.is_empty() {
        true => None,
        false => Some(program::resolve(&options.command, &options.env)?),
    };
    let common = SessionParts::new(options)?;
    // Before attaching, which may start a thread.
    let timer: Option<Stopped> = image.map(|image| launch::fork(&image, &common.signals)).transpose()?;
    let (opened, running) = attach(&WantedEvents::of(options, &events)).map_err(RecordError::Failed)?;
    Ok(Backend::Perf(Box::new(PerfSession {
        opened,
        probes: probes.map(Probes::ready),
        events,
        begin: Begin::Attached(running, timer),
        common,
    })))
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
