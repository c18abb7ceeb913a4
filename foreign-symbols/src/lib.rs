#![doc = include_str!("../README.md")]

use std::fmt;
use std::future::{Future, ready};
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

pub use samply_symbols::debugid::DebugId;
use samply_symbols::{
    CandidatePathInfo, FileAndPathHelper, FileAndPathHelperResult, FileLocation, OptionallySendFuture, SymbolManager,
    SymbolMap,
};
pub use samply_symbols::{
    Error, FrameDebugInfo, FramesLookupResult, LibraryInfo, LookupAddress, MappedPath, SyncAddressInfo,
};

/// The bytes of a file.
pub type Content = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Opens a file. The engine may do so several times.
pub type Open = Box<dyn Fn(&Path) -> io::Result<Content> + Send + Sync>;

/// The symbols of an opened file.
pub struct Symbols(SymbolMap<Helper>);

impl Symbols {
    /// Reads the symbols of a library from a file. `None` if the engine waits for anything.
    pub fn open(library: &LibraryInfo, path: &Path, open: Open) -> Option<Result<Symbols, Error>> {
        let candidate = path.to_owned();
        let manager = SymbolManager::with_helper(Helper { candidate, open });
        Some(at_once(manager.load_symbol_map(library))?.map(Symbols))
    }

    /// The function at an address, and its frames if they are in memory; `None` if no symbol holds the address.
    pub fn lookup(&self, address: LookupAddress) -> Option<SyncAddressInfo> {
        self.0.lookup_sync(address)
    }
}

/// The result of a future that waits for nothing; `None` if it does wait.
fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

/// Gives the engine one candidate.
struct Helper {
    candidate: PathBuf,
    open: Open,
}

type Candidates = Vec<CandidatePathInfo<Location>>;

impl FileAndPathHelper for Helper {
    type F = Bytes;
    type FL = Location;

    fn get_candidate_paths_for_debug_file(&self, _library: &LibraryInfo) -> FileAndPathHelperResult<Candidates> {
        Ok(vec![CandidatePathInfo::SingleFile(Location(self.candidate.clone()))])
    }

    fn get_candidate_paths_for_binary(&self, _library: &LibraryInfo) -> FileAndPathHelperResult<Candidates> {
        Ok(Vec::new())
    }

    fn get_dyld_shared_cache_paths(&self, _arch: Option<&str>) -> FileAndPathHelperResult<Vec<Location>> {
        Ok(Vec::new())
    }

    fn load_file(
        &self,
        location: Location,
    ) -> Pin<Box<dyn OptionallySendFuture<Output = FileAndPathHelperResult<Bytes>> + '_>> {
        let opened = (self.open)(&location.0);
        Box::pin(ready(opened.map(Bytes).map_err(Into::into)))
    }
}

/// What the engine asks of a file's bytes.
struct Bytes(Content);

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

/// A path on this machine.
#[derive(Clone)]
struct Location(PathBuf);

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl FileLocation for Location {
    fn location_for_dyld_subcache(&self, _suffix: &str) -> Option<Location> {
        None
    }

    fn location_for_external_object_file(&self, _object_file: &str) -> Option<Location> {
        None
    }

    fn location_for_pdb_from_binary(&self, _pdb_path_in_binary: &str) -> Option<Location> {
        None
    }

    fn location_for_source_file(&self, _source_file_path: &str) -> Option<Location> {
        None
    }

    fn location_for_breakpad_symindex(&self) -> Option<Location> {
        None
    }

    fn location_for_dwo(&self, _comp_dir: &str, _path: &str) -> Option<Location> {
        None
    }

    fn location_for_dwp(&self) -> Option<Location> {
        None
    }
}
