//! Checks whether a caller may make a request to the ledger. All doors use this one check.
//!
//! A viewer's rights depend on the kind of the account that is credited or read, which only the ledger knows. The door
//! then reads those accounts and enters the collectors into [`AccountKinds`]. If one is no collector or does not exist,
//! the door answers with [`not_found`] and does not send the request to the ledger: whether others have an account of
//! this id is nothing that a viewer may learn. Else it checks again.

use tidegate_ledger::message::{BalanceAt, Reply, Request};
use tidegate_machines::ledger::{HistoryRow, Refusal};

use super::identity::{Access, Identity, Rights};
use super::kinds::AccountKinds;

/// Accounts of unknown kind that one request of a viewer may make a door read.
pub const KIND_LOOKUPS_PER_REQUEST_MAX: usize = 64;

/// Whether a request may go on to the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Allowed,
    /// It may not, for this reason. Doors show code `forbidden`.
    Denied(String),
    /// It may if all of these accounts are collectors: read them (`Request::ReadAccount`), `learn` their kinds, check
    /// again.
    NeedsKinds(Vec<Box<str>>),
}

/// Checks every account that `request` names against the rights of `identity`.
pub fn check(identity: &Identity, request: &Request, kinds: &mut AccountKinds) -> Verdict {
    let rights = identity.rights();
    match request {
        Request::OpenAccount { id, .. } => only_if(rights.may_open_account(id), || format!("open account {id:?}")),
        Request::OpenAccounts(batch) => match batch.ids().find(|id| !rights.may_open_account(id)) {
            Some(id) => Verdict::Denied(denial(&format!("open account {id:?}"))),
            None => Verdict::Allowed,
        },
        Request::Transfers { .. } if rights.may_transfer_anything() => Verdict::Allowed,
        Request::Transfers { batch, .. } => {
            check_moves(identity, kinds, batch.iter().map(|transfer| (transfer.debit, transfer.credit)))
        }
        Request::PlaceHolds(holds) | Request::PlaceLinkedHolds(holds) => {
            check_moves(identity, kinds, holds.iter().map(|hold| (&*hold.debit, &*hold.credit)))
        }
        Request::PostHolds(_) => only_if(rights.may_settle_holds(), || "post holds".to_owned()),
        Request::VoidHolds(_) => only_if(rights.may_settle_holds(), || "void holds".to_owned()),
        Request::ReadAccount { id }
        | Request::ReadHistory { id, .. }
        | Request::ReadBalanceAt { id, .. }
        | Request::StreamHistory { id, .. }
        | Request::ListHolds { account: id, .. } => {
            let kind = kinds.get(id);
            match rights.may_read(id, kind) {
                Access::Allowed => Verdict::Allowed,
                Access::Forbidden => Verdict::Denied(denial(&format!("read account {id:?}"))),
                Access::IfCollector => Verdict::NeedsKinds(vec![id.clone()]),
            }
        }
        // The door filters what it lists by `Rights::may_see`.
        Request::ListAccounts { .. } => Verdict::Allowed,
        // The door shows of the reply what `shown` leaves.
        Request::ReadTransfer { .. } | Request::ReadHold { .. } | Request::ListAssets => Verdict::Allowed,
        Request::ChangeAccount { id, .. } => {
            only_if(rights.may_change_account(id), || format!("change account {id:?}"))
        }
        Request::DeclareAsset { .. } => only_if(rights.may_declare_assets(), || "declare assets".to_owned()),
        Request::Announce(_) => Verdict::Denied(denial("ask for announcements; subscribe to topics instead")),
        Request::ReadAudit => only_if(rights.may_audit(), || "read the audit".to_owned()),
    }
}

/// The reply as `identity` may see it. A transfer or hold between others is answered as one that does not exist, the
/// rows of a collector name only those that the reader may know, and the figures of assets are those of whoever may
/// read all accounts.
pub fn shown(identity: &Identity, reply: Reply) -> Reply {
    let rights = identity.rights();
    match reply {
        Reply::Transfer { transfer, .. }
            if !rights.may_see_move(identity.name(), &transfer.id, &transfer.debit, &transfer.credit) =>
        {
            Reply::Refused(Refusal::TransferNotFound)
        }
        Reply::Hold { hold, .. } if !rights.may_see_move(identity.name(), &hold.id, &hold.debit, &hold.credit) => {
            Reply::Refused(Refusal::HoldNotFound)
        }
        Reply::History { mut rows, next, held, rows_read } => {
            hide_others(identity, &mut rows);
            Reply::History { rows, next, held, rows_read }
        }
        Reply::BalanceAt { found: BalanceAt::Known { last: Some(mut last), written_by, held }, rows_read } => {
            hide_others(identity, std::slice::from_mut(&mut *last));
            Reply::BalanceAt { found: BalanceAt::Known { last: Some(last), written_by, held }, rows_read }
        }
        Reply::HistoryPart { mut rows, written_by, is_last } => {
            hide_others(identity, &mut rows);
            Reply::HistoryPart { rows, written_by, is_last }
        }
        Reply::Assets(mut assets) if !rights.may_read_everything() => {
            assets.iter_mut().for_each(|asset| (asset.issued, asset.held) = (0, 0));
            Reply::Assets(assets)
        }
        reply => reply,
    }
}

