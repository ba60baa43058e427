use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::ledger::tests::node::Node;
use crate::ledger::{AccountKind, Command};

fn open(node: &mut Node, id: &str) {
    node.outcome(Command::OpenAccount { id, asset: "credit", kind: AccountKind::Wallet });
}

fn listed(order: &AccountOrder, ledger: &Ledger, prefix: &str, after: Option<&str>, limit: usize) -> Vec<String> {
    order.list(ledger, prefix, after, limit).into_iter().map(|account| account.id.into()).collect()
}

#[test]
fn ids_in_order_fill_their_leaves() {
    let mut node = Node::new(0, 1);
    (0..1_280).for_each(|n| open(&mut node, &format!("wallet:{n:05}")));
    let mut order = AccountOrder::default();
    let left: Vec<u32> = (0..4).map(|_| order.catch_up(&node.ledger, 500)).collect();
    assert_eq!((left, order.reached()), (vec![780, 280, 0, 0], 1_280));
    assert_eq!(order.leaves.len(), 10);
    assert!(order.leaves.values().all(|leaf| leaf.len() == LEAF_SLOTS_MAX && leaf.capacity() == LEAF_SLOTS_MAX));
    assert_eq!(listed(&order, &node.ledger, "wallet:0012", Some("wallet:00127"), 9), ["wallet:00128", "wallet:00129"]);
}

#[test]
fn ids_that_come_between_others_are_put_there_many_at_a_time() {
    let mut node = Node::new(0, 1);
    let mut order = AccountOrder::default();
    let mut all = BTreeSet::new();
    for (step, count) in [(2, 500), (3, 700), (1, 1_500)] {
        for id in (0..count).map(|n| format!("wallet:{:05}", n * step)) {
            if all.insert(id.clone()) {
                open(&mut node, &id);
            }
        }
        assert_eq!(order.catch_up(&node.ledger, u32::MAX), 0);
        assert!(order.leaves.values().all(|leaf| (1..=LEAF_SLOTS_MAX).contains(&leaf.len())));
        assert!(order.leaves.values().all(|leaf| leaf.capacity() == LEAF_SLOTS_MAX));
        // At most twice the memory that full ones would need.
        assert!(order.leaves.len() <= 2 * all.len().div_ceil(LEAF_SLOTS_MAX), "{} leaves", order.leaves.len());
        let sorted: Vec<String> = all.iter().cloned().collect();
        assert_eq!(listed(&order, &node.ledger, "", None, usize::MAX), sorted);
    }
}

#[test]
fn ids_that_come_one_by_one_between_others_never_make_a_leaf_too_large() {
    let mut node = Node::new(0, 1);
    let mut order = AccountOrder::default();
    let all = (0..2 * LEAF_SLOTS_MAX).map(|n| format!("wallet:{n:05}"));
    let (even, odd): (Vec<_>, Vec<_>) = all.clone().enumerate().partition(|(n, _)| n.is_multiple_of(2));
    even.iter().for_each(|(_, id)| open(&mut node, id));
    assert_eq!((order.catch_up(&node.ledger, u32::MAX), order.leaves.len()), (0, 1), "one leaf is full");
    for (_, id) in &odd {
        open(&mut node, id);
        assert_eq!(order.catch_up(&node.ledger, u32::MAX), 0);
        assert!(order.leaves.values().all(|leaf| (1..=LEAF_SLOTS_MAX).contains(&leaf.len())));
        assert!(order.leaves.values().all(|leaf| leaf.capacity() == LEAF_SLOTS_MAX));
    }
    assert_eq!(listed(&order, &node.ledger, "", None, usize::MAX), all.collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// As a sorted set, however the catch-up is cut.
    #[test]
    fn lists_what_a_set_lists(
        ids in proptest::collection::vec("[a-d]{1,5}", 1..1_500),
        cut in 1u32..400,
        (prefix, after) in ("[a-d]{0,2}", proptest::option::of("[a-d]{1,4}")),
        limit in 1usize..50,
    ) {
        let (mut node, mut model, mut order) = (Node::new(0, 1), BTreeSet::new(), AccountOrder::default());
        for id in ids {
            if model.insert(id.clone()) {
                open(&mut node, &id);
            }
            if (model.len() as u32).is_multiple_of(cut) {
                order.catch_up(&node.ledger, cut);
            }
        }
        while order.catch_up(&node.ledger, cut) > 0 {}
        let is_asked = |id: &&String| id.starts_with(&prefix) && after.as_ref().is_none_or(|after| *id > after);
        let expected: Vec<String> = model.iter().filter(is_asked).take(limit).cloned().collect();
        prop_assert_eq!(listed(&order, &node.ledger, &prefix, after.as_deref(), limit), expected);
        let all: Vec<String> = model.into_iter().collect();
        prop_assert_eq!(listed(&order, &node.ledger, "", None, usize::MAX), all);
    }
}
