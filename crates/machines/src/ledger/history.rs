//! An account's history, newest first, by following `prev` from the account's newest event.

use super::event::Event;
use super::loss::LossSide;
use super::request::{HistoryRow, RowKind};
use super::state::Ledger;
use super::{AccountSlot, AccountStep, CreditStep};
use crate::IdSpace;
use crate::RecordPosition;

impl Ledger {
    /// The row that `event` is in the history of `account`, and where the row before it stands. `None` if the event is
    /// no part of that history, or names accounts that do not exist.
    pub fn history_row(&self, account: &str, event: &Event<'_>) -> Option<(HistoryRow, RecordPosition)> {
        let slot = self.slot(account)?;
        let step = event.step_of(slot)?;
        let id = |slot: AccountSlot| self.accounts.get(slot).map(|account| Box::<str>::from(&*account.id));
        let row = match *event {
            Event::Transferred { time, id: transfer, debit, credit, amount, memo, label } => {
                (transfer, RowKind::Transfer, id(debit.slot)?, id(credit.slot())?, amount, (memo, label), time)
            }
            Event::HoldPlaced { time, hold, debit } => {
                let ids = (id(debit.slot)?, id(hold.credit)?);
                (hold.id, RowKind::Hold, ids.0, ids.1, hold.amount, (hold.memo, hold.label), time)
            }
            Event::HoldPosted { time, hold, posted, debit, credit } => {
                (hold.id, RowKind::Post, id(debit.slot)?, id(credit.slot())?, posted, (hold.memo, hold.label), time)
            }
            Event::HoldVoided { time, hold, debit } => {
                let ids = (id(debit.slot)?, id(hold.credit)?);
                (hold.id, RowKind::Void, ids.0, ids.1, hold.amount, (hold.memo, hold.label), time)
            }
            Event::HoldExpired { time, hold, debit } => {
                let ids = (id(debit.slot)?, id(hold.credit)?);
                (hold.id, RowKind::Expire, ids.0, ids.1, hold.amount, (hold.memo, hold.label), time)
            }
            Event::CreditReceived { posted, id: transfer, debit, credit, amount, memo, label, decided_at, .. } => {
                let kind = if posted { RowKind::Post } else { RowKind::Transfer };
                (transfer, kind, debit.into(), id(credit.slot)?, amount, (memo, label), decided_at)
            }
            Event::LossBooked { time, peer, side, number, account, amount } => {
                let (source, other) = (id(account.slot)?, format!("shard:{peer}").into());
                let row = HistoryRow {
                    id_space: "".into(),
                    id: format!("accepted-loss:{peer}:{}", number.0).into(),
                    kind: RowKind::Transfer,
                    debit: if side == LossSide::Sent { source.clone() } else { Box::clone(&other) },
                    credit: if side == LossSide::Sent { other } else { source },
                    amount: amount.get(),
                    memo: "loss accepted".into(),
                    code: 0,
                    user_data: "".into(),
                    time_ms: time.0,
                    balance_after: account.after,
                };
                return Some((row, account.prev));
            }
            Event::AccountOpened { .. }
            | Event::AccountAdopted { .. }
            | Event::Refused { .. }
            | Event::IdClaimed { .. }
            | Event::CreditsConfirmed { .. }
            | Event::AccountChanged { .. }
            | Event::AssetDeclared { .. }
            | Event::TimeMended { .. } => return None,
        };
        let (id, kind, debit, credit, amount, (memo, label), time) = row;
        let (id_space, id) = IdSpace::split(id);
        let row = HistoryRow {
            id: id.into(),
            id_space: id_space.into(),
            kind,
            debit,
            credit,
            amount: amount.get(),
            memo: memo.into(),
            code: label.code,
            user_data: label.user_data.into(),
            time_ms: time.0,
            balance_after: step.after,
        };
        Some((row, step.prev))
    }
}

impl Event<'_> {
    /// What this event did to the account in `slot`, with the place of the event that did something to it before;
    /// `None` if it is no part of that account's history.
    pub fn step_of(&self, slot: AccountSlot) -> Option<AccountStep> {
        match *self {
            Event::Transferred { debit, credit, .. } | Event::HoldPosted { debit, credit, .. } => {
                touched(slot, Some(debit), Some(credit))
            }
            Event::HoldPlaced { debit, .. } | Event::HoldVoided { debit, .. } | Event::HoldExpired { debit, .. } => {
                touched(slot, Some(debit), None)
            }
            Event::CreditReceived { credit, .. } => touched(slot, None, Some(CreditStep::Here(credit))),
            Event::LossBooked { account, .. } => touched(slot, Some(account), None),
            Event::AccountOpened { .. }
            | Event::AccountAdopted { .. }
            | Event::Refused { .. }
            | Event::IdClaimed { .. }
            | Event::CreditsConfirmed { .. }
            | Event::AccountChanged { .. }
            | Event::AssetDeclared { .. }
            | Event::TimeMended { .. } => None,
        }
    }
}

/// The step of the account among those of an event.
fn touched(slot: AccountSlot, debit: Option<AccountStep>, credit: Option<CreditStep>) -> Option<AccountStep> {
    let credit = match credit {
        Some(CreditStep::Here(step)) => Some(step),
        Some(CreditStep::Outbound { .. }) | None => None,
    };
    [debit, credit].into_iter().flatten().find(|step| step.slot == slot)
}
