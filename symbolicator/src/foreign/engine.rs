//! One symbol file of another system, read by samply-symbols.
//!
//! The engine is asynchronous, because its files may come from a network. Here they are mapped, so that each of its futures is ready at once. It gets no file
//! but those that [`candidates`](super::candidates) found: paths in the files are not followed.

use std::fmt;
use std::future::{Future, ready};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use recording::module::Module;
use recording::rust_crate;
use recording::symbol::{AddressInfo, FunctionSymbol, SourceFrame};
use samply_symbols::debugid::DebugId;
use samply_symbols::{
    CandidatePathInfo, Error, FileAndPathHelper, FileAndPathHelperResult, FileLocation, FrameDebugInfo,
    FramesLookupResult, LibraryInfo, LookupAddress, MappedPath, OptionallySendFuture, SymbolManager, SymbolMap,
    SyncAddressInfo,
};

use super::guarded::guarded;
use super::{breakpad_name, stored};
use crate::demangle::demangle;
use crate::error::SymbolError;
use crate::sys::Mapping;

/// An opened symbol file with the debug id of its module.
pub(crate) struct ForeignFile {
    path: PathBuf,
    symbols: SymbolMap<Helper>,
    mapped: Mapped,
}

/// All files that the engine has opened.
type Mapped = Arc<Mutex<Vec<Arc<Mapping>>>>;

impl ForeignFile {
    pub(crate) fn open(module: &Module, path: &Path) -> Result<ForeignFile, SymbolError> {
        let recorded = module.breakpad_id();
        let debug_id = DebugId::from_breakpad(&recorded).map_err(|error| SymbolError::unreadable(path, error))?;
        let mapped = Mapped::default();
        let helper = Helper {
            candidate: path.to_owned(),
            mapped: Arc::clone(&mapped),
        };
        let library = LibraryInfo {
            debug_name: Some(module.name()),
            debug_id: Some(debug_id),
            ..LibraryInfo::default()
        };
        let opened = guarded(|| at_once(SymbolManager::with_helper(helper).load_symbol_map(&library)));
        let opened = opened.flatten().ok_or_else(|| failed(path))?;
        let symbols = opened.map_err(|error| match error {
            Error::UnmatchedDebugId(found, _) => SymbolError::Replaced {
                path: path.to_owned(),
                recorded,
                found: found.breakpad().to_string(),
            },
            Error::HelperErrorDuringOpenFile(_, reason) => SymbolError::unreadable(path, reason),
            error => SymbolError::unreadable(path, error),
        })?;
        Ok(ForeignFile {
            path: path.to_owned(),
            symbols,
            mapped,
        })
    }

    /// The error for a module of another system of which these folders have no file.
    pub(crate) fn not_found(module: &Module, dirs: Vec<PathBuf>) -> SymbolError {
        let name = module.name();
        let paths = |dir: &PathBuf| {
            let [breakpad, stored] = stored(module, dir);
            [breakpad, stored, dir.join(breakpad_name(&name)), dir.join(&name)]
        };
        SymbolError::NotFound {
            tried: dirs.iter().flat_map(paths).collect(),
            name,
        }
    }

    pub(crate) fn lookup(&self, addresses: &[u64]) -> Result<Vec<AddressInfo>, SymbolError> {
        let lookup = |address: &u64| {
            // The engine's addresses have 32 bits.
            let Ok(address) = u32::try_from(*address) else {
                return Ok(AddressInfo::default());
            };
            let found = guarded(|| self.symbols.lookup_sync(LookupAddress::Relative(address)));
            let found = found.ok_or_else(|| failed(&self.path))?;
            Ok(found.map(info).unwrap_or_default())
        };
        addresses.iter().map(lookup).collect()
    }

    /// Heap bytes, about. The engine does not tell: its tables of functions and lines are smaller than the text or the streams that they were made of, and
    /// the mapped files themselves are not held.
    pub(crate) fn held_bytes(&self) -> usize {
        let mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        mapped.iter().map(|file| file.bytes().len() / 4).sum()
    }

    pub(crate) fn check_unchanged(&self) -> bool {
        let mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        mapped.iter().all(|file| file.check_unchanged())
    }
}

fn failed(path: &Path) -> SymbolError {
    SymbolError::unreadable(path, "the reader of its format gave up: the file may be damaged")
}

fn info(found: SyncAddressInfo) -> AddressInfo {
    let symbol = found.symbol;
    let (start, size) = (u64::from(symbol.address), symbol.size.map(u64::from));
    // The engine names functions of which it knows nothing but the address.
    let function = match symbol.name == format!("fun_{start:x}") {
        true => FunctionSymbol::unnamed(&(start..start + size.unwrap_or(0))),
        false => {
            let name = demangle(&symbol.name);
            FunctionSymbol {
                krate: rust_crate::of_function(&symbol.name, &name, None),
                ..FunctionSymbol::named(name, start, size)
            }
        }
    };
    let frames = match found.frames {
        Some(FramesLookupResult::Available(frames)) => frames.into_iter().map(frame).collect(),
        // In object files of the machine that built it.
        Some(FramesLookupResult::External(_)) | None => Vec::new(),
    };
    AddressInfo {
        function: Some(function),
        frames,
    }
}

fn frame(frame: FrameDebugInfo) -> SourceFrame {
    let file = frame.file_path.map(|path| match path.mapped_path() {
        // The front end can download it.
        Some(mapped @ (MappedPath::Git { .. } | MappedPath::Hg { .. } | MappedPath::S3 { .. })) => {
            mapped.to_special_path_str()
        }
        Some(MappedPath::Cargo { .. }) | None => path.into_raw_path(),
    });
    let function = frame.function.as_deref().map(demangle);
    let (mangled, demangled) = (
        frame.function.unwrap_or_default(),
        function.as_deref().unwrap_or_default(),
    );
    SourceFrame {
        krate: rust_crate::of_function(&mangled, demangled, file.as_deref()),
        function,
        file,
        // Debug info for "no line".
        line: frame.line_number.filter(|line| *line > 0),
        column: None,
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
    mapped: Mapped,
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
        let opened = Mapping::open(&location.0).map(Arc::new);
        if let Ok(mapping) = &opened {
            let mut mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
            mapped.push(Arc::clone(mapping));
        }
        Box::pin(ready(opened.map(Bytes).map_err(Into::into)))
    }
}

/// The bytes of a mapped file.
struct Bytes(Arc<Mapping>);

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.bytes()
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
