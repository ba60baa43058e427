//! Some hundred seeds hold every promise, meet every fault, and are the same each time.

use std::time::Instant;

use tidegate_sim::world::Tally;
use tidegate_sim::{TICKS, report_failure, run};

/// How many seeds a test run tries; `TIDEGATE_SIM_SEEDS` says otherwise.
const SEEDS: u64 = 500;

#[test]
fn some_hundred_seeds() {
    let seeds = std::env::var("TIDEGATE_SIM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    let began = Instant::now();
    let mut total = Tally::default();
    for seed in 0..seeds {
        let run = run(seed, TICKS, false);
        if let Some(violation) = &run.violation {
            report_failure(&run, violation);
            panic!("seed {seed} breaks a promise: {violation}");
        }
        total.add(&run.tally);
        if (seed + 1) % 50 == 0 {
            println!("{} seeds, {:.1} s", seed + 1, began.elapsed().as_secs_f64());
        }
    }
    println!("{total:#?}");
    // A simulator that meets no faults would find nothing and be green.
    for (what, times) in total.faults_met() {
        assert!(times > 0, "{seeds} seeds never met: {what}");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..10 {
        let (first, second) = (run(seed, TICKS, false), run(seed, TICKS, false));
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}");
        assert_eq!(first.tally, second.tally, "seed {seed}");
    }
}

#[test]
fn other_seeds_give_other_traces() {
    assert_ne!(run(1, TICKS, false).trace_hash, run(2, TICKS, false).trace_hash);
}
