//! Pairs the switches of each thread to waits, and puts waits among its samples.
//!
//! A wait stands between the samples of its thread, at the wait's start, with its length as weight. Waits shorter than
//! a sampling interval may come by the hundred thousand a second: those with one stack are added up until another event
//! comes. Long waits are cut into pieces, so that a selection inside of one shows it.
//!
//! A wait has the stack that was sampled at its start. Only a limited number of stacks a second is sampled, and none
//! where kernel code may not be recorded. A wait without a stack gets another stack of its thread, and a frame that
//! says which.
//!
//! Waits are samples. As tracks of their own they would tear apart what one function did; as markers they would have no
//! call tree. Each ends in the frame `[off-CPU]`: to drop or focus that function splits the front end's tree into CPU
//! time and waiting.

use recording::address::Avma;
use recording::stack::{Frame, StackMark};
use recording::wait::{WaitGuess, WaitReason};

use super::frames::FrameResolver;
use super::sampling::SampledParts;
use crate::recorded::samples::{PackedSamples, RecordedSample};
use crate::recorded::stacks::{StackId, StackTree};
use crate::recorded::strings::StringTable;
use crate::recorded::waits::WaitTotals;

/// Shorter waits are added up, and taken to be alike: a thread that waits so shortly does it often.
const SHORT_NS: i64 = 1_000_000;
/// Longest time until added-up waits are put among the samples, or when there are this many different ones.
const LONGEST_SUM_NS: i64 = 10_000_000;
const MOST_SUMS: usize = 8;
/// Long waits are cut into pieces of at least this length,
const PIECE_NS: i64 = 100_000_000;
/// and into at most this many: a thread pool that waits for an hour costs no more than one that waits for seconds.
const MOST_PIECES: i64 = 64;
/// If a thread that left its CPU longer ago than this has a sample, it is back, and the record of the return was lost.
/// An NMI may sample a thread in the microseconds between its switch record and the end of its time.
const MISSED_RETURN_NS: i64 = 100_000;

/// Kernel functions that wait, with their reasons.
#[derive(Clone, Default)]
pub(super) struct WaitReasons {
    /// (start, end, reason), ascending.
    functions: Vec<(Avma, Avma, WaitReason)>,
}

impl WaitReasons {
    pub(super) fn new(mut functions: Vec<(Avma, Avma, WaitReason)>) -> WaitReasons {
        functions.sort_unstable_by_key(|(start, _, _)| *start);
        WaitReasons { functions }
    }

    fn of_function(&self, address: Avma) -> Option<WaitReason> {
        let after = self.functions.partition_point(|(start, _, _)| *start <= address);
        let (_, end, reason) = self.functions.get(after.checked_sub(1)?)?;
        (address < *end).then_some(*reason)
    }

    /// The reason of the innermost kernel function that has one. A page fault anywhere in the stack takes precedence.
    pub(super) fn of_stack(&self, frames: &[Frame]) -> WaitReason {
        if self.functions.is_empty() {
            return WaitReason::Unknown;
        }
        let mut kernel = frames.iter().filter(|frame| frame.is_kernel()).peekable();
        if kernel.peek().is_none() {
            return WaitReason::Unknown;
        }
        let mut innermost = None;
        for address in kernel.filter_map(|frame| frame.lookup_address()) {
            match self.of_function(address) {
                Some(WaitReason::PageFault) => return WaitReason::PageFault,
                found => innermost = innermost.or(found),
            }
        }
        innermost.unwrap_or(WaitReason::Other)
    }
}

/// The builder's tables with which waits become samples.
pub(super) struct WaitTables<'a> {
    pub(super) resolver: &'a mut FrameResolver,
    pub(super) stacks: &'a mut StackTree,
    pub(super) strings: &'a mut StringTable,
    pub(super) sampled: &'a SampledParts,
    pub(super) totals: &'a mut WaitTotals,
    pub(super) out_of_order: &'a mut u64,
}

