//! What the newest record of an id says of its transfer or hold.

use tidegate_planted::{Bug, is_planted};

use super::AccountSlot;
use super::event::{CreditStep, Event, HoldFacts};
use super::hold::OpenHold;
use super::outcome::Refusal;
use super::state::Ledger;
use crate::{RecordPosition, TimeMs};

/// What became of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferState {
    /// The money moved.
    Applied,
    /// It was refused, and so is every retry.
    Refused(Refusal),
}

/// A transfer as it was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferView {
    /// Transfer id; of a refused request, it may be a hold's.
    pub id: Box<str>,
    /// What became of it.
    pub state: TransferState,
    /// Account that was debited; empty if it was refused, because a refusal keeps only a digest of what was asked.
    pub debit: Box<str>,
    /// Account that was credited; empty likewise.
    pub credit: Box<str>,
    /// Minor units; 0 if it was refused.
    pub amount: u64,
    /// Free text, empty for none.
    pub memo: Box<str>,
    /// Code of the client's program; 0 for none.
    pub code: u32,
    /// Key of the client's program; empty for none.
    pub user_data: Box<str>,
    /// When it was decided, milliseconds since the epoch.
    pub time_ms: u64,
    /// Whether the credited account is of another shard, which has not confirmed yet that it has taken the credit in.
    pub is_credit_pending: bool,
    /// Where the deciding record stands in the journal of its shard.
    pub at: RecordPosition,
}

/// Where a hold is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldState {
    /// It reserves its amount.
    Open {
        /// Until then, milliseconds since the epoch.
        expires_at_ms: u64,
    },
    /// So much moved, in minor units; the rest was released.
    Posted {
        /// Minor units.
        amount: u64,
    },
    /// Released on request.
    Voided,
    /// Released because its time was over.
    Expired,
}

/// A hold and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldView {
    /// Hold id.
    pub id: Box<str>,
    /// Where it is in its life.
    pub state: HoldState,
    /// Account that it reserves on.
    pub debit: Box<str>,
    /// Account that a post credits.
    pub credit: Box<str>,
    /// What was reserved when it was placed, minor units.
    pub amount: u64,
    /// Lifetime in milliseconds.
    pub expires_in_ms: u64,
    /// Free text, empty for none; of an open hold of the state, empty, because it is in the record only.
    pub memo: Box<str>,
    /// Code of the client's program; 0 for none, and likewise.
    pub code: u32,
    /// Key of the client's program; empty for none, and likewise.
    pub user_data: Box<str>,
    /// When it came into this state, milliseconds since the epoch. In a list, from its expiry: after an operator has
    /// set the time, the placing on the new scale.
    pub time_ms: u64,
    /// The record that did it.
    pub at: RecordPosition,
}

impl HoldView {
    /// What it still reserves, minor units.
    pub fn remaining(&self) -> u64 {
        if matches!(self.state, HoldState::Open { .. }) { self.amount } else { 0 }
    }
}

impl Ledger {
    /// The transfer that `event`, the newest about its id, decided or refused; `None` if it is about a hold.
    pub fn transfer_of(&self, event: &Event<'_>, at: RecordPosition) -> Option<TransferView> {
        let id = |slot: AccountSlot| self.accounts.get(slot).map(|account| Box::<str>::from(&*account.id));
        match *event {
            Event::Refused { .. } if is_planted(Bug::RefusalNotFound) => None,
            Event::Transferred { time, id: transfer, debit, credit, amount, memo, label } => Some(TransferView {
                id: transfer.into(),
                state: TransferState::Applied,
                debit: id(debit.slot)?,
                credit: id(if is_planted(Bug::TransferMisread) { debit.slot } else { credit.slot() })?,
                amount: amount.get(),
                memo: memo.into(),
                code: label.code,
                user_data: label.user_data.into(),
                time_ms: time.0,
                is_credit_pending: self.is_credit_pending(credit),
                at,
            }),
            Event::Refused { time, id, refusal, .. } => Some(TransferView {
                id: id.into(),
                state: TransferState::Refused(refusal),
                debit: "".into(),
                credit: "".into(),
                amount: 0,
                memo: "".into(),
                code: 0,
                user_data: "".into(),
                time_ms: time.0,
                is_credit_pending: false,
                at,
            }),
            _ => None,
        }
    }

    /// Whether a credit of this shard is still on its way, as far as the shard that takes it in has confirmed.
    fn is_credit_pending(&self, credit: CreditStep) -> bool {
        match credit {
            CreditStep::Here(_) => false,
            CreditStep::Outbound { slot, number } => {
                let account = self.accounts.get(slot);
                account.is_some_and(|account| number > self.peer(account.home).confirmed())
            }
        }
    }

    /// The hold that `event`, the newest about its id, placed or closed; `None` if it is about something else.
    pub fn hold_of(&self, event: &Event<'_>, at: RecordPosition) -> Option<HoldView> {
        match *event {
            Event::HoldPlaced { time, hold, debit } => {
                // Not from the record: an operator may have set the time since.
                let expires_at = self.holds.find(hold.id)?.expires_at;
                let state = HoldState::Open { expires_at_ms: expires_at.0 };
                self.hold_view(&hold, debit.slot, state, time, at)
            }
            Event::HoldPosted { time, hold, posted, debit, .. } => {
                self.hold_view(&hold, debit.slot, HoldState::Posted { amount: posted.get() }, time, at)
            }
            Event::HoldVoided { time, hold, debit } if is_planted(Bug::VoidedHoldShownOpen) => {
                let state = HoldState::Open { expires_at_ms: time.0 + hold.expires_in_ms };
                self.hold_view(&hold, debit.slot, state, time, at)
            }
            Event::HoldVoided { time, hold, debit } => self.hold_view(&hold, debit.slot, HoldState::Voided, time, at),
            Event::HoldExpired { time, hold, debit } => self.hold_view(&hold, debit.slot, HoldState::Expired, time, at),
            _ => None,
        }
    }

    /// The open holds on an account that were placed after a record, in the order of their placement. `None` if there
    /// is no such account.
    pub fn holds_of(&self, account: &str, after: RecordPosition) -> Option<impl Iterator<Item = HoldView>> {
        let slot = self.slot(account)?;
        Some(self.holds.of_account(slot, after).map(|hold| self.open_hold_view(hold)))
    }

    fn open_hold_view(&self, hold: &OpenHold) -> HoldView {
        let facts = HoldFacts {
            id: hold.id.as_str(),
            credit: hold.credit,
            amount: hold.amount,
            expires_in_ms: hold.expires_in_ms,
            memo: "",
            label: Default::default(),
        };
        let placed_at = TimeMs(hold.expires_at.0 - hold.expires_in_ms);
        let state = HoldState::Open { expires_at_ms: hold.expires_at.0 };
        let view = self.hold_view(&facts, hold.debit, state, placed_at, hold.placed);
        view.expect("an open hold is between accounts that are there")
    }

    fn hold_view(
        &self,
        hold: &HoldFacts<'_>,
        debit: AccountSlot,
        state: HoldState,
        time: TimeMs,
        at: RecordPosition,
    ) -> Option<HoldView> {
        Some(HoldView {
            id: hold.id.into(),
            state,
            debit: (&*self.accounts.get(debit)?.id).into(),
            credit: (&*self.accounts.get(hold.credit)?.id).into(),
            amount: hold.amount.get(),
            expires_in_ms: hold.expires_in_ms,
            memo: hold.memo.into(),
            code: hold.label.code,
            user_data: hold.label.user_data.into(),
            time_ms: time.0,
            at,
        })
    }
}
