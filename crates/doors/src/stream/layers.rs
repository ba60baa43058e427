//! The TLS and WebSocket layers of one client, without its socket.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};

use rustls::ServerConnection;
use rustls::pki_types::CertificateDer;
use tidegate_wire::proxy::is_header;

use super::gate::{DoorTls, Unbegun};
use super::scratch::Scratch;
use super::tls::{self, Flow, HandshakeFailed, TlsLayer};
use super::websocket::{WebSocketLayer, cost_of as cost_of_frames};
use super::write_some;
use crate::proxy::{Forwarded, HeaderReader};

/// Bytes of packets that become one frame and some records at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// Answers of the layers themselves (pongs, alerts) that may wait behind a chunk. A client that causes more without
/// reading does not need them.
const ANSWER_BYTES_MAX: usize = 16 << 10;
/// All that may wait for a socket below the packets: a chunk with what its layers add, and answers.
pub(super) const UNSENT_BYTES_MAX: usize = CHUNK_BYTES + CHUNK_BYTES / 16 + ANSWER_BYTES_MAX;

/// What lies between a socket and packets. A client over plain TCP has none.
pub(super) struct Layers {
    /// Apart, because a plain client behind a proxy has the rest.
    tls: Option<Box<TlsLayer>>,
    websocket: Option<WebSocketLayer>,
    /// For the wire, but the socket did not take it yet.
    unsent: Vec<u8>,
    /// Bytes that the previous owner of the connection read from the wire (under TLS: decrypted). They come before all
    /// others.
    ahead: Option<Vec<u8>>,
    behind: Behind,
}

/// What stands between the client and the socket.
enum Behind {
    /// Nothing.
    Nobody,
    /// A load balancer that says first whose connection it is.
    Unsaid(Box<HeaderReader>),
    /// A proxy that has said whose it is.
    Proxy(SocketAddr),
}

impl Layers {
    pub fn tls(tls: &DoorTls, peer: IpAddr) -> Result<Layers, rustls::Error> {
        let layer = TlsLayer::accept(tls.config.clone())?.behind(Unbegun::new(tls, peer));
        Ok(Layers { tls: Some(Box::new(layer)), ..Layers::none() })
    }

    pub fn websocket(tls: Option<ServerConnection>, read: Vec<u8>) -> Layers {
        let tls = tls.map(|tls| Box::new(TlsLayer::resume(tls)));
        Layers { tls, websocket: Some(WebSocketLayer::new()), ahead: Some(read), ..Layers::none() }
    }

    /// No layer: the bytes of the wire are those of packets.
    pub fn none() -> Layers {
        Layers { tls: None, websocket: None, unsent: Vec::new(), ahead: None, behind: Behind::Nobody }
    }

    /// The connection begins with a header, before all other layers.
    pub fn expect_header(&mut self, header: HeaderReader) {
        self.behind = Behind::Unsaid(Box::new(header));
    }

    /// A proxy has said that the connection is this client's.
    pub fn set_client(&mut self, client: SocketAddr) {
        self.behind = Behind::Proxy(client);
    }

    /// Whose connection it is, if a proxy has said so.
    pub fn client(&self) -> Option<SocketAddr> {
        match self.behind {
            Behind::Nobody | Behind::Unsaid(_) => None,
            Behind::Proxy(client) => Some(client),
        }
    }

    /// Whether a load balancer has still to say whose connection it is.
    pub fn is_unsaid(&self) -> bool {
        matches!(self.behind, Behind::Unsaid(_))
    }

    /// Whether its TLS handshake is not over.
    pub fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Whether bytes pass as they are.
    pub fn are_none(&self) -> bool {
        self.tls.is_none() && self.websocket.is_none() && !self.is_unsaid()
    }

    /// Whether the previous owner of the connection has read bytes.
    pub fn is_ahead(&self) -> bool {
        self.ahead.is_some()
    }

    /// The bytes to put before the next bytes of the wire.
    pub fn partial(&self) -> &[u8] {
        self.tls.as_ref().map(|tls| tls.partial()).unwrap_or_default()
    }

