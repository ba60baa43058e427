//! A change in JSON, the same at every door.

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate_ledger::changes::Change;
use tidegate_machines::IdSpace;
use tidegate_machines::ledger::Refusal;
use utoipa::ToSchema;

use crate::auth::Identity;
use crate::ledger_json::account::{KindWord, StatusWord};
use crate::ledger_json::schemas::code_schema;

/// One change.
#[derive(Serialize, ToSchema)]
pub struct ChangeBody<'a> {
    /// Send as `after` to go on behind this change.
    cursor: &'a str,
    /// The shard whose journal has it. Changes of one shard come in their order.
    shard: u16,
    /// Number of its record in that journal.
    sequence: u64,
    /// When it was decided, milliseconds since the epoch.
    time_ms: u64,
    /// `account_opened`, `account_changed`, `asset_declared`, `transfer`, `hold_placed`, `hold_posted`, `hold_voided`,
    /// `hold_expired`, `credit_received` (on a server with several shards: the credit of a transfer or post that
    /// another shard decided), `refused`, `time_mended` (an operator has set the ledger's clock); in a stream also
    /// `heartbeat` and `end`, which have only a cursor.
    kind: &'static str,
    /// Transfer or hold id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    id: Option<&'a str>,
    /// For a service: the id space of that id, if it is not the service's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    id_space: Option<&'a str>,
    /// The account that was opened or changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    account: Option<&'a str>,
    /// Of `account_opened`: what it may do.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = KindWord, required = false)]
    account_kind: Option<KindWord>,
    /// Of `account_changed`: how often the account has been changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    revision: Option<u64>,
    /// Of `account_changed`: its status after the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = StatusWord, required = false)]
    status: Option<StatusWord>,
    /// Of `account_changed`: its lower limit after the change; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false)]
    balance_min: Option<i64>,
    /// Of `account_changed`: its upper limit after the change; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false)]
    balance_max: Option<i64>,
    /// Of `account_changed`: keys that were set, with their values, and keys that were removed, with null.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = HashMap<String, Option<String>>, required = false)]
    metadata: Option<BTreeMap<&'a str, Option<&'a str>>>,
    /// Of `asset_declared`: digits of an amount behind the point.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u8, required = false)]
    decimals: Option<u8>,
    /// Unit of measure.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    asset: Option<&'a str>,
    /// Account that was, or would be, debited.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    debit: Option<&'a str>,
    /// Its balance after the change; absent if the token may not read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false)]
    debit_balance_after: Option<i64>,
    /// Account that was, or would be, credited.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    credit: Option<&'a str>,
    /// Its balance after the change (of a collector: of its part on this shard); absent if the change did not credit
    /// it here, or the token may not read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false)]
    credit_balance_after: Option<i64>,
    /// Minor units moved or held.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    amount: Option<u64>,
    /// Of `hold_posted`: minor units that were held.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    held: Option<u64>,
    /// Of `hold_placed`: when it expires, milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    expires_at_ms: Option<u64>,
    /// Free text.
    #[serde(skip_serializing_if = "str::is_empty")]
    #[schema(required = false)]
    memo: &'a str,
    /// Code of the client's program; absent for none.
    #[serde(skip_serializing_if = "is_zero")]
    #[schema(schema_with = code_schema, required = false)]
    code: u32,
    /// Key of the client's program; absent for none.
    #[serde(skip_serializing_if = "str::is_empty")]
    #[schema(required = false)]
    user_data: &'a str,
    /// Of `refused`: why, as a problem's code.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    refusal: Option<&'static str>,
    /// Of `insufficient_funds`: what was available then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    available: Option<u64>,
}

fn is_zero(code: &u32) -> bool {
    *code == 0
}

/// A change as `reader` sees it, the same at every door.
pub(crate) fn change_json(change: &Change, reader: &Identity) -> Vec<u8> {
    serde_json::to_vec(&ChangeBody::new(change, reader)).expect("a change is plain JSON")
}

impl<'a> ChangeBody<'a> {
    /// The change as `reader` sees it.
    pub fn new(change: &'a Change, reader: &Identity) -> ChangeBody<'a> {
        let (id_space, id) = change.id.as_deref().map(IdSpace::split).unzip();
        let id_space = id_space.and_then(|space| reader.shown_space(space));
        ChangeBody {
            cursor: &change.cursor,
            shard: change.shard,
            sequence: change.sequence,
            time_ms: change.time_ms,
            kind: change.kind.word(),
            id,
            id_space,
            account: change.account.as_deref(),
            account_kind: change.opened_kind.map(KindWord::from),
            revision: change.settings.as_ref().map(|settings| settings.revision),
            status: change.settings.as_ref().map(|settings| StatusWord::from(settings.rules.status)),
            balance_min: change.settings.as_ref().and_then(|settings| settings.rules.balance_min),
            balance_max: change.settings.as_ref().and_then(|settings| settings.rules.balance_max),
            metadata: change
                .settings
                .as_ref()
                .filter(|settings| !settings.metadata.is_empty())
                .map(|settings| settings.metadata.iter().map(|(key, value)| (&**key, value.as_deref())).collect()),
            decimals: change.decimals,
            asset: change.asset.as_deref(),
            debit: change.debit.as_ref().map(|account| &*account.id),
            debit_balance_after: change.debit.as_ref().and_then(|account| account.balance_after),
            credit: change.credit.as_ref().map(|account| &*account.id),
            credit_balance_after: change.credit.as_ref().and_then(|account| account.balance_after),
            amount: change.amount,
            held: change.held,
            expires_at_ms: change.expires_at_ms,
            memo: &change.memo,
            code: change.code,
            user_data: &change.user_data,
            refusal: change.refusal.map(|refusal| refusal.code()),
            available: match change.refusal {
                Some(Refusal::InsufficientFunds { available }) => Some(available),
                _ => None,
            },
        }
    }
}
