//! Builds a profile from events: one hash look-up for the thread, then only for those frames in which this stack
//! differs from the thread's previous one. Samples wait in a queue first.

mod events;
mod finish;
mod frames;
mod heap;
mod heap_growth;
mod jit;
mod mapped_code;
mod offcpu;
mod per_cpu;
mod processes;
mod queue;
mod running;
mod sampling;
mod spans;

pub use events::{POINTS_IN_ALL, POINTS_PER_THREAD};
pub use jit::{CodePlace, CodeSince, PidLifetime};
pub use spans::SPANS_IN_ALL;

use std::fs::File;
use std::io;

use recording::address::Avma;
use recording::clock::{ClockReference, Timestamp};
use recording::event::{Event, EventKind, LostCause, Pid, ProcessEvent, RecordingEvent, Role, Sample};
use recording::event::{Thread, ThreadEvent};
use recording::info::PeriodUnit;
use recording::module::Image;
use recording::sink::{Completion, EventSink};
use recording::stack::{Frame, NO_STACK, Registers, SameFrames, Stack, StackMark};
use recording::wait::WaitReason;

use crate::event_block::{BlockEvent, BlockSample, EventBlock};
use crate::recorded::BuildCounts;
use crate::recorded::samples;
use crate::recorded::spill::SpillFile;
use crate::recorded::stacks::{StackId, StackTree};
use crate::recorded::strings::StringTable;
use crate::recorded::tables::FrameId;
use crate::recorded::thread::{MarkerKind, RecordedMarker};
use crate::recorded::usage::MachineUsage;
use crate::recorded::waits::WaitTotals;
use frames::FrameResolver;
use offcpu::{EndedWait, WaitReasons, WaitTables};
use processes::{LiveThread, Processes};
use queue::EventQueue;
use running::RunningCount;
use sampling::SampledParts;
use spans::Spans;

/// A thread keeps at most this many markers; the rest is counted. Loss and throttling may be reported at any rate, and
/// the front end's marker table becomes slow at some 100,000.
pub const MARKERS_PER_THREAD: usize = 20_000;

/// Losses of one cause that are further apart than this are two markers.
const LOSSES_APART_NS: i64 = 1_000_000;

/// Choices of the user about what goes into the profile.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuildOptions {
    /// Leave out the samples of all threads but each process's main one. Default: keep all.
    pub main_thread_only: bool,
    /// Give each CPU a track instead of each thread; the process is the root of each stack. Not for waits, which are on
    /// no CPU. Default: a track for each thread.
    pub per_cpu_threads: bool,
    /// Leave out the waits of threads that existed when recording began and got no CPU while they were recorded; they
    /// are counted. For the whole machine, most of whose threads do nothing. Default: such a wait lasts as long as the
    /// recording.
    pub awake_threads_only: bool,
    /// Switches say how many threads ran, and make no waits: they came without stacks. Default: they are the ends of
    /// waits.
    pub switches_without_waits: bool,
}

/// Approximate limit of the frames that processes and threads remember. The 20,000 processes of a compressed file, with
/// a stack of 500 frames each, took 700 MB.
const MAX_REMEMBERED: usize = 1 << 19;

/// Takes events in time order; gives a [`Profile`](crate::Profile).
///
/// Wants stacks as frames: a `Stack::Snapshot` counts as one that could not be unwound.
#[derive(Default)]
pub struct Builder {
    options: BuildOptions,
    zero: Timestamp,
    /// All events are there, of a part of a recording: the first one does not change time zero, and none waits.
    is_part: bool,
    strings: StringTable,
    stacks: StackTree,
    resolver: FrameResolver,
    processes: Processes,
    machine: MachineUsage,
    counts: BuildCounts,
    queue: EventQueue,
    wait_reasons: WaitReasons,
    /// `None` before the first switch.
    waits: Option<WaitTotals>,
    running: RunningCount,
    sampled: SampledParts,
    spans: Spans,
    /// Markers of the whole recording. At the end they are put on the first thread.
    recording_markers: Vec<RecordedMarker>,
    /// Markers of points, in all threads.
    points_kept: u64,
    scratch: Vec<Frame>,
    resolved: Vec<(Frame, FrameId)>,
    /// Approximate number of frames that were looked up since processes and threads forgot theirs.
    remembered: usize,
    /// True once a stack shared frames with the last stack of its thread: then last stacks must be remembered.
    has_same_frames: bool,
    spill: Option<SpillFile>,
}

