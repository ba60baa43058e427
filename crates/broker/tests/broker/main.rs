//! The broker from outside: scripts of packets, and what clients hear. The words are in `tests/broker/support/mod.rs`.

mod clean_sessions;
mod durable_sessions;
mod kept;
mod limits;
mod support;
mod ways;
