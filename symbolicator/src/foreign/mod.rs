//! Symbol files of other systems: PDB, Breakpad.
//!
//! A published engine reads them, behind the feature `foreign-symbols`; their servers are behind `symbol-servers`. A
//! build without a feature finds the files and names the feature. A file is used only if it has the debug id of the
//! module.

#[cfg(feature = "foreign-symbols")]
mod engine;
mod error;
#[cfg(feature = "foreign-symbols")]
mod guarded;
#[cfg(not(feature = "foreign-symbols"))]
mod no_engine;
#[cfg(not(feature = "symbol-servers"))]
mod no_servers;
mod paths;
#[cfg(feature = "symbol-servers")]
mod servers;

use std::fs;
use std::path::{Component, Path, PathBuf};

use recording::module::{Module, ModuleKind};

#[cfg(feature = "foreign-symbols")]
pub(crate) use engine::ForeignFile;
pub use error::SymbolServersError;
#[cfg(not(feature = "foreign-symbols"))]
pub(crate) use no_engine::NoForeignFile as ForeignFile;
#[cfg(not(feature = "symbol-servers"))]
pub use no_servers::NoSymbolServers as SymbolServers;
#[cfg(feature = "symbol-servers")]
pub use servers::SymbolServers;

use self::paths::{breakpad_name, stored};
use crate::error::SymbolError;

/// Opens the symbols of a module. `object` is why the module has no ELF or Mach-O file, if one was looked for.
pub(crate) fn open(
    module: &Module,
    symbol_dirs: &[PathBuf],
    servers: Option<&SymbolServers>,
    object: Option<SymbolError>,
) -> Result<ForeignFile, SymbolError> {
    let dirs = || {
        let dirs = symbol_dirs.iter().map(PathBuf::as_path);
        dirs.chain(servers.map(SymbolServers::folder))
    };
    let mut failure = None;
    for candidate in candidates(module, dirs()) {
        match ForeignFile::open(module, &candidate) {
            Ok(file) => return Ok(file),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    if let Some((servers, downloaded)) = servers
        .filter(|_| is_identified(module))
        .and_then(|servers| Some((servers, servers.download(module)?)))
    {
        for path in stored(module, servers.folder())
            .into_iter()
            .filter(|path| path.is_file())
        {
            match ForeignFile::open(module, &path) {
                Ok(file) => return Ok(file),
                Err(error) => {
                    // A file that was downloaded now would be there at the next start. The other files may have just
                    // been put there by another sprof.
                    if downloaded.contains(&path) {
                        let _ = fs::remove_file(&path);
                    }
                    failure = failure.or(Some(error));
                }
            }
        }
    }
    let not_found = || ForeignFile::not_found(module, dirs().map(Path::to_owned).collect());
    Err(failure.or(object).unwrap_or_else(not_found))
}

/// True if a file can be recognised: the module has a debug id, and a name that is not a path. The profile may name
/// anything.
fn is_identified(module: &Module) -> bool {
    let name = module.name();
    let mut parts = Path::new(&name).components();
    let is_name = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    is_name && module.build_id.is_some()
}

/// The existing files that may have the symbols, the likeliest first.
fn candidates<'a>(module: &Module, dirs: impl Iterator<Item = &'a Path>) -> Vec<PathBuf> {
    let name = module.name();
    if !is_identified(module) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for dir in dirs {
        let mut paths = stored(module, dir).to_vec();
        paths.push(dir.join(breakpad_name(&name)));
        if let ModuleKind::Windows { .. } = module.kind {
            paths.push(dir.join(&name));
        }
        found.extend(paths.into_iter().filter(|path| path.is_file()));
    }
    found
}
