//! The pacer of a node: the shards of campaigns, and the thread that moves money and plans.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tidegate_journal::{Family, Options};
use tidegate_machines::ShardIndex;
use tidegate_runtime::pump::{EdgeHandle, Pump};
use tidegate_runtime::{Address, Carries, Home, Room, Site};
use tokio::sync::watch;
use tokio::task::LocalSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::bidder::{Report, Update};
use crate::bidders::{
    BidderAnswer, BidderAsk, BidderClient, BidderMessage, BidderRequest, Busy, EdgeBidder, EdgeBidders,
};
use crate::control::{Control, ControlSettings};
use crate::decisions::{DecisionLog, DecisionWriter, Files, open_writer};
use crate::demo::Demo;
use crate::family::{CAMPAIGNS, CampaignClient, CampaignCommands, CampaignMessage, CampaignRequest, Serving};
use crate::frequency::FrequencyTable;
use crate::keeper::{Bidders, Keeper, LiveTable, Pieces, Shards, Treasury, Unsettled};
use crate::learned_file::{self, LearnedFile};
use crate::limits::{PacingDemoKeys, PacingKeys, SEGMENT_BYTES};
use crate::machine::{Allowed, Command, Outcome};
use crate::metrics::{CampaignMetrics, DecisionMetrics, PacerMetrics};
use crate::token::TokenKey;

/// How often bidders are told what has changed.
const ROUND: Duration = Duration::from_millis(20);
/// How often what was learned is saved.
const SAVE: Duration = Duration::from_secs(300);
/// After this, the recovery is tried again.
const RECOVER_AGAIN: Duration = Duration::from_millis(200);
/// How often the ledger is looked at, and money of unknown leases looked for in accounts that were not looked at yet.
const LOOK_EACH: Duration = Duration::from_secs(5);
/// What it has paid is asked for again then, if it has not answered.
const COUNT_AGAIN: Duration = Duration::from_millis(200);

/// As health answers name it.
const ROOM: &str = "pacing";

/// What the pacer's thread and its doors share.
#[derive(Clone)]
pub struct Shared {
    /// How campaigns are.
    pub live: LiveTable,
    /// What users have seen.
    pub users: Arc<FrequencyTable>,
    /// The bidders of the HTTP door: each of its threads tells of its own.
    pub edges: EdgeBidders,
}

/// How the pacer gets to the money of campaigns.
pub trait OpenTreasury<P>: Send {
    /// What it is then.
    type Treasury: Treasury + Send + 'static;

    /// Opens it for the thread that runs `pump`.
    fn open(self, site: &Site<P>, pump: &mut Pump<P>) -> Self::Treasury;
}

/// The pacer of a node.
pub struct PacerRoom<O> {
    keys: PacingKeys,
    demo: PacingDemoKeys,
    treasury: Option<O>,
    /// The port that has the bidders inside, by its number on each worker.
    port: u16,
    shared: Shared,
    stop: watch::Sender<bool>,
}

impl<O> PacerRoom<O> {
    /// A room that does as the keys say, with bidders inside of port number `port` of each worker, and those of the
    /// HTTP door.
    pub fn new(keys: &PacingKeys, demo: &PacingDemoKeys, treasury: O, port: u16, shared: Shared) -> PacerRoom<O> {
        let (keys, demo) = (keys.clone(), demo.clone());
        PacerRoom { keys, demo, treasury: Some(treasury), port, shared, stop: watch::channel(false).0 }
    }

