//! The gateway: the doors of Tidegate, the threads that serve them, and the rings between those threads.
//!
//! ```text
//!   MQTT, binary clients ─▶ worker threads (one per core, pinned; poll loop; own shards) ◀─ rings ─▶ each other
//!   HTTP clients ─────────▶ edge threads (tokio, axum; WebSockets move on to workers) ──▶ rings ─▶ workers
//!                           background thread (seeds, auditor) ───────────────────────▶ rings ─▶ workers
//!                           topic-keeper thread (compacts logs of topics, files only)
//! ```
//!
//! Invariant: no mutex and no async runtime on a worker's thread. What may wait lives on the other threads.

pub mod admission;
pub mod audit_loop;
pub mod auth;
pub mod background;
pub mod binary;
pub mod desk;
pub mod edge;
pub mod http;
pub mod json;
pub mod ledger_http;
mod ledger_json;
pub mod ledger_topics;
pub mod listener;
mod log_keeper;
pub mod mesh;
pub mod metrics;
pub mod mqtt;
pub mod node;
pub mod parcel;
pub mod recovery;
pub mod status;
pub mod stream;
pub mod tls;
mod topic_names;
pub mod websocket;
pub mod worker_thread;
