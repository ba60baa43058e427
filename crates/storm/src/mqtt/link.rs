//! One client's socket after CONNACK: packets to send, and received bytes that are cut into packets in place.

use super::packet::{self, Arrival};
use crate::outbox::Outbox;
use anyhow::{Context, Result, bail};
use mio::net::TcpStream;
use std::io::{ErrorKind, Read};

/// A connected client.
pub struct Link {
    socket: TcpStream,
    outbox: Outbox,
    /// The beginning of a packet whose end has not come.
    rest: Vec<u8>,
}

impl Link {
    /// Of a client that is in and subscribed.
    pub fn new(socket: std::net::TcpStream) -> Result<Link> {
        socket.set_nonblocking(true)?;
        Ok(Link { socket: TcpStream::from_std(socket), outbox: Outbox::default(), rest: Vec::new() })
    }

    /// For the poll.
    pub fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// Where packets go that the next flush sends.
    #[inline]
    pub fn outbox(&mut self) -> &mut Vec<u8> {
        self.outbox.bytes()
    }

    /// Bytes that the socket has not taken.
    #[inline]
    pub fn unsent_bytes(&self) -> usize {
        self.outbox.unsent_bytes()
    }

    /// Writes what the socket takes; the rest goes when it says that it is writable again.
    pub fn flush(&mut self) -> Result<()> {
        self.outbox.flush(&mut self.socket)
    }

    /// Reads all that has come into `buffer`, which all links share, and hands it over packet by packet. Answers go to
    /// the outbox.
    #[inline]
    pub fn receive(
        &mut self,
        buffer: &mut [u8],
        mut take: impl FnMut(Arrival<'_>, &mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        loop {
            let old = self.rest.len();
            buffer[..old].copy_from_slice(&self.rest);
            let read = match self.socket.read(&mut buffer[old..]) {
                Ok(0) => bail!("the broker closed the connection"),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).context("could not receive"),
            };
            let mut left = &buffer[..old + read];
            while let Some(length) = packet::split(left)? {
                let (packet, behind) = left.split_at(length);
                take(packet::read(packet)?, self.outbox.bytes())?;
                left = behind;
            }
            self.rest.clear();
            self.rest.extend_from_slice(left);
            // A read that left room has emptied the socket (epoll(7), edge-triggered stream sockets): one call less.
            if old + read < buffer.len() {
                return Ok(());
            }
        }
    }
}