impl Builder {
    /// A builder of a profile whose time zero is `clock`, or the start of the program if that is the first event.
    pub fn new(clock: ClockReference, options: BuildOptions) -> Self {
        Builder {
            options,
            zero: clock.timestamp,
            ..Builder::default()
        }
    }

    /// Builds a part of a recording, whose events come all at once. Time zero is this, whatever the first event is.
    pub fn begin_at(&mut self, zero: Timestamp) {
        (self.zero, self.is_part) = (zero, true);
    }

    /// The instant of the profile's time zero, once an event came.
    pub fn zero(&self) -> Timestamp {
        self.zero
    }

    /// A copy of all events so far, from which a profile can be made while this builder takes further events. `None`
    /// if samples go to a file ([`Builder::spill_to`]).
    pub fn snapshot(&self) -> Option<Builder> {
        self.spill.is_none().then(|| Builder {
            options: self.options,
            zero: self.zero,
            is_part: self.is_part,
            strings: self.strings.clone(),
            stacks: self.stacks.clone(),
            resolver: self.resolver.clone(),
            processes: self.processes.clone(),
            machine: self.machine.clone(),
            counts: self.counts,
            queue: self.queue.clone(),
            wait_reasons: self.wait_reasons.clone(),
            waits: self.waits.clone(),
            running: self.running.clone(),
            sampled: self.sampled.clone(),
            spans: self.spans.clone(),
            recording_markers: self.recording_markers.clone(),
            points_kept: self.points_kept,
            scratch: Vec::new(),
            resolved: Vec::new(),
            remembered: self.remembered,
            has_same_frames: self.has_same_frames,
            spill: None,
        })
    }

    /// The instant of a time in the profile.
    fn instant(&self, at: i64) -> Timestamp {
        let time = i128::from(self.zero.0) + i128::from(at);
        Timestamp(u64::try_from(time.max(0)).unwrap_or(u64::MAX))
    }

    /// Sets the address range of the kernel's code. Without this, kernel frames have no module and can't get names.
    pub fn set_kernel(&mut self, image: Image) {
        self.build_waiting();
        self.queue.forget_stacks();
        self.resolver.add_kernel(image);
        self.processes.forget_resolved();
    }

    /// Sets the kernel functions that wait (first address, end), and their reasons. Without this, waits are only
    /// divided into waits for a CPU and others.
    pub fn set_wait_reasons(&mut self, functions: Vec<(Avma, Avma, WaitReason)>) {
        self.wait_reasons = WaitReasons::new(functions);
    }

    /// Moves samples into this file as they become many, so that memory does not grow with the length of the recording.
    /// The file is empty, open for reading and writing, and nobody else's. [`Builder::read_back`] has to come before
    /// the end.
    pub fn spill_to(&mut self, file: File) {
        self.spill = Some(SpillFile::new(file));
    }

    /// Reads all samples into memory again.
    ///
    /// # Errors
    ///
    /// The file of [`Builder::spill_to`] can't be read.
    pub fn read_back(&mut self) -> io::Result<()> {
        self.build_waiting();
        if let Some(file) = self.spill.take() {
            let file = file.finish();
            for thread in &mut self.processes.threads {
                thread.samples.read_back(&file)?;
            }
            for process in &mut self.processes.processes {
                process.heap.rows.bytes.read_back(&file)?;
            }
        }
        Ok(())
    }

    /// Marks the time at which the user wanted a profile, with the trigger's words.
    pub fn mark_trigger(&mut self, time: Timestamp, words: &str) {
        let words = self.strings.intern(words);
        self.mark_recording(self.at(time), MarkerKind::Trigger { words });
    }

    /// Time in ns from time zero; negative for what existed before it.
    fn at(&self, time: Timestamp) -> i64 {
        let (time, zero) = (i128::from(time.0), i128::from(self.zero.0));
        (time - zero).clamp(i128::from(i64::MIN / 2), i128::from(i64::MAX / 2)) as i64
    }

