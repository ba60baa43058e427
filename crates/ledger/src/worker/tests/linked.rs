//! Linked groups and the filter of the id index: what is inserted can make it say that a new id may be in a run.

use super::*;

/// A worker of one shard whose filter is small and whose runs are many.
fn with_a_small_filter() -> TestWorker {
    let disk = FakeDisk::new(1);
    logs(&disk).create(log_id(0)).expect("the disk is new");
    let ids = IdsOptions { freeze_at: 64, filter_ids_first: 64, filter_bytes_max: 4096, ..ids_options() };
    let (shard, replayed) = open_shard_with(&disk, (0, 1), SMALL, ids);
    let me = Address::new(0, 0);
    let addresses = ShardAddresses::new([me]);
    let worker = Worker::new(me, addresses, me, CursorKey([1, 2]), vec![shard]);
    TestWorker { disk, worker, now: START, held: None, replayed, rotten: Vec::new() }
}

/// A linked group from one account.
fn group(number: usize, debit: &str) -> Request {
    let items: Vec<_> = (0..24).map(|n| (format!("group {number}, {n}"), debit.into(), "wallet".into())).collect();
    let Request::Transfers { batch, .. } = transfers(&items) else { unreachable!("these are transfers") };
    Request::Transfers { linked: true, batch }
}

#[test]
fn a_linked_group_is_done_whole_or_not_at_all_whatever_the_filter_says_in_its_middle() {
    let mut node = with_a_small_filter();
    node.ask_all(vec![
        open("source", AccountKind::Source),
        open("wallet", AccountKind::Wallet),
        open("empty", AccountKind::Wallet),
    ]);
    for number in 0..400 {
        assert_eq!(node.ask(group(2 * number, "source")), Reply::Outcomes(vec![Outcome::Applied; 24]), "{number}");
        let Reply::Outcomes(outcomes) = node.ask(group(2 * number + 1, "empty")) else { panic!("it is answered") };
        let refused: Vec<_> = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Refused(_))).collect();
        assert_eq!(refused.len(), 24, "none of them was asked before, {number}: {outcomes:?}");
    }
    let facts = node.worker.shards()[0].service().ids().facts();
    assert!(facts.false_positives > 0, "the filter was wrong now and then: {facts:?}");
}
