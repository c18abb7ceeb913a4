//! Why symbol servers can't be used.

use std::path::PathBuf;

use crate::error::build_with;

/// Why symbol servers can't be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SymbolServersError {
    /// The feature is missing.
    #[error("this sprof can't ask symbol servers: {}", build_with!("symbol-servers"))]
    NotBuilt,
    /// A server is not an HTTP or HTTPS URL.
    #[error("{0} is not the URL of a symbol server: it must begin with https:// or http://")]
    NoUrl(String),
    /// The folder for downloads can't be made.
    #[error("the folder for downloads {} can't be made ({reason}): name another one with SPROF_CACHE", .path.display())]
    NoFolder {
        /// The folder.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The HTTP client can't be started.
    #[error("the HTTP client can't be started: {0}")]
    NoClient(String),
}
