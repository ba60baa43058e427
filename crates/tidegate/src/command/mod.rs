//! The subcommands.

pub mod accept_loss;
pub mod audit;
pub mod doctor;
pub mod drain;
pub mod hash_password;
pub mod ledger;
pub mod mend_time;
pub(crate) mod reload;
pub mod serve;
