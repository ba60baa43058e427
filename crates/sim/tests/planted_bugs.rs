//! The simulator finds what it was made to find: each planted bug by some seed out of a bounded range, by the promise that it
//! breaks, while the same seeds hold without it.

use tidegate_shard::planted::{Bug, plant};
use tidegate_sim::{TICKS, run};

/// Seeds that are tried for each bug.
const SEEDS: std::ops::Range<u64> = 0..120;

/// The seed that finds `bug`, and what it says.
fn seed_that_finds(bug: Bug) -> (u64, String) {
    plant(Some(bug));
    let found = SEEDS.map(|seed| run(seed, TICKS, false)).find_map(|run| run.violation.map(|v| (run.seed, v.to_string())));
    plant(None);
    found.unwrap_or_else(|| panic!("no seed of {SEEDS:?} finds {bug:?}"))
}

fn is_found(bug: Bug) {
    let (seed, words) = seed_that_finds(bug);
    let words: String = words.chars().take(300).collect();
    println!("{bug:?}: seed {seed} finds it: {words}");
    let without = run(seed, TICKS, false);
    assert_eq!(without.violation, None, "seed {seed} fails without {bug:?}, too");
}

#[test]
fn a_reply_before_its_sync_is_found() {
    is_found(Bug::ReplyBeforeSync);
}

#[test]
fn ids_lost_over_a_restart_are_found() {
    is_found(Bug::IdsLostOverRestart);
}

#[test]
fn a_hold_that_is_not_released_is_found() {
    is_found(Bug::HoldNotReleased);
}

#[test]
fn a_watermark_that_is_off_by_one_is_found() {
    is_found(Bug::WatermarkOffByOne);
}

#[test]
fn a_torn_tail_that_is_accepted_is_found() {
    is_found(Bug::TornTailAccepted);
}
