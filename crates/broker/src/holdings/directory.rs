//! All principals that hold something or are connected, by name. One that is neither is forgotten.
//!
//! Why several tables: workers that admit clients at the same time seldom want the same lock.

use std::hash::BuildHasher;
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

    pub fn find_or_add(&self, principal: &Principal, make: impl FnOnce() -> Held) -> Arc<Held> {
        let mut table = self.table(principal);
        if let Some(held) = table.get(principal) {
            return held.clone();
        }
        let held = Arc::new(make());
        table.insert(principal.clone(), held.clone());
        held
    }

    /// Somebody does not need it any more. Given back under the lock: of two who leave at the same time, the second
    /// sees that it is the last.
    pub fn leave(&self, held: Arc<Held>) {
        let principal = held.principal.clone();
        let mut table = self.table(&principal);
        // One is the table's, one is ours. Who has none of them comes by the table, which is locked.
        if Arc::strong_count(&held) == 2 && held.amounts.are_none() {
            table.remove(&principal);
        }
        drop(held);
    }

    pub fn len(&self) -> usize {
        self.tables.iter().map(|table| table.lock().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }

    fn table(&self, principal: &Principal) -> MutexGuard<'_, Table> {
        let hash = self.hasher.hash_one(principal.as_str());
        self.tables[hash as usize % TABLES].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
