//! The harness: one process in one thread from one seed, over a store that breaks its promises wherever real ones may.
//! A machine brings its clients and its oracle as a [`Workload`]; all else is here.
//!
//! ```text
//!   seed ─▶ Chance ─▶ Workload::draw ─▶ Setup: families, faults, ticks
//!                          │
//!   World = Site (clock, disk, store, trace, tally, damage) + Workload + its Node, while the process lives
//!                          │ each tick: faults ─▶ start? ─▶ Workload::tick ─▶ logs step ─▶ a shard stopped? why?
//!                          └─▶ a Violation: the seed, the promise, the last events, the command that shows it again
//! ```
//!
//! # Bringing a machine
//!
//! 1. If its shards are plain [`Shard`](tidegate_shard::Shard)s, its node is [`Shards`]: it opens, replays, steps,
//!    compacts and stops.
//! 2. A [`Workload`]: what a seed decides (`draw`), how the process starts, a tick of its clients, what must hold when
//!    all is quiet. What was answered is compared as it comes; [`must`](crate::violation::must) says which promise is
//!    broken.
//! 3. A test: [`check_seeds`] runs it on every kind of store and asserts that its faults were met. For a command line,
//!    [`cli`].
//!
//! `tests/harness.rs` of this crate does all three for a machine of its own.
//!
//! # What is checked here, whatever the machine
//!
//! * A process starts after any crash, or names the damage; it stops itself only for a fault of its store; a graceful
//!   stop ends well.
//! * An offline audit names all damage, and finds none where there is none.
//! * No code panics. The same seed gives the same trace.
//!
//! Invariant: nothing here knows a machine by name.

mod bad_sectors;
pub mod cli;
mod clock;
mod faults;
mod floor;
mod life;
mod lost_tail;
mod old_copy;
mod real_folder;
mod shards;
mod store;
mod tally;
mod workload;

use std::path::Path;

use tidegate_journal::disk::FakeDisk;
use tidegate_journal::{JournalError, Logs};

use crate::chance::Chance;
use crate::run::{self, Run};
use crate::trace::Trace;
use crate::violation::Violation;

pub use clock::Clock;
pub use faults::Faults;
pub use floor::Floor;
pub use old_copy::LogFiles;
pub use real_folder::RealFolder;
pub use shards::{Answered, Shards, audit_log};
pub use store::{DATA, End, LocalStore, Rot, STORES, Stepped, Store, StoreName, StreamStore};
pub use tally::Tally;
pub use workload::{Process, Setup, Workload};

/// Ticks of trouble that a run may have, unless told otherwise.
pub const TICKS: u64 = 4_000;

/// Where a process runs, and what is known of it outside of the process.
pub struct Site<S: Store> {
    /// Ticks so far.
    pub tick: u64,
    /// What time it is.
    pub clock: Clock,
    /// Chance for all that is not drawn from a branch.
    pub chance: Chance,
    /// What happened, line by line.
    pub trace: Trace,
    /// What happened, counted.
    pub tally: Tally,
    /// Files: snapshots and whatever else a machine keeps beside its logs.
    pub disk: FakeDisk,
    /// Logs.
    pub store: S,
    /// What the seed decided.
    pub setup: Setup,
    calm: bool,
    damage: faults::Damage,
}

/// The data directory on the fake disk.
pub fn data() -> &'static Path {
    Path::new(DATA)
}

/// The world of one seed.
pub struct World<W: Workload<S>, S: Store> {
    /// Where the process runs.
    pub site: Site<S>,
    /// The process, while it lives.
    pub node: Option<W::Node>,
    /// Clients and oracle.
    pub load: W,
    start_at: u64,
}

