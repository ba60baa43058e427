//! What a server of queues must have to be measured beside ours.

use crate::load::{Dialect, Pressure};
use std::net::SocketAddr;

/// A running server with one empty queue.
pub trait QueueServer {
    /// How its receivers are asked; what a message in flight stands for is theirs to say.
    const RECEIVERS: Pressure;
    /// Sends messages, one a request.
    type Sends: Dialect + Send;
    /// Receives messages and acknowledges each, or several at once where the protocol can.
    type Receives: Dialect;

    /// Where it listens.
    fn address(&self) -> SocketAddr;

    /// So many messages, each of so many bytes.
    fn sends(&self, messages: u64, bytes: usize) -> Self::Sends;

    /// So many messages.
    fn receives(&self, messages: u64) -> Self::Receives;
}