impl WaitTables<'_> {
    fn stack(&mut self, what: WaitKey) -> StackId {
        let mut stack = what.stack;
        let guess = what.guess.map(StackMark::WaitGuess);
        for mark in guess.into_iter().chain([StackMark::OffCpu]) {
            let frame = self.resolver.mark(mark, self.strings);
            stack = Some(self.stacks.intern(stack, frame));
        }
        let frame = self.resolver.mark(StackMark::Waiting(what.reason), self.strings);
        self.stacks.intern(stack, frame)
    }

    fn push(&mut self, samples: &mut PackedSamples, time: i64, ns: u64, stack: StackId, cpu_before_ns: Option<u64>) {
        let in_order = samples.push(RecordedSample {
            time,
            stack: Some(stack),
            period: ns,
            off_cpu: true,
            cpu_before_ns,
        });
        *self.out_of_order += u64::from(!in_order);
    }
}

/// State of a thread by its switch records.
#[derive(Clone, Copy, Default)]
enum SwitchState {
    #[default]
    Unknown,
    Found(FoundWait),
    Running,
    Waiting {
        since: i64,
        preempted: bool,
    },
}

/// A thread's CPU time since its last sample, by its switches.
#[derive(Clone, Default)]
struct CpuTime {
    /// If the thread is on a CPU: the time up to which `ns` counts.
    counted_to: Option<i64>,
    ns: u64,
    /// True if a switch was lost, or came before the recording.
    is_unknown: bool,
    /// True if switches are observed from time to time, so that some are missed.
    is_never_known: bool,
}

impl CpuTime {
    fn begin(&mut self, at: i64) {
        self.is_unknown |= self.counted_to.replace(at).is_some();
    }

    fn end(&mut self, at: i64, sampled: &SampledParts) {
        self.go_on(at, sampled);
        self.counted_to = None;
    }

    /// Notes that the thread is on a CPU at this time.
    fn go_on(&mut self, at: i64, sampled: &SampledParts) {
        match self.counted_to.replace(at) {
            Some(since) => self.add(since, at, sampled),
            None => self.is_unknown = true,
        }
    }

    fn add(&mut self, since: i64, until: i64, sampled: &SampledParts) {
        self.ns = self.ns.saturating_add(sampled.ns_within(since, until));
    }

    fn lose(&mut self) {
        self.counted_to = None;
        self.is_unknown = true;
    }

    /// Takes the CPU time for a sample; counting starts again. `None` if it is not known.
    fn take(&mut self) -> Option<u64> {
        let ns = std::mem::take(&mut self.ns);
        let is_unknown = std::mem::take(&mut self.is_unknown) || self.is_never_known;
        (!is_unknown).then_some(ns)
    }
}

/// State of a thread that existed when recording began, until its first switch.
#[derive(Clone, Copy)]
struct FoundWait {
    switches_from: i64,
    looked_at: i64,
    /// `None` if the thread could run.
    waits_for: Option<WaitReason>,
    seen: Option<SampledWaitStack>,
}

impl FoundWait {
    /// What it waited for up to here, without a switch since it was looked at.
    fn what(&self) -> WaitKey {
        let seen_in_proc = self.waits_for.unwrap_or(WaitReason::Cpu);
        let of_stack = self.seen.map_or(WaitReason::Unknown, |seen| seen.reason);
        WaitKey {
            stack: self.seen.map(|seen| seen.stack),
            guess: self.seen.is_none().then_some(WaitGuess::NotSampled),
            reason: if of_stack == WaitReason::Unknown {
                seen_in_proc
            } else {
                of_stack
            },
        }
    }
}

/// A stack that was sampled.
#[derive(Clone, Copy)]
struct SampledWaitStack {
    stack: StackId,
    reason: WaitReason,
}

