//! Files beside a module's own: separate debug files by build id, what dwz moved, and the parts of split DWARF.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::Object;
use recording::module::BuildId;

use super::object_file::ObjectFile;
use super::options::SymbolOptions;

/// Where distributions install separate debug info (gdb's `debug-file-directory`).
pub(super) const SYSTEM_DEBUG_DIR: &str = "/usr/lib/debug";

/// `xx/yyyy.debug` under each `.build-id` folder, and the layout of a debuginfod cache.
pub(crate) fn build_id_paths(id: &BuildId, symbol_dirs: &[PathBuf]) -> Vec<PathBuf> {
    let hex = id.to_hex();
    let mut paths = Vec::new();
    if hex.len() < 4 {
        return paths;
    }
    let (first, rest) = hex.split_at(2);
    for dir in symbol_dirs
        .iter()
        .map(PathBuf::as_path)
        .chain([Path::new(SYSTEM_DEBUG_DIR)])
    {
        paths.push(dir.join(".build-id").join(first).join(format!("{rest}.debug")));
        paths.push(dir.join(".build-id").join(first).join(rest));
        paths.push(dir.join(&hex).join("debuginfo"));
        paths.push(dir.join(&hex).join("executable"));
        if id.is_cut() {
            paths.extend(begin_with(rest, &dir.join(".build-id").join(first)));
        }
    }
    paths
}

/// The files in a folder whose names begin so.
fn begin_with(start: &str, folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_it = |entry: &std::fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(start.as_bytes());
    entries.filter(is_it).map(|entry| entry.path())
}

/// The file that dwz moved common debug info to, if the debug info names one.
pub(crate) enum Supplementary {
    /// The debug info names no such file.
    NotNeeded,
    Found(ObjectFile),
    /// The named file is absent, or has another build id.
    Missing(PathBuf),
}

/// Looks for the file that `.gnu_debugaltlink` names.
pub(crate) fn supplementary(file: &ObjectFile, options: &SymbolOptions) -> Supplementary {
    let object = file.object().ok();
    let link = object
        .as_ref()
        .and_then(|object| object.gnu_debugaltlink().ok().flatten());
    let Some((name, id)) = link else {
        return Supplementary::NotNeeded;
    };
    let id = BuildId(id.to_vec());
    let folder = file.path().parent().unwrap_or(Path::new("/"));
    let named = folder.join(OsStr::from_bytes(name));
    let mut paths = vec![named.clone()];
    paths.extend(build_id_paths(&id, &options.symbol_dirs));
    let open = |path: &PathBuf| {
        ObjectFile::open(path)
            .ok()
            .filter(|found| found.build_id() == Some(&id))
    };
    let download = || {
        let name = named.file_name().unwrap_or_default().to_string_lossy();
        open(&options.debuginfod.as_ref()?.debug_info(&id, &name)?)
    };
    match paths.iter().find_map(open).or_else(download) {
        Some(file) => Supplementary::Found(file),
        None => Supplementary::Missing(named),
    }
}

/// Where the parts of split DWARF may be.
pub(crate) struct SplitDwarfPaths {
    binary: PathBuf,
    symbol_dirs: Vec<PathBuf>,
}

impl SplitDwarfPaths {
    pub(crate) fn new(binary: PathBuf, symbol_dirs: Vec<PathBuf>) -> SplitDwarfPaths {
        SplitDwarfPaths { binary, symbol_dirs }
    }

    /// The `.dwp` package beside the binary (or in a symbol folder), if there is one.
    pub(crate) fn package(&self) -> Option<ObjectFile> {
        let mut beside = self.binary.as_os_str().to_owned();
        beside.push(".dwp");
        let beside = PathBuf::from(beside);
        let name = beside.file_name()?.to_owned();
        let moved = self.symbol_dirs.iter().map(|dir| dir.join(&name));
        [beside]
            .into_iter()
            .chain(moved)
            .find_map(|path| ObjectFile::open(&path).ok())
    }

    /// Candidates for a `.dwo` file, the one that the compiler wrote first.
    pub(crate) fn dwo(&self, comp_dir: Option<&str>, name: &str) -> Vec<PathBuf> {
        let mut paths = vec![Path::new(comp_dir.unwrap_or("")).join(name)];
        if let Some(file) = Path::new(name).file_name() {
            paths.extend(self.binary.parent().map(|folder| folder.join(file)));
            paths.extend(self.symbol_dirs.iter().map(|dir| dir.join(file)));
        }
        paths
    }
}
