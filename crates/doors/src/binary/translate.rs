//! Translates between the binary port's messages and those of the shards.

use bytes::Bytes;
use tidegate_ledger::limits::PAGE_ROWS_MAX;
use tidegate_ledger::message::{
    AuditReport, Conservation, HoldRequest, ItemLabel, OpenBatch, OpenItem, Reply, Request, Span, TimeSpan,
    TransferBatch, TransferItem, Unavailable,
};
use tidegate_machines::DamagedPlace;
use tidegate_machines::IdSpace;
use tidegate_machines::ledger::{AccountKind, AccountView, HistoryRow, Outcome, Refusal, RowKind};
use tidegate_wire::proto::{self, reply_frame::Body};
use tidegate_wire::{BodyRef, DecodeError, OutcomesEncoder, TextSpan, encode_reply};

use super::room_call::RoomCall;
use super::{Refused, settings};
use crate::auth::Identity;
use crate::json::codes;

/// What a frame asks of the ledger; `frame` is shared by the transfers read from it, not copied.
pub fn to_request(body: BodyRef<'_>, frame: &Bytes) -> Result<Request, Refused> {
    Ok(match body {
        BodyRef::Hello { .. } | BodyRef::Ping => unreachable!("the session answers these itself"),
        BodyRef::OpenAccount { kind: None, .. } => return Err(kind_invalid()),
        BodyRef::OpenAccount { id, asset, kind: Some(kind) } => {
            Request::OpenAccount { id: id.into(), asset: asset.into(), kind: from_proto_kind(kind) }
        }
        BodyRef::OpenAccounts(accounts) => {
            let (mut items, mut are_known) = (Vec::new(), true);
            accounts.read(|open| {
                are_known &= open.kind.is_some();
                let kind = from_proto_kind(open.kind.unwrap_or_default());
                items.push(OpenItem { id: span(open.id), asset: span(open.asset), kind });
            })?;
            if !are_known {
                return Err(kind_invalid());
            }
            Request::OpenAccounts(OpenBatch::new(frame.clone(), items).map_err(|_| DecodeError::NotUtf8)?)
        }
        BodyRef::Transfers(transfers) => {
            let (mut items, mut labels) = (Vec::new(), Vec::new());
            let linked = transfers.read(|item| {
                if item.code != 0 || item.user_data.length > 0 {
                    labels.resize(items.len(), ItemLabel::default());
                    labels.push(ItemLabel { code: item.code, user_data: span(item.user_data) });
                }
                items.push(TransferItem {
                    id: span(item.id),
                    debit: span(item.debit),
                    credit: span(item.credit),
                    memo: span(item.memo),
                    amount: item.amount,
                })
            })?;
            if !labels.is_empty() {
                labels.resize(items.len(), ItemLabel::default());
            }
            let batch = TransferBatch::new(frame.clone(), items, labels).map_err(|_| DecodeError::NotUtf8)?;
            Request::Transfers { linked, batch }
        }
        BodyRef::Holds(holds) => {
            let mut requests = Vec::new();
            let linked = holds.read(|hold| {
                requests.push(HoldRequest {
                    id: hold.id.into(),
                    debit: hold.debit.into(),
                    credit: hold.credit.into(),
                    amount: hold.amount,
                    expires_in_ms: hold.expires_in_ms,
                    memo: hold.memo.into(),
                    code: hold.code,
                    user_data: hold.user_data.into(),
                    open_holds_max: 0,
                })
            })?;
            if linked { Request::PlaceLinkedHolds(requests) } else { Request::PlaceHolds(requests) }
        }
        BodyRef::PostHolds(posts) => {
            let mut requests = Vec::new();
            posts.read(|id, amount| requests.push((id.into(), amount)))?;
            Request::PostHolds(requests)
        }
        BodyRef::VoidHolds(voids) => {
            let mut ids = Vec::new();
            voids.read(|id| ids.push(id.into()))?;
            Request::VoidHolds(ids)
        }
        BodyRef::ReadAccount { id } => Request::ReadAccount { id: id.into() },
        BodyRef::ListAccounts { prefix, after, limit } => Request::ListAccounts {
            prefix: prefix.into(),
            after: (!after.is_empty()).then(|| after.into()),
            limit: page_rows(limit),
        },
        BodyRef::ReadHistory { id, before, limit, from_ms, to_ms } => Request::ReadHistory {
            id: id.into(),
            before: (!before.is_empty()).then(|| before.into()),
            limit: page_rows(limit),
            times: TimeSpan::new(from_ms, to_ms).ok_or_else(times_invalid)?,
        },
        BodyRef::ReadTransfer { id, .. } => Request::ReadTransfer { id: id.into() },
        BodyRef::ReadHold { id, .. } => Request::ReadHold { id: id.into() },
        BodyRef::ListHolds { account, after, limit } => {
            let after = match after.is_empty() {
                true => None,
                false => Some(after.parse().map_err(|_| refused(Refusal::CursorInvalid))?),
            };
            Request::ListHolds { account: account.into(), after, limit: page_rows(limit) }
        }
        BodyRef::ChangeAccount(change) => settings::to_request(change.read()?)?,
        BodyRef::DeclareAsset { asset, decimals } => {
            let decimals = u8::try_from(decimals).map_err(|_| refused(Refusal::DecimalsInvalid))?;
            Request::DeclareAsset { asset: asset.into(), decimals }
        }
        BodyRef::ListAssets => Request::ListAssets,
        BodyRef::ReadAudit => Request::ReadAudit,
        // Those that are served do not come here.
        BodyRef::Room(room) => return Err(RoomCall::of(room, frame).unknown()),
    })
}

