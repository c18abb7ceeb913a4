//! perf's records to the vocabulary of [`recording::event`]: what a fork, an exec or an exit means.

mod running_processes;
mod without_events;

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;

use rustc_hash::{FxHashMap, FxHashSet};

use recording::address::Avma;
use recording::clock::Timestamp;
use recording::event::{
    Allocation, BpfProgram, Event, LostCause, Mapping, Pid, ProcessEvent, RecordingEvent, Role, Sample,
};
use recording::event::{EventValue, Thread, ThreadEvent};
use recording::sink::EventSink;
use recording::stack::{Frame, FurtherRegisters, MissingStack, Registers, Snapshot, Stack, StackCopy, StackMark};

use crate::decode::{self, Malformed, RawSample, Record, RegisterSet, SampleLayout};
use crate::events::EventFormat;
use crate::marks;
pub use without_events::TaskWithoutEvents;
use without_events::WithoutEvents;

/// From the record of a task's exit to its last instruction: it may have to wait for a CPU in between. Longer than 10
/// ms was seen at a load of 40. Numbers of tasks come again only after many others.
const EXIT_NS: u64 = 5_000_000_000;
const FEW_EXITED: usize = 1024;
/// The name of the process that stands for all outside of the recorder's PID namespace.
const OTHER_NAMESPACES: &str = "(outside of this PID namespace)";

/// Translates one record after the other.
///
/// ```
/// use perf_data::decode::SampleLayout;
/// use perf_data::translate::Translator;
/// use recording::clock::Timestamp;
/// use recording::event::{Event, EventKind, Pid, ProcessEvent, Role};
/// use recording::sink::{Completion, EventSink};
///
/// struct Ends(Vec<Pid>);
///
/// impl EventSink for Ends {
///     fn on_event(&mut self, event: &Event<'_>) {
///         if let EventKind::Process(pid, ProcessEvent::End) = event.kind {
///             self.0.push(pid);
///         }
///     }
///
///     fn end_round(&mut self, _: Timestamp) -> Completion {
///         Completion::default()
///     }
/// }
///
/// let (mut translator, mut sink) = (Translator::new(SampleLayout::default()), Ends(Vec::new()));
/// translator.start_process(Timestamp(10), Pid(7), &mut sink);
/// // struct perf_event_header: PERF_RECORD_EXIT, misc, size.
/// let mut record = [4u32.to_ne_bytes().as_slice(), &0u16.to_ne_bytes(), &64u16.to_ne_bytes()].concat();
/// // u32 pid, ppid, tid, ptid; u64 time; struct sample_id: u32 pid, tid; u64 time, u32 cpu, res; u64 id.
/// for ids in [[7u32, 1], [7, 1]] {
///     record.extend(ids.iter().flat_map(|id| id.to_ne_bytes()));
/// }
/// record.extend(20u64.to_ne_bytes());
/// record.extend([7u32, 7].iter().flat_map(|id| id.to_ne_bytes()));
/// record.extend([20u64, 0, 1].iter().flat_map(|word| word.to_ne_bytes()));
/// translator.record(20, &record, &[], Role::Running, &mut sink);
/// assert_eq!(sink.0, [Pid(7)]);
/// ```
#[derive(Debug, Default)]
pub struct Translator {
    layout: SampleLayout,
    /// Live threads of each live process. Few enough to scan: exec and exit are rare.
    processes: FxHashMap<i32, Vec<i32>>,
    /// Processes that were found, while a record of their start may still come.
    found: FxHashSet<i32>,
    found_until: Timestamp,
    /// While two events reported what happened, first and last.
    twice: Vec<(Timestamp, Timestamp)>,
    /// The kernel's own threads, as far as they were found or forked by such: they have no user stack to miss.
    kernel_threads: FxHashSet<i32>,
    /// Threads that ended a moment ago, and when. Events of a whole CPU sample the last steps of a task's exit after
    /// its record.
    exited: FxHashMap<i32, Exited>,
    forget_exited_at: usize,
    kernel_frames: Vec<Frame>,
    lost: BTreeMap<Role, u64>,
    samples: u64,
    processes_seen: u64,
    task_zero: TaskZero,
    without_events: WithoutEvents,
}

