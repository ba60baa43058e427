//! A cache of the accounts that are collectors. A kind never changes and an account is never deleted, so an entry is
//! never stale. That an account is missing is not cached, because the next request may open it; that it is of another
//! kind is not cached either, so that both take a viewer the same time.

use tidegate_machines::ledger::AccountKind;

use super::generations::Generations;

/// Kinds of the accounts that viewers asked about lately: at most a set number, one cache per thread.
#[derive(Debug)]
pub struct AccountKinds {
    kinds: Generations<Box<str>, AccountKind>,
}

impl AccountKinds {
    /// Remembers at most `entries_max` accounts.
    pub fn new(entries_max: usize) -> AccountKinds {
        AccountKinds { kinds: Generations::new(entries_max) }
    }

    /// The kind of `account`, if it was learned and not yet forgotten.
    pub fn get(&mut self, account: &str) -> Option<AccountKind> {
        self.kinds.get(account)
    }

    /// Remembers what a reply of the ledger said. Returns whether the account is a collector.
    pub fn learn(&mut self, account: &str, kind: AccountKind) -> bool {
        let is_collector = kind == AccountKind::Collector;
        if is_collector && self.kinds.peek(account).is_none() {
            self.kinds.insert(account.into(), kind);
        }
        is_collector
    }
}
