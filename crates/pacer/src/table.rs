//! A map whose entries are found by a hash, and listed in the order of their keys.
//!
//! Why not a tree: each win looks for its lease five times among tens of thousands, the pacer's thread for each
//! campaign that is asked for in each round, and nothing else took as long. Keys come and go seldom, so keeping their
//! order apart costs little.

use std::collections::BTreeSet;
use std::hash::Hash;
use std::ops::{Bound, Index};

use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Entries by their keys. Which keys there are is decided here and not by clients: nobody can make them collide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table<K, V>
where
    K: Copy + Ord + Hash,
{
    entries: HashMap<K, V, FixedState>,
    keys: BTreeSet<K>,
}

impl<K: Copy + Ord + Hash, V> Default for Table<K, V> {
    fn default() -> Table<K, V> {
        Table { entries: HashMap::default(), keys: BTreeSet::new() }
    }
}

impl<K: Copy + Ord + Hash, V> Table<K, V> {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    #[inline]
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key)
    }

    pub fn contains_key(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    /// Puts `value` in the place of what `key` had.
    pub fn insert(&mut self, key: K, value: V) {
        self.keys.insert(key);
        self.entries.insert(key, value);
    }

    /// What `key` has, or gets now.
    pub fn entry(&mut self, key: K, new: impl FnOnce() -> V) -> &mut V {
        if !self.entries.contains_key(&key) {
            self.insert(key, new());
        }
        self.entries.get_mut(&key).expect("it is there now")
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.keys.remove(key);
        self.entries.remove(key)
    }

    /// All entries, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.keys.iter().map(|key| (key, &self.entries[key]))
    }

    /// Those behind `after`, in their order.
    pub fn behind(&self, after: K) -> impl Iterator<Item = (&K, &V)> {
        self.keys.range((Bound::Excluded(after), Bound::Unbounded)).map(|key| (key, &self.entries[key]))
    }

    /// Those from `first` on, in their order.
    pub fn from(&self, first: K) -> impl Iterator<Item = (&K, &V)> {
        self.keys.range(first..).map(|key| (key, &self.entries[key]))
    }

    /// All values, in any order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values()
    }

    /// The same, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.entries.values_mut()
    }
}

impl<K: Copy + Ord + Hash, V> FromIterator<(K, V)> for Table<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Table<K, V> {
        let mut table = Table::default();
        entries.into_iter().for_each(|(key, value)| table.insert(key, value));
        table
    }
}

impl<K: Copy + Ord + Hash, V> Index<&K> for Table<K, V> {
    type Output = V;

    fn index(&self, key: &K) -> &V {
        &self.entries[key]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_and_listed_in_order() {
        let mut table: Table<u32, &str> = [(7, "seven"), (1, "one"), (3, "three")].into_iter().collect();
        table.insert(3, "three again");
        assert_eq!((table.len(), table.get(&3), table[&7]), (3, Some(&"three again"), "seven"));
        assert_eq!(table.iter().map(|(key, _)| *key).collect::<Vec<u32>>(), [1, 3, 7]);
        assert_eq!(table.behind(1).map(|(key, _)| *key).collect::<Vec<u32>>(), [3, 7]);
        assert_eq!(table.from(3).map(|(key, _)| *key).collect::<Vec<u32>>(), [3, 7]);
        assert_eq!((table.remove(&1), table.remove(&1), table.contains_key(&1)), (Some("one"), None, false));
        assert_eq!(table.values().count(), table.iter().count());
    }
}
