//! The doors of Tidegate: who may come in, and the protocols in which clients speak.
//!
//! ```text
//!   MQTT, binary clients ─▶ ports on worker threads ◀── rings ──▶ shards
//!   HTTP clients ─────────▶ edge threads (tokio, axum; WebSockets move on to workers) ──▶ rings ──▶ shards
//! ```
//!
//! Each door is a [room](tidegate_runtime::Room) of the node.
//!
//! Invariant: no mutex and no async runtime on a worker's thread. What may wait lives on the other threads.

pub mod admission;
pub mod auth;
pub mod binary;
pub mod desk;
pub mod edge;
pub mod http;
pub mod http_room;
pub mod json;
pub mod ledger_http;
mod ledger_json;
pub mod ledger_topics;
pub mod listener;
pub mod mqtt;
pub mod stream;
pub mod tls;
mod topic_names;
pub mod websocket;
