//! Finds the files of a module: the binary that ran, and its debug info.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use names::symbol::SymbolSource;
use object::Object;
use recording::module::{BuildId, Module};
use recording::regular_file;
use recording::sink::KeptFile;
use recording::sink::ReadAt;

use super::object_file::ObjectFile;
use super::options::SymbolOptions;
use super::separate::{SYSTEM_DEBUG_DIR, build_id_paths};
use super::{dsym, shared_cache};
use crate::error::SymbolError;

/// The files of a module; each has the build id of the module, if the module has one.
pub(crate) struct LocatedFiles {
    /// The file that ran, with the machine code. `None` if only the debug file exists.
    pub(crate) binary: Option<ObjectFile>,
    /// A separate file with debug info or the full symbol table.
    pub(crate) debug: Option<ObjectFile>,
    /// Why another file that may have symbols was not used: it is damaged, the user may not read it, or a bundle is of
    /// another build.
    pub(crate) not_used: Option<SymbolError>,
}

impl LocatedFiles {
    /// What the files have.
    pub(crate) fn source(&self) -> SymbolSource {
        let has = |has: fn(&ObjectFile) -> bool| [&self.binary, &self.debug].into_iter().flatten().any(has);
        SymbolSource::Files {
            symbol_table: has(ObjectFile::has_symbols),
            debug_info: has(ObjectFile::has_debug_info),
        }
    }
}

/// Finds the files of a module. `kept` is the file that ran, if it was kept open.
pub(crate) fn locate(
    module: &Module,
    kept: Option<&KeptFile>,
    options: &SymbolOptions,
) -> Result<LocatedFiles, SymbolError> {
    let symbol_dirs = &options.symbol_dirs;
    let identified;
    let mut search = FileSearch {
        module,
        recorded_at: options.recorded_at,
        tried: Vec::new(),
        failure: None,
        not_used: None,
    };
    let own = module.readable_path.iter().chain([&module.path]);
    let name = module.path.file_name();
    // Without a build id a file of the same name elsewhere cannot be identified.
    let moved_to: &[PathBuf] = if module.build_id.is_some() { symbol_dirs } else { &[] };
    let moved = moved_to.iter().filter_map(|dir| Some(dir.join(name?)));
    let mut binary = kept
        .and_then(|kept| search.open_kept(&**kept))
        .or_else(|| own.cloned().chain(moved).find_map(|path| search.open(&path)))
        .or_else(|| search.open_in_shared_cache(moved_to));
    let mut debug = None;
    let complete = binary
        .as_ref()
        .is_some_and(|file| file.has_debug_info() && file.has_symbols());
    if !complete {
        let link = binary.as_ref().and_then(debug_link);
        let folder = module.path.parent().unwrap_or(Path::new("/"));
        let linked = link.iter().flat_map(|link| link_paths(&link.name, folder, symbol_dirs));
        let useful = |file: &ObjectFile| file.has_debug_info() || file.has_symbols();
        // The recording may lack the build id of the file, or a part of it: then the id in the file is used. Debian's
        // debug files are found by it alone.
        identified = Module {
            build_id: (binary.as_ref().and_then(ObjectFile::build_id))
                .or(module.build_id.as_ref())
                .cloned(),
            ..module.clone()
        };
        debug = match &identified.build_id {
            Some(id) => {
                search.module = &identified;
                let mut paths = Vec::new();
                if binary.as_ref().is_none_or(ObjectFile::is_mach_o) {
                    paths.extend(dsym::files(&module.path, symbol_dirs));
                }
                paths.extend(build_id_paths(id, symbol_dirs));
                paths.extend(linked);
                paths.extend(name.iter().flat_map(|name| named_paths(name, folder, symbol_dirs)));
                paths.iter().filter_map(|path| search.open(path)).find(useful)
            }
            // Without a build id, the checksum in the link identifies the file.
            None => linked
                .filter_map(|path| ObjectFile::open(&path).ok())
                .filter(|file| link.as_ref().is_some_and(|link| crc32fast::hash(file) == link.crc))
                .find(useful),
        };
        let found = || [&binary, &debug].into_iter().flatten();
        // The servers have ELF files alone.
        let is_asked_for = !found().any(|file| file.has_debug_info() || file.is_mach_o());
        if let (true, Some(servers), Some(id)) = (is_asked_for, &options.debuginfod, &identified.build_id) {
            let downloaded = servers.debug_info(id, &module.name());
            debug = downloaded.and_then(|path| search.open(&path)).filter(useful).or(debug);
        }
    }
    // A file found by build id or in a symbol folder may be the whole file with its code.
    if binary.is_none() && debug.as_ref().is_some_and(ObjectFile::has_code) {
        binary = debug.take();
    }
    if binary.is_none() && debug.is_none() {
        return Err(search.failure.take().unwrap_or(SymbolError::NotFound {
            name: module.name(),
            tried: search.tried,
        }));
    }
    let has_info = [&binary, &debug].into_iter().flatten().any(ObjectFile::has_debug_info);
    let not_used = search.not_used.filter(|_| !has_info);
    Ok(LocatedFiles {
        binary,
        debug,
        not_used,
    })
}

