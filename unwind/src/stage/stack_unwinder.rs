//! One stack: walked beside the last one of its thread, verified, counted, and put into frames.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use recording::address::Avma;
use recording::clock::Timestamp;
use recording::event::{Pid, ProcessEvent, Role, Thread};
use recording::frame_bytes::put_frames;
use recording::module::{Image, Module};
use recording::quality::Quality;
use recording::sink::{Completion, CompletionCounts, KeptFile, ModuleFiles, TargetMemory};
use recording::stack::{Frame, MissingStack, NO_STACK, Registers, SameFrames, Snapshot, StackMark};

use crate::arch::Arch;
use crate::arch::aarch64::Aarch64;
use crate::arch::x86_64::X86_64;
use crate::completion::callers::CallerWords;
use crate::completion::verify::{SampleTimes, ThreadStacks, Verdict};
use crate::tables::mappings::{ANONYMOUS, Mappings, ModuleIndex, Region};
use crate::tables::modules::Modules;
use crate::walk::calls::ProcessCode;
use crate::walk::code_cache::CodeCache;
use crate::walk::copied_stack::{CopiedStack, StackWord};
use crate::walk::framehop::FramehopEngine;
use crate::walk::leaf_first::LeafFirst;
use crate::walk::outcome::{FramePoint, WalkEnd, WalkOutcome};
use crate::walk::reading::MemoryReading;
use crate::walk::reuse::{LastWalk, NewSteps, Reuse};
use crate::walk::stack_memory::{LiveBlocks, StackMemory};
use crate::walk::stack_walk::StackWalk;

/// How to unwind.
#[derive(Clone, Debug)]
pub struct UnwindOptions {
    /// User frames of one stack that are followed; a deeper stack ends with [`StackMark::TruncatedDepth`]. Default
    /// 65536.
    pub max_frames: usize,
    /// What finds the caller of a frame. Default [`UnwindEngine::Sprof`].
    pub engine: UnwindEngine,
}

impl Default for UnwindOptions {
    fn default() -> Self {
        UnwindOptions {
            max_frames: 1 << 16,
            engine: UnwindEngine::default(),
        }
    }
}

/// What finds the caller of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnwindEngine {
    /// The engine of this crate.
    #[default]
    Sprof,
    /// The published crate framehop, for comparison. ELF files only: in the code of Mach-O files framehop, as it is
    /// built here, goes by frame pointer.
    Framehop,
}

/// Unwinds, verifies, counts and marks one stack at a time, for all threads.
pub(crate) struct StackUnwinder<'f> {
    pub(crate) memory: Box<dyn TargetMemory + 'f>,
    options: UnwindOptions,
    modules: Modules<'f>,
    spaces: FxHashMap<Pid, ProcessSpace>,
    overlaid: Vec<MemoryOverFiles>,
    /// Number of changes of mappings so far, in all processes.
    changes: u64,
    code_cache: CodeCache,
    /// Takes the steps in the place of [`StackWalk::run`].
    framehop: Option<FramehopEngine>,
    pub(crate) quality: Quality,
    /// True while a stack is walked that is a sample of a running thread, not of a wait or a point event.
    is_sample: bool,
    /// How the stacks of the present round were completed.
    pub(crate) completion: Completion,
    /// Number of the last stack, as in [`SameFrames::stack`].
    stacks: u64,
    // Reused from sample to sample.
    frames: Vec<Frame>,
    /// As in [`SameFrames`]; empty for `None`.
    leafward_bytes: Vec<u8>,
    /// Frames that the current walk found and the thread's last one did not.
    points: Vec<FramePoint>,
    new_steps: NewSteps,
    live: LiveBlocks,
}

/// What is mapped in a process.
#[derive(Clone, Default)]
struct ProcessSpace {
    mappings: Mappings,
    /// Changes with each change of the mappings. No two spaces with different mappings have the same version.
    version: u64,
    /// Equal for all processes that were forked from one program and have not executed another one since.
    family: u64,
}

/// Executable memory that lies over a mapped file, and did not have the file's bytes when it was mapped.
struct MemoryOverFiles {
    pid: Pid,
    memory: Region,
    files: Vec<Region>,
}

/// Memory of a process that became known: an image, or memory without a file.
pub(crate) enum NewMemory {
    Image(Image),
    Anonymous(Range<u64>),
}

