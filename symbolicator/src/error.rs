//! Why a look-up failed.

use std::path::{Path, PathBuf};

use names::symbol::SymbolSource;

/// How to get a sprof with a feature.
macro_rules! build_with {
    ($feature:literal) => {
        concat!(
            "build sprof with `cargo install --locked --path sprof --features ",
            $feature,
            "`"
        )
    };
}
pub(crate) use build_with;

/// Where no file was found.
const NEXT_STEP: &str = if cfg!(feature = "symbol-servers") {
    "Give its folder with --symbol-dir, or a server with --symbol-server"
} else {
    "Give its folder with --symbol-dir"
};

/// Why a look-up failed. Each message has what was attempted, on what, and the next step.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SymbolError {
    /// No module with this name and id was registered with
    /// [`Symbolicator::add_module`](crate::Symbolicator::add_module).
    #[error("this profile has no module {name} with debug id {id}; ask for one that the profile's `libs` list")]
    UnknownModule {
        /// Debug name asked for.
        name: String,
        /// Debug id asked for.
        id: String,
    },
    /// Several files have the same name, and the same build id or none.
    #[error(
        "{name} stands for several files ({}), which differ: link each with a build id of its own (-Wl,--build-id) and record again",
        list(.paths)
    )]
    Ambiguous {
        /// Debug name asked for.
        name: String,
        /// The files.
        paths: Vec<PathBuf>,
    },
    /// The file at the recorded path is another build than the one that ran.
    #[error(
        "{} was replaced after the recording: it has build id {found}, {recorded} was recorded. Record again, or \
         give the folder of the old file with --symbol-dir",
        .path.display()
    )]
    Replaced {
        /// The file looked at.
        path: PathBuf,
        /// Build id in the recording, `none` if it had none.
        recorded: String,
        /// Build id of the file, `none` if it has none.
        found: String,
    },
    /// The file has no build id and was written to after the recording.
    #[error(
        "{} was written to after the recording and has no build id that could show it to be the same: record again, \
         and link with -Wl,--build-id",
        .path.display()
    )]
    Changed {
        /// The file looked at.
        path: PathBuf,
    },
    /// The file was written to while it was read.
    #[error("{} was written to while its symbols were read; look again when that is done", .path.display())]
    Rewritten {
        /// The file.
        path: PathBuf,
    },
    /// No file was found.
    #[error("found no file for {name}; looked at {}. {}", list(.tried), NEXT_STEP)]
    NotFound {
        /// Debug name of the module.
        name: String,
        /// Every path tried.
        tried: Vec<PathBuf>,
    },
    /// The file of a JIT compiler was removed.
    #[error(
        "{}, which the JIT compiler wrote, is not there any more; keep such files as long as the profile, or record with \
         --embed-sources to keep the sources alone",
        .path.display()
    )]
    JitFileRemoved {
        /// The file.
        path: PathBuf,
    },
    /// The file exists and cannot be used.
    #[error("could not read symbols from {}: {reason}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What went wrong, and the next step where there is one.
        reason: String,
    },
    /// The module's symbols have a format of another system, which this build does not read.
    #[error("{}; {}", of_another_system(.name, .found.as_deref()), build_with!("foreign-symbols"))]
    ForeignSymbols {
        /// Debug name of the module.
        name: String,
        /// The file that may have them. `None` where no file was found.
        found: Option<PathBuf>,
    },
    /// The kernel hides the addresses of its symbols from this user.
    #[error(
        "/proc/kallsyms shows no addresses; as root set kernel.kptr_restrict to 0 (`sysctl kernel.kptr_restrict=0`) or run \
         as root"
    )]
    KernelAddressesHidden,
}

impl SymbolError {
    /// The error as a fact of the profile.
    pub fn source(&self) -> SymbolSource {
        match self {
            SymbolError::NotFound { .. } | SymbolError::UnknownModule { .. } | SymbolError::JitFileRemoved { .. } => {
                SymbolSource::NoFile
            }
            SymbolError::Replaced { .. }
            | SymbolError::Changed { .. }
            | SymbolError::Rewritten { .. }
            | SymbolError::Ambiguous { .. } => SymbolSource::OtherBuild,
            SymbolError::Unreadable { .. } => SymbolSource::Unreadable,
            SymbolError::ForeignSymbols { .. } => SymbolSource::NotBuilt,
            SymbolError::KernelAddressesHidden => SymbolSource::Hidden,
        }
    }

    pub(crate) fn unreadable(path: impl Into<PathBuf>, reason: impl ToString) -> SymbolError {
        SymbolError::Unreadable {
            path: path.into(),
            reason: reason.to_string(),
        }
    }
}

fn of_another_system(name: &str, found: Option<&Path>) -> String {
    match found {
        Some(path) => format!(
            "{} may have names of {name}, in a format of another system",
            path.display()
        ),
        None => format!("{name} is a file of Windows, whose names are in files of Windows"),
    }
}

fn list(paths: &[PathBuf]) -> String {
    if paths.is_empty() {
        return "no path at all".to_owned();
    }
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(", ")
}
