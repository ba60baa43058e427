//! Applies an event to the state. Every event is checked against the state before it changes anything, in the live
//! shard and at every replay. The check costs a few comparisons. An event that does not follow from its predecessors is
//! never applied.
//!
//! ```text
//!   check everything ─▶ Err(Mismatch), state unchanged
//!          │
//!          ▼
//!   change accounts, holds, peers (nothing here can fail)
//! ```

use tidegate_planted::{Bug, is_planted};

use super::account::{Account, AccountSlot};
use super::check::{Checked, same, wrong};
use super::event::{AccountStep, CreditStep, Event, HoldFacts};
use super::hash::shard_of;
use super::hold::{HoldId, OpenHold};
use super::limits::ASSET_DECIMALS_MAX;
use super::request::AccountKind;
use super::settings::{AccountChange, AccountRules, AccountSettings, AccountStatus, MetadataPatch};
use super::state::Ledger;
use super::validity::{check_expiry, is_known_account_id, is_known_asset};
use crate::{Amount, OutboundNumber, Place, RecordPosition, ShardIndex, TimeMs};

impl Ledger {
    /// Folds in an event, or says what does not agree and leaves the state as it is.
    #[inline]
    pub(super) fn fold(&mut self, event: &Event<'_>, at: Place) -> Checked<()> {
        let (time, position) = (event.time(), at.position);
        if position <= self.position {
            return Err(wrong(None, "position above", self.position.0, position.0));
        }
        if time < self.time && !matches!(event, Event::TimeMended { .. }) {
            return Err(wrong(None, "time at least", self.time.0, time.0));
        }
        match *event {
            Event::Transferred { debit, credit, amount, .. } => self.fold_transfer(debit, credit, amount, position)?,
            Event::HoldPlaced { hold, debit, .. } => self.fold_placed(&hold, debit, time, position)?,
            Event::HoldPosted { hold, posted, debit, credit, .. } => {
                self.fold_posted(&hold, posted, debit, credit, time, position)?
            }
            Event::HoldVoided { hold, debit, .. } => self.fold_released(&hold, debit, time, false, position)?,
            Event::HoldExpired { hold, debit, .. } => self.fold_released(&hold, debit, time, true, position)?,
            Event::Refused { .. } => {}
            Event::IdClaimed { owner, .. } => self.check_other_shard(owner)?,
            Event::AccountOpened { slot, id, asset, kind, .. } => {
                self.fold_account(slot, id, asset, kind, self.shard)?
            }
            Event::AccountAdopted { slot, id, asset, kind, home, .. } => {
                self.check_other_shard(home)?;
                self.fold_account(slot, id, asset, kind, home)?
            }
            Event::CreditReceived { from, number, credit, amount, .. } => {
                self.fold_received(from, number, credit, amount, position)?
            }
            Event::CreditsConfirmed { to, number, .. } => self.fold_confirmed(to, number)?,
            Event::AccountChanged { slot, id, home, revision, rules, metadata, .. } => {
                self.check_named(slot, id, home)?;
                self.fold_changed(slot, revision, rules, metadata)?
            }
            Event::AssetDeclared { asset, decimals, .. } => self.fold_declared(asset, decimals)?,
            Event::TimeMended { was, .. } => self.fold_mended(was, time, at)?,
            Event::LossBooked { peer, side, number, account, amount, .. } => {
                self.fold_loss(peer, side, number, account, amount, position)?
            }
        }
        self.position = position;
        self.time = time;
        Ok(())
    }