/// Limit of [`MemoryOverFiles`] that are remembered.
const MAX_MEMORY_OVER_FILES: usize = 64;
/// Limit of related processes that are searched for a mapping of the same memory.
const MAX_RELATIVES: usize = 256;

/// What is kept for a thread from sample to sample.
pub(crate) struct ThreadState {
    pub(crate) pid: Pid,
    pub(crate) stacks: ThreadStacks,
    last_walk: LastWalk,
    /// The frames of the last walk.
    points: LeafFirst<FramePoint>,
    sent: LastSentStack,
    /// Bytes of live memory that the last stack took.
    live_bytes: u64,
    live: LiveRead,
    callers: CallerWords,
}

/// The live memory that the last walk of a thread has read.
#[derive(Clone, Copy, Default)]
struct LiveRead {
    /// As in [`LiveBlocks::contents`].
    contents: u64,
    /// The lowest address that was read.
    from: u64,
}

/// What a walk may reuse of earlier walks.
struct WalkInput<'a> {
    last: &'a mut LastWalk,
    /// See [`StackMemory`].
    callers: &'a [StackWord],
    unchanged_from: u64,
}

/// A walk. Its first frames are in [`StackUnwinder::points`].
struct WalkResult {
    outcome: Option<WalkOutcome>,
    /// How many bytes of live memory it took.
    live_bytes: u64,
    /// Number of rootmost frames shared with the thread's last walk.
    shared_rootmost: usize,
}

/// The last stack of a thread, as it was sent to the next stage.
#[derive(Default)]
struct LastSentStack {
    frames: LeafFirst<Frame>,
    /// As in [`SameFrames`].
    number: u64,
    /// The stack has the walk's frames alone, without a mark.
    is_plain: bool,
}

/// How a stack was completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CompletedFrom {
    FromSample,
    /// From live memory, confirmed by an earlier reading.
    Verified,
    /// From live memory that nothing confirms.
    Unverified,
    /// Not at all: live memory can't be read.
    NoMemory,
}

