//! All strings of a profile, without duplicates.

use std::hash::Hasher;

use rustc_hash::FxHasher;

use super::index::IdIndex;

/// Index into [`StringTable`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct StringId(pub(crate) u32);

/// Interned strings in one buffer, in order of insertion.
#[derive(Clone, Default)]
pub(crate) struct StringTable {
    text: String,
    ends: Vec<usize>,
    index: IdIndex,
}

impl StringTable {
    pub(crate) fn intern(&mut self, string: &str) -> StringId {
        let Self { text, ends, index } = self;
        let new_id = ends.len() as u32;
        let get = |id: u32| slice(text, ends, id);
        let found = index.find_or_insert(
            hash(string.as_bytes()),
            new_id,
            |id| get(id) == string,
            |id| hash(get(id).as_bytes()),
        );
        if let Some(id) = found {
            return StringId(id);
        }
        text.push_str(string);
        ends.push(text.len());
        StringId(new_id)
    }

    pub(crate) fn get(&self, id: StringId) -> &str {
        slice(&self.text, &self.ends, id.0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len() as u32).map(|id| slice(&self.text, &self.ends, id))
    }
}

fn slice<'a>(text: &'a str, ends: &[usize], id: u32) -> &'a str {
    let id = id as usize;
    let start = if id == 0 { 0 } else { ends[id - 1] };
    &text[start..ends[id]]
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_share_an_id_and_unequal_ones_do_not() {
        let mut strings = StringTable::default();
        let names: Vec<String> = (0..1000).map(|i| format!("function_{i}")).collect();
        let first: Vec<_> = names.iter().map(|name| strings.intern(name)).collect();
        let second: Vec<_> = names.iter().map(|name| strings.intern(name)).collect();
        assert_eq!(first, second);
        assert_eq!(strings.iter().count(), 1000);
        assert_eq!(strings.get(first[417]), "function_417");
    }

    #[test]
    fn the_empty_string_is_a_string() {
        let mut strings = StringTable::default();
        let empty = strings.intern("");
        assert_eq!(strings.get(empty), "");
        assert_eq!(strings.intern(""), empty);
    }
}
