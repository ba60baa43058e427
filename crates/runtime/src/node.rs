//! One process: recovers its rooms, places them on workers, starts them, and stops them in the right order.
//!
//! ```text
//!   directory ─▶ Room::open (edges answer "recovering") ─▶ Room::recover ─▶ place ─▶ spawn ─▶ Room::begin ─▶ serving
//!                                                                                                              │ stop
//!   close logs ◀─ workers end ◀─ background threads end ◀─ edges drain ◀───────────────────────────────────────┘
//! ```
//!
//! Invariant: a room adds itself through [`Room`] and [`Site`]; nothing here names one.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use tidegate_journal::directory::Directory;
use tidegate_journal::disk::RealDisk;
use tidegate_journal::witness::{WITNESSED, Witness, check_folder, had_witnesses};
use tidegate_journal::{Family, LogId, Logs, Options, Retention};
use tidegate_machines::ShardIndex;
use tidegate_shard::{Commands, DecidedOf, NothingDerived, Shard, ShardFamily, Single, Snapshots};
use tidegate_telemetry::Registry;

use crate::address::{Address, Carries, EndpointIndex};
use crate::clock::NodeClock;
use crate::direct::{self, Direct, DirectProtocol};
use crate::disk_room::WatchedRoom;
use crate::log_checks::{AnotherRefused, LogChecks};
use crate::log_ends::LogEnd;
use crate::log_keeper::{LogKeeper, Scrubbed};
use crate::member::Resident;
use crate::mesh::{Endpoint, Parker, mesh};
use crate::metrics::{ScrubMetrics, ShardMetrics};
use crate::placement::Placement;
use crate::recovery::{NodeLog, NodeLogs, NodeReader, Recovery};
use crate::scrub::LogScrub;
use crate::shard_resident::{OnTick, ShardResident};
use crate::snapshot_watch::SnapshotWatch;
use crate::start_clock::{self, Told};
use crate::status::{Phase, Status};
use crate::threads::{join, now_ms, pin, spawn};
use crate::witness::Witnessed;
use crate::worker::Worker;

mod log_threads;
mod placing;
mod room;

use log_threads::{keep_logs, watch_directory, witness_logs};
use placing::place;

pub use room::Room;

/// How often the progress of the recovery is reported.
const PROGRESS_EVERY: Duration = Duration::from_millis(20);

/// What a node is started with, whatever its rooms are.
pub struct NodeOptions {
    /// Worker threads.
    pub workers: u16,
    /// Declares all metrics; what counts registers here.
    pub registry: Registry,
    /// The folder of the logs' witnesses, on another disk than the data directory; `None` for no witnesses.
    pub witness: Option<PathBuf>,
    /// Bytes a second, at most, that are read again of logs to find damage; zero for none.
    pub scrub_bytes_per_s: u64,
    /// Bytes of the data directory's disk that logs leave free, for what makes room on it; zero for none.
    pub disk_reserve_bytes: u64,
}

/// A node while it is built: what its rooms find, and what they leave.
pub struct Site<P> {
    data: PathBuf,
    directory: Directory,
    families: Vec<Family>,
    placement: Placement,
    status: Arc<Status>,
    clock: Arc<NodeClock>,
    registry: Registry,
    parkers: Vec<Arc<Parker>>,
    /// Of workers.
    endpoints: Vec<Endpoint<P>>,
    /// Of other threads, until a room takes them.
    others: Vec<Endpoint<P>>,
    recovering: Vec<Recovering<P>>,
    threads: Vec<JoinHandle<Result<()>>>,
    listening: Vec<(Box<str>, SocketAddr)>,
    log_keeper: LogKeeper,
    witness: Option<PathBuf>,
    /// Whether all logs may be opened.
    log_checks: Arc<LogChecks>,
    /// What times the logs know, as they are recovered.
    told: (Sender<Told>, Receiver<Told>),
    /// Logs with a witness, as they are recovered.
    witnessed: (Sender<Witnessed>, Receiver<Witnessed>),
    /// Where logs end, as they are recovered.
    ended: (Sender<LogEnd>, Receiver<LogEnd>),
    /// Logs whose room on the disk is watched, as they are recovered.
    rooms_watched: (Sender<WatchedRoom>, Receiver<WatchedRoom>),
    scrub_bytes_per_s: u64,
    disk_reserve_bytes: u64,
}

/// A shard that is recovered, and what it becomes: a member at this address, or nothing that a worker must know.
type Recovering<P> = JoinHandle<Result<Option<Member<P>>>>;

/// A member and where it lives.
type Member<P> = (Address, Box<dyn Resident<P>>);