/// Takes names out of the rows of moves that `reader` may not see by themselves. A viewer may read a collector, so it
/// sees what came in and when; who gave it, and what they wrote with it, is theirs.
pub fn hide_others(reader: &Identity, rows: &mut [HistoryRow]) {
    if matches!(reader.rights(), Rights::Service { .. }) {
        // A service that may read the account may see its moves.
        return;
    }
    for row in rows {
        let is_own = *row.id_space == *reader.id_space().name();
        if !is_own && !reader.rights().may_see_move(reader.name(), "", &row.debit, &row.credit) {
            (row.id, row.id_space, row.debit) = Default::default();
            (row.memo, row.user_data, row.code) = Default::default();
        }
    }
}

/// Why a request is not sent to the ledger although its caller may make such requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotFound {
    /// The refusal.
    pub refusal: Refusal,
    /// Of a batch, which is refused as a whole: the index and id of the first item that is refused for this.
    pub item: Option<(usize, Box<str>)>,
}

/// What to answer when `account`, one of [`Verdict::NeedsKinds`], does not exist, or is no collector.
pub fn not_found(request: &Request, account: &str) -> NotFound {
    let item = match request {
        Request::Transfers { batch, .. } if batch.len() > 1 => {
            let mut items = batch.iter().enumerate();
            items.find(|(_, item)| item.credit == account).map(|(index, item)| (index, item.id.into()))
        }
        Request::PlaceHolds(holds) | Request::PlaceLinkedHolds(holds) if holds.len() > 1 => {
            let mut items = holds.iter().enumerate();
            items.find(|(_, item)| *item.credit == *account).map(|(index, item)| (index, item.id.clone()))
        }
        _ => None,
    };
    let refusal = match request {
        Request::Transfers { .. } | Request::PlaceHolds(_) | Request::PlaceLinkedHolds(_) => {
            Refusal::CreditAccountNotFound
        }
        _ => Refusal::AccountNotFound,
    };
    NotFound { refusal, item }
}

fn check_moves<'a>(
    identity: &Identity,
    kinds: &mut AccountKinds,
    moves: impl Iterator<Item = (&'a str, &'a str)>,
) -> Verdict {
    let rights = identity.rights();
    let mut unknown: Vec<Box<str>> = Vec::new();
    for (debit, credit) in moves {
        if !rights.may_debit(debit) {
            return Verdict::Denied(denial(&format!("debit account {debit:?}")));
        }
        match rights.may_credit(credit, None) {
            Access::Allowed => continue,
            Access::Forbidden => return Verdict::Denied(denial(&format!("credit account {credit:?}"))),
            Access::IfCollector => {}
        }
        match rights.may_credit(credit, kinds.get(credit)) {
            Access::Allowed => {}
            Access::Forbidden => return Verdict::Denied(denial(&format!("credit account {credit:?}"))),
            Access::IfCollector if unknown.iter().any(|id| **id == *credit) => {}
            Access::IfCollector if unknown.len() == KIND_LOOKUPS_PER_REQUEST_MAX => {
                return Verdict::Denied(format!(
                    "a viewer's request may name at most {KIND_LOOKUPS_PER_REQUEST_MAX} different accounts to credit"
                ));
            }
            Access::IfCollector => unknown.push(credit.into()),
        }
    }
    if unknown.is_empty() { Verdict::Allowed } else { Verdict::NeedsKinds(unknown) }
}

fn only_if(allowed: bool, what: impl FnOnce() -> String) -> Verdict {
    if allowed { Verdict::Allowed } else { Verdict::Denied(denial(&what())) }
}

/// The words for whoever may not do `what`.
pub fn denial(what: &str) -> String {
    format!("this token may not {what}")
}
