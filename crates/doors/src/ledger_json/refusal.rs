//! Refusals of the ledger, and requests that it cannot serve now, as problems.

use std::borrow::Cow;

use axum::http::StatusCode;
use tidegate_ledger::message::Unavailable;
use tidegate_machines::TimeMs;
use tidegate_machines::ledger::Refusal;

use crate::auth::gate::NotFound;
use crate::json::{Problem, ProblemCode, codes};

/// What a place that cannot be read refuses.
pub const DAMAGED: &str = "damaged";

impl From<Unavailable> for Problem {
    fn from(unavailable: Unavailable) -> Problem {
        let (code, detail, retry_after_s) = match unavailable {
            Unavailable::Busy => (codes::BUSY, "too much is under way; ask again, what has an id with the same id", 1),
            Unavailable::DiskFull => (
                codes::DISK_FULL,
                "the journal's disk is full, so what this asks and was not done before cannot be done now; try again \
                 with the same ids",
                5,
            ),
            Unavailable::ShardFailed => {
                (codes::SHARD_FAILED, "the journal failed; an operator must look at the server's log", 30)
            }
            Unavailable::StateDiffers => (
                codes::STATE_DIFFERS,
                "an audit found balances that are not what the journal says, so nothing new is decided until an \
                 operator has restarted the server; /v1/audit says which. Try again then with the same ids",
                30,
            ),
            Unavailable::Recovering => (codes::RECOVERING, "the journal is being replayed; /healthz shows how far", 1),
            Unavailable::Stopping => {
                (codes::STOPPING, "the server is stopping; ask again, what has an id with the same id", 1)
            }
        };
        Problem::new(code, detail).retry_after_s(retry_after_s)
    }
}

macro_rules! refusals {
    ($($variant:ident = $status:ident $detail:literal;)*) => {
        /// All but `InsufficientFunds` and `RevisionStale`, which say a figure, and `Damaged`, which says what.
        const PLAIN: &[Refusal] = &[$(Refusal::$variant),*];

        /// 409 when each field is right but not together with the ledger's state or with the others, 404 when something
        /// is not there, 422 when a field is wrong by itself, as the OpenAPI document says.
        fn worded(refusal: Refusal) -> (StatusCode, Cow<'static, str>) {
            match refusal {
                Refusal::InsufficientFunds { available } => {
                    (StatusCode::CONFLICT, format!("the account to debit has only {available} available").into())
                }
                Refusal::RevisionStale { revision } => {
                    (StatusCode::CONFLICT, format!("the account was changed since; its revision is {revision}").into())
                }
                Refusal::Damaged(place) if place.is_away => (
                    StatusCode::INTERNAL_SERVER_ERROR,
                    format!(
                        "what this needs is in a file that cannot be opened now, so nothing was decided: {place}. All \
                         else is served; an operator must make its archive or disk reachable, or restore the file from \
                         a copy, and then ask this again"
                    )
                    .into(),
                ),
                Refusal::Damaged(place) => (
                    StatusCode::INTERNAL_SERVER_ERROR,
                    format!(
                        "what this needs was stored and cannot be read any more, so nothing was decided: {place}. All \
                         else is served; an operator must restore the file from a copy, and then ask this again"
                    )
                    .into(),
                ),
                $(Refusal::$variant => (StatusCode::$status, $detail.into()),)*
            }
        }
    };
}

