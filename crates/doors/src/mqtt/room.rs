//! MQTT as a room of a node: opens listeners, recovers topic shards, makes a port for each worker.
//!
//! ```text
//!   open     listeners                      recover   topics-n ─▶ shards, kept for their workers
//!   port     broker over the shards of its worker, sockets of all listeners
//! ```

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use tidegate_broker::topics::{log_options, open_shard};
use tidegate_broker::{Broker, BrokerOptions, Holdings, RightsOf, SharedFacts, TOPICS, TopicShard, TopicsFamily};
use tidegate_journal::{Family, LogStore};
use tidegate_ledger::room;
use tidegate_ledger::router::Router;
use tidegate_machines::ShardIndex;
use tidegate_pacer::family::{CAMPAIGNS, CampaignClient};
use tidegate_queue::{QUEUES, QueueClient};
use tidegate_runtime::recovery::NodeLog;
use tidegate_runtime::{Address, Home, Parker, Port, Room, ShardMetrics, Site};
use tidegate_shard::{NothingDerived, Owners};
use tidegate_telemetry::Registry;

use super::feeds::{FeedSource, Feeds};
use super::metrics::{BrokerMetrics, MqttMetrics, NodeMqttMetrics};
use super::port::{CarriesMqtt, MqttParts, MqttPort};
use super::settings::{MqttAuthenticator, MqttSettings};
use super::verdicts::Verdicts;
use super::{Admission, ListenerIndex};
use crate::ledger_topics::{LedgerTopics, PREFIX, REQUEST_TOPICS};
use crate::listener::listen;
use crate::pacer_topics::{PACER_TOPICS, PacerTopics};
use crate::queue_topics::QUEUE_TOPICS;
use crate::refusal_metrics::RefusalMetrics;
use crate::request_metrics::RequestMetrics;
use crate::websocket::WebSocketDoor;

/// What `$SYS/broker/version` says.
const VERSION: &str = concat!("tidegate version ", env!("CARGO_PKG_VERSION"));

/// Shards that are recovered and wait for their ports.
type RecoveredShards = Arc<Mutex<BTreeMap<ShardIndex, (TopicShard<NodeLog>, ShardMetrics)>>>;

/// What the MQTT ports of all workers share, and how each of them is made.
pub struct MqttRoom {
    settings: MqttSettings,
    authenticator: Arc<dyn MqttAuthenticator>,
    admission: Arc<Admission>,
    facts: Arc<SharedFacts>,
    holdings: Arc<Holdings>,
    /// Reads what clients follow.
    feeds: Option<Arc<dyn FeedSource>>,
    /// The number of its port on each worker.
    port: u16,
    /// Per listener, one socket per worker.
    listeners: Vec<Vec<TcpListener>>,
    shards: RecoveredShards,
}

impl MqttRoom {
    /// A room whose ports stand at place `port` on each of `workers` workers.
    pub fn new(settings: MqttSettings, authenticator: Arc<dyn MqttAuthenticator>, port: u16, workers: u16) -> MqttRoom {
        let admission = Admission::new(settings.admission.clone(), &settings.listener_limits(), workers);
        MqttRoom {
            admission: Arc::new(admission.behind(settings.proxies.clone())),
            facts: Arc::new(SharedFacts::new(workers)),
            holdings: Arc::new(Holdings::new(settings.holdings)),
            authenticator,
            feeds: None,
            settings,
            port,
            listeners: Vec::new(),
            shards: RecoveredShards::default(),
        }
    }

    /// Lets `source` read what clients follow.
    #[must_use]
    pub fn following(self, source: Arc<dyn FeedSource>) -> MqttRoom {
        MqttRoom { feeds: Some(source), ..self }
    }

    /// Opens the listeners, for so many workers. Gives their names and addresses.
    pub(super) fn listen(&mut self, workers: u16) -> io::Result<Vec<(Box<str>, SocketAddr)>> {
        let mut addresses = Vec::new();
        for listener in &self.settings.listeners {
            let sockets = listen(listener.address, workers.into())?;
            addresses.push((listener.name.clone(), sockets[0].local_addr()?));
            self.listeners.push(sockets);
        }
        Ok(addresses)
    }

