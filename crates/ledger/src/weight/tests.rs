use tidegate_machines::ledger::{AccountKind, Label, Outcome, Refusal};

use super::*;
use crate::message::{ChangeRequest, HoldRequest, OpenBatch, TransferBatch};

/// What a record takes beyond its texts, about.
const EACH: usize = RECORD_OVERHEAD_BYTES / 2;

fn batch(items: usize) -> TransferBatch {
    let label = Label { code: 1, user_data: "seven b" };
    let item = Transfer { id: "id", debit: "from", credit: "to", amount: 1, memo: "memo!", label };
    TransferBatch::copy_of(vec![item; items])
}

fn holds(items: usize) -> Vec<HoldRequest> {
    let hold = HoldRequest {
        id: "id".into(),
        debit: "from".into(),
        credit: "to".into(),
        amount: 1,
        expires_in_ms: 1,
        memo: "memo!".into(),
        code: 1,
        user_data: "seven b".into(),
        open_holds_max: 1,
    };
    vec![hold; items]
}

#[test]
fn what_a_quota_counts_are_the_things_asked_for_and_the_texts_that_are_kept() {
    let transfers = |items| Request::Transfers { linked: false, batch: batch(items) };
    let opened = OpenBatch::copy_of([("one", "credit", AccountKind::Wallet), ("three", "credit", AccountKind::Wallet)]);
    let change = ChangeRequest { metadata: (*b"ten bytes!").into(), ..ChangeRequest::default() };
    // Accounts are kept as numbers: of a transfer or a hold 2 + 5 + 7 bytes of text are.
    for (request, items, texts) in [
        (transfers(0), 0, 0),
        (transfers(1), 1, 14),
        (transfers(3), 3, 3 * 14),
        (Request::OpenAccounts(opened), 2, 8),
        (Request::PlaceHolds(holds(3)), 3, 3 * 14),
        (Request::PlaceLinkedHolds(holds(2)), 2, 2 * 14),
        (Request::PostHolds(vec![("one".into(), None), ("three".into(), Some(1))]), 2, 8),
        (Request::VoidHolds(vec!["one".into(), "three".into(), "x".into()]), 3, 9),
        (Request::ChangeAccount { id: "four".into(), change }, 1, 14),
        (Request::DeclareAsset { asset: "EUR".into(), decimals: 2 }, 1, 3),
        (Request::OpenAccount { id: "four".into(), asset: "EUR".into(), kind: AccountKind::Wallet }, 1, 7),
    ] {
        assert_eq!((request.items(), request.journal_bytes()), (items, texts + items * EACH), "{request:?}");
    }
}

#[test]
fn what_only_reads_takes_nothing_of_the_journal() {
    for request in [Request::ListAssets, Request::ReadAudit, Request::ReadAccount { id: "wallet".into() }] {
        assert_eq!((request.items(), request.journal_bytes()), (1, 0), "{request:?}");
    }
}

#[test]
fn refusals_are_counted_item_by_item() {
    let refused = Outcome::Refused(Refusal::IdReused);
    for (reply, refusals) in [
        (Reply::Outcomes(vec![Outcome::Applied, refused, Outcome::Duplicate, refused]), 2),
        (Reply::Outcomes(vec![Outcome::Applied]), 0),
        (Reply::Refused(Refusal::AccountNotFound), 1),
        (Reply::Announced, 0),
    ] {
        assert_eq!(reply.refusals(), refusals, "{reply:?}");
    }
}