impl<W: Workload<S>, S: Store> World<W, S> {
    /// The world of `seed`, in which nothing has happened yet; `ticks` of trouble at most.
    pub fn new(seed: u64, ticks: u64, trace: Trace) -> Result<World<W, S>, Violation> {
        let mut chance = Chance::new(seed);
        let (load, setup) = W::draw(&mut chance, ticks, &trace);
        crate::note!(trace, "{setup:?}");
        let disk = FakeDisk::new(chance.number());
        let families: Vec<_> = setup.families.iter().map(|(family, _)| *family).collect();
        let store = S::new(&mut chance, &disk, &families);
        create(&store, &setup).map_err(|error| Violation::of("a data directory is made", error.to_string()))?;
        store.set_calm(false);
        let site = Site {
            tick: 0,
            clock: Clock::new(),
            chance,
            trace,
            tally: Tally::default(),
            disk,
            store,
            setup,
            calm: false,
            damage: faults::Damage::default(),
        };
        Ok(World { site, node: None, load, start_at: 0 })
    }
}

/// Creates the logs of a new data directory, as `Directory::open_or_create` does before it gives the directory its
/// name.
fn create<S: Store>(store: &S, setup: &Setup) -> Result<(), JournalError> {
    setup.logs().into_iter().try_for_each(|log| store.logs().create(log))
}

/// Runs one seed of `W` on the store `S` to its end; `aloud` prints every event.
pub fn run<W: Workload<S>, S: Store>(seed: u64, ticks: u64, aloud: bool) -> Run {
    run::run_in(seed, &W::replay(seed, S::NAME), aloud, |trace, tally| {
        let mut world = World::<W, S>::new(seed, ticks, trace)?;
        let ended = W::run(&mut world);
        world.site.count_faults_of_the_disk();
        *tally = std::mem::take(&mut world.site.tally);
        ended
    })
}

/// The same on the store of this name.
pub fn run_on<W: Workload<LocalStore> + Workload<StreamStore>>(
    store: StoreName,
    seed: u64,
    ticks: u64,
    aloud: bool,
) -> Run {
    match store {
        StoreName::Local => run::<W, LocalStore>(seed, ticks, aloud),
        StoreName::Stream => run::<W, StreamStore>(seed, ticks, aloud),
    }
}

/// Runs the seeds from 0 on, so many, on each kind of store. Panics, with the last events and the command that shows it
/// again, if one breaks a promise, if a floor was not met, or if a seed gives two traces.
pub fn check_seeds<W: Workload<LocalStore> + Workload<StreamStore>>(seeds: u64) {
    for store in STORES {
        let floors = match store {
            StoreName::Local => <W as Workload<LocalStore>>::floors(store),
            StoreName::Stream => <W as Workload<StreamStore>>::floors(store),
        };
        check_seeds_on::<W>(store, seeds, &floors);
    }
}

/// The same on one kind of store.
pub fn check_seeds_on<W: Workload<LocalStore> + Workload<StreamStore>>(store: StoreName, seeds: u64, floors: &[Floor]) {
    check_runs(<W as Workload<LocalStore>>::NAME, run_on::<W>, store, seeds, floors);
}

/// The same of whatever runs a seed.
pub fn check_runs(
    name: &str,
    run_on: fn(StoreName, u64, u64, bool) -> Run,
    store: StoreName,
    seeds: u64,
    floors: &[Floor],
) {
    run::hush_panics_in_runs();
    let mut total = Tally::default();
    for seed in 0..seeds {
        let run = run_on(store, seed, TICKS, false);
        if let Some(violation) = &run.violation {
            run::report_failure(&run, violation);
            panic!("seed {seed} on the {} store breaks a promise: {violation}", store.as_str());
        }
        if seed < 10 {
            let again = run_on(store, seed, TICKS, false);
            assert_eq!(run.trace_hash, again.trace_hash, "seed {seed} on the {} store", store.as_str());
            assert_eq!(run.tally, again.tally, "seed {seed} on the {} store", store.as_str());
        }
        total.merge(&run.tally);
    }
    println!("{}", floor::table(name, store, seeds, &total, floors));
    // A simulator that hardly meets faults would find nothing and be green.
    let below = floor::below(seeds, &total, floors);
    assert!(below.is_empty(), "{seeds} seeds on the {} store met too seldom: {}", store.as_str(), below.join("; "));
}
