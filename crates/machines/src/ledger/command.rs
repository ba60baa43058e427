//! What a shard asks of its ledger.

use super::accounts::Guess;
use super::hash::ContentDigest;
use super::request::{AccountKind, Hold, Label, Transfer};
use super::settings::{AccountChange, AccountRules};
use crate::{OutboundNumber, RecordPosition, ShardIndex, TimeMs};

/// One thing to decide. Texts are borrowed from wherever the request's bytes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Open an account on its home shard.
    OpenAccount {
        /// Account id.
        id: &'a str,
        /// Unit of measure.
        asset: &'a str,
        /// What the account may do.
        kind: AccountKind,
    },
    /// Move money, decided by the shard of the debit account.
    Transfer {
        /// What to move.
        transfer: Transfer<'a>,
        /// The credit account's home said that there is no such account, so the refusal is to be journaled.
        credit_missing: bool,
        /// Where the accounts most likely are.
        guess: Guess,
    },
    /// Reserve money, decided by the shard of the debit account.
    PlaceHold {
        /// What to reserve.
        hold: Hold<'a>,
        /// As for a transfer.
        credit_missing: bool,
        /// It is refused if its account has so many open holds already.
        open_holds_max: u32,
    },
    /// Move all (`None`) or part of what a hold reserved, and release the rest.
    PostHold {
        /// Hold id.
        id: &'a str,
        /// Minor units; `None` for all.
        amount: Option<u64>,
    },
    /// Release a hold.
    VoidHold {
        /// Hold id.
        id: &'a str,
    },
    /// Release a hold whose time is over; what a shard asks for each of
    /// [`Ledger::expired_holds`](super::Ledger::expired_holds).
    ExpireHold {
        /// Hold id.
        id: &'a str,
    },
    /// Reserve an id on its home shard for a transfer or hold whose debit lives on `owner`.
    ClaimId {
        /// Transfer or hold id.
        id: &'a str,
        /// Shard that will decide it.
        owner: ShardIndex,
        /// Its content: [`content_digest`](super::content_digest).
        digest: ContentDigest,
    },
    /// Learn the immutable facts of an account that another shard opened. A collector gets a part here.
    AdoptAccount {
        /// Account id.
        id: &'a str,
        /// Unit of measure.
        asset: &'a str,
        /// What the account may do.
        kind: AccountKind,
        /// The shard that opened it.
        home: ShardIndex,
    },
    /// Change status, limits or metadata of an account, at its home.
    ChangeAccount {
        /// Account id.
        id: &'a str,
        /// What to change.
        change: AccountChange<'a>,
        /// The other shards know that the account is frozen and have no credit to it under way, so that it may be
        /// closed. Until then, a change to closed freezes the account.
        is_settled: bool,
    },
    /// Learn what the home of an account says of its status and limits.
    AdoptChange {
        /// Account id.
        id: &'a str,
        /// The account's revision there.
        revision: u64,
        /// Its status and limits there.
        rules: AccountRules,
    },
    /// Declare the decimals of an asset, on the home shard of its name.
    DeclareAsset {
        /// Unit of measure.
        asset: &'a str,
        /// Digits of an amount behind the point.
        decimals: u8,
    },
    /// Take in a credit that another shard decided.
    ReceiveCredit(InboundCredit<'a>),
    /// The other shard holds all credits up to `number` durably: forget them.
    ConfirmCredits {
        /// The receiver.
        to: ShardIndex,
        /// Its watermark.
        number: OutboundNumber,
    },
}

/// A credit on its way from the shard that decided the debit to the home of the credited account. Carries all that the
/// account's history shows, so that a row never needs a second shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboundCredit<'a> {
    /// The shard that decided.
    pub from: ShardIndex,
    /// Which of its credits to this shard, without gaps.
    pub number: OutboundNumber,
    /// Whether a hold was posted (else: a transfer).
    pub posted: bool,
    /// Transfer or hold id.
    pub id: &'a str,
    /// Account that was debited there.
    pub debit: &'a str,
    /// Account to credit here.
    pub credit: &'a str,
    /// Minor units.
    pub amount: u64,
    /// Free text, empty for none.
    pub memo: &'a str,
    /// Code and key of the client's program.
    pub label: Label<'a>,
    /// Where the deciding record stands in the sender's journal.
    pub debit_position: RecordPosition,
    /// When it was decided.
    pub decided_at: TimeMs,
}
