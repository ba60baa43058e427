//! TLS as a layer: bytes of the wire in, bytes of the application out, and the other way round.
//!
//! ```text
//!   wire bytes ─▶ receive ─┬─▶ application bytes        application bytes ─▶ seal ─▶ wire bytes
//!                          └─▶ wire bytes (handshake, alerts, tickets)
//! ```
//!
//! Promise: between two records a client owns no buffer. Bytes being decrypted or encrypted are in buffers that all
//! clients of a thread share. Only the beginning of an incomplete record is kept per client.
//!
//! Why rustls' unbuffered connections: a buffered one keeps what it read and what it made in buffers of its own.
//! Connections that began elsewhere (HTTPS that became a WebSocket) are buffered already and stay so.

use rustls::pki_types::CertificateDer;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus};
use rustls::{CommonState, ServerConfig, ServerConnection};
use std::io::{self, Read};
use std::net::IpAddr;
use std::sync::Arc;

use super::gate::Unbegun;

/// Longest beginning of something whole that TLS waits for: a handshake message of 64 KiB in records.
pub(super) const PARTIAL_BYTES_MAX: usize = 128 << 10;
/// Memory of a TLS session of which nothing is under way, as measured.
pub const TLS_BYTES: usize = 4 << 10;
/// What sealing adds to a record, at most: its header, its tag, its type, a nonce (TLS 1.2).
const RECORD_OVERHEAD: usize = 5 + 16 + 1 + 8;
/// Bytes of the application in one record.
const RECORD_BYTES: usize = 16 << 10;

/// What a record is worth beside its bytes, in bytes: about a quarter of a microsecond.
const RECORD_COST: usize = 1_024;
/// Least bytes that a record adds to what is in it.
const RECORD_OVERHEAD_MIN: usize = 22;
/// What the server's part of a handshake is worth, in bytes: a signature and a key exchange, a quarter of a millisecond
/// or more.
pub const HANDSHAKE_COST: usize = 1 << 20;

/// One client's TLS.
pub struct TlsLayer {
    session: Session,
    /// The beginning of what has not come whole.
    partial: Vec<u8>,
    /// Until the first bytes of the handshake come.
    unbegun: Option<Box<Unbegun>>,
}

enum Session {
    Unbuffered(Box<UnbufferedServerConnection>),
    Buffered(Box<ServerConnection>),
    /// The client broke TLS, and was told.
    Failed,
}

/// What bytes of the wire are worth beside themselves: so many of them were nothing of the application, and perhaps a
/// handshake was answered.
pub fn cost_of(overhead_bytes: usize, has_shaken: bool) -> usize {
    overhead_bytes / RECORD_OVERHEAD_MIN * RECORD_COST + if has_shaken { HANDSHAKE_COST } else { 0 }
}

/// Whether the client may send more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Yes.
    Open,
    /// It has said that this was all.
    Ended,
}

/// A handshake that has begun came to nothing.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct HandshakeFailed {
    why: String,
    /// It began with a header of the PROXY protocol.
    pub is_proxy_header: bool,
}

impl HandshakeFailed {
    pub(super) fn wrap(error: &io::Error, is_proxy_header: bool) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, HandshakeFailed { why: error.to_string(), is_proxy_header })
    }

    /// Whether this is what ended a connection.
    pub fn of(error: &io::Error) -> Option<&HandshakeFailed> {
        error.get_ref()?.downcast_ref()
    }
}

impl TlsLayer {
    /// For a client that has just connected.
    pub fn accept(config: Arc<ServerConfig>) -> Result<TlsLayer, rustls::Error> {
        let session = Session::Unbuffered(Box::new(UnbufferedServerConnection::new(config)?));
        Ok(TlsLayer { session, partial: Vec::new(), unbegun: None })
    }

    /// The same; its handshake is asked for first.
    #[must_use]
    pub(super) fn behind(self, unbegun: Unbegun) -> TlsLayer {
        TlsLayer { unbegun: Some(Box::new(unbegun)), ..self }
    }

    /// The first bytes of the wire have come, of this client if a load balancer has said whose they are. An error if
    /// its handshake may not begin.
    pub(super) fn begin(&mut self, client: Option<IpAddr>) -> io::Result<()> {
        self.unbegun.take().map_or(Ok(()), |unbegun| unbegun.begin(client))
    }

