//! What the MQTT port of a node is told: listeners, bounds, and who decides on clients.
//!
//! Invariant: nothing here is optional because a config left it out; the configuration has filled in what it did not say.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use tidegate_broker::{Admitted, BrokerLimits, Denied, DrainPlan, Rights};
use tidegate_ledger::announcer::AnnounceRules;
use tidegate_machines::topic::InboxLimits;

use crate::auth::Identity;

/// Everything about MQTT that a node is started with.
#[derive(Clone)]
pub struct MqttSettings {
    /// Where clients connect over TCP.
    pub listeners: Vec<MqttListener>,
    /// MQTT over WebSocket on the HTTP port; `None` leaves its path unknown.
    pub websocket: Option<WebSocketSettings>,
    /// Topic shards of a new directory; one that has its own keeps its number.
    pub topic_shards: u16,
    /// Bounds of one worker's broker. [`BrokerLimits::handshake_ms`] counts from accept and so includes the TLS handshake.
    pub limits: BrokerLimits,
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
}

/// One address where clients connect.
#[derive(Clone)]
pub struct MqttListener {
    /// Its name in metrics and in rules.
    pub name: Box<str>,
    /// The address; with port 0 the system chooses.
    pub address: SocketAddr,
    /// Certificates, and whether clients must or may show theirs; `None` for plain TCP. A new certificate comes in through the
    /// configuration's certificate resolver, so this object stays the same.
    pub tls: Option<Arc<ServerConfig>>,
    /// Whether a client without credentials may come in here.
    pub anonymous: bool,
    /// Clients of this listener at once, over all workers.
    pub connections_max: usize,
    /// Clients taken per second, over all workers; 0 for no bound. Who comes faster waits in the kernel's queue.
    pub connections_per_s: u32,
    /// Bytes of one packet of a client of this listener; 0 for [`BrokerLimits::packet_bytes_max`].
    pub packet_bytes_max: u32,
}

/// MQTT over WebSocket.
#[derive(Clone, Debug)]
pub struct WebSocketSettings {
    /// Path on the HTTP port.
    pub path: Box<str>,
    /// Pages of which origins may connect; see [`Origins`].
    pub origins: Origins,
    /// Whether a client without credentials may come in here.
    pub anonymous: bool,
    /// Clients at once, over all workers.
    pub connections_max: usize,
    /// Clients taken per second, over all workers; 0 for no bound. Who comes faster is answered with 503.
    pub connections_per_s: u32,
}

/// Pages of which origins may open a WebSocket. A browser says whose page asks; other programs send no `Origin` and may.
///
/// Why this is asked at all: a page of another site could use what the browser of somebody who can reach us may do, be it only that
/// it stands in the same network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origins {
    /// Pages that came from the same host and port as they connect to. What a config gets that says nothing.
    SameHost,
    /// Pages of these origins, as `https://example.org`, and those of the same host.
    Listed(Vec<Box<str>>),
    /// Every page.
    Any,
}

/// Bounds that keep new clients from harming those who are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// Clients at once, over all listeners and workers; more are answered with 0x97 (quota exceeded).
    pub connections_max: usize,
    /// Clients at once of one address (IPv6: of one /64); 0 for no bound. More are answered with 0x97.
    pub connections_per_address_max: u32,
    /// A worker whose turns take longer than this, in milliseconds, is overloaded: new clients are answered with 0x89 (server busy)
    /// until turns are short again; 0 for no bound.
    pub turn_ms_max: u32,
}

/// What a client shows, as far as it has shown it.
pub struct Credentials {
    /// Client id; one that the server chose if the client has none.
    pub client_id: Box<str>,
    /// User name of CONNECT.
    pub user_name: Option<Box<str>>,
    /// Password of CONNECT: a password, or a token.
    pub password: Option<Box<[u8]>>,
    /// The client's certificate, which TLS has verified against the listener's authorities.
    pub certificate: Option<CertificateDer<'static>>,
    /// Where the client comes from.
    pub address: IpAddr,
    /// Name of its listener; `websocket` for the HTTP port.
    pub listener: Box<str>,
    /// Whether its listener takes clients without credentials.
    pub anonymous_allowed: bool,
}

/// Yes, with these rights; or no, for this reason.
pub type Verdict = Result<Admitted, Denied>;

/// Takes a verdict that comes later, from any thread.
pub type VerdictReply = Box<dyn FnOnce(Verdict) + Send>;

/// Who decides on clients. Shared by all workers; never waits.
pub trait MqttAuthenticator: Send + Sync {
    /// Decides. `Some` at once where that takes no more than microseconds (anonymous, token, certificate); `reply` is dropped then.
    /// `None` where it takes longer (argon2): `reply` gets the verdict, from another thread.
    fn begin(&self, credentials: Credentials, reply: VerdictReply) -> Option<Verdict>;

    /// Whom the ledger knows behind these rights; `None` for somebody whom it does not know.
    fn identity(&self, rights: &dyn Rights) -> Option<Identity>;

    /// The rights that their owner has by the configuration of now; `None` when the owner has none any more and must go.
    fn renew(&self, rights: &dyn Rights) -> Option<Arc<dyn Rights>>;

    /// Changes with each reload: a worker that sees another number than before renews the rights of all its clients.
    fn generation(&self) -> u64;
}
