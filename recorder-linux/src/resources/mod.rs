//! What is read from time to time while a recording goes on: memory, CPU time and title of each process; and what it
//! waited for, read and wrote, with the figures of the machine ([`recording::counter`]).

mod kept_file;
mod machine;
mod process;

use std::collections::HashMap;
use std::path::Path;

use recording::clock::Timestamp;
use recording::counter::{Counter, CounterOwner, DeviceName, UnreadCause};
use recording::event::{Event, Pid, ProcessEvent, RecordingEvent};
use recording::outbox::Message;

use crate::processes::procfs;
use crate::sys::process::{monotonic_ns, process_cpu_ns, thread_cpu_ns};
use kept_file::FileReader;
use machine::{MachineFiles, Reading};
use process::ProcessFiles;

/// Least time between two readings of memory and CPU time: 20 points a second make a line. Rounds without records are
/// longer.
const LOOK_NS: u64 = 50_000_000;
/// Least time between two readings of all else.
const LOOK_AT_ALL_NS: u64 = 100_000_000;
/// Cost of the memory and CPU time of a process that ran since the last reading, and of one that did not.
const COST_NS: [u64; 2] = [5000, 400];
/// The pause after such a reading is this many times its cost, so that many processes take a thousandth of a CPU.
const REST: u64 = 1000;
/// The pause after a reading of all is this many times the CPU time that it took: at most a 500th of a CPU. A file of
/// /proc takes 10 to 30 us, and each thread has one.
const REST_AFTER_ALL: u64 = 500;
/// Least time between two readings of a process's title.
const TITLE_NS: u64 = 500_000_000;
/// Figures of at most so many disks, and of as many interfaces, are reported.
const MOST_DEVICES: usize = 64;

/// Reads all counters.
pub(crate) struct Resources {
    next_ns: u64,
    next_all_ns: u64,
    /// CPU time of the last reading of all.
    last_all_cost_ns: u64,
    reader: FileReader,
    processes: HashMap<Pid, WatchedProcess>,
    /// `None` if only memory and CPU time are read.
    machine: Option<MachineFiles>,
    of_machine: LastReadings,
    has_swap: bool,
}

struct WatchedProcess {
    files: ProcessFiles,
    /// Of memory and CPU time, and of all else: the last readings, and the CPU time at that moment.
    last: [(LastReadings, Option<u64>); 2],
    next_title_ns: u64,
}

/// The last readings of a process, or of the machine.
#[derive(Default)]
struct LastReadings(HashMap<(Counter, DeviceName), LastReading>);

/// The last reading of a counter.
#[derive(Clone, Copy, Debug)]
struct LastReading {
    value: u64,
    time: Timestamp,
    is_reported: bool,
    has_changed: bool,
}

impl LastReadings {
    /// Takes a reading. Reports it if it is another one, or the first that is the same again; and before that the last
    /// one, if that was not reported. So a line is level between two changes that are further apart.
    fn take(&mut self, (counter, device, value): Reading, time: Timestamp, report: &mut dyn FnMut(Timestamp, u64)) {
        let info = counter.info();
        let is_of_process = info.owner == CounterOwner::Process;
        let known = self.0.get(&(counter, device));
        let is_reported = match known {
            // The sums of a process begin with 0. One of the machine begins anywhere; its first change begins the line.
            None => !info.is_sum || is_of_process && value > 0,
            // The memory of a process that goes on is a point, also where it is the same.
            Some(last) => value != last.value || last.has_changed || !info.is_sum && is_of_process,
        };
        let has_changed = known.map_or(is_reported, |last| value != last.value);
        if let Some(last) = known.filter(|last| is_reported && !last.is_reported) {
            report(last.time, last.value);
        }
        if is_reported {
            report(time, value);
        }
        // There may be hundreds of disks and interfaces.
        if known.is_some() || self.0.keys().filter(|(other, _)| *other == counter).count() < MOST_DEVICES {
            let last = LastReading {
                value,
                time,
                is_reported,
                has_changed,
            };
            self.0.insert((counter, device), last);
        }
    }

    /// Everything was the same again.
    fn stay(&mut self, time: Timestamp, report: &mut dyn FnMut(Counter, Timestamp, u64)) {
        for ((counter, _), last) in &mut self.0 {
            last.is_reported = std::mem::take(&mut last.has_changed);
            last.time = time;
            if last.is_reported {
                report(*counter, time, last.value);
            }
        }
    }
}

