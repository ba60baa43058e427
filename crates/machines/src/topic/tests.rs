//! A shard of topics through its public door.

mod cases;
mod codec;
mod damage;
mod model;
mod origins;
mod properties;
mod shard;
mod snapshots;
