//! Translates settings of accounts, states of transfers and holds, and assets.

use std::collections::{BTreeMap, HashMap};

use tidegate_ledger::message::{ChangeRequest, Request};
use tidegate_machines::IdSpace;
use tidegate_machines::ledger::{
    AccountSettings, AccountStatus, AssetView, HoldState, HoldView, MetadataPatch, Refusal, TransferState, TransferView,
};
use tidegate_wire::{AccountChangeRef, proto};

use super::Refused;
use crate::auth::Identity;

/// What a change asks of the ledger.
pub fn to_request(change: AccountChangeRef<'_>) -> Result<Request, Refused> {
    let status = match proto::AccountStatus::try_from(change.status) {
        Ok(proto::AccountStatus::Unspecified) => None,
        Ok(proto::AccountStatus::Open) => Some(AccountStatus::Open),
        Ok(proto::AccountStatus::DebitsFrozen) => Some(AccountStatus::DebitsFrozen),
        Ok(proto::AccountStatus::Frozen) => Some(AccountStatus::Frozen),
        Ok(proto::AccountStatus::Closed) => Some(AccountStatus::Closed),
        Err(_) => {
            let detail = "status must be open (1), debits_frozen (2), frozen (3) or closed (4)";
            return Err(Refused::new("account_status_invalid", detail));
        }
    };
    let mut metadata: BTreeMap<Box<str>, Option<Box<str>>> = BTreeMap::new();
    metadata.extend(change.metadata.into_iter().map(|(key, value)| (key.into(), Some(value.into()))));
    metadata.extend(change.remove_metadata.into_iter().map(|key| (key.into(), None)));
    let mut patch = Vec::new();
    if let Err(refusal) = MetadataPatch::write(&metadata, &mut patch) {
        return Err(Refused::new(refusal.code(), ""));
    }
    let limit = |limit: Option<i64>, remove: bool| if remove { Some(None) } else { limit.map(Some) };
    let change_request = ChangeRequest {
        if_revision: change.if_revision,
        status,
        balance_min: limit(change.balance_min, change.remove_balance_min),
        balance_max: limit(change.balance_max, change.remove_balance_max),
        metadata: patch.into(),
    };
    Ok(Request::ChangeAccount { id: change.id.into(), change: change_request })
}

/// The number of a status.
pub fn to_status(status: AccountStatus) -> i32 {
    match status {
        AccountStatus::Open => proto::AccountStatus::Open,
        AccountStatus::DebitsFrozen => proto::AccountStatus::DebitsFrozen,
        AccountStatus::Frozen => proto::AccountStatus::Frozen,
        AccountStatus::Closed => proto::AccountStatus::Closed,
    }
    .into()
}

/// Keys and values.
pub fn to_metadata(settings: &AccountSettings) -> HashMap<String, String> {
    settings.metadata.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

/// What became of a transfer.
pub fn to_transfer(shard: u16, transfer: TransferView, reader: Option<&Identity>) -> proto::TransferState {
    let (id_space, id) = IdSpace::split(&transfer.id);
    let (outcome, refusal) = match transfer.state {
        TransferState::Applied => (proto::OutcomeKind::Applied, None),
        TransferState::Refused(refusal) => (proto::OutcomeKind::Refused, Some(refusal)),
    };
    let available = match refusal {
        Some(Refusal::InsufficientFunds { available }) => available,
        _ => 0,
    };
    proto::TransferState {
        id: id.into(),
        id_space: reader.and_then(|reader| reader.shown_space(id_space)).map(str::to_owned),
        outcome: outcome.into(),
        code_of_refusal: refusal.map_or("", Refusal::code).into(),
        available,
        debit: transfer.debit.into(),
        credit: transfer.credit.into(),
        amount: transfer.amount,
        memo: transfer.memo.into(),
        code: transfer.code,
        user_data: transfer.user_data.into(),
        time_ms: transfer.time_ms,
        shard: shard.into(),
        position: transfer.at.0,
        credit_pending: transfer.is_credit_pending,
    }
}

/// A hold and its state.
pub fn to_hold(shard: u16, hold: HoldView, reader: Option<&Identity>) -> proto::HoldState {
    let (id_space, id) = IdSpace::split(&hold.id);
    let (state, posted, expires_at_ms) = match hold.state {
        HoldState::Open { expires_at_ms } => (proto::HoldStateKind::HoldOpen, 0, expires_at_ms),
        HoldState::Posted { amount } => (proto::HoldStateKind::HoldPosted, amount, 0),
        HoldState::Voided => (proto::HoldStateKind::HoldVoided, 0, 0),
        HoldState::Expired => (proto::HoldStateKind::HoldExpired, 0, 0),
    };
    proto::HoldState {
        state: state.into(),
        remaining: hold.remaining(),
        id: id.into(),
        id_space: reader.and_then(|reader| reader.shown_space(id_space)).map(str::to_owned),
        debit: hold.debit.into(),
        credit: hold.credit.into(),
        amount: hold.amount,
        posted,
        expires_in_ms: hold.expires_in_ms,
        expires_at_ms,
        memo: hold.memo.into(),
        code: hold.code,
        user_data: hold.user_data.into(),
        time_ms: hold.time_ms,
        shard: shard.into(),
        position: hold.at.0,
    }
}

/// An asset, with its sums for a reader who may read all accounts; else they are empty, because 0 would be false.
pub fn to_asset(asset: AssetView, reader: Option<&Identity>) -> proto::Asset {
    let with_sums = reader.is_some_and(|reader| reader.rights().may_read_everything());
    let sum = |text: String| if with_sums { text } else { String::new() };
    proto::Asset {
        name: asset.name.into(),
        decimals: asset.decimals.unwrap_or(0).into(),
        declared: asset.decimals.is_some(),
        issued: sum(asset.issued.to_string()),
        held: sum(asset.held.to_string()),
    }
}
