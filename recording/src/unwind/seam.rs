//! What of a stack read after the sample can be believed.
//!
//! Bytes beyond the sample's dump are read some milliseconds later. If the thread has returned from the frames in
//! between, they are another call's. The seam is the first frame whose caller was found with such bytes.
//!
//! A stack is accepted where a stack of the same thread, sampled earlier, agrees: the seam's frame and all frames
//! rootwards of it are the same in code address and stack pointer. Two readings at different times then found the same
//! chain, and at both times the seam's frame was there. What no earlier stack agrees with is marked.

use super::walk::Point;

/// What to think of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Found with the sample's own bytes.
    FromSample,
    /// Completed live; an earlier stack agrees.
    Agrees,
    /// Completed live; nothing confirms it.
    Unverified,
}

/// Earlier stacks of one thread.
#[derive(Default)]
pub(super) struct ThreadStacks {
    /// The last stack.
    last: Vec<Point>,
    /// The last stack that was completed live, if another one came after it.
    deep: Vec<Point>,
    last_is_deep: bool,
}

impl ThreadStacks {
    /// Judges a stack and keeps it. `points` is exchanged for memory of an older one.
    pub(super) fn judge(&mut self, points: &mut Vec<Point>, seam: Option<usize>) -> Verdict {
        let verdict = match seam {
            None => Verdict::FromSample,
            Some(seam) => {
                let unconfirmed = points.get(seam..).unwrap_or_default();
                if self.last.ends_with(unconfirmed) || self.deep.ends_with(unconfirmed) {
                    Verdict::Agrees
                } else {
                    Verdict::Unverified
                }
            }
        };
        if self.last_is_deep && seam.is_none() {
            std::mem::swap(&mut self.last, &mut self.deep);
        }
        std::mem::swap(&mut self.last, points);
        self.last_is_deep = seam.is_some();
        verdict
    }
}
