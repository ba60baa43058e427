//! One connection: bytes to send, bytes received, and when each request in flight was sent.

use super::{Dialect, Tally, nanoseconds_since};
use crate::outbox::Outbox;
use anyhow::{Context, Result, bail};
use mio::net::TcpStream;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::net::SocketAddr;
use std::time::Instant;

/// First size of the inbox; it grows to the longest answer.
const INBOX_BYTES: usize = 64 * 1024;

pub struct Connection {
    socket: TcpStream,
    outbox: Outbox,
    inbox: Vec<u8>,
    filled: usize,
    /// By tag: when the request was sent, in nanoseconds since the start.
    sent_at: Vec<u64>,
    free_tags: Vec<u32>,
    /// Tags in the order asked, for protocols that answer in order.
    order: VecDeque<u32>,
}

impl Connection {
    pub fn open(address: SocketAddr, in_flight: usize, dialect: &mut impl Dialect) -> Result<Connection> {
        let mut socket = std::net::TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        dialect.greet(&mut socket)?;
        socket.set_nonblocking(true)?;
        Ok(Connection {
            socket: TcpStream::from_std(socket),
            outbox: Outbox::default(),
            inbox: vec![0; INBOX_BYTES],
            filled: 0,
            sent_at: vec![0; in_flight],
            free_tags: (0..in_flight as u32).rev().collect(),
            order: VecDeque::with_capacity(in_flight),
        })
    }

    pub fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// No request in flight.
    pub fn is_idle(&self) -> bool {
        self.free_tags.len() == self.sent_at.len()
    }

    /// Encodes requests until all tags are in flight, or there is nothing to ask.
    pub fn fill<D: Dialect>(&mut self, dialect: &mut D, now: u64) -> Result<()> {
        while let Some(&tag) = self.free_tags.last()
            && dialect.ask(tag, self.outbox.bytes())?
        {
            self.free_tags.pop();
            self.sent_at[tag as usize] = now;
            if D::IN_ORDER {
                self.order.push_back(tag);
            }
        }
        Ok(())
    }

    /// Writes what the socket takes; the rest goes when it says it is writable again.
    pub fn flush(&mut self) -> Result<()> {
        self.outbox.flush(&mut self.socket)
    }

    /// Reads and counts all answers that have arrived.
    pub fn receive<D: Dialect>(&mut self, dialect: &mut D, tally: &mut Tally, started: Instant) -> Result<()> {
        loop {
            let room = self.inbox.len() - self.filled;
            let bytes = match self.socket.read(&mut self.inbox[self.filled..]) {
                Ok(0) => bail!("the server closed the connection; {}", tally.outcomes()),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).context("could not receive"),
            };
            self.filled += bytes;
            self.count_answers(dialect, tally, nanoseconds_since(started))?;
            // A read that left room has emptied the socket (epoll(7), edge-triggered stream sockets): one call less.
            if bytes < room {
                return Ok(());
            }
        }
    }

    fn count_answers<D: Dialect>(&mut self, dialect: &mut D, tally: &mut Tally, now: u64) -> Result<()> {
        let mut taken = 0;
        while taken < self.filled
            && let Some(answer) = dialect.answer(&self.inbox[taken..self.filled])?
        {
            taken += answer.bytes;
            let tag = match D::IN_ORDER {
                true => self.order.pop_front().context("an answer to nothing that was asked")?,
                false => answer.tag,
            };
            let sent_at = *self.sent_at.get(tag as usize).context("an answer with a tag that was never sent")?;
            self.free_tags.push(tag);
            tally.add(answer.outcomes, now - sent_at, now);
        }
        self.inbox.copy_within(taken..self.filled, 0);
        self.filled -= taken;
        if self.filled == self.inbox.len() {
            self.inbox.resize(self.inbox.len() * 2, 0);
        }
        Ok(())
    }
}