    /// Starts the thread that writes the record of decisions, if one is wanted.
    fn begin_record<P: Send + 'static>(&self, site: &mut Site<P>) -> Result<Option<(DecisionWriter, DecisionMetrics)>> {
        if self.keys.decisions_bytes_max == 0 {
            return Ok(None);
        }
        let files = Files {
            folder: decisions_of(site.data()),
            bytes_max: self.keys.decisions_bytes_max,
            reserve_bytes: site.disk_reserve_bytes(),
        };
        let (writer, work) = open_writer(files);
        site.spawn("pacer-record".to_owned(), move || {
            work();
            Ok(())
        })?;
        Ok(Some((writer, DecisionMetrics::register(site.registry()))))
    }

    /// Starts the thread of the synthetic market.
    fn begin_demo<P>(&self, site: &mut Site<P>) -> Result<()>
    where
        P: Carries<CampaignMessage> + Carries<BidderMessage>,
    {
        let addresses = site.placement().shards(CAMPAIGNS);
        let shards = addresses.count();
        let bidders = bidders_of(site, self.port);
        let mut pump = Pump::new(site.take_endpoint(), site.status().clone());
        let demo = Demo {
            campaigns: pump.client(|_| CampaignClient::new(addresses)),
            bidders: pump.client(|_| BidderClient::new(bidders)),
            shards,
            tokens: tokens_of(site),
            account_prefix: self.keys.account_prefix.clone(),
            spend_prefix: self.keys.spend_prefix.clone(),
            day_ms: self.demo.day_s * 1_000,
        };
        let mut stop = self.stop.subscribe();
        site.spawn("pacing-demo".to_owned(), move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.context("a runtime for the synthetic market")?;
            let local = LocalSet::new();
            local.spawn_local(async move {
                tokio::select! {
                    _ = stop.wait_for(|stop| *stop) => {}
                    () = demo.run() => {}
                }
            });
            local.spawn_local(pump.run());
            runtime.block_on(local);
            Ok(())
        })
    }
}

/// Where bidders live.
pub fn bidders_of<P: Send + 'static>(site: &Site<P>, port: u16) -> Vec<Address> {
    (0..site.placement().workers()).map(|worker| Address::new(worker, port)).collect()
}

/// Where a data directory has the record of decisions.
pub fn decisions_of(data: &Path) -> PathBuf {
    data.join("pacer-decisions")
}

/// The key of tokens follows from that of the directory.
pub fn tokens_of<P: Send + 'static>(site: &Site<P>) -> TokenKey {
    TokenKey::derive(site.directory().key().expect("a directory that is served has a key").bytes())
}

/// A number by which the holds of this node differ from those of others in the ledger of one server, also where their
/// services share a space of ids. It follows from the key of the directory.
pub fn node_of<P: Send + 'static>(site: &Site<P>) -> u16 {
    let key = site.directory().key().expect("a directory that is served has a key").bytes();
    let [low, high, ..] = blake3::derive_key("tidegate pacer: node of holds, layout 1", key);
    u16::from_le_bytes([low, high])
}

/// The shards, as the thread asks them.
struct Handles {
    campaigns: EdgeHandle<CampaignClient>,
    bidders: EdgeHandle<BidderClient>,
    /// The bidders of the HTTP door, numbered behind those of the workers.
    edges: Vec<EdgeBidder>,
    of_workers: u16,
    shards: u16,
}

impl Shards for Rc<Handles> {
    fn count(&self) -> u16 {
        self.shards
    }

    fn ask(&self, shard: ShardIndex, command: Command) -> impl Future<Output = Result<Outcome, String>> + use<> {
        let asked = self.campaigns.ask(CampaignRequest { shard, command });
        async move {
            match asked.await {
                Ok(Ok(outcome)) => Ok(outcome),
                Ok(Err(unavailable)) => Err(format!("{unavailable:?}")),
                Err(unasked) => Err(format!("{unasked:?}")),
            }
        }
    }
}

impl Bidders for Rc<Handles> {
    fn exchange(&self, worker: u16, update: Update) -> impl Future<Output = Result<Report, Update>> + use<> {
        let asked = match worker.checked_sub(self.of_workers) {
            Some(edge) => Err(self.edges[usize::from(edge)].exchange(update.clone())),
            None => {
                let ask = BidderAsk::Exchange(Box::new(update.clone()));
                Ok(self.bidders.ask(BidderRequest { worker: worker.into(), ask }))
            }
        };
        async move {
            let asked = match asked {
                Ok(asked) => asked,
                Err(report) => return Ok(report),
            };
            match asked.await {
                Ok(Ok(BidderAnswer::Report(report))) => Ok(*report),
                Ok(Ok(other)) => unreachable!("an exchange is answered by a report: {other:?}"),
                Ok(Err(Busy(_))) | Err(_) => Err(update),
            }
        }
    }
}

