//! Samples threads with Mach calls, as `recorder-linux/src/ptrace/` does with ptrace.
//!
//! Gets: running processes. Gives: the same events as the Linux recorder, to the same sink. A thread of sprof looks at
//! all threads at each tick. It suspends threads on a CPU for some microseconds, for a copy of registers and stack. Out
//! of scope: starting programs, finding their images, unwinding.
//!
//! In reading order:
//!
//! 1. `sampler`: the ticks, and what happens to processes between them.
//! 2. `tick`: what one tick needs. `process`, `threads`, `code`: who is on a CPU, with which code. `sample`: the
//!    sample.
//! 3. `waits`: threads that are on none. `suspended`, `stack_copy`: what happens while a thread is suspended.
//! 4. `realtime`: the priority of the thread that samples. `totals`: what was recorded, and what was not.
//!
//! It has never run on a Mac. The tests run it on a simulated kernel.

mod code;
mod process;
mod realtime;
mod sample;
mod sampler;
mod stack_copy;
mod suspended;
mod threads;
mod tick;
mod totals;
mod usage;
mod waits;

use std::io;

use recording::outbox;
use recording::session::StopReason;
use recording::sink::EventSink;

use crate::kernel::{Mach, MachError, Signal};
use crate::processes::watched::Watched;
use process::CpuTimeSince;
use sampler::Sampler;

pub use totals::{Totals, UnreachedProcess};

/// Whom to sample, and for how long.
#[derive(Clone, Debug)]
pub struct SamplingPlan {
    /// Processes to sample, with all that they start.
    pub roots: Vec<i32>,
    /// False if they have run before: that time does not count.
    pub is_new: bool,
    /// Processes that were started suspended, and are let run now.
    pub suspended: Vec<i32>,
    /// Whose end ends the recording.
    pub watched: Watched,
    /// From one tick to the next, ns.
    pub interval_ns: u64,
    /// True if waits are recorded.
    pub off_cpu: bool,
    /// When recording ends, on the recording's clock.
    pub deadline_ns: Option<u64>,
}

/// The result of sampling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplingResult {
    /// Why it ended.
    pub stop: StopReason,
    /// When it ended, on the recording's clock.
    pub end_ns: u64,
    /// What was recorded.
    pub totals: Totals,
    /// Processes that macOS gave no access to.
    pub unreached: Vec<UnreachedProcess>,
    /// Processes that were alive at the end.
    pub living: Vec<i32>,
}

/// Why nothing was sampled.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    /// No thread could be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// The process has ended.
    #[error("process {0} has ended")]
    Ended(i32),
    /// The kernel does not report what happens to the process.
    #[error("macOS reports nothing about process {pid} (code {code})")]
    Refused {
        /// The process.
        pid: i32,
        /// errno.
        code: i32,
    },
}

/// Samples processes and all below them, on a thread of its own, and passes the events on.
///
/// # Errors
///
/// All processes have ended, the kernel reports nothing about one, or the thread can't be started.
pub fn sample<M: Mach + Sync>(
    mach: &M,
    plan: SamplingPlan,
    sink: &mut dyn EventSink,
) -> Result<SamplingResult, SampleError> {
    let (outbox, inbox) = outbox::channel();
    std::thread::scope(|scope| {
        let sampling = move || {
            let mut sampler = Sampler::new(mach, plan.interval_ns.max(1), plan.off_cpu, outbox);
            let since = if plan.is_new {
                CpuTimeSince::Start
            } else {
                CpuTimeSince::FirstLook
            };
            let mut watched = plan.watched;
            let mut ended = None;
            for pid in plan.roots {
                match sampler.add(pid, since) {
                    Ok(()) => {}
                    Err(MachError::Gone) => {
                        watched.is_last(pid);
                        ended = Some(pid);
                    }
                    Err(MachError::Code(code)) => return Err(SampleError::Refused { pid, code }),
                }
            }
            if let Some(pid) = ended.filter(|_| sampler.is_empty()) {
                return Err(SampleError::Ended(pid));
            }
            plan.suspended.iter().for_each(|pid| mach.send(*pid, Signal::Continue));
            let stop = sampler.run(&mut watched, plan.deadline_ns);
            let end_ns = mach.now_ns();
            let (totals, unreached, living) = sampler.finish();
            Ok(SamplingResult {
                stop,
                end_ns,
                totals,
                unreached,
                living,
            })
        };
        let sampling = std::thread::Builder::new()
            .name("sprof-mach".to_owned())
            .spawn_scoped(scope, sampling)
            .map_err(SampleError::Thread)?;
        inbox.deliver_all(sink);
        sampling.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
