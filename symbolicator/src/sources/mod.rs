//! Source files: where they lie on this machine, and their text.
//!
//! - [`path_map`]: folders that the user names.
//! - [`local`]: the sources of Rust's library and of cargo's packages.
//! - [`text`]: reads a file, unless it must not be shown.

mod local;
mod path_map;
pub(crate) mod text;

pub use local::LocalSources;
pub use path_map::PathMap;
pub use text::SourceError;
