//! A shard of topics through its public door.

mod cases;
mod codec;
mod model;
mod properties;
mod shard;
mod snapshots;