/// How to read the records of an event beside the first one.
#[derive(Clone, Copy, Debug)]
pub struct FurtherEvent<'a> {
    /// What its samples stand for.
    pub role: Role,
    /// Index into [`RecordingInfo::events`](recording::info::RecordingInfo::events).
    pub index: u32,
    /// The layout of its records.
    pub layout: &'a SampleLayout,
    /// How its values are laid out, if it has some.
    pub format: Option<&'a EventFormat>,
}

/// Which event a sample is of, and what that event wrote with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleEvent<'a> {
    /// What the sample stands for.
    pub role: Role,
    /// Index into [`RecordingInfo::events`](recording::info::RecordingInfo::events).
    pub event: u32,
    /// The values of a point event.
    pub values: &'a [EventValue<'a>],
    /// The block of memory, of a sample of the heap.
    pub allocation: Option<&'a Allocation>,
    /// Where the kernel's function at the sample's address, which has only begun, returns to.
    pub return_address: Option<u64>,
    /// The copy of the sample that follows in the same ring.
    pub next_copy: Option<StackCopy<'a>>,
}

/// The end of a thread.
#[derive(Clone, Copy, Debug)]
struct Exited {
    at: Timestamp,
    /// Its process, if the thread was known.
    known_pid: Option<i32>,
}

impl SampleEvent<'_> {
    /// A sample without values, of no event that the user named.
    fn role(role: Role) -> SampleEvent<'static> {
        SampleEvent {
            role,
            event: 0,
            values: &[],
            allocation: None,
            return_address: None,
            next_copy: None,
        }
    }
}

/// What process 0, thread 0 of a sample stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskZero {
    /// Not expected.
    #[default]
    Nobody,
    /// Idle CPUs.
    Idle,
    /// All tasks that have no pid in this PID namespace: perf_event_pid() in kernel/events/core.c.
    OtherNamespaces,
}

impl Translator {
    /// For the records of events with this layout.
    pub fn new(layout: SampleLayout) -> Translator {
        Translator {
            layout,
            forget_exited_at: FEW_EXITED,
            ..Translator::default()
        }
    }

    /// From here on samples of task 0 count, as those of this.
    pub fn admit_task_zero(&mut self, task_zero: TaskZero) {
        self.task_zero = task_zero;
    }

    /// From here on samples of task 0 are those of idle CPUs. It has the name that perf gives it.
    pub fn name_idle_task(&mut self, time: Timestamp, sink: &mut dyn EventSink) {
        self.admit_task_zero(TaskZero::Idle);
        self.name(time, 0, 0, false, b"swapper", sink);
        self.kernel_threads.insert(0);
    }

    /// From here on the exit of a task's events at its exec is not taken for its end.
    pub fn watch_for_lost_events(&mut self) {
        self.without_events.watch();
    }

    /// Processes that have lost their events since the last call. Not for events of whole CPUs, which go on.
    pub fn take_tasks_without_events(&mut self) -> Vec<TaskWithoutEvents> {
        self.without_events.take()
    }

    /// Reports the end of a process that has no events.
    pub fn end_without_record(&mut self, time: Timestamp, pid: Pid, sink: &mut dyn EventSink) {
        self.end_process(time, pid.0, sink);
    }

    /// Announces a process that exists before the first record.
    pub fn start_process(&mut self, time: Timestamp, pid: Pid, sink: &mut dyn EventSink) {
        self.ensure_thread(time, pid.0, pid.0, None, sink);
    }

