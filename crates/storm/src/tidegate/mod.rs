//! Our own server and its doors, as any client meets them.

pub mod binary;
pub mod holds;
pub mod http;
pub mod server;
pub mod session;

#[cfg(test)]
mod tests;
