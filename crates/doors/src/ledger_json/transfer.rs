//! One transfer in JSON.

use serde::Deserialize;
use utoipa::ToSchema;

use super::schemas::{code_schema, credit_schema, debit_schema, memo_schema, transfer_id_schema, user_data_schema};
use crate::json::{Text, Whole, Whole32};

/// Move `amount` from `debit` to `credit`, exactly once for this `id`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TransferBody<'a> {
    /// Chosen by the client. The same id and content always gives the first outcome again.
    #[serde(borrow)]
    #[schema(schema_with = transfer_id_schema)]
    pub(super) id: Text<'a>,
    /// Account to take from.
    #[serde(borrow)]
    #[schema(schema_with = debit_schema)]
    pub(super) debit: Text<'a>,
    /// Account to give to.
    #[serde(borrow)]
    #[schema(schema_with = credit_schema)]
    pub(super) credit: Text<'a>,
    /// Minor units.
    #[schema(value_type = i64, minimum = 1, example = 1)]
    pub(super) amount: Whole,
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
