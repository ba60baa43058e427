//! Decides changes of accounts and assets: status, limits, metadata, decimals.

use super::decide::{APPLIED, DUPLICATE, Decided, refused};
use super::event::Event;
use super::hash::shard_of;
use super::limits::ASSET_DECIMALS_MAX;
use super::outcome::{Refusal, Ruling};
use super::settings::{AccountChange, AccountRules, AccountStatus, MetadataPatch};
use super::state::Ledger;
use super::validity::{is_account_id, is_asset};
use crate::{Decision, TimeMs};

impl Ledger {
    /// Changes an account at its home. An account of a ledger of many shards is closed in two steps: it is frozen, and
    /// once no other shard sends it anything (`is_settled`), closed.
    pub(super) fn decide_change<'a>(
        &self,
        id: &'a str,
        change: &AccountChange<'a>,
        is_settled: bool,
        now: TimeMs,
    ) -> Decided<'a> {
        // An account of an older journal may have an id that none may have now.
        let Some(slot) = self.accounts.find(id) else {
            return refused(if is_account_id(id) { Refusal::AccountNotFound } else { Refusal::AccountIdInvalid });
        };
        let account = self.accounts.get(slot).expect("found accounts are there");
        assert!(account.home == self.shard, "a change of {id} came to shard {}, not its home", self.shard);
        let before = self.settings.or_default(slot);
        if change.if_revision.is_some_and(|revision| revision != before.revision) {
            return refused(Refusal::RevisionStale { revision: before.revision });
        }
        let is_loosened = matches!(change.status, Some(AccountStatus::DebitsFrozen | AccountStatus::Frozen));
        if before.status == AccountStatus::Closed && is_loosened {
            return refused(Refusal::SettingNotAllowed);
        }
        let mut change = *change;
        if change.status == Some(AccountStatus::Closed) && before.status != AccountStatus::Closed {
            // That the kind may be closed is said before anything is frozen.
            let closed = AccountRules { status: AccountStatus::Closed, ..AccountRules::default() };
            if let Err(refusal) = closed.check(account.kind) {
                return refused(refusal);
            }
            if account.balance != 0 || account.held != 0 {
                return refused(Refusal::AccountNotEmpty);
            }
            let is_last_step = self.shard_count == 1 || is_settled && before.status == AccountStatus::Frozen;
            if !is_last_step {
                change.status = Some(AccountStatus::Frozen);
            }
        }
        match before.changed(account.kind, &change) {
            Err(refusal) => refused(refusal),
            Ok(after) if after.revision == before.revision => DUPLICATE,
            Ok(after) => Decision::Append {
                event: Event::AccountChanged {
                    time: now,
                    slot,
                    id,
                    home: self.shard,
                    revision: after.revision,
                    rules: after.rules,
                    metadata: change.metadata,
                },
                outcome: APPLIED,
            },
        }
    }

    /// Learns what the home of an account says of it. What is older than what is known changes nothing.
    pub(super) fn decide_adopt_change<'a>(
        &self,
        id: &'a str,
        revision: u64,
        rules: AccountRules,
        now: TimeMs,
    ) -> Decided<'a> {
        let slot = self.accounts.find(id).expect("an account is adopted before its settings");
        let account = self.accounts.get(slot).expect("found accounts are there");
        assert!(account.home != self.shard, "the home of {id} is told of its own change");
        if revision <= self.settings.get(slot).map_or(0, |settings| settings.revision) {
            return Decision::Answer(Ruling::AppliedBefore);
        }
        let metadata = MetadataPatch::NONE;
        let event = Event::AccountChanged { time: now, slot, id, home: account.home, revision, rules, metadata };
        Decision::Append { event, outcome: APPLIED }
    }

    /// Declares the decimals of an asset, once.
    pub(super) fn decide_declare<'a>(&self, asset: &'a str, decimals: u8, now: TimeMs) -> Decided<'a> {
        if !is_asset(asset) {
            return refused(Refusal::AssetInvalid);
        }
        if decimals > ASSET_DECIMALS_MAX {
            return refused(Refusal::DecimalsInvalid);
        }
        let home = shard_of(asset, self.shard_count);
        assert!(home == self.shard, "asset {asset} came to shard {}, not its home {home}", self.shard);
        match self.assets.find(asset).and_then(|index| self.assets.get(index).decimals) {
            Some(declared) if declared == decimals => DUPLICATE,
            Some(_) => refused(Refusal::AssetExists),
            None => Decision::Append { event: Event::AssetDeclared { time: now, asset, decimals }, outcome: APPLIED },
        }
    }
}
