//! The figures of a process.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;

use recording::counter::{Counter, UnreadCause};
use recording::pace::ThreadReading;

use super::kept_file::{FileReader, KeptFile};
use super::machine::cause;
use crate::processes::procfs;

/// The files of a process.
pub(super) struct ProcessFiles {
    pid: i32,
    statm: KeptFile,
    stat: KeptFile,
    io: Option<KeptFile>,
    status: KeptFile,
    /// `None` if the kernel does not count for how long threads wait.
    waits: Option<ThreadWaits>,
}

/// The time for which the threads of a process waited for a CPU.
#[derive(Default)]
struct ThreadWaits {
    living: HashMap<i32, ThreadWait>,
    /// Last readings of ended threads.
    ended_ns: u64,
}

struct ThreadWait {
    file: KeptFile,
    last: ThreadReading,
}

impl ProcessFiles {
    pub(super) fn new(pid: i32) -> ProcessFiles {
        let file = |name: &str| KeptFile::new(format!("/proc/{pid}/{name}"));
        ProcessFiles {
            pid,
            statm: file("statm"),
            stat: file("stat"),
            io: Some(file("io")),
            status: file("status"),
            waits: Some(ThreadWaits::default()),
        }
    }

    /// The memory in RAM. Kernel threads and ended processes have none.
    pub(super) fn memory(&mut self, reader: &mut FileReader, to: &mut Vec<(Counter, u64)>) {
        let bytes = reader.read(&mut self.statm).ok().and_then(procfs::parse_statm);
        if let Some((resident, anonymous)) = bytes.filter(|(resident, _)| *resident > 0) {
            to.extend([(Counter::ResidentBytes, resident), (Counter::AnonymousBytes, anonymous)]);
        }
    }

    /// All else, of a process that has used this CPU time. `has_swap`: the machine's swap is in use.
    pub(super) fn others(
        &mut self,
        cpu_ns: u64,
        has_swap: bool,
        reader: &mut FileReader,
        to: &mut Vec<(Counter, u64)>,
        unread: &mut dyn FnMut(Counter, UnreadCause),
    ) {
        let stat = reader.read(&mut self.stat).ok();
        let Some(stat) = stat.and_then(|text| procfs::parse_stat(text.as_bytes())) else {
            return;
        };
        to.push((Counter::MajorFaults, stat.major_faults));
        if let Some(file) = &mut self.io {
            let read = reader.read(file).map_err(|error| cause(&error));
            let found = read.and_then(|text| read_and_written(text).ok_or(UnreadCause::OtherForm));
            match found {
                Ok([read, written]) => to.extend([(Counter::ReadBytes, read), (Counter::WrittenBytes, written)]),
                // It may have ended by now.
                Err(_) if stat.has_ended() || procfs::stat(self.pid, self.pid).is_none() => {}
                Err(cause) => {
                    unread(Counter::ReadBytes, cause);
                    unread(Counter::WrittenBytes, cause);
                    self.io = None;
                }
            }
        }
        if has_swap && let Some(bytes) = reader.read(&mut self.status).ok().and_then(swapped_bytes) {
            to.push((Counter::SwapBytes, bytes));
        }
        if let Some(waits) = &mut self.waits {
            match waits.read(self.pid, stat.threads, cpu_ns, reader) {
                Ok(waited_ns) => to.push((Counter::CpuWait, waited_ns)),
                Err(cause) => {
                    unread(Counter::CpuWait, cause);
                    self.waits = None;
                }
            }
        }
    }
}

impl ThreadWaits {
    /// The sum over all threads so far. `count`: the number of threads.
    fn read(&mut self, pid: i32, count: u64, cpu_ns: u64, reader: &mut FileReader) -> Result<u64, UnreadCause> {
        let before = self.living.len();
        self.living.retain(|_, thread| {
            let is_alive = thread.read(reader);
            if !is_alive {
                self.ended_ns = self.ended_ns.saturating_add(thread.last.waited_ns);
            }
            is_alive
        });
        if self.living.len() < before || self.living.len() as u64 != count {
            for tid in procfs::thread_numbers(pid) {
                let Entry::Vacant(vacant) = self.living.entry(tid) else {
                    continue;
                };
                let mut thread = ThreadWait {
                    file: KeptFile::new(format!("/proc/{pid}/task/{tid}/schedstat")),
                    last: ThreadReading::default(),
                };
                if thread.read(reader) {
                    vacant.insert(thread);
                }
            }
        }
        let sum = |of: fn(&ThreadReading) -> u64| {
            let living = self.living.values().map(|thread| of(&thread.last));
            living.fold(0, u64::saturating_add)
        };
        // Without CONFIG_SCHED_INFO the file is missing; where schedstats are switched off, it has zeros.
        let has_zeros = cpu_ns > 0 && !self.living.is_empty() && sum(|last| last.slices) == 0;
        let is_missing = || self.living.is_empty() && fs::exists(format!("/proc/{pid}/task/{pid}")).unwrap_or(false);
        if self.ended_ns == 0 && (has_zeros || is_missing()) {
            return Err(UnreadCause::NotThere);
        }
        Ok(self.ended_ns.saturating_add(sum(|last| last.waited_ns)))
    }
}

impl ThreadWait {
    /// False if the thread has ended.
    fn read(&mut self, reader: &mut FileReader) -> bool {
        let Ok(text) = reader.read(&mut self.file) else {
            return false;
        };
        self.last = procfs::parse_schedstat(text).unwrap_or_default();
        true
    }
}

/// Bytes that came from disks and that are to go there (proc_pid_io(5)).
fn read_and_written(text: &str) -> Option<[u64; 2]> {
    let figure = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    Some([figure("read_bytes:")?, figure("write_bytes:")?])
}

/// `VmSwap` of /proc/PID/status (proc_pid_status(5)).
fn swapped_bytes(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmSwap:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}
