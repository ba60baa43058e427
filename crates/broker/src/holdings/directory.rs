//! All principals that hold something or are connected, by name. One that is neither is forgotten.
//!
//! Why several tables: workers that admit clients at the same time seldom want the same lock.

use std::hash::BuildHasher;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use tidegate_machines::topic::Principal;

use super::Held;

const TABLES: usize = 64;

type Table = HashMap<Principal, Arc<Held>, foldhash::fast::RandomState>;

/// See the [module](self).
pub(super) struct Directory {
    tables: [Mutex<Table>; TABLES],
    hasher: foldhash::fast::RandomState,
}

impl Default for Directory {
    fn default() -> Directory {
        Directory { tables: std::array::from_fn(|_| Mutex::default()), hasher: foldhash::fast::RandomState::default() }
    }
}

impl Directory {
    pub fn find(&self, principal: &Principal) -> Option<Arc<Held>> {
        self.table(principal).get(principal).cloned()
    }

    /// The one of this name, for one [`super::Holder`] more.
    pub fn find_or_add(&self, principal: &Principal, make: impl FnOnce() -> Held) -> Arc<Held> {
        let mut table = self.table(principal);
        let held = table.entry(principal.clone()).or_insert_with(|| Arc::new(make())).clone();
        held.holders.fetch_add(1, Ordering::Relaxed);
        held
    }

    /// The last who needs it does so no more, unless another has come by this table, which is locked, meanwhile.
    pub fn leave(&self, held: &Held) {
        let mut table = self.table(&held.principal);
        let before = held.holders.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "who leaves was counted");
        if before == 1 && held.amounts.are_none() {
            table.remove(&held.principal);
        }
    }

    pub fn len(&self) -> usize {
        self.tables.iter().map(|table| table.lock().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }

    fn table(&self, principal: &Principal) -> MutexGuard<'_, Table> {
        let hash = self.hasher.hash_one(principal.as_str());
        self.tables[hash as usize % TABLES].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
