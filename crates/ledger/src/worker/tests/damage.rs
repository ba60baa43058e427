//! Damage that is met while serving: who needs it is refused and told where it is, everybody else is served, and it
//! heals when the file is put right.

use tidegate_machines::DamagedPlace;
use tidegate_machines::ledger::HistoryRow;

use super::*;

/// A node whose memory knows no record that is durable, with one sale for each of `ids`.
fn cold(ids: &[&str]) -> TestWorker {
    let mut node = TestWorker::with(TestWorker::with_a_durable_vote().disk, 1, COLD);
    ids.iter().for_each(|id| assert_eq!(decide(&mut node, id), Outcome::Applied));
    node
}

fn outcomes(node: &mut TestWorker, request: Request) -> Vec<Outcome> {
    match node.ask(request) {
        Reply::Outcomes(outcomes) => outcomes,
        other => panic!("{other:?}"),
    }
}

fn decide(node: &mut TestWorker, id: &str) -> Outcome {
    outcomes(node, sale(id))[0]
}

#[track_caller]
fn damage(outcome: Outcome) -> &'static DamagedPlace {
    match outcome {
        Outcome::Refused(Refusal::Damaged(place)) => place,
        other => panic!("{other:?}"),
    }
}

fn ids(rows: &[HistoryRow]) -> Vec<&str> {
    rows.iter().map(|row| &*row.id).collect()
}

#[test]
fn a_repeated_id_whose_record_is_damaged_is_refused_and_nobody_else_is() {
    let mut node = cold(&["a", "b", "c"]);
    node.rot("memo of b");
    let place = damage(decide(&mut node, "b"));
    assert!(place.file.starts_with("journal/ledger-0/segment-") && place.offset > 0, "{place:?}");
    // Two accounts, the first vote, and `a` are before it.
    assert!(place.lost.starts_with("records 5 to 5 "), "{place:?}");
    assert_eq!([decide(&mut node, "a"), decide(&mut node, "c")], [Outcome::Duplicate; 2]);
    assert_eq!(
        outcomes(&mut node, transfers(&[item("c"), item("b"), item("new")]))[1..],
        [Outcome::Refused(Refusal::Damaged(place)), Outcome::Applied]
    );
    assert!(node.worker.failure().is_none());
    assert_eq!(node.worker.shards()[0].service().damages().count(), 1, "it is told once");

    node.heal();
    assert_eq!(decide(&mut node, "b"), Outcome::Duplicate, "once the file is put right, it is read again");
}

fn item(id: &str) -> (String, String, String) {
    (id.into(), "source".into(), "wallet".into())
}

/// What is answered to who asks what became of `id`, as a transfer and as a hold.
fn read(node: &mut TestWorker, id: &str) -> [Reply; 2] {
    [node.ask(Request::ReadTransfer { id: id.into() }), node.ask(Request::ReadHold { id: id.into() })]
}

#[test]
fn who_reads_a_transfer_or_a_hold_that_is_damaged_is_told_and_nobody_else() {
    let mut node = cold(&["a", "b"]);
    assert_eq!(outcomes(&mut node, Request::PlaceHolds(vec![hold("h", "reserved by h")])), [Outcome::Applied]);
    node.rot("memo of b");
    node.rot("reserved by h");
    for id in ["b", "h"] {
        let place = damage(decide(&mut node, id));
        assert_eq!(read(&mut node, id), [(); 2].map(|()| Reply::Refused(Refusal::Damaged(place))), "{id}");
    }
    assert!(matches!(&read(&mut node, "a")[0], Reply::Transfer { transfer, .. } if &*transfer.id == "a"));
    assert_eq!(read(&mut node, "new")[0], Reply::Refused(Refusal::TransferNotFound));
    assert!(node.worker.failure().is_none() && node.worker.is_idle());
    node.heal();
    assert!(matches!(read(&mut node, "h"), [_, Reply::Hold { .. }]));
}

#[test]
fn of_two_damaged_records_each_is_named_for_itself() {
    let mut node = cold(&["a", "b", "c", "d"]);
    node.rot("memo of b");
    node.rot("memo of d");
    node.rot("memo of c");
    for (id, lost) in [("d", "records 7 to 7 "), ("c", "records 6 to 6 "), ("b", "records 5 to 5 ")] {
        let place = damage(decide(&mut node, id));
        assert!(place.lost.starts_with(lost), "{id}: {place:?}");
    }
    assert_eq!(decide(&mut node, "a"), Outcome::Duplicate);
}