    /// Continues a TLS session that began elsewhere. What it has read already comes with the first
    /// [`TlsLayer::receive`].
    pub fn resume(session: ServerConnection) -> TlsLayer {
        TlsLayer { session: Session::Buffered(Box::new(session)), partial: Vec::new(), unbegun: None }
    }

    /// The bytes to put before the next bytes of the wire that [`TlsLayer::receive`] gets.
    pub fn partial(&self) -> &[u8] {
        &self.partial
    }

    /// Takes the bytes of the wire that came, behind [`TlsLayer::partial`]. Adds to `plain` what they mean, and to
    /// `to_wire` what TLS itself has to answer, also together with an error: an alert says why.
    pub fn receive(&mut self, wire: &mut [u8], plain: &mut Vec<u8>, to_wire: &mut Vec<u8>) -> io::Result<Flow> {
        let flow = self.take(wire, plain, to_wire);
        if flow.is_err() {
            // After a fatal alert, rustls treats a further call as a bug of the caller.
            self.session = Session::Failed;
        }
        flow
    }

    /// Whether the handshake is not over.
    pub fn is_handshaking(&self) -> bool {
        match &self.session {
            Session::Unbuffered(session) => session.is_handshaking(),
            Session::Buffered(session) => session.is_handshaking(),
            Session::Failed => false,
        }
    }

    fn take(&mut self, wire: &mut [u8], plain: &mut Vec<u8>, to_wire: &mut Vec<u8>) -> io::Result<Flow> {
        match &mut self.session {
            Session::Failed => Err(io::ErrorKind::InvalidData.into()),
            Session::Unbuffered(session) => {
                let mut taken = 0;
                let flow = process(session, wire, &mut taken, plain, to_wire)?;
                let rest = &wire[taken..];
                if rest.len() > PARTIAL_BYTES_MAX {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "the handshake is too long"));
                }
                // Allocated in its exact size, because it may be kept for long.
                self.partial = rest.to_vec();
                Ok(flow)
            }
            Session::Buffered(session) => receive_buffered(session, wire, plain, to_wire),
        }
    }

    /// Encrypts `plain` behind `to_wire`.
    pub fn seal(&mut self, plain: &[u8], to_wire: &mut Vec<u8>) -> io::Result<()> {
        match &mut self.session {
            Session::Failed => Err(io::ErrorKind::InvalidData.into()),
            Session::Unbuffered(session) => {
                let room = plain.len() + (plain.len() / RECORD_BYTES + 1) * RECORD_OVERHEAD;
                encrypt(session, &mut self.partial, to_wire, room, |traffic, room| traffic.encrypt(plain, room))
            }
            Session::Buffered(session) => {
                let mut rest = plain;
                while !rest.is_empty() {
                    let taken = io::Write::write(&mut session.writer(), rest)?;
                    rest = &rest[taken..];
                    session.write_tls(to_wire)?;
                }
                drain(session, to_wire)
            }
        }
    }

    /// Says that nothing more will come.
    pub fn close(&mut self, to_wire: &mut Vec<u8>) {
        // If even this fails, the session counts as closed.
        let _ = match &mut self.session {
            Session::Failed => Ok(()),
            Session::Unbuffered(session) => {
                encrypt(session, &mut self.partial, to_wire, 64, |traffic, room| traffic.queue_close_notify(room))
            }
            Session::Buffered(session) => {
                session.send_close_notify();
                drain(session, to_wire)
            }
        };
    }

    /// The certificate that the client has shown and TLS has verified, with those behind it.
    pub fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        let common: &CommonState = match &self.session {
            Session::Unbuffered(session) => session,
            Session::Buffered(session) => session,
            Session::Failed => return None,
        };
        common.peer_certificates()
    }
}

/// Takes everything whole that stands in `wire`, and says in `taken` how much that was.
fn process(
    session: &mut UnbufferedServerConnection,
    wire: &mut [u8],
    taken: &mut usize,
    plain: &mut Vec<u8>,
    to_wire: &mut Vec<u8>,
) -> io::Result<Flow> {
    let mut flow = Flow::Open;
    loop {
        let UnbufferedStatus { mut discard, state } = session.process_tls_records(&mut wire[*taken..]);
        let mut waits = false;
        match state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                while let Some(record) = traffic.next_record() {
                    let record = record.map_err(invalid)?;
                    plain.extend_from_slice(record.payload);
                    discard += record.discard;
                }
            }
            Ok(ConnectionState::EncodeTlsData(mut data)) => encode(to_wire, |room| data.encode(room))?,
            // Whoever gave us `to_wire` sends it.
            Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
            Ok(ConnectionState::PeerClosed) => flow = Flow::Ended,
            Ok(ConnectionState::Closed) => {
                flow = Flow::Ended;
                waits = true;
            }
            Ok(ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => waits = true,
            Ok(_) => return Err(io::Error::new(io::ErrorKind::InvalidData, "early data were not offered")),
            Err(error) => {
                encode_alert(session, to_wire)?;
                return Err(invalid(error));
            }
        }
        *taken += discard;
        if waits {
            return Ok(flow);
        }
    }
}

