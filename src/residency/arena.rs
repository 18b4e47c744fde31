//! Stable handles for things that come and go: a vector of entries whose places are reused under a new generation.
//!
//! A handle of something removed finds nothing, whatever lives in its place now. That is what lets a late load result or a
//! forgotten lease of a removed replica fall to the ground without harm.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

/// A handle to an entry of the arena marked `M`.
pub struct Key<M> {
    index: u32,
    generation: u32,
    of: PhantomData<fn() -> M>,
}

impl<M> Key<M> {
    /// The place of the entry: dense from 0, reused after the entry is gone.
    pub fn index(self) -> usize {
        self.index as usize
    }
}

impl<M> Clone for Key<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Key<M> {}

impl<M> PartialEq for Key<M> {
    fn eq(&self, other: &Self) -> bool {
        (self.index, self.generation) == (other.index, other.generation)
    }
}

impl<M> Eq for Key<M> {}

impl<M> Hash for Key<M> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.index, self.generation).hash(state);
    }
}

impl<M> fmt::Debug for Key<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}.{}", self.index, self.generation)
    }
}

/// Entries of type `T`, found by keys marked `M`.
#[derive(Debug)]
pub(super) struct Arena<M, T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
    of: PhantomData<fn() -> M>,
}

#[derive(Debug)]
struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

impl<M, T> Default for Arena<M, T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new(), of: PhantomData }
    }
}

impl<M, T> Arena<M, T> {
    /// Adds an entry.
    pub(super) fn insert(&mut self, value: T) -> Key<M> {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { generation: 0, value: None });
            // More than 2^32 live entries do not fit in memory.
            (self.entries.len() - 1) as u32
        });
        let generation = match self.entries.get_mut(index as usize) {
            Some(entry) => {
                entry.value = Some(value);
                entry.generation
            }
            None => 0,
        };
        Key { index, generation, of: PhantomData }
    }

    /// Takes an entry out; its key finds nothing from now on.
    pub(super) fn remove(&mut self, key: Key<M>) -> Option<T> {
        let entry = self.entries.get_mut(key.index()).filter(|entry| entry.generation == key.generation)?;
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(key.index);
        Some(value)
    }

    /// The entry of `key`, while it lives.
    pub(super) fn get(&self, key: Key<M>) -> Option<&T> {
        self.entries.get(key.index()).filter(|entry| entry.generation == key.generation)?.value.as_ref()
    }

    /// The entry of `key`, while it lives.
    pub(super) fn get_mut(&mut self, key: Key<M>) -> Option<&mut T> {
        self.entries.get_mut(key.index()).filter(|entry| entry.generation == key.generation)?.value.as_mut()
    }

    /// All entries that live, by rising place.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Key<M>, &T)> {
        self.entries.iter().enumerate().filter_map(|(index, entry)| {
            let key = Key { index: index as u32, generation: entry.generation, of: PhantomData };
            entry.value.as_ref().map(|value| (key, value))
        })
    }

    /// All entries that live, to change.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().filter_map(|entry| entry.value.as_mut())
    }

    /// How many places there are, used or not.
    pub(super) fn places(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_a_removed_entry_finds_nothing_after_its_place_is_reused() {
        let mut arena = Arena::<(), &str>::default();
        let old = arena.insert("old");
        assert_eq!(arena.remove(old), Some("old"));
        let new = arena.insert("new");
        assert_eq!((new.index(), arena.get(old), arena.get(new)), (old.index(), None, Some(&"new")));
        assert_eq!(arena.remove(old), None);
    }
}
