//! Reads and writes a client's bytes between its socket and its packets, without waiting.
//!
//! ```text
//!   socket ─▶ scratch ─▶ a proxy's header? ─▶ TLS? ─▶ WebSocket? ─▶ bytes of packets
//!   socket ◀─ unsent ◀─────────────────────── TLS? ◀─ WebSocket? ◀─ bytes of packets
//! ```
//!
//! Promise: an idle plain client costs its descriptor and one empty pointer; behind a proxy, also its address. Bytes
//! being processed are in a [`Scratch`] that all clients of a thread share. A client owns memory only for an incomplete
//! record, or for bytes that its socket did not take.

mod gate;
mod layers;
mod scratch;
pub mod tls;
mod websocket;

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};

use rustls::ServerConnection;
use rustls::pki_types::CertificateDer;

pub use gate::{DoorTls, HandshakeGate};
use layers::Layers;
pub use scratch::{Received, Scratch};
pub use tls::{Flow, HANDSHAKE_COST, HandshakeFailed, TLS_BYTES};

use crate::proxy::HeaderReader;

/// Bytes that are read at once where layers must look at each part of them: records may be as small as one likes.
const LAYERED_READ_BYTES_MAX: usize = 64 << 10;

/// Bytes that a client makes its layers keep, at most: the beginning of something whole, and what it does not take.
pub const LAYER_BYTES_MAX: usize = tls::PARTIAL_BYTES_MAX + layers::UNSENT_BYTES_MAX;

/// A connected client.
pub struct Stream<S> {
    socket: S,
    layers: Option<Box<Layers>>,
}

/// What came of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// So many bytes of the packets are done with.
    pub taken: usize,
    /// The socket takes nothing more for now; when it does, [`Stream::write`] again, also if there is nothing new.
    pub blocked: bool,
}

impl<S: Read + Write> Stream<S> {
    /// A client over plain TCP, or over TLS, whose handshake begins with the first read, if one of the address of its
    /// socket, or of its client, may begin.
    pub fn accept(socket: S, tls: Option<(&DoorTls, IpAddr)>) -> Result<Stream<S>, rustls::Error> {
        let layers = tls.map(|(tls, peer)| Layers::tls(tls, peer)).transpose()?.map(Box::new);
        Ok(Stream { socket, layers })
    }

    /// A client whose HTTP connection, plain or under `tls`, has just become a WebSocket. `read` is what was read
    /// already behind the upgrade.
    pub fn websocket(socket: S, tls: Option<ServerConnection>, read: Vec<u8>) -> Stream<S> {
        Stream { socket, layers: Some(Box::new(Layers::websocket(tls, read))) }
    }

    /// The same connection, of a load balancer that must say first whose it is: before TLS, and before all else.
    #[must_use]
    pub fn behind(mut self, header: HeaderReader) -> Stream<S> {
        self.layers.get_or_insert_with(|| Box::new(Layers::none())).expect_header(header);
        self
    }

    /// The same connection, of which a proxy has said that it is this client's.
    #[must_use]
    pub fn of_client(mut self, client: SocketAddr) -> Stream<S> {
        self.layers.get_or_insert_with(|| Box::new(Layers::none())).set_client(client);
        self
    }

    /// Whose connection it is, if a proxy has said so; else it is its socket's.
    pub fn client(&self) -> Option<SocketAddr> {
        self.layers.as_ref()?.client()
    }

    /// Whether a load balancer has still to say whose connection it is.
    pub fn is_unsaid(&self) -> bool {
        self.layers.as_ref().is_some_and(|layers| layers.is_unsaid())
    }

    /// Whether its TLS handshake is not over.
    pub fn is_handshaking(&self) -> bool {
        self.layers.as_ref().is_some_and(|layers| layers.is_handshaking())
    }

    /// The socket, to register it.
    pub fn socket(&mut self) -> &mut S {
        &mut self.socket
    }

    /// Whether something was read already that [`Stream::read`] gives although the socket may stay silent.
    pub fn is_ahead(&self) -> bool {
        self.layers.as_ref().is_some_and(|layers| layers.is_ahead())
    }

