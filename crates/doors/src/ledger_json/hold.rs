//! One hold in JSON, one post, and their batches.

use serde::Deserialize;
use utoipa::ToSchema;

use super::schemas::{code_schema, credit_schema, debit_schema, memo_schema, transfer_id_schema, user_data_schema};
use crate::json::{Object, Text, Whole, Whole32, present};

/// Reserve `amount` of `debit` for a later post to `credit`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HoldBody<'a> {
    /// Chosen by the client. Never used again for another transfer or hold.
    #[serde(borrow)]
    #[schema(schema_with = transfer_id_schema)]
    pub(super) id: Text<'a>,
    /// Account whose available balance shrinks.
    #[serde(borrow)]
    #[schema(schema_with = debit_schema)]
    pub(super) debit: Text<'a>,
    /// Account that a post will credit.
    #[serde(borrow)]
    #[schema(schema_with = credit_schema)]
    pub(super) credit: Text<'a>,
    /// Minor units.
    #[schema(value_type = i64, minimum = 1, example = 2)]
    pub(super) amount: Whole,
    /// How long the hold lives, in milliseconds; at most one hundred years.
    #[schema(value_type = i64, minimum = 1, maximum = 3_155_760_000_000i64, example = 60000)]
    pub(super) expires_in_ms: Whole,
    /// Free text for the history.
    #[serde(borrow, default)]
    #[schema(schema_with = memo_schema, required = false)]
    pub(super) memo: Text<'a>,
    /// The reason, as the client numbers its reasons.
    #[serde(default)]
    #[schema(schema_with = code_schema, required = false)]
    pub(super) code: Whole32,
    /// A key of another system.
    #[serde(borrow, default)]
    #[schema(schema_with = user_data_schema, required = false)]
    pub(super) user_data: Text<'a>,
}

/// Many holds at once.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HoldBatchBody<'a> {
    /// The holds, decided in this order.
    #[serde(borrow)]
    #[schema(value_type = Vec<HoldBody>, min_items = 1, max_items = 8190)]
    pub(super) holds: Vec<Object<HoldBody<'a>>>,
    /// All or nothing; their debit accounts must share a shard.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = bool, required = false)]
    pub(super) linked: Option<bool>,
}

/// A hold to post, all of it or a part.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PostLineBody<'a> {
    /// Hold id.
    #[serde(borrow)]
    #[schema(schema_with = transfer_id_schema)]
    pub(super) id: Text<'a>,
    /// Minor units; all that is held if absent.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = i64, required = false, minimum = 1, example = 1)]
    pub(super) amount: Option<Whole>,
}

/// Many posts at once.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PostBatchBody<'a> {
    /// The posts, decided in this order.
    #[serde(borrow)]
    #[schema(value_type = Vec<PostLineBody>, min_items = 1, max_items = 8190)]
    pub(super) posts: Vec<Object<PostLineBody<'a>>>,
}

/// Many voids at once.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VoidBatchBody<'a> {
    /// Ids of the holds, decided in this order.
    #[serde(borrow)]
    #[schema(value_type = Vec<String>, min_items = 1, max_items = 8190)]
    pub(super) ids: Vec<Text<'a>>,
}
