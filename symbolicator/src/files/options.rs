//! How to look for symbols.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use crate::debuginfod::Debuginfod;
use crate::foreign::SymbolServers;
use crate::sources::PathMap;

/// How to look for symbols.
#[derive(Clone, Debug, Default)]
pub struct SymbolOptions {
    /// Folders to search for binaries and debug files: flat, with a `.build-id` tree, or laid out like a debuginfod
    /// cache. Default: none.
    pub symbol_dirs: Vec<PathBuf>,
    /// Where sources lie on this machine. The first that fits counts. Default: where the debug info says.
    pub path_maps: Vec<PathMap>,
    /// A folder of this user's for what the next start need not find out again: answers, names of the kernel, unpacked
    /// debug sections. It is made if needed. Default: none.
    pub cache: Option<PathBuf>,
    /// Servers that are asked for debug info and sources that this machine lacks. Default: none, and no network.
    pub debuginfod: Option<Arc<Debuginfod>>,
    /// Servers that are asked for symbols that this machine lacks. Default: none, and no network.
    pub symbol_servers: Option<Arc<SymbolServers>>,
    /// When the recording ended. A file without a build id that was written to later is refused. Default: not checked.
    pub recorded_at: Option<SystemTime>,
}
