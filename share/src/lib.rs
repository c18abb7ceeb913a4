//! Profiles for others: on the public store, in buckets, and on servers that keep profiles.
//!
//! The caller gives bytes of a profile, or a view of its samples, and where they go, and gets a link, or an error that
//! says what failed, on which host, and the next step. Every request is made by [`http`], once: nothing is sent twice.
//! No secret is in an error or in what `Debug` shows. Out of scope: what of a profile is private
//! ([`profile::sanitize`]), questions to the user, and messages.
//!
//! ```
//! use share::push::{Destination, ServerKind};
//!
//! let destination = Destination::parse("parca=http://localhost:7070", false, "push")?;
//! assert_eq!(destination.kind, ServerKind::Parca);
//! // Other machines need encryption, unless the user permits that they do not.
//! assert!(Destination::parse("parca=http://example.org", false, "push").is_err());
//! # Ok::<(), String>(())
//! ```
//!
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
