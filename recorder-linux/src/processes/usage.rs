//! Memory, CPU time and title of each recorded process, read while it runs.

use std::collections::HashMap;

use recording::clock::Timestamp;
use recording::event::{Counter, Event, Pid, ProcessEvent};
use recording::outbox::Message;

use crate::processes::procfs::{self, Statm};
use crate::sys::process::{monotonic_ns, process_cpu_ns};

/// Least time between two readings: 20 points a second make a line. Rounds without records are longer.
const LOOK_NS: u64 = 50_000_000;
/// Cost of reading a process that ran since the last reading, and of one that did not.
const COST_NS: [u64; 2] = [5000, 400];
/// The pause after a reading is this many times its cost, so that many processes take a thousandth of a CPU.
const REST: u64 = 1000;

/// Least time between two readings of a process's title.
const TITLE_NS: u64 = 500_000_000;

/// Number of files in /proc that stay open between readings: opening a file takes four times as long as reading it.
const OPEN_FILES: usize = 64;

/// The last reading of each process.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    next_ns: u64,
    /// Time of the last reading.
    looked: Timestamp,
    last: HashMap<Pid, LastUsage>,
    statm: HashMap<Pid, Statm>,
    /// When the title of each process is read again.
    next_titles_ns: HashMap<Pid, u64>,
}

/// The last reading of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LastUsage {
    cpu_ns: u64,
    /// Resident bytes and the anonymous part of them. `None` for kernel threads and ended processes, which have no
    /// memory.
    memory_bytes: Option<(u64, u64)>,
    /// True if the last reading found no change, and was not reported.
    is_unreported: bool,
}

impl Usage {
    /// Reads the given processes, if the last reading is long enough ago, and reports changes.
    pub(crate) fn look(&mut self, pids: impl Iterator<Item = Pid>, report: &mut dyn FnMut(Message)) {
        let began = monotonic_ns();
        if began < self.next_ns {
            return;
        }
        let before = std::mem::take(&mut self.last);
        let mut open = std::mem::take(&mut self.statm);
        let [ran_ns, rested_ns] = COST_NS;
        let mut cost_ns = 0;
        for pid in pids {
            let time = Timestamp(monotonic_ns());
            // A process outside of this PID namespace has no number here.
            let Some(cpu_ns) = process_cpu_ns(pid.0) else { continue };
            let last = before.get(&pid).copied();
            let statm = open.remove(&pid);
            // A process that used no CPU time took no memory.
            if let Some(last) = last.filter(|last| last.cpu_ns == cpu_ns) {
                cost_ns += rested_ns;
                self.statm.extend(statm.map(|statm| (pid, statm)));
                self.last.insert(
                    pid,
                    LastUsage {
                        is_unreported: true,
                        ..last
                    },
                );
                continue;
            }
            cost_ns += ran_ns;
            let read = |statm: Statm| Some((statm.resident_bytes()?, statm));
            // A file that can't be read any more belongs to an ended process; another process has its number now.
            let read = statm.and_then(read).or_else(|| Statm::open(pid.0).and_then(read));
            let now = LastUsage {
                cpu_ns,
                memory_bytes: read.as_ref().map(|(bytes, _)| *bytes).filter(|bytes| bytes.0 > 0),
                is_unreported: false,
            };
            if self.statm.len() < OPEN_FILES {
                self.statm.extend(read.map(|(_, statm)| (pid, statm)));
            }
            // The line is level up to the last reading, and rises from there.
            if let Some(last) = last.filter(|last| last.is_unreported) {
                last.report(self.looked, pid, report);
            }
            now.report(time, pid, report);
            self.last.insert(pid, now);
            let next_ns = self.next_titles_ns.entry(pid).or_default();
            if began >= *next_ns {
                *next_ns = began + TITLE_NS;
                // Reported at each reading: an exec from before the first reading may still be on its way, and clears
                // the title.
                if let Some(title) = procfs::title(pid.0) {
                    report(Message::Title { time, pid, title });
                }
            }
        }
        let last = &self.last;
        self.next_titles_ns.retain(|pid, _| last.contains_key(pid));
        self.looked = Timestamp(began);
        self.next_ns = began + LOOK_NS.max(cost_ns * REST);
    }
}

impl LastUsage {
    fn report(self, time: Timestamp, pid: Pid, report: &mut dyn FnMut(Message)) {
        let memory = self
            .memory_bytes
            .map(|(resident, anonymous)| [(Counter::ResidentBytes, resident), (Counter::AnonymousBytes, anonymous)]);
        let cpu = [(Counter::CpuNanoseconds, self.cpu_ns)];
        for (counter, value) in memory.into_iter().flatten().chain(cpu) {
            let event = Event::process(time, pid, ProcessEvent::Counter(counter, value));
            report(Message::Event(event));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use recording::event::EventKind;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    struct Reading {
        time: Timestamp,
        pid: Pid,
        counter: Counter,
        value: u64,
    }

    fn look(usage: &mut Usage, pids: &[i32]) -> Vec<Reading> {
        let mut readings = Vec::new();
        usage.next_ns = 0;
        usage.look(pids.iter().map(|pid| Pid(*pid)), &mut |message| {
            let Message::Event(event) = message else {
                panic!("a title")
            };
            let EventKind::Process(pid, ProcessEvent::Counter(counter, value)) = event.kind else {
                panic!("{event:?}")
            };
            let time = event.time;
            readings.push(Reading {
                time,
                pid,
                counter,
                value,
            });
        });
        readings
    }

    #[test]
    fn a_process_has_memory_and_cpu_time_and_what_is_no_process_has_nothing() {
        let own = std::process::id().cast_signed();
        let readings = look(&mut Usage::default(), &[0, -1, i32::MAX, own]);
        let [memory, anonymous, cpu] = readings[..] else {
            panic!("{readings:?}")
        };
        assert_eq!((memory.pid, memory.counter), (Pid(own), Counter::ResidentBytes));
        assert_eq!((cpu.pid, cpu.counter), (Pid(own), Counter::CpuNanoseconds));
        assert_eq!(anonymous.counter, Counter::AnonymousBytes);
        assert!(
            memory.value > anonymous.value && anonymous.value > 10_000 && cpu.value > 0,
            "{readings:?}"
        );
    }

    #[test]
    fn what_has_not_changed_is_reported_when_it_changes_again() {
        let mut usage = Usage::default();
        let own = std::process::id().cast_signed();
        let first = look(&mut usage, &[own]);
        // As if the process had not run since.
        let last = usage.last.get_mut(&Pid(own)).unwrap();
        last.is_unreported = true;
        let looked = usage.looked;
        let next = look(&mut usage, &[own]);
        let [old_memory, _, old_cpu, memory, _, cpu] = next[..] else {
            panic!("{next:?}")
        };
        assert_eq!([old_memory.value, old_cpu.value], [first[0].value, first[2].value]);
        assert_eq!([old_memory.time, old_cpu.time], [looked; 2]);
        assert!(memory.time > looked && cpu.value > old_cpu.value);
    }
}
