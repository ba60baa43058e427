//! The subcommands.

pub mod accept_loss;
pub mod archive;
pub mod audit;
pub mod backup;
pub(crate) mod check;
pub mod client;
pub mod doctor;
pub mod hash_password;
pub mod mend_time;
pub(crate) mod number;
pub mod pacer;
pub mod reason;
pub(crate) mod reload;
pub mod restore;
pub mod serve;
pub mod way_out;
