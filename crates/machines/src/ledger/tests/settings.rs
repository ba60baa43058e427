//! The bounds of what can be set on an account, and who learns of it in which order.

use std::collections::BTreeMap;

use super::node::Node;
use super::shards::at_home_on;
use crate::ShardIndex;
use crate::ledger::limits::{
    ASSET_DECIMALS_MAX, HOLD_EXPIRES_IN_MS_MAX, METADATA_BYTES_MAX, METADATA_KEYS_MAX, METADATA_VALUE_BYTES_MAX,
    USER_DATA_BYTES_MAX,
};
use crate::ledger::{
    AccountChange, AccountKind, AccountRules, AccountStatus, Command, Hold, Label, MetadataPatch, Outcome, Refusal,
    Ruling, Transfer, check_hold, check_transfer,
};

#[test]
fn limits_make_sense_for_a_kind_of_account() {
    let check = |kind, balance_min, balance_max| {
        AccountRules { status: AccountStatus::Open, balance_min, balance_max }.check(kind)
    };
    let (wallet, source) = (AccountKind::Wallet, AccountKind::Source);
    for fine in [
        check(wallet, Some(0), None),
        check(wallet, None, Some(0)),
        check(wallet, Some(4), Some(4)),
        check(source, Some(-9), Some(-9)),
        check(source, None, Some(-1)),
    ] {
        assert_eq!(fine, Ok(()));
    }
    for invalid in [
        check(wallet, Some(-1), None),
        check(wallet, None, Some(-1)),
        check(wallet, Some(5), Some(4)),
        check(source, Some(-8), Some(-9)),
    ] {
        assert_eq!(invalid, Err(Refusal::LimitsInvalid));
    }
}

type Patch = BTreeMap<Box<str>, Option<Box<str>>>;

/// So many keys of two bytes, which hold this many bytes together.
fn patch(keys: usize, bytes: usize) -> Patch {
    let mut left = bytes - 2 * keys;
    let value = |left: &mut usize| {
        let len = (*left).min(METADATA_VALUE_BYTES_MAX);
        *left -= len;
        "x".repeat(len).into_boxed_str()
    };
    let patch = (0..keys).map(|n| (format!("{n:02}").into(), Some(value(&mut left)))).collect();
    assert_eq!(left, 0, "it fits into so many values");
    patch
}

#[test]
fn a_change_of_metadata_has_bounds() {
    let written = |patch: &Patch| {
        let mut bytes = Vec::new();
        MetadataPatch::write(patch, &mut bytes).map(|patch| (patch.is_empty(), patch.iter().count()))
    };
    assert_eq!(written(&Patch::new()), Ok((true, 0)));
    assert_eq!(written(&patch(1, 3)), Ok((false, 1)));
    let too_much = Err(Refusal::MetadataInvalid);
    assert_eq!(written(&patch(METADATA_KEYS_MAX, METADATA_BYTES_MAX)), Ok((false, METADATA_KEYS_MAX)));
    assert_eq!(written(&patch(METADATA_KEYS_MAX, METADATA_BYTES_MAX + 1)), too_much);
    assert_eq!(written(&patch(METADATA_KEYS_MAX + 1, 100)), too_much);
}

#[test]
fn bytes_of_a_change_come_back_if_their_keys_are_in_order() {
    let mut bytes = Vec::new();
    let made = MetadataPatch::write(&patch(2, 9), &mut bytes).expect("it is small").bytes().to_vec();
    let read = MetadataPatch::from_bytes(&made).expect("they are a change");
    assert_eq!(read.iter().collect::<Vec<_>>(), [("00", Some("xxxxx")), ("01", Some(""))]);
    // A key twice, and the two in the other order.
    let (first, second) = made.split_at(made.len() - 5);
    assert_eq!(first.len() + second.len(), made.len());
    assert!(MetadataPatch::from_bytes(second).is_some());
    assert!(MetadataPatch::from_bytes(&[second, second].concat()).is_none());
    assert!(MetadataPatch::from_bytes(&[second, first].concat()).is_none());
}

