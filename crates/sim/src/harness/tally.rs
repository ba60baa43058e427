//! What happened in runs, counted by name, so that a test can see that faults were met.

use std::collections::BTreeMap;
use std::fmt;

/// Counts by name.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    /// Counts `what` so many times more.
    pub fn add(&mut self, what: &'static str, times: u64) {
        *self.0.entry(what).or_default() += times;
    }

    /// How often `what` was counted.
    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// All counts, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(what, times)| (*what, *times))
    }

    /// Adds up the counts of two runs.
    pub fn merge(&mut self, other: &Tally) {
        other.0.iter().for_each(|(what, times)| self.add(what, *times));
    }
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.0).finish()
    }
}
