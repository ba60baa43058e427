//! Records that no decision gives, with all checksums right: written by a faulty program, or forged. None is applied.

use std::collections::BTreeMap;

use super::node::Node;
use crate::ledger::{
    AccountChange, AccountKind, AccountRules, AccountSlot, AccountStatus, AccountStep, Command, CreditStep, Event,
    Guess, Label, MetadataPatch, Outcome, Transfer, shard_of,
};
use crate::machine::tests::place;
use crate::{Amount, Machine, OutboundNumber, RecordPosition, ShardIndex, TimeMs};

const NOW: TimeMs = TimeMs(1_000_000);
const SOURCE: AccountSlot = AccountSlot(0);
const WALLET: AccountSlot = AccountSlot(1);
const COLLECTOR: AccountSlot = AccountSlot(2);
const FOREIGN: AccountSlot = AccountSlot(3);

/// An id that begins so and whose home is this shard of two.
fn on(shard: u16, begin: &str) -> String {
    let is_there = |id: &String| shard_of(id, 2) == ShardIndex(shard);
    (0..).map(|n| format!("{begin}{n}")).find(is_there).expect("half of them")
}

/// The first of two shards: a source that has given 5 to a wallet, a collector, and a wallet of the other shard.
fn node() -> Node {
    let mut node = Node::new(0, 2);
    let kinds = [("source", AccountKind::Source), ("wallet", AccountKind::Wallet), ("shop", AccountKind::Collector)];
    for (id, kind) in kinds {
        node.outcome(Command::OpenAccount { id: &on(0, id), asset: "credit", kind });
    }
    let (source, wallet, foreign) = (on(0, "source"), on(0, "wallet"), on(1, "foreign"));
    let adopt = Command::AdoptAccount { id: &foreign, asset: "credit", kind: AccountKind::Wallet, home: ShardIndex(1) };
    assert_eq!(node.outcome(adopt), Outcome::Applied);
    let transfer = Transfer { id: "grant", debit: &source, credit: &wallet, amount: 5, memo: "", label: Label::NONE };
    assert_eq!(
        node.outcome(Command::Transfer { transfer, credit_missing: false, guess: Guess::NONE }),
        Outcome::Applied
    );
    node
}

/// What does not agree when this is the next record.
fn misfit(node: &Node, event: &Event<'_>) -> String {
    let mut ledger = node.ledger.clone();
    let before = format!("{ledger:?}");
    let refused = ledger.apply_checked(event, place(node.records.len())).expect_err("it does not follow");
    assert_eq!(format!("{ledger:?}"), before, "nothing has changed");
    refused.to_string()
}

#[track_caller]
fn refuses(node: &Node, event: &Event<'_>, words: &str) {
    let said = misfit(node, event);
    assert!(said.contains(words), "{said:?} instead of {words:?}");
}

fn fits(node: &Node, event: &Event<'_>) -> bool {
    node.ledger.clone().apply_checked(event, place(node.records.len())).is_ok()
}

#[test]
fn an_account_is_opened_in_the_next_slot_with_a_valid_id_and_asset() {
    let node = node();
    let (id, no_id, taken, elsewhere) = (on(0, "new"), on(0, "two\nlines"), on(0, "wallet"), on(1, "new"));
    let long = "x".repeat(33);
    let open = |slot, id, asset| Event::AccountOpened {
        time: NOW,
        slot: AccountSlot(slot),
        id,
        asset,
        kind: AccountKind::Wallet,
    };
    assert!(fits(&node, &open(4, &id, "credit")));
    refuses(&node, &open(4, &id, "two\nlines"), "valid id and asset");
    refuses(&node, &open(4, &id, ""), "valid id and asset");
    refuses(&node, &open(4, &id, &long), "valid id and asset");
    refuses(&node, &open(4, &no_id, "credit"), "valid id and asset");
    refuses(&node, &open(3, &id, "credit"), "next slot");
    refuses(&node, &open(5, &id, "credit"), "next slot");
    refuses(&node, &open(4, &taken, "credit"), "slot");
    refuses(&node, &open(4, &elsewhere, "credit"), "home shard");
}

#[test]
fn another_shard_is_one_of_all_and_not_this_one() {
    let node = node();
    let claim = |owner| Event::IdClaimed { time: NOW, id: "t", owner: ShardIndex(owner), digest: [7; 16] };
    assert!(fits(&node, &claim(1)));
    for owner in [0, 2, 3] {
        refuses(&node, &claim(owner), "shards");
    }
}

/// The next movement of `amount` between accounts that had none since the grant.
fn movement(node: &Node, debit: AccountSlot, credit: AccountSlot, amount: u64) -> Event<'static> {
    let step = |slot, change: i64| {
        let account = node.ledger.accounts.get(slot).expect("it is open");
        AccountStep { slot, prev: account.last, after: account.balance + change }
    };
    let credit = match credit {
        FOREIGN => CreditStep::Outbound { slot: FOREIGN, number: OutboundNumber(1) },
        here => CreditStep::Here(step(here, amount as i64)),
    };
    let (debit, amount) = (step(debit, -(amount as i64)), Amount::new(amount).expect("not zero"));
    Event::Transferred { time: NOW, id: "t", debit, credit, amount, memo: "", label: Label::NONE }
}

#[test]
fn a_collector_is_not_debited_nor_is_a_wallet_emptied_below_zero() {
    let node = node();
    assert!(fits(&node, &movement(&node, WALLET, SOURCE, 5)));
    refuses(&node, &movement(&node, WALLET, SOURCE, 6), "available");
    refuses(&node, &movement(&node, COLLECTOR, WALLET, 1), "debits allowed");
    refuses(&node, &movement(&node, FOREIGN, WALLET, 1), "home shard");
}