/// A wait with its own stack, or a sum of several waits, which can be longer than the time they cover.
pub(super) struct EndedWait {
    pub(super) stack: Option<StackId>,
    pub(super) reason: WaitReason,
    /// Earliest possible start: the end of the thread's last activity.
    pub(super) earliest: i64,
    pub(super) until: i64,
    pub(super) ns: u64,
}

/// Identity of a wait: equal ones are added up.
#[derive(Clone, Copy, PartialEq, Eq)]
struct WaitKey {
    stack: Option<StackId>,
    guess: Option<WaitGuess>,
    reason: WaitReason,
}

/// Short waits with the same stack.
#[derive(Clone, Copy)]
struct ShortWaits {
    since: i64,
    ns: u64,
    what: WaitKey,
    cpu_before_ns: Option<u64>,
}

/// Waits of one thread that are not among its samples yet, and the state for the next wait.
#[derive(Clone, Default)]
pub(super) struct ThreadWaits {
    state: SwitchState,
    /// For a thread that existed before: time of its first recorded switches.
    found_at: Option<i64>,
    /// Stack of the open or beginning wait.
    own: Option<SampledWaitStack>,
    last_wait: Option<SampledWaitStack>,
    last_on_cpu: Option<SampledWaitStack>,
    sums: Vec<ShortWaits>,
    cpu: CpuTime,
}

impl ThreadWaits {
    /// Adds a stack sampled while the thread leaves its CPU, or while it waits.
    pub(super) fn wait_stack(&mut self, stack: StackId, reason: WaitReason) {
        self.own = Some(SampledWaitStack { stack, reason });
    }

    /// Notes that the thread is only observed from time to time.
    pub(super) fn mark_looked_at(&mut self) {
        self.cpu.is_never_known = true;
    }

    /// Notes a thread that existed when recording began: the time of its first recorded switches, the time when it was
    /// observed, and what it waited for (`None` if it could run). Its stack, if there is one, came before.
    pub(super) fn found(&mut self, [switches_from, looked_at]: [i64; 2], waits_for: Option<WaitReason>) {
        let seen = self.own.take();
        if let SwitchState::Unknown = self.state {
            self.found_at = Some(switches_from);
            self.state = SwitchState::Found(FoundWait {
                switches_from,
                looked_at,
                waits_for,
                seen,
            });
        }
    }

    /// From when on a thread that began at `start` was recorded.
    pub(super) fn recorded_since(&self, start: i64) -> i64 {
        self.found_at.unwrap_or(start.max(0))
    }

    /// State that the thread takes into its next program. Ended waits are among its samples by then.
    pub(super) fn hand_over(&mut self) -> ThreadWaits {
        ThreadWaits {
            found_at: None,
            ..std::mem::take(self)
        }
    }

    /// True if the thread was found and neither ran nor was switched since; its wait is forgotten.
    pub(super) fn forget_found(&mut self) -> bool {
        let never_ran = matches!(self.state, SwitchState::Found(_));
        if never_ran {
            self.state = SwitchState::Unknown;
        }
        never_ran
    }

    pub(super) fn switch_out(&mut self, at: i64, preempted: bool, tables: &mut WaitTables<'_>) {
        tables.totals.unpaired += u64::from(matches!(self.state, SwitchState::Waiting { .. }));
        self.cpu.end(at, tables.sampled);
        self.state = SwitchState::Waiting { since: at, preempted };
    }

    pub(super) fn switch_in(&mut self, at: i64, samples: &mut PackedSamples, tables: &mut WaitTables<'_>) {
        match self.state {
            SwitchState::Waiting { since, preempted } => self.wait(since, at, preempted, samples, tables),
            SwitchState::Found(found) => self.found_wait(found, at, samples, tables),
            SwitchState::Running => tables.totals.unpaired += 1,
            SwitchState::Unknown => {}
        }
        self.cpu.begin(at);
        self.state = SwitchState::Running;
        self.own = None;
    }

    /// Notes a sample of the running thread before its first switch.
    pub(super) fn seen_on_cpu(&mut self, at: i64) {
        self.cpu.counted_to = Some(at);
    }