    /// Calls `add` with the frames of a sample or of the stack of a wait.
    fn with_frames(&mut self, sample: &Sample<'_>, add: impl FnOnce(&mut Self, &[Frame])) {
        let mut frames = std::mem::take(&mut self.scratch);
        frames.clear();
        match sample.stack {
            Stack::Frames(frames) => add(self, frames),
            Stack::Missing { kernel, reason } => {
                frames.extend_from_slice(kernel);
                frames.push(Frame::Mark(StackMark::Missing(reason)));
                add(self, &frames);
            }
            Stack::Snapshot(snapshot) => {
                let (Registers::X86_64 { ip, .. } | Registers::Aarch64 { pc: ip, .. }) = snapshot.registers;
                frames.extend_from_slice(snapshot.kernel);
                frames.push(Frame::InstructionPointer(Avma(ip)));
                frames.push(Frame::Mark(StackMark::TruncatedNoRule));
                add(self, &frames);
            }
        }
        self.scratch = frames;
    }

    /// The stack of these frames, with what is remembered of its thread.
    fn stack(&mut self, at: i64, thread: Thread, frames: &[Frame], same: Option<SameFrames<'_>>) -> Option<StackId> {
        let (process, live) = self.processes.thread_for_sample(thread, at);
        live.forget_old_chain(process);
        let kept = SameFrames::with(same, live.chain_number)
            .min(live.chain.len())
            .min(frames.len());
        let leafward = &frames[..frames.len() - kept];
        self.stack_on(at, thread, leafward, kept, SameFrames::number(same))
    }

    /// The stack of these frames, leaf first, on the `kept` rootmost frames of the thread's last stack.
    fn stack_on(&mut self, at: i64, thread: Thread, leafward: &[Frame], kept: usize, number: u64) -> Option<StackId> {
        let first = self.first_frame(at, thread);
        let (process, thread) = self.processes.thread_for_sample(thread, at);
        thread.forget_old_chain(process);

        // The thread's previous stack, root first: [(frame, the stack that ends with it)].
        let chain = &mut thread.chain;
        let same = (leafward.iter().rev())
            .zip(chain.iter().skip(kept))
            .take_while(|(frame, (known, _))| *frame == known)
            .count();
        debug_assert!(kept <= chain.len(), "the frames that are kept are gone");
        chain.truncate(kept + same);
        thread.chain_number = number;
        let mut parent = chain.last().map_or(first, |(_, stack)| Some(*stack));
        // First all look-ups of frames, then those of stacks: neither waits for the other.
        self.resolved.clear();
        for &frame in leafward[..leafward.len() - same].iter().rev() {
            self.resolved.push((
                frame,
                self.resolver.resolve(frame, &mut process.code, &mut self.strings),
            ));
        }
        let mut frames = self.resolved.iter().map(|(frame, _)| *frame);
        let frame_ids = self.resolved.iter().map(|(_, frame_id)| *frame_id);
        self.stacks.intern_all(parent, frame_ids, |stack| {
            chain.extend(frames.next().map(|frame| (frame, stack)));
            parent = Some(stack);
        });
        self.remembered += self.resolved.len();
        if self.remembered > MAX_REMEMBERED {
            self.remembered = 0;
            self.processes.forget_frames(!self.has_same_frames);
        }
        parent
    }

    /// Builds the events that wait in the queue.
    fn build_waiting(&mut self) {
        while let Some(block) = self.queue.take() {
            self.build_block(&block);
        }
    }

    fn build_block(&mut self, block: &EventBlock) {
        block.read(|time, event| {
            let at = time.cast_signed();
            match event {
                BlockEvent::Sample(BlockSample {
                    thread,
                    sample,
                    kept,
                    leafward,
                }) => {
                    let stack = self.stack_on(at, thread, leafward, kept, NO_STACK);
                    if sample.role == Role::Running {
                        self.add_sample(at, thread, sample.cpu, sample.period, stack);
                    } else if let Some(allocation) = sample.allocation {
                        self.add_block(at, thread, allocation, stack);
                    }
                }
                BlockEvent::Other(kind) => self.on_kind(at, kind),
            }
        });
    }

    fn on_kind(&mut self, at: i64, kind: EventKind<'_>) {
        match kind {
            EventKind::Recording(what) => self.on_recording(at, what),
            EventKind::Bpf(program) => {
                self.resolver.on_bpf(&program, &mut self.strings);
                self.processes.forget_resolved();
            }
            EventKind::Process(pid, what) => self.on_process(at, pid, what),
            EventKind::Thread(thread, what) => self.on_thread(at, thread, what),
        }
    }

