//! Which accounts somebody subscribes to, and for which of them a retained message is there.
//!
//! ```text
//!   filter wanted ─▶ named? ─▶ that account ─┐
//!                    else   ─▶ all           ┴▶ Want, for the shards
//!   filter not wanted ─▶ Want ─▶ retained messages that nobody wants are cleared, some in each turn
//! ```

use std::collections::VecDeque;

use hashbrown::{HashMap, HashSet};
use tidegate_broker::subscriptions::WatchedFilter;
use tidegate_ledger::announcer::Want;

use crate::topic_names::{ACCOUNTS, CHANGES};

/// Messages that are cleared in one turn.
const CLEARED_PER_TURN: usize = 1_024;

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Wanted {
    /// Filters with wildcards: each may match any account.
    wild: usize,
    /// Filters that name an account, plain ones and share groups.
    named: HashMap<Box<str>, usize>,
    /// Accounts with a retained message.
    announced: HashSet<Box<str>>,
    to_clear: VecDeque<Box<str>>,
}

impl Wanted {
    /// What the shards must know after this change, if anything.
    pub fn change(&mut self, change: &WatchedFilter) -> Option<Want> {
        let WatchedFilter { filter, is_wanted } = change;
        if filter.starts_with(CHANGES) {
            // They come from the journals, not from the shards.
            return None;
        }
        if filter.contains(['+', '#']) {
            let before = self.wild;
            self.wild = if *is_wanted { before + 1 } else { before.checked_sub(1).expect("it was wanted") };
            if before > 0 && self.wild > 0 {
                return None;
            }
            if self.wild == 0 {
                self.to_clear.extend(self.announced.iter().filter(|id| !self.named.contains_key(*id)).cloned());
            }
            return Some(Want { account: None, is_wanted: *is_wanted });
        }
        let id = filter.strip_prefix(ACCOUNTS)?;
        let count = self.named.entry_ref(id).or_default();
        let before = *count;
        *count = if *is_wanted { before + 1 } else { before.checked_sub(1).expect("it was wanted") };
        let now = *count;
        if now == 0 {
            self.named.remove(id);
            if self.wild == 0 && self.announced.contains(id) {
                self.to_clear.push_back(id.into());
            }
        }
        (before == 0 || now == 0).then(|| Want { account: Some(id.into()), is_wanted: *is_wanted })
    }

    /// Whether a message about this account is wanted; it is retained then.
    pub fn announces(&mut self, id: &str) -> bool {
        let is_wanted = self.is_wanted(id);
        if is_wanted && !self.announced.contains(id) {
            self.announced.insert(id.into());
        }
        is_wanted
    }

    /// Whether a filter names this account; of `None`, whether one may match any.
    pub fn wants(&self, account: Option<&str>) -> bool {
        account.map_or(self.wild > 0, |id| self.named.contains_key(id))
    }

    fn is_wanted(&self, id: &str) -> bool {
        self.wild > 0 || self.named.contains_key(id)
    }

    /// Accounts whose retained messages are to be cleared now.
    pub fn take_unwanted(&mut self) -> Vec<Box<str>> {
        let count = self.to_clear.len().min(CLEARED_PER_TURN);
        let mut unwanted: Vec<Box<str>> = self.to_clear.drain(..count).collect();
        // Somebody may have come back.
        unwanted.retain(|id| !self.is_wanted(id) && self.announced.remove(id));
        unwanted
    }

    /// Whether there are more to clear.
    pub fn has_unwanted(&self) -> bool {
        !self.to_clear.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(wanted: &mut Wanted, filter: &str, is_wanted: bool) -> Option<(Option<Box<str>>, bool)> {
        let want = wanted.change(&WatchedFilter { filter: filter.into(), is_wanted });
        want.map(|want| (want.account, want.is_wanted))
    }

    #[test]
    fn an_account_is_wanted_from_its_first_filter_to_its_last() {
        let mut wanted = Wanted::default();
        assert_eq!(change(&mut wanted, "$ledger/accounts/a", true), Some((Some("a".into()), true)));
        assert_eq!(change(&mut wanted, "$ledger/accounts/a", true), None, "a share group of the same filter");
        assert!(wanted.announces("a") && !wanted.announces("b"));
        assert_eq!(change(&mut wanted, "$ledger/accounts/a", false), None);
        assert_eq!(change(&mut wanted, "$ledger/accounts/a", false), Some((Some("a".into()), false)));
        assert_eq!(wanted.take_unwanted(), ["a".into()]);
        assert_eq!(change(&mut wanted, "$ledger/transfers", true), None);
        assert_eq!(change(&mut wanted, "$ledger/changes/#", true), None, "changes come from the journals");
        assert!(!wanted.announces("a") && !wanted.has_unwanted());
    }

    #[test]
    fn a_wildcard_wants_all_and_leaves_those_that_are_named() {
        let mut wanted = Wanted::default();
        assert_eq!(change(&mut wanted, "$ledger/accounts/+", true), Some((None, true)));
        assert_eq!(change(&mut wanted, "$ledger/#", true), None);
        assert_eq!(change(&mut wanted, "$ledger/accounts/a", true), Some((Some("a".into()), true)));
        assert!(wanted.announces("a") && wanted.announces("b"));
        assert_eq!(change(&mut wanted, "$ledger/#", false), None);
        assert_eq!(change(&mut wanted, "$ledger/accounts/+", false), Some((None, false)));
        assert_eq!(wanted.take_unwanted(), ["b".into()]);
        assert_eq!(change(&mut wanted, "$ledger/accounts/b", true), Some((Some("b".into()), true)));
        assert!(wanted.announces("a") && wanted.announces("b") && !wanted.announces("c"));
    }

    #[test]
    fn what_is_wanted_again_is_not_cleared() {
        let mut wanted = Wanted::default();
        change(&mut wanted, "$ledger/accounts/a", true);
        assert!(wanted.announces("a"));
        change(&mut wanted, "$ledger/accounts/a", false);
        change(&mut wanted, "$ledger/accounts/a", true);
        assert_eq!(wanted.take_unwanted(), [] as [Box<str>; 0]);
    }
}
