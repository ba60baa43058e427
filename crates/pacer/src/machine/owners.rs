//! How many campaigns each principal has changed last.

use std::collections::BTreeMap;

use super::campaign::Campaign;
use crate::table::Table;

/// How many campaigns each principal has changed last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Owners(BTreeMap<Box<str>, usize>);

impl Owners {
    /// Of these campaigns.
    pub fn of(campaigns: &Table<u32, Campaign>) -> Owners {
        let mut owners = Owners::default();
        campaigns.values().for_each(|campaign| owners.add(&campaign.last_change.by));
        owners
    }

    /// How many this principal has changed last.
    pub fn count(&self, by: &str) -> usize {
        self.0.get(by).copied().unwrap_or(0)
    }

    /// It has changed one more last.
    pub fn add(&mut self, by: &str) {
        *self.0.entry(by.into()).or_default() += 1;
    }

    /// It has changed one less last.
    pub fn remove(&mut self, by: &str) {
        let count = self.0.get_mut(by).expect("it was counted");
        *count -= 1;
        if *count == 0 {
            self.0.remove(by);
        }
    }
}
