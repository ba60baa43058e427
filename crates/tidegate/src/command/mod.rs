//! The subcommands.

pub mod audit;
pub mod doctor;
pub mod drain;
pub mod hash_password;
pub mod mend_time;
pub(crate) mod reload;
pub mod serve;