    #[inline]
    fn fold_transfer(
        &mut self,
        debit: AccountStep,
        credit: CreditStep,
        amount: Amount,
        position: RecordPosition,
    ) -> Checked<()> {
        let from = self.check_debit(debit, amount)?;
        let available = i128::from(from.balance) - i128::from(from.held);
        if from.kind == AccountKind::Wallet && available < i128::from(amount.get()) {
            return Err(wrong(Some(debit.slot), "available", available, amount.get()));
        }
        let (kind, asset, held) = (from.kind, from.asset, from.held);
        if kind == AccountKind::Source {
            self.check_reserve(debit.slot, asset, debit.after, held)?;
        }
        self.check_credit(credit, debit.slot, asset, amount)?;
        self.check_settings(debit.slot, credit.slot(), available, amount)?;
        self.take(debit, amount, 0, position);
        self.give(credit, amount, position);
        Ok(())
    }

    fn fold_placed(
        &mut self,
        hold: &HoldFacts<'_>,
        debit: AccountStep,
        time: TimeMs,
        position: RecordPosition,
    ) -> Checked<()> {
        let from = self.check_step(debit, 0)?;
        let (kind, asset, balance, held) = (from.kind, from.asset, from.balance, from.held);
        self.check_debit_kind(debit.slot, kind, from.home)?;
        let available = i128::from(balance) - i128::from(held);
        if kind == AccountKind::Wallet && available < i128::from(hold.amount.get()) {
            return Err(wrong(Some(debit.slot), "available", available, hold.amount.get()));
        }
        let Some(held) = held.checked_add(hold.amount.get()) else {
            return Err(wrong(Some(debit.slot), "held", held, hold.amount.get()));
        };
        if kind == AccountKind::Source {
            self.check_reserve(debit.slot, asset, balance, held)?;
        }
        self.check_credit_account(hold.credit, debit.slot, asset)?;
        self.check_settings(debit.slot, hold.credit, available, hold.amount)?;
        if check_expiry(hold.expires_in_ms).is_err() {
            return Err(wrong(Some(debit.slot), "hold lifetime at least", 1, hold.expires_in_ms));
        }
        if self.holds.find(hold.id).is_some() {
            return Err(wrong(Some(debit.slot), "open holds of this id", 0, 1));
        }
        self.holds.insert(OpenHold {
            id: HoldId::new(hold.id),
            debit: debit.slot,
            credit: hold.credit,
            amount: hold.amount,
            expires_in_ms: hold.expires_in_ms,
            expires_at: TimeMs(time.0 + hold.expires_in_ms),
            placed: position,
        });
        self.assets.change_held(asset, hold.amount.get(), 0);
        self.change(debit.slot, |account| {
            account.held = held;
            account.last = position;
        });
        Ok(())
    }

    fn fold_posted(
        &mut self,
        hold: &HoldFacts<'_>,
        posted: Amount,
        debit: AccountStep,
        credit: CreditStep,
        time: TimeMs,
        position: RecordPosition,
    ) -> Checked<()> {
        let expires_at = self.check_open(hold, debit.slot)?;
        if time >= expires_at {
            return Err(wrong(Some(debit.slot), "time before expiry", expires_at.0, time.0));
        }
        if posted > hold.amount {
            return Err(wrong(Some(debit.slot), "held by the hold", hold.amount.get(), posted.get()));
        }
        let from = self.check_debit(debit, posted)?;
        let asset = from.asset;
        same(debit.slot, "credit account of the hold", hold.credit.0, credit.slot().0)?;
        self.check_credit(credit, debit.slot, asset, posted)?;
        if let Err(refusal) = self.check_post(debit.slot, credit.slot(), posted) {
            return Err(wrong(Some(debit.slot), refusal.code(), 0, 1));
        }
        self.holds.remove(hold.id);
        self.assets.change_held(asset, 0, hold.amount.get());
        debug_assert!(self.holds.find(hold.id).is_none(), "a hold is closed once");
        self.take(debit, posted, hold.amount.get(), position);
        self.give(credit, posted, position);
        Ok(())
    }