    /// Processes that have not ended, as far as the records said.
    pub fn live_processes(&self) -> impl Iterator<Item = Pid> + '_ {
        self.processes.keys().map(|pid| Pid(*pid))
    }

    /// Records of this role that the kernel reported lost so far.
    pub fn lost(&self, role: Role) -> u64 {
        self.lost.get(&role).copied().unwrap_or_default()
    }

    /// Samples seen so far.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Processes seen so far.
    pub fn processes_seen(&self) -> u64 {
        self.processes_seen
    }

    /// Translates one record with its time. `after`: the record that follows in the same ring, as far as it is there.
    pub fn record(&mut self, time: u64, record: &[u8], after: &[u8], role: Role, sink: &mut dyn EventSink) {
        let time = Timestamp(time);
        match decode::decode(record, &self.layout) {
            Ok(Record::Sample(sample)) => {
                let of = SampleEvent {
                    next_copy: decode::stack_copy(after, &self.layout),
                    ..SampleEvent::role(role)
                };
                self.sample(time, &sample, &of, sink);
            }
            record => self.decoded(time, record, role, sink),
        }
    }

    /// Translates one record of a further event.
    pub fn further(&mut self, time: u64, record: &[u8], event: &FurtherEvent<'_>, sink: &mut dyn EventSink) {
        let time = Timestamp(time);
        match decode::decode(record, event.layout) {
            Ok(Record::Sample(sample)) => {
                let values = event.format.map_or(Vec::new(), |format| {
                    format.values(sample.raw, sample.stack_copy(event.layout.registers))
                });
                let of = SampleEvent {
                    role: event.role,
                    event: event.index,
                    values: &values,
                    allocation: None,
                    return_address: event.format.and_then(|format| format.return_address(sample.raw)),
                    next_copy: None,
                };
                self.sample(time, &sample, &of, sink);
            }
            record => self.decoded(time, record, event.role, sink),
        }
    }

    /// Translates one record that has been taken apart.
    pub(crate) fn decoded(
        &mut self,
        time: Timestamp,
        record: Result<Record<'_>, Malformed>,
        role: Role,
        sink: &mut dyn EventSink,
    ) {
        match record {
            Ok(Record::Sample(sample)) => self.sample(time, &sample, &SampleEvent::role(role), sink),
            // All tasks outside of this PID namespace have the same number.
            Ok(
                Record::Mmap { pid: 0, .. }
                | Record::Comm { pid: 0, .. }
                | Record::Fork { pid: 0, .. }
                | Record::Exit { pid: 0, .. },
            ) if self.task_zero == TaskZero::OtherNamespaces => {}
            Ok(Record::Mmap {
                pid,
                start,
                len,
                file_offset,
                inode,
                build_id,
                executable: true,
                path,
            }) => {
                self.without_events.mapped(pid);
                self.ensure_thread(time, pid, pid, None, sink);
                let mapping = Mapping {
                    start,
                    len,
                    file_offset,
                    path,
                    build_id,
                    inode,
                };
                sink.on_event(&Event::process(time, Pid(pid), ProcessEvent::Map(&mapping)));
            }
            Ok(Record::Comm { pid, tid, exec, name }) => {
                if exec {
                    self.without_events.executed(pid, name);
                }
                self.name(time, pid, tid, exec, name, sink);
            }
            Ok(Record::Fork { pid, parent_pid, tid }) => {
                // A pid that comes again without an end in between: its exit record was lost.
                if pid != parent_pid && !self.was_found(time, pid) && !self.is_there_twice(time) {
                    self.without_events.forget(pid);
                    self.end_process(time, pid, sink);
                    if self.kernel_threads.contains(&parent_pid) {
                        self.kernel_threads.insert(pid);
                    }
                }
                self.ensure_thread(time, pid, tid, (pid != parent_pid).then_some(parent_pid), sink);
            }
            Ok(Record::Exit { pid, tid }) => {
                if pid != tid || !self.without_events.lost_at_exec(pid) {
                    self.exit(time, pid, tid, sink);
                }
            }
            Ok(Record::Switch {
                pid,
                tid,
                out,
                preempted,
            }) => self.switch(time, pid, tid, out.then_some(preempted), sink),
            // Stacks of waits: each wait without one is counted.
            Ok(Record::Lost { count } | Record::LostSamples { count }) if role == Role::WaitStack => {
                self.note_lost(role, count);
            }
            Ok(Record::Throttle) if role == Role::WaitStack => {}
            Ok(Record::LostSamples { count }) if role == Role::Running => {
                self.report_lost(time, count, role, LostCause::SamplesRingFull, sink);
            }
            Ok(Record::Lost { count } | Record::LostSamples { count }) => {
                self.report_lost(time, count, role, LostCause::RingFull, sink);
            }
            Ok(Record::Bpf {
                start,
                len,
                is_loaded,
                name,
            }) => {
                let name = &*String::from_utf8_lossy(name);
                let len = u64::from(len);
                let program = BpfProgram {
                    start,
                    len,
                    name,
                    is_loaded,
                };
                sink.on_event(&Event::bpf(time, program));
            }
            Ok(Record::Throttle) => sink.on_event(&Event::recording(time, RecordingEvent::Throttled)),
            Ok(Record::Mmap { executable: false, .. } | Record::Other) => {}
            Err(malformed) => sink.on_event(&Event::recording(time, RecordingEvent::Malformed(malformed.0))),
        }
    }

    /// Reports records lost beyond those that records reported.
    pub fn report_lost(&mut self, time: Timestamp, count: u64, role: Role, cause: LostCause, sink: &mut dyn EventSink) {
        if count == 0 {
            return;
        }
        // The kernel's own count of losses is compared to this in the end. What sprof itself drops is not part of that
        // count.
        if matches!(cause, LostCause::RingFull | LostCause::SamplesRingFull) {
            self.note_lost(role, count);
        }
        sink.on_event(&Event::recording(time, RecordingEvent::Lost { count, role, cause }));
    }

    fn note_lost(&mut self, role: Role, count: u64) {
        let lost = self.lost.entry(role).or_default();
        *lost = lost.saturating_add(count);
    }

    fn switch(&mut self, time: Timestamp, pid: i32, tid: i32, out: Option<bool>, sink: &mut dyn EventSink) {
        // A task after its exit: its waits no longer belong to the program.
        if pid <= 0 || tid <= 0 || self.has_exited(time, pid, tid) {
            return;
        }
        self.ensure_thread(time, pid, tid, None, sink);
        let what = match out {
            None => ThreadEvent::SwitchIn,
            Some(preempted) => ThreadEvent::SwitchOut { preempted },
        };
        sink.on_event(&Event::thread(time, Thread::new(pid, tid), what));
    }

    /// Translates one sample.
    pub(crate) fn sample(
        &mut self,
        time: Timestamp,
        raw: &RawSample<'_>,
        of: &SampleEvent<'_>,
        sink: &mut dyn EventSink,
    ) {
        let SampleEvent {
            role,
            event,
            values,
            allocation,
            return_address,
            next_copy,
        } = *of;
        let is_task_zero = self.task_zero != TaskZero::Nobody && (raw.pid, raw.tid) == (0, 0);
        let has_no_pid = raw.pid <= 0 || raw.tid <= 0;
        let is_exiting = !is_task_zero && (has_no_pid || self.has_exited(time, raw.pid, raw.tid));
        // With its last switch a task leaves its CPU for good. Idle CPUs also switch.
        if role == Role::WaitStack && is_exiting {
            return;
        }
        // The kernel reports 0 or -1 in the last microseconds of an exit: whose they were is not known.
        let is_known = || { self.exited.get(&raw.tid) }.is_some_and(|exited| exited.known_pid == Some(raw.pid));
        if is_exiting && !is_known() {
            return self.report_lost(time, 1, role, LostCause::NoPid, sink);
        }
        self.samples += u64::from(role == Role::Running);
        let is_outside = is_task_zero && self.task_zero == TaskZero::OtherNamespaces;
        if is_outside && !self.processes.contains_key(&0) {
            self.name(time, 0, 0, false, OTHER_NAMESPACES.as_bytes(), sink);
        }
        // The end of an exiting task was reported. Most of an exit may come after its record: Linux 6.18 frees the
        // memory then (do_exit in kernel/exit.c). Of rustc, 15 ms were seen.
        if !is_exiting {
            self.ensure_thread(time, raw.pid, raw.tid, None, sink);
        }
        self.kernel_frames.clear();
        if raw.unwound {
            let frames = whole_stack(raw);
            match is_exiting {
                true => {
                    self.kernel_frames.extend(frames.take_while(|frame| frame.is_kernel()));
                    let mark = StackMark::Missing(MissingStack::NoUserSpace);
                    self.kernel_frames.push(Frame::Mark(mark));
                }
                false => self.kernel_frames.extend(frames),
            }
        } else if raw.in_kernel {
            self.kernel_frames.push(Frame::KernelInstructionPointer(Avma(raw.ip)));
            // The chain starts with the interrupted instruction itself.
            let mut callers = raw.kernel_chain().skip_while(|address| *address == raw.ip).peekable();
            let missing = return_address.filter(|address| callers.peek() != Some(address));
            let callers = missing.into_iter().chain(callers);
            self.kernel_frames
                .extend(callers.map(|address| Frame::KernelReturnAddress(Avma(address))));
        }
        let kernel = &self.kernel_frames[..];
        let stack = match raw.registers {
            _ if raw.unwound => Stack::Frames(kernel),
            _ if is_exiting => Stack::Missing {
                kernel,
                reason: MissingStack::NoUserSpace,
            },
            _ if is_outside => Stack::Missing {
                kernel,
                reason: MissingStack::OtherPidNamespace,
            },
            None if self.kernel_threads.contains(&raw.pid) => Stack::Frames(kernel),
            None => Stack::Missing {
                kernel,
                reason: MissingStack::NoUserSpace,
            },
            Some(registers) if registers.is_32_bit => Stack::Missing {
                kernel,
                reason: MissingStack::Abi32,
            },
            Some(registers) => Stack::Snapshot(Snapshot {
                kernel,
                registers: match self.layout.registers {
                    RegisterSet::X86_64 => Registers::X86_64 {
                        bp: registers.get(decode::BP),
                        sp: registers.get(decode::SP),
                        ip: registers.get(decode::IP),
                    },
                    RegisterSet::Aarch64 => Registers::Aarch64 {
                        fp: registers.get(decode::X29),
                        lr: registers.get(decode::X30),
                        sp: registers.get(decode::X31),
                        pc: registers.get(decode::PC),
                    },
                },
                further: FurtherRegisters {
                    bits: self.layout.registers.bits(),
                    mask: registers.mask,
                    words: registers.words,
                },
                stack_bytes: raw.stack,
                next_copy,
            }),
        };
        let sample = Sample {
            cpu: raw.cpu,
            role,
            event,
            period: raw.period,
            stack,
            same: None,
            allocation,
            values,
        };
        sink.on_event(&Event::sample(time, Thread::new(raw.pid, raw.tid), sample));
    }

    fn name(&mut self, time: Timestamp, pid: i32, tid: i32, exec: bool, name: &[u8], sink: &mut dyn EventSink) {
        let name = String::from_utf8_lossy(name);
        self.ensure_thread(time, pid, tid, None, sink);
        if !exec {
            return sink.on_event(&Event::thread(time, Thread::new(pid, tid), ThreadEvent::Name(&name)));
        }
        // The kernel starts programs (modprobe, for one) from threads of its own.
        self.kernel_threads.remove(&pid);
        // exec(2) ends all other threads, and the one that called it becomes the main thread.
        if let Some(threads) = self.processes.get_mut(&pid) {
            for gone in threads.extract_if(.., |tid| *tid != pid) {
                sink.on_event(&Event::thread(time, Thread::new(pid, gone), ThreadEvent::End));
            }
        }
        sink.on_event(&Event::process(time, Pid(pid), ProcessEvent::Exec(&name)));
    }

    fn has_exited(&self, time: Timestamp, pid: i32, tid: i32) -> bool {
        let exited = self.exited.get(&tid);
        exited.is_some_and(|exited| time.nanos_since(exited.at) < EXIT_NS)
            && self.processes.get(&pid).is_none_or(|threads| !threads.contains(&tid))
    }

    fn note_exit(&mut self, time: Timestamp, tid: i32, known_pid: Option<i32>) {
        if self.exited.len() >= self.forget_exited_at {
            self.exited.retain(|_, exited| time.nanos_since(exited.at) < EXIT_NS);
            self.forget_exited_at = (self.exited.len() * 2).max(FEW_EXITED);
        }
        self.exited.insert(tid, Exited { at: time, known_pid });
    }

    fn exit(&mut self, time: Timestamp, pid: i32, tid: i32, sink: &mut dyn EventSink) {
        let threads = self.processes.get(&pid);
        let at = threads.and_then(|threads| threads.iter().position(|thread| *thread == tid));
        self.note_exit(time, tid, at.map(|_| pid));
        let (Some(at), Some(threads)) = (at, self.processes.get_mut(&pid)) else {
            return;
        };
        threads.swap_remove(at);
        sink.on_event(&Event::thread(time, Thread::new(pid, tid), ThreadEvent::End));
        if threads.is_empty() {
            self.processes.remove(&pid);
            self.kernel_threads.remove(&pid);
            sink.on_event(&Event::process(time, Pid(pid), ProcessEvent::End));
        }
    }

    fn end_process(&mut self, time: Timestamp, pid: i32, sink: &mut dyn EventSink) {
        let Some(threads) = self.processes.remove(&pid) else {
            return;
        };
        self.kernel_threads.remove(&pid);
        for tid in threads {
            sink.on_event(&Event::thread(time, Thread::new(pid, tid), ThreadEvent::End));
        }
        sink.on_event(&Event::process(time, Pid(pid), ProcessEvent::End));
    }

    /// Announces a process and a thread that were not known: started now, or their start was lost.
    fn ensure_thread(&mut self, time: Timestamp, pid: i32, tid: i32, parent: Option<i32>, sink: &mut dyn EventSink) {
        let threads = match self.processes.entry(pid) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let parent = parent.map(Pid);
                sink.on_event(&Event::process(time, Pid(pid), ProcessEvent::Start { parent }));
                self.processes_seen += 1;
                new.insert(Vec::new())
            }
        };
        // The thread that is running now is mostly the one that ran last.
        if threads.last() == Some(&tid) {
            return;
        }
        match threads.iter().rposition(|thread| *thread == tid) {
            Some(at) => {
                let last = threads.len() - 1;
                threads.swap(at, last);
            }
            None => {
                threads.push(tid);
                sink.on_event(&Event::thread(time, Thread::new(pid, tid), ThreadEvent::Start));
            }
        }
    }
}

