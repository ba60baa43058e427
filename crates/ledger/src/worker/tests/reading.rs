//! What a shard says of itself: pages and whether there are more, accounts that are its own, counts, weights.

use tidegate_machines::RecordPosition;

use super::alone::{Alone, HERE, THERE, on};
use super::*;
use crate::message::OpenBatch;
use crate::operation::{Answer, Operation, Selection};
use crate::service::LedgerFacts;

/// A shard whose source has so many open holds for an account elsewhere.
fn with_holds(count: usize) -> Alone {
    let mut alone = Alone::open();
    alone.owing(1);
    let hold = |n: usize| HoldRequest {
        debit: on(HERE, "source").into(),
        credit: on(THERE, "wallet").into(),
        amount: 1,
        expires_in_ms: 1_000 + n as u64,
        ..small_hold(&format!("h{n}"))
    };
    let holds: Vec<HoldRequest> = (0..count).map(hold).collect();
    let place = Operation::PlaceHolds { holds: holds.into(), selection: Selection::All, facts: Vec::new() };
    let outcomes = vec![Outcome::Applied; count];
    assert_eq!(alone.answer(place), Answer::Outcomes { outcomes, need_credit: Vec::new() });
    alone
}

#[test]
fn a_page_of_holds_says_whether_there_are_more() {
    let mut alone = with_holds(3);
    for (limit, given, is_more) in [(2, 2, true), (3, 3, false), (4, 3, false)] {
        let list = Operation::ListHolds { account: on(HERE, "source").into(), after: RecordPosition::NONE, limit };
        let Answer::Holds { holds, more } = alone.answer(list) else { panic!("the account is there") };
        assert_eq!((holds.len(), more), (given, is_more), "a client's page of {limit}");
        let page = Operation::ReadOpenHolds { after: None, count: limit };
        let Answer::OpenHolds { holds, more, .. } = alone.answer(page) else { panic!("an auditor is answered") };
        assert_eq!((holds.len(), more), (given, is_more), "an auditor's page of {limit}");
    }
}

#[test]
fn figures_are_given_of_all_slots_and_accounts_elsewhere_are_nobodys_here() {
    let mut alone = with_holds(1);
    // The source, and what is known of the wallet elsewhere.
    for (first, count, given, is_more) in [(0, 1, 1, true), (0, 2, 1, false), (1, 1, 0, false), (0, 9, 1, false)] {
        let asked = Operation::ReadFigures { first, count };
        let Answer::Figures { figures, more, .. } = alone.answer(asked) else { panic!("an auditor is answered") };
        assert_eq!((figures.len(), more), (given, is_more), "{count} from {first} on");
    }
    let read = |id: String| Operation::ReadAccount { id: id.into() };
    let Answer::Account(Some(source)) = alone.answer(read(on(HERE, "source"))) else { panic!("it is here") };
    assert_eq!((source.balance, source.held), (-1, 1));
    assert_eq!(alone.answer(read(on(THERE, "wallet"))), Answer::Account(None));
}

#[test]
fn what_was_decided_is_counted_by_its_outcome() {
    let mut alone = Alone::open();
    alone.owing(2);
    let (source, wallet) = (on(HERE, "source"), on(THERE, "wallet"));
    let before = alone.shard.service().facts();
    let items = ["t0", "t1", "new"].map(|id| (id.to_string(), source.clone(), wallet.clone()));
    let mut ask = |items: &[(String, String, String)]| {
        let Request::Transfers { batch, .. } = transfers(items) else { unreachable!() };
        let (batch, selection, facts) = (batch.into(), Selection::All, Vec::new());
        alone.answer(Operation::Transfers { batch, selection, linked: false, failed: false, facts })
    };
    ask(&items);
    // Another request under a known id, twice.
    let reused = [("t0".to_string(), source.clone(), on(HERE, "nobody"))];
    ask(&reused);
    ask(&reused);
    let after = LedgerFacts { applied: before.applied + 1, duplicates: 2, refused: 2 };
    assert_eq!((before.duplicates, before.refused, alone.shard.service().facts()), (0, 0, after));
    let refusals: Vec<_> = alone.shard.service().refusals().iter().map(|(code, count)| (*code, *count)).collect();
    assert_eq!(refusals, [("id_reused", 2)]);
}

#[test]
fn a_call_weighs_what_its_texts_do() {
    let texts = ["a".repeat(100), "b".repeat(50)];
    let batch = OpenBatch::copy_of(texts.iter().map(|id| (&**id, "credit", AccountKind::Wallet)));
    let bytes = batch.text_bytes();
    assert!(bytes >= 150);
    let open = Operation::OpenAccounts { batch: batch.into(), selection: Selection::All };
    assert_eq!(TestService::weight(&open), size_of::<Operation>() + bytes);
    assert_eq!(TestService::weight(&Operation::ReadAssets), size_of::<Operation>());
}

#[test]
fn a_worker_says_whether_it_has_work_and_gives_its_logs_back() {
    let mut node = TestWorker::open(2);
    let (mut out, mut finished) = (Outgoing::new(), Finished::new());
    assert!(node.worker.is_idle() && node.worker.has_room() && !node.worker.has_news());
    node.worker.start(0, open("source", AccountKind::Source), &mut out, &mut finished);
    assert!(!node.worker.is_idle(), "a request is in progress");
    assert!(node.worker.step(node.now, &mut out, &mut finished), "it was decided");
    let mut had_news = false;
    for _ in 0..64 {
        node.worker.shards_mut().iter_mut().for_each(|shard| drop(shard.log_mut().step()));
        let is_durable = node.worker.has_news();
        let worked = node.worker.step(node.now, &mut out, &mut finished);
        assert!(worked || !is_durable, "what became durable is answered");
        had_news |= is_durable;
    }
    assert!(had_news && finished.len() == 1);
    assert!(node.worker.is_idle() && !node.worker.has_news());
    assert!(!node.worker.step(node.now, &mut out, &mut finished), "there is nothing to do");
    for _ in 0..100_000 {
        if !node.worker.has_room() {
            break;
        }
        node.worker.start(1, Request::ReadAccount { id: "source".into() }, &mut out, &mut finished);
    }
    assert!(!node.worker.has_room() && node.worker.pending() > 1_000, "{}", node.worker.pending());
    assert_eq!(node.worker.into_logs().len(), 2);
}

#[test]
fn the_first_page_of_a_history_says_what_is_held() {
    let mut node = TestWorker::open(2);
    node.ask_all(vec![open("source", AccountKind::Source), open("wallet", AccountKind::Wallet)]);
    let item =
        Transfer { id: "one", debit: "source", credit: "wallet", amount: 9, memo: "", label: Default::default() };
    let batch = TransferBatch::copy_of([item]);
    assert_eq!(node.ask(Request::Transfers { linked: false, batch }), Reply::Outcomes(vec![Outcome::Applied]));
    node.begin(Vec::new(), &mut Finished::new());
    let hold = HoldRequest {
        debit: "wallet".into(),
        credit: "source".into(),
        amount: 4,
        expires_in_ms: 1_000_000,
        ..small_hold("held")
    };
    assert_eq!(node.ask(Request::PlaceHolds(vec![hold])), Reply::Outcomes(vec![Outcome::Applied]));
    let read = Request::ReadHistory { id: "wallet".into(), before: None, limit: 10, times: TimeSpan::ALL };
    let Reply::History { held, .. } = node.ask(read) else { panic!("the account is open") };
    assert_eq!(held, Some(4));
}