fn times_invalid() -> Refused {
    Refused::new(codes::QUERY_INVALID.name(), "from_ms is later than to_ms: no row can be of that time")
}

fn kind_invalid() -> Refused {
    Refused::new("account_kind_invalid", "kind must be wallet (1), source (2) or collector (3)")
}

/// The id space that a frame names; `None` for the sender's own.
pub fn id_space(body: &BodyRef<'_>) -> Result<Option<IdSpace>, Refused> {
    let named = match body {
        BodyRef::PostHolds(posts) => posts.id_space()?,
        BodyRef::VoidHolds(voids) => voids.id_space()?,
        BodyRef::ReadTransfer { id_space, .. } | BodyRef::ReadHold { id_space, .. } => *id_space,
        _ => None,
    };
    let space = |name| IdSpace::new(name).ok_or_else(|| Refused::new("id_invalid", "id_space: no space has this name"));
    named.map(space).transpose()
}

/// Appends the frame that carries `reply`, as `reader` may see it; `next` is where the page after a list of accounts
/// begins.
pub fn encode_page(out: &mut Vec<u8>, correlation: u64, reply: Reply, reader: Option<&Identity>, next: String) {
    let body = match reply {
        Reply::Outcomes(outcomes) => return encode_outcomes(out, correlation, &outcomes),
        Reply::AccountOpened { created, account } => {
            Body::AccountOpened(proto::AccountOpened { created, account: Some(to_account(account)) })
        }
        Reply::Account(account) => Body::Account(to_account(account)),
        Reply::Accounts(accounts) => {
            Body::Accounts(proto::Accounts { accounts: accounts.into_iter().map(to_account).collect(), next })
        }
        Reply::History { rows, next, held, .. } => Body::History(proto::History {
            held,
            rows: rows.into_iter().map(|row| to_row(row, reader)).collect(),
            next: next.map(String::from).unwrap_or_default(),
        }),
        Reply::Announced => unreachable!("no client may ask it"),
        Reply::BalanceAt { .. } => unreachable!("the schema has no balance of a time"),
        Reply::HistoryPart { .. } => unreachable!("the schema has no streams"),
        Reply::Audit(reports) => {
            let conservation = reports.first().map_or(&[][..], |report| &report.conservation);
            let conservation = conservation.iter().map(to_conservation).collect();
            Body::Audit(proto::Audit { conservation, shards: reports.into_iter().map(to_audit).collect() })
        }
        Reply::Transfer { shard, transfer } => Body::TransferState(settings::to_transfer(shard, *transfer, reader)),
        Reply::Hold { shard, hold } => Body::HoldState(settings::to_hold(shard, *hold, reader)),
        Reply::Holds { holds, next } => Body::OpenHolds(proto::OpenHolds {
            // All are of the account's home, which is not said again with each.
            holds: holds.into_iter().map(|hold| settings::to_hold(0, hold, reader)).collect(),
            next: next.map(|next| next.to_string()).unwrap_or_default(),
        }),
        Reply::AccountChanged { changed, account } => {
            Body::AccountChanged(proto::AccountChanged { changed, account: Some(to_account(account)) })
        }
        Reply::AssetDeclared { created } => Body::AssetDeclared(proto::AssetDeclared { created }),
        Reply::Assets(assets) => {
            let assets = assets.into_iter().map(|asset| settings::to_asset(asset, reader)).collect();
            Body::Assets(proto::Assets { assets })
        }
        Reply::Refused(refusal) => {
            let detail = match refusal {
                Refusal::Damaged(place) => place.to_string(),
                _ => String::new(),
            };
            return encode_error(out, correlation, &Refused::new(refusal.code(), &detail));
        }
        Reply::Unavailable(reason) => {
            let (code, detail, retry_after_ms) = unavailable(reason);
            Body::Error(proto::Error { code: code.into(), detail: detail.into(), retry_after_ms })
        }
    };
    encode_reply(out, correlation, body);
}

