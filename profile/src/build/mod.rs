//! Builds a profile from events: one hash look-up for the thread, then only for those frames in which this stack
//! differs from the thread's previous one.

mod events;
mod finish;
mod frames;
mod jit;
mod offcpu;
mod per_cpu;
mod processes;

pub use events::{POINTS_IN_ALL, POINTS_PER_THREAD};
pub use jit::{CodePlace, CodeSince, Lifetime};

use recording::address::Avma;
use recording::clock::{ClockReference, Timestamp};
use recording::event::{Event, InitialState, LostCause, Pid, Role, Sample, Tid};
use recording::info::PeriodUnit;
use recording::module::Image;
use recording::sink::EventSink;
use recording::stack::{Frame, Registers, Stack, StackMark};
use recording::wait::WaitReason;

use crate::model::Counts;
use crate::model::samples;
use crate::model::stacks::{StackId, Stacks};
use crate::model::strings::Strings;
use crate::model::tables::FrameId;
use crate::model::thread::{Marker, MarkerKind};
use crate::model::waits::WaitTotals;
use frames::FrameResolver;
use offcpu::{WaitReasons, WaitTables, Waited};
use processes::{LiveThread, Processes};

/// A thread keeps at most this many markers; the rest is counted. Loss and throttling may be reported at any rate, and
/// the front end's marker table becomes slow at some 100,000.
pub const MARKERS_PER_THREAD: usize = 20_000;

/// Losses of one cause that are further apart than this are two.
const LOSSES_APART_NS: i64 = 1_000_000;

/// Choices of the user about what goes into the profile.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuildOptions {
    /// Leave out the samples of all threads but each process's main one. Default: keep all.
    pub main_thread_only: bool,
    /// Give each CPU a track instead of each thread; the process is the root of each stack. Not for waits, which are no
    /// CPU's. Default: a track for each thread.
    pub per_cpu_threads: bool,
    /// Leave out the waits of threads that were found and got no CPU while they were recorded; they are counted. For the whole
    /// machine, most of whose threads do nothing. Default: such a wait lasts as long as the recording.
    pub awake_threads_only: bool,
}

/// Takes events in time order; gives a [`Profile`](crate::Profile).
///
/// Wants stacks as frames: a `Stack::Snapshot` counts as one that could not be unwound.
pub struct Builder {
    options: BuildOptions,
    zero: Timestamp,
    strings: Strings,
    stacks: Stacks,
    resolver: FrameResolver,
    processes: Processes,
    counts: Counts,
    wait_reasons: WaitReasons,
    /// From the first switch on.
    waits: Option<WaitTotals>,
    /// Of the recording, not of one thread; put on the first one in the end.
    recording_markers: Vec<Marker>,
    /// Markers of points, in all threads.
    points_kept: u64,
    scratch: Vec<Frame>,
    resolved: Vec<(Frame, FrameId)>,
}

impl Builder {
    /// A builder of a profile whose time zero is `clock`, or the start of the program if that is the first event.
    pub fn new(clock: ClockReference, options: BuildOptions) -> Self {
        Builder {
            options,
            zero: clock.timestamp,
            strings: Strings::default(),
            stacks: Stacks::default(),
            resolver: FrameResolver::default(),
            processes: Processes::default(),
            counts: Counts::default(),
            wait_reasons: WaitReasons::default(),
            waits: None,
            recording_markers: Vec::new(),
            points_kept: 0,
            scratch: Vec::new(),
            resolved: Vec::new(),
        }
    }

    /// The instant of a time in the profile.
    fn instant(&self, at: i64) -> Timestamp {
        let time = i128::from(self.zero.0) + i128::from(at);
        Timestamp(u64::try_from(time.max(0)).unwrap_or(u64::MAX))
    }

    /// Tells where the kernel's code is. Without this, kernel frames carry no module and can't get names.
    pub fn set_kernel(&mut self, image: Image) {
        self.resolver.add_kernel(image);
        self.processes.forget_resolved();
    }

