//! What the MQTT ports of all workers share, and how each of them is made.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::{Context, Result};
use tidegate_broker::{Broker, BrokerOptions, SharedFacts, TopicShard};
use tidegate_journal::LogStore;
use tidegate_telemetry::Registry;

use super::metrics::{BrokerMetrics, MqttMetrics};
use super::port::MqttPort;
use super::settings::{MqttAuthenticator, MqttSettings};
use super::verdicts::Verdicts;
use super::{Admission, ListenerIndex};
use crate::ledger_topics::{LedgerTopics, REQUEST_TOPICS};
use crate::listener::listen;
use crate::mesh::Bed;
use crate::websocket::WebSocketDoor;

/// What `$SYS/broker/version` says.
const VERSION: &str = concat!("tidegate version ", env!("CARGO_PKG_VERSION"));

/// The ground that all workers' ports stand on.
pub struct MqttFloor {
    settings: MqttSettings,
    authenticator: Arc<dyn MqttAuthenticator>,
    admission: Arc<Admission>,
    facts: Arc<SharedFacts>,
    workers: u16,
    topic_shards: u16,
    ledger_shards: u16,
    /// Per listener, one socket per worker.
    listeners: Vec<Vec<TcpListener>>,
    addresses: Vec<(Box<str>, SocketAddr)>,
}

impl MqttFloor {
    /// Opens the listeners.
    pub fn open(
        settings: MqttSettings,
        authenticator: Arc<dyn MqttAuthenticator>,
        workers: u16,
        topic_shards: u16,
        ledger_shards: u16,
    ) -> io::Result<MqttFloor> {
        let listeners = settings.listeners.iter().map(|listener| listen(listener.address, workers.into()));
        let listeners = listeners.collect::<io::Result<Vec<_>>>()?;
        let addresses = settings.listeners.iter().zip(&listeners);
        let addresses = addresses
            .map(|(listener, sockets)| Ok((listener.name.clone(), sockets[0].local_addr()?)))
            .collect::<io::Result<_>>()?;
        Ok(MqttFloor {
            admission: Arc::new(Admission::new(settings.admission.clone(), &settings.listener_limits(), workers)),
            facts: Arc::new(SharedFacts::new(workers)),
            authenticator,
            settings,
            workers,
            topic_shards,
            ledger_shards,
            listeners,
            addresses,
        })
    }

    /// Where clients connect, by the listeners' names.
    pub fn addresses(&self) -> &[(Box<str>, SocketAddr)] {
        &self.addresses
    }

    /// What all brokers count.
    pub fn facts(&self) -> &Arc<SharedFacts> {
        &self.facts
    }

    /// MQTT over WebSocket, for the HTTP door.
    pub fn websocket(&self) -> Option<WebSocketDoor> {
        let settings = self.settings.websocket.clone()?;
        let listener = ListenerIndex(self.settings.listeners.len() as u8);
        Some(WebSocketDoor::new(settings, self.admission.clone(), listener))
    }

    /// The port of worker `worker`, which sleeps in `bed`, over its shards. To be called for each worker once, in order.
    pub fn port<L: LogStore>(
        &mut self,
        worker: u16,
        shards: Vec<TopicShard<L>>,
        bed: Arc<Bed>,
        registry: &Registry,
    ) -> Result<MqttPort<L>> {
        let options = BrokerOptions {
            worker,
            workers: self.workers,
            topic_shards: self.topic_shards,
            limits: self.settings.limits.clone(),
            facts: self.facts.clone(),
            seed: getrandom::u64().context("cannot draw a random number")?,
            request_topics: REQUEST_TOPICS.map(Into::into).into(),
            version: VERSION,
        };
        Ok(MqttPort::new(
            worker,
            self.workers,
            Broker::new(options, shards),
            self.listeners.iter_mut().map(|sockets| sockets.pop().expect("one for each worker")).collect(),
            self.settings.clone(),
            self.admission.clone(),
            self.facts.clone(),
            self.authenticator.clone(),
            Verdicts::new(bed),
            LedgerTopics::new(self.ledger_shards),
            MqttMetrics::register(registry, worker),
            BrokerMetrics::register(registry, worker),
        ))
    }
}
