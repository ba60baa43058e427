//! What only happens between shards: claims, adopted facts, credits, and the bugs of a router.

use tidegate_planted::BalanceChange;

use super::cluster::Cluster;
use super::node::Node;
use crate::ledger::{
    AccountChange, AccountKind, AccountOrder, AccountStatus, Command, Guess, Hold, InboundCredit, Outcome, Refusal,
    RowKind, Ruling, Transfer, content_digest,
};
use crate::{Machine, OutboundNumber, RecordPosition, ShardIndex, TimeMs};

const THERE: ShardIndex = ShardIndex(1);

/// An account id whose home is this shard of two.
pub fn at_home_on(shard: u16) -> String {
    let is_there = |id: &String| crate::ledger::shard_of(id, 2) == ShardIndex(shard);
    (0..).map(|n| format!("account {n}")).find(is_there).expect("half of them")
}

fn transfer<'a>(id: &'a str, debit: &'a str, credit: &'a str, amount: u64) -> Transfer<'a> {
    Transfer { id, debit, credit, amount, memo: "", label: Default::default() }
}

#[test]
fn an_id_is_claimed_by_one_shard_for_one_content() {
    let mut node = Node::new(0, 3);
    let claim = |owner, content| Command::ClaimId { id: "t", owner: ShardIndex(owner), digest: [content; 16] };
    assert_eq!(node.outcome(claim(1, 7)), Outcome::Applied);
    assert_eq!(node.outcome(claim(1, 7)), Outcome::Duplicate);
    assert_eq!(node.outcome(claim(1, 8)), Outcome::Refused(Refusal::IdReused));
    assert_eq!(node.outcome(claim(2, 7)), Outcome::Refused(Refusal::IdReused));
}

#[test]
fn a_claim_and_a_transfer_exclude_each_other() {
    let mut node = Node::new(0, 2);
    let (a, b) = (at_home_on(0), at_home_on(0) + "{" + &at_home_on(0) + "}");
    for (id, kind) in [(&a, AccountKind::Source), (&b, AccountKind::Wallet)] {
        node.outcome(Command::OpenAccount { id, asset: "credit", kind });
    }
    let ask = |id, amount| Command::Transfer {
        transfer: transfer(id, &a, &b, amount),
        credit_missing: false,
        guess: Guess::NONE,
    };
    let claim = |id| Command::ClaimId { id, owner: THERE, digest: content_digest(&transfer(id, &a, &b, 1)) };
    assert_eq!(node.outcome(ask("t", 1)), Outcome::Applied);
    assert_eq!(node.outcome(claim("t")), Outcome::Refused(Refusal::IdReused));
    assert_eq!(node.outcome(claim("u")), Outcome::Applied);
    assert_eq!(node.outcome(ask("u", 1)), Outcome::Refused(Refusal::IdReused));
}

#[test]
fn an_unknown_credit_is_asked_for_and_a_missing_one_refused_for_ever() {
    let mut node = Node::new(0, 2);
    let (here, there) = (at_home_on(0), at_home_on(1));
    node.outcome(Command::OpenAccount { id: &here, asset: "credit", kind: AccountKind::Source });
    let ask = |id, credit_missing| Command::Transfer {
        transfer: transfer(id, &here, &there, 1),
        credit_missing,
        guess: Guess::NONE,
    };
    assert_eq!(node.ask(ask("t", false)), Ruling::NeedAccount);
    let missing = Outcome::Refused(Refusal::CreditAccountNotFound);
    assert_eq!(node.outcome(ask("t", true)), missing);

    let adopt = |asset| Command::AdoptAccount { id: &there, asset, kind: AccountKind::Wallet, home: THERE };
    assert_eq!(node.outcome(adopt("credit")), Outcome::Applied);
    assert_eq!(node.outcome(adopt("credit")), Outcome::Duplicate);
    assert_eq!(node.outcome(adopt("euro")), Outcome::Refused(Refusal::AccountExists));
    assert_eq!(node.outcome(ask("t", false)), missing);
    assert_eq!(node.outcome(ask("u", false)), Outcome::Applied);

    let known = node.ledger.account(&there).expect("adopted");
    assert_eq!((known.balance, known.credited), (0, 0), "the money is not here");
    let mut order = AccountOrder::default();
    order.catch_up(&node.ledger, u32::MAX);
    assert!(order.list(&node.ledger, &there, None, 9).is_empty(), "and so it is not listed here");
    assert_eq!(node.ledger.outbound_last(THERE), OutboundNumber(1));
}

