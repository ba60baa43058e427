//! One Tidegate process: opens the data directory, replays it, starts all threads, and ends them in the right order.
//!
//! ```text
//!   open directory ─▶ listen ─▶ edges answer "recovering" ─▶ replay all shards ─▶ workers ─▶ seeds ─▶ serving
//!                                                                                               │ stop
//!   close logs ◀─ workers ◀─ auditor ◀─ edges drain ◀──────────────────────────────────────────┘
//! ```

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU16;
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use tidegate_broker::TOPICS;
use tidegate_journal::directory::{Directory, ShardCount, Wanted};
use tidegate_journal::disk::RealDisk;
use tidegate_journal::{LocalLogs, LogId};
use tidegate_ledger::LEDGER;
use tidegate_ledger::message::Request;
use tidegate_ledger::router::CursorKey;
use tidegate_ledger::worker::Worker;
use tidegate_machines::ShardIndex;
use tidegate_telemetry::Registry;
use tokio::sync::watch;

use crate::audit_loop::{AuditLoop, AuditedLog, Schedule};
use crate::auth::Authenticator;
use crate::background::Background;
use crate::binary::port::BinaryPort;
use crate::binary::{BINARY, BinaryMetrics};
use crate::edge::edge;
use crate::http::{Edge, EdgeOptions, HttpLimits};
use crate::ledger_http::LedgerRoom;
use crate::listener::listen;
use crate::log_keeper::LogKeeper;
use crate::mesh::{Bed, mesh};
use crate::metrics::{LedgerShardMetrics, NodeMetrics, WorkerMetrics};
use crate::mqtt::{MqttFloor, MqttSettings};
use crate::recovery::{FAMILIES, LocalFetchers, LocalShard, RecoveredShard, recover_all};
use crate::status::{Phase, Status};
use crate::worker_thread::{Farewell, LoopMetrics, WorkerThread, now_ms};

type ServerTls = Option<Arc<rustls::ServerConfig>>;

/// What a node is started with.
pub struct NodeOptions {
    /// The data directory; created if it does not exist.
    pub data: PathBuf,
    /// Shards of a new directory; an existing one must have as many.
    pub shards: u16,
    /// Bytes of one journal segment.
    pub segment_bytes: u64,
    /// Memory of the filters over ids, over all shards.
    pub ids_filter_bytes_max: usize,
    /// Worker threads.
    pub workers: u16,
    /// Edge threads.
    pub edges: u16,
    /// Address of the HTTP door; `None` keeps it shut.
    pub http: Option<SocketAddr>,
    /// Address of the binary door; `None` keeps it shut.
    pub binary: Option<SocketAddr>,
    /// TLS of the HTTP door.
    pub http_tls: ServerTls,
    /// TLS of the binary door.
    pub binary_tls: ServerTls,
    /// Bounds of an edge thread.
    pub http_limits: HttpLimits,
    /// Binary connections per worker.
    pub binary_connections_max: usize,
    /// The MQTT port; `None` keeps it shut.
    pub mqtt: Option<MqttSettings>,
    /// Paths that need no token.
    pub open_paths: Vec<Box<str>>,
    /// When to audit.
    pub schedule: Schedule,
    /// What to ask of the ledger before anyone else may.
    pub seed: Vec<Request>,
    /// Declares all metrics; what counts registers here, and `/metrics` shows it.
    pub registry: Registry,
}

/// A running node.
pub struct Node {
    status: Arc<Status>,
    stop_edges: watch::Sender<bool>,
    beds: Vec<Arc<Bed>>,
    edges: Vec<JoinHandle<Result<()>>>,
    workers: Vec<JoinHandle<Result<()>>>,
    background: Option<JoinHandle<Result<()>>>,
    keeper: Option<JoinHandle<Result<()>>>,
    http: Option<SocketAddr>,
    binary: Option<SocketAddr>,
    mqtt: Vec<(Box<str>, SocketAddr)>,
    directory: Directory,
}

/// Tells the key of cursors from other uses of the directory's id.
const CURSORS: u64 = u64::from_le_bytes(*b"cursors\0");

