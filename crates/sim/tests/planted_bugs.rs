//! The simulator finds what it was made to find: each planted bug by some seed out of a bounded range, by the promise that it
//! breaks, while the same seeds hold without it.

use std::collections::BTreeMap;

use tidegate_planted::{Bug, plant};
use tidegate_sim::violation::Violation;
use tidegate_sim::{TICKS, hush_panics_in_runs, run, run_gateway};

/// Seeds that are tried for each bug.
const SEEDS: std::ops::Range<u64> = 0..120;

/// Tries all seeds with the bug planted. Each of `promises` must be seen broken by one, which holds without the bug.
fn is_found(bug: Bug, promises: &[&str]) {
    hush_panics_in_runs();
    plant(Some(bug));
    let mut broken: BTreeMap<&str, (u64, u64, String)> = BTreeMap::new();
    for seed in SEEDS {
        if let Some(Violation { property, detail }) = run(seed, TICKS, false).violation {
            let detail = detail.chars().take(160).collect();
            broken.entry(property).or_insert((0, seed, detail)).0 += 1;
        }
    }
    plant(None);
    for (promise, (seeds, first, detail)) in &broken {
        println!("{bug:?}: {seeds} of {SEEDS:?}, first {first}: {promise}: {detail}");
    }
    for promise in promises {
        let Some((_, seed, _)) = broken.get(promise) else { panic!("no seed of {SEEDS:?} sees {bug:?} by: {promise}") };
        assert_eq!(run(*seed, TICKS, false).violation, None, "seed {seed} fails without {bug:?}, too");
    }
}

#[test]
fn an_acknowledgement_of_mqtt_before_its_sync_is_found() {
    hush_panics_in_runs();
    plant(Some(Bug::ReplyBeforeSync));
    let broken: Vec<(u64, Violation)> =
        SEEDS.filter_map(|seed| Some((seed, run_gateway(seed, false).violation?))).collect();
    plant(None);
    for promise in ["what was acknowledged reaches every durable session", "a durable session survives"] {
        let found = broken.iter().find(|(_, violation)| violation.property == promise);
        let Some((seed, violation)) = found else { panic!("no seed of {SEEDS:?} sees it by: {promise}") };
        println!("seed {seed}: {violation}");
        assert_eq!(run_gateway(*seed, false).violation, None, "seed {seed} fails without the bug, too");
    }
}

#[test]
fn a_reply_before_its_sync_is_found() {
    is_found(
        Bug::ReplyBeforeSync,
        &["what was seen or acknowledged is never taken back", "no acknowledged account is lost"],
    );
}

#[test]
fn ids_lost_over_a_restart_are_found() {
    is_found(Bug::IdsLostOverRestart, &["the same id is applied once", "the same id has the same answer"]);
}

#[test]
fn a_hold_that_is_not_released_is_found() {
    is_found(Bug::HoldNotReleased, &["a hold is released when its time is over"]);
}

#[test]
fn an_amount_that_stays_held_is_found() {
    is_found(Bug::HoldAmountKept, &["what is held is what open holds reserve"]);
}

#[test]
fn a_credit_that_is_applied_twice_is_found() {
    is_found(Bug::CreditAppliedTwice, &["conservation over all shards, with what is in flight"]);
}

#[test]
fn a_watermark_that_is_off_by_one_is_found() {
    is_found(Bug::WatermarkOffByOne, &["conservation over all shards, with what is in flight"]);
}

#[test]
fn a_torn_tail_that_is_accepted_is_found() {
    is_found(Bug::TornTailAccepted, &["a node starts after any crash, or names the damage"]);
}
