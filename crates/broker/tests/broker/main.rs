//! The broker from outside: scripts of packets, and what clients receive. `tests/broker/support/mod.rs` describes the
//! commands.

mod clean_sessions;
mod durable_sessions;
mod feeds;
mod full_disk;
mod kept;
mod leave;
mod limits;
mod losses;
mod operator;
mod owners;
mod packet_ids;
mod pass_on;
mod queues;
mod rights;
mod shares;
mod standing;
mod support;
mod ways;
mod wills;
mod work;
