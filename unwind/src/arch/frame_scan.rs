//! One pass over the code of a function, which finds the frame before each instruction.
//!
//! Compact entries describe the body of a function alone. Tables that are not asynchronous are wrong in prologues and
//! epilogues as well. But a function moves the stack pointer by constants and stores its caller's registers at
//! constant places. All ways to an instruction have the same frame: unwind tables could not describe it otherwise. So
//! one pass over the code, which follows each jump forwards, finds the frame. Where a jump back leads to code that the
//! pass knew nothing of, as to the body of a loop that begins with its condition, another pass starts with that. The
//! one exception is a loop that moves the stack pointer. Code that no such jump leads to is a target of the jump table
//! before it, and has the frame of that jump. Code that is left, and code that does not fit into these forms, is
//! unknown: there the table holds.

use std::collections::{BTreeMap, BTreeSet};

use crate::arch::rule::Rule;

/// The rules that hold in a function, each from an offset on. `None`: not known.
pub(crate) type RulesByOffset = Vec<(u32, Option<Rule>)>;

/// Compilers make one such loop in a function. A function with more is made to keep the scan busy.
const MAX_LOOPS: usize = 16;
/// Loops in loops, each beginning with its condition, need one more each.
const MAX_PASSES: usize = 6;

/// The frame before an instruction.
pub(crate) trait ScannedFrame: Copy + PartialEq {
    fn rule(self) -> Option<Rule>;
    /// How far the CFA is above the stack pointer, if that is known.
    fn sp(self) -> Option<i64>;
    fn without_sp(self) -> Self;
}

/// A pass over the code of a function.
pub(crate) struct FrameScan<F> {
    now: Option<F>,
    /// Where the instruction is.
    position: usize,
    /// Loops that move the stack pointer.
    loops: usize,
    /// Frames so far, each from an offset on.
    frames: Vec<(usize, F)>,
    /// Frames at the targets of jumps, by offset.
    ahead: BTreeMap<usize, F>,
    entry: F,
    /// At the last jump through a table.
    table: Option<F>,
    /// Instructions whose frame is not known.
    unknown: BTreeSet<usize>,
    /// Instructions in `unknown` that jumps back lead to, with their frames.
    behind: BTreeMap<usize, F>,
    rules: RulesByOffset,
}

/// The rules of a function, in which the frame is `entry` before the first instruction, and that `pass_over` passes
/// over.
pub(crate) fn rules<F: ScannedFrame>(entry: F, mut pass_over: impl FnMut(&mut FrameScan<F>)) -> RulesByOffset {
    let mut known = BTreeMap::new();
    for _ in 1..MAX_PASSES {
        let mut pass = FrameScan::new(entry, known.clone());
        pass_over(&mut pass);
        if pass.behind.is_empty() {
            return pass.rules;
        }
        known.append(&mut pass.behind);
    }
    let mut pass = FrameScan::new(entry, known);
    pass_over(&mut pass);
    pass.rules
}

impl<F: ScannedFrame> FrameScan<F> {
    /// `known`: frames at instructions that earlier passes did not come to.
    fn new(entry: F, known: BTreeMap<usize, F>) -> FrameScan<F> {
        FrameScan {
            now: Some(entry),
            position: 0,
            loops: 0,
            frames: Vec::new(),
            ahead: known,
            entry,
            table: None,
            unknown: BTreeSet::new(),
            behind: BTreeMap::new(),
            rules: Vec::new(),
        }
    }

    /// Comes to the instruction at an offset. `None`: its frame is not known.
    pub(crate) fn at(&mut self, at: usize) -> Option<F> {
        self.position = at;
        while let Some(next) = self.ahead.first_entry().filter(|next| *next.key() <= at) {
            // What is before it may be a call that does not return.
            let (target, frame) = next.remove_entry();
            if target == at {
                self.now = Some(frame);
            }
        }
        self.now = self.now.or(self.table);
        if self.now.is_none() {
            self.unknown.insert(at);
        }
        if let Some(now) = self.now
            && self.frames.last().is_none_or(|(_, last)| *last != now)
        {
            self.frames.push((at, now));
        }
        let rule = self.now.and_then(F::rule);
        if self.rules.last().is_none_or(|(_, last)| *last != rule) {
            self.rules.extend(u32::try_from(at).ok().map(|at| (at, rule)));
        }
        self.now
    }

