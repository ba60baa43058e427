//! A client's byte stream, plain or under TLS, read and written without waiting.

use std::io::{self, Read, Write};
use std::sync::Arc;

use mio::net::TcpStream;
use rustls::{ServerConfig, ServerConnection};

/// What came of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// So many bytes.
    Bytes(usize),
    /// Nothing for now.
    WouldBlock,
    /// The client has ended the stream.
    Closed,
}

/// A connected client.
pub enum Stream {
    /// Plain TCP.
    Plain(TcpStream),
    /// TLS 1.2 or 1.3.
    Tls(Box<TlsStream>),
}

/// TLS over TCP.
pub struct TlsStream {
    tcp: TcpStream,
    session: ServerConnection,
}

impl Stream {
    /// Wraps an accepted socket; with a TLS configuration the handshake begins with the first read.
    pub fn new(tcp: TcpStream, tls: Option<&Arc<ServerConfig>>) -> Result<Stream, rustls::Error> {
        Ok(match tls {
            None => Stream::Plain(tcp),
            Some(config) => Stream::Tls(Box::new(TlsStream { tcp, session: ServerConnection::new(config.clone())? })),
        })
    }

    /// The socket, to register it.
    pub fn tcp(&mut self) -> &mut TcpStream {
        match self {
            Stream::Plain(tcp) => tcp,
            Stream::Tls(tls) => &mut tls.tcp,
        }
    }

    /// Reads what is there, at most `into.len()` bytes.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<ReadOutcome> {
        match self {
            Stream::Plain(tcp) => outcome(tcp.read(into)),
            Stream::Tls(tls) => tls.read(into),
        }
    }

    /// Writes as much as the socket takes; returns how many bytes of `bytes` are done with.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(tcp) => match tcp.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
                written => written,
            },
            Stream::Tls(tls) => tls.write(bytes),
        }
    }

    /// Whether TLS still has bytes of its own to send.
    pub fn wants_write(&self) -> bool {
        match self {
            Stream::Plain(_) => false,
            Stream::Tls(tls) => tls.session.wants_write(),
        }
    }
}

impl TlsStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<ReadOutcome> {
        loop {
            match outcome(self.session.reader().read(into))? {
                ReadOutcome::WouldBlock => {}
                done => return Ok(done),
            }
            match self.session.read_tls(&mut self.tcp) {
                Ok(0) => return Ok(ReadOutcome::Closed),
                Ok(_) => {
                    let processed = self.session.process_new_packets();
                    // An alert, if there is one, tells the client why.
                    self.flush()?;
                    processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(ReadOutcome::WouldBlock),
                Err(error) => return Err(error),
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        if self.session.wants_write() {
            return Ok(0);
        }
        let taken = self.session.writer().write(bytes)?;
        self.flush()?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.tcp) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn outcome(read: io::Result<usize>) -> io::Result<ReadOutcome> {
    match read {
        Ok(0) => Ok(ReadOutcome::Closed),
        Ok(bytes) => Ok(ReadOutcome::Bytes(bytes)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(ReadOutcome::WouldBlock),
        Err(error) => Err(error),
    }
}
