//! Values without duplicates, each with an index.

use std::borrow::Borrow;
use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Values in order of first insertion. The index is the place in this order.
#[derive(Clone, Debug)]
pub(crate) struct Unique<T> {
    pub(crate) all: Vec<T>,
    indexes: FxHashMap<T, u32>,
}

impl<T> Default for Unique<T> {
    fn default() -> Self {
        Unique {
            all: Vec::new(),
            indexes: FxHashMap::default(),
        }
    }
}

impl<T: Clone + Eq + Hash> Unique<T> {
    /// The index of the value; a new value is added.
    pub(crate) fn index(&mut self, value: T) -> u32 {
        let Unique { all, indexes } = self;
        *indexes.entry(value).or_insert_with_key(|value| {
            all.push(value.clone());
            all.len() as u32 - 1
        })
    }

    /// The index of an existing value.
    pub(crate) fn get(&self, value: &T) -> Option<u32> {
        self.indexes.get(value).copied()
    }

    /// Like [`Unique::index`]; a value is copied only if it is new.
    pub(crate) fn index_of<'a, Q: Eq + Hash + ?Sized>(&mut self, value: &'a Q) -> u32
    where
        T: Borrow<Q> + From<&'a Q>,
    {
        match self.indexes.get(value) {
            Some(known) => *known,
            None => self.index(value.into()),
        }
    }
}

/// The list may contain duplicates. Values keep their places; a lookup finds the last of equal values.
impl<T: Clone + Eq + Hash> From<Vec<T>> for Unique<T> {
    fn from(all: Vec<T>) -> Self {
        let indexes = all.iter().cloned().zip(0..).collect();
        Unique { all, indexes }
    }
}

impl<T: Clone + Eq + Hash> FromIterator<T> for Unique<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut unique = Unique::default();
        for value in values {
            unique.index(value);
        }
        unique
    }
}
