//! How to connect: TCP, and TLS over it.

use crate::client::Client;
use crate::error::ClientError;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;
#[cfg(feature = "tls")]
use std::time::Instant;

/// How long to wait before a call gives up with [`ClientError::TimedOut`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection to come about, for each address of a name.
    pub connect: Duration,
    /// For the next bytes of a reply. The server answers when the disk has the record, so leave room for a slow one.
    pub read: Duration,
    /// For the socket to take more bytes.
    pub write: Duration,
}

impl Default for Timeouts {
    /// Ten seconds each.
    fn default() -> Timeouts {
        let ten = Duration::from_secs(10);
        Timeouts { connect: ten, read: ten, write: ten }
    }
}

impl Client<TcpStream> {
    /// Connects and shows `token`, with the default time-outs.
    pub fn connect(address: impl ToSocketAddrs, token: &str) -> Result<Client<TcpStream>, ClientError> {
        Client::connect_within(address, token, Timeouts::default())
    }

    /// Connects and shows `token`.
    pub fn connect_within(
        address: impl ToSocketAddrs,
        token: &str,
        timeouts: Timeouts,
    ) -> Result<Client<TcpStream>, ClientError> {
        Client::over(tcp(address, timeouts)?, token)
    }
}

#[cfg(feature = "tls")]
impl Client<rustls::StreamOwned<rustls::ClientConnection, TcpStream>> {
    /// Connects over TLS to a server that must prove to be `server_name`, and shows `token`. Which authorities are
    /// trusted is said by `config`.
    pub fn connect_tls(
        address: impl ToSocketAddrs,
        server_name: rustls::pki_types::ServerName<'static>,
        config: std::sync::Arc<rustls::ClientConfig>,
        token: &str,
        timeouts: Timeouts,
    ) -> Result<Self, ClientError> {
        let mut session = rustls::ClientConnection::new(config, server_name)?;
        let mut stream = tcp(address, timeouts)?;
        shake_hands(&mut session, &mut stream, timeouts)?;
        Client::over(rustls::StreamOwned::new(session, stream), token)
    }
}

/// The handshake as a whole takes no longer than a read may: a server that sends a byte now and then is not waited for.
#[cfg(feature = "tls")]
fn shake_hands(
    session: &mut rustls::ClientConnection,
    stream: &mut TcpStream,
    timeouts: Timeouts,
) -> Result<(), ClientError> {
    let until = Instant::now() + timeouts.read;
    loop {
        while session.wants_write() {
            session.write_tls(stream)?;
        }
        if !session.is_handshaking() {
            break;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ClientError::TimedOut);
        }
        stream.set_read_timeout(Some(left))?;
        if session.read_tls(stream)? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        if let Err(error) = session.process_new_packets() {
            // What is wrong is said to the server, if it still listens.
            let _alert = session.write_tls(stream);
            return Err(io::Error::new(io::ErrorKind::InvalidData, error).into());
        }
    }
    Ok(stream.set_read_timeout(Some(timeouts.read))?)
}

/// Tries each address of a name in turn.
fn tcp(address: impl ToSocketAddrs, timeouts: Timeouts) -> Result<TcpStream, ClientError> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs().map_err(ClientError::Io)? {
        match TcpStream::connect_timeout(&address, timeouts.connect) {
            Ok(stream) => {
                // Requests are gathered here, before the socket; gathering again below it would only add 40 ms.
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(timeouts.read))?;
                stream.set_write_timeout(Some(timeouts.write))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last.into())
}
