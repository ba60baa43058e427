//! The ledger through its public interface.

mod cases;
mod cluster;
mod codec;
mod damage;
mod limits;
mod losses;
mod model;
pub(super) mod node;
mod properties;
mod shards;
mod snapshots;