    /// Tells which functions of the kernel, from their first to behind their last address, wait for what. Without this, all
    /// that is known of a wait is whether it was for a CPU.
    pub fn set_wait_reasons(&mut self, functions: Vec<(Avma, Avma, WaitReason)>) {
        self.wait_reasons = WaitReasons::new(functions);
    }

    /// ns from time zero; negative for what was found before it.
    fn at(&self, time: Timestamp) -> i64 {
        let (time, zero) = (i128::from(time.0), i128::from(self.zero.0));
        (time - zero).clamp(i128::from(i64::MIN / 2), i128::from(i64::MAX / 2)) as i64
    }

    /// Takes a sample or the stack of a wait apart; `add` gets its frames.
    fn with_frames(&mut self, sample: &Sample<'_>, add: impl FnOnce(&mut Self, &[Frame])) {
        if self.leaves_out(sample.pid, sample.tid) {
            return;
        }
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

    fn leaves_out(&self, pid: Pid, tid: Tid) -> bool {
        self.options.main_thread_only && pid.0 != tid.0
    }

    /// The stack of these frames, with what is remembered of its thread.
    fn stack(&mut self, sample: &Sample<'_>, time: i64, frames: &[Frame]) -> Option<StackId> {
        let first = self.first_frame(sample, time);
        let (process, thread) = self.processes.thread_for_sample(sample.pid, sample.tid, time);
        if thread.chain_epoch != process.epoch {
            thread.chain.clear();
            thread.chain_epoch = process.epoch;
        }

        // The thread's previous stack, root first: [(frame, the stack that ends with it)].
        let chain = &mut thread.chain;
        let common = (frames.iter().rev())
            .zip(chain.iter())
            .take_while(|(frame, (known, _))| *frame == known)
            .count();
        chain.truncate(common);
        let mut parent = chain.last().map_or(first, |(_, stack)| Some(*stack));
        // First all look-ups of frames, which can overlap, then those of stacks, each of which needs the one before.
        self.resolved.clear();
        for &frame in frames[..frames.len() - common].iter().rev() {
            self.resolved
                .push((frame, self.resolver.resolve(frame, process, &mut self.strings)));
        }
        for &(frame, frame_id) in &self.resolved {
            let stack = self.stacks.intern(parent, frame_id);
            chain.push((frame, stack));
            parent = Some(stack);
        }
        parent
    }

    fn add_sample(&mut self, sample: &Sample<'_>, frames: &[Frame]) {
        let time = self.at(sample.time);
        let stack = self.stack(sample, time, frames);
        let mut cpu_before_ns = None;
        if self.waits.is_some() {
            self.with_waits(sample.pid, sample.tid, time, |thread, tables| {
                cpu_before_ns = thread.waits.on_cpu(time, &mut thread.samples, tables);
                thread.waits.on_cpu_stack(stack);
            });
        }
        let thread = match self.options.per_cpu_threads {
            true => self.processes.cpu(sample.cpu),
            false => self.processes.thread_for_sample(sample.pid, sample.tid, time).1,
        };
        let in_order = thread.samples.push(samples::Sample {
            time,
            stack,
            period: sample.period,
            off_cpu: false,
            cpu_before_ns,
        });
        if self.waits.is_none() {
            thread.waits.seen_on_cpu(time);
        }
        self.counts.samples += 1;
        self.counts.samples_out_of_order += u64::from(!in_order);
    }

    fn add_wait_stack(&mut self, sample: &Sample<'_>, frames: &[Frame]) {
        let time = self.at(sample.time);
        let reason = self.wait_reasons.of_stack(frames);
        if let Some(stack) = self.stack(sample, time, frames) {
            let (_, thread) = self.processes.thread_for_sample(sample.pid, sample.tid, time);
            thread.waits.wait_stack(stack, reason);
        }
    }

    /// A wait that came as a whole.
    fn add_wait(&mut self, sample: &Sample<'_>, frames: &[Frame]) {
        let time = self.at(sample.time);
        let reason = self.wait_reasons.of_stack(frames);
        let stack = self.stack(sample, time, frames);
        self.with_waits(sample.pid, sample.tid, time, |thread, tables| {
            let earliest = thread.samples.last_time().unwrap_or(thread.start.max(0));
            let wait = Waited {
                stack,
                reason,
                earliest,
                until: time,
                ns: sample.period,
            };
            thread.waits.waited(wait, &mut thread.samples, tables);
        });
    }

    /// A thread that ran already when recording began.
    fn on_initial_state(&mut self, state: &InitialState) {
        if self.leaves_out(state.pid, state.tid) {
            return;
        }
        let times = [state.switches_from, state.seen_at].map(|time| self.at(time));
        self.with_waits(state.pid, state.tid, times[0], |thread, _| {
            thread.waits.found(times, state.waits_for);
        });
    }

    /// A thread left its CPU (`Some(preempted)`) or got one.
    fn on_switch(&mut self, time: Timestamp, pid: Pid, tid: Tid, out: Option<bool>) {
        if self.leaves_out(pid, tid) {
            return;
        }
        let time = self.at(time);
        self.with_waits(pid, tid, time, |thread, tables| match out {
            Some(preempted) => thread.waits.switch_out(time, preempted, tables.totals),
            None => thread.waits.switch_in(time, &mut thread.samples, tables),
        });
    }

    fn with_waits(&mut self, pid: Pid, tid: Tid, at: i64, use_it: impl FnOnce(&mut LiveThread, &mut WaitTables<'_>)) {
        let (_, thread) = self.processes.thread_for_sample(pid, tid, at);
        let mut tables = WaitTables {
            resolver: &mut self.resolver,
            stacks: &mut self.stacks,
            strings: &mut self.strings,
            totals: self.waits.get_or_insert_default(),
            out_of_order: &mut self.counts.samples_out_of_order,
        };
        use_it(thread, &mut tables);
    }

    /// Waits that last end with their thread, or with the recording.
    fn end_waits(&mut self, end: i64, unit: PeriodUnit) {
        let Some(totals) = &mut self.waits else { return };
        let mut tables = WaitTables {
            resolver: &mut self.resolver,
            stacks: &mut self.stacks,
            strings: &mut self.strings,
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
                totals.recorded_ns += thread.waits.recorded_ns(thread.start, until);
            }
            tables.totals.still_waiting += u64::from(waiting && thread.end.is_none());
        }
    }

    fn mark_recording(&mut self, time: Timestamp, what: MarkerKind) {
        if self.recording_markers.len() >= MARKERS_PER_THREAD {
            self.counts.markers_left_out += 1;
            return;
        }
        let start = self.at(time);
        self.recording_markers.push(Marker { start, end: None, what });
    }

    /// Losses that follow each other without a pause are one marker. A full ring gives a record for each time that there is place again:
    /// 21,907 were seen in half a second.
    fn mark_lost(&mut self, time: Timestamp, more: u64, why: &'static str) {
        let at = self.at(time);
        match self.recording_markers.last_mut() {
            Some(Marker {
                start,
                end,
                what: MarkerKind::Lost { count, cause },
            }) if *cause == why && at - end.unwrap_or(*start) < LOSSES_APART_NS => {
                *count = count.saturating_add(more);
                *end = Some(at.max(end.unwrap_or(*start)));
            }
            _ => self.mark_recording(
                time,
                MarkerKind::Lost {
                    count: more,
                    cause: why,
                },
            ),
        }
    }

    fn on_exec(&mut self, time: Timestamp, pid: Pid, name: &str) {
        let at = self.at(time);
        if let Some(from) = self.processes.exec(pid, at, name) {
            self.rename_marker(pid, Tid(pid.0), at, &from, name, |from, to| MarkerKind::Exec {
                from,
                to,
            });
        }
    }

    fn on_rename(&mut self, time: Timestamp, pid: Pid, tid: Tid, name: &str) {
        let at = self.at(time);
        if let Some(from) = self.processes.rename(pid, tid, at, name) {
            self.rename_marker(pid, tid, at, &from, name, |from, to| MarkerKind::Renamed { from, to });
        }
    }

    fn rename_marker(
        &mut self,
        pid: Pid,
        tid: Tid,
        start: i64,
        from: &str,
        to: &str,
        kind: impl FnOnce(crate::model::strings::StringId, crate::model::strings::StringId) -> MarkerKind,
    ) {
        let what = kind(self.strings.intern(from), self.strings.intern(to));
        let (_, thread) = self.processes.thread_for_sample(pid, tid, start);
        if thread.markers.len() < MARKERS_PER_THREAD {
            thread.markers.push(Marker { start, end: None, what });
        } else {
            self.counts.markers_left_out += 1;
        }
    }
}

impl EventSink for Builder {
    fn on_event(&mut self, event: &Event<'_>) {
        match event {
            Event::Sample(sample) => {
                if matches!(sample.role, Role::Running | Role::Counted) {
                    self.counts.samples_left_out += u64::from(self.leaves_out(sample.pid, sample.tid));
                }
                self.with_frames(sample, |builder, frames| match sample.role {
                    Role::Running => builder.add_sample(sample, frames),
                    Role::WaitStack => builder.add_wait_stack(sample, frames),
                    Role::Wait => builder.add_wait(sample, frames),
                    Role::Counted => builder.add_counted(sample.event, sample, frames),
                    Role::Point => builder.add_point(sample.event, sample, sample.values, frames),
                    Role::Switch => {}
                });
            }
            Event::InitialState(state) => self.on_initial_state(state),
            Event::SwitchOut {
                time,
                pid,
                tid,
                preempted,
            } => self.on_switch(*time, *pid, *tid, Some(*preempted)),
            Event::SwitchIn { time, pid, tid } => self.on_switch(*time, *pid, *tid, None),
            Event::ProcessStart { time, pid, parent } => {
                // Time begins with a launched program, and not with what is done to launch it. What ran before recording has its
                // own, earlier start.
                if self.processes.processes.is_empty() && parent.is_none() {
                    self.zero = self.zero.max(*time);
                }
                self.processes.start(*pid, *parent, self.at(*time));
            }
            Event::ProcessEnd { time, pid } => self.processes.end(*pid, self.at(*time)),
            Event::ThreadStart { time, pid, tid } => self.processes.start_thread(*pid, *tid, self.at(*time)),
            Event::ThreadEnd { time, pid, tid } => self.processes.end_thread(*pid, *tid, self.at(*time)),
            Event::Exec { time, pid, name } => self.on_exec(*time, *pid, name),
            Event::ThreadName { time, pid, tid, name } => self.on_rename(*time, *pid, *tid, name),
            // Its module follows as an `Image`, if it has one.
            Event::Map(mapping) => {
                let at = self.at(mapping.time);
                self.processes.map_nameless(mapping.pid, at, mapping.start, mapping.len);
            }
            Event::Image { time, pid, image } => {
                let at = self.at(*time);
                if let Some(program) = self.processes.map(*pid, at, image) {
                    self.resolver.is_program(program);
                }
            }
            Event::Counter(reading) => {
                let at = self.at(reading.time);
                self.processes
                    .add_reading(reading.pid, at, reading.counter, reading.value);
            }
            Event::Lost {
                time,
                count,
                role,
                cause,
            } => {
                self.mark_lost(*time, *count, lost_label(*role, *cause));
            }
            Event::Throttled { time } => self.mark_recording(*time, MarkerKind::Throttled),
            Event::Malformed { time, what } => self.mark_recording(*time, MarkerKind::Malformed { what }),
        }
    }
}

pub(crate) fn lost_label(role: Role, cause: LostCause) -> &'static str {
    match (role, cause) {
        (Role::Running, LostCause::RingFull) => "ring full: records of any kind",
        (Role::Running, LostCause::SamplesRingFull) => "ring full: samples",
        (Role::Running, _) => "not unwound in time: samples of ptrace",
        (Role::Switch | Role::WaitStack | Role::Wait, _) => "ring full: switches and stacks of waits",
        (Role::Counted, _) => "ring full: samples of further events",
        (Role::Point, LostCause::OverLimit) => "more point events than could be unwound",
        (Role::Point, _) => "ring full: point events",
    }
}
