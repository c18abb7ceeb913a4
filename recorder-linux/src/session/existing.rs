//! Processes that run when recording starts, from /proc: names, start times, threads, mappings.

use std::fs;
use std::os::unix::ffi::OsStringExt;

use recording::clock::Timestamp;
use recording::event::{Pid, Tid};
use recording::proc::MapsLine;
use recording::sink::EventSink;

use crate::processes::procfs::{self, Stat};
use crate::processes::start_clock::StartClock;
use crate::sys::process;
use perf_data::translate::Translator;

/// A process as it was found.
#[derive(Debug)]
struct ExistingProcess {
    pid: i32,
    stat: Stat,
    start: Timestamp,
    /// Threads without the main thread.
    threads: Vec<ExistingThread>,
    mappings: Vec<MapsLine>,
}

#[derive(Debug)]
struct ExistingThread {
    tid: i32,
    start: Timestamp,
    name: Vec<u8>,
}

/// Running processes with all their threads, names and mappings.
#[derive(Debug)]
pub(crate) struct Existing {
    processes: Vec<ExistingProcess>,
    /// Time of the first records.
    start: Timestamp,
    read_until: Timestamp,
}

impl Existing {
    /// Reads /proc. Call it after the events are enabled and before the announcement: no record has the name of a
    /// thread that ends right after that.
    pub(crate) fn read(pids: &[i32], start: Timestamp) -> Existing {
        let clock = StartClock::new(start);
        Existing {
            processes: pids.iter().filter_map(|pid| read(*pid, &clock)).collect(),
            start,
            read_until: Timestamp(process::monotonic_ns()),
        }
    }

    /// Reports the processes with the time of the recording's start.
    pub(crate) fn report(&self, translator: &mut Translator, sink: &mut dyn EventSink) {
        let (processes, now) = (&self.processes, self.start);
        // Starts first, in the order of their times: events go to the sink in time order.
        let mut starts: Vec<(Timestamp, usize, Option<i32>)> = Vec::new();
        for (at, process) in processes.iter().enumerate() {
            starts.push((process.start, at, None));
            let threads = process.threads.iter();
            starts.extend(threads.map(|thread| (thread.start, at, Some(thread.tid))));
        }
        starts.sort();
        for (start, at, tid) in starts {
            let pid = Pid(processes[at].pid);
            match tid {
                None => translator.found_process(start, pid, Some(Pid(processes[at].stat.parent)), sink),
                Some(tid) => translator.found_thread(start, pid, Tid(tid), sink),
            }
        }
        for process in processes {
            let pid = Pid(process.pid);
            if process.stat.is_kernel_thread {
                translator.found_kernel_thread(pid);
            }
            translator.found_name(now, pid, Tid(process.pid), &process.stat.name, sink);
            for thread in &process.threads {
                translator.found_name(now, pid, Tid(thread.tid), &thread.name, sink);
            }
            for mapping in &process.mappings {
                translator.found_mapping(now, pid, &mapping.as_mapping(), sink);
            }
        }
        translator.found_all(self.read_until);
    }
}

fn read(pid: i32, clock: &StartClock) -> Option<ExistingProcess> {
    let stat = procfs::stat(pid, pid)?;
    let start = clock.at(stat.start_ticks);
    let threads: Vec<ExistingThread> = procfs::threads(pid)
        .into_iter()
        .filter(|tid| *tid != pid)
        .filter_map(|tid| {
            let stat = procfs::stat(pid, tid)?;
            Some(ExistingThread {
                tid,
                start: clock.at(stat.start_ticks).max(start),
                name: stat.name,
            })
        })
        .collect();
    let living = threads
        .first()
        .filter(|_| stat.has_ended())
        .map_or(pid, |thread| thread.tid);
    let mut mappings = procfs::executable_mappings(pid, living).unwrap_or_default();
    // The program is known as what was mapped first, and in /proc addresses are sorted.
    if let Some(program) = program_path(pid, living) {
        mappings.sort_by_key(|mapping| mapping.path != program);
    }
    mappings.extend(procfs::open_span_files(pid));
    Some(ExistingProcess {
        pid,
        stat,
        start,
        threads,
        mappings,
    })
}

fn program_path(pid: i32, tid: i32) -> Option<Vec<u8>> {
    let path = fs::read_link(format!("/proc/{pid}/task/{tid}/exe")).ok()?;
    Some(path.into_os_string().into_vec())
}
