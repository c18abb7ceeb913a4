//! One symbol file of another system, of those that [`candidates`](super::candidates) found.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use foreign_symbols::{
    Content, DebugId, Error, FrameDebugInfo, FramesLookupResult, LibraryInfo, LookupAddress, MappedPath, Symbols,
    SyncAddressInfo,
};
use names::rust_crate;
use names::symbol::{AddressInfo, FunctionSymbol, SourceFrame};
use recording::module::Module;

use super::guarded::guarded;
use super::paths::{breakpad_name, stored};
use crate::demangle::demangle;
use crate::error::SymbolError;
use crate::sys::Mapping;

/// An opened symbol file with the debug id of its module.
pub(crate) struct ForeignFile {
    path: PathBuf,
    symbols: Symbols,
    mapped: OpenMappings,
}

/// All files that the engine has opened.
type OpenMappings = Arc<Mutex<Vec<Arc<Mapping>>>>;

impl ForeignFile {
    pub(crate) fn open(module: &Module, path: &Path) -> Result<ForeignFile, SymbolError> {
        let recorded = module.breakpad_id();
        let debug_id = DebugId::from_breakpad(&recorded).map_err(|error| SymbolError::unreadable(path, error))?;
        let mapped = OpenMappings::default();
        let held = Arc::clone(&mapped);
        let map = move |path: &Path| {
            let mapping = Arc::new(Mapping::open(path)?);
            let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
            held.push(Arc::clone(&mapping));
            Ok(mapping as Content)
        };
        let library = LibraryInfo {
            debug_name: Some(module.name()),
            debug_id: Some(debug_id),
            ..LibraryInfo::default()
        };
        let opened = guarded(|| Symbols::open(&library, path, Box::new(map)));
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

    /// The error for a module of another system if these folders have no file for it.
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
            let found = guarded(|| self.symbols.lookup(LookupAddress::Relative(address)));
            let found = found.ok_or_else(|| failed(&self.path))?;
            Ok(found.map(info).unwrap_or_default())
        };
        addresses.iter().map(lookup).collect()
    }

    /// Heap bytes, about. The engine does not report them. Its tables of functions and lines are smaller than the text
    /// or the streams that they were made of, and the mapped files themselves are not held.
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
    SymbolError::unreadable(path, "the reader of this format panicked: the file may be damaged")
}

fn info(found: SyncAddressInfo) -> AddressInfo {
    let symbol = found.symbol;
    let (start, size) = (u64::from(symbol.address), symbol.size.map(u64::from));
    // For a function without a name, the engine makes a name of its address.
    let function = if symbol.name == format!("fun_{start:x}") {
        FunctionSymbol::unnamed(&(start..start + size.unwrap_or(0)))
    } else {
        let name = demangle(&symbol.name);
        FunctionSymbol {
            krate: rust_crate::of_function(&symbol.name, &name, None),
            ..FunctionSymbol::named(name, start, size)
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
        ..SourceFrame::default()
    }
}
