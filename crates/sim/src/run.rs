//! One run, from its seed to what a person is told of it.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::harness::Tally;
use crate::trace::Trace;
use crate::violation::Violation;

thread_local! {
    static IN_A_RUN: Cell<bool> = const { Cell::new(false) };
}

/// How a run ended.
#[derive(Debug)]
pub struct Run {
    /// The seed.
    pub seed: u64,
    /// The command that runs it again.
    pub replay: String,
    /// The promise that was broken, if one was.
    pub violation: Option<Violation>,
    /// What happened, counted.
    pub tally: Tally,
    /// Hash over all lines of the trace.
    pub trace_hash: u64,
    /// The last lines of the trace.
    pub last_lines: Vec<String>,
}

/// Runs a world and turns a panic in the code under test into a violation.
pub(crate) fn run_in(
    seed: u64,
    replay: &str,
    aloud: bool,
    live: impl FnOnce(Trace, &mut Tally) -> Result<(), Violation>,
) -> Run {
    let trace = Trace::begin(seed, replay, aloud);
    let mut tally = Tally::default();
    IN_A_RUN.set(true);
    let ended = catch_unwind(AssertUnwindSafe(|| live(trace.clone(), &mut tally)));
    IN_A_RUN.set(false);
    let violation = match ended {
        Ok(ended) => ended.err(),
        Err(panic) => {
            let words = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            Some(Violation::of("no code panics", words.unwrap_or("a panic without words")))
        }
    };
    let (replay, trace_hash, last_lines) = (trace.replay(), trace.hash(), trace.last_lines());
    Run { seed, replay, violation, tally, trace_hash, last_lines }
}

/// Tells a person what was broken, what happened before, and how to see it again.
pub fn report_failure(run: &Run, violation: &Violation) {
    report(run.seed, &run.replay, violation.property, &violation.detail, &run.last_lines);
}

/// Keeps panics silent that a run turns into a violation anyway; for tests that expect some.
pub fn hush_panics_in_runs() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let aloud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !IN_A_RUN.get() {
                aloud(panic);
            }
        }));
    });
}

/// Makes a panic on this thread tell the same; for builds in which a panic ends the process.
pub fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        if let Some(trace) = Trace::of_this_thread() {
            report(trace.seed(), &trace.replay(), "no code panics", &panic.to_string(), &trace.last_lines());
        }
    }));
}

fn report(seed: u64, replay: &str, property: &str, detail: &str, last_lines: &[String]) {
    eprintln!("the last events:");
    for line in last_lines {
        eprintln!("  {}", line.chars().take(400).collect::<String>());
    }
    eprintln!("seed {seed} breaks a promise\n  {property}\n  {detail}\nreplay it:  {replay}");
}
