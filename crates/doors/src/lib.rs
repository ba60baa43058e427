//! The doors of Tidegate: listeners, authentication, and the protocols that clients use.
//!
//! ```text
//!   MQTT, binary clients ─▶ ports on worker threads ◀── rings ──▶ shards
//!   HTTP clients ─────────▶ edge threads (tokio, axum; WebSockets move on to workers) ──▶ rings ──▶ shards
//! ```
//!
//! Each door is a [room](tidegate_runtime::Room) of the node.
//!
//! Invariant: no mutex and no async runtime on a worker's thread. What may wait lives on the other threads.
//!
//! # The order of modules
//!
//! A module knows only modules that stand above it in this table, so no two know each other in a circle. Those of one
//! row count as one module. `crates/tidegate/tests/architecture` holds the sources to it.
//!
//! | Module | What it is |
//! |---|---|
//! | `listener` | listening sockets that threads share |
//! | `reading` | the threads of an edge that wait for the disk |
//! | `proxy` | whose connection it is that a load balancer forwards |
//! | `address_rates` | how often those of one address may do something |
//! | `tls` | certificates, and their replacement while the server runs |
//! | `stream` | one client's bytes: plain, TLS, WebSocket frames |
//! | `linger` | how a connection ends that the server closes |
//! | `json` | bodies, answers and problems in JSON |
//! | `refusal_metrics` | what every door counts of requests that it refuses |
//! | `request_metrics` | how long requests take at every door |
//! | `security` | the security log: log-ins, refusals, denials, take-overs |
//! | `topic_names` | names of topics that the ledger and the queues own |
//! | `auth` | who a caller is, and what they may do |
//! | `turns` | whose connections a port serves next, and for how much work; who gets one of few places |
//! | `held_bytes` | what callers have sent ahead of their answers, in bytes |
//! | `listing` | pages of accounts as their reader may see them |
//! | `admission` | how many clients may come in, how fast, and who gives way to them |
//! | `handshakes` | how often those of one address may begin TLS |
//! | `operator` | what operators ask of the MQTT ports, and the client that asks them |
//! | `authorized` | asks the ledger for a worker's clients, after their rights were checked |
//! | `ledger_json` | what the ledger is asked and answers in JSON |
//! | `http` | the HTTP door, which knows no room |
//! | `id_space_query` | the id space that a request names |
//! | `room_client` | the way of a room's HTTP requests to its shards |
//! | `ledger_http` | the ledger as a room behind the HTTP door |
//! | `operator_http` | clients, sessions and messages as operators see them behind the HTTP door |
//! | `queue_attributes` | what senders say of a queue's message beside its body, as the log has it |
//! | `queue_calls` | what every door of the queues does alike |
//! | `sqs` | queues in the protocol of Amazon SQS |
//! | `queue_http` | queues behind the HTTP door |
//! | `openrtb` | what exchanges ask and are answered in OpenRTB |
//! | `pacer_calls` | how every door of the pacer names rights |
//! | `pacer_json` | plans and campaigns in JSON |
//! | `pacer_changes` | changes of campaigns, as every door takes them |
//! | `pacer_peers` | other servers that may have made the bid of a notice |
//! | `pacer_notices` | which shards judge wins and losses, and what became of them |
//! | `pacer_http` | campaigns, bids and notices behind the HTTP door |
//! | `roster_http` | services and users that are managed behind the HTTP door |
//! | `websocket` | MQTT over WebSocket: from HTTP's socket to an arrival at MQTT |
//! | `binary` | the binary port |
//! | `ledger_topics` | the ledger on topics |
//! | `queue_topics` | queues on topics |
//! | `pacer_topics` | changes of campaigns on topics |
//! | `mqtt` | the MQTT port |
//! | `queue_frames` | queues on the binary port |
//! | `pacer_frames` | the pacer on the binary port |
//! | `edge` | how an edge thread reaches shards and workers |
//! | `http_room` | the HTTP door as a room of a node |
//! | `queue_room` | how the doors reach the shards of queues |
//! | `pacer_room` | how the doors reach campaigns and bidders |
//! | `roster_room` | the shard of those services, and how a change comes into force |
//! | `footprint` | what clients can make each door keep in memory |

mod address_rates;
pub mod admission;
pub mod auth;
pub mod authorized;
pub mod binary;
pub mod edge;
pub mod footprint;
pub mod handshakes;
mod held_bytes;
pub mod http;
pub mod http_room;
mod id_space_query;
pub mod json;
pub mod ledger_http;
mod ledger_json;
pub mod ledger_topics;
mod linger;
pub mod listener;
mod listing;
pub mod mqtt;
pub mod openrtb;
pub mod operator;
pub mod operator_http;
mod pacer_calls;
mod pacer_changes;
mod pacer_frames;
mod pacer_http;
mod pacer_json;
mod pacer_notices;
mod pacer_peers;
pub mod pacer_room;
mod pacer_topics;
pub mod proxy;
mod queue_attributes;
mod queue_calls;
mod queue_frames;
mod queue_http;
pub mod queue_room;
mod queue_topics;
mod reading;
pub mod refusal_metrics;
pub mod request_metrics;
mod room_client;
mod roster_http;
pub mod roster_room;
pub mod security;
mod sqs;
pub mod stream;
pub mod tls;
mod topic_names;
mod turns;
pub mod websocket;

pub use room_client::RoomClient;