/// The frames of a sample that the kernel has unwound, leaf first. Without a call chain that is the leaf alone, if even
/// that is known.
fn whole_stack<'a>(raw: &'a RawSample<'_>) -> impl Iterator<Item = Frame> + 'a {
    let has_stack = raw.ip != 0 || !raw.call_chain.is_empty();
    let leaf = match raw.in_kernel {
        _ if let Some(mark) = marks::mark(raw.ip) => Frame::Mark(mark),
        true => Frame::KernelInstructionPointer(Avma(raw.ip)),
        false => Frame::InstructionPointer(Avma(raw.ip)),
    };
    // The chain starts with the interrupted instruction itself.
    let starts_with_leaf = raw.whole_chain().next() == Some((raw.ip, raw.in_kernel));
    let callers = raw.whole_chain().skip(usize::from(starts_with_leaf));
    let mut was_in_kernel = raw.in_kernel;
    let leaf = std::iter::once(leaf).filter(move |_| has_stack);
    leaf.chain(callers.map(move |(address, in_kernel)| {
        let left_kernel = std::mem::replace(&mut was_in_kernel, in_kernel) && !in_kernel;
        if let Some(mark) = marks::mark(address) {
            return Frame::Mark(mark);
        }
        match (in_kernel, left_kernel) {
            (true, _) if raw.at_calls => Frame::KernelInstructionPointer(Avma(address)),
            (false, _) if raw.at_calls => Frame::InstructionPointer(Avma(address)),
            (true, _) => Frame::KernelReturnAddress(Avma(address)),
            // Where user code was interrupted: no return address.
            (false, true) => Frame::InstructionPointer(Avma(address)),
            (false, false) => Frame::ReturnAddress(Avma(address)),
        }
    }))
}
