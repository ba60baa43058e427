use tidegate_machines::ledger::{AccountKind, Label, Transfer, content_digest};

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

#[test]
fn an_endpoint_drives_a_router_like_any_client() {
    fn pending<C: Client>(client: &C) -> (usize, bool) {
        (client.pending(), client.has_room())
    }
    let (me, mut router) = (Address::new(0, 0), router());
    let (mut out, mut finished) = (Outgoing::new(), Finished::new());
    Client::start(&mut router, 7, Request::ReadAccount { id: "wallet".into() }.into(), &mut out, &mut finished);
    assert_eq!((pending(&router), out.len()), ((1, true), 1));
    let Some((_, Message::Call { ticket, shard, .. })) = out.pop() else { panic!("a shard is asked") };
    let failed = Message::Answer { ticket, shard, answer: Err(Unavailable::ShardFailed) };
    Client::deliver(&mut router, me, failed, &mut out, &mut finished);
    assert_eq!(std::mem::take(&mut finished), [(7, Reply::Unavailable(Unavailable::ShardFailed))]);

    // A stream waits for its reader; a reader that is gone ends it when its shards have answered.
    let stream = Request::StreamHistory { id: "wallet".into(), before: None, rows_max: None };
    Client::start(&mut router, 8, stream.into(), &mut out, &mut finished);
    assert_eq!((pending(&router), out.len()), ((1, true), 0));
    Client::more(&mut router, 8, &mut out, &mut finished);
    assert!(!out.is_empty());
    Client::cancel(&mut router, 8, &mut Vec::new());
    for (_, call) in out.drain(..) {
        let Message::Call { ticket, shard, .. } = call else { panic!("shards are asked") };
        let busy = Message::Answer { ticket, shard, answer: Err(Unavailable::Busy) };
        Client::deliver(&mut router, me, busy, &mut Outgoing::new(), &mut finished);
    }
    assert_eq!((pending(&router), &finished[..]), ((0, true), &[][..]));
    // So it is in a process without room.
    while Client::has_room(&router) {
        Client::start(&mut router, 9, Request::ListAssets.into(), &mut Outgoing::new(), &mut finished);
    }
    assert_eq!(pending(&router), (ENDPOINT_REQUESTS_MAX, false));
}

/// What waits at a shard is bounded by the texts that came with it.
#[test]
fn an_operation_is_weighed_by_its_texts() {
    let Request::Transfers { batch, .. } = transfers(10, "a memo") else { unreachable!("it is one") };
    let bytes = batch.text_bytes();
    assert!(bytes >= 10 * "idfromtoa memo".len(), "{bytes}");
    let selection = crate::operation::Selection::All;
    let operation =
        Operation::Transfers { batch: batch.into(), selection, linked: false, failed: false, facts: Vec::new() };
    assert_eq!(operation.text_bytes(), bytes);
    assert_eq!(Operation::ReadAudit.text_bytes(), 0);
}

#[test]
fn a_request_of_too_many_transfers_is_refused_at_once() {
    use tidegate_machines::ledger::TRANSFERS_PER_REQUEST_MAX;
    for (items, is_refused) in [(1, false), (TRANSFERS_PER_REQUEST_MAX, false), (TRANSFERS_PER_REQUEST_MAX + 1, true)] {
        let mut finished = Finished::new();
        router().start(0, transfers(items, ""), &mut Outgoing::new(), &mut finished);
        assert_eq!(finished.len(), usize::from(is_refused), "{items} items");
    }
}

#[test]
fn an_id_is_claimed_at_its_home_with_a_digest_of_its_content() {
    let of = |shard: u16, name: &str| {
        let mut ids = (0..).map(|number| format!("{name}-{number}"));
        ids.find(|id| shard_of(id, 2) == ShardIndex(shard)).expect("each shard is some id's home")
    };
    let (id, debit) = (of(1, "id"), of(0, "from"));
    let transfer = Transfer { id: &id, debit: &debit, credit: "to", amount: 1, memo: "", label: Label::default() };
    let batch = TransferBatch::copy_of(vec![transfer]);
    let mut out = Outgoing::new();
    router().start(7, Request::Transfers { linked: false, batch }, &mut out, &mut Finished::new());
    let Some((_, Message::Call { shard: ShardIndex(1), operation: Operation::ClaimIds(claims), .. })) = out.pop()
    else {
        panic!("its home is asked")
    };
    assert_eq!(claims, [(id.as_str().into(), ShardIndex(0), content_digest(&transfer))]);
}
