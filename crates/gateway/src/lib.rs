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
//!
//! # The order of modules
//!
//! A module knows only modules that stand above it in this table, so no two know each other in a circle. Those of one
//! row count as one module. `crates/tidegate/tests/architecture` holds the sources to it.
//!
//! | Module | What it is |
//! |---|---|
//! | `listener` | listening sockets that threads share |
//! | `tls` | certificates, and their replacement while the server runs |
//! | `stream` | one client's bytes: plain, TLS, WebSocket frames |
//! | `mesh` | the rings of one thread |
//! | `json` | bodies, answers and problems in JSON |
//! | `topic_names` | names of topics that the ledger owns |
//! | `auth` | who a caller is, and what they may do |
//! | `admission` | how many MQTT clients may come in, and how fast |
//! | `parcel` | what threads send each other |
//! | `desk` | asks the ledger for a worker's clients, after their rights were checked |
//! | `ledger_json` | what the ledger is asked and answers in JSON |
//! | `http` | the HTTP door, which knows no room |
//! | `ledger_http` | the ledger as a room behind the HTTP door |
//! | `websocket` | MQTT over WebSocket: from HTTP's socket to an arrival at MQTT |
//! | `binary` | the binary port |
//! | `ledger_topics` | the ledger on topics |
//! | `mqtt` | the MQTT port |
//! | `audit_loop`, `background`, `edge`, `log_keeper`, `metrics`, `node`, `recovery`, `status`, `worker_thread` | threads |

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
