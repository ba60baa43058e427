//! Checks whether a caller may make a request to the ledger. All doors use this one check.
//!
//! A viewer's rights depend on the kind of the account that is credited or read, which only the ledger knows. The door
//! then reads those accounts and enters the collectors into [`AccountKinds`]. If one is no collector or does not exist,
//! the door answers with [`not_found`] and does not send the request to the ledger: whether others have an account of
//! this id is nothing that a viewer may learn. Else it checks again.

use tidegate_ledger::message::Request;
use tidegate_machines::ledger::Refusal;

use super::identity::{Access, Identity};
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
        Request::PlaceHolds(holds) => {
            check_moves(identity, kinds, holds.iter().map(|hold| (&*hold.debit, &*hold.credit)))
        }
        Request::PostHolds(_) => only_if(rights.may_settle_holds(), || "post holds".to_owned()),
        Request::VoidHolds(_) => only_if(rights.may_settle_holds(), || "void holds".to_owned()),
        Request::ReadAccount { id } | Request::ReadHistory { id, .. } | Request::StreamHistory { id, .. } => {
            let kind = kinds.get(id);
            match rights.may_read(id, kind) {
                Access::Allowed => Verdict::Allowed,
                Access::Forbidden => Verdict::Denied(denial(&format!("read account {id:?}"))),
                Access::IfCollector => Verdict::NeedsKinds(vec![id.clone()]),
            }
        }
        // The door filters what it lists by `Rights::may_see`.
        Request::ListAccounts { .. } => Verdict::Allowed,
        Request::Announce(_) => Verdict::Denied(denial("ask for announcements; subscribe to topics instead")),
        Request::ReadAudit => only_if(rights.may_audit(), || "read the audit".to_owned()),
    }
}

/// What to answer when an account named by [`Verdict::NeedsKinds`] does not exist, or is no collector.
pub fn not_found(request: &Request) -> Refusal {
    match request {
        Request::Transfers { .. } | Request::PlaceHolds(_) => Refusal::CreditAccountNotFound,
        _ => Refusal::AccountNotFound,
    }
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

fn denial(what: &str) -> String {
    format!("this token may not {what}")
}
