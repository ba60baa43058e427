//! The subcommands.

pub mod audit;
pub mod doctor;
pub mod hash_password;
pub mod serve;
