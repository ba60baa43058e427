//! A map that holds at most a set number of entries and forgets those not asked for lately.
//!
//! ```text
//!   get ──▶ young ──miss──▶ old ──hit: moves to young
//!                  young is half the bound: old is dropped, young becomes old
//! ```
//!
//! Why not a least-recently-used list: two maps give nearly the same hits with no links to keep, and dropping half of
//! the entries is one deallocation.

use std::borrow::Borrow;
use std::hash::Hash;

use hashbrown::HashMap;

/// A bounded map in two generations; see the module.
#[derive(Clone, Debug)]
pub struct Generations<K, V> {
    young: HashMap<K, V, foldhash::fast::RandomState>,
    old: HashMap<K, V, foldhash::fast::RandomState>,
    entries_max: usize,
}

impl<K: Hash + Eq, V: Clone> Generations<K, V> {
    /// A map of at most `entries_max` entries (at least two).
    pub fn new(entries_max: usize) -> Self {
        Generations { young: HashMap::default(), old: HashMap::default(), entries_max: entries_max.max(2) }
    }

    /// The value of `key`; being asked for keeps it for another generation.
    pub fn get<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        if let Some(value) = self.young.get(key) {
            return Some(value.clone());
        }
        let (key, value) = self.old.remove_entry(key)?;
        self.insert(key, value.clone());
        Some(value)
    }

    /// Looks without keeping the entry any longer.
    pub fn peek<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    /// Remembers `value` under `key`, and forgets the older generation when this one is full.
    pub fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.entries_max / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }

    /// Forgets `key`.
    pub fn remove<Q>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.young.remove(key);
        self.old.remove(key);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }

    /// How many entries there are, counting one that stands in both generations twice; never more than the bound.
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::Generations;

    #[test]
    fn stays_within_its_bound_and_keeps_what_is_asked_for() {
        let mut map = Generations::new(10);
        map.insert(0, "kept");
        for key in 1..1_000 {
            map.insert(key, "passing");
            assert_eq!(map.get(&0), Some("kept"), "after {key}");
            assert!(map.len() <= 10, "{} entries after {key}", map.len());
        }
        assert_eq!(map.get(&1), None);
    }

    #[test]
    fn forgets_on_demand() {
        let mut map = Generations::new(4);
        map.insert("a", 1);
        map.insert("b", 2);
        map.insert("c", 3);
        map.remove("a");
        map.remove("c");
        assert_eq!((map.peek("a"), map.peek("b"), map.peek("c")), (None, Some(&2), None));
    }
}
