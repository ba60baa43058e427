//! The broker: MQTT connections, sessions, subscriptions and the ways of messages, for one worker, without a socket or a clock.
//!
//! ```text
//!   bytes ─▶ connection ─▶ packet ─▶ session ─▶ match ─┬─ live ─────────────────▶ outbox ─▶ bytes
//!                                                      ├─ durable ─▶ topic shard ─▶ outbox
//!                                                      └─ another worker's ─▶ message between brokers
//! ```
//!
//! Invariant: no sockets, threads, clocks or chance here: a poll loop drives it, or a simulator, or a bench with transports in
//! memory.
