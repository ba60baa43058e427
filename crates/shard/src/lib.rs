//! Shards: inbox, decide, append, durable, reply.

pub mod message;