impl<P: Send + 'static> Site<P> {
    fn new(options: &NodeOptions, directory: Directory, rooms: &[Box<dyn Room<P>>]) -> Site<P> {
        let mut ports = 0;
        let mut families = Vec::new();
        for room in rooms {
            let of_room = room.families();
            families.extend(of_room.into_iter().map(|(family, home)| (family, directory.shards(family), home)));
            ports += u16::from(room.has_port());
        }
        let others: u16 = rooms.iter().map(|room| room.endpoints()).sum();
        let mut endpoints = mesh(options.workers, others);
        let others = endpoints.split_off(options.workers.into());
        let logs: Vec<LogId> = families.iter().flat_map(|(family, ..)| directory.logs(*family)).collect();
        Site {
            data: directory.path().to_owned(),
            placement: Placement::spread(options.workers, ports, &families),
            families: families.into_iter().map(|(family, ..)| family).collect(),
            status: Arc::new(Status::new(logs)),
            clock: Arc::new(NodeClock::start()),
            directory,
            registry: options.registry.clone(),
            parkers: endpoints.iter().map(|endpoint| endpoint.parker().clone()).collect(),
            endpoints,
            others,
            recovering: Vec::new(),
            threads: Vec::new(),
            listening: Vec::new(),
            log_keeper: LogKeeper::default(),
            log_checks: Arc::default(),
            witness: options.witness.clone(),
            witnessed: channel(),
            ended: channel(),
            told: channel(),
            rooms_watched: channel(),
            scrub_bytes_per_s: options.scrub_bytes_per_s,
            disk_reserve_bytes: options.disk_reserve_bytes,
        }
    }

    /// The data directory.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Bytes of its disk that are left free.
    pub fn disk_reserve_bytes(&self) -> u64 {
        self.disk_reserve_bytes
    }

    /// The directory, which this process has locked.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Where all shards live.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Takes over the reading of a log from the log keeper; to be called when the log was recovered.
    pub fn take_scrub(&mut self, log: LogId) -> Option<Scrubbed> {
        self.log_keeper.leave(log)
    }

    /// Bytes a second that may be read again to find damage.
    pub fn scrub_bytes_per_s(&self) -> u64 {
        self.scrub_bytes_per_s
    }

    /// What the process is doing.
    pub fn status(&self) -> &Arc<Status> {
        &self.status
    }

    /// The time of the node, the same that its workers have.
    pub fn clock(&self) -> &Arc<NodeClock> {
        &self.clock
    }

    /// Where metrics are registered.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Wakes a worker.
    pub fn parker(&self, worker: EndpointIndex) -> &Arc<Parker> {
        &self.parkers[usize::from(worker.0)]
    }

    /// Takes one of the endpoints that [`Room::endpoints`] asked for.
    pub fn take_endpoint(&mut self) -> Endpoint<P> {
        let endpoint = self.others.remove(0);
        self.parkers.push(endpoint.parker().clone());
        endpoint
    }

    /// Starts a thread, which ends when the process stops; see [`Status::is_stopping`] and [`Room::stop`].
    pub fn spawn(&mut self, name: String, run: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
        self.threads.push(spawn(name, run)?);
        Ok(())
    }

    /// Says where clients can connect.
    pub fn listening(&mut self, name: &str, address: SocketAddr) {
        self.listening.push((name.into(), address));
    }

    /// Another reader of a log.
    pub fn reader(&self, log: LogId) -> Result<NodeReader> {
        Ok(self.logs().reader(log)?)
    }

    /// Recovers a shard on a thread of its own; it becomes the member of its worker that `then` makes.
    pub fn recover_member<F: ShardFamily>(
        &mut self,
        log: LogId,
        journal: Options,
        then: impl FnOnce(Recovery<F>) -> Result<Box<dyn Resident<P>>> + Send + 'static,
    ) -> Result<()>
    where
        Recovery<F>: Send,
    {
        let address = self.placement.of(F::FAMILY, ShardIndex(log.shard));
        assert!(self.placement.are_members(F::FAMILY), "shards of {} live in a port", F::FAMILY.name);
        self.recover(log, journal, move |recovery| Ok(Some((address, then(recovery)?))))
    }

    /// Recovers a shard on a thread of its own; `then` hands it over to the port that will have it inside.
    pub fn recover_inside<F: ShardFamily>(
        &mut self,
        log: LogId,
        journal: Options,
        then: impl FnOnce(Recovery<F>) -> Result<()> + Send + 'static,
    ) -> Result<()>
    where
        Recovery<F>: Send,
    {
        assert!(!self.placement.are_members(F::FAMILY), "shards of {} are members", F::FAMILY.name);
        self.recover(log, journal, move |recovery| then(recovery).map(|()| None))
    }

    /// Recovers all shards of a family whose calls are single commands and that is spoken to directly; see
    /// [`crate::direct`]. Decisions see `context`; `on_tick` makes what each shard does now and then.
    pub fn recover_direct<C>(
        &mut self,
        journal: Options,
        context: &C::Context,
        mut on_tick: impl FnMut(&Registry, ShardIndex) -> OnTick<Single<C>, NodeLog>,
    ) -> Result<()>
    where
        C: Commands<Ticket = direct::Ticket, Context: Clone + Send> + 'static,
        P: Carries<Direct<Single<C>>>,
        Single<C>: Send,
        C::Command: Send,
        DecidedOf<C>: Send,
        Recovery<C::Family>: Send,
        ShardResident<Single<C>, NodeLog, DirectProtocol>: Resident<P> + 'static,
    {
        let logs: Vec<_> = self.directory.logs(C::Family::FAMILY).collect();
        for log in logs {
            let index = ShardIndex(log.shard);
            let (context, on_tick) = (context.clone(), on_tick(&self.registry, index));
            self.recover_member::<C::Family>(log, journal, move |recovery| {
                let back = recovery.replay(recovery.open()?, &mut NothingDerived)?;
                let shard = Shard::new(index, back.state, Single::<C>::new(context), back.log)?;
                let resident = ShardResident::new(shard, DirectProtocol, recovery.into_metrics());
                Ok(Box::new(resident.on_tick(on_tick)))
            })?;
        }
        Ok(())
    }

    fn recover<F: ShardFamily>(
        &mut self,
        log: LogId,
        journal: Options,
        then: impl FnOnce(Recovery<F>) -> Result<Option<Member<P>>> + Send + 'static,
    ) -> Result<()>
    where
        Recovery<F>: Send,
    {
        let owner = self.placement.of(F::FAMILY, ShardIndex(log.shard)).endpoint;
        let recovery = Recovery::<F> {
            logs: self.logs(),
            data: self.data.clone(),
            snapshots: self.snapshots(log),
            journal: Options { reserve_bytes: self.disk_reserve_bytes, ..journal },
            shards: self.directory.shards(F::FAMILY),
            parker: self.parker(owner).clone(),
            status: self.status.clone(),
            metrics: ShardMetrics::register(&self.registry, F::FAMILY.name, log.shard),
            began: Instant::now(),
            check: self.log_checks.add(),
            told: self.told.0.clone(),
            witness: self
                .witness
                .as_ref()
                .map(|folder| (Witness::new(RealDisk, folder, &F::FAMILY, log), self.witnessed.0.clone())),
            ended: self.ended.0.clone(),
            room: self.rooms_watched.0.clone(),
        };
        if F::FAMILY.retention == Retention::SinceSnapshot {
            let (shards, watch) = (self.directory.shards(F::FAMILY), self.snapshot_watch(F::FAMILY.name, log));
            self.log_keeper.keep_short(self.snapshots::<F>(log), self.reader(log)?, shards, watch);
        }
        let scrub = LogScrub::new(F::FAMILY.name, log, self.reader(log)?, self.status.damages().clone());
        let metrics = ScrubMetrics::register(&self.registry, F::FAMILY.name, log.shard);
        self.log_keeper.scrub(Scrubbed::new(scrub, metrics));
        let name = format!("recover-{}-{}", F::FAMILY.name, log.shard);
        self.recovering.push(spawn(name, move || then(recovery))?);
        Ok(())
    }

    /// Whom to tell how the writing of a log's snapshots goes. To be called once for each log.
    pub fn snapshot_watch(&self, family: &'static str, log: LogId) -> SnapshotWatch {
        SnapshotWatch::new(family, log, self.status.clone(), &self.registry)
    }

    /// The snapshots of a log, with the key that the directory had when it was opened.
    fn snapshots<F: ShardFamily>(&self, log: LogId) -> Snapshots<F, RealDisk> {
        Snapshots::new(RealDisk, &self.data, log).with_key(self.directory.key())
    }

    fn logs(&self) -> NodeLogs {
        NodeLogs::new(RealDisk, &self.data, &self.families).mending(self.status.damages().mending())
    }
}

