//! The simulated world: one node, its clients, its disk and its clock, advanced tick by tick from one stream of chance.
//!
//! ```text
//!   tick ─▶ faults ─▶ process: messages, workers, journals, auditors ─▶ wire: replies out, requests in ─▶ checks
//!                        │ disk stopped? sync failed? rot met?
//!                        └──────────▶ crash, restart, restore ──────────▶ the same clients ask again
//! ```

mod cut;
mod faults;
mod inspection;
mod life;
mod process;
mod wire;

use std::collections::BTreeMap;
use std::path::Path;

use tidegate_journal::disk::FakeDisk;
use tidegate_ledger::message::Reply;

use crate::chance::Chance;
use crate::client::Wishes;
use crate::model::Model;
use crate::network::Network;
use crate::node::{self, Node};
use crate::plan::{Plan, Weather};
use crate::trace::Trace;
use crate::violation::Violation;
use crate::workload::Workload;
use faults::Damage;
use wire::Wire;

/// When the simulated clock begins: late 2023, in milliseconds.
const BEGINNING_MS: u64 = 1_700_000_000_000;

/// Ticks between two checks of the shards' memory.
const CUT_EVERY: u64 = 32;

/// What happened in a run, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Ticks.
    pub ticks: u64,
    /// Requests that were sent, repeats included.
    pub sends: u64,
    /// Answers that clients heard.
    pub answers: u64,
    /// Transfer and hold ids.
    pub ids: u64,
    /// Starts of the process.
    pub starts: u64,
    /// Crashes: power failures and kills.
    pub crashes: u64,
    /// Starts that were refused because of damage.
    pub refused_starts: u64,
    /// Shards that stopped themselves.
    pub stopped_shards: u64,
    /// Bits that rotted and files that were cut.
    pub rot: u64,
    /// Offline audits that found planted damage.
    pub damage_found: u64,
    /// Requests refused because the disk was full.
    pub disk_full: u64,
    /// Reconciliations that ended.
    pub audits: u64,
    /// Snapshots written.
    pub snapshots: u64,
    /// Censuses that were compared.
    pub censuses: u64,
    /// Credits that went from shard to shard.
    pub credits: u64,
    /// Reads that shards had others do for them.
    pub jobs: u64,
    /// Times the clock jumped.
    pub clock_jumps: u64,
}

impl Tally {
    /// Adds up the counts of two runs.
    pub fn add(&mut self, other: &Tally) {
        for (sum, more) in self.counts().into_iter().zip(other.clone().counts()) {
            *sum += *more;
        }
    }

