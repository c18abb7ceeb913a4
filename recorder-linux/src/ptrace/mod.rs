//! Samples a program with ptrace, where the kernel refuses perf_event_open.
//!
//! Gets: a forked program that waits for its exec. Gives: the same events as perf_event, to the same sink. A thread of
//! sprof seizes the program and all that it starts, and stops a thread for about 50 us for each sample. So the rate is
//! lower. Kernel functions are not seen; kernel time counts for the function that called the kernel.
//!
//! In reading order:
//!
//! 1. [`policy`]: when to sample which thread.
//! 2. [`tracer`]: what the stops mean, and the samples.
//! 3. [`counts`], [`maps`]: what the scheduler has counted, and which code is new.
//!
//! [`recording::pace`] has the times of the ticks and the accounts of threads, [`recording::outbox`] the way from the
//! thread that traces to the one that unwinds.
//!
//! The tracing thread detaches from nothing. When the thread ends, also because sprof is killed, the kernel releases
//! all tracees without a race with what they do meanwhile (exit_ptrace in kernel/ptrace.c).

mod counts;
mod maps;
mod policy;
mod tracer;

use std::io;
use std::time::Duration;

use recording::clock::Timestamp;
use recording::outbox;
use recording::pace::Ticks;
use recording::sink::EventSink;

use crate::heap::StaticStart;
use crate::processes::watched::{stop_at_end, take_signals};
use crate::resources::Resources;
use crate::sys::process::{Child, ExecReport, Stopped, monotonic_ns};
use crate::sys::ptrace as sys_ptrace;
use crate::sys::signals::{self, Signals};
use recording::session::StopReason;

use tracer::{Totals, Tracer};

/// Highest rate: 1000 stops a second take 5 % of a thread's time.
pub(crate) const HIGHEST_RATE_HZ: f64 = 1000.0;

/// The result of a ptrace recording.
#[derive(Debug)]
pub(crate) struct Traced {
    /// The program.
    pub(crate) child: Child,
    /// Why recording ended.
    pub(crate) stop: StopReason,
    /// When recording ended, on the recording's clock.
    pub(crate) end: Timestamp,
    /// What was recorded.
    pub(crate) totals: Totals,
    /// The error that ended recording, if neither the program nor the user did.
    pub(crate) problem: Option<io::Error>,
}

impl Traced {
    /// The bias of ptrace samples, with the figure that it depends on.
    pub(crate) fn note(&self) -> String {
        let percent = 100.0 * self.totals.waited_ns as f64 / self.totals.cpu_time_ns.max(1) as f64;
        format!(
            "ptrace stops threads some microseconds late: functions that enter the kernel have too large a share, the more \
             so the more threads wait for a CPU (these waited {percent:.0} % of the time that they ran)"
        )
    }
}

/// Why ptrace recorded nothing.
#[derive(Debug)]
pub(crate) enum TraceError {
    /// The program could not be executed.
    Exec(io::Error),
    /// What could not be done, and the error.
    Failed(&'static str, io::Error),
}

/// Seizes the program, lets it run and samples it until it ends, the time is over or a signal ends the recording.
/// `child_news` is SIGCHLD, which no thread may have unblocked. A static program may have something to do at its start.
pub(crate) fn record(
    (stopped, static_start): (Stopped, Option<StaticStart>),
    rate_hz: f64,
    signals: &Signals,
    child_news: &Signals,
    duration_ns: Option<u64>,
    resources: Resources,
    sink: &mut dyn EventSink,
) -> Result<Traced, TraceError> {
    let interval_ns = (1e9 / rate_hz).round().max(1.0) as u64;
    let (outbox, inbox) = outbox::channel();
    std::thread::scope(|scope| {
        let tracing = || {
            let ticks = Ticks::new(interval_ns, monotonic_ns());
            let tracer = Tracer::new(stopped.pid(), ticks, resources, static_start, outbox);
            // Time begins where the tracer has reported the program's start.
            let deadline_ns = duration_ns.map(|ns| monotonic_ns().saturating_add(ns));
            trace(stopped, tracer, signals, child_news, deadline_ns)
        };
        let tracing = std::thread::Builder::new()
            .name("sprof-ptrace".to_owned())
            .spawn_scoped(scope, tracing)
            .map_err(|error| TraceError::Failed("start a thread", error))?;
        inbox.deliver_all(sink);
        tracing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn trace(
    stopped: Stopped,
    mut tracer: Tracer,
    signals: &Signals,
    child_news: &Signals,
    deadline_ns: Option<u64>,
) -> Result<Traced, TraceError> {
    sys_ptrace::seize(stopped.pid()).map_err(|error| TraceError::Failed("trace the program (PTRACE_SEIZE)", error))?;
    let (mut child, exec) = stopped
        .release()
        .map_err(|error| TraceError::Failed("start the program", error))?;
    let ended = until_end(&mut tracer, &child, signals, child_news, deadline_ns);
    if let Some(status) = tracer.program_end() {
        child.was_reaped(status);
        if let Some(error) = exec_error(&tracer, exec) {
            return Err(TraceError::Exec(error));
        }
    }
    let end = monotonic_ns();
    let (stop, problem) = match ended {
        Ok(stop) => (stop, None),
        Err(error) => (StopReason::Terminated, Some(error)),
    };
    Ok(Traced {
        child,
        stop,
        end: Timestamp(end),
        totals: tracer.finish(end),
        problem,
    })
}

/// Why a program that has ended was never executed.
fn exec_error(tracer: &Tracer, exec: ExecReport) -> Option<io::Error> {
    if tracer.has_exec() {
        return None;
    }
    exec.error().ok().flatten()
}

fn until_end(
    tracer: &mut Tracer,
    program: &Child,
    signals: &Signals,
    child_news: &Signals,
    deadline_ns: Option<u64>,
) -> io::Result<StopReason> {
    let mut interrupts = 0;
    loop {
        let next_ns = deadline_ns.map_or(tracer.next_ns(), |end_ns| tracer.next_ns().min(end_ns));
        let left = Duration::from_nanos(next_ns.saturating_sub(monotonic_ns()));
        let [changed, signalled] = signals::wait_readable([child_news.fd(), signals.fd()], left)?;
        if changed {
            // Before the answers: a later change sends the signal again.
            while child_news.next().is_some() {}
        }
        tracer.answer_all()?;
        if tracer.program_end().is_some() {
            return Ok(stop_at_end(signals, interrupts));
        }
        if signalled && let Some(stop) = take_signals(signals, &mut interrupts, Some(program)) {
            return Ok(stop);
        }
        let now = monotonic_ns();
        if deadline_ns.is_some_and(|end_ns| now >= end_ns) {
            return Ok(StopReason::Duration);
        }
        tracer.sample()?;
    }
}