    fn fold_released(
        &mut self,
        hold: &HoldFacts<'_>,
        debit: AccountStep,
        time: TimeMs,
        expired: bool,
        position: RecordPosition,
    ) -> Checked<()> {
        let expires_at = self.check_open(hold, debit.slot)?;
        if expired != (time >= expires_at) {
            return Err(wrong(Some(debit.slot), "expiry", expires_at.0, time.0));
        }
        let asset = self.check_step(debit, 0)?.asset;
        self.holds.remove(hold.id);
        let released = if is_planted(Bug::HoldAmountKept) { 0 } else { hold.amount.get() };
        self.assets.change_held(asset, 0, released);
        self.change(debit.slot, |account| {
            account.held = account.held.checked_sub(released).expect("open holds are in what is held");
            account.last = position;
        });
        Ok(())
    }

    fn fold_account(
        &mut self,
        slot: AccountSlot,
        id: &str,
        asset: &str,
        kind: AccountKind,
        home: ShardIndex,
    ) -> Checked<()> {
        let next = self.accounts.len();
        if slot.0 != next || next == super::limits::ACCOUNTS_MAX {
            return Err(wrong(None, "next slot", next, slot.0));
        }
        let expected = shard_of(id, self.shard_count);
        if home != expected {
            return Err(wrong(None, "home shard", expected.0, home.0));
        }
        if let Some(known) = self.accounts.find(id) {
            return Err(wrong(Some(known), "slot", known.0, slot.0));
        }
        if !is_known_account_id(id) || !is_known_asset(asset) {
            return Err(wrong(None, "valid id and asset", 1, 0));
        }
        let asset = self.assets.find_or_add(asset);
        let account = Account {
            credited: 0,
            debited: 0,
            id: id.into(),
            balance: 0,
            held: 0,
            last: RecordPosition::NONE,
            asset,
            home,
            kind,
            is_restricted: false,
        };
        let put = self.accounts.push(account);
        assert!(put == slot, "account {id} is where the event says");
        Ok(())
    }

    fn fold_received(
        &mut self,
        from: ShardIndex,
        number: OutboundNumber,
        credit: AccountStep,
        amount: Amount,
        position: RecordPosition,
    ) -> Checked<()> {
        self.check_other_shard(from)?;
        let next = self.peer(from).watermark.0 + 1;
        same(credit.slot, "next credit of that shard", next, number.0)?;
        let asset = self.check_moved(credit, i128::from(amount.get()))?.asset;
        self.peers[from.0 as usize].take_in(number, asset, amount);
        if is_planted(Bug::CreditAppliedTwice) {
            self.peers[from.0 as usize].watermark = OutboundNumber(number.0 - 1);
        }
        self.give(CreditStep::Here(credit), amount, position);
        Ok(())
    }

    fn fold_confirmed(&mut self, to: ShardIndex, number: OutboundNumber) -> Checked<()> {
        self.check_other_shard(to)?;
        let peer = &mut self.peers[to.0 as usize];
        if number <= peer.confirmed() || number > peer.last() {
            return Err(wrong(None, "last credit sent", peer.last().0, number.0));
        }
        peer.confirm(number);
        Ok(())
    }

    fn fold_changed(
        &mut self,
        slot: AccountSlot,
        revision: u64,
        rules: AccountRules,
        metadata: MetadataPatch<'_>,
    ) -> Checked<()> {
        let Some(account) = self.accounts.get(slot) else {
            return Err(wrong(None, "accounts", self.accounts.len(), slot.0));
        };
        let (before, is_home) = (self.settings.or_default(slot), account.home == self.shard);
        if revision <= before.revision || is_home && revision != before.revision + 1 {
            return Err(wrong(Some(slot), "next revision", before.revision + 1, revision));
        }
        if is_home && rules.status == AccountStatus::Closed && before.status != AccountStatus::Closed {
            same(slot, "balance of a closed account", 0, account.balance)?;
            same(slot, "held on a closed account", 0, account.held)?;
        }
        let change = AccountChange {
            if_revision: None,
            status: Some(rules.status),
            balance_min: Some(rules.balance_min),
            balance_max: Some(rules.balance_max),
            metadata,
        };
        match before.changed(account.kind, &change) {
            Err(refusal) => Err(wrong(Some(slot), refusal.code(), 0, 1)),
            Ok(_) if !is_home && !metadata.is_empty() => Err(wrong(Some(slot), "metadata away from home", 0, 1)),
            Ok(after) => {
                self.settings.set(slot, AccountSettings { revision, ..after });
                self.accounts.get_mut(slot).expect("checked before").is_restricted = rules.restrict();
                Ok(())
            }
        }
    }

