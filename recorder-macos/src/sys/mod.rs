//! The calls of XNU, and all of this crate's `unsafe`. Every function here is safe to call with any arguments.
//!
//! Declarations come from mach2 and libc; `task_read_for_pid`, `pid_for_task` and a few more are in neither. It is
//! type-checked and linked for both processors, and has never run on a Mac.

mod kqueue;
mod machine;
mod port;
mod port_messages;
mod priority;
mod process;
mod signals;
mod spawn;
mod task;
mod thread;
mod time;
mod xnu;

pub use signals::say_if_quit;
pub use time::thread_cpu_ns;
pub use xnu::Xnu;
