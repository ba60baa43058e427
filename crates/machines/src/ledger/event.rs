//! The ledger's events: the records of the journal, and the only input of the fold that computes balances.
//!
//! ```text
//!   Transferred ┬ debit:  AccountStep { slot, prev, after } ──prev──▶ that account's previous event ──▶ … ──▶ nowhere
//!               └ credit: AccountStep { slot, prev, after } ──prev──▶ …
//! ```
//!
//! Each event carries, for every account whose history it extends, where that account's previous event stands and the
//! balance after it. So an account's history is a chain through the journal that needs no index, and every record can
//! be checked against the fold of the records before it.

use super::account::AccountSlot;
use super::hash::ContentDigest;
use super::loss::LossSide;
use super::outcome::Refusal;
use super::request::{AccountKind, Label};
use super::settings::{AccountRules, MetadataPatch};
use crate::{Amount, OutboundNumber, RecordPosition, ShardIndex, TimeMs};

/// One link of an account's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountStep {
    /// The account.
    pub slot: AccountSlot,
    /// Where the account's previous event stands; [`RecordPosition::NONE`] for its first.
    pub prev: RecordPosition,
    /// The account's balance after this event, minor units.
    pub after: i64,
}

/// Where the money of a transfer or post goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreditStep {
    /// To an account (or part of a collector) of this shard.
    Here(AccountStep),
    /// To an account of another shard, which will pull it in order.
    Outbound {
        /// The adopted account.
        slot: AccountSlot,
        /// Which of the credits to that shard.
        number: OutboundNumber,
    },
}

impl CreditStep {
    /// The credited account, wherever it lives.
    pub fn slot(&self) -> AccountSlot {
        match *self {
            CreditStep::Here(step) => step.slot,
            CreditStep::Outbound { slot, .. } => slot,
        }
    }
}

/// What was asked when a hold was placed. Every event about the hold repeats it, so that the latest one is enough to
/// compare a repeated request with and to show a row of history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldFacts<'a> {
    /// Hold id.
    pub id: &'a str,
    /// Account that a post credits.
    pub credit: AccountSlot,
    /// Reserved, minor units.
    pub amount: Amount,
    /// Lifetime in milliseconds from placement.
    pub expires_in_ms: u64,
    /// Free text, empty for none.
    pub memo: &'a str,
    /// Code and key of the client's program.
    pub label: Label<'a>,
}