impl<P, O> Room<P> for PacerRoom<O>
where
    P: Carries<CampaignMessage> + Carries<BidderMessage>,
    O: OpenTreasury<P> + 'static,
{
    fn families(&self) -> Vec<(Family, Home)> {
        vec![(CAMPAIGNS, Home::Member)]
    }

    fn endpoints(&self) -> u16 {
        1 + u16::from(self.demo.day_s > 0)
    }

    fn recover(&mut self, site: &mut Site<P>) -> Result<()> {
        let PacingKeys { campaigns_max, win_deadline_ms, .. } = self.keys;
        let campaigns_of_owner_max = self.keys.campaigns_of_owner_max();
        let allowed = Allowed { campaigns_max, campaigns_of_owner_max, win_deadline_ms };
        let serving = Serving { allowed, clock: site.clock().clone() };
        site.recover_direct::<CampaignCommands>(Options::small(SEGMENT_BYTES), &serving, |registry, shard| {
            let metrics = CampaignMetrics::register(registry, shard.0);
            let mut shown = None;
            metrics.campaigns_max.set(campaigns_max as i64);
            Box::new(move |shard, _| {
                let state = shard.state_ahead();
                // What has not changed is not added up again.
                if shown.replace(state.sequence()) != Some(state.sequence()) {
                    metrics.observe(state);
                }
            })
        })
    }

    fn begin(&mut self, site: &mut Site<P>) -> Result<()> {
        if self.demo.day_s > 0 {
            self.begin_demo(site)?;
        }
        let addresses = site.placement().shards(CAMPAIGNS);
        let shards = addresses.count();
        let bidders = bidders_of(site, self.port);
        // Every door is open by now.
        let edges = self.shared.edges.lock().expect("nobody panics with it").clone();
        let of_workers = bidders.len() as u16;
        let workers = of_workers + edges.len() as u16;
        let mut pump = Pump::new(site.take_endpoint(), site.status().clone());
        let campaigns = pump.client(|_| CampaignClient::new(addresses));
        let bidders = pump.client(|_| BidderClient::new(bidders));
        let treasury = self.treasury.take().expect("a room begins once").open(site, &mut pump);
        let PacingKeys { campaigns_max, lease_ms, win_deadline_ms, account_prefix, spend_prefix, .. } =
            self.keys.clone();
        let mut control = Control::new(ControlSettings { workers, lease_ms, win_deadline_ms });
        let writer = self.begin_record(site)?;
        if writer.is_some() {
            control = control.recording(DecisionLog::new(self.keys.decisions_bytes_max));
        }
        let Shared { live, users, .. } = self.shared.clone();
        let metrics = PacerMetrics::register(site.registry());
        let (stop, status) = (self.stop.subscribe(), site.status().clone());
        let learned = LearnedFile::of(site.data());
        site.spawn("pacer".to_owned(), move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.context("a runtime for the pacer")?;
            let handles = Rc::new(Handles { campaigns, bidders, edges, of_workers, shards });
            let mut keeper = Keeper::new(control, (handles.clone(), handles, treasury), Pieces::default(), live);
            if let Some((writer, metrics)) = writer {
                keeper = keeper.writing(writer, move |recorded, dropped| {
                    metrics.recorded.add(recorded);
                    metrics.dropped.add(dropped);
                });
            }
            let local = LocalSet::new();
            let shown = Cell::new(None);
            let show = move |keeper: &Keeper<_, _, _>| {
                metrics.users_forgotten.follow(users.forgotten());
                metrics.observe(keeper);
                let fault = fault_of(keeper);
                if shown.replace(fault) != fault {
                    status.set_room_fault(ROOM, fault);
                }
            };
            let learned = (learned, campaigns_max * usize::from(shards));
            local.spawn_local(keep(Rc::new(keeper), (account_prefix, spend_prefix), learned, show, stop));
            local.spawn_local(pump.run());
            runtime.block_on(local);
            // A thread that waits for the ledger of another server is not waited for.
            runtime.shutdown_background();
            Ok(())
        })
    }

    fn stop(&mut self) {
        // If the send fails, the thread has already ended.
        let _ = self.stop.send(true);
    }
}

