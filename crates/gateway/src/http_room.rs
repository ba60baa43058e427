//! The HTTP door as a room of a node: its listener, and its edge threads, which answer "recovering" from the first moment on.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use rustls::ServerConfig;
use tidegate_ledger::operation::Message;
use tidegate_ledger::room;
use tidegate_runtime::pump::Pump;
use tidegate_runtime::{Address, Carries, Room, Site};
use tokio::sync::watch;

use crate::auth::Authenticator;
use crate::edge::{ArrivalClient, EdgeBackend};
use crate::http::{EdgeOptions, HttpLimits, HttpMetrics, WebSocketDoor, serve_edge};
use crate::listener::listen;
use crate::mqtt::Arrival;

/// What the HTTP door is told.
pub struct HttpSettings {
    /// Where it listens.
    pub address: SocketAddr,
    /// Certificates; `None` for plain HTTP.
    pub tls: Option<Arc<ServerConfig>>,
    /// Edge threads.
    pub edges: u16,
    /// Bounds of an edge thread.
    pub limits: HttpLimits,
    /// Paths that need no token.
    pub open_paths: Vec<Box<str>>,
}

/// MQTT over WebSocket, and where its connections go.
pub struct WebSockets {
    /// The door.
    pub door: WebSocketDoor,
    /// The number of the MQTT port on each worker.
    pub port: u16,
}

/// The HTTP door of a node.
pub struct HttpRoom {
    settings: HttpSettings,
    authenticator: Arc<Authenticator>,
    websockets: Option<WebSockets>,
    stop: watch::Sender<bool>,
}

impl HttpRoom {
    /// A door that does as `settings` say.
    pub fn new(
        settings: HttpSettings,
        authenticator: Arc<Authenticator>,
        websockets: Option<WebSockets>,
    ) -> HttpRoom {
        HttpRoom { settings, authenticator, websockets, stop: watch::channel(false).0 }
    }
}

impl<P: Carries<Message> + Carries<Box<Arrival>>> Room<P> for HttpRoom {
    fn endpoints(&self) -> u16 {
        self.settings.edges
    }

    fn open(&mut self, site: &mut Site<P>) -> Result<()> {
        let listeners = listen(self.settings.address, self.settings.edges.into())?;
        site.listening("http", listeners[0].local_addr()?);
        let metrics = HttpMetrics::register(site.registry());
        for (number, listener) in listeners.into_iter().enumerate() {
            let mut pump = Pump::new(site.take_endpoint());
            let workers = site.placement().workers();
            let ports = |port| (0..workers).map(|worker| Address::new(worker, port)).collect();
            let backend = EdgeBackend {
                ledger: pump.client(|me| room::client(site, me)),
                arrivals: self.websockets.as_ref().map(|of| pump.client(|_| ArrivalClient::new(ports(of.port)))),
                status: site.status().clone(),
                registry: site.registry().clone(),
            };
            let edge = EdgeOptions {
                listener,
                tls: self.settings.tls.clone(),
                authenticator: self.authenticator.clone(),
                backend,
                limits: self.settings.limits,
                metrics: metrics.clone(),
                open_paths: self.settings.open_paths.clone(),
                websocket: self.websockets.as_ref().map(|of| of.door.clone()),
                stop: self.stop.subscribe(),
            };
            site.spawn(format!("edge-{number}"), move || Ok(serve_edge(edge, pump.run())?))?;
        }
        Ok(())
    }

    fn stop(&mut self) {
        // Whoever listens has already ended if the send fails.
        let _ = self.stop.send(true);
    }
}