impl Node {
    /// Starts everything; returns when the node serves. `authenticator` is asked for when the directory is locked, because that may
    /// hold the key that signs tokens. `progress` is called now and then while the journals are replayed.
    pub fn start(
        options: NodeOptions,
        authenticator: impl FnOnce() -> Result<Arc<Authenticator>>,
        progress: &mut dyn FnMut(&Status),
    ) -> Result<Node> {
        let topic_shards = options.mqtt.as_ref().map_or(options.workers, |mqtt| mqtt.topic_shards);
        let wanted = [
            Wanted { family: LEDGER, shards: options.shards, count: ShardCount::Fixed { setting: "data.shards" } },
            Wanted { family: TOPICS, shards: topic_shards, count: ShardCount::Kept },
        ];
        let directory = Directory::open_or_create(&options.data, &wanted, now_ms().0)?;
        let topic_shards = directory.shards(TOPICS);
        let authenticator = authenticator()?;
        // The directory's random id: cursors outlive a restart, and nobody outside knows it.
        let cursors = CursorKey([directory.id(), CURSORS]);
        let status = Arc::new(Status::new(options.shards + topic_shards));
        let metrics = Arc::new(NodeMetrics::new(options.registry.clone()));

        let edge_count = if options.http.is_some() { options.edges } else { 0 };
        let mut endpoints = mesh(options.workers, edge_count + 1);
        let background =
            Background::new(endpoints.pop().expect("the last one"), options.shards, options.workers, cursors);
        let edge_endpoints = endpoints.split_off(options.workers as usize);
        let mut beds: Vec<Arc<Bed>> = endpoints.iter().map(|endpoint| endpoint.bed().clone()).collect();
        beds.push(background.bed());

        let http_listeners = options.http.map(|address| listen(address, edge_count as usize)).transpose()?;
        let binary_listeners = options.binary.map(|address| listen(address, options.workers as usize)).transpose()?;
        let bound = |listeners: &Option<Vec<std::net::TcpListener>>| {
            listeners.as_ref().map(|all| all[0].local_addr()).transpose()
        };
        let (http, binary) = (bound(&http_listeners)?, bound(&binary_listeners)?);
        let floor = options.mqtt.clone().map(|settings| {
            MqttFloor::open(settings, authenticator.clone(), options.workers, topic_shards, options.shards)
        });
        let mut floor = floor.transpose()?;
        if let Some(floor) = &floor {
            status.set_brokers(floor.facts().clone());
        }

        let (stop_edges, stop) = watch::channel(false);
        let mut edges = Vec::new();
        for (number, (endpoint, listener)) in
            edge_endpoints.into_iter().zip(http_listeners.unwrap_or_default()).enumerate()
        {
            let (backend, pump) =
                edge(endpoint, options.shards, options.workers, cursors, status.clone(), metrics.clone());
            let edge = EdgeOptions {
                listener,
                tls: options.http_tls.clone(),
                authenticator: authenticator.clone(),
                operations: Arc::new(backend.clone()),
                rooms: vec![Box::new(LedgerRoom::new(backend.clone(), metrics.ledger_http.clone()))],
                limits: options.http_limits,
                metrics: metrics.http.clone(),
                open_paths: options.open_paths.clone(),
                upgrade: floor
                    .as_ref()
                    .and_then(MqttFloor::websocket)
                    .map(|door| door.handing_to(move |arrival| backend.adopt(arrival))),
                stop: stop.clone(),
            };
            let edge = Edge::open(edge)?;
            edges.push(spawn(format!("edge-{number}"), move || Ok(edge.serve(pump.run())?))?);
        }

        let recovered = recover_all(&options, &directory, &beds, &status, &metrics, progress)?;
        let mut audited = Vec::new();
        let ledger = directory.logs(LEDGER).zip(recovered.ledger).map(|(log, shard)| {
            let RecoveredShard { shard, fetchers, recovered, reader, metrics } = shard;
            audited.push(AuditedLog { log, reader, recovered });
            ServedShard { shard, fetchers, metrics }
        });
        let shards_of = share_out(ledger.collect(), options.workers, |recovered| recovered.shard.index());
        let topics_of = share_out(recovered.topics, options.workers, |recovered| recovered.shard.index());
        let mut binary_listeners = binary_listeners.unwrap_or_default().into_iter();
        let quiet = Arc::new(AtomicU16::new(0));
        let mut workers = Vec::new();
        for (number, (endpoint, (shards, topics))) in
            endpoints.into_iter().zip(shards_of.into_iter().zip(topics_of)).enumerate()
        {
            let port_metrics = BinaryMetrics::register(&metrics.registry, BINARY, number);
            let turns = LoopMetrics::register(&metrics.registry, number);
            let mut fetchers = Vec::new();
            let (shards, shard_metrics): (Vec<_>, Vec<_>) = shards
                .into_iter()
                .map(|served| {
                    fetchers.push(served.fetchers);
                    (served.shard, served.metrics)
                })
                .unzip();
            let (topics, topic_metrics): (Vec<_>, Vec<_>) =
                topics.into_iter().map(|recovered| (recovered.shard, recovered.metrics)).unzip();
            let mqtt = floor
                .as_mut()
                .map(|floor| floor.port(number as u16, topics, endpoint.bed().clone(), &metrics.registry));
            let port = BinaryPort::new(
                binary_listeners.next(),
                options.binary_tls.clone(),
                authenticator.clone(),
                options.binary_connections_max,
                port_metrics,
            );
            let worker = Worker::new(endpoint.index(), options.shards, options.workers, cursors, shards);
            let thread = WorkerThread::new(
                worker,
                fetchers,
                port,
                mqtt.transpose()?,
                endpoint,
                status.clone(),
                quiet.clone(),
                options.workers,
                WorkerMetrics::new(turns, shard_metrics, topic_metrics),
                Farewell::of(options.mqtt.as_ref()),
            )?;
            workers.push(spawn(format!("worker-{number}"), move || {
                pin(number);
                thread.run()
            })?);
        }

        let mut node = Node {
            status: status.clone(),
            stop_edges,
            beds,
            edges,
            workers,
            background: None,
            keeper: None,
            http,
            binary,
            mqtt: floor.map(|floor| floor.addresses().to_vec()).unwrap_or_default(),
            directory,
        };
        let background = node.seed(background, options.seed)?;
        let audits = AuditLoop::open(background, &options.data, audited, options.schedule);
        node.background = Some(spawn("background".into(), move || {
            audits.run(&|| status.is_stopping());
            Ok(())
        })?);
        let logs = LocalLogs::new(RealDisk, &options.data, &FAMILIES);
        let topics: Vec<LogId> = node.directory.logs(TOPICS).filter(|_| options.mqtt.is_some()).collect();
        let all: Vec<LogId> = node.directory.logs(LEDGER).chain(topics.iter().copied()).collect();
        let keeper = LogKeeper::open(&options.data, &logs, &topics, &all)?;
        let status = node.status.clone();
        node.keeper = Some(spawn("log-keeper".into(), move || {
            keeper.run(&|| status.is_stopping());
            Ok(())
        })?);
        node.status.serve();
        Ok(node)
    }

