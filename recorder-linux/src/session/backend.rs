//! The backend: the best way of recording that this machine and this user allow. Each step down is announced.
//!
//! | backend | sees | needs |
//! |---|---|---|
//! | perf_event with the kernel | all | perf_event_paranoid 1, CAP_PERFMON or root |
//! | perf_event, user code only | user code | perf_event_paranoid 2 |
//! | ptrace | user code, at a lower rate | nothing but a parent's right to trace its child |

use recording::command::own;

use crate::machine::refusal::PtraceRefusal;
use crate::open::events::Events;
use crate::open::{self, OpenError, Opened, Scope, Wanted};
use crate::ptrace::HIGHEST_RATE_HZ;
use crate::sys::ptrace;
use crate::sys::signals::Signals;
use recording::session::RecordOptions;

/// How a program will be recorded.
#[derive(Debug)]
pub(crate) enum Backend {
    /// perf_event, with or without the kernel.
    PerfEvent(Box<Opened>),
    /// ptrace at this rate.
    Ptrace {
        /// Samples a second of CPU time.
        rate_hz: f64,
        /// Why it is not perf_event, what it costs, and how to get the better one.
        announcements: Vec<String>,
        /// SIGCHLD, taken over while there is only one thread: any other would take the news from the one that traces.
        child_news: Signals,
    },
    /// It is held: its events are opened when recording begins.
    NotYet,
}

/// Chooses the best backend for a program that waits for its exec.
pub(crate) fn choose(pid: i32, options: &RecordOptions, events: &Events, signals: &Signals) -> Result<Backend, String> {
    let refusal = match open::open(Scope::OnExec, pid, &Wanted::of(options, events)) {
        Ok(opened) => return Ok(Backend::PerfEvent(Box::new(opened))),
        Err(OpenError::NoPerfEvents(refusal)) => refusal,
        Err(error) => return Err(error.to_string()),
    };
    if !events.is_empty() {
        let names: Vec<&str> = events.infos.iter().map(|info| info.name.as_str()).collect();
        return Err(format!(
            "cannot record {}: {refusal}, and ptrace, the other way to record, knows no events. {}",
            names.join(", "),
            refusal.remedy().map_or_else(
                || "Without -e there is a profile of CPU time".to_owned(),
                |remedy| format!("What helps: {remedy}; without -e there is a profile of CPU time")
            )
        ));
    }
    ptrace::try_out(signals).map_err(|(call, error)| {
        let other = PtraceRefusal::new(call, error);
        let remedies = [refusal.remedy().map(str::to_owned), Some(other.remedy())].into_iter().flatten();
        format!(
            "{refusal}; ptrace, the other way to record, is refused, too ({other}). What helps: {}; `{} doctor` tells more",
            remedies.collect::<Vec<_>>().join("; or "),
            own()
        )
    })?;
    let rate_hz = options.ptrace_rate_hz.min(HIGHEST_RATE_HZ);
    let mut announcements = vec![format!(
        "{refusal}: sampling with ptrace instead, at {rate_hz:.0} Hz. It stops a thread for about 50 us for each \
         sample, shows no kernel functions, and on a busy machine gives functions that enter the kernel too large a share"
    )];
    announcements.extend(
        refusal
            .remedy()
            .map(|remedy| format!("for perf_event: {remedy}; `{} doctor` tells more", own())),
    );
    if options.off_cpu {
        announcements.push("waits are not recorded: ptrace sees threads on a CPU only".to_owned());
    }
    if options.ptrace_rate_hz > HIGHEST_RATE_HZ {
        announcements.push(format!(
            "with ptrace, {HIGHEST_RATE_HZ:.0} Hz is the highest rate: each sample costs the program more than perf_event's"
        ));
    }
    let child_news =
        Signals::block_child_news().map_err(|error| format!("cannot take over SIGCHLD (signalfd): {error}"))?;
    ptrace::hear_of_children();
    Ok(Backend::Ptrace {
        rate_hz,
        announcements,
        child_news,
    })
}
