//! A track for each CPU instead of each thread: what the machine did.
//!
//! A CPU is shown as a process with one thread. The process that ran is the root of each stack.

use recording::event::Thread;

use super::Builder;
use super::processes::{LiveProcess, LiveThread, Processes};
use crate::recorded::stacks::StackId;

/// `CONFIG_NR_CPUS` goes up to this.
const MOST_CPUS: u32 = 8192;

impl Processes {
    /// The track of a CPU.
    pub(super) fn cpu(&mut self, cpu: u32) -> &mut LiveThread {
        let index = self.cpu_index(cpu);
        &mut self.threads[index]
    }

    /// Index in `threads` of the track of a CPU.
    pub(super) fn cpu_index(&mut self, cpu: u32) -> usize {
        let cpu = cpu.min(MOST_CPUS - 1);
        // Makes all CPUs up to this one, so that they stand in order.
        for new in u32::try_from(self.cpus.len()).unwrap_or(MOST_CPUS)..=cpu {
            let process = self.processes.len();
            let thread = self.threads.len();
            let id = format!("cpu-{new}");
            self.processes.push(LiveProcess {
                id: id.clone(),
                name: Some(format!("CPU {new}")),
                threads: vec![thread],
                ..LiveProcess::default()
            });
            self.threads.push(LiveThread {
                process,
                id,
                is_main: true,
                ..LiveThread::default()
            });
            self.cpus.push(thread);
        }
        self.cpus[cpu as usize]
    }
}

impl Builder {
    /// The root frame of a stack: the process, where tracks are those of CPUs.
    pub(super) fn first_frame(&mut self, at: i64, thread: Thread) -> Option<StackId> {
        if !self.options.per_cpu_threads {
            return None;
        }
        let (process, _) = self.processes.thread_for_sample(thread, at);
        let label = match &process.name {
            Some(name) => format!("{name} ({})", process.id),
            None => format!("process {}", process.id),
        };
        let label = self.strings.intern(&label);
        let frame = self.resolver.label(label, &mut self.strings);
        Some(self.stacks.intern(None, frame))
    }
}
