//! What `storm bench-…` measures: one module per bench, each with its cases.

pub mod accounts;
pub mod gateway;
pub mod ids;
pub mod ledger;
pub mod pacer;
pub mod queue;
mod stall;
mod subject;