/// One record of a ledger shard's journal. `time` is when it was decided and never goes back within a shard, but where
/// an operator has mended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// An account was opened on its home shard.
    AccountOpened {
        /// When.
        time: TimeMs,
        /// Its slot: the count of accounts before it.
        slot: AccountSlot,
        /// Account id.
        id: &'a str,
        /// Unit of measure.
        asset: &'a str,
        /// What it may do.
        kind: AccountKind,
    },
    /// The facts of an account of another shard were learned; for a collector, a part was opened.
    AccountAdopted {
        /// When.
        time: TimeMs,
        /// Its slot here.
        slot: AccountSlot,
        /// Account id.
        id: &'a str,
        /// Unit of measure.
        asset: &'a str,
        /// What it may do.
        kind: AccountKind,
        /// The shard that opened it.
        home: ShardIndex,
    },
    /// Money moved.
    Transferred {
        /// When.
        time: TimeMs,
        /// Transfer id.
        id: &'a str,
        /// The debited account.
        debit: AccountStep,
        /// The credited account.
        credit: CreditStep,
        /// Minor units.
        amount: Amount,
        /// Free text, empty for none.
        memo: &'a str,
        /// Code and key of the client's program.
        label: Label<'a>,
    },
    /// Money was reserved.
    HoldPlaced {
        /// When.
        time: TimeMs,
        /// What was asked.
        hold: HoldFacts<'a>,
        /// The account it was reserved on; its balance is unchanged.
        debit: AccountStep,
    },
    /// A hold was posted: `posted` moved, the rest was released.
    HoldPosted {
        /// When.
        time: TimeMs,
        /// What was asked at placement.
        hold: HoldFacts<'a>,
        /// Minor units moved, at most what was held.
        posted: Amount,
        /// The debited account.
        debit: AccountStep,
        /// The credited account.
        credit: CreditStep,
    },
    /// A hold was released on request.
    HoldVoided {
        /// When.
        time: TimeMs,
        /// What was asked at placement.
        hold: HoldFacts<'a>,
        /// The account it was reserved on; its balance is unchanged.
        debit: AccountStep,
    },
    /// A hold was released because its time was over.
    HoldExpired {
        /// When.
        time: TimeMs,
        /// What was asked at placement.
        hold: HoldFacts<'a>,
        /// The account it was reserved on; its balance is unchanged.
        debit: AccountStep,
    },
    /// A transfer or hold was refused because of the state; every retry gets this refusal.
    Refused {
        /// When.
        time: TimeMs,
        /// Transfer or hold id.
        id: &'a str,
        /// What was asked.
        digest: ContentDigest,
        /// Why not.
        refusal: Refusal,
    },
    /// The id belongs to a transfer or hold that another shard decides.
    IdClaimed {
        /// When.
        time: TimeMs,
        /// Transfer or hold id.
        id: &'a str,
        /// The shard that decides it.
        owner: ShardIndex,
        /// What was asked.
        digest: ContentDigest,
    },
    /// A credit that another shard decided was taken in; the watermark of that shard is now `number`.
    CreditReceived {
        /// When it was taken in.
        time: TimeMs,
        /// The shard that decided.
        from: ShardIndex,
        /// Which of its credits to this shard.
        number: OutboundNumber,
        /// Whether a hold was posted (else: a transfer).
        posted: bool,
        /// Transfer or hold id.
        id: &'a str,
        /// Account that was debited there.
        debit: &'a str,
        /// The credited account.
        credit: AccountStep,
        /// Minor units.
        amount: Amount,
        /// Free text, empty for none.
        memo: &'a str,
        /// Code and key of the client's program.
        label: Label<'a>,
        /// Where the deciding record stands in the sender's journal.
        debit_position: RecordPosition,
        /// When it was decided.
        decided_at: TimeMs,
    },
    /// Another shard holds all credits up to `number` durably.
    CreditsConfirmed {
        /// When.
        time: TimeMs,
        /// The receiver.
        to: ShardIndex,
        /// Its watermark.
        number: OutboundNumber,
    },
    /// Status, limits or metadata of an account were changed at its home, or another shard learned of it.
    AccountChanged {
        /// When.
        time: TimeMs,
        /// The account.
        slot: AccountSlot,
        /// Its id.
        id: &'a str,
        /// The shard where it lives, and where the change was decided.
        home: ShardIndex,
        /// The revision that it has now: at its home one more than before, elsewhere a newer one.
        revision: u64,
        /// Status and limits, as they are now.
        rules: AccountRules,
        /// What was changed of the metadata; only at the account's home.
        metadata: MetadataPatch<'a>,
    },
    /// The decimals of an asset were declared, on the home shard of its name.
    AssetDeclared {
        /// When.
        time: TimeMs,
        /// Unit of measure.
        asset: &'a str,
        /// Digits of an amount behind the point.
        decimals: u8,
    },
    /// An operator has set the time of this shard, because the clock of the host had been wrong. Open holds keep the
    /// time that was left to them.
    TimeMended {
        /// The new time: the only one that may be before that of an earlier event.
        time: TimeMs,
        /// The time of the newest event before it.
        was: TimeMs,
        /// Why, in the operator's words, empty for none.
        memo: &'a str,
    },
    /// An operator accepted that records are lost which another shard relies on: see [`super::losses`].
    LossBooked {
        /// When.
        time: TimeMs,
        /// The other shard.
        peer: ShardIndex,
        /// Which records.
        side: LossSide,
        /// Credits up to this number count as sent and confirmed, or as taken in.
        number: OutboundNumber,
        /// The source that stands for the loss: debited for lost debits, credited for lost credits.
        account: AccountStep,
        /// Minor units.
        amount: Amount,
    },
}

