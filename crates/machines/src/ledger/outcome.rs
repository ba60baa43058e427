//! The outcome of a request to the ledger. A refusal is a value and not an error: the system worked and refused.

use crate::{DamagedPlace, OutboundNumber, TimeMs};

/// The outcome of one transfer, hold, post or void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Decided and journaled by this request.
    Applied,
    /// The same id with the same content was applied before; nothing was done again.
    Duplicate,
    /// Refused. A refusal that depends on state (funds, accounts) is journaled under its id, and every retry gets it as
    /// [`Outcome::RefusedBefore`].
    Refused(Refusal),
    /// The same id with the same content was refused before, for what the state was then; nothing was decided again.
    RefusedBefore {
        /// Why, with the figures of then.
        refusal: Refusal,
        /// When.
        decided_at: TimeMs,
    },
}

impl Outcome {
    /// Why it was refused, now or before.
    pub const fn refusal(self) -> Option<Refusal> {
        match self {
            Outcome::Refused(refusal) | Outcome::RefusedBefore { refusal, .. } => Some(refusal),
            Outcome::Applied | Outcome::Duplicate => None,
        }
    }

    /// The same without whether a refusal is remembered.
    #[must_use]
    pub const fn as_if_new(self) -> Outcome {
        match self.refusal() {
            Some(refusal) => Outcome::Refused(refusal),
            None => self,
        }
    }
}

/// What the ledger says to one command: the answer to a request, or what other shards need to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// The answer. With an event, once that is durable; without one it is a duplicate, a repeated answer, or a refusal
    /// that is the same at every retry.
    Outcome(Outcome),
    /// It was done before, or is not due: a hold that is not open or has not expired, a credit or a
    /// confirmation that came again.
    AppliedBefore,
    /// A credit arrived before the one that must come first. Only for
    /// [`Command::ReceiveCredit`](super::Command::ReceiveCredit).
    Gap {
        /// The number that must come next.
        expected: OutboundNumber,
    },
    /// The credit account is not known on this shard; ask its home, then send
    /// [`Command::AdoptAccount`](super::Command::AdoptAccount) (or repeat with `credit_missing`) and decide again. Only
    /// with more than one shard.
    NeedAccount,
}

// It is given back with every event: no larger than the outcome in it.
const _: () = assert!(size_of::<Ruling>() == size_of::<Outcome>());

/// Why the ledger says no. Each has a stable `code` that all doors show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The wallet has less available than was asked.
    InsufficientFunds {
        /// What was available, in minor units.
        available: u64,
    },
    /// The id stands for another transfer or hold already.
    IdReused,
    /// No account of that id (reads).
    AccountNotFound,
    /// The account to debit does not exist.
    DebitAccountNotFound,
    /// The account to credit does not exist.
    CreditAccountNotFound,
    /// The account exists with another asset or kind.
    AccountExists,
    /// Debit and credit account have different assets.
    AssetMismatch,
    /// Debit and credit account are the same.
    SameAccount,
    /// A collector can only be credited.
    CollectorCreditOnly,
    /// The sources of the asset would have issued more on this shard than [`i64::MAX`] divided by the number of shards:
    /// so no balance, wherever all of it goes, is beyond 64 bits.
    Overflow,
    /// The amount is zero or above `i64::MAX`.
    AmountInvalid,
    /// The transfer or hold id is empty, longer than 64 bytes, not printable, or is `.` or `..`.
    IdInvalid,
    /// The account id is empty, longer than 128 bytes, not printable, has a `/` or `*`, or is `.` or `..`.
    AccountIdInvalid,
    /// The asset is empty, longer than 32 bytes or not printable.
    AssetInvalid,
    /// The memo is longer than 256 bytes.
    MemoTooLong,
    /// `expires_in_ms` is zero or above one hundred years.
    ExpiryInvalid,
    /// No hold of that id.
    HoldNotFound,
    /// The hold was posted already (with another amount, or a void came after the post).
    HoldPosted,
    /// The hold was voided already.
    HoldVoided,
    /// The hold expired and its amount is available again.
    HoldExpired,
    /// A post asks more than was held.
    PostExceedsHold,
    /// The account has as many open holds as this caller's holds may be.
    TooManyHolds,
    /// No item of the linked group was applied: another one was refused or decided before, or two have the same id.
    LinkedFailed,
    /// The debit accounts of a linked group live on different shards; co-locate them with a `{tag}`.
    LinkedAcrossShards,
    /// A request carries more than 8,190 transfers, or none.
    BatchSizeInvalid,
    /// The cursor of a page is not one that this account's history gave.
    CursorInvalid,
    /// No transfer of that id (reads).
    TransferNotFound,
    /// Nothing may leave the account to debit: it is frozen.
    DebitAccountFrozen,
    /// Nothing may enter the account to credit: it is frozen.
    CreditAccountFrozen,
    /// The account to debit is closed.
    DebitAccountClosed,
    /// The account to credit is closed.
    CreditAccountClosed,
    /// Less than its `balance_min` would be available on the account to debit.
    BalanceBelowMin,
    /// The balance of the account to credit would be above its `balance_max`.
    BalanceAboveMax,
    /// The account to credit has a `balance_max`, which only its own shard can check, and the debit is decided on
    /// another.
    LimitAcrossShards,
    /// `user_data` is longer than 64 bytes.
    UserDataTooLong,
    /// `balance_min` is above `balance_max`, or a wallet's limit is below zero.
    LimitsInvalid,
    /// More than 16 keys or 1 KiB of metadata, or a key or value that is too long or not printable.
    MetadataInvalid,
    /// A collector has no limits, and is frozen instead of closed.
    SettingNotAllowed,
    /// Only an account with a balance of zero and without open holds is closed.
    AccountNotEmpty,
    /// Credits to the account are on their way from other shards: it is frozen now, and can be closed when they have
    /// arrived.
    AccountInTransit,
    /// The account was changed since: its revision is another one.
    RevisionStale {
        /// The revision that it has.
        revision: u64,
    },
    /// The asset was declared with other decimals.
    AssetExists,
    /// More than 18 decimals.
    DecimalsInvalid,
    /// What this stands on was journaled and cannot be read any more. Nothing was decided and nothing is remembered:
    /// once the file is put right, the same request is decided. The place is interned for the life of the process, so
    /// that an outcome stays a small copy.
    Damaged(&'static DamagedPlace),
}

