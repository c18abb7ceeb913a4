//! What is particular to Mach-O: its symbol tables (`symbols`, `exports`), and debug info that stays in the object
//! files (`debug_map`, `object_files`).

pub(super) mod debug_map;
mod exports;
mod object_files;
pub(super) mod symbols;
