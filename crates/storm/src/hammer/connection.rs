//! One connection of the load: bytes to send, and the beginning of an answer whose end has not come.

use super::{Answer, Answers, Protocol};
use crate::outbox::Outbox;
use anyhow::{Context, Result, bail};
use mio::net::TcpStream;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A server that says nothing to a Hello for so long is stuck, or no pacer.
const GREETING_MAX: Duration = Duration::from_secs(10);

pub struct Connection<W> {
    socket: TcpStream,
    outbox: Outbox,
    rest: Vec<u8>,
    /// Tags in the order asked, for protocols that answer in order.
    pub order: VecDeque<u32>,
    /// Bids that won and are not told yet.
    pub won: Vec<W>,
}

const CLOSED: &str = "the server closed the connection; its log says why";

impl<W> Connection<W> {
    /// Connects, and lets the protocol talk.
    pub fn open(address: SocketAddr, protocol: &mut impl Protocol<Won = W>) -> Result<Connection<W>> {
        let mut socket = std::net::TcpStream::connect(address)
            .with_context(|| format!("could not connect to {address}: does a pacer listen there?"))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(GREETING_MAX))?;
        protocol
            .greet(&mut socket)
            .with_context(|| format!("{address} did not let us in: is this the port for this load?"))?;
        socket.set_nonblocking(true)?;
        Ok(Connection {
            socket: TcpStream::from_std(socket),
            outbox: Outbox::default(),
            rest: Vec::new(),
            order: VecDeque::new(),
            won: Vec::new(),
        })
    }

    /// For the poll.
    pub fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// Where bytes go that the next flush sends.
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

    /// Appends notices of what won, and tells how many answers they will have.
    pub fn notify(&mut self, protocol: &mut impl Protocol<Won = W>) -> u64 {
        if self.won.is_empty() { 0 } else { protocol.notify(&mut self.won, self.outbox.bytes()) }
    }

    /// Reads all that has come into `buffer`, which all connections share. Calls `take` with each answer, the tags that
    /// were asked in order, and the time at which the answer was read.
    pub fn receive<P: Protocol<Won = W>>(
        &mut self,
        protocol: &mut P,
        answers: &mut Answers,
        buffer: &mut [u8],
        mut take: impl FnMut(Answer, &mut VecDeque<u32>, Instant) -> Result<()>,
    ) -> Result<()> {
        loop {
            let old = self.rest.len();
            buffer[..old].copy_from_slice(&self.rest);
            let read = match self.socket.read(&mut buffer[old..]) {
                Ok(0) => bail!(CLOSED),
                // It closed while more was under way.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => bail!(CLOSED),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).context("could not receive"),
            };
            let now = Instant::now();
            let mut left = &buffer[..old + read];
            while !left.is_empty()
                && let Some(answer) = protocol.answer(left, answers, &mut self.won)?
            {
                left = &left[answer.bytes..];
                take(answer, &mut self.order, now)?;
            }
            if left.len() == buffer.len() {
                bail!("an answer of more than {} bytes", buffer.len());
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
