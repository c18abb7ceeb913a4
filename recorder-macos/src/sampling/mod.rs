//! Samples threads with Mach calls, as `recorder-linux/src/ptrace/` does with ptrace.
//!
//! Gets: running processes. Gives: the same events as the Linux recorder, to the same sink. A thread of sprof looks at all threads at each
//! tick, and suspends those on a CPU for some microseconds, for a copy of registers and stack. Out of scope: starting programs,
//! finding their images, unwinding.
//!
//! In reading order:
//!
//! 1. [`kernel`]: what is asked of XNU.
//! 2. `sampler`: the ticks, and what happens to processes between them.
//! 3. `process`, `threads`: who is on a CPU, and the sample.
//! 4. `suspended`, `stack_copy`: what happens while a thread is suspended.
//! 5. `urgency`: the priority of the thread that samples. `totals`: what was recorded, and what was not.
//!
//! It has never run on a Mac. The tests run it on a simulated kernel.

pub mod kernel;
mod process;
mod sampler;
mod stack_copy;
mod suspended;
mod threads;
mod totals;
mod urgency;

use std::io;

use recording::outbox;
use recording::sink::EventSink;

use kernel::{Failure, Mach};
use process::Since;
use sampler::Sampler;

pub use totals::Totals;

/// Whom to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// A process; all that it starts is sampled, too.
    pub pid: i32,
    /// False if it has run before: that time does not count.
    pub is_new: bool,
}

/// The result of sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// False if the time was over before the processes had ended.
    pub all_ended: bool,
    /// What was recorded.
    pub totals: Totals,
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
    /// The kernel gave no right to the process.
    #[error("macOS refused access to process {pid} (code {code})")]
    Refused {
        /// The process.
        pid: i32,
        /// `kern_return_t` or errno.
        code: i32,
    },
}

/// Samples a process and all below it, on a thread of its own, and passes the events on. `deadline_ns` is on the clock of `mach`.
pub fn sample<M: Mach + Send>(
    mach: M,
    root: Root,
    interval_ns: u64,
    deadline_ns: Option<u64>,
    sink: &mut dyn EventSink,
) -> Result<Sampled, SampleError> {
    let (outbox, inbox) = outbox::channel();
    std::thread::scope(|scope| {
        let sampling = move || {
            let mut sampler = Sampler::new(mach, interval_ns.max(1), outbox);
            let since = if root.is_new { Since::Start } else { Since::FirstLook };
            sampler.add(root.pid, since).map_err(|failure| match failure {
                Failure::Gone => SampleError::Ended(root.pid),
                Failure::Code(code) => SampleError::Refused { pid: root.pid, code },
            })?;
            let all_ended = sampler.run(deadline_ns);
            Ok(Sampled {
                all_ended,
                totals: sampler.finish(),
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