    /// Makes room for a sample of the running thread. Returns the thread's CPU time since the sample before.
    pub(super) fn on_cpu(&mut self, at: i64, samples: &mut PackedSamples, tables: &mut WaitTables<'_>) -> Option<u64> {
        match &mut self.state {
            SwitchState::Waiting { since, .. } if at.saturating_sub(*since) <= MISSED_RETURN_NS => {
                self.cpu.add(*since, at, tables.sampled);
                *since = at.max(*since);
            }
            SwitchState::Waiting { .. } => {
                tables.totals.unpaired += 1;
                self.cpu.go_on(at, tables.sampled);
                self.state = SwitchState::Running;
                self.own = None;
            }
            SwitchState::Unknown | SwitchState::Found(_) | SwitchState::Running => {
                self.cpu.go_on(at, tables.sampled);
            }
        }
        // It was on a CPU all the time: a switch to one would have been recorded.
        if let SwitchState::Found(found) = self.state
            && at > found.switches_from
        {
            self.state = SwitchState::Running;
        }
        self.flush(samples, tables);
        self.cpu.take()
    }

    /// Notes the stack of a sample of the running thread.
    pub(super) fn on_cpu_stack(&mut self, stack: Option<StackId>) {
        self.last_on_cpu = stack.map(|stack| SampledWaitStack {
            stack,
            reason: WaitReason::Unknown,
        });
    }

    /// Ends the open wait at the end of the thread or recording. True if there was one.
    pub(super) fn end(&mut self, at: i64, samples: &mut PackedSamples, tables: &mut WaitTables<'_>) -> bool {
        let waiting = match self.state {
            SwitchState::Waiting { since, preempted } => {
                self.wait(since, at, preempted, samples, tables);
                true
            }
            SwitchState::Found(found) => {
                self.found_wait(found, at, samples, tables);
                true
            }
            SwitchState::Unknown | SwitchState::Running => false,
        };
        self.flush(samples, tables);
        waiting
    }

    /// Adds a wait that came with its start and end.
    pub(super) fn waited(&mut self, wait: EndedWait, samples: &mut PackedSamples, tables: &mut WaitTables<'_>) {
        self.flush(samples, tables);
        // A switch record began this wait.
        if let SwitchState::Waiting { since, .. } = &mut self.state {
            *since = wait.until.max(*since);
        }
        let EndedWait { stack, reason, ns, .. } = wait;
        let guess = stack.is_none().then_some(WaitGuess::NotSampled);
        tables.totals.add(reason, guess, ns);
        let stack = tables.stack(WaitKey { stack, guess, reason });
        let length = i64::try_from(ns).unwrap_or(i64::MAX);
        let since = wait.until.saturating_sub(length);
        // A thread that was found begins where its switches begin, which may be later.
        let earliest = wait.earliest.min(wait.until);
        // Only waits above a limit come with start and end: the thread may have had shorter ones in between.
        self.cpu.lose();
        if since >= earliest {
            self.push_pieces(since, length, stack, samples, tables);
        } else {
            tables.push(samples, earliest, ns, stack, self.cpu.take());
        }
    }

    fn wait(
        &mut self,
        since: i64,
        until: i64,
        preempted: bool,
        samples: &mut PackedSamples,
        tables: &mut WaitTables<'_>,
    ) {
        let what = self.what(preempted);
        if let Some(own) = self.own.filter(|_| !preempted) {
            self.last_wait = Some(own);
        }
        self.put(since, until, what, samples, tables);
    }

    /// Adds a wait that began before the recording.
    fn found_wait(&mut self, found: FoundWait, until: i64, samples: &mut PackedSamples, tables: &mut WaitTables<'_>) {
        if until <= found.switches_from {
            return;
        }
        tables.totals.initial += 1;
        let what = match until >= found.looked_at {
            true => found.what(),
            false => self.what(false),
        };
        self.put(found.switches_from, until, what, samples, tables);
    }

