//! Rules of functions from their code, for functions that no table describes where they were interrupted, or at all.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::arch::Arch;
use crate::arch::frame_scan::RulesByOffset;
use crate::arch::rule::Rule;

/// The code of a larger function is not read. The interpreter loop of CPython has 60 KiB.
const MAX_FUNCTION: u64 = 256 << 10;
/// Rules of functions whose code was read that are remembered. A function has some ten.
const MAX_RULES: usize = 1 << 18;

/// Rules of the functions of one file.
#[derive(Default)]
pub(crate) struct CodeRules {
    /// By the first address of a function.
    by_start: FxHashMap<u64, RulesByOffset>,
    /// How many rules there are, and one for each function.
    count: usize,
}

impl CodeRules {
    /// The rule at an address of a function. `read` reads the code of a range. `None`: the code does not say it.
    pub(crate) fn at<A: Arch>(
        &mut self,
        address: u64,
        function: Range<u64>,
        read: impl FnOnce(Range<u64>) -> Option<Vec<u8>>,
    ) -> Option<Rule> {
        let start = function.start;
        if !self.by_start.contains_key(&start) {
            let size = function.end.saturating_sub(start);
            let code = (size <= MAX_FUNCTION).then(|| read(function)).flatten();
            let rules = code.map_or(Vec::new(), |code| A::rules_by_code(&code));
            if self.count >= MAX_RULES {
                *self = CodeRules::default();
            }
            self.count += rules.len() + 1;
            self.by_start.insert(start, rules);
        }
        let rules = self.by_start.get(&start)?;
        let offset = u32::try_from(address.checked_sub(start)?).ok()?;
        let at = rules.partition_point(|(from, _)| *from <= offset).checked_sub(1)?;
        rules.get(at)?.1
    }
}
