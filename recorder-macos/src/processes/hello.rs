//! Programs that announce themselves, by the library that was inserted into them: what of it is believed.
//!
//! Anybody may send to the recorder's port. So the kernel's word counts: for the sender, and for whose task was sent.

use crate::kernel::{Failure, Letter, Mach, Sender};

use super::wire::{Hello, SEND_MS, WAIT_MS};

/// Why a message is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its sender has ended.
    Ended,
    /// It is from another user.
    OtherUser,
    /// It is no hello, or one of another version of sprof.
    Malformed,
    /// It names another process than its sender, or another one's task.
    OtherProcess,
}

/// Reads a message from `sender`, with the task of `task_of`, to a recorder of `user`.
pub fn check(bytes: &[u8], sender: Sender, task_of: Option<i32>, user: u32) -> Result<Hello, Refusal> {
    if sender.user != user {
        return Err(Refusal::OtherUser);
    }
    let hello = Hello::from_bytes(bytes).ok_or(Refusal::Malformed)?;
    let task_of = task_of.ok_or(Refusal::Ended)?;
    match hello.pid == sender.pid && hello.pid == task_of {
        true => Ok(hello),
        false => Err(Refusal::OtherProcess),
    }
}

/// Reads a letter.
pub(crate) fn open<M: Mach>(mach: &M, letter: &Letter<M::Sent>) -> Result<Hello, Refusal> {
    check(&letter.bytes, letter.sender, mach.sent_pid(&letter.sent), mach.user())
}

/// True if the sender had given up waiting at this time.
pub(crate) fn was_late(hello: Hello, now_ns: u64) -> bool {
    let patience_ns = u64::from(SEND_MS + WAIT_MS) * 1_000_000;
    now_ns.saturating_sub(hello.time_ns) > patience_ns
}

/// Keeps the tasks of all programs that have announced themselves, and lets them go on.
pub(crate) fn keep_all<M: Mach>(mach: &M) {
    for letter in mach.letters() {
        if let Ok(hello) = open(mach, &letter) {
            // A process whose task is not kept is reported as not reached.
            let _: Result<(), Failure> = mach.keep(hello.pid, &letter.sent);
        }
    }
}