/// Opens candidates, and refuses files of another build.
struct FileSearch<'a> {
    module: &'a Module,
    recorded_at: Option<SystemTime>,
    tried: Vec<PathBuf>,
    failure: Option<SymbolError>,
    /// The first file that could not be read, or bundle of another build.
    not_used: Option<SymbolError>,
}

impl FileSearch<'_> {
    fn open(&mut self, path: &Path) -> Option<ObjectFile> {
        if self.tried.iter().any(|tried| tried == path) {
            return None;
        }
        self.tried.push(path.to_owned());
        // A missing file does not count as a failure: the next candidate may exist.
        let found = regular_file::metadata(path).ok()?;
        let file = self.judged(ObjectFile::open_for(path, self.module))?;
        // Without a build id, a file that was written to after the recording is refused.
        let changed = found.modified().ok();
        if self.module.build_id.is_none() && changed > self.recorded_at && self.recorded_at.is_some() {
            self.fail(SymbolError::Changed { path: path.to_owned() });
            return None;
        }
        Some(file)
    }

    fn open_kept(&mut self, kept: &dyn ReadAt) -> Option<ObjectFile> {
        // The file may have been written to since it ran.
        self.judged(ObjectFile::open_kept(self.module, kept))
    }

    /// Libraries of macOS, which has no files of their own.
    fn open_in_shared_cache(&mut self, symbol_dirs: &[PathBuf]) -> Option<ObjectFile> {
        let library = &self.module.path;
        shared_cache::caches(library, symbol_dirs)
            .into_iter()
            .find_map(|cache| {
                let opened = shared_cache::open(&cache, library).transpose();
                self.tried.push(cache);
                self.judged(opened?)
            })
    }

    /// The file, if it is of the recorded build.
    fn judged(&mut self, opened: Result<ObjectFile, SymbolError>) -> Option<ObjectFile> {
        match opened {
            Ok(file) if same_build(self.module, &file) => Some(file),
            Ok(file) => {
                let error = replaced(self.module, &file);
                if file.is_mach_o() && !file.has_code() {
                    self.not_used.get_or_insert_with(|| error.clone());
                }
                self.fail(error);
                None
            }
            Err(error) => {
                self.fail(error);
                None
            }
        }
    }

    /// Keeps the first failure, which is about the most likely file.
    fn fail(&mut self, error: SymbolError) {
        if let SymbolError::Unreadable { .. } = error {
            self.not_used.get_or_insert_with(|| error.clone());
        }
        self.failure.get_or_insert(error);
    }
}

/// The error for a file of another build.
pub(crate) fn replaced(module: &Module, file: &ObjectFile) -> SymbolError {
    SymbolError::Replaced {
        path: file.path().to_owned(),
        recorded: describe(module.build_id.as_ref(), file),
        found: describe(file.build_id(), file),
    }
}

/// True if the file is the one that was recorded, as far as can be known.
pub(crate) fn same_build(module: &Module, file: &ObjectFile) -> bool {
    match (&module.build_id, file.build_id()) {
        (Some(recorded), Some(found)) => recorded.identifies(found),
        (Some(_), None) => false,
        // If the recorder knows the architecture, it read the file and saw no build id: then this is another file.
        (None, Some(_)) => module.arch.is_none(),
        (None, None) => true,
    }
}

fn describe(id: Option<&BuildId>, file: &ObjectFile) -> String {
    let text = if file.is_mach_o() {
        BuildId::to_uuid
    } else {
        BuildId::to_hex
    };
    id.map_or_else(|| "none".to_owned(), text)
}

/// Where gdb looks for the file that `.gnu_debuglink` names.
fn link_paths(link: &OsStr, folder: &Path, symbol_dirs: &[PathBuf]) -> Vec<PathBuf> {
    let below_root = folder.strip_prefix("/").unwrap_or(folder);
    let mut paths = vec![
        folder.join(link),
        folder.join(".debug").join(link),
        Path::new(SYSTEM_DEBUG_DIR).join(below_root).join(link),
    ];
    for dir in symbol_dirs {
        paths.push(dir.join(link));
        paths.push(dir.join(below_root).join(link));
    }
    paths
}

/// Usual names: `program.debug`, `program.dbg`.
fn named_paths(name: &OsStr, folder: &Path, symbol_dirs: &[PathBuf]) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for suffix in ["debug", "dbg"] {
        let mut file = name.to_owned();
        file.push(".");
        file.push(suffix);
        paths.extend(symbol_dirs.iter().map(|dir| dir.join(&file)));
        paths.push(folder.join(&file));
    }
    paths
}

struct DebugLink {
    name: OsString,
    crc: u32,
}

/// The name and checksum in `.gnu_debuglink`. Folders in the name are dropped, because the file may be hostile.
fn debug_link(file: &ObjectFile) -> Option<DebugLink> {
    let object = file.object().ok()?;
    let (name, crc) = object.gnu_debuglink().ok()??;
    let name = Path::new(OsStr::from_bytes(name)).file_name()?.to_owned();
    Some(DebugLink { name, crc })
}
