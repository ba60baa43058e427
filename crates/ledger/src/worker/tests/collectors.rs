//! A collector has a part on every shard: whoever reads it sees the sum, and what its home knows of it.

use std::collections::BTreeMap;

use tidegate_machines::ledger::{AccountStatus, AccountView, MetadataPatch};

use super::alone::{HERE, THERE, on};
use super::*;
use crate::message::ChangeRequest;

fn read(node: &mut TestWorker, id: &str) -> AccountView {
    match node.ask(Request::ReadAccount { id: id.into() }) {
        Reply::Account(account) => account,
        other => panic!("{other:?}"),
    }
}

fn listed(node: &mut TestWorker, prefix: &str, limit: u32) -> Vec<AccountView> {
    match node.ask(Request::ListAccounts { prefix: prefix.into(), after: None, limit }) {
        Reply::Accounts(accounts) => accounts,
        other => panic!("{other:?}"),
    }
}

/// A name for the collector and its metadata, set on its home.
fn named(node: &mut TestWorker, collector: &str) {
    let (metadata, mut patch) = (BTreeMap::from([("name".into(), Some("a candidate".into()))]), Vec::new());
    MetadataPatch::write(&metadata, &mut patch).expect("a patch");
    let change =
        ChangeRequest { status: Some(AccountStatus::Open), metadata: patch.into(), ..ChangeRequest::default() };
    let reply = node.ask(Request::ChangeAccount { id: collector.into(), change });
    assert!(matches!(reply, Reply::AccountChanged { changed: true, .. }), "{reply:?}");
}

#[test]
fn whoever_reads_or_lists_a_collector_sees_the_sum_of_its_parts_and_its_metadata() {
    for home in [HERE, THERE] {
        let collector = on(home, "candidate");
        let (mut node, [near, far]) = collector_of_two_shards(&collector);
        let vote = |id: &str, source: &String| (id.to_owned(), source.clone(), collector.clone());
        let votes = [vote("1", &near), vote("2", &near), vote("3", &near), vote("4", &far), vote("5", &far)];
        assert_eq!(node.ask(transfers(&votes)), Reply::Outcomes(vec![Outcome::Applied; 5]));
        named(&mut node, &collector);
        node.begin(Vec::new(), &mut Finished::new());

        let account = read(&mut node, &collector);
        assert_eq!((account.balance, account.credited, account.debited, account.held), (5, 5, 0, 0));
        let settings = account.settings.as_ref().expect("something was set");
        assert_eq!(settings.metadata.get("name").map(|name| &**name), Some("a candidate"));
        assert_eq!(listed(&mut node, "candidate", 10), [account], "it is listed once");
        let all: Vec<_> = listed(&mut node, "", 10).iter().map(|account| account.balance).collect();
        assert_eq!(all.iter().sum::<i64>(), 0, "double entry holds: {all:?}");
        assert_eq!(listed(&mut node, "", 2).len(), 2, "no more than were asked for");
    }
}

#[test]
fn a_collector_of_the_only_shard_is_read_there() {
    let mut node = TestWorker::open(1);
    node.ask(open("collector", AccountKind::Collector));
    let Reply::Account(account) = node.ask(Request::ReadAccount { id: "collector".into() }) else {
        panic!("it is open")
    };
    assert_eq!((&*account.id, account.balance), ("collector", 0));
}
