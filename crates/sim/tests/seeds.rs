//! Some hundred seeds of each machine hold every promise on each store, meet every fault, and are the same each time.

use tidegate_sim::gateway::Gateway;
use tidegate_sim::harness::{LocalStore, StoreName, StreamStore, TICKS, Workload, check_runs, check_seeds_on, run_on};
use tidegate_sim::ledger::Ledger;
use tidegate_sim::links;
use tidegate_sim::queue::QueueClients;

/// How many seeds a test run tries; `TIDEGATE_SIM_SEEDS` says otherwise.
const SEEDS: u64 = 300;

fn seeds() -> u64 {
    std::env::var("TIDEGATE_SIM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS)
}

fn check<W: Workload<LocalStore> + Workload<StreamStore>>(store: StoreName) {
    check_seeds_on::<W>(store, seeds(), &<W as Workload<LocalStore>>::floors(store));
}

#[test]
fn some_hundred_seeds_of_the_ledger_on_local_logs() {
    check::<Ledger>(StoreName::Local);
}

#[test]
fn some_hundred_seeds_of_the_ledger_on_streams() {
    check::<Ledger>(StoreName::Stream);
}

#[test]
fn some_hundred_seeds_of_the_gateway_on_local_logs() {
    check::<Gateway>(StoreName::Local);
}

#[test]
fn some_hundred_seeds_of_the_gateway_on_streams() {
    check::<Gateway>(StoreName::Stream);
}

#[test]
fn some_hundred_seeds_of_queues_on_local_logs() {
    check::<QueueClients>(StoreName::Local);
}

#[test]
fn some_hundred_seeds_of_queues_on_streams() {
    check::<QueueClients>(StoreName::Stream);
}

#[test]
fn some_hundred_seeds_of_linked_nodes_on_local_logs() {
    check_runs(links::NAME, links::run_on, StoreName::Local, seeds(), &links::floors());
}

#[test]
fn some_hundred_seeds_of_linked_nodes_on_streams() {
    check_runs(links::NAME, links::run_on, StoreName::Stream, seeds(), &links::floors());
}

#[test]
fn other_seeds_give_other_traces() {
    let trace = |seed| run_on::<Ledger>(StoreName::Local, seed, TICKS, false).trace_hash;
    assert_ne!(trace(1), trace(2));
}
