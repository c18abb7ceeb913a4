//! A build without the feature `foreign-symbols`.

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use names::symbol::AddressInfo;
use recording::module::Module;

use crate::error::SymbolError;

/// A file that is never opened.
pub(crate) struct NoForeignFile(Infallible);

impl NoForeignFile {
    pub(crate) fn open(module: &Module, path: &Path) -> Result<NoForeignFile, SymbolError> {
        Err(SymbolError::ForeignSymbols {
            name: module.name(),
            found: Some(path.to_owned()),
        })
    }

    pub(crate) fn not_found(module: &Module, _dirs: Vec<PathBuf>) -> SymbolError {
        SymbolError::ForeignSymbols {
            name: module.name(),
            found: None,
        }
    }

    pub(crate) fn lookup(&self, _addresses: &[u64]) -> Result<Vec<AddressInfo>, SymbolError> {
        match self.0 {}
    }

    pub(crate) fn held_bytes(&self) -> usize {
        match self.0 {}
    }

    pub(crate) fn check_unchanged(&self) -> bool {
        match self.0 {}
    }
}