    fn add_sample(&mut self, at: i64, thread: Thread, cpu: u32, period: u64, stack: Option<StackId>) {
        let mut cpu_before_ns = None;
        if self.waits.is_some() {
            self.with_waits(thread, at, |live, tables| {
                cpu_before_ns = live.waits.on_cpu(at, &mut live.samples, tables);
                live.waits.on_cpu_stack(stack);
            });
        }
        let live = match self.options.per_cpu_threads {
            true => self.processes.cpu(cpu),
            false => self.processes.thread_for_sample(thread, at).1,
        };
        let in_order = live.samples.push(samples::RecordedSample {
            time: at,
            stack,
            period,
            off_cpu: false,
            cpu_before_ns,
        });
        if let Some(file) = &mut self.spill {
            live.samples.spill(file);
        }
        if self.waits.is_none() {
            live.waits.seen_on_cpu(at);
        }
        self.counts.samples += 1;
        self.counts.samples_out_of_order += u64::from(!in_order);
    }

    fn add_wait_stack(&mut self, at: i64, thread: Thread, frames: &[Frame], same: Option<SameFrames<'_>>) {
        let (known, frames) = match frames.split_first() {
            Some((Frame::Mark(StackMark::Waiting(reason)), frames)) => (Some(*reason), frames),
            _ => (None, frames),
        };
        let reason = known.unwrap_or_else(|| self.wait_reasons.of_stack(frames));
        if let Some(stack) = self.stack(at, thread, frames, same) {
            let (_, live) = self.processes.thread_for_sample(thread, at);
            live.waits.wait_stack(stack, reason);
            if known.is_some() {
                live.waits.mark_looked_at();
            }
        }
    }

    /// Adds a wait that came with its start and end.
    fn add_wait(&mut self, at: i64, thread: Thread, sample: &Sample<'_>, frames: &[Frame]) {
        let ns = sample.period;
        let reason = self.wait_reasons.of_stack(frames);
        let stack = self.stack(at, thread, frames, sample.same);
        self.with_waits(thread, at, |live, tables| {
            let earliest = live.samples.last_time().unwrap_or(live.start.max(0));
            let wait = EndedWait {
                stack,
                reason,
                earliest,
                until: at,
                ns,
            };
            live.waits.waited(wait, &mut live.samples, tables);
        });
    }