    /// The certificate that the client has shown and TLS has verified, with those behind it.
    pub fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        self.layers.as_ref()?.peer_certificates()
    }

    /// Reads once, at most `bytes_max` from the socket, and says what that was.
    pub fn read(&mut self, scratch: &mut Scratch, bytes_max: usize) -> io::Result<Received> {
        scratch.cost = 0;
        let Some(layers) = self.layers.as_mut().filter(|layers| !layers.are_none()) else {
            let room = scratch.room(&[], bytes_max);
            let bytes = room.len();
            return Ok(match read_some(&mut self.socket, room)? {
                None => Received::nothing(),
                Some(0) => Received::end(),
                Some(read) => {
                    scratch.cost = read;
                    scratch.received_from_wire(read, read == bytes)
                }
            });
        };
        let room = scratch.room(layers.partial(), bytes_max.min(LAYERED_READ_BYTES_MAX));
        let bytes = room.len();
        let (read, ended) = match read_some(&mut self.socket, room)? {
            None if !layers.is_ahead() => return Ok(Received::nothing()),
            None => (0, false),
            Some(0) if !layers.is_ahead() => return Ok(Received::end()),
            Some(read) => (read, read == 0),
        };
        let flow = layers.receive(scratch, read);
        // Also after an error: the bytes tell the client what was wrong.
        let told = Self::tell(&mut self.socket, layers, scratch);
        // A client that has sent everything and disconnected gets no answer, but what it sent is still processed.
        let ended = flow? == Flow::Ended || ended || told.is_err();
        Ok(scratch.received_from_layers(read == bytes, ended))
    }

    /// Writes packets, in one system call where there is no layer.
    pub fn write(&mut self, packets: &[u8], scratch: &mut Scratch) -> io::Result<Written> {
        let Some(layers) = self.layers.as_mut().filter(|layers| !layers.are_none()) else {
            if packets.is_empty() {
                return Ok(Written { taken: 0, blocked: false });
            }
            let taken = write_some(&mut self.socket, packets)?;
            return Ok(Written { taken, blocked: taken < packets.len() });
        };
        let mut taken = 0;
        loop {
            if !layers.flush(&mut self.socket)? {
                return Ok(Written { taken, blocked: true });
            }
            let rest = &packets[taken..];
            if rest.is_empty() {
                return Ok(Written { taken, blocked: false });
            }
            taken += layers.wrap(rest, scratch)?;
            Self::tell(&mut self.socket, layers, scratch)?;
        }
    }

    /// Reads once, at most `bytes_max`, and throws that away, whatever it means. `None` if nothing is there, `Some(0)`
    /// if the client sends nothing more.
    pub fn discard(&mut self, scratch: &mut Scratch, bytes_max: usize) -> io::Result<Option<usize>> {
        read_some(&mut self.socket, scratch.room(&[], bytes_max))
    }

    /// Sends the closing bytes of the layers, if they have any, behind all that was written. What the socket does not
    /// take of them waits for the next [`Stream::write`]. The caller closes the socket.
    pub fn close(&mut self, scratch: &mut Scratch) {
        if let Some(layers) = &mut self.layers {
            layers.close(scratch);
            // A socket that takes nothing any more is closed without them.
            let _ = Self::tell(&mut self.socket, layers, scratch);
        }
    }

    /// Writes what the layers have made for the wire; what the socket does not take waits with the client.
    fn tell(socket: &mut S, layers: &mut Layers, scratch: &mut Scratch) -> io::Result<()> {
        if scratch.for_wire().is_empty() {
            return Ok(());
        }
        let written = if layers.flush(socket)? { write_some(socket, scratch.for_wire())? } else { 0 };
        layers.keep(&scratch.for_wire()[written..])
    }
}

/// Reads what is there; `None` if that is nothing.
fn read_some(socket: &mut impl Read, into: &mut [u8]) -> io::Result<Option<usize>> {
    match socket.read(into) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes as much as the socket takes.
fn write_some(socket: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
    match socket.write(bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        written => written,
    }
}

#[cfg(test)]
mod tests;
