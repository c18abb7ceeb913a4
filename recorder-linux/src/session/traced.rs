//! A recording with ptrace.

use recording::clock::{ClockReference, Timestamp};
use recording::command::own;
use recording::cpu_account::CpuAccount;
use recording::info::RecordingInfo;
use recording::session::{Finished, RecordError};
use recording::sink::EventSink;

use super::common::SessionParts;
use crate::heap::{HeapRecorder, HeapSink};
use crate::machine::refusal::{PerfEventRefusal, PtraceRefusal};
use crate::open::events::Events;
use crate::processes::launch;
use crate::processes::stop::Target;
use crate::ptrace::{self, HIGHEST_RATE_HZ, TraceError};
use crate::resources::Resources;
use crate::spans::SpanSink;
use crate::sys::process::{Stopped, monotonic_ns};
use crate::sys::ptrace as sys_ptrace;
use crate::sys::signals::Signals;

/// A launched program, stopped before its exec, that ptrace will sample.
#[derive(Debug)]
pub(super) struct PtraceSession {
    stopped: Stopped,
    rate_hz: f64,
    pub(super) announcements: Vec<String>,
    /// SIGCHLD, taken over while there is only one thread: any other thread would take the signals of the tracing one.
    /// Dropped before the signals in `common`: signal masks are put back in the reverse order.
    child_news: Signals,
    pub(super) common: SessionParts,
}

impl PtraceSession {
    /// Finds out whether ptrace is allowed where perf_event was refused. The only place that refuses events without
    /// perf_event.
    pub(super) fn open(
        common: SessionParts,
        stopped: Stopped,
        refusal: &PerfEventRefusal,
        events: &Events,
    ) -> Result<PtraceSession, String> {
        if !events.is_empty() {
            let spans = common.options.spans.iter().map(|span| span.name.as_str());
            let names: Vec<&str> = events
                .infos
                .iter()
                .map(|info| info.name.as_str())
                .chain(spans)
                .collect();
            return Err(format!(
                "cannot record {}: {refusal}, and ptrace, the other way to record, knows no events. {}",
                names.join(", "),
                refusal.remedy().map_or_else(
                    || "Without -e there is a profile of CPU time".to_owned(),
                    |remedy| format!("What helps: {remedy}; without -e there is a profile of CPU time")
                )
            ));
        }
        sys_ptrace::try_out(&common.signals).map_err(|(call, error)| {
            let other = PtraceRefusal::new(call, error);
            let remedies = [refusal.remedy().map(str::to_owned), Some(other.remedy())].into_iter().flatten();
            format!(
                "{refusal}; ptrace, the other backend, is also refused ({other}). What helps: {}; `{} doctor` shows more",
                remedies.collect::<Vec<_>>().join("; or "),
                own()
            )
        })?;
        let asked_hz = common.options.ptrace_rate_hz;
        let rate_hz = asked_hz.min(HIGHEST_RATE_HZ);
        let mut announcements = vec![format!(
            "{refusal}: sampling with ptrace instead, at {rate_hz:.0} Hz. It stops a thread for about 50 us for each \
             sample, shows no kernel functions, and on a busy machine gives functions that enter the kernel too large a share"
        )];
        announcements.extend(
            refusal
                .remedy()
                .map(|remedy| format!("for perf_event: {remedy}; `{} doctor` shows more", own())),
        );
        if common.options.off_cpu {
            announcements.push("waits are not recorded: ptrace sees threads on a CPU only".to_owned());
        }
        if common.options.parallelism {
            announcements.push("switches are not recorded: the number of running threads is an estimate".to_owned());
        }
        if asked_hz > HIGHEST_RATE_HZ {
            announcements.push(format!(
                "with ptrace, {HIGHEST_RATE_HZ:.0} Hz is the highest rate: each sample costs the program more than perf_event's"
            ));
        }
        let child_news =
            Signals::block_child_news().map_err(|error| format!("cannot take over SIGCHLD (signalfd): {error}"))?;
        sys_ptrace::hear_of_children();
        Ok(PtraceSession {
            stopped,
            rate_hz,
            announcements,
            child_news,
            common,
        })
    }

    /// The facts of the recording, which ends at `end`.
    pub(super) fn info(&self, clock: ClockReference, end: Timestamp) -> RecordingInfo {
        self.common.info(clock, end, None, self.rate_hz)
    }

    pub(super) fn run(
        mut self,
        clock: ClockReference,
        sink: &mut dyn EventSink,
    ) -> Result<Finished<Target>, RecordError> {
        let mut heap = self.common.heap.take();
        let static_start = heap.as_mut().and_then(HeapRecorder::take_static_start);
        let mut sink = SpanSink::new(
            HeapSink::new(sink, heap),
            self.common.spans.take(),
            self.common.sampling_switch(),
            Timestamp(monotonic_ns()),
        );
        let (common, rate_hz) = (&self.common, self.rate_hz);
        let duration_ns = common.duration_ns();
        let traced = ptrace::record(
            (self.stopped, static_start),
            rate_hz,
            &common.signals,
            &self.child_news,
            duration_ns,
            Resources::new(common.options.resources),
            &mut sink,
        )
        .map_err(|error| match error {
            TraceError::Exec(error) => launch::exec_error(&common.options.command, &error),
            TraceError::Failed(what, error) => RecordError::Failed(format!(
                "cannot {what}: {error}; `{} doctor` shows what this machine allows",
                own()
            )),
        })?;
        let totals = &traced.totals;
        let cpu_time_ns = (totals.cpu_time_ns > 0).then_some(totals.cpu_time_ns);
        let (heap, unread_spans) = sink.finish(traced.end);
        Ok(Finished {
            info: RecordingInfo {
                notes: [vec![traced.note()], unread_spans].concat(),
                heap,
                ..common.info(clock, traced.end, None, rate_hz)
            },
            stop: traced.stop,
            asked_rate_hz: rate_hz,
            achieved_rate_hz: cpu_time_ns.map(|ns| totals.samples as f64 * 1e9 / ns as f64),
            cpu_time_ns,
            cpu_account: CpuAccount::default(),
            problem: (traced.problem).map(|error| format!("recording stopped early: tracing failed: {error}")),
            target: Some(Target::after(
                traced.child,
                traced.stop,
                common.options.keep_running,
                traced.totals.live_processes,
            )),
        })
    }
}