    pub fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        self.tls.as_ref()?.peer_certificates()
    }

    /// Takes `read` bytes that came from the wire. Leaves bytes of packets in `scratch.data`, and answers for the wire
    /// in `scratch.out`, also with an error.
    pub fn receive(&mut self, scratch: &mut Scratch, read: usize) -> io::Result<Flow> {
        let Scratch { wire, kept, plain, data, out, cost } = scratch;
        *cost = read;
        let mut wire = &mut wire[..*kept + read];
        plain.clear();
        data.clear();
        out.clear();
        if let Behind::Unsaid(header) = &mut self.behind {
            let (used, forwarded) = header.take(wire)?;
            match forwarded {
                None => {}
                Some(Forwarded::Nobody) => self.behind = Behind::Nobody,
                Some(Forwarded::Client(client)) => self.behind = Behind::Proxy(client),
            }
            wire = &mut wire[used..];
            if wire.is_empty() {
                return Ok(Flow::Open);
            }
        }
        // The previous owner has already decrypted what it read.
        plain.extend(self.ahead.take().into_iter().flatten());
        let client = self.client().map(|client| client.ip());
        self.tls.as_mut().map_or(Ok(()), |tls| tls.begin(client))?;
        let mut flow = Flow::Open;
        match &mut self.tls {
            Some(tls) => {
                let (came, before, was_shaking) = (wire.len(), plain.len(), tls.is_handshaking());
                let is_header = was_shaking && is_header(wire);
                let received = tls.receive(wire, plain, out);
                let received = match received {
                    Err(error) if was_shaking => Err(HandshakeFailed::wrap(&error, is_header)),
                    received => received,
                };
                let records_bytes = came - tls.partial().len();
                // An answer within the handshake is signed; an error may follow it.
                let has_shaken = was_shaking && !out.is_empty() && (received.is_err() || tls.is_handshaking());
                *cost += tls::cost_of(records_bytes.saturating_sub(plain.len() - before), has_shaken);
                flow = received?;
            }
            None => plain.extend_from_slice(wire),
        }
        let Some(websocket) = &mut self.websocket else {
            std::mem::swap(plain, data);
            return Ok(flow);
        };
        let mut answers = Vec::new();
        let heard = websocket.receive(plain, data, &mut answers);
        *cost += cost_of_frames(plain.len().saturating_sub(data.len()));
        match &mut self.tls {
            Some(tls) if !answers.is_empty() => tls.seal(&answers, out)?,
            Some(_) => {}
            None => out.extend_from_slice(&answers),
        }
        Ok(if heard? == Flow::Ended { Flow::Ended } else { flow })
    }

    /// Wraps the first bytes of `packets` into `scratch.out`; says how many.
    pub fn wrap(&mut self, packets: &[u8], scratch: &mut Scratch) -> io::Result<usize> {
        let Scratch { plain, out, .. } = scratch;
        plain.clear();
        out.clear();
        let chunk = &packets[..packets.len().min(CHUNK_BYTES)];
        match (&self.websocket, &mut self.tls) {
            (None, None) => out.extend_from_slice(chunk),
            (Some(websocket), None) => websocket.wrap(chunk, out),
            (None, Some(tls)) => tls.seal(chunk, out)?,
            (Some(websocket), Some(tls)) => {
                websocket.wrap(chunk, plain);
                tls.seal(plain, out)?;
            }
        }
        Ok(chunk.len())
    }

    /// Puts the closing bytes of each layer into `scratch.out`.
    pub fn close(&mut self, scratch: &mut Scratch) {
        let Scratch { plain, out, .. } = scratch;
        plain.clear();
        out.clear();
        if let Some(websocket) = &mut self.websocket {
            websocket.close(plain);
        }
        match &mut self.tls {
            Some(tls) => {
                // A TLS session that can no longer encrypt cannot send a close alert either.
                if plain.is_empty() || tls.seal(plain, out).is_ok() {
                    tls.close(out);
                }
            }
            None => out.append(plain),
        }
    }

    /// Keeps what the socket did not take.
    pub fn keep(&mut self, rest: &[u8]) -> io::Result<()> {
        if self.unsent.len() + rest.len() > UNSENT_BYTES_MAX {
            return Err(io::Error::other("the client asks, and takes no answers"));
        }
        self.unsent.extend_from_slice(rest);
        Ok(())
    }

    /// Writes what was kept; says whether that was all.
    pub fn flush(&mut self, socket: &mut impl Write) -> io::Result<bool> {
        if self.unsent.is_empty() {
            return Ok(true);
        }
        let written = write_some(socket, &self.unsent)?;
        if written == self.unsent.len() {
            // Given back: who is idle owns nothing.
            self.unsent = Vec::new();
            return Ok(true);
        }
        self.unsent.drain(..written);
        Ok(false)
    }
}