#[test]
fn metadata_that_was_set_bit_by_bit_has_the_same_bounds() {
    let mut node = Node::new(0, 1);
    node.outcome(Command::OpenAccount { id: "a", asset: "credit", kind: AccountKind::Wallet });
    let mut set = |patch: &Patch| {
        let mut bytes = Vec::new();
        let metadata = MetadataPatch::write(patch, &mut bytes).expect("it is small");
        let change = AccountChange { metadata, ..AccountChange::default() };
        node.outcome(Command::ChangeAccount { id: "a", change, is_settled: false })
    };
    assert_eq!(set(&patch(METADATA_KEYS_MAX, METADATA_BYTES_MAX)), Outcome::Applied);
    let one = |key: &str, value: &str| Patch::from([(key.into(), Some(value.into()))]);
    // The last value is the shortest, because all before it are full.
    assert_eq!(set(&one("15", "x")), Outcome::Refused(Refusal::MetadataInvalid), "a byte too many");
    assert_eq!(set(&Patch::from([("00".into(), None)])), Outcome::Applied);
    assert_eq!(set(&one("15", "x")), Outcome::Applied);
    assert_eq!(set(&one("00", "")), Outcome::Applied);
    assert_eq!(set(&one("16", "")), Outcome::Refused(Refusal::MetadataInvalid), "a key too many");
    node.check();
}

#[test]
fn labels_and_lifetimes_have_their_longest() {
    let data = "x".repeat(USER_DATA_BYTES_MAX + 1);
    let label = |len| Label { code: 1, user_data: &data[..len] };
    let transfer = |len| Transfer { id: "t", debit: "a", credit: "b", amount: 1, memo: "", label: label(len) };
    assert_eq!(check_transfer(&transfer(USER_DATA_BYTES_MAX)), Ok(()));
    assert_eq!(check_transfer(&transfer(USER_DATA_BYTES_MAX + 1)), Err(Refusal::UserDataTooLong));
    let hold = |expires_in_ms, len| {
        check_hold(&Hold { id: "h", debit: "a", credit: "b", amount: 1, expires_in_ms, memo: "", label: label(len) })
    };
    assert_eq!(hold(1, USER_DATA_BYTES_MAX), Ok(()));
    assert_eq!(hold(1, USER_DATA_BYTES_MAX + 1), Err(Refusal::UserDataTooLong));
    assert_eq!(hold(HOLD_EXPIRES_IN_MS_MAX, 0), Ok(()));
    for invalid in [0, HOLD_EXPIRES_IN_MS_MAX + 1] {
        assert_eq!(hold(invalid, 0), Err(Refusal::ExpiryInvalid));
    }
}

#[test]
fn an_asset_has_so_many_decimals() {
    let mut node = Node::new(0, 1);
    let mut declare = |asset, decimals| node.outcome(Command::DeclareAsset { asset, decimals });
    assert_eq!(declare("fine", ASSET_DECIMALS_MAX), Outcome::Applied);
    assert_eq!(declare("finer", ASSET_DECIMALS_MAX + 1), Outcome::Refused(Refusal::DecimalsInvalid));
}

#[test]
fn an_account_of_many_shards_is_closed_when_it_is_frozen_and_settled() {
    let id = at_home_on(0);
    let close = |node: &mut Node, is_settled| {
        let change = AccountChange { status: Some(AccountStatus::Closed), ..AccountChange::default() };
        let outcome = node.outcome(Command::ChangeAccount { id: &id, change, is_settled });
        (outcome, node.ledger.account(&id).and_then(|account| account.settings).map(|settings| settings.status))
    };
    for settled_first in [true, false] {
        let mut node = Node::new(0, 2);
        node.outcome(Command::OpenAccount { id: &id, asset: "credit", kind: AccountKind::Wallet });
        assert_eq!(close(&mut node, settled_first), (Outcome::Applied, Some(AccountStatus::Frozen)));
        assert_eq!(close(&mut node, false), (Outcome::Duplicate, Some(AccountStatus::Frozen)), "it is not settled");
        assert_eq!(close(&mut node, true), (Outcome::Applied, Some(AccountStatus::Closed)));
        node.check();
    }
}

#[test]
fn another_shard_takes_what_is_newer_than_what_it_was_told() {
    let there = at_home_on(1);
    let mut node = Node::new(0, 2);
    let home = ShardIndex(1);
    node.outcome(Command::AdoptAccount { id: &there, asset: "credit", kind: AccountKind::Wallet, home });
    let rules = |status| AccountRules { status, ..AccountRules::default() };
    let mut told = |revision, status| {
        let ruling = node.ask(Command::AdoptChange { id: &there, revision, rules: rules(status) });
        (ruling, node.ledger.account(&there).and_then(|account| account.settings).map(|settings| settings.status))
    };
    let applied = Ruling::Outcome(Outcome::Applied);
    assert_eq!(told(3, AccountStatus::Frozen), (applied, Some(AccountStatus::Frozen)));
    for old in [1, 3] {
        assert_eq!(told(old, AccountStatus::Open), (Ruling::AppliedBefore, Some(AccountStatus::Frozen)));
    }
    assert_eq!(told(5, AccountStatus::Open), (applied, Some(AccountStatus::Open)));
}
