//! `.dSYM` bundles: folders in which Apple's linker, Xcode and cargo put the debug info of a Mach-O file.

use std::fs;
use std::path::{Path, PathBuf};

/// Files of a bundle that are looked at. It has one for each binary, usually one.
const MAX_FILES: usize = 64;

/// Folders around a binary that may have a bundle of their own: `App.app.dSYM` is beside `App.app/Contents/MacOS/App`.
const MAX_FOLDERS: usize = 6;

/// The files that may have the debug info of the binary with this path, files of bundles beside the binary first. Only
/// its id shows which file has it: cargo calls the file in `app.dSYM` `app-0123456789abcdef`.
pub(crate) fn files(binary: &Path, symbol_dirs: &[PathBuf]) -> Vec<PathBuf> {
    let with_ending = |path: &&Path| path.extension().is_some();
    let around = binary.ancestors().skip(1).take(MAX_FOLDERS).filter(with_ending);
    let named: Vec<&Path> = [binary].into_iter().chain(around).collect();
    let beside = named.iter().map(|path| bundle_of(path));
    let moved = |dir: &'_ PathBuf| {
        let names = named.iter().filter_map(|path| path.file_name());
        names.map(|name| bundle_of(&dir.join(name))).collect::<Vec<_>>()
    };
    let moved = symbol_dirs.iter().flat_map(moved);
    beside.chain(moved).flat_map(|bundle| files_of(&bundle)).collect()
}

fn bundle_of(path: &Path) -> PathBuf {
    let mut bundle = path.as_os_str().to_owned();
    bundle.push(".dSYM");
    bundle.into()
}

fn files_of(bundle: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(bundle.join("Contents/Resources/DWARF"));
    let listed = listed.into_iter().flatten().flatten().take(MAX_FILES);
    let mut files: Vec<PathBuf> = listed.map(|file| file.path()).collect();
    files.sort();
    files
}
