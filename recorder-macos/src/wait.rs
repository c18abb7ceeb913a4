//! Which function of the kernel waits for what.

use recording::wait::WaitReason;

/// Nothing yet: the kernel's stacks are not recorded here.
pub fn reason_of_function(_name: &str) -> Option<WaitReason> {
    None
}
