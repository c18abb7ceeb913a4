//! Files that claim the same build id. A build id can be forged: it does not prove that two files are one.

use std::sync::Arc;

use recording::module::{Module, ModuleKind};
use recording::sink::KeptFile;

use crate::terminal::Term;
use crate::terminal::columns::clean;

/// Bytes of two files that are compared.
const MAX_COMPARED: u64 = 64 << 20;
const BLOCK_BYTES: usize = 1 << 16;

/// Warns of recorded files that have the same build id and different contents.
pub(crate) fn warn_of_recorded(files: &[(Arc<Module>, KeptFile)], term: &Term) {
    let modules = files.iter().map(|(module, _)| &**module);
    let differ = |first: usize, second: usize| differ(&files[first].1, &files[second].1);
    warn_of_pairs(modules, differ, "Each has its own names in this profile", term);
}

/// Warns of files of a saved profile that have the same build id, where one of them is not on this machine: then they
/// cannot be compared.
pub(crate) fn warn_of_read(files: &[(Arc<Module>, Vec<u64>)], term: &Term) {
    let modules = files.iter().map(|(module, _)| &**module);
    let is_gone = |at: usize| !files[at].0.path.exists();
    let differ = |first: usize, second: usize| is_gone(first) || is_gone(second);
    warn_of_pairs(
        modules,
        differ,
        "One of them is not here, and may have names of the other",
        term,
    );
}

fn warn_of_pairs<'a>(
    modules: impl Iterator<Item = &'a Module>,
    may_differ: impl Fn(usize, usize) -> bool,
    consequence: &str,
    term: &Term,
) {
    let modules: Vec<&Module> = modules.collect();
    let is_pair = |first: &Module, second: &Module| {
        first.kind == ModuleKind::File
            && first.build_id.is_some()
            && first.build_id == second.build_id
            && first.name() == second.name()
    };
    for (at, module) in modules.iter().enumerate() {
        let earlier = modules[..at].iter().position(|first| is_pair(first, module));
        let Some(first) = earlier.filter(|first| may_differ(*first, at)) else {
            continue;
        };
        let id = module.build_id.as_ref().map(|id| id.to_hex()).unwrap_or_default();
        let path = |module: &Module| clean(&module.path.to_string_lossy()).to_string();
        term.warning(format_args!(
            "{} and {} are two files with one build id ({id}). {consequence}",
            path(modules[first]),
            path(module)
        ));
    }
}

fn differ(first: &KeptFile, second: &KeptFile) -> bool {
    let (mut a, mut b) = (vec![0; BLOCK_BYTES], vec![0; BLOCK_BYTES]);
    let len = first.len();
    let is_same = |at: u64, a: &mut [u8], b: &mut [u8]| {
        first.read_exact_at(a, at).is_ok() && second.read_exact_at(b, at).is_ok() && a == b
    };
    let blocks = (0..len.min(MAX_COMPARED)).step_by(BLOCK_BYTES);
    let mut sizes = blocks.map(|at| (at, (len - at).min(BLOCK_BYTES as u64) as usize));
    len != second.len() || !sizes.all(|(at, size)| is_same(at, &mut a[..size], &mut b[..size]))
}
