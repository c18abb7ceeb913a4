//! Where functions begin in code that says it nowhere: at the targets of calls, at addresses that code takes, and
//! behind the ends of functions.

use std::collections::BTreeSet;
use std::ops::Range;

/// Compilers align functions to this, where they align them.
const ALIGNMENT: u64 = 16;

/// How code goes on behind an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextInstruction {
    /// With the next one.
    Next,
    /// With the next one, after a call. `None`: of a function that a register or a table says.
    Call(Option<u64>),
    /// With the next one, or there.
    Maybe(u64),
    /// There.
    Jump(u64),
    /// Where a register or a table says.
    JumpAnywhere,
    /// In another function, or nowhere.
    End,
}

/// What came before an instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PrecedingCode {
    GoesOn,
    Ended,
    /// A call, which may not return.
    Called,
    /// Called, and behind padding.
    CalledAndPadded,
}

/// Goes over the instructions of a piece of code, in order.
pub(crate) struct StartFinder<'a> {
    code: Range<u64>,
    starts: &'a mut BTreeSet<u64>,
    /// The present function goes on at least to here.
    ahead: u64,
    before: PrecedingCode,
    /// The present function jumps through a table.
    has_table: bool,
    /// What follows the end of a function.
    behind: BTreeSet<u64>,
    /// Targets of jumps that may not be made.
    inside: BTreeSet<u64>,
    /// Targets and sources of other jumps.
    jumps: BTreeSet<(u64, u64)>,
}

impl<'a> StartFinder<'a> {
    /// `starts`: where functions are known to begin. What is found is added there.
    pub(crate) fn new(code: Range<u64>, starts: &'a mut BTreeSet<u64>) -> StartFinder<'a> {
        StartFinder {
            code,
            starts,
            ahead: 0,
            before: PrecedingCode::GoesOn,
            has_table: false,
            behind: BTreeSet::new(),
            inside: BTreeSet::new(),
            jumps: BTreeSet::new(),
        }
    }

    /// Comes to an instruction. Returns where the next function begins, if that is known and within the instruction:
    /// data was taken for code.
    pub(crate) fn at(&mut self, instruction: Range<u64>, is_padding: bool) -> Option<u64> {
        let at = instruction.start;
        let is_aligned = at.is_multiple_of(ALIGNMENT);
        if self.starts.contains(&at) {
            self.begin();
        } else if at <= self.ahead {
            self.before = PrecedingCode::GoesOn;
        } else if is_padding {
            self.before = match self.before {
                PrecedingCode::Called => PrecedingCode::CalledAndPadded,
                before => before,
            };
        } else {
            let is_start = match self.before {
                PrecedingCode::Ended => is_aligned || !self.has_table,
                PrecedingCode::CalledAndPadded => is_aligned,
                PrecedingCode::GoesOn | PrecedingCode::Called => false,
            };
            if is_start {
                self.behind.insert(at);
                self.begin();
            }
            self.before = PrecedingCode::GoesOn;
        }
        let next = self.starts.range(at + 1..instruction.end).next().copied();
        if next.is_some() {
            self.before = PrecedingCode::GoesOn;
        }
        next
    }

    fn begin(&mut self) {
        self.ahead = 0;
        self.has_table = false;
        self.before = PrecedingCode::GoesOn;
    }

    /// Goes on behind the instruction at `at`.
    pub(crate) fn go_on(&mut self, at: u64, flow: NextInstruction) {
        match flow {
            NextInstruction::Next => {}
            NextInstruction::Call(target) => {
                self.starts.extend(target.filter(|target| self.code.contains(target)));
                self.before = PrecedingCode::Called;
            }
            NextInstruction::Maybe(target) => {
                self.inside.insert(target);
                self.comes_to(target);
            }
            NextInstruction::Jump(target) => {
                self.jumps.insert((target, at));
                if !self.starts.contains(&target) {
                    self.comes_to(target);
                }
                self.before = PrecedingCode::Ended;
            }
            NextInstruction::JumpAnywhere => {
                self.has_table = true;
                self.before = PrecedingCode::Ended;
            }
            NextInstruction::End => self.before = PrecedingCode::Ended,
        }
    }

    fn comes_to(&mut self, target: u64) {
        if self.code.contains(&target) {
            self.ahead = self.ahead.max(target);
        }
    }

    /// Code takes an address, at which a function may begin.
    pub(crate) fn takes(&mut self, address: u64) {
        if self.code.contains(&address) {
            self.starts.insert(address);
        }
    }

    /// Adds what follows the ends of functions, but where the same function jumps to.
    pub(crate) fn finish(self) {
        let (behind, inside) = (&self.behind, &self.inside);
        let all: BTreeSet<u64> = self.starts.union(behind).copied().collect();
        let is_jumped_to = |start: u64| {
            let from = all.range(..start).next_back().copied().unwrap_or(self.code.start);
            let to = all.range(start + 1..).next().copied().unwrap_or(self.code.end);
            let jumps = self.jumps.range((start, from)..(start, to));
            inside.contains(&start) || jumps.count() > 0
        };
        let begins: Vec<u64> = behind.iter().copied().filter(|start| !is_jumped_to(*start)).collect();
        self.starts.extend(begins);
    }
}