refusals! {
    IdReused = CONFLICT "this id was used before with other content; choose a new id for a new transfer or hold";
    AccountNotFound = NOT_FOUND "there is no account of this id that this token may see";
    DebitAccountNotFound = NOT_FOUND "the account to debit does not exist";
    CreditAccountNotFound = NOT_FOUND "there is no account to credit of this id that this token may credit";
    AccountExists = CONFLICT "the account exists with another asset or kind";
    AssetMismatch = CONFLICT "the two accounts hold different assets";
    SameAccount = CONFLICT "the account to debit and the account to credit are the same";
    CollectorCreditOnly = CONFLICT "a collector can only be credited";
    Overflow = CONFLICT
        "the sources of this asset would issue more than they may on this shard: 9223372036854775807 minor units, \
         divided by the number of shards";
    AmountInvalid = UNPROCESSABLE_ENTITY "the amount must be 1 to 9223372036854775807 minor units";
    IdInvalid = UNPROCESSABLE_ENTITY
        "a transfer or hold id is 1 to 64 bytes of visible UTF-8, no space at its ends, and neither \".\" nor \"..\"";
    AccountIdInvalid = UNPROCESSABLE_ENTITY
        "an account id is 1 to 128 bytes of visible UTF-8 without '/' and '*', no space at its ends, and neither \".\" \
         nor \"..\"";
    AssetInvalid = UNPROCESSABLE_ENTITY "an asset is 1 to 32 bytes of visible UTF-8, and no space at its ends";
    MemoTooLong = UNPROCESSABLE_ENTITY "a memo is at most 256 bytes";
    ExpiryInvalid = UNPROCESSABLE_ENTITY "expires_in_ms must be 1 to one hundred years";
    HoldNotFound = NOT_FOUND "there is no hold of this id";
    HoldPosted = CONFLICT "the hold was posted already";
    HoldVoided = CONFLICT "the hold was voided already";
    HoldExpired = CONFLICT "the hold has expired, and its amount is available again";
    PostExceedsHold = CONFLICT "a post may take at most what was held";
    TooManyHolds = CONFLICT "the account has as many open holds as it may; post or void some, and choose a new id";
    LinkedFailed = CONFLICT
        "no item of the linked group was applied: another one was refused or decided before, or two have the same id";
    LinkedAcrossShards = UNPROCESSABLE_ENTITY
        "the debit accounts of a linked group must share a shard; give them a common {tag}";
    BatchSizeInvalid = UNPROCESSABLE_ENTITY "a request carries 1 to 8190 transfers";
    TransferNotFound = NOT_FOUND "there is no transfer of this id";
    DebitAccountFrozen = CONFLICT "the account to debit is frozen";
    CreditAccountFrozen = CONFLICT "the account to credit is frozen";
    DebitAccountClosed = CONFLICT "the account to debit is closed";
    CreditAccountClosed = CONFLICT "the account to credit is closed";
    BalanceBelowMin = CONFLICT "the account to debit must keep its balance_min";
    BalanceAboveMax = CONFLICT "the account to credit may not pass its balance_max";
    LimitAcrossShards = CONFLICT
        "the account to credit has a balance_max, which only its own shard can check; give both accounts a common \
         {tag}";
    UserDataTooLong = UNPROCESSABLE_ENTITY "user_data is at most 64 bytes";
    LimitsInvalid = UNPROCESSABLE_ENTITY
        "balance_min must be at most balance_max, and a wallet's limits not below zero";
    MetadataInvalid = UNPROCESSABLE_ENTITY
        "metadata is at most 16 keys of 1 to 64 printable bytes, values of at most 256 bytes, 1024 bytes in all";
    SettingNotAllowed = UNPROCESSABLE_ENTITY
        "a collector has no limits and cannot be closed: freeze it; a closed account can only be opened again";
    AccountNotEmpty = CONFLICT "only an account with a balance of zero and without open holds can be closed";
    AccountInTransit = CONFLICT
        "credits to the account are on their way; it is frozen now, close it again when they have arrived";
    AssetExists = CONFLICT "the asset was declared with other decimals";
    DecimalsInvalid = UNPROCESSABLE_ENTITY "decimals are 0 to 18";
    CursorInvalid = UNPROCESSABLE_ENTITY
        "the cursor is not one that this list gave for this account; begin without a cursor";
}

/// The codes of all refusals.
pub fn refusal_codes() -> Vec<ProblemCode> {
    let figures = [Refusal::InsufficientFunds { available: 0 }, Refusal::RevisionStale { revision: 0 }];
    let worded = figures.iter().chain(PLAIN).map(|refusal| ProblemCode::new(worded(*refusal).0, refusal.code()));
    worded.chain([ProblemCode::new(StatusCode::INTERNAL_SERVER_ERROR, DAMAGED)]).collect()
}

impl Problem {
    /// A refusal of an earlier request with the same id and content.
    pub(crate) fn remembered(refusal: Refusal, decided_at: TimeMs) -> Problem {
        let (status, detail) = worded(refusal);
        let detail = match refusal {
            Refusal::InsufficientFunds { available } => format!(
                "this id was refused before: the account to debit had only {available} available then; choose a new id"
            ),
            _ => format!("this id was refused before, for what was so then: {detail}; choose a new id"),
        };
        let problem = Problem::new(ProblemCode::new(status, refusal.code()), detail);
        let problem = problem.with("remembered", true).with("decided_at_ms", decided_at.0);
        match refusal {
            Refusal::InsufficientFunds { available } => problem.with("available", available),
            _ => problem,
        }
    }
}

/// Of a batch, with the place of the item in it: `index` and `id`.
impl From<NotFound> for Problem {
    fn from(NotFound { refusal, item }: NotFound) -> Problem {
        let problem = Problem::from(refusal);
        match item {
            Some((index, id)) => problem.with("index", index).with("id", &*id),
            None => problem,
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        let (status, detail) = worded(refusal);
        let problem = Problem::new(ProblemCode::new(status, refusal.code()), detail);
        match refusal {
            Refusal::InsufficientFunds { available } => problem.with("available", available),
            Refusal::RevisionStale { revision } => problem.with("revision", revision),
            Refusal::Damaged(place) => {
                problem.with("file", &*place.file).with("offset", place.offset).with("lost", &*place.lost)
            }
            _ => problem,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sources_may_issue_is_said_of_the_shard_and_not_of_a_number_of_64_bits() {
        let problem = Problem::from(Refusal::Overflow);
        let bound = "on this shard: 9223372036854775807 minor units, divided by the number of shards";
        assert!(problem.detail().ends_with(bound), "{}", problem.detail());
    }
}
