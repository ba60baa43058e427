//! The settings of the MQTT port: listeners and bounds.
//!
//! Invariant: nothing here is optional because a configuration file left it out. Defaults have been filled in.

use std::net::SocketAddr;
use std::sync::Arc;

use tidegate_broker::{BrokerLimits, DrainPlan, HoldingLimits};
use tidegate_ledger::announcer::AnnounceRules;
use tidegate_machines::topic::InboxLimits;
use tidegate_pacer::plan::PlanRules;

use crate::admission::{AdmissionLimits, ListenerLimits};
pub use crate::auth::clients::{Credentials, MqttAuthenticator, Verdict, VerdictReply};
use crate::proxy::{ProxyRule, TrustedProxies};
use crate::stream::DoorTls;
use crate::tls::ClientAuthorities;
use crate::websocket::WebSocketSettings;

/// Everything about MQTT that a node is started with.
#[derive(Clone)]
pub struct MqttSettings {
    /// Where clients connect over TCP.
    pub listeners: Vec<MqttListener>,
    /// Load balancers that say whose connections they forward, at any of the listeners: they are counted nowhere, only
    /// their clients are.
    pub proxies: TrustedProxies,
    /// MQTT over WebSocket on the HTTP port; `None` leaves its path unknown.
    pub websocket: Option<WebSocketSettings>,
    /// Topic shards of a new directory; one that has its own keeps its number.
    pub topic_shards: u16,
    /// Bounds of one worker's broker. [`BrokerLimits::handshake_ms`] counts from accept and so includes the TLS
    /// handshake.
    pub limits: BrokerLimits,
    /// Bounds of what clients leave behind.
    pub holdings: HoldingLimits,
    /// Bounds at the door.
    pub admission: AdmissionLimits,
    /// How clients are sent away when the node stops; `per_second` is the whole node's.
    pub drain: DrainPlan,
    /// How long a stopping node spends on that, in milliseconds; who is left then is disconnected at once.
    pub drain_timeout_ms: u64,
    /// Bounds of sessions that outlive their connections.
    pub inbox: InboxLimits,
    /// Which accounts of the ledger are announced on topics, and how often.
    pub announce: AnnounceRules,
    /// Which plans of campaigns are taken.
    pub plan_rules: PlanRules,
}

impl MqttSettings {
    /// The bounds of each listener, in their order; those of the WebSocket listener, if there is one, come last.
    pub fn listener_limits(&self) -> Vec<ListenerLimits> {
        let limits = |connections_max, connections_per_s| ListenerLimits { connections_max, connections_per_s };
        let listeners = self.listeners.iter().map(|door| limits(door.connections_max, door.connections_per_s));
        let websocket = self.websocket.iter().map(|door| limits(door.connections_max, door.connections_per_s));
        listeners.chain(websocket).collect()
    }
}

/// One address where clients connect.
#[derive(Clone)]
pub struct MqttListener {
    /// Its name in metrics and in rules.
    pub name: Box<str>,
    /// The address; with port 0 the system chooses.
    pub address: SocketAddr,
    /// Certificates, and whether clients must or may show theirs; `None` for plain TCP. A new certificate comes in
    /// through the configuration's certificate resolver, so this object stays the same.
    pub tls: Option<DoorTls>,
    /// Whose certificates of clients are good, at any time; `None` where clients are not asked for one.
    pub clients: Option<Arc<ClientAuthorities>>,
    /// Whether a client without credentials may come in here.
    pub anonymous: bool,
    /// Clients of this listener at once, over all workers.
    pub connections_max: usize,
    /// Clients taken per second, over all workers; 0 for no bound. Who comes faster waits in the kernel's queue.
    pub connections_per_s: u32,
    /// Bytes of one packet of a client of this listener; 0 for [`BrokerLimits::packet_bytes_max`].
    pub packet_bytes_max: u32,
    /// Which connections begin with a load balancer's word.
    pub proxy: ProxyRule,
}
