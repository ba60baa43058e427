//! What `storm bench-…` measures: one module per bench, each with its cases, ours and the peers in turn.

pub mod gateway;
pub mod ledger;