#[test]
fn a_credit_that_follows_carries_its_row() {
    let mut cluster = Cluster::new(2);
    let (here, there) = (at_home_on(0), at_home_on(1));
    cluster.open(&here, "credit", AccountKind::Source);
    cluster.open(&there, "credit", AccountKind::Wallet);
    cluster.transfer(Transfer { memo: "welcome", ..transfer("t", &here, &there, 5) });
    assert_eq!(cluster.figures(&there), (0, 0), "under way");
    assert_eq!(cluster.deliver(0, 1, 0, 9), 1);
    assert_eq!(cluster.deliver(0, 1, 1, 9), 0, "once");
    let rows = cluster.nodes[1].history(&there);
    let row = &rows[0];
    assert_eq!((&*row.id, &*row.debit, &*row.credit, &*row.memo), ("t", &*here, &*there, "welcome"));
    assert_eq!((row.amount, row.balance_after, row.time_ms, rows.len()), (5, 5, cluster.nodes[0].now, 1));

    assert_eq!(cluster.nodes[0].ledger.outbound(THERE, OutboundNumber(0), 9).count(), 1);
    cluster.confirm(0, 1);
    assert_eq!(cluster.nodes[0].ledger.outbound(THERE, OutboundNumber(0), 9).count(), 0);
    assert_eq!(cluster.nodes[0].ledger.outbound_last(THERE), cluster.nodes[0].ledger.outbound_confirmed(THERE));
}

#[test]
fn a_credit_for_nobody_is_refused_and_moves_nothing() {
    let mut node = Node::new(0, 2);
    let credit = InboundCredit {
        from: THERE,
        number: OutboundNumber(1),
        posted: false,
        id: "t",
        debit: "x",
        credit: "nobody",
        amount: 1,
        memo: "",
        label: Default::default(),
        debit_position: RecordPosition(1),
        decided_at: TimeMs(1),
    };
    assert_eq!(node.outcome(Command::ReceiveCredit(credit)), Outcome::Refused(Refusal::CreditAccountNotFound));
    assert_eq!(node.ledger.watermark(THERE), OutboundNumber(0));
}

#[test]
#[should_panic(expected = "not its home")]
fn a_debit_on_the_wrong_shard_is_a_bug() {
    let (here, there) = (at_home_on(0), at_home_on(1));
    Node::new(0, 2).ask(Command::Transfer {
        transfer: transfer("t", &there, &here, 1),
        credit_missing: false,
        guess: Guess::NONE,
    });
}

#[test]
#[should_panic(expected = "not its home")]
fn an_account_on_the_wrong_shard_is_a_bug() {
    Node::new(0, 2).ask(Command::OpenAccount { id: &at_home_on(1), asset: "credit", kind: AccountKind::Wallet });
}

#[test]
#[should_panic(expected = "is not the home of")]
fn an_account_that_is_adopted_from_a_shard_that_is_not_its_home_is_a_bug() {
    let (id, asset, kind) = (at_home_on(0), "credit", AccountKind::Wallet);
    Node::new(0, 2).ask(Command::AdoptAccount { id: &id, asset, kind, home: THERE });
}

#[test]
#[should_panic(expected = "says that it has the asset")]
fn an_account_that_is_adopted_with_what_is_no_asset_is_a_bug() {
    let (id, kind) = (at_home_on(1), AccountKind::Wallet);
    Node::new(0, 2).ask(Command::AdoptAccount { id: &id, asset: "", kind, home: THERE });
}

#[test]
#[should_panic(expected = "confirms credit 1 of 0")]
fn a_confirmation_of_what_was_never_sent_is_a_bug() {
    Node::new(0, 2).ask(Command::ConfirmCredits { to: THERE, number: OutboundNumber(1) });
}

#[test]
#[should_panic(expected = "credited - debited is 0, the record says 7")]
fn a_balance_that_was_changed_in_memory_stops_the_machine_when_it_is_used() {
    let mut node = Node::new(0, 1);
    for (id, kind) in [("a", AccountKind::Source), ("b", AccountKind::Wallet)] {
        node.outcome(Command::OpenAccount { id, asset: "credit", kind });
    }
    let seven_more = |account| BalanceChange::new(account, 7);
    assert!(node.ledger.tamper(&seven_more("b")) && !node.ledger.tamper(&seven_more("nobody")));
    node.outcome(Command::Transfer { transfer: transfer("t", "a", "b", 1), credit_missing: false, guess: Guess::NONE });
}

