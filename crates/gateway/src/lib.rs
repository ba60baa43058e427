//! Placeholder.

pub mod auth;
pub mod http;