    /// Asks the seeds of the ledger, through the same rings as everyone.
    fn seed(&self, mut background: Background, seed: Vec<Request>) -> Result<Background> {
        use tidegate_ledger::message::Reply;
        use tidegate_machines::ledger::Outcome;
        for request in seed {
            let asked = format!("{request:?}");
            match background.request(request, &|| false) {
                Some(Reply::AccountOpened { .. }) => {}
                Some(Reply::Outcomes(outcomes)) if outcomes.iter().all(|o| !matches!(o, Outcome::Refused(_))) => {}
                // Not a reason to keep everybody out: somebody may have used a seed's id, or opened its account otherwise.
                Some(other) => tracing::error!(asked, answer = ?other, "a seed of the configuration was refused"),
                None => return Err(anyhow!("the shards did not answer {asked}")),
            }
        }
        Ok(background)
    }

    /// Where HTTP is served.
    pub fn http(&self) -> Option<SocketAddr> {
        self.http
    }

    /// Where the binary port is served.
    pub fn binary(&self) -> Option<SocketAddr> {
        self.binary
    }

    /// Where MQTT is served over TCP, by the listeners' names.
    pub fn mqtt(&self) -> &[(Box<str>, SocketAddr)] {
        &self.mqtt
    }

    /// What the process is doing.
    pub fn status(&self) -> &Arc<Status> {
        &self.status
    }

    /// Finishes what was accepted, syncs, closes the logs.
    pub fn stop(self) -> Result<()> {
        self.status.stop();
        // Whoever listens has already ended if the send fails.
        let _ = self.stop_edges.send(true);
        self.beds.iter().for_each(|bed| bed.wake());
        let mut ended: Vec<Result<()>> = self.edges.into_iter().map(join).collect();
        ended.extend(self.background.map(join));
        ended.extend(self.keeper.map(join));
        self.status.let_workers_end();
        self.beds.iter().for_each(|bed| bed.wake());
        ended.extend(self.workers.into_iter().map(join));
        ended.into_iter().collect::<Result<Vec<()>>>()?;
        match self.status.phase() {
            Phase::Failed => Err(anyhow!("a journal failed: {}", self.status.failure())),
            _ => Ok(()),
        }
    }
}

/// A shard of the ledger on its way to its worker.
struct ServedShard {
    shard: LocalShard,
    fetchers: LocalFetchers,
    metrics: LedgerShardMetrics,
}

/// Shard n belongs to worker n modulo their number.
fn share_out<S>(shards: Vec<S>, workers: u16, index: impl Fn(&S) -> ShardIndex) -> Vec<Vec<S>> {
    let mut shares: Vec<Vec<S>> = (0..workers).map(|_| Vec::new()).collect();
    for shard in shards {
        shares[(index(&shard).0 % workers) as usize].push(shard);
    }
    shares
}

/// Pins the calling thread to the `number`-th core it may run on, if there is one for it.
fn pin(number: usize) {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    if let Some(core) = cores.get(number) {
        core_affinity::set_for_current(*core);
    }
}

pub(crate) fn spawn<T: Send + 'static>(
    name: String,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name.clone()).spawn(run).with_context(|| format!("cannot start thread {name}"))
}

pub(crate) fn join<T>(thread: JoinHandle<Result<T>>) -> Result<T> {
    thread.join().map_err(|_| anyhow!("a thread panicked"))?
}
