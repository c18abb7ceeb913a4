//! Source files, only those that the debug info of an address names.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use recording::module::Module;
use recording::source_path::SourcePath;
use recording::symbol::SymbolSource;

use crate::Symbolicator;
use crate::error::SymbolError;
use crate::symbolicator::Entry;

/// Largest source file in bytes. Generated code reaches several MB; the UI can't show more.
const MAX_BYTES: u64 = 32 << 20;

/// Why there is no source text.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SourceError {
    /// The look-up of the address failed.
    #[error(transparent)]
    Symbols(#[from] SymbolError),
    /// The profile has the file's name, and the debug info that has it is not on this machine.
    #[error(
        "the debug info of {module}, which names {file}, was not found; give its folder with --symbol-dir, or download it with --debuginfod"
    )]
    NoDebugInfo {
        /// Debug name of the module.
        module: String,
        /// The file asked for.
        file: String,
    },
    /// The debug info of the address does not name the file.
    #[error("the debug info of {module} at {address:#x} does not name {file}; only files that it names are served")]
    NotNamed {
        /// Debug name of the module.
        module: String,
        /// Relative address.
        address: u64,
        /// The file asked for.
        file: String,
    },
    /// The file is not where the debug info says.
    #[error("could not read the source file {}: {reason}", .path.display())]
    Unreadable {
        /// The path tried.
        path: PathBuf,
        /// Why, and the next step where there is one.
        reason: String,
    },
}

impl Symbolicator {
    /// The text of `file`, if the debug info of this relative address names it. Its path has the form of the debug info or of a profile.
    pub fn source(&self, module: &Module, address: u64, file: &str) -> Result<String, SourceError> {
        self.source_of(&self.entry(module), address, file, read)
    }

    /// The same for a profile that others get. Debug info may name any file: only what looks like a source is given, and to root only what all
    /// users may read.
    pub fn source_to_embed(&self, module: &Module, address: u64, file: &str) -> Result<String, SourceError> {
        self.source_of(&self.entry(module), address, file, read_to_embed)
    }

    fn source_of(
        &self,
        entry: &Arc<Entry>,
        address: u64,
        file: &str,
        read: fn(&Path) -> Result<String, SourceError>,
    ) -> Result<String, SourceError> {
        let infos = self.lookup_entry(entry, &[address])?;
        let files = infos.iter().flat_map(|info| &info.frames);
        let files = files.flat_map(|frame| [frame.file.as_deref(), frame.declared_in.as_deref()]);
        let mut files = files.flatten();
        let asked = SourcePath::parse(file);
        // The path of the debug info is read, never the one that was asked for.
        let named = (files.clone().find(|named| *named == file))
            .or_else(|| files.find(|named| SourcePath::parse(named) == asked));
        let source = self.looked_up_in(&entry.module);
        let Some(file) = named else {
            let (module, file) = (entry.module.name(), file.to_owned());
            return Err(match source {
                SymbolSource::Files { debug_info: false, .. } => SourceError::NoDebugInfo { module, file },
                _ => SourceError::NotNamed { module, address, file },
            });
        };
        if let Some(mapped) = self.options().path_maps.iter().find_map(|map| map.apply(file)) {
            return read(&mapped);
        }
        let elsewhere = |missing| match self.local_sources().find(&asked) {
            Ok(Some(found)) => read(&found),
            Ok(None) => Err(missing),
            Err(reason) => Err(unreadable(Path::new(file), reason)),
        };
        let local = read(Path::new(file)).or_else(elsewhere);
        let servers = (self.options().debuginfod.as_ref()).filter(|_| Path::new(file).is_absolute());
        let download = || read(&servers?.source(entry.module.build_id.as_ref()?, file)?).ok();
        local.or_else(|missing| download().ok_or(missing))
    }
}

fn unreadable(path: &Path, reason: impl ToString) -> SourceError {
    SourceError::Unreadable {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

/// What names of source files end in. Headers of C++ have no ending.
const SOURCE_ENDINGS: &[&str] = &[
    "adb", "ads", "asm", "c", "cc", "cjs", "cpp", "cr", "cu", "cuh", "cxx", "d", "def", "f", "f90", "go", "h", "hh",
    "hpp", "hs", "hxx", "inc", "inl", "ipp", "java", "js", "jsx", "kt", "l", "m", "mjs", "ml", "mm", "nim", "pas",
    "py", "rs", "s", "S", "scala", "swift", "tcc", "td", "ts", "tsx", "y", "zig",
];

fn read_to_embed(path: &Path) -> Result<String, SourceError> {
    if !path.is_absolute() {
        return read(path);
    }
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let refused = |why: &str| Err(unreadable(path, format_args!("{why}; it is not put into a profile")));
    let is_source = |path: &Path| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| SOURCE_ENDINGS.contains(&ending))
            || ending.is_none() && path.to_string_lossy().contains("/include/c++/")
    };
    if !is_source(path) || !is_source(&real) || ["/proc", "/sys", "/dev"].iter().any(|folder| real.starts_with(folder))
    {
        return refused("by its name it is no source file");
    }
    let is_open = |metadata: std::fs::Metadata| metadata.mode() & 0o004 != 0;
    if rustix::process::geteuid().is_root() && std::fs::metadata(&real).is_ok_and(|metadata| !is_open(metadata)) {
        return refused("not all users may read it");
    }
    match String::from_utf8(read_bytes(&real)?) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => refused("it holds no text"),
    }
}

fn read(path: &Path) -> Result<String, SourceError> {
    let bytes = read_bytes(path)?;
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, SourceError> {
    if !path.is_absolute() {
        let text = path.to_string_lossy();
        let reason = match text.split_once(':').filter(|(scheme, _)| *scheme == "node") {
            Some(_) => "it is a script inside of node, and no file",
            None => "the debug info has a relative path; give the folder of these sources with --path-map .=FOLDER",
        };
        return Err(unreadable(path, reason));
    }
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => unreadable(
            path,
            "it is not on this machine; say where its folder is with --path-map FROM=TO, or look at the profile where the program was built",
        ),
        _ => unreadable(path, error),
    })?;
    // Opening a FIFO waits for a writer; a device never ends.
    if !metadata.is_file() {
        return Err(unreadable(path, "not a regular file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| unreadable(path, error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(unreadable(
            path,
            format_args!("larger than {MAX_BYTES} bytes; open it in an editor"),
        ));
    }
    Ok(bytes)
}