/// After an error, what the client is to be told of it. Alerts are given out before anything is looked at.
fn encode_alert(session: &mut UnbufferedServerConnection, to_wire: &mut Vec<u8>) -> io::Result<()> {
    while session.wants_write() {
        match session.process_tls_records(&mut []).state {
            Ok(ConnectionState::EncodeTlsData(mut data)) => encode(to_wire, |room| data.encode(room))?,
            Ok(ConnectionState::ReadTraffic(mut traffic)) => while traffic.next_record().is_some() {},
            _ => break,
        }
    }
    Ok(())
}

/// Lets `encrypt` write behind `to_wire`.
fn encrypt(
    session: &mut UnbufferedServerConnection,
    partial: &mut [u8],
    to_wire: &mut Vec<u8>,
    room: usize,
    mut encrypt: impl FnMut(
        &mut rustls::unbuffered::WriteTraffic<'_, rustls::server::ServerConnectionData>,
        &mut [u8],
    ) -> Result<usize, EncryptError>,
) -> io::Result<()> {
    loop {
        // `partial` is what the session has seen already: it says again that it waits for more, and that we may write.
        match session.process_tls_records(partial).state.map_err(invalid)? {
            ConnectionState::EncodeTlsData(mut data) => encode(to_wire, |room| data.encode(room))?,
            ConnectionState::TransmitTlsData(data) => data.done(),
            ConnectionState::WriteTraffic(mut traffic) => {
                return fill(to_wire, room, |room| {
                    encrypt(&mut traffic, room).map_err(|error| match error {
                        EncryptError::InsufficientSize(size) => Some(size),
                        EncryptError::EncryptExhausted => None,
                    })
                });
            }
            ConnectionState::PeerClosed => {}
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "nothing may be sent before the handshake ends",
                ));
            }
        }
    }
}

fn encode(to_wire: &mut Vec<u8>, mut encode: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>) -> io::Result<()> {
    fill(to_wire, 1_024, |room| {
        encode(room).map_err(|error| match error {
            EncodeError::InsufficientSize(size) => Some(size),
            EncodeError::AlreadyEncoded => None,
        })
    })
}

/// Gives `write` some room behind `to_wire`, and more if it says how much it needs.
fn fill(
    to_wire: &mut Vec<u8>,
    mut room: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<InsufficientSizeError>>,
) -> io::Result<()> {
    let begin = to_wire.len();
    loop {
        to_wire.resize(begin + room, 0);
        match write(&mut to_wire[begin..]) {
            Ok(written) => {
                to_wire.truncate(begin + written);
                return Ok(());
            }
            Err(Some(InsufficientSizeError { required_size })) if required_size > room => room = required_size,
            Err(_) => {
                to_wire.truncate(begin);
                return Err(io::Error::new(io::ErrorKind::InvalidData, "TLS can encrypt nothing more"));
            }
        }
    }
}

fn receive_buffered(
    session: &mut ServerConnection,
    wire: &[u8],
    plain: &mut Vec<u8>,
    to_wire: &mut Vec<u8>,
) -> io::Result<Flow> {
    let mut rest = wire;
    loop {
        if !rest.is_empty() {
            session.read_tls(&mut rest)?;
        }
        let processed = session.process_new_packets();
        drain(session, to_wire)?;
        let state = processed.map_err(invalid)?;
        let begin = plain.len();
        plain.resize(begin + state.plaintext_bytes_to_read(), 0);
        session.reader().read_exact(&mut plain[begin..])?;
        if state.peer_has_closed() {
            return Ok(Flow::Ended);
        }
        if rest.is_empty() {
            return Ok(Flow::Open);
        }
    }
}

fn drain(session: &mut ServerConnection, to_wire: &mut Vec<u8>) -> io::Result<()> {
    while session.wants_write() {
        session.write_tls(to_wire)?;
    }
    Ok(())
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests;