#[test]
fn a_credit_ahead_of_the_next_one_is_told_and_one_that_came_before_is_passed_over() {
    let (here, there) = (at_home_on(0), at_home_on(1));
    let mut node = Node::new(0, 2);
    node.outcome(Command::OpenAccount { id: &here, asset: "credit", kind: AccountKind::Wallet });
    let mut receive = |number| {
        node.ask(Command::ReceiveCredit(InboundCredit {
            from: THERE,
            number: OutboundNumber(number),
            posted: false,
            id: "t",
            debit: &there,
            credit: &here,
            amount: 1,
            memo: "",
            label: Default::default(),
            debit_position: RecordPosition(number),
            decided_at: TimeMs(1),
        }))
    };
    for (number, ruling) in [
        (2, Ruling::Gap { expected: OutboundNumber(1) }),
        (1, Ruling::Outcome(Outcome::Applied)),
        (1, Ruling::AppliedBefore),
        (3, Ruling::Gap { expected: OutboundNumber(2) }),
        (2, Ruling::Outcome(Outcome::Applied)),
    ] {
        assert_eq!(receive(number), ruling, "credit {number}");
    }
}

#[test]
fn a_post_to_another_shard_arrives_as_a_post() {
    let mut cluster = Cluster::new(2);
    let (here, there) = (at_home_on(0), at_home_on(1));
    cluster.open(&here, "credit", AccountKind::Source);
    cluster.open(&there, "credit", AccountKind::Wallet);
    let hold = Hold {
        id: "h",
        debit: &here,
        credit: &there,
        amount: 9,
        expires_in_ms: 1_000,
        memo: "seat",
        label: Default::default(),
    };
    cluster.transfer(transfer("before", &here, &there, 1));
    assert_eq!(cluster.nodes[0].ledger.next_expiry(), None);
    cluster.place(hold);
    let expires_at = TimeMs(cluster.nodes[0].now + 1_000);
    assert_eq!(cluster.nodes[0].ledger.next_expiry(), Some(expires_at));
    assert_eq!(Machine::next_due(&cluster.nodes[0].ledger), Some(expires_at));
    assert_eq!(cluster.post("h", Some(1)), Outcome::Applied);
    assert_eq!(cluster.nodes[0].ledger.next_expiry(), None);
    assert_eq!(cluster.nodes[0].ledger.under_way_to(&there), (2, false));

    // A record stands for one credit: its own.
    let ledger = &cluster.nodes[0].ledger;
    let record = |number| cluster.nodes[0].prior(number).expect("it was decided");
    let credits: Vec<_> = ledger.outbound(THERE, OutboundNumber(0), 9).collect();
    let behind: Vec<_> = ledger.outbound(THERE, OutboundNumber(1), 9).collect();
    assert_eq!(behind, credits[1..], "those after a number");
    assert_eq!(ledger.outbound(THERE, OutboundNumber(2), 9).count(), 0);
    assert!(ledger.credit_of(&credits[0], &record("before")).is_some_and(|credit| !credit.posted));
    assert!(ledger.credit_of(&credits[1], &record("h")).is_some_and(|credit| credit.posted && credit.amount == 1));
    assert_eq!(ledger.credit_of(&credits[0], &record("h")), None);
    assert_eq!(ledger.credit_of(&credits[1], &record("before")), None);

    assert_eq!(cluster.deliver(0, 1, 0, 9), 2);
    let rows = cluster.nodes[1].history(&there);
    let kinds: Vec<_> = rows.iter().map(|row| (row.kind, row.amount, row.balance_after)).collect();
    assert_eq!(kinds, [(RowKind::Post, 1, 2), (RowKind::Transfer, 1, 1)]);
    cluster.confirm(0, 1);
    assert_eq!(cluster.nodes[0].ledger.under_way_to(&there), (0, false));
    let frozen = AccountChange { status: Some(AccountStatus::Frozen), ..AccountChange::default() };
    cluster.change(&there, frozen);
    assert_eq!(cluster.nodes[0].ledger.under_way_to(&there), (0, true));
    assert_eq!(cluster.nodes[0].ledger.under_way_to("nobody"), (0, false));
}
