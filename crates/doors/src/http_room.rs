//! The HTTP door as a room of a node: its listener and its edge threads. They answer "recovering" until the node
//! serves.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use anyhow::Result;
use tidegate_broker::TOPICS;
use tidegate_ledger::LEDGER;
use tidegate_ledger::changes::ChangeLogs;
use tidegate_ledger::operation::Message;
use tidegate_ledger::room;
use tidegate_ledger::room::OperationClient;
use tidegate_runtime::pump::Pump;
use tidegate_runtime::recovery::NodeReader;
use tidegate_runtime::{Address, Carries, Room, Site};
use tokio::sync::watch;

use crate::admission::Arrival;
use crate::auth::Authenticator;
use crate::edge::{ArrivalClient, ChangeReaderMetrics, EdgeBackend, EdgeChanges, NodeOperations};
use crate::http::{Cors, DemoShow, Edge, EdgeOptions, HttpLimits, HttpMetrics, HttpProxies, HttpRoom, Upgrade};
use crate::ledger_http::{LedgerHttpMetrics, LedgerRoom};
use crate::listener::listen;
use crate::operator::{OperatorClient, OperatorMessage};
use crate::operator_http::OperatorHttp;
use crate::refusal_metrics::RefusalMetrics;
use crate::request_metrics::RequestMetrics;
use crate::stream::DoorTls;
use crate::websocket::WebSocketDoor;

/// What the HTTP door is told.
pub struct HttpSettings {
    /// Where it listens.
    pub address: SocketAddr,
    /// Certificates; `None` for plain HTTP.
    pub tls: Option<DoorTls>,
    /// Load balancers that say whose connections and requests they forward.
    pub proxies: HttpProxies,
    /// Edge threads.
    pub edges: u16,
    /// Bounds of an edge thread.
    pub limits: HttpLimits,
    /// Paths that need no token.
    pub open_paths: Vec<Box<str>>,
    /// Which web pages of others may ask.
    pub cors: Cors,
    /// What the pages of `/demo` show.
    pub demo: Arc<DemoShow>,
}

/// MQTT over WebSocket, and where its connections go.
pub struct WebSockets {
    /// The door.
    pub door: WebSocketDoor,
    /// The number of the MQTT port on each worker.
    pub port: u16,
}

/// Brings a room to the door of one edge thread. The pump gives it clients of its shards.
pub type OpenHttpRoom<P> = Box<dyn Fn(&Site<P>, &mut Pump<P>) -> Box<dyn HttpRoom> + Send>;

/// The HTTP door of a node.
pub struct HttpDoor<P> {
    settings: HttpSettings,
    authenticator: Arc<Authenticator>,
    websockets: Option<WebSockets>,
    rooms: Vec<OpenHttpRoom<P>>,
    stop: watch::Sender<bool>,
}

/// The ledger at the HTTP door, and its journals.
pub fn open_ledger<P: Carries<Message>>(changes: Arc<ChangeLogs<NodeReader>>, limits: &HttpLimits) -> OpenHttpRoom<P> {
    let readers_max = limits.change_streams_max + limits.change_pages_max;
    let (metrics, readers) = (OnceLock::new(), OnceLock::new());
    Box::new(move |site, pump| {
        let metrics = metrics.get_or_init(|| LedgerHttpMetrics::register(site.registry()));
        let names = pump.client(|me| OperationClient::new(me, site.placement().shards(LEDGER)));
        let readers = readers.get_or_init(|| ChangeReaderMetrics::register(site.registry(), "http"));
        let status = site.status().clone();
        let changes = EdgeChanges::new(changes.clone(), names, status, readers_max, readers.clone());
        let backend = EdgeBackend { ledger: pump.client(|me| room::client(site, me)), changes };
        Box::new(LedgerRoom::new(backend, metrics.clone()))
    })
}

/// What operators see and do of MQTT, at the HTTP door; its port has this number on each worker.
pub fn open_operator<P: Carries<OperatorMessage>>(port: u16) -> OpenHttpRoom<P> {
    Box::new(move |site, pump| {
        let placement = site.placement();
        let ports = (0..placement.workers()).map(|worker| Address::new(worker, port)).collect();
        let shards = placement.shards(TOPICS);
        Box::new(OperatorHttp(pump.client(|_| OperatorClient::new(ports, shards))))
    })
}

impl<P: Carries<Box<Arrival>>> HttpDoor<P> {
    /// A door that does as `settings` say and serves `rooms`.
    pub fn new(
        settings: HttpSettings,
        authenticator: Arc<Authenticator>,
        websockets: Option<WebSockets>,
        rooms: Vec<OpenHttpRoom<P>>,
    ) -> HttpDoor<P> {
        HttpDoor { settings, authenticator, websockets, rooms, stop: watch::channel(false).0 }
    }

    /// Who takes connections that become WebSockets: the MQTT ports of the workers, in turn.
    fn upgrade(&self, site: &Site<P>, pump: &mut Pump<P>) -> Option<Arc<dyn Upgrade>> {
        let WebSockets { door, port } = self.websockets.as_ref()?;
        let workers = site.placement().workers();
        let ports = (0..workers).map(|worker| Address::new(worker, *port)).collect();
        let arrivals = pump.client(|_| ArrivalClient::new(ports));
        Some(door.clone().handing_to(move |arrival| arrivals.tell(arrival)))
    }
}

impl<P: Carries<Box<Arrival>>> Room<P> for HttpDoor<P> {
    fn endpoints(&self) -> u16 {
        self.settings.edges
    }

    fn open(&mut self, site: &mut Site<P>) -> Result<()> {
        let listeners = listen(self.settings.address, self.settings.edges.into())?;
        site.listening("http", listeners[0].local_addr()?);
        let metrics = HttpMetrics::register(site.registry());
        let addresses = self.settings.limits.of_connections(self.settings.edges);
        let addresses = addresses.addresses_behind(self.settings.proxies.all());
        for (number, listener) in listeners.into_iter().enumerate() {
            let mut pump = Pump::new(site.take_endpoint(), site.status().clone());
            let edge = Edge::open(EdgeOptions {
                listener,
                tls: self.settings.tls.clone(),
                authenticator: self.authenticator.clone(),
                operations: Arc::new(NodeOperations::of(site)),
                rooms: self.rooms.iter().map(|open| open(site, &mut pump)).collect(),
                proxies: self.settings.proxies.clone(),
                limits: self.settings.limits,
                addresses: addresses.clone(),
                metrics: metrics.clone(),
                refused: RefusalMetrics::register(site.registry(), "http", format_args!("edge-{number}")),
                requests: RequestMetrics::register(site.registry(), "http"),
                open_paths: self.settings.open_paths.clone(),
                cors: self.settings.cors.clone(),
                demo: self.settings.demo.clone(),
                upgrade: self.upgrade(site, &mut pump),
                stop: self.stop.subscribe(),
            })?;
            site.spawn(format!("edge-{number}"), move || Ok(edge.serve(pump.run())?))?;
        }
        Ok(())
    }

    fn stop(&mut self) {
        // If the send fails, the receiver has already ended.
        let _ = self.stop.send(true);
    }
}
