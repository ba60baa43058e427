//! Counters keep their promises on every store and under every fault, and the oracle notices when they do not.

use counter_sim::CounterClients;
use tidegate_planted::{Bug, plant};
use tidegate_sim::harness::{STORES, TICKS, check_seeds, run_on};
use tidegate_sim::hush_panics_in_runs;

#[test]
fn counters_keep_their_promises_on_every_store() {
    check_seeds::<CounterClients>(150);
}

#[test]
fn the_oracle_notices_an_answer_before_its_sync() {
    hush_panics_in_runs();
    for store in STORES {
        plant(Some(Bug::ReplyBeforeSync));
        let found = (0..200).find_map(|seed| run_on::<CounterClients>(store, seed, TICKS, false).violation);
        plant(None);
        assert_eq!(found.map(|violation| violation.property), Some("an answered add is never taken back"), "{store:?}");
    }
}