    /// The next instruction follows, with this frame.
    pub(crate) fn go_on(&mut self, frame: F) {
        self.now = Some(frame);
    }

    /// The instruction may jump to an offset. Returns the frame with which it goes on where it does not.
    pub(crate) fn jump(&mut self, to: Option<usize>, frame: F) -> F {
        let Some(to) = to else { return frame };
        if to > self.position {
            self.ahead.entry(to).or_insert(frame);
            return frame;
        }
        if self.unknown.contains(&to) {
            self.behind.entry(to).or_insert(frame);
            return frame;
        }
        // A loop that moves the stack pointer touches each page of a large frame, until it comes to an end that was
        // computed.
        let known = self.frames.partition_point(|(at, _)| *at <= to).checked_sub(1);
        let before = known.and_then(|at| self.frames.get(at)).map(|(_, frame)| frame.sp());
        if frame.sp().is_none() || before.is_none_or(|sp| sp == frame.sp()) {
            return frame;
        }
        self.loops += 1;
        if self.loops <= MAX_LOOPS {
            self.forget_from(to);
        }
        frame.without_sp()
    }

    /// What counts from the stack pointer is not known from an offset on.
    fn forget_from(&mut self, to: usize) {
        let Ok(from) = u32::try_from(to) else { return };
        let first = self.rules.partition_point(|(at, _)| *at < from);
        let before = first.checked_sub(1).and_then(|at| self.rules.get(at)?.1);
        if before.is_some_and(|rule| rule.is_from_sp()) && self.rules.get(first).is_none_or(|(at, _)| *at != from) {
            self.rules.insert(first, (from, None));
        }
        for (_, rule) in self.rules.iter_mut().skip(first) {
            *rule = rule.filter(|rule| !rule.is_from_sp());
        }
    }

    /// The instruction jumps to an address that it computes. Where the frame is gone again, that is a tail call.
    pub(crate) fn jump_anywhere(&mut self, frame: F) {
        if frame.rule() != self.entry.rule() {
            self.table = Some(frame);
        }
        self.now = None;
    }

    /// The next instruction does not follow.
    pub(crate) fn end(&mut self) {
        self.now = None;
    }
}

/// Where the value is that a register had when the function was called. Places count from the CFA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SavedRegister {
    InRegister,
    /// There, and in the register.
    Stored(i64),
    /// There alone.
    Away(i64),
    Lost,
}

impl SavedRegister {
    /// The register gets another value.
    pub(crate) fn lost(self) -> SavedRegister {
        match self {
            SavedRegister::InRegister => SavedRegister::Lost,
            SavedRegister::Stored(at) => SavedRegister::Away(at),
            kept => kept,
        }
    }

    /// The register is stored. `None`: at a place that is not known.
    pub(crate) fn stored(self, at: Option<i64>) -> SavedRegister {
        match (self, at) {
            (SavedRegister::InRegister, Some(at)) => SavedRegister::Stored(at),
            _ => self,
        }
    }

    /// The register is loaded.
    pub(crate) fn loaded(self, from: Option<i64>) -> SavedRegister {
        match self {
            SavedRegister::Stored(at) | SavedRegister::Away(at) if from == Some(at) => SavedRegister::Stored(at),
            _ => self.lost(),
        }
    }

    /// Where an unwind rule finds the value; the inner `None`: in the register. In memory if it is there, as long as
    /// the frame is: on another way to the same instruction, the register may have got another value. `sp`: CFA - stack
    /// pointer.
    pub(crate) fn place(self, sp: Option<i64>) -> Option<Option<i64>> {
        match self {
            SavedRegister::Stored(at) if sp.is_some_and(|sp| at < -sp) => Some(None),
            SavedRegister::Stored(at) | SavedRegister::Away(at) => Some(Some(at)),
            SavedRegister::InRegister => Some(None),
            SavedRegister::Lost => None,
        }
    }
}
