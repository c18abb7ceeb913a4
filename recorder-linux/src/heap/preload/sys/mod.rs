//! All of this library's `unsafe`: entries, system calls, shared memory, other libraries' tables.

mod connect;
mod link_map;
mod machine;
mod patch;
mod ring;
mod slow;
mod stack;
mod start;
mod system;
mod thread;