#[test]
fn a_sector_that_cannot_be_read_refuses_who_needs_it_until_it_can() {
    let mut node = cold(&["a"]);
    let segment =
        node.disk.files().into_iter().map(|(path, _)| path).find(|path| path.to_string_lossy().contains("/segment-"));
    let segment = segment.expect("a log has a segment");
    node.disk.fail_reads_of(Some(&segment));
    let place = damage(decide(&mut node, "a"));
    assert!(place.what.contains("input/output error") && place.file.contains("/segment-"), "{place:?}");
    assert!(matches!(node.ask(history()), Reply::Refused(Refusal::Damaged(_))));
    assert_eq!(decide(&mut node, "new"), Outcome::Applied);
    node.disk.fail_reads_of(None);
    assert_eq!(decide(&mut node, "a"), Outcome::Duplicate);
    assert!(node.worker.failure().is_none());
}

#[test]
fn a_history_is_given_up_to_the_damage() {
    let mut node = cold(&["a", "b", "c"]);
    node.rot("memo of a");
    let page = |limit| Request::ReadHistory { id: "wallet".into(), before: None, limit, times: TimeSpan::ALL };
    let Reply::Refused(refusal) = node.ask(page(10)) else { panic!("a page is whole or refused") };
    let place = damage(Outcome::Refused(refusal));
    let Reply::History { rows, next: Some(before), .. } = node.ask(page(2)) else { panic!("a smaller page is whole") };
    assert_eq!(ids(&rows), ["c", "b"]);
    let behind = Request::ReadHistory { id: "wallet".into(), before: Some(before), limit: 1, times: TimeSpan::ALL };
    assert_eq!(node.ask(behind), Reply::Refused(Refusal::Damaged(place)), "not a cursor that is wrong");

    let (mut out, mut finished) = (Outgoing::new(), Finished::new());
    let stream = Request::StreamHistory { id: "wallet".into(), before: None, rows_max: None };
    node.worker.start(7, stream, &mut out, &mut finished);
    for _ in 0..2 {
        node.worker.router.more(7, &mut node.worker.made);
        (0..64).for_each(|_| node.turn(&mut finished));
    }
    let [(7, Reply::HistoryPart { rows, is_last: false, .. }), (7, end)] = &finished[..] else {
        panic!("{finished:?}")
    };
    assert_eq!((ids(rows), end), (vec!["c", "b"], &Reply::Refused(Refusal::Damaged(place))));
    assert!(node.worker.failure().is_none() && node.worker.is_idle());
}

#[test]
fn nothing_is_journaled_for_a_linked_group_that_meets_damage() {
    let mut node = cold(&["a"]);
    node.rot("memo of a");
    let before = node.worker.shards()[0].appended();
    let Request::Transfers { batch, .. } = transfers(&[item("first"), item("a"), item("last")]) else { unreachable!() };
    let refused = outcomes(&mut node, Request::Transfers { linked: true, batch });
    assert_eq!(refused, vec![Outcome::Refused(Refusal::Damaged(damage(refused[0]))); 3]);
    assert_eq!(node.worker.shards()[0].appended(), before);
    assert_eq!(decide(&mut node, "first"), Outcome::Applied, "no refusal is remembered");
}

fn hold(id: &str, memo: &str) -> HoldRequest {
    HoldRequest { memo: memo.into(), ..small_hold(id) }
}

#[test]
fn a_hold_whose_record_is_damaged_stays_and_keeps_no_other_from_expiring() {
    let mut node = cold(&[]);
    let holds: Vec<_> = ["h1", "h2", "h3"].iter().map(|id| hold(id, &format!("reserved by {id}"))).collect();
    assert_eq!(outcomes(&mut node, Request::PlaceHolds(holds)), [Outcome::Applied; 3]);
    node.rot("reserved by h1");
    let post = outcomes(&mut node, Request::PostHolds(vec![("h1".into(), None)]));
    let void = outcomes(&mut node, Request::VoidHolds(vec!["h1".into(), "h2".into()]));
    let again = outcomes(&mut node, Request::PlaceHolds(vec![hold("h1", "other")]));
    damage(post[0]);
    assert_eq!((void[0], again[0], void[1]), (post[0], post[0], Outcome::Applied));
    // A list that shows it is refused, as its memo is lost; one that begins behind it is not.
    let list =
        |node: &mut TestWorker, after| node.ask(Request::ListHolds { account: "source".into(), after, limit: 10 });
    let Outcome::Refused(damaged) = post[0] else { panic!("{post:?}") };
    assert_eq!(list(&mut node, None), Reply::Refused(damaged));
    let Reply::Hold { hold: h3, .. } = node.ask(Request::ReadHold { id: "h3".into() }) else { panic!("it is open") };
    let Reply::Holds { holds, .. } = list(&mut node, Some(h3.at.0 - 1)) else { panic!("it is sound") };
    assert_eq!((holds.len(), &*holds[0].memo), (1, "reserved by h3"));

    let open = |node: &TestWorker| {
        let shard = &node.worker.shards()[0];
        (shard.state_ahead().open_holds(), shard.service().holds_stuck(), shard.failure().is_some())
    };
    node.now = TimeMs(START.0 + 1_000);
    node.begin(Vec::new(), &mut Finished::new());
    assert_eq!(open(&node), (1, 1, false), "h3 has expired, h1 stays and is counted");
    let idle = node.worker.shards()[0].facts();
    node.begin(Vec::new(), &mut Finished::new());
    assert_eq!(node.worker.shards()[0].facts(), idle, "it is not tried again and again");
    node.heal();
    node.now = TimeMs(START.0 + 1_000 + crate::limits::DAMAGE_RETRY_MS);
    node.begin(Vec::new(), &mut Finished::new());
    assert_eq!(open(&node), (0, 0, false), "put right, it expires");
}

