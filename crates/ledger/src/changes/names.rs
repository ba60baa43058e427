//! What the accounts of a shard are called, as far as one reader has met them.

use std::sync::Arc;

use hashbrown::HashMap;
use tidegate_machines::ledger::AccountSlot;

use super::reader::{ChangeFilter, Interest};
use crate::limits::CHANGE_NAMES_MAX;

/// What a slot is called.
#[derive(Clone, Debug)]
pub(super) struct Name {
    pub id: Arc<str>,
    pub asset: Arc<str>,
    pub interest: Interest,
}

/// The names of one shard.
#[derive(Default)]
pub(super) struct Names(HashMap<AccountSlot, Name>);

impl Names {
    /// The name of a slot, if it was met.
    pub fn get(&self, slot: AccountSlot) -> Option<&Name> {
        self.0.get(&slot)
    }

    /// Keeps what a slot is called.
    pub fn remember(&mut self, slot: AccountSlot, id: &str, asset: &str, filter: &ChangeFilter) {
        // Few assets have many accounts: most names share one text.
        let shared = self.0.values().next().filter(|name| *name.asset == *asset).map(|name| name.asset.clone());
        let asset = shared.unwrap_or_else(|| asset.into());
        self.0.insert(slot, Name { id: id.into(), asset, interest: (filter.interest)(id) });
    }

    /// Forgets all if there are too many.
    pub fn bound(&mut self) {
        if self.0.len() > CHANGE_NAMES_MAX {
            self.0.clear();
        }
    }
}
