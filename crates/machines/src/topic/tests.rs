//! The topic shard through its public interface.

mod cases;
mod codec;
mod damage;
mod looks;
mod model;
mod origins;
mod properties;
mod shard;
mod snapshots;
