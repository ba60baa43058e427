//! What is read of holds, accounts and settings.

use super::cluster::Cluster;
use super::node::Node;
use super::shards::at_home_on;
use crate::ledger::limits::OUTBOUND_PENDING_MAX;
use crate::ledger::{
    AccountChange, AccountKind, AccountSlot, AccountStatus, Command, Guess, Hold, HoldState, Label, Ledger, Outcome,
    Transfer,
};
use crate::machine::tests::nth;
use crate::{Amount, Machine, RecordPosition, ShardIndex};

/// A wallet with 10, of which 4 are held for 1,000 ms under `h`.
fn holding() -> Node {
    let mut node = Node::new(0, 1);
    for (id, kind) in [("shop", AccountKind::Source), ("a", AccountKind::Wallet), ("b", AccountKind::Wallet)] {
        node.outcome(Command::OpenAccount { id, asset: "credit", kind });
    }
    let transfer = Transfer { id: "t", debit: "shop", credit: "a", amount: 10, memo: "", label: Label::NONE };
    assert_eq!(
        node.outcome(Command::Transfer { transfer, credit_missing: false, guess: Guess::NONE }),
        Outcome::Applied
    );
    let (id, debit, credit, memo) = ("h", "a", "b", "seat");
    let hold = Hold { id, debit, credit, amount: 4, expires_in_ms: 1_000, memo, label: Label::NONE };
    assert_eq!(node.outcome(Command::PlaceHold { hold, credit_missing: false, open_holds_max: 9 }), Outcome::Applied);
    node
}

#[test]
fn a_hold_says_what_it_reserves_and_since_when() {
    let mut node = holding();
    let placed_at = node.now;
    assert_eq!(Machine::time(&node.ledger).0, placed_at, "the newest record's");
    let available = |node: &Node| node.ledger.account("a").map(|account| account.available());
    assert_eq!(available(&node), Some(6));
    let listed: Vec<_> = node.ledger.holds_of("a", RecordPosition::NONE).expect("it is open").collect();
    let [hold] = &listed[..] else { panic!("one is open") };
    assert_eq!((hold.amount, hold.remaining(), hold.time_ms), (4, 4, placed_at));
    assert_eq!(hold.state, HoldState::Open { expires_at_ms: placed_at + 1_000 });
    assert_eq!(nth(hold.at), node.records.len() - 1);

    node.now += 1_000;
    assert_eq!(node.outcome(Command::ExpireHold { id: "h" }), Outcome::Applied);
    let event = Ledger::decode(node.records.last().expect("it expired")).expect("it was encoded");
    let gone = node.ledger.hold_of(&event, hold.at).expect("it is about a hold");
    assert_eq!((gone.state, gone.amount, gone.remaining(), &*gone.memo), (HoldState::Expired, 4, 0, "seat"));
    assert_eq!(available(&node), Some(10));
    assert_eq!(node.ledger.transfer_of(&event, hold.at), None);
}

#[test]
fn a_transfer_says_whether_its_credit_is_on_its_way() {
    let mut cluster = Cluster::new(2);
    let (shop, far) = (at_home_on(0), at_home_on(1));
    cluster.open(&shop, "credit", AccountKind::Source);
    cluster.open(&far, "credit", AccountKind::Wallet);
    let ids = ["t0", "t1"];
    let transferred: Vec<usize> = ids
        .map(|id| {
            let transfer = Transfer { id, debit: &shop, credit: &far, amount: 1, memo: "", label: Label::NONE };
            assert_eq!(cluster.transfer(transfer), Outcome::Applied);
            cluster.nodes[0].records.len() - 1
        })
        .into();
    let pending = |cluster: &Cluster| -> Vec<bool> {
        let node = &cluster.nodes[0];
        let view = |record: &usize| {
            let event = Ledger::decode(&node.records[*record]).expect("it was encoded");
            node.ledger.transfer_of(&event, RecordPosition(0)).expect("it is one").is_credit_pending
        };
        transferred.iter().map(view).collect()
    };
    assert_eq!(pending(&cluster), [true, true]);
    assert_eq!(cluster.deliver(0, 1, 0, 1), 1);
    assert_eq!(pending(&cluster), [true, true], "the debit's shard has not heard of it");
    cluster.confirm(0, 1);
    assert_eq!(pending(&cluster), [false, true]);
    cluster.deliver(0, 1, 0, 1);
    cluster.confirm(0, 1);
    assert_eq!(pending(&cluster), [false, false]);
}

#[test]
fn settings_are_written_for_whoever_compares_them() {
    let written = |node: &Node| {
        let mut bytes = Vec::new();
        node.ledger.write_settings(&mut |part| bytes.extend_from_slice(part));
        bytes
    };
    let mut node = holding();
    let before = written(&node);
    let change = AccountChange { status: Some(AccountStatus::Frozen), ..AccountChange::default() };
    assert_eq!(node.outcome(Command::ChangeAccount { id: "b", change, is_settled: false }), Outcome::Applied);
    let after = written(&node);
    assert_ne!(after, before);
    assert_eq!(written(&node), after);
}

#[test]
fn a_shard_takes_no_more_when_many_credits_are_not_confirmed() {
    let there = at_home_on(1);
    let mut node = Node::new(0, 2);
    let (asset, kind, home) = ("credit", AccountKind::Wallet, ShardIndex(1));
    node.outcome(Command::AdoptAccount { id: &there, asset, kind, home });
    let mut push = |credits: std::ops::Range<usize>| {
        for n in credits {
            let position = RecordPosition(2_000 + n as u64);
            node.ledger.peers[1].push(position, AccountSlot(0), Amount::new(1).expect("not zero"));
        }
        node.ledger.is_outbound_full()
    };
    assert!(!push(0..OUTBOUND_PENDING_MAX - 1));
    assert!(push(OUTBOUND_PENDING_MAX - 1..OUTBOUND_PENDING_MAX));
}
