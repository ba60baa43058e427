//! The ledger through its public interface.

mod cases;
mod cluster;
mod codec;
mod damage;
mod forged;
mod limits;
mod losses;
mod model;
pub(super) mod node;
mod properties;
mod reads;
mod settings;
mod shards;
mod snapshots;
