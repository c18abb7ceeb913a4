//! A build without the feature `symbol-servers`.

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use recording::module::Module;

use super::error::SymbolServersError;
use crate::downloads::Watcher;

/// Symbol servers, which this build can't ask.
#[derive(Debug)]
pub struct NoSymbolServers(Infallible);

impl NoSymbolServers {
    /// The servers at these URLs.
    ///
    /// # Errors
    ///
    /// This build has no feature `symbol-servers`.
    pub fn new(
        _urls: &[String],
        _folder: PathBuf,
        _watcher: Box<Watcher>,
    ) -> Result<NoSymbolServers, SymbolServersError> {
        Err(SymbolServersError::NotBuilt)
    }

    pub(super) fn folder(&self) -> &Path {
        match self.0 {}
    }

    pub(super) fn download(&self, _module: &Module) -> Option<Vec<PathBuf>> {
        match self.0 {}
    }
}
