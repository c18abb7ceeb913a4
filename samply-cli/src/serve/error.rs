//! Why nothing can be served.

use std::io;
use std::net::SocketAddr;

use crate::exit::Failure;

/// Why nothing can be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    /// The port or address cannot be used.
    #[error("cannot listen on {address}: {error}; {next_step}")]
    Bind {
        address: SocketAddr,
        error: io::Error,
        next_step: String,
    },
    /// `--ui-dir` is not a built UI.
    #[error("cannot serve the UI from {dir}: {reason}")]
    UiDir { dir: String, reason: String },
    /// PROFILER_URL is no address.
    #[error("PROFILER_URL: {0}")]
    UiUrl(String),
    /// The system gave no random bytes or no thread.
    #[error("cannot start the server: {0}")]
    Start(String),
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Failure {
        Failure::failed(error)
    }
}
