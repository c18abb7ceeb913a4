//! Where the symbol files of a module are in a folder.

use std::path::{Path, PathBuf};

use recording::module::Module;

/// Where symbol servers and their caches have the files of a module, in this folder: `NAME/ID/NAME.sym` (Breakpad) and
/// `NAME/ID/NAME`.
pub(super) fn stored(module: &Module, dir: &Path) -> [PathBuf; 2] {
    let name = module.name();
    let folder = dir.join(&name).join(module.breakpad_id());
    [folder.join(breakpad_name(&name)), folder.join(&name)]
}

/// dump_syms replaces `.pdb`, and appends to all other names.
pub(super) fn breakpad_name(name: &str) -> String {
    format!("{}.sym", name.strip_suffix(".pdb").unwrap_or(name))
}
