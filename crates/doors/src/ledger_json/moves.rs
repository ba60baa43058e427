//! What became of a transfer or hold, in JSON.

use serde::Serialize;
use tidegate_machines::IdSpace;
use tidegate_machines::ledger::{HoldState, HoldView, Refusal, TransferState, TransferView};
use utoipa::ToSchema;

use super::outcome::OutcomeWord;
use super::schemas::code_schema;
use crate::auth::Identity;

/// A transfer as it was decided. A refusal keeps only a digest of what was asked, so then the content is absent.
#[derive(Serialize, ToSchema)]
pub struct TransferStateBody<'a> {
    /// Its id.
    #[schema(example = "vote-1")]
    pub id: &'a str,
    /// The id space of that id, for a service if it is not its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub id_space: Option<&'a str>,
    /// `applied` or `refused`.
    pub outcome: OutcomeWord,
    /// Why it was refused; every retry gets this.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, example = "insufficient_funds")]
    pub refusal: Option<&'static str>,
    /// With `insufficient_funds`: what was available then, in minor units.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub available: Option<u64>,
    /// Account that was debited.
    #[serde(skip_serializing_if = "str::is_empty")]
    #[schema(required = false)]
    pub debit: &'a str,
    /// Account that was credited.
    #[serde(skip_serializing_if = "str::is_empty")]
    #[schema(required = false)]
    pub credit: &'a str,
    /// Minor units.
    #[serde(skip_serializing_if = "is_zero")]
    #[schema(required = false)]
    pub amount: u64,
    /// Free text; absent if there is none.
    #[serde(skip_serializing_if = "str::is_empty")]
    #[schema(required = false)]
    pub memo: &'a str,
    /// Code; absent if there is none.
    #[serde(skip_serializing_if = "is_none")]
    #[schema(schema_with = code_schema, required = false)]
    pub code: u32,
    /// User data; absent if there is none.
    #[serde(skip_serializing_if = "str::is_empty")]
    #[schema(required = false)]
    pub user_data: &'a str,
    /// When it was decided, milliseconds since the epoch.
    pub time_ms: u64,
    /// `true` as long as the credited account, which is of another shard, may not have the amount yet.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub credit_pending: bool,
    /// The shard that decided it.
    pub shard: u16,
    /// Where the record stands in the journal of that shard; later records have larger ones.
    pub position: u64,
}

/// Where a hold is in its life.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum HoldWord {
    /// It reserves its amount.
    Open,
    /// It was posted, all of it or a part.
    Posted,
    /// It was released on request.
    Voided,
    /// It was released because its time was over.
    Expired,
}

/// A hold and its state.
#[derive(Serialize, ToSchema)]
pub struct HoldStateBody<'a> {
    /// Its id.
    #[schema(example = "hold-1")]
    pub id: &'a str,
    /// The id space of that id, for a service if it is not its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub id_space: Option<&'a str>,
    /// Where it is in its life.
    pub state: HoldWord,
    /// Account that it reserves on.
    pub debit: &'a str,
    /// Account that a post credits.
    pub credit: &'a str,
    /// Reserved when it was placed, minor units.
    pub amount: u64,
    /// What it reserves now, minor units; 0 unless it is open.
    pub remaining: u64,
    /// Of a posted hold: what moved, minor units.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub posted: Option<u64>,
    /// Lifetime in milliseconds, as it was asked for.
    pub expires_in_ms: u64,
    /// Of an open hold: milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub expires_at_ms: Option<u64>,
    /// Free text; absent if there is none.
    #[serde(skip_serializing_if = "str::is_empty")]
    #[schema(required = false)]
    pub memo: &'a str,
    /// Code; absent if there is none.
    #[serde(skip_serializing_if = "is_none")]
    #[schema(schema_with = code_schema, required = false)]
    pub code: u32,
    /// User data; absent if there is none.
    #[serde(skip_serializing_if = "str::is_empty")]
    #[schema(required = false)]
    pub user_data: &'a str,
    /// When it came into this state, milliseconds since the epoch.
    pub time_ms: u64,
}

/// Open holds, in the order of their placement.
#[derive(Serialize, ToSchema)]
pub struct HoldsBody<'a> {
    /// Holds.
    pub holds: Vec<HoldStateBody<'a>>,
    /// Send as `after` for the next page; absent after the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub next: Option<String>,
}

pub fn is_none(code: &u32) -> bool {
    *code == 0
}

fn is_zero(amount: &u64) -> bool {
    *amount == 0
}

impl<'a> TransferStateBody<'a> {
    /// A transfer that `shard` decided, as `reader` may see it.
    pub fn new(shard: u16, transfer: &'a TransferView, reader: &Identity) -> TransferStateBody<'a> {
        let (id_space, id) = IdSpace::split(&transfer.id);
        let (outcome, refusal) = match transfer.state {
            TransferState::Applied => (OutcomeWord::Applied, None),
            TransferState::Refused(refusal) => (OutcomeWord::Refused, Some(refusal)),
        };
        let available = match refusal {
            Some(Refusal::InsufficientFunds { available }) => Some(available),
            _ => None,
        };
        TransferStateBody {
            id,
            id_space: reader.shown_space(id_space),
            outcome,
            refusal: refusal.map(Refusal::code),
            available,
            debit: &transfer.debit,
            credit: &transfer.credit,
            amount: transfer.amount,
            memo: &transfer.memo,
            code: transfer.code,
            user_data: &transfer.user_data,
            time_ms: transfer.time_ms,
            credit_pending: transfer.is_credit_pending,
            shard,
            position: transfer.at.0,
        }
    }
}

impl<'a> HoldStateBody<'a> {
    /// The hold as `reader` may see it.
    pub fn new(hold: &'a HoldView, reader: &Identity) -> HoldStateBody<'a> {
        let (id_space, id) = IdSpace::split(&hold.id);
        let (state, posted, expires_at_ms) = match hold.state {
            HoldState::Open { expires_at_ms } => (HoldWord::Open, None, Some(expires_at_ms)),
            HoldState::Posted { amount } => (HoldWord::Posted, Some(amount), None),
            HoldState::Voided => (HoldWord::Voided, None, None),
            HoldState::Expired => (HoldWord::Expired, None, None),
        };
        HoldStateBody {
            id,
            id_space: reader.shown_space(id_space),
            state,
            debit: &hold.debit,
            credit: &hold.credit,
            amount: hold.amount,
            remaining: hold.remaining(),
            posted,
            expires_in_ms: hold.expires_in_ms,
            expires_at_ms,
            memo: &hold.memo,
            code: hold.code,
            user_data: &hold.user_data,
            time_ms: hold.time_ms,
        }
    }
}