    fn with_waits(&mut self, thread: Thread, at: i64, use_it: impl FnOnce(&mut LiveThread, &mut WaitTables<'_>)) {
        let (_, live) = self.processes.thread_for_sample(thread, at);
        let mut tables = WaitTables {
            resolver: &mut self.resolver,
            stacks: &mut self.stacks,
            strings: &mut self.strings,
            sampled: &self.sampled,
            totals: self.waits.get_or_insert_default(),
            out_of_order: &mut self.counts.samples_out_of_order,
        };
        use_it(live, &mut tables);
        if let Some(file) = &mut self.spill {
            live.samples.spill(file);
        }
    }

    /// Ends open waits at the end of their thread, or of the recording.
    fn end_waits(&mut self, end: i64, unit: PeriodUnit) {
        let Some(totals) = &mut self.waits else { return };
        let mut tables = WaitTables {
            resolver: &mut self.resolver,
            stacks: &mut self.stacks,
            strings: &mut self.strings,
            sampled: &self.sampled,
            totals,
            out_of_order: &mut self.counts.samples_out_of_order,
        };
        for thread in &mut self.processes.threads {
            if self.options.awake_threads_only && thread.waits.forget_found() {
                tables.totals.never_ran += 1;
                continue;
            }
            let until = thread.end.unwrap_or(end);
            let waiting = thread.waits.end(until, &mut thread.samples, &mut tables);
            if unit == PeriodUnit::CpuNanoseconds && thread.samples.len() > 0 {
                let accounted_ns = thread.samples.period_sum().saturating_add(thread.samples.off_cpu_ns());
                let totals = &mut *tables.totals;
                totals.accounted_ns = totals.accounted_ns.saturating_add(accounted_ns);
                let since = thread.waits.recorded_since(thread.start);
                totals.recorded_ns += self.sampled.ns_within(since, until);
            }
            tables.totals.still_waiting += u64::from(waiting && thread.end.is_none());
        }
    }

    fn mark_recording(&mut self, start: i64, what: MarkerKind) {
        if self.recording_markers.len() >= MARKERS_PER_THREAD {
            self.counts.markers_left_out += 1;
            return;
        }
        self.recording_markers.push(RecordedMarker { start, end: None, what });
    }

    /// Losses without a pause between them are one marker. A full ring gives a record each time that it has room again:
    /// 21,907 were seen in half a second.
    fn mark_lost(&mut self, at: i64, more: u64, why: &'static str) {
        match self.recording_markers.last_mut() {
            Some(RecordedMarker {
                start,
                end,
                what: MarkerKind::Lost { count, cause },
            }) if *cause == why && at - end.unwrap_or(*start) < LOSSES_APART_NS => {
                *count = count.saturating_add(more);
                *end = Some(at.max(end.unwrap_or(*start)));
            }
            _ => {
                let (count, cause) = (more, why);
                self.mark_recording(at, MarkerKind::Lost { count, cause });
            }
        }
    }

    fn on_recording(&mut self, at: i64, what: RecordingEvent) {
        match what {
            RecordingEvent::Lost { count, role, cause } => self.mark_lost(at, count, lost_label(role, cause)),
            // The builder gets the sum at the end, in the quality.
            RecordingEvent::Unwound { .. } => {}
            RecordingEvent::Sampling(on) => self.sampled.switch(at, on),
            RecordingEvent::Throttled => self.mark_recording(at, MarkerKind::Throttled),
            RecordingEvent::Malformed(what) => self.mark_recording(at, MarkerKind::Malformed { what }),
            RecordingEvent::Counter(counter, device, value) => {
                self.machine
                    .series
                    .entry((counter, device))
                    .or_default()
                    .push(at, value);
            }
            RecordingEvent::Unread(counter, cause) => *self.machine.unread.entry((counter, cause)).or_default() += 1,
        }
    }

    fn on_process(&mut self, at: i64, pid: Pid, what: ProcessEvent<'_>) {
        match what {
            ProcessEvent::Start { parent } => self.processes.start(pid, parent, at),
            ProcessEvent::End => self.processes.end(pid, at),
            ProcessEvent::Exec(name) => {
                if self.waits.is_some() {
                    self.with_waits(Thread::main(pid), at, |live, tables| {
                        live.waits.flush(&mut live.samples, tables)
                    });
                }
                if let Some(from) = self.processes.exec(pid, at, name) {
                    self.rename_marker(Thread::main(pid), at, &from, name, |from, to| MarkerKind::Exec {
                        from,
                        to,
                    });
                }
            }
            // Its module follows as an `Image`, if it has one.
            ProcessEvent::Map(mapping) => self.processes.map_nameless(pid, at, mapping.start, mapping.len),
            ProcessEvent::Image(image) => {
                if let Some(program) = self.processes.map(pid, at, image) {
                    self.resolver.is_program(program);
                }
            }
            ProcessEvent::Title(title) => self.processes.set_title(pid, title),
            ProcessEvent::Plot(name, value) => self.add_plot(at, pid, name, value),
            ProcessEvent::Counter(counter, value) => self.processes.add_reading(pid, at, counter, value),
        }
    }

    fn on_thread(&mut self, at: i64, thread: Thread, what: ThreadEvent<'_>) {
        let left_out = self.options.main_thread_only && !thread.is_main();
        if let ThreadEvent::Sample(sample) = &what {
            self.has_same_frames |= sample.same.is_some();
        }
        match what {
            ThreadEvent::Start => self.processes.start_thread(thread, at),
            ThreadEvent::End => self.processes.end_thread(thread, at),
            ThreadEvent::Name(name) => {
                if let Some(from) = self.processes.rename(thread, at, name) {
                    self.rename_marker(thread, at, &from, name, |from, to| MarkerKind::Renamed { from, to });
                }
            }
            ThreadEvent::Sample(sample) if left_out => {
                self.counts.samples_left_out += u64::from(matches!(sample.role, Role::Running | Role::Counted));
            }
            ThreadEvent::InitialState(_) | ThreadEvent::SwitchOut { .. } | ThreadEvent::SwitchIn if left_out => {}
            ThreadEvent::Sample(sample) => self.with_frames(&sample, |builder, frames| match sample.role {
                Role::Running | Role::Allocation if builder.waits.is_none() && !builder.is_part => {
                    builder.queue.push_sample(at, thread, &sample, frames)
                }
                Role::Running => {
                    let stack = builder.stack(at, thread, frames, sample.same);
                    builder.add_sample(at, thread, sample.cpu, sample.period, stack);
                }
                Role::WaitStack => builder.add_wait_stack(at, thread, frames, sample.same),
                Role::Wait => builder.add_wait(at, thread, &sample, frames),
                Role::Counted => builder.add_counted(at, thread, &sample, frames),
                Role::Point => builder.add_point(at, thread, &sample, frames),
                Role::Allocation => {
                    let stack = builder.stack(at, thread, frames, sample.same);
                    if let Some(allocation) = sample.allocation {
                        builder.add_block(at, thread, allocation, stack);
                    }
                }
                // No samples.
                Role::Switch | Role::Span => {}
            }),
            ThreadEvent::Span(span) => self.add_span(at, thread, &span),
            ThreadEvent::Freed { address } => self.free_block(at, thread, address),
            ThreadEvent::InitialState(state) => {
                let times = [state.switches_from, state.seen_at].map(|time| self.at(time));
                self.with_waits(thread, times[0], |live, _| live.waits.found(times, state.waits_for));
            }
            ThreadEvent::SwitchOut { preempted } => self.with_waits(thread, at, |live, tables| {
                live.waits.switch_out(at, preempted, tables);
            }),
            ThreadEvent::SwitchIn => self.with_waits(thread, at, |live, tables| {
                live.waits.switch_in(at, &mut live.samples, tables);
            }),
        }
    }

    fn rename_marker(
        &mut self,
        thread: Thread,
        start: i64,
        from: &str,
        to: &str,
        kind: impl FnOnce(crate::recorded::strings::StringId, crate::recorded::strings::StringId) -> MarkerKind,
    ) {
        let what = kind(self.strings.intern(from), self.strings.intern(to));
        let (_, thread) = self.processes.thread_for_sample(thread, start);
        if thread.markers.len() < MARKERS_PER_THREAD {
            thread.markers.push(RecordedMarker { start, end: None, what });
        } else {
            self.counts.markers_left_out += 1;
        }
    }
}

impl EventSink for Builder {
    fn on_event(&mut self, event: &Event<'_>) {
        // Time begins with the launched program, not with the steps to launch it. Processes that ran before recording
        // have earlier starts.
        if let EventKind::Process(_, ProcessEvent::Start { parent: None }) = event.kind
            && !self.is_part
            && self.processes.processes.is_empty()
            && self.queue.is_empty()
        {
            self.zero = self.zero.max(event.time);
        }
        let at = self.at(event.time);
        self.running.on_event(at, &event.kind);
        let is_switch = matches!(
            event.kind,
            EventKind::Thread(_, ThreadEvent::SwitchOut { .. } | ThreadEvent::SwitchIn)
        );
        if is_switch && self.options.switches_without_waits {
            return;
        }
        let is_sample = matches!(event.kind, EventKind::Thread(_, ThreadEvent::Sample(sample))
            if matches!(sample.role, Role::Running | Role::Allocation));
        match event.kind {
            EventKind::Recording(what) => return self.on_recording(at, what),
            EventKind::Thread(thread, ThreadEvent::Span(span)) => return self.add_span(at, thread, &span),
            EventKind::Process(pid, ProcessEvent::Plot(name, value)) => return self.add_plot(at, pid, name, value),
            EventKind::Thread(thread, what) if is_sample && self.waits.is_none() => {
                self.on_thread(at, thread, what);
                if let Some(block) = self.queue.take_if_full() {
                    self.build_block(&block);
                }
                return;
            }
            _ if self.queue.is_empty() => {}
            kind if self.queue.push(at, &kind) => return,
            _ => self.build_waiting(),
        }
        self.queue.forget_stacks();
        self.on_kind(at, event.kind);
    }

    fn end_round(&mut self, _: Timestamp) -> Completion {
        Completion::default()
    }
}

pub(crate) fn lost_label(role: Role, cause: LostCause) -> &'static str {
    match (role, cause) {
        (Role::Point, LostCause::NoPid) => "no pid at the end of an exit: point events",
        (_, LostCause::NoPid) => "no pid at the end of an exit: samples",
        (Role::Running, LostCause::RingFull) => "ring full: records of any kind",
        (Role::Running, LostCause::SamplesRingFull) => "ring full: samples",
        (Role::Running, _) => "not unwound in time: samples of ptrace",
        (Role::Switch | Role::WaitStack | Role::Wait, _) => "ring full: switches and stacks of waits",
        (Role::Counted, _) => "ring full: samples of further events",
        (Role::Point, LostCause::OverLimit) => "more point events than could be unwound",
        (Role::Point, _) => "ring full: point events",
        (Role::Allocation, _) => "ring full: blocks of memory",
        (Role::Span, LostCause::NotUnderstood) => "spans that made no sense",
        (Role::Span, _) => "ring full: spans",
    }
}
