//! The MQTT port: sockets, TLS, WebSocket frames and bounds around one [`tidegate_broker::Broker`] per worker.
//!
//! ```text
//!   listeners (one per worker, SO_REUSEPORT) ─▶ Admission ─▶ MqttPort ⇄ Broker ─▶ topic shards
//!   websocket ── arrival ── ring ───────────────────────────▶  ⇅ rings
//!                                                         other workers
//! ```
//!
//! Invariant: nothing here waits, and nothing here knows what a packet means.

mod address_drains;
pub mod feeds;
mod latency;
mod lingering;
mod mail;
mod metrics;
mod newcomers;
mod overload;
mod port;
mod room;
pub mod settings;
mod sockets;
mod verdicts;

pub use metrics::{BrokerMetrics, MqttMetrics, NodeMqttMetrics};
pub use port::{CarriesMqtt, MqttParts, MqttPort};
pub use room::MqttRoom;
pub use settings::{Credentials, MqttAuthenticator, MqttListener, MqttSettings, Verdict, VerdictReply};
// What the settings are made of, for who fills them in.
pub use tidegate_broker::{BrokerLimits, DrainPlan};
pub use tidegate_ledger::announcer::AnnounceRules;
pub use tidegate_machines::topic::InboxLimits;
pub use verdicts::Verdicts;

pub use crate::admission::{self, Admission, AdmissionLimits, Arrival, ListenerIndex};
pub use crate::websocket::{Origins, WebSocketSettings};