/// A node of two shards: the id of a source on the first, a wallet on the second, and ids whose homes are so.
fn two_shards() -> (TestWorker, String, String) {
    let of = |shard: u16, name: &str| {
        let mut ids = (0..).map(|number| format!("{name}-{number}"));
        ids.find(|id| shard_of(id, 2) == ShardIndex(shard)).expect("each shard is some id's home")
    };
    let (source, wallet) = (of(0, "source"), of(1, "wallet"));
    let mut node = TestWorker::with(TestWorker::open(2).disk, 2, COLD);
    node.ask_all(vec![open(&source, AccountKind::Source), open(&wallet, AccountKind::Wallet)]);
    (node, source, wallet)
}

#[test]
fn a_credit_whose_debit_is_damaged_is_neither_lost_nor_passed_over() {
    let (mut node, source, wallet) = two_shards();
    let ids: Vec<_> =
        (0..).map(|number| format!("t-{number:03}")).filter(|id| shard_of(id, 2) == ShardIndex(0)).take(4).collect();
    let sell = |ids: &[String]| {
        transfers(&ids.iter().map(|id| (id.clone(), source.clone(), wallet.clone())).collect::<Vec<_>>())
    };
    assert_eq!(
        outcomes(&mut node, sell(&ids[..1])),
        [Outcome::Applied],
        "now the account is known at the source's shard"
    );
    node.begin(Vec::new(), &mut Finished::new());
    // While the other shard does not listen, its credits are lost on the way; then they are read from the disk again.
    let deaf = node.worker.shards.pop().expect("there are two");
    assert_eq!(outcomes(&mut node, sell(&ids[1..])), [Outcome::Applied; 3]);
    node.begin(Vec::new(), &mut Finished::new());
    node.rot(&format!("memo of {}", ids[2]));
    node.worker.shards.push(deaf);

    let wait = |node: &mut TestWorker| {
        for _ in 0..40 {
            node.now.0 += 600;
            node.begin(Vec::new(), &mut Finished::new());
        }
        let balance = node.worker.shards()[1].state_ahead().account(&wallet).map(|view| view.balance);
        (balance, node.worker.shards()[0].service().credits_stuck(), node.worker.failure().is_some())
    };
    assert_eq!(wait(&mut node), (Some(2), 1, false), "the one before it has come; it and those behind it wait");
    let more = format!("{}x", "more-");
    assert!(matches!(outcomes(&mut node, sell(&[more]))[0], Outcome::Applied), "debits go on");
    node.heal();
    assert_eq!(wait(&mut node), (Some(5), 0, false), "put right, all have come, once");
}

#[test]
fn a_claim_that_is_damaged_refuses_its_id_alone() {
    let (mut node, source, wallet) = two_shards();
    // Claimed at the home of the id, decided at the source's shard.
    let claimed = (0..).map(|number| format!("claimed-{number}")).find(|id| shard_of(id, 2) == ShardIndex(1));
    let claimed = claimed.expect("each shard is some id's home");
    let sell = |ids: &[&str]| {
        transfers(&ids.iter().map(|id| (id.to_string(), source.clone(), wallet.clone())).collect::<Vec<_>>())
    };
    assert_eq!(outcomes(&mut node, sell(&[&claimed])), [Outcome::Applied]);
    node.rot_in("/data/journal/ledger-1", &claimed);
    let Request::Transfers { batch, .. } = sell(&[&claimed, "other"]) else { unreachable!() };
    let one_by_one = outcomes(&mut node, Request::Transfers { linked: false, batch: batch.clone() });
    damage(one_by_one[0]);
    assert_eq!(one_by_one[1], Outcome::Applied);
    let linked = outcomes(&mut node, sell_linked(&source, &wallet, &[&claimed, "fresh"]));
    assert_eq!(linked, [one_by_one[0]; 2]);
    assert_eq!(outcomes(&mut node, sell(&["fresh"])), [Outcome::Applied], "no refusal is remembered");
    // To post a hold, its home is asked where it is.
    let post = outcomes(&mut node, Request::PostHolds(vec![(claimed.as_str().into(), None)]));
    assert_eq!(post, [one_by_one[0]]);
    let refused = Reply::Refused(Refusal::Damaged(damage(one_by_one[0])));
    assert_eq!(read(&mut node, &claimed), [refused.clone(), refused]);
    assert!(node.worker.failure().is_none());
}

