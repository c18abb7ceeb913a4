//! The texts of source files that a profile holds.

use std::collections::BTreeMap;

/// By path. `None` is a path with two different texts, of two profiles or two scripts of one page: neither is that of
/// all samples. A saved file has no text for the path then.
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
