//! Names for the programs that cargo builds: `sort (bench)`, not `sort-0123456789abcdef`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use super::runner::Note;
use super::workspace::Workspace;

/// Larger dependency files are not read.
const MAX_BYTES: u64 = 1 << 20;

/// The targets of a workspace.
#[derive(Debug, Default)]
pub(crate) struct Names {
    root: PathBuf,
    /// Path of the source, name, kind.
    targets: Vec<(PathBuf, String, String)>,
}

impl Names {
    pub(crate) fn new(workspace: Option<&Workspace>) -> Names {
        let Some(workspace) = workspace else {
            return Names::default();
        };
        let targets = workspace.packages.iter().flat_map(|package| &package.targets);
        Names {
            root: workspace.workspace_root.clone(),
            targets: targets
                .map(|target| {
                    let kind = target.kind.first().cloned().unwrap_or_default();
                    (target.src_path.clone(), target.name.clone(), kind)
                })
                .collect(),
        }
    }

    /// The name of a program that a runner executed; `usual` is its name in the kernel.
    pub(crate) fn of(&self, note: &Note, usual: &str) -> String {
        let program = PathBuf::from(OsString::from_vec(note.program.clone()));
        let Some(stem) = program.file_name().and_then(|name| name.to_str()) else {
            return usual.to_owned();
        };
        let folder = program
            .parent()
            .and_then(Path::file_name)
            .and_then(|name| name.to_str());
        let is_bench = note.args.iter().any(|arg| arg == b"--bench");
        if folder == Some("examples") {
            return format!("{stem} (example)");
        }
        if stem == "rust_out" || program.to_string_lossy().contains("rustdoctest") {
            return "doctests".to_owned();
        }
        let Some((name, _)) = (stem.rsplit_once('-')).filter(|(_, hash)| folder == Some("deps") && is_hash(hash))
        else {
            return stem.to_owned();
        };
        // The root of a test or bench target is the target's source; libraries and programs are compiled with their
        // unit tests.
        let source = self.source(&program);
        let target = source.and_then(|source| self.targets.iter().find(|(path, ..)| *path == source));
        match target.map(|(_, name, kind)| (name.as_str(), kind.as_str())) {
            Some((name, "bench")) => format!("{name} (bench)"),
            Some((name, "test")) => format!("{name} (test)"),
            Some((name, "example")) => format!("{name} (example)"),
            Some((name, "bin")) if !is_bench => format!("{name} (unit tests of the program)"),
            Some((name, _)) if is_bench => format!("{name} (unit benches)"),
            Some((name, _)) => format!("{name} (unit tests)"),
            None if is_bench => format!("{name} (bench)"),
            None => format!("{name} (test)"),
        }
    }

    /// The source of a program: the first one in the dependency file that rustc writes beside it.
    fn source(&self, program: &Path) -> Option<PathBuf> {
        let path = program.with_extension("d");
        if std::fs::metadata(&path).ok()?.len() > MAX_BYTES {
            return None;
        }
        let text = std::fs::read_to_string(path).ok()?;
        let (_, sources) = text.lines().find_map(|line| line.split_once(": "))?;
        // A blank in a path is written `\ `.
        let joined = sources.replace("\\ ", "\0");
        let first = joined.split(' ').next()?.replace('\0', " ");
        Some(self.root.join(first))
    }
}

/// True for cargo's hashes: 16 hexadecimal digits.
fn is_hash(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
