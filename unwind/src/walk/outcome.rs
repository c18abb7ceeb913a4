//! What a walk found: its frames, and how it ended.

use recording::stack::Frame;

/// What identifies a frame between two samples of a thread: same code, same place on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FramePoint {
    pub(crate) frame: Frame,
    pub(crate) sp: u64,
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkEnd {
    /// The last frame has no caller.
    Root,
    /// The last frame's return address is 0 in memory that was read after the sample.
    NoReturnAddress,
    /// The last frame is on a stack of the runtime, and its caller on another one.
    OtherStack,
    NoMemory,
    NoRule,
    Depth,
}

/// A finished walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WalkOutcome {
    pub(crate) end: WalkEnd,
    /// The first frame whose caller was looked for with bytes read after the sample: index into the points.
    pub(crate) live_boundary: Option<usize>,
    /// True if at least one caller was found by frame pointer or by guess.
    pub(crate) guessed: bool,
    /// True if at least one caller was found by the code of a function without rules.
    pub(crate) by_code: bool,
}