/// Appends an error frame.
pub fn encode_error(out: &mut Vec<u8>, correlation: u64, refused: &Refused) {
    let Refused { code, detail, retry_after_ms } = refused;
    let error = proto::Error { code: (*code).into(), detail: detail.clone(), retry_after_ms: *retry_after_ms };
    encode_reply(out, correlation, Body::Error(error));
}

fn encode_outcomes(out: &mut Vec<u8>, correlation: u64, outcomes: &[Outcome]) {
    let mut frame = OutcomesEncoder::begin(out, correlation, outcomes.len());
    for outcome in outcomes {
        match outcome {
            Outcome::Applied => frame.applied(),
            Outcome::Duplicate => frame.duplicate(),
            Outcome::Refused(refusal) => frame.refused(refusal.code(), available(*refusal)),
            Outcome::RefusedBefore { refusal, decided_at } => {
                frame.refused_before(refusal.code(), available(*refusal), decided_at.0);
            }
        }
    }
    frame.finish();
}

fn available(refusal: Refusal) -> u64 {
    match refusal {
        Refusal::InsufficientFunds { available } => available,
        _ => 0,
    }
}

/// Code, text, and milliseconds until the client should ask again.
pub fn unavailable(reason: Unavailable) -> (&'static str, &'static str, u32) {
    match reason {
        Unavailable::Busy => {
            (codes::BUSY.name(), "too many requests are under way; send this one again with the same ids", 100)
        }
        Unavailable::DiskFull => {
            (codes::DISK_FULL.name(), "no room on the server's disk; send this again with the same ids", 5_000)
        }
        Unavailable::ShardFailed => {
            (codes::SHARD_FAILED.name(), "the server's journal failed and it must be restarted", 10_000)
        }
        Unavailable::StateDiffers => (
            codes::STATE_DIFFERS.name(),
            "an audit found balances that are not what the journal says; send this again with the same ids when an \
             operator has restarted the server",
            10_000,
        ),
        Unavailable::Recovering => (codes::RECOVERING.name(), "the server is replaying its journal", 1_000),
        Unavailable::Stopping => (codes::STOPPING.name(), "the server is stopping; connect again", 1_000),
    }
}

fn refused(refusal: Refusal) -> Refused {
    Refused::new(refusal.code(), "")
}

fn span(text: TextSpan) -> Span {
    Span { offset: text.offset, length: text.length }
}

