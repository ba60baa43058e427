//! The HTTP/JSON door: whatever arrives, each request gets one answer in bounded memory and time, and a reply that moves money
//! leaves only after its record is durable, because it leaves only after the ledger's [`Reply`](tidegate_ledger::message::Reply).
//!
//! ```text
//!                 edge thread: one tokio runtime, its own listener (SO_REUSEPORT)
//!   socket ─▶ connection (TLS, hyper) ─▶ door ──POST /v1/transfers──▶ transfers ─┐
//!                                         │                                      ├▶ gate ─▶ Backend::call ─▶ shards
//!                                         └──all other paths──▶ axum routes ─────┘
//! ```
//!
//! Why on threads of its own: HTTP clients are many, slow and various; tokio serves them well and may wait, the workers must
//! not. Why one way past axum: votes are nearly all of the load, and its routing is cost without a question behind it.
//!
//! Invariant: nothing here knows shards, journals or rings; the door speaks [`Backend`] only.

mod accounts;
mod authorize;
mod backend;
mod body;
mod connection;
mod decode;
mod demo;
mod door;
mod drain;
mod edge;
mod holds;
mod limits;
mod login;
mod metrics;
mod openapi;
mod operations;
mod outcome;
mod problem;
mod time;
mod transfer_call;
mod transfers;
mod websocket;

#[cfg(test)]
mod tests;

pub(crate) use accounts::account_json;
pub use backend::{Backend, DrainStatus, Health};
pub use edge::{EdgeOptions, serve_edge};
pub use limits::HttpLimits;
pub use metrics::HttpMetrics;
pub use openapi::document as openapi_document;
pub(crate) use problem::Problem;
pub(crate) use transfer_call::TransferCall;
pub use websocket::WebSocketDoor;