/// A running node.
pub struct Node<P> {
    rooms: Vec<Box<dyn Room<P>>>,
    status: Arc<Status>,
    parkers: Vec<Arc<Parker>>,
    workers: Vec<JoinHandle<Result<()>>>,
    threads: Vec<JoinHandle<Result<()>>>,
    listening: Vec<(Box<str>, SocketAddr)>,
    /// Tells the witnesses, until its sender is let go of.
    witness: Option<WitnessThread>,
    /// To be recorded when the logs are closed.
    ends: Vec<LogEnd>,
    /// Its lock is held as long as the node runs.
    _directory: Directory,
}

impl<P: Send + 'static> Node<P> {
    /// Starts everything; returns when the node serves. `progress` is called now and then while the logs are replayed.
    pub fn start(
        options: &NodeOptions,
        directory: Directory,
        mut rooms: Vec<Box<dyn Room<P>>>,
        progress: &mut dyn FnMut(&Status),
    ) -> Result<Node<P>> {
        match &options.witness {
            Some(folder) => check_folder(&RealDisk, folder).map_err(|error| anyhow!("data.witness: {error}"))?,
            None => warn_of_unasked_witnesses(directory.path())?,
        }
        let mut site = Site::new(options, directory, &rooms);
        rooms.iter_mut().try_for_each(|room| room.open(&mut site))?;
        let begun = rooms.iter_mut().try_for_each(|room| room.recover(&mut site));
        site.log_checks.close();
        begun?;
        let residents = recovered(&mut site, progress)?;
        let told: Vec<Told> = site.told.1.try_iter().collect();
        start_clock::check(&told, now_ms(), &site.data)?;
        told.iter().for_each(Told::say_over);
        let workers = place(&mut site, &mut rooms, residents, &told)?;
        let workers = spawn_all(workers)?;
        rooms.iter_mut().try_for_each(|room| room.begin(&mut site))?;
        keep_logs(&mut site)?;
        watch_directory(&mut site)?;
        let witness = witness_logs(&site)?;
        site.status.serve();
        Ok(Node {
            rooms,
            status: site.status,
            parkers: site.parkers,
            workers,
            threads: site.threads,
            listening: site.listening,
            witness,
            ends: site.ended.1.try_iter().collect(),
            _directory: site.directory,
        })
    }

    /// Where clients can connect, by the doors' names.
    pub fn listening(&self) -> &[(Box<str>, SocketAddr)] {
        &self.listening
    }

    /// What the process is doing.
    pub fn status(&self) -> &Arc<Status> {
        &self.status
    }

    /// Finishes what was accepted, syncs, closes the logs.
    pub fn stop(mut self) -> Result<()> {
        self.status.stop();
        self.rooms.iter_mut().for_each(|room| room.stop());
        self.parkers.iter().for_each(|parker| parker.wake());
        // Those who ask end before those who answer.
        let mut ended: Vec<Result<()>> = self.threads.into_iter().map(join).collect();
        self.status.let_workers_end();
        self.parkers.iter().for_each(|parker| parker.wake());
        ended.extend(self.workers.into_iter().map(join));
        // The logs are closed: this is how far they are durable.
        self.ends.iter().for_each(LogEnd::record);
        if let Some((running, thread)) = self.witness {
            drop(running);
            ended.push(join(thread));
        }
        ended.into_iter().collect::<Result<Vec<()>>>()?;
        match self.status.phase() {
            Phase::Failed => Err(anyhow!("a journal failed: {}", self.status.failure())),
            _ => Ok(()),
        }
    }
}

