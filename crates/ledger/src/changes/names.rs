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
pub(super) struct Names {
    known: HashMap<AccountSlot, Name>,
    /// Bytes of their ids, with what memory adds to each.
    id_bytes: usize,
}

impl Names {
    /// The name of a slot, if it was met.
    pub fn get(&self, slot: AccountSlot) -> Option<&Name> {
        self.known.get(&slot)
    }

    /// Keeps what a slot is called.
    pub fn remember(&mut self, slot: AccountSlot, id: &str, asset: &str, filter: &ChangeFilter) {
        // Few assets have many accounts: most names share one text.
        let shared = self.known.values().next().filter(|name| *name.asset == *asset).map(|name| name.asset.clone());
        let asset = shared.unwrap_or_else(|| asset.into());
        let name = Name { id: id.into(), asset, interest: (filter.interest)(id) };
        if self.known.insert(slot, name).is_none() {
            self.id_bytes += id.len() + size_of::<[usize; 4]>();
        }
    }

    /// Forgets all if there are too many.
    pub fn bound(&mut self) {
        if self.known.len() > CHANGE_NAMES_MAX {
            *self = Names::default();
        }
    }

    /// Bytes of memory that they take, about.
    pub fn held_bytes(&self) -> usize {
        self.known.capacity() * size_of::<(AccountSlot, Name)>() + self.id_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::{ChangeKind, Interest};

    fn filter() -> ChangeFilter {
        let interest = |_: &str| Interest { visible: true, wanted: true };
        ChangeFilter { interest: Box::new(interest), without_account: true, kinds: ChangeKind::ALL.to_vec() }
    }

    #[test]
    fn each_account_has_its_own_asset_however_many_share_a_text() {
        let (mut names, filter) = (Names::default(), filter());
        let accounts = [("a", "credit"), ("b", "gold"), ("c", "credit"), ("d", "silver"), ("e", "gold")];
        for (slot, (id, asset)) in (0..).map(AccountSlot).zip(accounts) {
            names.remember(slot, id, asset, &filter);
        }
        for (slot, (id, asset)) in (0..).map(AccountSlot).zip(accounts) {
            let name = names.get(slot).expect("it was just told");
            assert_eq!((&*name.id, &*name.asset), (id, asset));
        }
        assert!(names.get(AccountSlot(5)).is_none());
    }

    #[test]
    fn a_reader_keeps_so_many_names_and_then_asks_anew() {
        let (mut names, filter) = (Names::default(), filter());
        let slots = (0..CHANGE_NAMES_MAX as u32).map(AccountSlot);
        slots.for_each(|slot| names.remember(slot, "wallet", "credit", &filter));
        names.bound();
        assert!(names.get(AccountSlot(0)).is_some(), "as many as may be");
        names.remember(AccountSlot(CHANGE_NAMES_MAX as u32), "wallet", "credit", &filter);
        names.bound();
        assert!(names.get(AccountSlot(0)).is_none(), "one too many");
    }
}
