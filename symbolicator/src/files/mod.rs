//! The files of a module: where they are, and one of them in memory.
//!
//! - [`options`]: where to look.
//! - [`locate`]: the file that ran and its debug info; [`dsym`] and [`shared_cache`] are places of macOS, [`separate`]
//!   finds debug files and parts that lie elsewhere.
//! - [`object_file`]: an opened ELF or Mach-O file; [`universal`] and [`mach_o`] read what is particular to Mach-O.

mod dsym;
pub(crate) mod locate;
pub(crate) mod mach_o;
pub(crate) mod object_file;
pub(crate) mod options;
pub(crate) mod separate;
mod shared_cache;
pub(crate) mod universal;