/// What health answers say of it.
fn fault_of<S: Shards, B: Bidders, T: Treasury>(keeper: &Keeper<S, B, T>) -> Option<&'static str> {
    let Unsettled { refused, owed, .. } = keeper.unsettled();
    let all = [
        (keeper.is_ledger_other(), "ledger_other"),
        (keeper.is_ledger_away(), "ledger_away"),
        (refused > 0, "ledger_refuses"),
        (keeper.is_ledger_unread(), "ledger_unread"),
        (keeper.is_ledger_older(), "ledger_older"),
        (owed > 0, "unpaid"),
        (keeper.is_ledger_unremembered(), "ledger_unremembered"),
    ];
    all.into_iter().find(|(is_so, _)| *is_so).map(|(_, fault)| fault)
}

/// Keeps plans and money moving until the process stops, and calls `show` in each round. Leases that are open then are
/// settled by the next process, which knows what this one has learned.
async fn keep<S, B, T>(
    keeper: Rc<Keeper<S, B, T>>,
    (account_prefix, spend_prefix): (Box<str>, Box<str>),
    (file, campaigns_max): (LearnedFile, usize),
    show: impl Fn(&Keeper<S, B, T>),
    mut stop: watch::Receiver<bool>,
) where
    S: Shards + 'static,
    B: Bidders + 'static,
    T: Treasury + 'static,
{
    let is_recovered = Cell::new(false);
    let work = async {
        while let Err(why) = keeper.recover().await {
            tracing::debug!(why, "campaigns cannot be asked yet");
            tokio::time::sleep(RECOVER_AGAIN).await;
        }
        let others = keeper.control().borrow().with_other_accounts(&account_prefix, &spend_prefix);
        if let Some(first) = others.first() {
            tracing::warn!(
                campaigns = others.len(),
                "campaigns have accounts that do not begin with pacing.account_prefix or pacing.spend_prefix, such as \
                 {first:?}: they were made with other ones, and bid on; end them, or set the prefixes as they were"
            );
        }
        file.read(campaigns_max).into_iter().for_each(|learned| keeper.control().borrow_mut().relearn(learned));
        is_recovered.set(true);
        let rounds = async {
            let mut tick = every(ROUND);
            loop {
                tick.tick().await;
                keeper.round().await;
                show(&keeper);
            }
        };
        let money = async {
            let mut tick = every(ROUND);
            loop {
                tick.tick().await;
                keeper.move_money().await;
            }
        };
        let looking = async {
            let mut tick = every(LOOK_EACH);
            loop {
                tick.tick().await;
                keeper.look_at_ledger().await;
                keeper.give_back_unknown().await;
            }
        };
        let counting = async {
            while !keeper.count_paid().await {
                tokio::time::sleep(COUNT_AGAIN).await;
            }
        };
        let saving = async {
            let mut tick = every(SAVE);
            // The first one is at once.
            tick.tick().await;
            loop {
                tick.tick().await;
                let (bytes, file) = (learned_file::gathered(keeper.control()).await, file.clone());
                let written = tokio::task::spawn_blocking(move || file.write(&bytes));
                written.await.expect("to write a file does not panic");
            }
        };
        tokio::join!(rounds, money, saving, looking, counting)
    };
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => {}
        _ = work => {}
    }
    // Else the file says more than is known here.
    if is_recovered.get() {
        file.write(&learned_file::all(&keeper.control().borrow()));
    }
}

fn every(period: Duration) -> tokio::time::Interval {
    let mut tick = interval(period);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tick
}