impl Resources {
    /// `all`: not only memory and CPU time of processes.
    pub(crate) fn new(all: bool) -> Resources {
        Resources {
            next_ns: 0,
            next_all_ns: 0,
            last_all_cost_ns: u64::MAX,
            reader: FileReader::default(),
            processes: HashMap::new(),
            machine: all.then(|| MachineFiles::new(Path::new("/"))),
            of_machine: LastReadings::default(),
            has_swap: false,
        }
    }

    /// Reads the given processes and the machine, if the last reading is long enough ago, and reports changes.
    pub(crate) fn look(&mut self, pids: impl Iterator<Item = Pid>, report: &mut dyn FnMut(Message)) {
        let began = monotonic_ns();
        if began >= self.next_ns {
            self.read(began, pids, report);
        }
    }

    /// Reads all at the end of a recording. An ended process has its last figures until its parent waits for it.
    pub(crate) fn finish(&mut self, pids: impl Iterator<Item = Pid>, report: &mut dyn FnMut(Message)) {
        self.next_all_ns = 0;
        self.read(monotonic_ns(), pids, report);
    }

    fn read(&mut self, began: u64, pids: impl Iterator<Item = Pid>, report: &mut dyn FnMut(Message)) {
        let mut before = std::mem::take(&mut self.processes);
        let cpu_before_ns = { self.machine.is_some() && began >= self.next_all_ns }.then(thread_cpu_ns);
        if cpu_before_ns.is_some() {
            self.read_machine(Timestamp(began), report);
        }
        let mut cost_ns = 0;
        for pid in pids {
            let time = Timestamp(monotonic_ns());
            // A process outside of this PID namespace has no number here.
            let Some(cpu_ns) = process_cpu_ns(pid.0) else { continue };
            // A file that can't be read any more belongs to an ended process; another process has its number now.
            let known = before.remove(&pid).filter(|process| process.last[0].1 <= Some(cpu_ns));
            let mut process = known.unwrap_or_else(|| WatchedProcess::new(pid));
            cost_ns += COST_NS[usize::from(process.last[0].1 == Some(cpu_ns))];
            process.read(
                pid,
                (time, cpu_ns),
                cpu_before_ns.map(|_| self.has_swap),
                &mut self.reader,
                report,
            );
            self.processes.insert(pid, process);
        }
        self.next_ns = began + LOOK_NS.max(cost_ns * REST);
        if let Some(cpu_before_ns) = cpu_before_ns {
            let cost_ns = thread_cpu_ns().saturating_sub(cpu_before_ns);
            // If the host of a virtual machine takes the CPU away for 20 ms, that counts as CPU time, and the pause
            // would be 10 s. Two readings in a row are seldom disturbed.
            let usual_ns = cost_ns.min(std::mem::replace(&mut self.last_all_cost_ns, cost_ns));
            self.next_all_ns = began + LOOK_AT_ALL_NS.max(usual_ns.saturating_mul(REST_AFTER_ALL));
        }
    }

    fn read_machine(&mut self, time: Timestamp, report: &mut dyn FnMut(Message)) {
        let Some(machine) = &mut self.machine else { return };
        let mut send = |time, event| report(Message::Event(Event::recording(time, event)));
        let mut readings = Vec::new();
        machine.read(&mut self.reader, &mut readings, &mut |counter, cause| {
            send(time, RecordingEvent::Unread(counter, cause));
        });
        for reading in readings {
            let (counter, device, value) = reading;
            self.has_swap |= counter == Counter::UsedSwap && value > 0;
            self.of_machine.take(reading, time, &mut |time, value| {
                send(time, RecordingEvent::Counter(counter, device, value));
            });
        }
    }
}

impl WatchedProcess {
    fn new(pid: Pid) -> WatchedProcess {
        WatchedProcess {
            files: ProcessFiles::new(pid.0),
            last: Default::default(),
            next_title_ns: 0,
        }
    }

