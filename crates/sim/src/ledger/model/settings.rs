//! What clients know of what was set on one account: a status that is in force, or that nobody can tell.
//!
//! ```text
//!   change sent ── nobody knows ── answered: in force ─────────────── next change sent ── nobody knows ── …
//!                                      └─ what is sent and applied in here keeps to it
//! ```
//!
//! Why so little: a change that was sent may be done at any moment until it is answered, and a copy of it later still.
//! It names a revision, so it is done once; and once an answer names a later revision, never again.

use tidegate_ledger::message::ChangeRequest;
use tidegate_machines::ledger::{AccountStatus, AccountView};

use super::Stamp;
use crate::violation::{Violation, must};

/// The settings of one account as clients know them.
#[derive(Clone, Debug, Default)]
pub(super) struct SettingsStory {
    /// The newest that an answer has named.
    revision: u64,
    /// Whether a change of that revision was sent.
    is_pending: bool,
    /// Statuses that were certainly in force: which, since when, until when.
    stages: Vec<(AccountStatus, Stamp, Option<Stamp>)>,
    /// Whether a limit was ever asked for.
    was_limited: bool,
    /// The statuses that were ever asked for.
    asked: Vec<AccountStatus>,
}

impl SettingsStory {
    /// The revision to change, unless a change of it was sent.
    pub fn next_revision(&self) -> Option<u64> {
        (!self.is_pending).then_some(self.revision)
    }

    /// The last status that was certain.
    pub fn last_status(&self) -> AccountStatus {
        self.stages.last().map_or(AccountStatus::Open, |(status, ..)| *status)
    }

    pub fn sent(&mut self, change: &ChangeRequest, now: Stamp) {
        self.was_limited |= change.balance_min.is_some() || change.balance_max.is_some();
        self.asked.extend(change.status);
        if change.if_revision == Some(self.revision) {
            self.is_pending = true;
            if let Some((_, _, until)) = self.stages.last_mut() {
                until.get_or_insert(now);
            }
        }
    }

    /// The change was answered with the account as it is now.
    pub fn answered(&mut self, change: &ChangeRequest, view: &AccountView, now: Stamp) -> Result<(), Violation> {
        let told = || format!("{change:?} was answered {view:?}");
        let settings = view.settings.as_deref().cloned().unwrap_or_default();
        let (rules, wanted) = (settings.rules, change.borrow());
        let is_so = wanted.status.is_none_or(|status| status == rules.status)
            && wanted.balance_min.is_none_or(|min| min == rules.balance_min)
            && wanted.balance_max.is_none_or(|max| max == rules.balance_max)
            && wanted.metadata.iter().all(|(key, value)| settings.metadata.get(key).map(|value| &**value) == value);
        must(is_so, "what was set is there", told)?;
        let named = change.if_revision.unwrap_or(0);
        must(settings.revision >= named, "a revision never goes back", told)?;
        // Of a change that changed nothing a copy may come later, and change something then.
        if named == self.revision && settings.revision > named {
            self.stages.push((rules.status, now, None));
        }
        self.is_at(named, settings.revision);
        Ok(())
    }

    /// The change was refused, perhaps because another copy of it was done.
    pub fn refused(&mut self, change: &ChangeRequest, revision: Option<u64>) {
        let named = change.if_revision.unwrap_or(0);
        self.is_at(named, revision.unwrap_or(named));
    }

    fn is_at(&mut self, named: u64, revision: u64) {
        if named == self.revision {
            self.is_pending = false;
        }
        self.revision = self.revision.max(revision);
    }

    /// The status that was in force all the time from `from` until `until`, if somebody can tell.
    pub fn in_force(&self, from: Stamp, until: Stamp) -> Option<AccountStatus> {
        if self.asked.is_empty() {
            return Some(AccountStatus::Open);
        }
        let covers = |(_, since, ended): &&(AccountStatus, Stamp, Option<Stamp>)| {
            *since < from && ended.is_none_or(|ended| ended > until)
        };
        self.stages.iter().find(covers).map(|(status, ..)| *status)
    }

    /// Whether a status that `forbids` something was ever asked for. Who closes an account freezes it first.
    pub fn may_have_been(&self, forbids: impl Fn(AccountStatus) -> bool) -> bool {
        self.asked
            .iter()
            .any(|status| forbids(*status) || *status == AccountStatus::Closed && forbids(AccountStatus::Frozen))
    }

    /// Whether a limit was ever asked for.
    pub fn was_limited(&self) -> bool {
        self.was_limited
    }
}
