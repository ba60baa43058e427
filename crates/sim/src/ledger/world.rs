//! The ledger's clients and oracle, and one tick of its process.
//!
//! ```text
//!   tick ─▶ process: messages, workers, auditors ─▶ wire: replies out, requests in ─▶ checks
//!                        │ disk stopped? rot met?
//!                        └──────────▶ crash, restart, restore (the harness) ──────────▶ the same clients ask again
//! ```

mod cut;
mod exchange;
mod floors;
mod follow;
mod inspection;
mod life;
mod mended;
mod peer_loss;
mod probe;
mod probe_settings;
mod process;
mod restore;
mod rollback;
mod wire;

use std::collections::BTreeMap;

use tidegate_journal::LogId;
use tidegate_ledger::LEDGER;
use tidegate_ledger::audit::audit_shard;
use tidegate_ledger::message::Reply;

use crate::chance::Chance;
use crate::harness::{End, Floor, Setup, Site, Store, StoreName, Workload, World};
use crate::ledger::client::Wishes;
use crate::ledger::model::Model;
use crate::ledger::network::Network;
use crate::ledger::node::{DIRECTORY_ID, Node, snapshots};
use crate::ledger::plan::{Plan, Weather};
use crate::ledger::requests::Requests;
use crate::note;
use crate::trace::Trace;
use crate::violation::Violation;
use follow::Follower;
use wire::Wire;

/// Ticks between two checks of the shards' memory.
const CUT_EVERY: u64 = 32;

/// The world of the ledger.
type LedgerWorld<S> = World<Ledger, S>;

/// Clients of the ledger, everything between them and the process, and what they were promised.
pub struct Ledger {
    plan: Plan,
    /// Whether clients that wait ask again although all is calm.
    finishing: bool,
    /// Wishes that clients made of their own.
    made: u64,
    weather: Weather,
    network: Network,
    wire: Wire,
    model: Model,
    wishes: Wishes,
    workload: Requests,
    /// How everything was at an earlier census, to be put back.
    copy: Option<rollback::OldCopy>,
    /// Somebody who follows the changes.
    follower: Follower,
    /// Answers to the wishes of the inspection.
    heard: BTreeMap<usize, Reply>,
}

impl<S: Store> Workload<S> for Ledger {
    const NAME: &'static str = "ledger";
    type Node = Node<S>;

    fn floors(store: StoreName) -> Vec<Floor> {
        floors::of(store)
    }

    fn draw(chance: &mut Chance, ticks: u64, _trace: &Trace) -> (Ledger, Setup) {
        let (plan, faults) = Plan::of(chance);
        let setup = Setup {
            families: vec![(LEDGER, plan.shards)],
            directory: DIRECTORY_ID,
            faults,
            tick_ms: plan.tick_ms,
            ticks,
        };
        let ledger = Ledger {
            finishing: false,
            made: 0,
            weather: plan.weather.clone(),
            network: Network::new(chance.branch()),
            wire: Wire::new(chance.branch()),
            model: Model::new(plan.shards),
            wishes: Wishes::default(),
            workload: Requests::new(chance.branch()),
            copy: None,
            follower: Follower::new(chance.branch()),
            heard: BTreeMap::new(),
            plan,
        };
        (ledger, setup)
    }

    fn start(&mut self, site: &mut Site<S>) -> Result<Node<S>, String> {
        if site.tick <= 1 {
            note!(site.trace, "{:?}", self.plan);
        }
        let workers = site.chance.within(1..=3) as u16;
        note!(site.trace, "with {workers} workers");
        Node::start(site, &self.plan, workers)
    }

    fn ended(&mut self, site: &mut Site<S>, end: End) {
        self.network.clear();
        self.follower.disconnect();
        if end == End::Stop {
            site.tally.add("a graceful stop", 1);
        }
    }

    fn tick(world: &mut LedgerWorld<S>) -> Result<(), Violation> {
        world.load.model.time_passes(world.site.clock.aged_ms(), world.site.clock.now_ms());
        world.run_process()?;
        world.carry()?;
        world.follow()?;
        if world.site.tick.is_multiple_of(CUT_EVERY) {
            world.check_cut()?;
        }
        Ok(())
    }

    fn is_quiet(world: &LedgerWorld<S>) -> bool {
        world.is_at_rest()
    }

    fn situation(world: &LedgerWorld<S>) -> String {
        let load = &world.load;
        let open: Vec<_> = load.wishes.open_wishes().take(3).collect();
        let node = match &world.node {
            None => "down".to_owned(),
            Some(node) => format!(
                "idle {}, settled {}, pending {:?}",
                node.is_idle(),
                node.has_settled(load.plan.shards),
                node.workers.iter().map(|worker| worker.pending()).collect::<Vec<_>>()
            ),
        };
        let (open_count, quiet) = (load.wishes.open(), load.network.is_quiet());
        format!("node {node}, rings quiet {quiet}, {open_count} requests unanswered, such as {open:?}")
    }

    fn check(world: &mut LedgerWorld<S>) -> Result<(), Violation> {
        world.inspect(true)
    }

    fn audit(&self, site: &Site<S>, log: LogId) -> Option<Vec<String>> {
        let snapshots = snapshots(&site.disk, log.shard);
        Some(match audit_shard(&site.store.logs(), &snapshots, self.plan.shards, |_, _| {}) {
            Ok(findings) => findings.problems,
            Err(error) => vec![error.to_string()],
        })
    }

    /// Censuses in between, and a reckoning at the end.
    fn run(world: &mut LedgerWorld<S>) -> Result<(), Violation> {
        let ended = world.run_ledger();
        let ids = world.load.model.ids() as u64;
        world.site.tally.add("an id", ids);
        let several = world.load.model.ids_of_several_spaces() as u64;
        world.site.tally.add("an id that several principals used, each for something", several);
        world.site.tally.add("a refusal whose funds were recomputed", world.load.model.refusals_checked());
        ended
    }
}