#[test]
fn a_linked_group_with_an_id_that_is_refused_and_one_that_is_damaged_is_damaged_as_a_whole() {
    let (mut node, source, wallet) = two_shards();
    let of = |shard: u16, name: &str| {
        let mut ids = (0..).map(|number| format!("{name}-{number}"));
        ids.find(|id| shard_of(id, 2) == ShardIndex(shard)).expect("each shard is some id's home")
    };
    // The home of the one, which is not the shard that decides, knows that it stands for something else.
    let (reused, known) = (of(1, "reused"), of(0, "known"));
    for (id, wallet) in [(&reused, of(1, "another-wallet")), (&known, wallet.clone())] {
        node.ask(open(&wallet, AccountKind::Wallet));
        let sale = transfers(&[(id.clone(), source.clone(), wallet)]);
        assert_eq!(outcomes(&mut node, sale), [Outcome::Applied]);
    }
    node.rot_in("/data/journal/ledger-0", &format!("memo of {known}"));
    let group = || sell_linked(&source, &wallet, &[&reused, &known]);
    let told = outcomes(&mut node, group());
    damage(told[0]);
    assert_eq!(told, [told[0]; 2], "nothing is journaled for either, so both are asked again");
    node.heal();
    let expected = [Outcome::Refused(Refusal::IdReused), Outcome::Duplicate];
    assert_eq!(outcomes(&mut node, group()), expected);
}

fn sell_linked(source: &str, wallet: &str, ids: &[&str]) -> Request {
    let items: Vec<_> = ids.iter().map(|id| (id.to_string(), source.into(), wallet.into())).collect();
    let Request::Transfers { batch, .. } = transfers(&items) else { unreachable!() };
    Request::Transfers { linked: true, batch }
}

#[test]
fn a_damaged_page_of_an_id_run_refuses_only_the_ids_that_need_it() {
    let mut node = cold(&[]);
    let names: Vec<String> = (0..5_000).map(|number| format!("id-{number}")).collect();
    for batch in names.chunks(50) {
        outcomes(&mut node, transfers(&batch.iter().map(|id| item(id)).collect::<Vec<_>>()));
    }
    node.begin(Vec::new(), &mut Finished::new());
    let run = node.disk.files().into_iter().find(|(path, _)| path.extension().is_some_and(|end| end == "run"));
    let (path, len) = run.expect("a table was full");
    let pages = len / 4_096 - 1;
    assert!(pages > 3, "{pages}");
    assert!(node.disk.flip_bit(&path, 3 * 4_096 + 100, 1));

    let again = |node: &mut TestWorker| {
        let batches = names.chunks(50).map(|ids| transfers(&ids.iter().map(|id| item(id)).collect::<Vec<_>>()));
        batches.flat_map(|batch| outcomes(node, batch)).collect::<Vec<_>>()
    };
    let outcomes = again(&mut node);
    let refused: Vec<_> = outcomes.iter().filter(|outcome| **outcome != Outcome::Duplicate).collect();
    assert!(!refused.is_empty() && refused.len() <= 2 * 255, "{} of {}", refused.len(), outcomes.len());
    let place = damage(*refused[0]);
    assert!(place.file.ends_with(".run") && place.offset == 3 * 4_096, "{place:?}");
    assert_eq!(node.worker.shards()[0].service().ids_damage(), [place]);
    let of_it = outcomes.iter().position(|outcome| *outcome != Outcome::Duplicate).expect("one is refused");
    assert_eq!(read(&mut node, &names[of_it])[0], Reply::Refused(Refusal::Damaged(place)));
    assert!(node.worker.failure().is_none());
    assert_eq!(decide(&mut node, "new"), Outcome::Applied);

    assert!(node.disk.flip_bit(&path, 3 * 4_096 + 100, 1));
    assert!(again(&mut node).iter().all(|outcome| *outcome == Outcome::Duplicate), "none was decided twice");
}