    /// What a set of runs should have met, with how often it did.
    pub fn faults_met(&self) -> [(&'static str, u64); 12] {
        [
            ("a crash", self.crashes),
            ("a start refused because of damage", self.refused_starts),
            ("a shard that stopped itself", self.stopped_shards),
            ("rot", self.rot),
            ("an offline audit that found damage", self.damage_found),
            ("a full disk", self.disk_full),
            ("a reconciliation", self.audits),
            ("a snapshot", self.snapshots),
            ("a census", self.censuses),
            ("a credit between shards", self.credits),
            ("a read by another thread", self.jobs),
            ("a clock jump", self.clock_jumps),
        ]
    }

    fn counts(&mut self) -> [&mut u64; 17] {
        let Tally {
            ticks,
            sends,
            answers,
            ids,
            starts,
            crashes,
            refused_starts,
            stopped_shards,
            rot,
            damage_found,
            disk_full,
            audits,
            snapshots,
            censuses,
            credits,
            jobs,
            clock_jumps,
        } = self;
        [
            ticks,
            sends,
            answers,
            ids,
            starts,
            crashes,
            refused_starts,
            stopped_shards,
            rot,
            damage_found,
            disk_full,
            audits,
            snapshots,
            censuses,
            credits,
            jobs,
            clock_jumps,
        ]
    }
}

/// Everything there is.
pub struct World {
    plan: Plan,
    trace: Trace,
    chance: Chance,
    tick: u64,
    tick_limit: u64,
    now_ms: u64,
    /// The latest time the clock ever showed.
    latest_ms: u64,
    /// Whether the clock stands still, so that no hold expires between two reads of a census.
    clock_stands: bool,
    /// Whether clients only wait, and nothing new goes wrong.
    calm: bool,
    /// Whether clients that wait ask again although all is calm.
    finishing: bool,
    /// Wishes that clients made of their own.
    made: u64,
    weather: Weather,
    disk: FakeDisk,
    node: Option<Node>,
    /// When a process that is down is started again.
    start_at: u64,
    network: Network,
    wire: Wire,
    model: Model,
    wishes: Wishes,
    workload: Workload,
    /// Answers to the wishes of the inspection.
    heard: BTreeMap<usize, Reply>,
    damage: Damage,
    tally: Tally,
}

impl World {
    /// The world of a seed, in which nothing has happened yet. It may have `tick_limit` ticks at most.
    pub fn new(seed: u64, tick_limit: u64, trace: Trace) -> Result<World, Violation> {
        let mut chance = Chance::new(seed);
        let plan = Plan::of(&mut chance);
        trace.note(format_args!("{plan:?}"));
        let disk = FakeDisk::new(chance.number());
        node::create(&disk, plan.shards)
            .map_err(|error| Violation::of("a data directory is made", error.to_string()))?;
        Ok(World {
            tick: 0,
            tick_limit,
            now_ms: BEGINNING_MS,
            latest_ms: BEGINNING_MS,
            clock_stands: false,
            calm: false,
            finishing: false,
            made: 0,
            weather: plan.weather.clone(),
            disk,
            node: None,
            start_at: 0,
            network: Network::new(chance.branch()),
            wire: Wire::new(chance.branch()),
            model: Model::new(plan.shards),
            wishes: Wishes::default(),
            workload: Workload::new(chance.branch()),
            heard: BTreeMap::new(),
            damage: Damage::new(plan.shards),
            tally: Tally::default(),
            plan,
            trace,
            chance,
        })
    }

    /// What was counted so far.
    pub fn tally(&self) -> Tally {
        Tally { ticks: self.tick, ids: self.model.ids() as u64, ..self.tally }
    }

    /// Lets one tick pass.
    fn tick(&mut self) -> Result<(), Violation> {
        self.tick += 1;
        if !self.clock_stands {
            self.now_ms += self.plan.tick_ms;
        }
        self.latest_ms = self.latest_ms.max(self.now_ms);
        self.trace.at(self.now_ms);
        if !self.calm {
            self.something_goes_wrong()?;
        }
        self.run_process()?;
        self.carry()?;
        if self.tick.is_multiple_of(CUT_EVERY) {
            self.check_cut()?;
        }
        Ok(())
    }

    /// Ticks until `done`, at most `budget` times; a violation of `property` if that is not enough.
    fn tick_until(
        &mut self,
        property: &'static str,
        budget: u64,
        done: impl Fn(&World) -> bool,
    ) -> Result<(), Violation> {
        for _ in 0..budget {
            if done(self) {
                return Ok(());
            }
            self.tick()?;
        }
        Err(Violation::of(property, format!("not within {budget} quiet ticks: {}", self.situation())))
    }

    /// What is still under way, for a person.
    fn situation(&self) -> String {
        let open: Vec<_> = self.wishes.open_wishes().take(3).collect();
        let node = match &self.node {
            None => "down".to_owned(),
            Some(node) => format!(
                "idle {}, settled {}, pending {:?}",
                node.is_idle(),
                node.has_settled(self.plan.shards),
                node.workers.iter().map(|worker| worker.pending()).collect::<Vec<_>>()
            ),
        };
        let (open_count, quiet) = (self.wishes.open(), self.network.is_quiet());
        format!("node {node}, rings quiet {quiet}, {open_count} requests unanswered, such as {open:?}")
    }
}

/// The data directory.
fn data() -> &'static Path {
    Path::new(node::DATA)
}
