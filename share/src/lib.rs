#![doc = include_str!("../README.md")]
//! 1. [`http`]: the HTTP client, the only place that opens connections to other machines.
//! 2. [`Store`]: the store of the Firefox Profiler. [`s3`]: buckets. [`push`]: servers that keep profiles.
//!    [`commit`]: the commit that labels name.
//! 3. [`SharedFolder`]: what was shared, and the keys to delete it, in the user's data folder.
//! 4. [`private()`]: what is private on this machine.
//! 5. [`files`]: files that only their user may read. They are here because keys are such files; the command line
//!    writes all others in the same way.

pub mod commit;
pub mod files;
pub mod http;
mod private;
pub mod push;
pub mod s3;
mod shared_folder;
mod store;

pub use private::private;
pub use shared_folder::{SharedFolder, SharedObject, SharedProfile, SharedProfiles, named_in, unsigned};
pub use store::{PUBLIC_MAX_BYTES, Store, Uploaded, deleted};
