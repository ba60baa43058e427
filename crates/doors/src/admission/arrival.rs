//! A connection on its way to the worker that will serve it. It comes from another worker, which does not have its
//! session, or from the HTTP door, because it has become a WebSocket.

use std::net::{IpAddr, TcpStream};

use tidegate_broker::ReasonCode;

use super::{AddressMark, ListenerIndex};
use crate::stream::Stream;

/// The connection with all that belongs to it.
pub struct Arrival {
    /// Its bytes.
    pub stream: Stream<TcpStream>,
    /// Whom it comes from.
    pub address: IpAddr,
    /// Where it came in.
    pub listener: ListenerIndex,
    /// Where its address is counted.
    pub mark: AddressMark,
    /// Why it may not stay, if it was let in only to be told.
    pub refusal: Option<ReasonCode>,
    /// Packets that were read from it already.
    pub bytes: Box<[u8]>,
}
