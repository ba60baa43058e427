//! The Tidegate server, and its binary port and HTTP port as a client uses them.

pub mod binary;
pub mod holds;
pub mod http;
pub mod opening;
pub mod pacer;
pub mod queue;
pub mod server;
pub mod session;

#[cfg(test)]
mod tests;
