//! Why a file cannot be imported.

use std::io;

/// Why a file cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Reading failed.
    #[error("reading it failed: {0}")]
    Io(#[from] io::Error),
    /// Another kind of file.
    #[error("it is not a perf.data file")]
    NotPerfData,
    /// From a machine of the other byte order.
    #[error("it was recorded on a machine of the other byte order; open it on one like that")]
    ByteOrder,
    /// Not even the header is whole.
    #[error("it ends or is damaged before the first event; record again")]
    NoEvents,
    /// No event has the name that was asked for.
    #[error("it has no event `{asked}`; it has: {known}")]
    NoSuchEvent {
        /// As the user typed it.
        asked: String,
        /// All names.
        known: String,
    },
}
