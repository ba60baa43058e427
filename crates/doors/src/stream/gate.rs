//! What a door that speaks TLS has: certificates, and who says whether a handshake may begin.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::ServerConfig;

/// Says whether one more handshake may begin.
pub trait HandshakeGate: Send + Sync {
    /// Whether one of this client's address may. It is counted if so.
    fn may_begin(&self, address: IpAddr) -> bool;
}

/// TLS of a door. Cheap to clone.
#[derive(Clone)]
pub struct DoorTls {
    /// Certificates.
    pub config: Arc<ServerConfig>,
    /// Is asked before each handshake.
    pub gate: Arc<dyn HandshakeGate>,
}

impl fmt::Debug for DoorTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DoorTls").finish_non_exhaustive()
    }
}

/// A handshake that has not begun.
pub(super) struct Unbegun {
    gate: Arc<dyn HandshakeGate>,
    peer: IpAddr,
}

impl Unbegun {
    /// Of a connection of this address.
    pub fn new(tls: &DoorTls, peer: IpAddr) -> Unbegun {
        Unbegun { gate: tls.gate.clone(), peer }
    }

    /// Its first bytes have come, and a load balancer has said whose they are if one had to.
    pub fn begin(self, client: Option<IpAddr>) -> io::Result<()> {
        match self.gate.may_begin(client.unwrap_or(self.peer)) {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "its address begins too many TLS handshakes")),
        }
    }
}
