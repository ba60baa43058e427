//! Makes rows of records.

use tidegate_machines::ShardIndex;
use tidegate_machines::ledger::{AccountSlot, AccountStep, CreditStep, Event, HoldFacts, LossSide};

use super::ChangesError;
use super::change::{Change, ChangeKind, ChangedAccount, ChangedSettings};
use super::names::{Name, Names};
use super::reader::ChangeFilter;

/// What the row of a record depends on besides the record.
pub(super) struct RowMaker<'a> {
    /// The shard whose journal has the record.
    pub shard: ShardIndex,
    /// Number of the record.
    pub sequence: u64,
    /// Names of all accounts that the record names.
    pub names: &'a Names,
    /// What the reader gets.
    pub filter: &'a ChangeFilter,
}

impl RowMaker<'_> {
    /// The change that a record is, if it is one that the reader gets.
    pub fn change(&self, event: &Event<'_>) -> Result<Option<Change>, ChangesError> {
        let Some(kind) = kind_of(event, self.shard) else { return Ok(None) };
        if !self.filter.kinds.contains(&kind) || !self.is_wanted(event)? {
            return Ok(None);
        }
        let mut change = Change {
            cursor: Box::default(),
            shard: self.shard.0,
            sequence: self.sequence,
            time_ms: event.time().0,
            kind,
            id: event.id().map(Into::into),
            account: None,
            opened_kind: None,
            settings: None,
            decimals: None,
            debit: None,
            credit: None,
            asset: None,
            amount: None,
            held: None,
            expires_at_ms: None,
            memo: Box::default(),
            code: 0,
            user_data: Box::default(),
            refusal: None,
        };
        self.fill(&mut change, event)?;
        Ok(Some(change))
    }

    fn is_wanted(&self, event: &Event<'_>) -> Result<bool, ChangesError> {
        let mut is_wanted = false;
        for slot in slots(event).into_iter().flatten() {
            let interest = self.name(slot)?.interest;
            is_wanted |= interest.visible && interest.wanted;
        }
        if let Event::CreditReceived { debit, .. } = event {
            let interest = (self.filter.interest)(debit);
            is_wanted |= interest.visible && interest.wanted;
        }
        let names_none =
            matches!(event, Event::Refused { .. } | Event::TimeMended { .. } | Event::AssetDeclared { .. });
        Ok(is_wanted || names_none && self.filter.without_account)
    }

    /// What is said of this kind of event.
    fn fill(&self, change: &mut Change, event: &Event<'_>) -> Result<(), ChangesError> {
        match *event {
            Event::AccountOpened { slot, kind, .. } => {
                self.account(change, slot)?;
                change.opened_kind = Some(kind);
            }
            Event::AccountChanged { slot, revision, rules, metadata, .. } => {
                self.account(change, slot)?;
                let metadata = metadata.iter().map(|(key, value)| (key.into(), value.map(Into::into))).collect();
                change.settings = Some(ChangedSettings { revision, rules, metadata });
            }
            Event::AssetDeclared { asset, decimals, .. } => {
                change.asset = Some(asset.into());
                change.decimals = Some(decimals);
            }
            Event::Transferred { debit, credit, amount, memo, label, .. } => {
                change.debit = Some(self.step(debit)?);
                change.credit = Some(self.credited(credit)?);
                change.asset = Some(self.name(debit.slot)?.asset.clone());
                change.amount = Some(amount.get());
                change.memo = memo.into();
                change.code = label.code;
                change.user_data = label.user_data.into();
            }
            Event::HoldPlaced { time, hold, debit } => {
                self.held(change, &hold, debit)?;
                change.expires_at_ms = Some(time.0.saturating_add(hold.expires_in_ms));
            }
            Event::HoldPosted { hold, posted, debit, credit, .. } => {
                self.held(change, &hold, debit)?;
                change.credit = Some(self.credited(credit)?);
                change.amount = Some(posted.get());
                change.held = Some(hold.amount.get());
            }
            Event::HoldVoided { hold, debit, .. } | Event::HoldExpired { hold, debit, .. } => {
                self.held(change, &hold, debit)?;
            }
            Event::CreditReceived { id, debit, credit, amount, memo, label, .. } => {
                change.id = Some(id.into());
                change.debit = Some(ChangedAccount { id: debit.into(), balance_after: None });
                change.credit = Some(self.step(credit)?);
                change.asset = Some(self.name(credit.slot)?.asset.clone());
                change.amount = Some(amount.get());
                change.memo = memo.into();
                change.code = label.code;
                change.user_data = label.user_data.into();
            }
            Event::Refused { refusal, .. } => change.refusal = Some(refusal),
            Event::LossBooked { peer, side, number, account, amount, .. } => {
                change.id = Some(format!("accepted-loss:{peer}:{}", number.0).into());
                let source = Some(self.step(account)?);
                match side {
                    LossSide::Sent => change.debit = source,
                    LossSide::Received => change.credit = source,
                }
                change.asset = Some(self.name(account.slot)?.asset.clone());
                change.amount = Some(amount.get());
            }
            Event::TimeMended { memo, .. } => change.memo = memo.into(),
            Event::AccountAdopted { .. } | Event::IdClaimed { .. } | Event::CreditsConfirmed { .. } => {
                unreachable!("they have no kind")
            }
        }
        Ok(())
    }

    fn account(&self, change: &mut Change, slot: AccountSlot) -> Result<(), ChangesError> {
        let name = self.name(slot)?;
        change.account = Some(name.id.clone());
        change.asset = Some(name.asset.clone());
        Ok(())
    }

    fn held(&self, change: &mut Change, hold: &HoldFacts<'_>, debit: AccountStep) -> Result<(), ChangesError> {
        change.debit = Some(self.step(debit)?);
        change.credit = Some(self.only_named(hold.credit)?);
        change.asset = Some(self.name(debit.slot)?.asset.clone());
        change.amount = Some(hold.amount.get());
        change.memo = hold.memo.into();
        change.code = hold.label.code;
        change.user_data = hold.label.user_data.into();
        Ok(())
    }

    fn credited(&self, credit: CreditStep) -> Result<ChangedAccount, ChangesError> {
        match credit {
            CreditStep::Here(at) => self.step(at),
            CreditStep::Outbound { slot, .. } => self.only_named(slot),
        }
    }

    fn step(&self, step: AccountStep) -> Result<ChangedAccount, ChangesError> {
        let name = self.name(step.slot)?;
        Ok(ChangedAccount { id: name.id.clone(), balance_after: name.interest.visible.then_some(step.after) })
    }

    fn only_named(&self, slot: AccountSlot) -> Result<ChangedAccount, ChangesError> {
        Ok(ChangedAccount { id: self.name(slot)?.id.clone(), balance_after: None })
    }

    fn name(&self, slot: AccountSlot) -> Result<&Name, ChangesError> {
        self.names.get(slot).ok_or(ChangesError::Nameless { shard: self.shard.0, sequence: self.sequence })
    }
}

