//! Placeholder docs.
pub mod ask;
pub mod chance;
pub mod client;
pub mod model;
pub mod network;
pub mod node;
pub mod plan;
pub mod population;
pub mod trace;
pub mod violation;
pub mod workload;
pub mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use trace::Trace;
use violation::Violation;
use world::{Tally, World};

/// Ticks of trouble that a run may have.
pub const TICKS: u64 = 4_000;

/// How a run ended.
#[derive(Debug)]
pub struct Run {
    /// The seed.
    pub seed: u64,
    /// The promise that was broken, if one was.
    pub violation: Option<Violation>,
    /// What happened, counted.
    pub tally: Tally,
    /// Hash of all lines of the trace.
    pub trace_hash: u64,
    /// The last lines of the trace.
    pub last_lines: Vec<String>,
}

/// Runs one seed to its end.
pub fn run(seed: u64, ticks: u64, aloud: bool) -> Run {
    let trace = Trace::begin(seed, aloud);
    let mut tally = Tally::default();
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(seed, ticks, trace.clone())?;
        let ended = world.run();
        tally = world.tally();
        ended
    }));
    let violation = match ended {
        Ok(ended) => ended.err(),
        Err(panic) => {
            let words = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            Some(Violation::of("no code panics", words.unwrap_or("a panic without words")))
        }
    };
    Run { seed, violation, tally, trace_hash: trace.hash(), last_lines: trace.last_lines() }
}