    /// `all`: whether swap is in use, if all is to be read.
    fn read(
        &mut self,
        pid: Pid,
        (time, cpu_ns): (Timestamp, u64),
        all: Option<bool>,
        reader: &mut FileReader,
        report: &mut dyn FnMut(Message),
    ) {
        let [usual, others] = &mut self.last;
        let mut readings = [Vec::new(), Vec::new()];
        // A process that used no CPU time took no memory, and did nothing else.
        let has_run = usual.1 != Some(cpu_ns);
        if has_run {
            self.files.memory(reader, &mut readings[0]);
            readings[0].push((Counter::CpuNanoseconds, cpu_ns));
            usual.1 = Some(cpu_ns);
        }
        if let Some(has_swap) = all.filter(|_| others.1 != Some(cpu_ns)) {
            let mut unread = |counter, cause: UnreadCause| {
                report(Message::Event(Event::recording(
                    time,
                    RecordingEvent::Unread(counter, cause),
                )));
            };
            self.files
                .others(cpu_ns, has_swap, reader, &mut readings[1], &mut unread);
            others.1 = Some(cpu_ns);
        }
        let mut send = |counter, time, value| {
            let what = ProcessEvent::Counter(counter, value);
            report(Message::Event(Event::process(time, pid, what)));
        };
        for ((last, at_ns), readings) in self.last.iter_mut().zip(readings) {
            if readings.is_empty() && *at_ns == Some(cpu_ns) {
                last.stay(time, &mut send);
            }
            for (counter, value) in readings {
                let reading = (counter, DeviceName::default(), value);
                last.take(reading, time, &mut |time, value| send(counter, time, value));
            }
        }
        if has_run && time.0 >= self.next_title_ns {
            self.next_title_ns = time.0 + TITLE_NS;
            // Reported at each reading: an exec from before the first reading may still be on its way, and clears the
            // title.
            if let Some(title) = procfs::title(pid.0) {
                report(Message::Title { time, pid, title });
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use recording::event::EventKind;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    struct ProcessReading {
        pid: Pid,
        counter: Counter,
        value: u64,
    }

    /// Readings of processes.
    fn look(resources: &mut Resources, pids: &[i32]) -> Vec<ProcessReading> {
        let mut readings = Vec::new();
        resources.finish(pids.iter().map(|pid| Pid(*pid)), &mut |message| {
            let Message::Event(event) = message else {
                panic!("a title")
            };
            if let EventKind::Process(pid, ProcessEvent::Counter(counter, value)) = event.kind {
                readings.push(ProcessReading { pid, counter, value });
            }
        });
        readings
    }

    #[test]
    fn a_process_has_memory_and_cpu_time_and_what_is_no_process_has_nothing() {
        let own = std::process::id().cast_signed();
        let readings = look(&mut Resources::new(false), &[0, -1, i32::MAX, own]);
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
        let mut readings = LastReadings::default();
        let mut reported = Vec::new();
        let reading = |value| (Counter::NetBytes, DeviceName::default(), value);
        for (at, value) in [(1, 5), (2, 5), (3, 5), (4, 7), (5, 8), (6, 8), (7, 9)] {
            readings.take(reading(value), Timestamp(at), &mut |time, value| {
                reported.push((time.0, value))
            });
        }
        for at in [8, 9] {
            readings.stay(Timestamp(at), &mut |_, time, value| reported.push((time.0, value)));
        }
        readings.take(reading(10), Timestamp(10), &mut |time, value| {
            reported.push((time.0, value))
        });
        assert_eq!(
            reported,
            [(3, 5), (4, 7), (5, 8), (6, 8), (7, 9), (8, 9), (9, 9), (10, 10)]
        );
    }

    #[test]
    fn what_the_threads_of_a_process_waited_is_there_after_they_end() {
        let own = std::process::id().cast_signed();
        let mut resources = Resources::new(true);
        let waited = |readings: &[ProcessReading]| {
            readings
                .iter()
                .rfind(|reading| reading.counter == Counter::CpuWait)
                .unwrap()
                .value
        };
        let spin = || {
            let began = monotonic_ns();
            while monotonic_ns() - began < 20_000_000 {}
        };
        let before = std::thread::scope(|scope| {
            let threads = [scope.spawn(spin), scope.spawn(spin)];
            spin();
            let readings = look(&mut resources, &[own]);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            waited(&readings)
        });
        spin();
        let after = look(&mut resources, &[own]);
        assert!(before > 0 && after.iter().all(|reading| reading.pid == Pid(own)));
        assert!(waited(&after) >= before, "{before}: {after:?}");
    }
}