/// Waits for the recovery of all logs. Gives the members that came of it, in the order of their addresses.
fn recovered<P: Send + 'static>(site: &mut Site<P>, progress: &mut dyn FnMut(&Status)) -> Result<Vec<Member<P>>> {
    while site.recovering.iter().any(|thread| !thread.is_finished()) {
        progress(&site.status);
        std::thread::sleep(PROGRESS_EVERY);
    }
    progress(&site.status);
    let (mut residents, mut refused) = (Vec::new(), None);
    for recovered in site.recovering.drain(..).map(join) {
        match recovered {
            Ok(member) => residents.extend(member),
            // Of many errors, one that says what is wrong.
            Err(error) => match &refused {
                None => refused = Some(error),
                Some(known) if known.is::<AnotherRefused>() => refused = Some(error),
                Some(_) => {}
            },
        }
    }
    if let Some(refused) = refused {
        return Err(refused);
    }
    residents.sort_by_key(|(address, _)| *address);
    Ok(residents)
}

/// Says so if logs had witnesses and the configuration names none any more: what only they can prove stays unknown.
fn warn_of_unasked_witnesses(data: &Path) -> Result<()> {
    if had_witnesses(&RealDisk, data)? {
        let marks = data.join(WITNESSED).display().to_string();
        tracing::warn!(
            marks,
            "the logs of this directory had witnesses, and data.witness is not configured: nobody asks them whether \
             records are lost. Configure it again, or remove the folder of marks if they are given up"
        );
    }
    Ok(())
}

fn spawn_all<P: Send + 'static>(workers: Vec<Worker<P>>) -> Result<Vec<JoinHandle<Result<()>>>> {
    let count = workers.len();
    let numbered = workers.into_iter().enumerate();
    let spawned = numbered.map(|(number, worker)| {
        spawn(format!("worker-{number}"), move || {
            pin(number, count);
            worker.run()
        })
    });
    spawned.collect()
}

/// The thread that tells the witnesses, and what ends it when it is dropped.
type WitnessThread = (Sender<()>, JoinHandle<Result<()>>);
