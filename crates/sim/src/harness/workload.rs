//! What a machine brings to the harness.

use tidegate_journal::{Family, JournalError, LogId};

use super::faults::Faults;
use super::floor::Floor;
use super::store::{End, Store, StoreName};
use super::{Site, World};
use crate::chance::Chance;
use crate::trace::Trace;
use crate::violation::Violation;

/// A running process.
pub trait Process {
    /// Why one of its shards has stopped itself, in the words that an operator would read.
    fn failure(&self) -> Option<String>;

    /// Stops gracefully: everything submitted becomes durable, and each log is closed.
    fn stop(self) -> Result<(), JournalError>;
}

/// What a seed decides about the site before anything happens.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Families of logs, and the shards of each.
    pub families: Vec<(Family, u16)>,
    /// The random number of the data directory.
    pub directory: u64,
    /// How often things go wrong.
    pub faults: Faults,
    /// Simulated milliseconds of a tick.
    pub tick_ms: u64,
    /// Ticks of trouble, at most.
    pub ticks: u64,
}

impl Setup {
    /// All logs of the process, family by family.
    pub fn logs(&self) -> Vec<LogId> {
        let shards = self.families.iter().flat_map(|(family, shards)| (0..*shards).map(move |shard| (family, shard)));
        shards.map(|(family, shard)| family.log(self.directory, shard)).collect()
    }
}

/// Clients that ask a machine, and an oracle that knows what it promised. Everything follows from the seed.
///
/// ```text
///   draw ─▶ Setup, then for each tick of trouble:  faults ─▶ start? ─▶ tick ─▶ logs step ─▶ failures?
///   peace: nothing new goes wrong ─▶ tick … until is_quiet ─▶ check ─▶ stop, start ─▶ tick … until is_quiet ─▶ check
/// ```
///
/// `S` is the kind of store: a workload that does not look at it runs on all of them.
pub trait Workload<S: Store>: Sized {
    /// Its name, for traces and command lines.
    const NAME: &'static str;

    /// What the runs of many seeds must have met, as counted in [`super::Tally`], on a store of this kind. A simulation
    /// that meets no faults finds nothing and is green.
    fn floors(store: StoreName) -> Vec<Floor>;

    /// A running process.
    type Node: Process;

    /// Decides everything that a seed decides; `ticks` of trouble at most. What the oracle wants to tell goes into
    /// `trace`.
    fn draw(chance: &mut Chance, ticks: u64, trace: &Trace) -> (Self, Setup);

    /// Starts a process over what the store and the disk have. `Err` in the words that an operator would read.
    fn start(&mut self, site: &mut Site<S>) -> Result<Self::Node, String>;

    /// The process has ended, and its memory with it: connections are cut, messages between its threads are gone.
    fn ended(&mut self, _site: &mut Site<S>, _end: End) {}

    /// One tick of the process, if there is one, and of its clients.
    fn tick(world: &mut World<Self, S>) -> Result<(), Violation>;

    /// Whether clients have asked all that they want to.
    fn is_done(_world: &World<Self, S>) -> bool {
        false
    }

    /// Whether in peace everything on its way has arrived.
    fn is_quiet(world: &World<Self, S>) -> bool;

    /// What is still under way, for a person.
    fn situation(_world: &World<Self, S>) -> String {
        String::new()
    }

    /// Compares what there is with what was promised, when all is quiet.
    fn check(world: &mut World<Self, S>) -> Result<(), Violation>;

    /// What an audit of a log that nobody serves finds, in words; `None` if this machine has no such audit.
    fn audit(&self, _site: &Site<S>, _log: LogId) -> Option<Vec<String>> {
        None
    }

    /// A run from its first tick to its last. Only a workload that looks at everything in between has one of its own.
    fn run(world: &mut World<Self, S>) -> Result<(), Violation> {
        world.trouble()?;
        world.become_calm()?;
        world.come_to_quiet()?;
        Self::check(world)?;
        world.end(End::Stop)?;
        world.audit_offline()?;
        world.come_to_quiet()?;
        Self::check(world)
    }

    /// The command that runs this seed again.
    fn replay(seed: u64, store: StoreName) -> String {
        format!("make sim SEED={seed} WORLD={} STORE={}", Self::NAME, store.as_str())
    }
}