/// The kind of change that an event is; `None` for what concerns shards among themselves only.
fn kind_of(event: &Event<'_>, shard: ShardIndex) -> Option<ChangeKind> {
    Some(match event {
        Event::AccountOpened { .. } => ChangeKind::AccountOpened,
        Event::Transferred { .. } => ChangeKind::Transfer,
        Event::HoldPlaced { .. } => ChangeKind::HoldPlaced,
        Event::HoldPosted { .. } => ChangeKind::HoldPosted,
        Event::HoldVoided { .. } => ChangeKind::HoldVoided,
        Event::HoldExpired { .. } => ChangeKind::HoldExpired,
        Event::CreditReceived { .. } => ChangeKind::CreditReceived,
        Event::Refused { .. } => ChangeKind::Refused,
        Event::LossBooked { .. } => ChangeKind::LossBooked,
        Event::TimeMended { .. } => ChangeKind::TimeMended,
        Event::AccountChanged { home, .. } if *home == shard => ChangeKind::AccountChanged,
        Event::AssetDeclared { .. } => ChangeKind::AssetDeclared,
        // The home of the account has told this shard of a change.
        Event::AccountChanged { .. } => return None,
        Event::AccountAdopted { .. } | Event::IdClaimed { .. } | Event::CreditsConfirmed { .. } => return None,
    })
}

/// The slots of the accounts that a row of this event names.
pub(super) fn slots(event: &Event<'_>) -> [Option<AccountSlot>; 2] {
    match *event {
        Event::AccountOpened { slot, .. } | Event::AccountChanged { slot, .. } => [Some(slot), None],
        Event::Transferred { debit, credit, .. } | Event::HoldPosted { debit, credit, .. } => {
            [Some(debit.slot), Some(credit.slot())]
        }
        Event::HoldPlaced { hold, debit, .. }
        | Event::HoldVoided { hold, debit, .. }
        | Event::HoldExpired { hold, debit, .. } => [Some(debit.slot), Some(hold.credit)],
        Event::CreditReceived { credit, .. } => [Some(credit.slot), None],
        Event::LossBooked { account, .. } => [Some(account.slot), None],
        Event::AccountAdopted { .. }
        | Event::Refused { .. }
        | Event::IdClaimed { .. }
        | Event::CreditsConfirmed { .. }
        | Event::AssetDeclared { .. }
        | Event::TimeMended { .. } => [None, None],
    }
}
