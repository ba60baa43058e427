//! Some hundred seeds of the gateway hold every promise, meet every fault, and are the same each time.

use tidegate_sim::gateway::Tally;
use tidegate_sim::{hush_panics_in_runs, report_failure, run_gateway};

/// How many seeds a test run tries; `TIDEGATE_SIM_SEEDS` says otherwise.
const SEEDS: u64 = 500;

#[test]
fn some_hundred_seeds_of_the_gateway() {
    hush_panics_in_runs();
    let seeds = std::env::var("TIDEGATE_SIM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    let mut total = Tally::default();
    for seed in 0..seeds {
        let run = run_gateway(seed, false);
        if let Some(violation) = &run.violation {
            report_failure(&run, violation);
            panic!("seed {seed} breaks a promise: {violation}");
        }
        total.add(&run.tally);
    }
    println!("{total:#?}");
    // A simulator that meets no faults would find nothing and be green.
    for (what, times) in total.met() {
        assert!(times > 0, "{seeds} seeds never met: {what}");
    }
}

#[test]
fn the_same_seed_of_the_gateway_gives_the_same_trace() {
    for seed in 0..10 {
        let (first, second) = (run_gateway(seed, false), run_gateway(seed, false));
        assert_eq!((first.trace_hash, first.tally), (second.trace_hash, second.tally), "seed {seed}");
    }
}
