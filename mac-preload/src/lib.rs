//! sprof's library in the programs that it records on macOS, which is inserted by `DYLD_INSERT_LIBRARIES`.
//!
//! Before the program's own code runs, and in each child that the program forks, it sends its process id, the time and
//! the right to its task to the recorder. Then it waits for 2 s at most until the recorder has taken them. Whatever
//! fails, the program runs on, unrecorded. It replaces no function, allocates nothing, and does nothing more.

#![no_std]

#[allow(unsafe_code)]
mod sys;
#[allow(dead_code, reason = "the recorder uses the rest")]
#[path = "../../recorder-macos/src/processes/wire.rs"]
mod wire;

use sys::Recorder;
use wire::Hello;

/// The program has been loaded.
fn start() {
    // Where the recorder is not there, it will not be there in children either.
    if !sys::may_send_its_task() {
        return;
    }
    if let Some(recorder) = Recorder::of_slot().or_else(Recorder::of_name)
        && announce(&recorder)
    {
        sys::at_each_fork();
    }
}

/// This process is a fork. Asking launchd is not safe in a fork of a process with threads.
fn forked() {
    if let Some(recorder) = Recorder::of_slot() {
        announce(&recorder);
    }
}

/// Returns whether the recorder was there.
fn announce(recorder: &Recorder) -> bool {
    let hello = Hello {
        pid: sys::pid(),
        time_ns: sys::now_ns(),
    };
    recorder.ask(hello.to_bytes())
}