    /// Adds the sampled parts of a wait.
    fn put(&mut self, since: i64, until: i64, what: WaitKey, samples: &mut PackedSamples, tables: &mut WaitTables<'_>) {
        for (since, until) in tables.sampled.within(since, until.max(since)) {
            self.put_part(since, until, what, samples, tables);
        }
    }

    fn put_part(
        &mut self,
        since: i64,
        until: i64,
        what: WaitKey,
        samples: &mut PackedSamples,
        tables: &mut WaitTables<'_>,
    ) {
        let length = until.saturating_sub(since).max(0);
        tables.totals.add(what.reason, what.guess, length.unsigned_abs());
        if length < SHORT_NS {
            return self.add(since, length.unsigned_abs(), what, samples, tables);
        }
        self.flush(samples, tables);
        let stack = tables.stack(what);
        self.push_pieces(since, length, stack, samples, tables);
    }

    fn push_pieces(
        &mut self,
        since: i64,
        length: i64,
        stack: StackId,
        samples: &mut PackedSamples,
        tables: &mut WaitTables<'_>,
    ) {
        let pieces = (length / PIECE_NS).clamp(1, MOST_PIECES);
        let piece = length / pieces;
        for number in 0..pieces {
            let start = number * piece;
            let end = if number == pieces - 1 { length } else { start + piece };
            tables.push(
                samples,
                since.saturating_add(start),
                (end - start).unsigned_abs(),
                stack,
                self.cpu.take(),
            );
        }
        // A sample of weight 0: no CPU was used up to here. Otherwise the graph would spread the next sample's CPU time
        // over the wait.
        tables.push(samples, since.saturating_add(length), 0, stack, Some(0));
    }

    /// The stack for a wait, and whether it is a guess.
    fn what(&self, preempted: bool) -> WaitKey {
        let because = |reason| if preempted { WaitReason::Cpu } else { reason };
        if let Some(own) = self.own {
            return WaitKey {
                stack: Some(own.stack),
                guess: None,
                reason: because(own.reason),
            };
        }
        // A preempted thread was still doing what it did on its CPU. Where stacks of waits are sampled at all, one is
        // missing only of a thread that waits more often than can be sampled.
        let wait = self.last_wait.filter(|_| !preempted);
        let (seen, guess) = match (wait, self.last_on_cpu) {
            (Some(wait), _) => (Some(wait), WaitGuess::OtherWait),
            (None, Some(cpu)) => (Some(cpu), WaitGuess::LastOnCpu),
            (None, None) => (None, WaitGuess::NotSampled),
        };
        WaitKey {
            stack: seen.map(|seen| seen.stack),
            guess: Some(guess),
            reason: because(seen.map_or(WaitReason::Unknown, |seen| seen.reason)),
        }
    }

    fn add(&mut self, since: i64, ns: u64, what: WaitKey, samples: &mut PackedSamples, tables: &mut WaitTables<'_>) {
        if let Some(sum) = self.sums.iter_mut().find(|sum| sum.what == what) {
            sum.ns = sum.ns.saturating_add(ns);
        } else {
            if self.sums.len() >= MOST_SUMS {
                self.flush(samples, tables);
            }
            let cpu_before_ns = self.cpu.take();
            self.sums.push(ShortWaits {
                since,
                ns,
                what,
                cpu_before_ns,
            });
        }
        let oldest = self.sums.first().map_or(since, |sum| sum.since);
        if since.saturating_sub(oldest) >= LONGEST_SUM_NS {
            self.flush(samples, tables);
        }
    }

    /// Puts waits that were added up among the samples.
    pub(super) fn flush(&mut self, samples: &mut PackedSamples, tables: &mut WaitTables<'_>) {
        for sum in self.sums.drain(..) {
            let stack = tables.stack(sum.what);
            tables.push(samples, sum.since, sum.ns, stack, sum.cpu_before_ns);
        }
    }
}
