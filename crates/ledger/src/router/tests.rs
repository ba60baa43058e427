use tidegate_machines::ledger::{Label, Transfer};

use super::*;
use crate::message::{ChangeRequest, HoldRequest, OpenBatch, TransferBatch};

fn router() -> Router {
    let me = Address::new(0, 0);
    Router::new(me, ShardAddresses::new([me, me]), CursorKey([1, 2]))
}

fn transfers(items: usize, memo: &str) -> Request {
    let item = Transfer { id: "id", debit: "from", credit: "to", amount: 1, memo, label: Label::default() };
    Request::Transfers { linked: false, batch: TransferBatch::copy_of(vec![item; items]) }
}

/// How many requests of a kind are started before there is no room.
fn started(request: &Request) -> usize {
    let (mut router, mut started) = (router(), 0);
    while router.has_room() {
        router.start(started as u64, request.clone(), &mut Outgoing::new(), &mut Finished::new());
        started += 1;
        assert_eq!(router.pending(), started, "no shard has answered");
    }
    started
}

#[test]
fn requests_in_progress_are_bounded_by_their_number_and_their_memory() {
    assert_eq!(started(&Request::ReadAccount { id: "wallet".into() }), ENDPOINT_REQUESTS_MAX);
    let (large, most) = (transfers(1_000, &"x".repeat(200)), ENDPOINT_REQUEST_BYTES_MAX / (1_000 * 200) + 1);
    let started = started(&large);
    assert!((most / 2..=most).contains(&started), "{started} of {most}");
}

/// About: a figure that is wrong by more lets clients fill the memory, or turns them away from an idle server.
#[test]
fn a_request_is_weighed_by_what_it_holds() {
    const ITEMS: usize = 1_000;
    let hold = HoldRequest {
        id: "hold".into(),
        debit: "from".into(),
        credit: "to".into(),
        amount: 1,
        expires_in_ms: 1,
        memo: "".into(),
        code: 0,
        user_data: "".into(),
        open_holds_max: 1,
    };
    let change = ChangeRequest { metadata: vec![b'x'; ITEMS].into(), ..ChangeRequest::default() };
    let (least, most) = (ITEMS * 64, ITEMS * 64 * 8);
    for (request, least, most) in [
        (transfers(ITEMS, ""), least, most),
        (Request::OpenAccounts(OpenBatch::copy_of(vec![("id", "credit", AccountKind::Wallet); ITEMS])), least, most),
        (Request::PlaceHolds(vec![hold.clone(); ITEMS]), least, most),
        (Request::PlaceLinkedHolds(vec![hold; ITEMS]), least, most),
        (Request::PostHolds(vec![("hold".into(), None); ITEMS]), least, most),
        (Request::VoidHolds(vec!["hold".into(); ITEMS]), least, most),
        (Request::ChangeAccount { id: "wallet".into(), change }, ITEMS + 128, ITEMS + 512),
        (Request::ReadAccount { id: "wallet".into() }, 128, 512),
    ] {
        assert!((least..=most).contains(&request.bytes()), "{}: {least} to {most}", request.bytes());
    }
}

#[test]
fn a_router_knows_how_many_shards_there_are() {
    assert_eq!(router().shard_count(), 2);
}
