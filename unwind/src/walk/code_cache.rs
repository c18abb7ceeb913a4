//! What walks have found out of code, for all threads and processes.

use rustc_hash::FxHashMap;

use crate::arch::NearbyCode;
use crate::tables::jit::JitRules;
use crate::walk::calls::CallChecks;

/// A place in a file or in a process: module, process if anonymous, relative address.
pub(crate) type CodeAddress = (u32, i32, u64);

/// What walks have found out of code, for all threads and processes.
#[derive(Default)]
pub(crate) struct CodeCache {
    /// Whether a place without unwind rules is a signal return function.
    pub(crate) signal_returns: FxHashMap<CodeAddress, bool>,
    pub(crate) calls: CallChecks,
    /// Code that was read. Forgotten when memory of no file is mapped.
    pub(crate) code: FxHashMap<CodeAddress, NearbyCode>,
    /// Which addresses in code without rules are in a frame that their function has made.
    pub(crate) frames: FxHashMap<CodeAddress, bool>,
    pub(crate) jit: JitRules,
}
