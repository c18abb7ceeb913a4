//! What a tick needs of the whole recording.

use std::collections::HashMap;

use recording::outbox::Outbox;

use super::stack_copy::StackCopy;
use super::totals::{Totals, UnreachedProcess};
use crate::kernel::Mach;

/// One tick.
pub(super) struct Tick<'s, M: Mach> {
    pub(super) mach: &'s M,
    pub(super) out: &'s mut Outbox,
    pub(super) stack: &'s mut StackCopy,
    pub(super) system_calls: Option<&'s mut SystemCallNames>,
    pub(super) totals: &'s mut Totals,
    pub(super) unreached: &'s mut Vec<UnreachedProcess>,
    pub(super) interval_ns: u64,
    /// It is the second look of a tick, shortly after the first one.
    pub(super) is_second: bool,
    pub(super) found: &'s mut LookCounts,
}

/// Where a look found threads.
#[derive(Debug, Default)]
pub(super) struct LookCounts {
    pub(super) on_cpu: u64,
    /// Waiting for a CPU, after they had one since the last look.
    pub(super) lost_cpu: u64,
}

/// Maximum number of addresses that are remembered. A few dozen functions wait.
const MOST_ADDRESSES: usize = 4096;

/// System calls by the address of the instruction behind them, which is the same in all processes.
#[derive(Debug, Default)]
pub(super) struct SystemCallNames(HashMap<u64, Option<String>>);

impl SystemCallNames {
    /// The name of the system call whose instruction is before an address; `None` if it is not a system call.
    pub(super) fn name_before<M: Mach>(&mut self, mach: &M, address: u64) -> Option<&str> {
        if self.0.len() >= MOST_ADDRESSES {
            self.0.clear();
        }
        let known = self.0.entry(address).or_insert_with(|| mach.system_call(address));
        known.as_deref()
    }
}