impl Refusal {
    /// The stable machine-readable name, as HTTP's `code` and the binary port's `code` show it.
    pub const fn code(self) -> &'static str {
        match self {
            Refusal::InsufficientFunds { .. } => "insufficient_funds",
            Refusal::IdReused => "id_reused",
            Refusal::AccountNotFound => "account_not_found",
            Refusal::DebitAccountNotFound => "debit_account_not_found",
            Refusal::CreditAccountNotFound => "credit_account_not_found",
            Refusal::AccountExists => "account_exists",
            Refusal::AssetMismatch => "asset_mismatch",
            Refusal::SameAccount => "same_account",
            Refusal::CollectorCreditOnly => "collector_credit_only",
            Refusal::Overflow => "overflow",
            Refusal::AmountInvalid => "amount_invalid",
            Refusal::IdInvalid => "id_invalid",
            Refusal::AccountIdInvalid => "account_id_invalid",
            Refusal::AssetInvalid => "asset_invalid",
            Refusal::MemoTooLong => "memo_too_long",
            Refusal::ExpiryInvalid => "expiry_invalid",
            Refusal::HoldNotFound => "hold_not_found",
            Refusal::HoldPosted => "hold_posted",
            Refusal::HoldVoided => "hold_voided",
            Refusal::HoldExpired => "hold_expired",
            Refusal::PostExceedsHold => "post_exceeds_hold",
            Refusal::TooManyHolds => "too_many_holds",
            Refusal::LinkedFailed => "linked_failed",
            Refusal::LinkedAcrossShards => "linked_across_shards",
            Refusal::BatchSizeInvalid => "batch_size_invalid",
            Refusal::CursorInvalid => "cursor_invalid",
            Refusal::TransferNotFound => "transfer_not_found",
            Refusal::DebitAccountFrozen => "debit_account_frozen",
            Refusal::CreditAccountFrozen => "credit_account_frozen",
            Refusal::DebitAccountClosed => "debit_account_closed",
            Refusal::CreditAccountClosed => "credit_account_closed",
            Refusal::BalanceBelowMin => "balance_below_min",
            Refusal::BalanceAboveMax => "balance_above_max",
            Refusal::LimitAcrossShards => "limit_across_shards",
            Refusal::UserDataTooLong => "user_data_too_long",
            Refusal::LimitsInvalid => "limits_invalid",
            Refusal::MetadataInvalid => "metadata_invalid",
            Refusal::SettingNotAllowed => "setting_not_allowed",
            Refusal::AccountNotEmpty => "account_not_empty",
            Refusal::AccountInTransit => "account_in_transit",
            Refusal::RevisionStale { .. } => "revision_stale",
            Refusal::AssetExists => "asset_exists",
            Refusal::DecimalsInvalid => "decimals_invalid",
            Refusal::Damaged(_) => "damaged",
        }
    }

    /// Whether it depends on the state, so that it is journaled under its id and every retry gets it.
    pub const fn is_journaled(self) -> bool {
        matches!(
            self,
            Refusal::InsufficientFunds { .. }
                | Refusal::DebitAccountNotFound
                | Refusal::CreditAccountNotFound
                | Refusal::AssetMismatch
                | Refusal::CollectorCreditOnly
                | Refusal::Overflow
                | Refusal::TooManyHolds
                | Refusal::LinkedFailed
                | Refusal::DebitAccountFrozen
                | Refusal::CreditAccountFrozen
                | Refusal::DebitAccountClosed
                | Refusal::CreditAccountClosed
                | Refusal::BalanceBelowMin
                | Refusal::BalanceAboveMax
                | Refusal::LimitAcrossShards
        )
    }
}