impl<'a> Event<'a> {
    /// When it was decided.
    pub fn time(&self) -> TimeMs {
        match *self {
            Event::AccountOpened { time, .. }
            | Event::AccountAdopted { time, .. }
            | Event::Transferred { time, .. }
            | Event::HoldPlaced { time, .. }
            | Event::HoldPosted { time, .. }
            | Event::HoldVoided { time, .. }
            | Event::HoldExpired { time, .. }
            | Event::Refused { time, .. }
            | Event::IdClaimed { time, .. }
            | Event::CreditReceived { time, .. }
            | Event::CreditsConfirmed { time, .. }
            | Event::AccountChanged { time, .. }
            | Event::AssetDeclared { time, .. }
            | Event::LossBooked { time, .. }
            | Event::TimeMended { time, .. } => time,
        }
    }

    /// The transfer or hold id that this event is now the latest about, for the shard's id index. A received credit has
    /// none: its id is kept by the shard that decided it.
    pub fn id(&self) -> Option<&'a str> {
        match *self {
            Event::Transferred { id, .. } | Event::Refused { id, .. } | Event::IdClaimed { id, .. } => Some(id),
            Event::HoldPlaced { hold, .. }
            | Event::HoldPosted { hold, .. }
            | Event::HoldVoided { hold, .. }
            | Event::HoldExpired { hold, .. } => Some(hold.id),
            Event::AccountOpened { .. }
            | Event::AccountAdopted { .. }
            | Event::CreditReceived { .. }
            | Event::CreditsConfirmed { .. }
            | Event::AccountChanged { .. }
            | Event::AssetDeclared { .. }
            | Event::LossBooked { .. }
            | Event::TimeMended { .. } => None,
        }
    }

    /// The id that this event is the first decision on.
    pub fn decides(&self) -> Option<&'a str> {
        match *self {
            Event::Transferred { id, .. } | Event::Refused { id, .. } => Some(id),
            Event::HoldPlaced { hold, .. } => Some(hold.id),
            _ => None,
        }
    }

    /// The accounts whose figures on this shard (balance, held, totals) or settings it changed or began.
    pub fn touched(&self) -> [Option<AccountSlot>; 2] {
        let credited = |credit: CreditStep| match credit {
            CreditStep::Here(step) => Some(step.slot),
            CreditStep::Outbound { .. } => None,
        };
        match *self {
            Event::AccountOpened { slot, .. }
            | Event::AccountAdopted { slot, .. }
            | Event::AccountChanged { slot, .. } => [Some(slot), None],
            Event::Transferred { debit, credit, .. } | Event::HoldPosted { debit, credit, .. } => {
                debug_assert!(debit.slot != credit.slot(), "money moves between two accounts");
                [Some(debit.slot), credited(credit)]
            }
            Event::HoldPlaced { debit, .. } | Event::HoldVoided { debit, .. } | Event::HoldExpired { debit, .. } => {
                [Some(debit.slot), None]
            }
            Event::CreditReceived { credit, .. } => [Some(credit.slot), None],
            Event::LossBooked { account, .. } => [Some(account.slot), None],
            Event::Refused { .. }
            | Event::IdClaimed { .. }
            | Event::CreditsConfirmed { .. }
            | Event::AssetDeclared { .. }
            | Event::TimeMended { .. } => [None, None],
        }
    }

    /// The stable name of the kind of event, for metrics and messages.
    pub fn name(&self) -> &'static str {
        match self {
            Event::AccountOpened { .. } => "account_opened",
            Event::AccountAdopted { .. } => "account_adopted",
            Event::Transferred { .. } => "transferred",
            Event::HoldPlaced { .. } => "hold_placed",
            Event::HoldPosted { .. } => "hold_posted",
            Event::HoldVoided { .. } => "hold_voided",
            Event::HoldExpired { .. } => "hold_expired",
            Event::Refused { .. } => "refused",
            Event::IdClaimed { .. } => "id_claimed",
            Event::CreditReceived { .. } => "credit_received",
            Event::CreditsConfirmed { .. } => "credits_confirmed",
            Event::AccountChanged { .. } => "account_changed",
            Event::AssetDeclared { .. } => "asset_declared",
            Event::TimeMended { .. } => "time_mended",
            Event::LossBooked { .. } => "loss_booked",
        }
    }
}
