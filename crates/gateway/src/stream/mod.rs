//! Byte streams of clients that never wait: what lies between a socket and the packets.

pub mod tls;
