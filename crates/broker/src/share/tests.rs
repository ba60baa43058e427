use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::SessionIndex;

const KEYED: [ShareStrategy; 3] = [ShareStrategy::Sticky, ShareStrategy::HashTopic, ShareStrategy::HashClient];

fn member(worker: u8, session: u32) -> Entry {
    Entry { session: SessionIndex::new(session), worker, ..Entry::default() }
}

fn members(count: u32) -> Vec<Entry> {
    (0..count).map(|nth| member((nth % 2) as u8, nth / 2)).collect()
}

#[test]
fn each_strategy_weighs_by_what_it_is_called_after() {
    let of = |strategy: ShareStrategy| {
        let base = strategy.key("g", "t", hash("a"));
        let changed =
            [strategy.key("h", "t", hash("a")), strategy.key("g", "u", hash("a")), strategy.key("g", "t", hash("b"))];
        (base.is_some(), changed.map(|other| other != base))
    };
    assert_eq!(of(ShareStrategy::RoundRobin), (false, [false, false, false]));
    assert_eq!(of(ShareStrategy::Sticky), (true, [true, false, false]), "the group");
    assert_eq!(of(ShareStrategy::HashTopic), (true, [false, true, false]), "the topic");
    assert_eq!(of(ShareStrategy::HashClient), (true, [false, false, true]), "the client");
    assert!(KEYED.iter().all(|strategy| strategy.key("", "", 0).is_some()));
}

#[test]
fn the_heaviest_does_not_depend_on_the_order() {
    let there = members(9);
    for key in 0..1_000 {
        let chosen = heaviest(there.iter(), key);
        assert!(chosen.is_some());
        assert_eq!(chosen, heaviest(there.iter().rev(), key));
    }
    assert_eq!(heaviest([].iter(), 1), None);
}

#[test]
fn keys_are_spread_evenly() {
    let there = members(8);
    let mut counts = BTreeMap::<_, usize>::new();
    for nth in 0..8_000 {
        let chosen = heaviest(there.iter(), hash(&format!("site/{nth}/temp"))).unwrap();
        *counts.entry(chosen.owner()).or_default() += 1;
    }
    assert_eq!(counts.len(), 8);
    assert!(counts.values().all(|count| (800..1_200).contains(count)), "{counts:?}");
}

#[test]
fn who_comes_takes_a_part_and_who_goes_leaves_only_its_own() {
    let (before, after) = (members(8), members(9));
    let new = after[8].owner();
    let mut moved = 0;
    for key in (0..9_000).map(|nth| hash(&format!("key {nth}"))) {
        let (was, is) = (heaviest(before.iter(), key).unwrap(), heaviest(after.iter(), key).unwrap());
        assert!(was == is || is.owner() == new, "what moves, moves to who came");
        moved += usize::from(was != is);
    }
    assert!((800..1_200).contains(&moved), "{moved} of 9000 moved to one of nine");
}

#[test]
fn sticky_groups_are_spread_over_their_members() {
    let there = members(4);
    let chosen: BTreeSet<_> = (0..64)
        .map(|nth| ShareStrategy::Sticky.key(&format!("group {nth}"), "t", 0).unwrap())
        .map(|key| heaviest(there.iter(), key).unwrap().owner())
        .collect();
    assert_eq!(chosen.len(), 4);
}

#[test]
fn the_part_of_a_group_is_what_journals_have() {
    assert_eq!(GroupName::of("$share/g/t").part(), 0xbb1b_9903);
    assert_ne!(GroupName::of("$share/g/t"), GroupName::of("$share/g/u"));
    assert_ne!(GroupName::of("$share/g/t"), GroupName::of("$queue/t"));
}

#[test]
fn groups_of_one_part_have_two_names() {
    // Found by trying a million.
    let [one, other] = ["$share/g686989/t", "$share/g1027172/t"].map(GroupName::of);
    assert_eq!(one.part(), other.part());
    assert_ne!(one, other);
}
