//! Verifies the messages of programs that announce themselves, by the library that was inserted into them.
//!
//! Anybody may send to the recorder's port. So the kernel decides who the sender is, and whose task was sent.

use crate::kernel::{Mach, MachError, PortMessage, Sender};

use super::wire::{Hello, SEND_MS, WAIT_MS};

/// Why a message is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelloRefusal {
    /// Its sender has ended.
    Ended,
    /// It is from another user.
    OtherUser,
    /// It is not a hello, or a hello of another version of sprof.
    Malformed,
    /// It names another process than its sender, or another one's task.
    OtherProcess,
}

/// Reads a message from `sender`, with the task of process `task_of`, to a recorder of `user`.
///
/// # Errors
///
/// The message must not be believed, for the reason that [`HelloRefusal`] gives.
pub fn check(bytes: &[u8], sender: Sender, task_of: Option<i32>, user: u32) -> Result<Hello, HelloRefusal> {
    if sender.user != user {
        return Err(HelloRefusal::OtherUser);
    }
    let hello = Hello::from_bytes(bytes).ok_or(HelloRefusal::Malformed)?;
    let task_of = task_of.ok_or(HelloRefusal::Ended)?;
    if hello.pid == sender.pid && hello.pid == task_of {
        Ok(hello)
    } else {
        Err(HelloRefusal::OtherProcess)
    }
}

/// Reads a letter.
pub(crate) fn open<M: Mach>(mach: &M, message: &PortMessage<M::MessageRights>) -> Result<Hello, HelloRefusal> {
    check(
        &message.bytes,
        message.sender,
        mach.task_pid(&message.rights),
        mach.user(),
    )
}

/// True if the sender had given up waiting at this time.
pub(crate) fn was_late(hello: Hello, now_ns: u64) -> bool {
    let patience_ns = u64::from(SEND_MS + WAIT_MS) * 1_000_000;
    now_ns.saturating_sub(hello.time_ns) > patience_ns
}

/// Keeps the tasks of all programs that have announced themselves, and lets them go on.
pub(crate) fn keep_all<M: Mach>(mach: &M) {
    for message in mach.messages() {
        if let Ok(hello) = open(mach, &message) {
            // A process whose task is not kept is reported as not reached.
            let _: Result<(), MachError> = mach.keep_task(hello.pid, &message.rights);
        }
    }
}