    /// Makes the port at `me` over its worker's `shards`. To be called for each worker once.
    pub(super) fn assemble<L: LogStore>(
        &mut self,
        me: Address,
        owners: &Owners,
        shards: (Vec<TopicShard<L>>, Vec<ShardMetrics>),
        parker: Arc<Parker>,
        clients: (Router, QueueClient, CampaignClient),
        registry: &Registry,
    ) -> Result<MqttPort<L>> {
        assert!(me.member.0 == self.port, "parcels for shards of topics go to this port");
        let (worker, (router, queues, campaigns)) = (me.endpoint.0, clients);
        let options = BrokerOptions {
            worker,
            owners: owners.clone(),
            limits: self.settings.limits.clone(),
            facts: self.facts.clone(),
            holdings: self.holdings.clone(),
            seed: getrandom::u64().context("cannot draw a random number")?,
            request_topics: REQUEST_TOPICS.into_iter().chain(PACER_TOPICS).map(Into::into).collect(),
            feeds: self.feeds.as_ref().map_or_else(Box::default, |source| source.prefix().into()),
            // Each shard of the ledger has a journal of its own.
            feed_partitions: router.shard_count(),
            queues: QUEUE_TOPICS,
            version: VERSION,
        };
        let (shards, shard_metrics) = shards;
        // One worker announces, and each knows the subscriptions of all.
        let mut broker = Broker::watching(options, shards, if worker == 0 { PREFIX } else { "" });
        let authenticator = self.authenticator.clone();
        broker.ask_rights_by(RightsOf(Arc::new(move |principal| authenticator.rights_of(principal))));
        Ok(MqttPort::new(MqttParts {
            me,
            workers: owners.workers(),
            broker,
            shard_metrics,
            listeners: self.listeners.iter_mut().map(|sockets| sockets.pop().expect("one for each worker")).collect(),
            settings: self.settings.clone(),
            admission: self.admission.clone(),
            facts: self.facts.clone(),
            authenticator: self.authenticator.clone(),
            verdicts: Verdicts::new(parker.clone()),
            feeds: Feeds::new(me, self.feeds.clone(), parker),
            ledger: LedgerTopics::new(router.shard_count()),
            router,
            queues,
            pacer: PacerTopics::new(me, campaigns, self.settings.plan_rules.clone()),
            metrics: MqttMetrics::register(registry, worker),
            refused: RefusalMetrics::register(registry, "mqtt", worker),
            broker_metrics: BrokerMetrics::register(registry, worker),
            requests: RequestMetrics::register(registry, "mqtt"),
            of_node: (worker == 0).then(|| (NodeMqttMetrics::register(registry), self.holdings.clone())),
        }))
    }

    /// MQTT over WebSocket, for the HTTP door.
    pub fn websocket(&self) -> Option<WebSocketDoor> {
        let settings = self.settings.websocket.clone()?;
        let listener = ListenerIndex(self.settings.listeners.len() as u8);
        Some(WebSocketDoor::new(settings, self.admission.clone(), listener))
    }
}

impl<P: CarriesMqtt> Room<P> for MqttRoom {
    fn families(&self) -> Vec<(Family, Home)> {
        vec![(TOPICS, Home::Port(self.port))]
    }

    fn has_port(&self) -> bool {
        true
    }

    fn open(&mut self, site: &mut Site<P>) -> Result<()> {
        for (name, address) in self.listen(site.placement().workers())? {
            site.listening(&name, address);
        }
        let facts = self.facts.clone();
        site.status().count_clients_by(move || facts.sum().clients_connected);
        let admission = self.admission.clone();
        site.status().overloaded_by(move || admission.is_overloaded());
        Ok(())
    }

    fn recover(&mut self, site: &mut Site<P>) -> Result<()> {
        let logs: Vec<_> = site.directory().logs(TOPICS).collect();
        for log in logs {
            let (limits, recovered_shards) = (self.settings.inbox.clone(), self.shards.clone());
            site.recover_inside::<TopicsFamily>(log, log_options(), move |recovery| {
                let back = recovery.replay(recovery.open()?, &mut NothingDerived)?;
                let recovered = (open_shard(back, limits)?, recovery.into_metrics());
                recovered_shards.lock().expect("no recovery panicked").insert(ShardIndex(log.shard), recovered);
                Ok(())
            })?;
        }
        Ok(())
    }

    fn port(&mut self, site: &mut Site<P>, me: Address) -> Result<Box<dyn Port<P>>> {
        let owners = site.placement().owners(TOPICS);
        let mut recovered_shards = std::mem::take(&mut *self.shards.lock().expect("recovery is over"));
        let own =
            owners.on(me.endpoint.0).map(|shard| recovered_shards.remove(&shard).expect("every shard is recovered"));
        let own = own.unzip();
        // The others wait for the next call.
        *self.shards.lock().expect("recovery is over") = recovered_shards;
        let parker = site.parker(me.endpoint).clone();
        let placement = site.placement();
        let queues = QueueClient::new(placement.shards(QUEUES));
        let clients = (room::client(site, me), queues, CampaignClient::new(placement.shards(CAMPAIGNS)));
        Ok(Box::new(self.assemble(me, &owners, own, parker, clients, site.registry())?))
    }
}
