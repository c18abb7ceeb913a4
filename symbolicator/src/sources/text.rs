//! The text of a source file, if it is one that may be shown.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use recording::regular_file;

use crate::error::SymbolError;

/// Largest source file in bytes. Generated code reaches several MB; the UI can't show more.
const MAX_BYTES: u64 = 32 << 20;

/// Why a source has no text.
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

pub(crate) fn unreadable(path: &Path, reason: impl ToString) -> SourceError {
    SourceError::Unreadable {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

/// What names of source files end in. Headers of C++ have no ending.
const SOURCE_ENDINGS: &[&str] = &[
    "C", "F", "F03", "F08", "F77", "F90", "F95", "H", "S", "adb", "ads", "asm", "c", "c++", "cc", "cjs", "cl", "clj",
    "cpp", "cppm", "cr", "cs", "cts", "cu", "cuh", "cxx", "d", "def", "erl", "ex", "exs", "f", "f03", "f08", "f77",
    "f90", "f95", "for", "fs", "go", "gperf", "groovy", "h", "h++", "hh", "hip", "hpp", "hs", "hxx", "inc", "inl",
    "ipp", "ispc", "ixx", "java", "jl", "js", "jsx", "kt", "l", "ll", "lua", "m", "mjs", "ml", "mli", "mll", "mly",
    "mm", "mts", "nim", "odin", "pas", "php", "pl", "pm", "pxd", "pxi", "py", "pyx", "rb", "re", "rl", "rs", "s",
    "scala", "svelte", "swift", "sx", "tcc", "td", "tpp", "ts", "tsx", "txx", "v", "vala", "vue", "y", "yy", "zig",
];

/// Reads a source file. `is_asked_for`: whatever it is.
pub(crate) fn read(path: &Path, is_asked_for: bool) -> Result<String, SourceError> {
    let (file, bytes) = read_file(path)?;
    if is_asked_for {
        Ok(text(bytes))
    } else {
        match refusal(path, &file, &bytes) {
            Some(why) => Err(unreadable(
                path,
                format_args!("{why}; give --path-map '{0}={0}' to show it anyway", path.display()),
            )),
            None => Ok(text(bytes)),
        }
    }
}

/// Why an open file is not shown. Links may lead from a name of a source to anything.
fn refusal(path: &Path, file: &File, bytes: &[u8]) -> Option<&'static str> {
    let real = regular_file::real_path(file, path).unwrap_or_else(|_| path.to_owned());
    let is_source = |path: &Path| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| SOURCE_ENDINGS.contains(&ending))
            || ending.is_none() && path.to_string_lossy().contains("/include/c++/")
    };
    let is_of_system = |path: &Path| ["/proc", "/sys", "/dev"].iter().any(|folder| path.starts_with(folder));
    let is_open = file.metadata().is_ok_and(|metadata| metadata.mode() & 0o004 != 0);
    if [path, &real]
        .into_iter()
        .any(|path| !is_source(path) || is_of_system(path))
    {
        Some("its name is not the name of a source file")
    } else if rustix::process::geteuid().is_root() && !is_open {
        Some("sprof runs as root, and not all users may read this file")
    } else {
        bytes.contains(&0).then_some("it does not hold text")
    }
}

pub(crate) fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

pub(crate) fn read_file(path: &Path) -> Result<(File, Vec<u8>), SourceError> {
    if !path.is_absolute() {
        let text = path.to_string_lossy();
        let reason = match text.split_once(':').filter(|(scheme, _)| *scheme == "node") {
            Some(_) => "it is a script inside of node, not a file",
            None => "the debug info has a relative path; give the folder of these sources with --path-map .=FOLDER",
        };
        return Err(unreadable(path, reason));
    }
    let mut file = regular_file::open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => unreadable(
            path,
            "it is not on this machine; say where its folder is with --path-map FROM=TO, or look at the profile where the program was built",
        ),
        _ => unreadable(path, error),
    })?;
    let mut bytes = Vec::new();
    (&mut file)
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(path, error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(unreadable(
            path,
            format_args!("larger than {MAX_BYTES} bytes; open it in an editor"),
        ));
    }
    Ok((file, bytes))
}
