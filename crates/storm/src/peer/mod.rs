//! Servers that are used today for the same task, configured as well as we can: a necessary choice favours the peer,
//! and each file says which. Redis and PostgreSQL do the same as the ledger for every transfer: balance check, exactly
//! once by id, a history row, synced to disk before the reply. Mosquitto and mochi-mqtt are brokers.

pub mod mochi;
pub mod mosquitto;
pub mod postgres;
pub mod redis;