impl<'f> StackUnwinder<'f> {
    pub(crate) fn new(
        memory: impl TargetMemory + 'f,
        files: impl ModuleFiles + 'f,
        options: UnwindOptions,
    ) -> StackUnwinder<'f> {
        let framehop = (options.engine == UnwindEngine::Framehop).then(FramehopEngine::default);
        StackUnwinder {
            memory: Box::new(memory),
            options,
            modules: Modules::new(files),
            spaces: FxHashMap::default(),
            overlaid: Vec::new(),
            changes: 0,
            code_cache: CodeCache::default(),
            framehop,
            quality: Quality::default(),
            is_sample: true,
            completion: Completion::default(),
            stacks: NO_STACK,
            frames: Vec::new(),
            leafward_bytes: Vec::new(),
            points: Vec::new(),
            new_steps: NewSteps::default(),
            live: LiveBlocks::default(),
        }
    }

    /// As [`Unwinder::kept_files`](crate::Unwinder::kept_files).
    pub(crate) fn kept_files(&self) -> Vec<(Arc<Module>, KeptFile)> {
        self.modules.kept()
    }

    /// Begins a sample.
    pub(crate) fn begin(&mut self, role: Role) {
        self.is_sample = matches!(role, Role::Running | Role::Counted);
        self.quality.samples += 1;
        self.quality.beside.stacks += u64::from(!self.is_sample);
        self.frames.clear();
    }

    /// The frames of the current sample, which has no user stack.
    pub(crate) fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// Counts the marks of a stack that came as frames: only the marks say how the stack was unwound.
    pub(crate) fn count_marks(&mut self, frames: &[Frame]) {
        let mut is_rooted = true;
        for frame in frames {
            let Frame::Mark(mark) = frame else { continue };
            is_rooted &= matches!(mark, StackMark::Waiting(_));
            self.quality.count(*mark, self.is_sample);
        }
        self.quality.rooted += u64::from(is_rooted);
    }

    pub(crate) fn on_missing(&mut self, kernel: &[Frame], reason: MissingStack) {
        let mark = StackMark::Missing(reason);
        self.quality.count(mark, self.is_sample);
        self.frames.extend_from_slice(kernel);
        self.frames.push(Frame::Mark(mark));
    }

    /// True for a task in the middle of exec or exit: its registers are of a user space that is gone.
    pub(crate) fn has_left_user_space(&self, pid: Pid, snapshot: &Snapshot<'_>) -> bool {
        let (Registers::X86_64 { ip, .. } | Registers::Aarch64 { pc: ip, .. }) = snapshot.registers;
        let space = self.spaces.get(&pid);
        snapshot.kernel.iter().any(|frame| frame.is_kernel())
            && snapshot.stack_bytes.is_empty()
            && space.is_none_or(|space| space.mappings.find(Avma(ip)).is_none())
    }

    fn count_completion(&mut self, completed: CompletedFrom, role: Role) {
        let CompletionCounts {
            beyond_sample,
            unverified,
        } = match role {
            Role::Running => &mut self.completion.samples,
            Role::WaitStack => &mut self.completion.waits,
            Role::Switch | Role::Span | Role::Wait | Role::Counted | Role::Point | Role::Allocation => return,
        };
        *beyond_sample += u64::from(completed != CompletedFrom::FromSample);
        *unverified += u64::from(completed == CompletedFrom::Unverified);
    }

    /// Finds the frames of a thread's stack, and keeps them in `state`.
    pub(crate) fn on_snapshot(
        &mut self,
        time: Timestamp,
        thread: Thread,
        snapshot: &Snapshot<'_>,
        role: Role,
        state: &mut ThreadState,
    ) -> SameFrames<'_> {
        self.frames.extend_from_slice(snapshot.kernel);
        let (completed, same) = match snapshot.registers {
            Registers::X86_64 { .. } => self.unwind::<X86_64>(time, thread, snapshot, state),
            Registers::Aarch64 { .. } => self.unwind::<Aarch64>(time, thread, snapshot, state),
        };
        self.count_completion(completed, role);
        SameFrames {
            others: Some(&self.leafward_bytes[..]).filter(|others| !others.is_empty()),
            ..same
        }
    }

    fn unwind<A: Arch>(
        &mut self,
        time: Timestamp,
        thread: Thread,
        snapshot: &Snapshot<'_>,
        state: &mut ThreadState,
    ) -> (CompletedFrom, SameFrames<'static>) {
        let walked = self.walk_thread::<A>(time, thread, snapshot, state);
        let reading = self.live.reading();
        match walked.outcome {
            Some(outcome) => self.verify_and_mark::<A>(time, thread, state, outcome, reading, walked.shared_rootmost),
            None => (CompletedFrom::FromSample, self.send(&mut state.sent, 0, false)),
        }
    }

    /// Walks the stack beside the thread's last one, and keeps in `state` what the next walk may reuse.
    fn walk_thread<A: Arch>(
        &mut self,
        time: Timestamp,
        thread: Thread,
        snapshot: &Snapshot<'_>,
        state: &mut ThreadState,
    ) -> WalkResult {
        self.live.begin(time, state.live_bytes);
        let dump_end = (snapshot.registers.sp()).saturating_add(snapshot.stack_bytes.len() as u64);
        // What was read from the same memory is the same.
        let is_same = state.live.contents == self.live.contents();
        let callers = state.callers.words();
        let earlier = WalkInput {
            last: &mut state.last_walk,
            callers,
            unchanged_from: if is_same {
                state.live.from.max(dump_end)
            } else {
                u64::MAX
            },
        };
        let walked = self.walk::<A>(time, thread, snapshot, earlier);
        state.points.replace(walked.shared_rootmost, &self.points);
        state.live_bytes = walked.live_bytes;
        state.live = LiveRead {
            contents: self.live.contents(),
            from: dump_end,
        };
        if let Some(outcome) = &walked.outcome {
            let frames = state.points.len();
            state.callers.keep(outcome, frames, &state.last_walk, dump_end);
        }
        walked
    }

    /// Walks the stack. The walk replaces the thread's last one.
    fn walk<A: Arch>(
        &mut self,
        time: Timestamp,
        thread: Thread,
        snapshot: &Snapshot<'_>,
        earlier: WalkInput<'_>,
    ) -> WalkResult {
        self.points.clear();
        let space = self.spaces.entry(thread.pid).or_default();
        let sp = snapshot.registers.sp();
        let mut walk = StackWalk {
            space: &space.mappings,
            region: None,
            modules: &mut self.modules,
            code_cache: &mut self.code_cache,
            time,
            quality: &mut self.quality,
            stack: StackMemory {
                pid: thread.pid,
                copy: CopiedStack::new(sp, snapshot.stack_bytes, snapshot.next_copy),
                memory: &mut *self.memory,
                live: &mut self.live,
                callers: earlier.callers,
                floor: sp,
                unchanged_from: earlier.unchanged_from,
                used_live: false,
                live_start: None,
                live_bytes: 0,
            },
            further: snapshot.further,
            reuse: Reuse::new(earlier.last, &mut self.new_steps, space.version),
            sp_is_bound: false,
            points: &mut self.points,
            shared_rootmost: 0,
            max_frames: self.options.max_frames,
        };
        let outcome = match &mut self.framehop {
            Some(framehop) => Some(framehop.run(&mut walk, space.version, &snapshot.registers)),
            None => walk.run::<A>(&snapshot.registers),
        };
        let (live_bytes, stay) = (walk.stack.live_bytes, walk.shared_rootmost);
        walk.reuse.finish();
        WalkResult {
            outcome,
            live_bytes,
            shared_rootmost: stay,
        }
    }

    /// Verifies, counts and marks the stack of a walk. `shared_rootmost`: number of rootmost frames shared with the
    /// thread's last walk.
    fn verify_and_mark<A: Arch>(
        &mut self,
        time: Timestamp,
        thread: Thread,
        state: &mut ThreadState,
        mut outcome: WalkOutcome,
        reading: Option<MemoryReading>,
        shared_rootmost: usize,
    ) -> (CompletedFrom, SameFrames<'static>) {
        let times = SampleTimes {
            sampled: time,
            // Without a live boundary all bytes are the sample's.
            reading: (outcome.live_boundary.and(reading)).unwrap_or(MemoryReading::of_sample(time)),
        };
        let was_read = outcome.live_boundary.is_some();
        let mut are_possible = |points: &[FramePoint]| {
            let mut code = ProcessCode {
                pid: thread.pid,
                space: &self.spaces.entry(thread.pid).or_default().mappings,
                modules: &mut self.modules,
                memory: &mut *self.memory,
                quality: &mut self.quality,
            };
            self.code_cache.calls.are_possible::<A>(points, &mut code)
        };
        let verdict = state.stacks.judge(
            &mut state.points,
            shared_rootmost,
            &mut outcome,
            times,
            &mut are_possible,
        );
        let quality = &mut self.quality;
        quality.by_frame_pointer += u64::from(outcome.guessed);
        quality.by_code += u64::from(outcome.by_code);
        quality.by_framehop += u64::from(self.framehop.is_some());
        quality.completed_live += u64::from(verdict == Verdict::Agrees && outcome.end == WalkEnd::Root);
        let live_boundary = outcome.live_boundary.filter(|_| verdict == Verdict::Unverified);
        if verdict == Verdict::Unverified {
            quality.count(StackMark::Unverified, self.is_sample);
        }
        let mark = match outcome.end {
            WalkEnd::Root => None,
            WalkEnd::NoMemory | WalkEnd::NoReturnAddress => Some(StackMark::TruncatedNoMemory),
            WalkEnd::OtherStack => Some(StackMark::OtherStack),
            WalkEnd::NoRule => Some(StackMark::TruncatedNoRule),
            WalkEnd::Depth => Some(StackMark::TruncatedDepth),
        };
        match mark {
            Some(mark) => quality.count(mark, self.is_sample),
            None => quality.rooted += u64::from(verdict != Verdict::Unverified),
        }
        let is_plain = live_boundary.is_none() && mark.is_none();
        let same = if is_plain && state.sent.is_plain {
            shared_rootmost
        } else {
            0
        };
        debug_assert!(
            { state.points.iter().rev().take(same) }
                .map(|point| point.frame)
                .eq(state.sent.frames.iter().rev().take(same).copied()),
            "frames that are called the same"
        );
        let points = state.points.get(..state.points.len() - same).unwrap_or_default();
        let believed = live_boundary.map_or(points.len(), |live_boundary| (live_boundary + 1).min(points.len()));
        let (believed, rest) = points.split_at(believed);
        self.frames.extend(believed.iter().map(|point| point.frame));
        self.frames
            .extend(live_boundary.map(|_| Frame::Mark(StackMark::Unverified)));
        self.frames.extend(rest.iter().map(|point| point.frame));
        self.frames.extend(mark.map(Frame::Mark));
        let completed = match was_read {
            false if mark == Some(StackMark::TruncatedNoMemory) => CompletedFrom::NoMemory,
            false => CompletedFrom::FromSample,
            true if verdict != Verdict::Unverified && outcome.end != WalkEnd::NoMemory => CompletedFrom::Verified,
            true => CompletedFrom::Unverified,
        };
        (completed, self.send(&mut state.sent, same, is_plain))
    }

    /// Makes the frames that were found the thread's stack. `same`: number of rootmost frames of its last stack that
    /// stay.
    fn send(&mut self, sent: &mut LastSentStack, same: usize, is_plain: bool) -> SameFrames<'static> {
        self.stacks += 1;
        let earlier = std::mem::replace(&mut sent.number, self.stacks);
        sent.frames.replace(same, &self.frames);
        sent.is_plain = is_plain;
        self.leafward_bytes.clear();
        if is_plain {
            put_frames(&mut self.leafward_bytes, &self.frames, |_| 0);
        }
        SameFrames {
            stack: self.stacks,
            earlier,
            frames: same,
            others: None,
        }
    }

    pub(crate) fn on_process(&mut self, pid: Pid, what: ProcessEvent<'_>) -> Vec<NewMemory> {
        if matches!(what, ProcessEvent::End | ProcessEvent::Exec(_)) {
            self.overlaid.retain(|overlaid| overlaid.pid != pid);
        }
        match what {
            ProcessEvent::Start { parent } => {
                let space = parent.and_then(|parent| self.spaces.get(&parent)).cloned();
                let space = space.unwrap_or_else(|| self.new_space());
                self.spaces.insert(pid, space);
                if let Some(parent) = parent {
                    self.code_cache.jit.fork(parent, pid);
                }
            }
            ProcessEvent::End => {
                self.spaces.remove(&pid);
                self.code_cache.jit.forget(pid);
            }
            ProcessEvent::Exec(_) => {
                let space = self.new_space();
                self.spaces.insert(pid, space);
                self.code_cache.jit.forget(pid);
            }
            ProcessEvent::Map(mapping) => {
                if mapping.is_jitdump()
                    && let Some(file) = self.modules.open_plain(pid, mapping)
                {
                    self.code_cache.jit.add(pid, file);
                }
                let region = self.modules.region(pid, mapping, &mut self.quality);
                if region.module == ANONYMOUS {
                    self.code_cache.code.clear();
                }
                let copies = match self.modules.is_unreadable(region.module) {
                    true => self.copied_over(pid, region),
                    false => Vec::new(),
                };
                return self.map(pid, [region].into_iter().chain(copies));
            }
            ProcessEvent::Image(_) | ProcessEvent::Title(_) | ProcessEvent::Plot(..) | ProcessEvent::Counter(..) => {}
        }
        Vec::new()
    }

    fn map(&mut self, pid: Pid, regions: impl IntoIterator<Item = Region>) -> Vec<NewMemory> {
        self.changes += 1;
        let space = self.spaces.entry(pid).or_default();
        space.version = self.changes;
        let mappings = &mut space.mappings;
        let found = regions.into_iter().map(|region| {
            mappings.insert(region);
            match self.modules.image(&region) {
                Some(image) => NewMemory::Image(image),
                None => NewMemory::Anonymous(region.start..region.end),
            }
        });
        found.collect()
    }

    /// The code of files that this memory lies over and has a copy of. Programs move their code to huge pages so
    /// (intel/iodlr, BOLT's runtime, libhugetlbfs): it is the same code at the same addresses, in memory without a
    /// file. Of an attached process the rest of the file is mapped beside it.
    fn copied_over(&mut self, pid: Pid, memory: Region) -> Vec<Region> {
        let Some(space) = self.spaces.get(&pid) else {
            return Vec::new();
        };
        let (start, end) = (Avma(memory.start), Avma(memory.end));
        let beside = [space.mappings.neighbours(start)[0], space.mappings.neighbours(end)[1]];
        let near = space
            .mappings
            .overlapping(start, end)
            .chain(beside.into_iter().flatten());
        let mut files: Vec<(ModuleIndex, u64)> = near.map(|region| (region.module, region.base)).collect();
        files.sort_unstable();
        files.dedup();
        let code = files
            .into_iter()
            .flat_map(|(module, base)| self.modules.code_at(module, base));
        let covered: Vec<Region> = code
            .map(|code| Region {
                start: code.start.max(memory.start),
                end: code.end.min(memory.end),
                ..code
            })
            .filter(|code| code.start < code.end)
            .collect();
        let (copies, others): (Vec<Region>, Vec<Region>) =
            covered.into_iter().partition(|file| self.is_copy(pid, file));
        if !others.is_empty() && self.overlaid.len() < MAX_MEMORY_OVER_FILES {
            self.overlaid.retain(|known| known.pid != pid || known.memory != memory);
            let files = others;
            self.overlaid.push(MemoryOverFiles { pid, memory, files });
        }
        copies
    }

    fn is_copy(&mut self, pid: Pid, file: &Region) -> bool {
        let StackUnwinder {
            modules,
            memory,
            quality,
            ..
        } = self;
        modules.has_bytes_of(file, quality, |at, buffer| memory.read(pid, at, buffer))
    }

    /// Memory of a process that a sample reveals and no record has reported: code that was copied over a file's code
    /// after the memory was mapped, and mappings that another process has made in shared memory (CLONE_VM).
    pub(crate) fn memory_shown_by(&mut self, pid: Pid, snapshot: &Snapshot<'_>) -> Vec<NewMemory> {
        let (Registers::X86_64 { ip, .. } | Registers::Aarch64 { pc: ip, .. }) = snapshot.registers;
        let space = self.spaces.get(&pid);
        match space.and_then(|space| space.mappings.find(Avma(ip))) {
            None => self.shared_mappings(pid, ip),
            Some(region) if !self.overlaid.is_empty() && self.modules.is_unreadable(region.module) => {
                let at = { self.overlaid.iter() }
                    .position(|known| known.pid == pid && (known.memory.start..known.memory.end).contains(&ip));
                let Some(at) = at else { return Vec::new() };
                let files = self.overlaid.swap_remove(at).files;
                let copies: Vec<Region> = files.into_iter().filter(|file| self.is_copy(pid, file)).collect();
                match copies.is_empty() {
                    true => Vec::new(),
                    false => self.map(pid, copies),
                }
            }
            Some(_) => Vec::new(),
        }
    }

    /// A process runs where it has mapped nothing, and one that it was forked from, or that was forked from it, has:
    /// both have one memory, and only the one that maps is in a mapping's record.
    fn shared_mappings(&mut self, pid: Pid, ip: u64) -> Vec<NewMemory> {
        let Some(own) = self.spaces.get(&pid) else {
            return Vec::new();
        };
        let relatives =
            { self.spaces.values() }.filter(|other| other.family == own.family && other.version != own.version);
        let mut relatives = relatives.take(MAX_RELATIVES);
        let Some(other) = relatives.find(|other| other.mappings.find(Avma(ip)).is_some()) else {
            return Vec::new();
        };
        let is_free = |region: &&Region| {
            let mut there = own.mappings.overlapping(Avma(region.start), Avma(region.end));
            there.next().is_none()
        };
        let missing: Vec<Region> = other.mappings.all().filter(is_free).copied().collect();
        self.map(pid, missing)
    }

    fn new_space(&mut self) -> ProcessSpace {
        self.changes += 1;
        ProcessSpace {
            mappings: Mappings::default(),
            version: self.changes,
            family: self.changes,
        }
    }
}

impl ThreadState {
    pub(crate) fn new(pid: Pid) -> ThreadState {
        ThreadState {
            pid,
            stacks: ThreadStacks::default(),
            last_walk: LastWalk::default(),
            points: LeafFirst::default(),
            sent: LastSentStack::default(),
            live_bytes: 0,
            live: LiveRead::default(),
            callers: CallerWords::default(),
        }
    }

    /// The frames of the last stack, leaf first.
    pub(crate) fn frames(&self) -> &[Frame] {
        &self.sent.frames
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod three_ways;
