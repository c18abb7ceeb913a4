//! What reads profiles: the caller's part of the page.

use std::fs::File;
use std::path::Path;

use profile::data::Data;
use profile::read::ReadLimits;

/// Reads files of every kind that the caller knows. Each call may take long; it has a thread of its own. The message of
/// an error follows the file's name and does not repeat it: a path here leads to an open file.
pub trait ProfileReader: Send + Sync {
    /// The samples of one event, with names.
    ///
    /// # Errors
    ///
    /// Why the file can't be read.
    fn read(&self, path: &Path, limits: ReadLimits) -> Result<ReadProfile, String>;

    /// The samples of all events, and counters: for the viewer.
    ///
    /// # Errors
    ///
    /// Why the file can't be read.
    fn read_for_viewer(&self, path: &Path, limits: ReadLimits) -> Result<ReadProfile, String>;

    /// True if the profiler UI can't read the file: [`ProfileReader::convert`] makes one that it can.
    fn needs_conversion(&self, path: &Path) -> bool;

    /// A file for the profiler UI.
    ///
    /// # Errors
    ///
    /// Why the file can't be converted.
    fn convert(&self, path: &Path) -> Result<File, String>;
}

/// A profile that was read.
pub struct ReadProfile {
    /// Its samples.
    pub data: Data,
    /// What limits the data, a line each: addresses without names, what the file lacked.
    pub notes: Vec<String>,
}