/// What was set on one account or on both is kept to by what follows.
#[test]
fn a_movement_that_settings_forbid_does_not_fit() {
    let frozen = AccountChange { status: Some(AccountStatus::Frozen), ..AccountChange::default() };
    let at_most = |max| AccountChange { balance_max: Some(Some(max)), ..AccountChange::default() };
    let at_least = |min| AccountChange { balance_min: Some(Some(min)), ..AccountChange::default() };
    let (wallet, shop) = (on(0, "wallet"), on(0, "shop"));
    let prepared = |changes: &[(&str, AccountChange<'static>)]| {
        let mut node = node();
        for &(id, change) in changes {
            assert_eq!(node.outcome(Command::ChangeAccount { id, change, is_settled: false }), Outcome::Applied);
        }
        node
    };
    let pay = |node: &Node| movement(node, WALLET, COLLECTOR, 2);

    let debit_alone = prepared(&[(&wallet, frozen)]);
    refuses(&debit_alone, &pay(&debit_alone), "debit_account_frozen");
    let credit_alone = prepared(&[(&shop, frozen)]);
    refuses(&credit_alone, &pay(&credit_alone), "credit_account_frozen");
    let both = prepared(&[(&wallet, frozen), (&shop, frozen)]);
    refuses(&both, &pay(&both), "debit_account_frozen");

    for (min, is_kept) in [(3, true), (4, false)] {
        let node = prepared(&[(&wallet, at_least(min))]);
        assert_eq!(fits(&node, &pay(&node)), is_kept, "at least {min}");
    }
    for (max, is_kept) in [(7, true), (6, false)] {
        let node = prepared(&[(&wallet, at_most(max))]);
        assert_eq!(fits(&node, &movement(&node, SOURCE, WALLET, 2)), is_kept, "at most {max}");
    }
    // A limit of an account that is elsewhere is not known to be kept.
    let mut node = node();
    let rules = AccountRules { balance_max: Some(100), ..AccountRules::default() };
    let told = Command::AdoptChange { id: &on(1, "foreign"), revision: 1, rules };
    assert_eq!(node.outcome(told), Outcome::Applied);
    refuses(&node, &movement(&node, WALLET, FOREIGN, 1), "limit_across_shards");
}

fn changed<'a>(slot: AccountSlot, id: &'a str, home: u16, revision: u64, rules: AccountRules) -> Event<'a> {
    let metadata = MetadataPatch::NONE;
    Event::AccountChanged { time: NOW, slot, id, home: ShardIndex(home), revision, rules, metadata }
}

#[test]
fn settings_change_by_the_next_revision_at_home_and_by_a_newer_one_elsewhere() {
    let node = node();
    let rules = AccountRules { status: AccountStatus::Frozen, ..AccountRules::default() };
    let (wallet, foreign) = (on(0, "wallet"), on(1, "foreign"));
    assert!(fits(&node, &changed(WALLET, &wallet, 0, 1, rules)));
    for revision in [0, 2] {
        refuses(&node, &changed(WALLET, &wallet, 0, revision, rules), "next revision");
    }
    assert!(
        fits(&node, &changed(FOREIGN, &foreign, 1, 1, rules)) && fits(&node, &changed(FOREIGN, &foreign, 1, 7, rules))
    );
    refuses(&node, &changed(FOREIGN, &foreign, 1, 0, rules), "next revision");
}

#[test]
fn an_account_that_is_not_empty_is_not_closed_and_elsewhere_has_no_metadata() {
    let node = node();
    let closed = AccountRules { status: AccountStatus::Closed, ..AccountRules::default() };
    refuses(&node, &changed(WALLET, &on(0, "wallet"), 0, 1, closed), "balance of a closed account");
    let mut bytes = Vec::new();
    let patch: BTreeMap<Box<str>, Option<Box<str>>> = BTreeMap::from([("plan".into(), Some("gold".into()))]);
    let metadata = MetadataPatch::write(&patch, &mut bytes).expect("it is small");
    let rules = AccountRules::default();
    for (slot, id, home) in [(WALLET, on(0, "wallet"), 0), (FOREIGN, on(1, "foreign"), 1)] {
        let home = ShardIndex(home);
        let event = Event::AccountChanged { time: NOW, slot, id: &id, home, revision: 1, rules, metadata };
        assert_eq!(fits(&node, &event), slot == WALLET);
    }
}

#[test]
fn an_asset_is_declared_with_a_valid_name_and_few_decimals() {
    let node = node();
    let (asset, no_asset, elsewhere) = (on(0, "euro"), on(0, "two\nlines"), on(1, "euro"));
    let declare = |asset, decimals| Event::AssetDeclared { time: NOW, asset, decimals };
    assert!(fits(&node, &declare(&asset, 18)));
    refuses(&node, &declare(&asset, 19), "decimals at most");
    refuses(&node, &declare(&no_asset, 2), "decimals at most");
    refuses(&node, &declare(&elsewhere, 2), "home shard");
}

#[test]
fn a_record_is_behind_the_one_before_it() {
    let node = node();
    let claim = Event::IdClaimed { time: NOW, id: "t", owner: ShardIndex(1), digest: [7; 16] };
    let mut at = place(node.records.len());
    at.position = RecordPosition(node.ledger.position().0);
    let said = node.ledger.clone().apply_checked(&claim, at).expect_err("it stands where another does").to_string();
    assert!(said.contains("position above"), "{said}");
}