    fn fold_declared(&mut self, asset: &str, decimals: u8) -> Checked<()> {
        let home = shard_of(asset, self.shard_count);
        if home != self.shard {
            return Err(wrong(None, "home shard of the asset", home.0, self.shard.0));
        }
        if !is_known_asset(asset) || decimals > ASSET_DECIMALS_MAX {
            return Err(wrong(None, "decimals at most", ASSET_DECIMALS_MAX, decimals));
        }
        if let Some(declared) = self.assets.find(asset).and_then(|index| self.assets.get(index).decimals) {
            return Err(wrong(None, "decimals declared before", declared, decimals));
        }
        let index = self.assets.find_or_add(asset);
        self.assets.get_mut(index).decimals = Some(decimals);
        Ok(())
    }

    /// What was left to each open hold is left to it from the new time on.
    fn fold_mended(&mut self, was: TimeMs, time: TimeMs, at: Place) -> Checked<()> {
        if was != self.time {
            return Err(wrong(None, "time before", self.time.0, was.0));
        }
        let moved = |at: TimeMs| at.0.saturating_add(time.0).saturating_sub(was.0);
        // No hold was placed before the epoch.
        self.holds.move_expiry(|hold| TimeMs(moved(hold.expires_at).max(hold.expires_in_ms)));
        self.note_mend(was, time, at);
        Ok(())
    }

    /// Moves `amount` out and releases `released` of what is held.
    #[inline]
    pub(super) fn take(&mut self, step: AccountStep, amount: Amount, released: u64, position: RecordPosition) {
        let mut has_turned = false;
        self.change(step.slot, |account| {
            account.balance = step.after;
            account.held = account.held.checked_sub(released).expect("open holds are in what is held");
            (account.debited, has_turned) = account.debited.overflowing_add(amount.get());
            account.last = position;
        });
        if has_turned {
            self.accounts.add_turns(step.slot, 1);
        }
    }

    #[inline]
    pub(super) fn give(&mut self, credit: CreditStep, amount: Amount, position: RecordPosition) {
        match credit {
            CreditStep::Here(step) => self.change(step.slot, |account| {
                account.balance = step.after;
                account.credited = account.credited.wrapping_add(amount.get());
                account.last = position;
            }),
            CreditStep::Outbound { slot, .. } => {
                let account = self.accounts.get(slot).expect("checked before");
                assert!(!account.is_on(self.shard), "a credit leaves for the shard that it is on");
                let peer = &mut self.peers[account.home.0 as usize];
                peer.push(position, slot, amount);
                *peer.sent.entry(account.asset).or_default() += u128::from(amount.get());
            }
        }
    }

    /// Changes one account and, for a source, what its asset counts against the issuance cap.
    #[inline]
    fn change(&mut self, slot: AccountSlot, change: impl FnOnce(&mut Account)) {
        let account = self.accounts.get_mut(slot).expect("checked before");
        if account.kind != AccountKind::Source {
            change(account);
            if cfg!(debug_assertions) {
                account.assert_sound();
            }
            return;
        }
        let (before, balance) = (account.reserve(), account.balance);
        change(account);
        account.assert_sound();
        self.assets.replace_reserve(account.asset, before, account.reserve());
        self.assets.replace_issued(account.asset, balance, account.balance);
        let issued = self.assets.get(account.asset).reserve;
        assert!(issued <= self.issuance_cap(), "sources issued {issued}, more than the cap");
    }
}
