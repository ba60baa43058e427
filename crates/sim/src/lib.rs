//! A whole node in one thread from one seed: the real shards, journals, recovery, id indexes, snapshots and auditors, over a
//! disk that breaks its promises wherever real ones may, with a simulated clock, and with clients that never believe silence.
//!
//! ```text
//!   seed ─▶ Chance ─┬─▶ Plan: shards, clients, sizes, which faults
//!                   ├─▶ Workload ─▶ clients ─▶ wire (late, lost, doubled) ─▶ Worker / Router ─▶ Shard ─▶ StepLog ─┐
//!                   │                  ▲                                       └─ rings (late) ─┘   └▶ IdIndex ─▶ FakeDisk
//!                   ├─▶ faults: power, kill, torn sectors, failed sync, full disk, rot, clock jumps ────────────────┘
//!                   └─▶ Trace ─▶ hash: the same seed, the same bytes
//!                                      │
//!   Model ◀── what was asked, what was answered ──▶ "breaks a promise", with the seed
//! ```
//!
//! # A failure, and what to do with it
//!
//! ```text
//!   the last events:
//!     1700000000142 send 182 wish 168 Transfers { … }
//!     …
//!   seed 64 breaks a promise
//!     an id stands for one content
//!     c0-79 Content { debit: "wallet:credit-1", … } was answered Refused(InsufficientFunds { available: 7 }), known: None
//!   replay it:  make sim SEED=64
//! ```
//!
//! 1. `make sim SEED=64` prints every event of that run, the same each time. The number in front is simulated milliseconds.
//! 2. Search it for the id (`c0-79`): `send` is a client's request with its token, `hear` the answer to that token. Two
//!    sends of one wish are a retry; an answer that is missing was lost with a crash or on the wire.
//! 3. Around it stands what the machine did: `log 1 Synced` (a journal's sync), `the process ends by Power` (a crash; what was
//!    not synced is lost, kept or torn), `the process starts`, with what recovery found per shard, `audit`, `snapshot`.
//! 4. The first line is the plan of the seed: how many shards, which sizes, and how often each fault happens (absent if 0).
//! 5. The property in the second line is checked where its words stand in the source: in [`model`] for what a client can see, in
//!    [`world`] for the rest.
//!
//! # What is checked
//!
//! * At every answer: the same id has the same answer; an id stands for one content; nothing is applied twice, nor answered
//!   before it was asked; a refusal has its reason; reads are never older than what was seen or acknowledged before; history rows
//!   lead from balance to balance and never change.
//! * Every few ticks, in memory: every shard is balanced by itself; what one shard sent and another has not applied is on its way;
//!   no wallet is below zero or below what is held.
//! * In a census, some times in a run and at its end, when all is quiet: every account is read through the door with its whole history.
//!   Every acknowledged transfer is there once, every refused one is not, figures are the sums of rows, all balances of an asset
//!   sum up to zero, open holds are what is held.
//! * At the end: every request ever made is made again and gets the answer it got; all holds expire; online and offline audits
//!   agree; the node stops gracefully and starts once more.
//! * Damage: a journal that rots is refused at the start or stops its shard, and the offline audit names the segment. Nothing else
//!   may stop a shard or keep a node from starting.
//!
//! # What is not real
//!
//! Threads (a node here takes turns: workers, the journals' companions, the ids' builders), rings (messages are carried, in order
//! per pair), sockets, and the data directory's lock and description. Loom checks the rings, the kill test the whole binary.
//!
//! Invariant: nothing here decides about money. The oracle knows promises only.

pub mod ask;
pub mod chance;
pub mod client;
pub mod gateway;
pub mod model;
pub mod network;
pub mod node;
pub mod plan;
pub mod population;
pub mod trace;
pub mod violation;
pub mod workload;
pub mod world;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use trace::Trace;
use violation::Violation;
use world::{Tally, World};

thread_local! {
    static IN_A_RUN: Cell<bool> = const { Cell::new(false) };
}

/// Ticks of trouble that a run may have, unless told otherwise.
pub const TICKS: u64 = 4_000;

/// How a run ended. `T` counts what happened in its world.
#[derive(Debug)]
pub struct Run<T> {
    /// The seed.
    pub seed: u64,
    /// The command that runs it again.
    pub replay: String,
    /// The promise that was broken, if one was.
    pub violation: Option<Violation>,
    /// What happened, counted.
    pub tally: T,
    /// Hash over all lines of the trace.
    pub trace_hash: u64,
    /// The last lines of the trace.
    pub last_lines: Vec<String>,
}

/// Runs one seed of the ledger's world to its end, with `ticks` ticks of trouble at most; `aloud` prints every event.
pub fn run(seed: u64, ticks: u64, aloud: bool) -> Run<Tally> {
    run_in("ledger", seed, aloud, |trace, tally| {
        let mut world = World::new(seed, ticks, trace)?;
        let ended = world.run();
        *tally = world.tally();
        ended
    })
}

/// Runs one seed of the gateway's world to its end; `aloud` prints every event.
pub fn run_gateway(seed: u64, aloud: bool) -> Run<gateway::Tally> {
    run_in("gateway", seed, aloud, |trace, tally| {
        let mut world = gateway::World::new(seed, trace);
        let ended = world.run();
        *tally = world.tally();
        ended
    })
}

/// Runs a world and turns a panic in the code under test into a violation.
fn run_in<T: Default>(
    world: &'static str,
    seed: u64,
    aloud: bool,
    live: impl FnOnce(Trace, &mut T) -> Result<(), Violation>,
) -> Run<T> {
    let trace = Trace::begin(seed, world, aloud);
    let mut tally = T::default();
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
pub fn report_failure<T>(run: &Run<T>, violation: &Violation) {
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
