//! Keeps a fixed number of requests in flight on a fixed number of connections until the work is done, and reports the
//! outcomes.
//!
//! ```text
//!   Workload ──▶ Dialect::ask ──▶ outbox ──▶ socket          one thread, one poll loop
//!      Tally ◀── Dialect::answer ◀── inbox ◀── socket
//! ```
//!
//! Why one thread and non-blocking sockets: client and server share the cores, so processor time of the client is
//! missing for the server. A poll wakes once for all connections whose answers a commit group released; 64 blocking
//! threads would be woken one by one.

mod connection;
mod dialect;
mod tally;

pub use dialect::{Answer, Dialect};
pub use tally::{Outcomes, Tally};

use anyhow::{Context, Result, bail};
use connection::Connection;
use mio::{Events, Interest, Poll, Token};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A server that answers nothing for so long has failed the run.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// How hard to push.
#[derive(Clone, Copy, Debug)]
pub struct Pressure {
    /// Connections.
    pub connections: usize,
    /// Requests in flight on each.
    pub in_flight: usize,
}

/// Sends all the work of `dialect` to `address` and waits for every answer.
pub fn run(address: SocketAddr, pressure: Pressure, dialect: &mut impl Dialect) -> Result<Tally> {
    run_watched(address, pressure, dialect, |_| Ok(()))
}

/// As [`run`]; `each_million` is told the number of answered transfers whenever another million is complete.
pub fn run_watched(
    address: SocketAddr,
    pressure: Pressure,
    dialect: &mut impl Dialect,
    mut each_million: impl FnMut(u64) -> Result<()>,
) -> Result<Tally> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(pressure.connections.max(16));
    let mut connections = Vec::with_capacity(pressure.connections);
    for index in 0..pressure.connections {
        dialect.turn_to(index);
        let mut connection = Connection::open(address, pressure.in_flight, dialect)
            .with_context(|| format!("could not open connection {index} to {address}"))?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(connection.socket(), Token(index), interest)?;
        connections.push(connection);
    }

    let started = Instant::now();
    let mut tally = Tally::new(dialect.transfers_left());
    let mut millions = 0;
    for (index, connection) in connections.iter_mut().enumerate() {
        dialect.turn_to(index);
        connection.fill(dialect, nanoseconds_since(started))?;
        connection.flush()?;
    }
    while connections.iter().any(|connection| !connection.is_idle()) {
        poll.poll(&mut events, Some(SILENCE_MAX))?;
        if events.is_empty() {
            bail!("{address} answered nothing for {} s; {}", SILENCE_MAX.as_secs(), tally.outcomes());
        }
        for event in &events {
            let connection = &mut connections[event.token().0];
            dialect.turn_to(event.token().0);
            if event.is_readable() {
                connection.receive(dialect, &mut tally, started)?;
                connection.fill(dialect, nanoseconds_since(started))?;
            }
            connection.flush()?;
        }
        let answered = tally.outcomes().total();
        if answered / 1_000_000 > millions {
            millions = answered / 1_000_000;
            each_million(answered)?;
        }
    }
    tally.finish(started.elapsed());
    Ok(tally)
}

fn nanoseconds_since(start: Instant) -> u64 {
    start.elapsed().as_nanos() as u64
}