fn page_rows(limit: u32) -> u32 {
    const DEFAULT: u32 = 100;
    if limit == 0 { DEFAULT } else { limit.min(PAGE_ROWS_MAX) }
}

fn from_proto_kind(kind: proto::AccountKind) -> AccountKind {
    match kind {
        proto::AccountKind::Source => AccountKind::Source,
        proto::AccountKind::Collector => AccountKind::Collector,
        proto::AccountKind::Wallet | proto::AccountKind::Unspecified => AccountKind::Wallet,
    }
}

fn to_kind(kind: AccountKind) -> i32 {
    match kind {
        AccountKind::Wallet => proto::AccountKind::Wallet,
        AccountKind::Source => proto::AccountKind::Source,
        AccountKind::Collector => proto::AccountKind::Collector,
    }
    .into()
}

fn to_account(account: AccountView) -> proto::Account {
    let available = account.available();
    let settings = account.settings.as_deref();
    proto::Account {
        status: settings.map_or(0, |settings| settings::to_status(settings.status)),
        balance_min: settings.and_then(|settings| settings.balance_min),
        balance_max: settings.and_then(|settings| settings.balance_max),
        metadata: settings.map(settings::to_metadata).unwrap_or_default(),
        revision: settings.map_or(0, |settings| settings.revision),
        kind: to_kind(account.kind),
        balance: account.balance,
        held: account.held,
        available: available as i64,
        credited: account.credited.to_string(),
        debited: account.debited.to_string(),
        id: account.id.into(),
        asset: account.asset.into(),
    }
}

fn to_row(row: HistoryRow, reader: Option<&Identity>) -> proto::HistoryRow {
    let kind = match row.kind {
        RowKind::Transfer => proto::RowKind::Transfer,
        RowKind::Hold => proto::RowKind::Hold,
        RowKind::Post => proto::RowKind::Post,
        RowKind::Void => proto::RowKind::Void,
        RowKind::Expire => proto::RowKind::Expire,
    };
    proto::HistoryRow {
        id_space: reader.and_then(|reader| reader.shown_space(&row.id_space)).map(str::to_owned),
        id: row.id.into(),
        kind: kind.into(),
        debit: row.debit.into(),
        credit: row.credit.into(),
        amount: row.amount,
        memo: row.memo.into(),
        time_ms: row.time_ms,
        balance_after: row.balance_after,
        code: row.code,
        user_data: row.user_data.into(),
    }
}

fn to_audit(report: AuditReport) -> proto::AuditReport {
    let state = report.state().name().into();
    let differences = report.differences.into_iter().map(|difference| proto::AuditDifference {
        figure: difference.figure.into(),
        live: difference.live_text(),
        journal: difference.journal_text(),
        agreed_at_sequence: difference.agreed_at_sequence,
        hold: difference.hold.unwrap_or_default().into(),
        account: difference.account.into(),
    });
    let place = |place: &&DamagedPlace| proto::DamagedPlace {
        file: place.file.to_string(),
        offset: place.offset,
        what: place.what.to_string(),
        lost: place.lost.to_string(),
    };
    proto::AuditReport {
        shard: report.shard.into(),
        finished_at_ms: report.finished_at_ms,
        sequence: report.sequence,
        accounts_compared: report.accounts_compared,
        differences: differences.collect(),
        damage: report.damage.unwrap_or_default(),
        state,
        holds_compared: report.holds_compared,
        differences_more: report.differences_more,
        scrub: Some(proto::Scrub {
            position: report.scrub.position,
            of: report.scrub.of,
            last_full_at_ms: report.scrub.last_full_at_ms,
            damage: report.scrub.damage.iter().map(place).collect(),
        }),
        first_fold_sequence: report.first_fold.sequence,
        first_fold_agreed_at_sequence: report.first_fold.agreed_at_sequence,
    }
}

fn to_conservation(of: &Conservation) -> proto::Conservation {
    proto::Conservation { asset: of.asset.to_string(), sum: of.sum.to_string(), in_transit: of.in_transit.to_string() }
}
