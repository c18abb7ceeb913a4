//! The texts of source files that a profile holds.

use std::collections::BTreeMap;

/// Texts of source files by path. `None` for a path with two different texts, from two profiles or from two scripts of
/// one page: then neither text belongs to all samples, and a saved file has no text for the path.
pub type Sources = BTreeMap<Box<str>, Option<Box<str>>>;

/// Adds the files of another profile.
pub(crate) fn adopt(sources: &mut Sources, others: Sources) {
    for (path, text) in others {
        match sources.get_mut(&path) {
            Some(known) if *known != text => *known = None,
            Some(_) => {}
            None => {
                sources.insert(path, text);
            }
        }
    }
}
