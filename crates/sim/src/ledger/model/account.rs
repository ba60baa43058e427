//! What clients know of one account.

use std::collections::BTreeMap;

use tidegate_machines::ledger::{AccountKind, AccountView, HistoryRow};

use super::Stamp;
use super::settings::SettingsStory;
use crate::violation::{Violation, must};

/// Gross figures that a read must reach: they never shrink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Floor {
    credited: u128,
    debited: u128,
}

/// One account as clients know it.
#[derive(Clone, Debug, Default)]
pub(super) struct AccountStory {
    /// What was asked to be opened under this id, and how often.
    asked: Vec<(String, AccountKind, u32)>,
    /// Which of these was opened, and since when that is known.
    opened: Option<(usize, Stamp)>,
    /// Answers that said "created by this request".
    created: u32,
    /// The highest gross figures that anyone saw.
    seen: Floor,
    /// Debits that somebody knows to be applied.
    debits_known: u128,
    /// What was set on it.
    pub settings: SettingsStory,
    /// Rows that somebody saw, by id and kind.
    pub rows: BTreeMap<(String, u8), HistoryRow>,
}

impl AccountStory {
    pub fn sent(&mut self, asset: &str, kind: AccountKind) {
        match self.asked.iter_mut().find(|(a, k, _)| a == asset && *k == kind) {
            Some((_, _, sends)) => *sends += 1,
            None => self.asked.push((asset.to_owned(), kind, 1)),
        }
    }

    pub fn was_asked_for(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Asset and kind, once known.
    pub fn content(&self) -> Option<(&str, AccountKind)> {
        match self.opened {
            Some((which, _)) => Some((&self.asked[which].0, self.asked[which].1)),
            // Never asked for otherwise, so it can be nothing else.
            None if self.asked.len() == 1 => Some((&self.asked[0].0, self.asked[0].1)),
            None => None,
        }
    }

    pub fn was_open_at(&self, stamp: Stamp) -> bool {
        self.opened.is_some_and(|(_, since)| since < stamp)
    }

    pub fn is_open(&self) -> bool {
        self.opened.is_some()
    }

    pub fn floor(&self) -> Floor {
        Floor { credited: self.seen.credited, debited: self.seen.debited.max(self.debits_known) }
    }

    pub fn note_debit(&mut self, amount: u64) {
        self.debits_known += u128::from(amount);
    }

    fn index(&self, asset: &str, kind: AccountKind) -> usize {
        self.asked.iter().position(|(a, k, _)| a == asset && *k == kind).expect("only what was asked is answered")
    }

    pub fn opened(
        &mut self,
        asset: &str,
        kind: AccountKind,
        created: bool,
        view: &AccountView,
        sent: Stamp,
        now: Stamp,
    ) -> Result<(), Violation> {
        let which = self.index(asset, kind);
        let told = || format!("{asset} {kind:?} was answered created={created} {view:?}");
        must(*view.asset == *asset && view.kind == kind, "an account is what was asked for", told)?;
        if created {
            self.created += 1;
            must(self.created == 1 && !self.was_open_at(sent), "an account is opened once", told)?;
        } else {
            must(self.asked[which].2 > 1 || self.is_open(), "nothing is done before it is asked", told)?;
        }
        self.become_open(which, now, told)
    }

    fn become_open(&mut self, which: usize, now: Stamp, told: impl Fn() -> String) -> Result<(), Violation> {
        match self.opened {
            Some((known, _)) => must(known == which, "an account never changes its asset or kind", told),
            None => {
                self.opened = Some((which, now));
                Ok(())
            }
        }
    }

    pub fn exists_otherwise(&mut self, id: &str, asset: &str, kind: AccountKind) -> Result<(), Violation> {
        let which = self.index(asset, kind);
        let other = self.asked.len() > 1 && self.opened.is_none_or(|(opened, _)| opened != which);
        must(other, "an account that was asked for once is not in its own way", || {
            format!("{id} {asset} {kind:?}: account_exists")
        })
    }

    pub fn viewed(&mut self, view: &AccountView, floor: Option<&Floor>) -> Result<(), Violation> {
        let told = || format!("{view:?}, known before: {floor:?}");
        if let Some((asset, kind)) = self.content() {
            must(*view.asset == *asset && view.kind == kind, "an account never changes its asset or kind", told)?;
        }
        let net = view.credited as i128 - view.debited as i128;
        must(net == i128::from(view.balance), "a balance is what came in less what went out", told)?;
        match view.kind {
            AccountKind::Wallet => {
                must(view.balance >= 0, "no wallet below zero", told)?;
                must(view.available() >= 0, "available is never below zero", told)?;
            }
            AccountKind::Collector => must(view.debited == 0, "a collector is only credited", told)?,
            AccountKind::Source => {}
        }
        if let Some(floor) = floor {
            let reached = view.credited >= floor.credited && view.debited >= floor.debited;
            must(reached, "what was seen or acknowledged is never taken back", told)?;
        }
        self.seen.credited = self.seen.credited.max(view.credited);
        self.seen.debited = self.seen.debited.max(view.debited);
        Ok(())
    }
}
