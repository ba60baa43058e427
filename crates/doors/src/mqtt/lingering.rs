//! Sockets whose connections the broker has forgotten, until their clients have ended.
//!
//! ```text
//!   close ─▶ begin ─┬─ the client has ended already ─▶ dropped
//!                   └─ it has not ─▶ an event ─▶ go_on: thrown away, in turn ─▶ its end, or a bound ─▶ dropped
//! ```
//!
//! Promise: all of them together cost a turn no more than [`BYTES_IN_TURN_MAX`] of reading. Each stays counted among
//! the clients of its listener and its address, so there are never more of them than clients; and gives way to a new
//! client when a door is full ([`PortNewcomers`]).

use std::collections::VecDeque;
use std::net::TcpStream;

use slab::Slab;

use super::newcomers::{Line, PortNewcomers};
use crate::admission::{AddressMark, ListenerIndex};
use crate::linger::{Ends, Linger};
use crate::stream::{Scratch, Stream};

/// Bytes that are thrown away in one turn, of all.
const BYTES_IN_TURN_MAX: usize = 256 << 10;
/// Those of one socket, before others get their turn.
const BYTES_OF_VISIT_MAX: usize = 64 << 10;

/// One of them.
pub(super) struct LingeringSocket {
    pub stream: Stream<TcpStream>,
    pub linger: Linger,
    pub listener: ListenerIndex,
    pub mark: AddressMark,
    /// Where it is found among those that give way; `None` for one that was only told why it may not stay.
    pub line: Option<Line>,
    /// It stands in the list of those that have something.
    pub is_listed: bool,
    /// Which one it is of those that stood at its place.
    pub number: u64,
}

/// All of one worker.
#[derive(Default)]
pub(super) struct LingeringSockets {
    sockets: Slab<LingeringSocket>,
    /// Those that have something to be thrown away, or take something again.
    listed: VecDeque<usize>,
    /// In the order of their ends. Those that ended before are still named.
    ends: VecDeque<(usize, u64)>,
    next_number: u64,
}

impl LingeringSockets {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.sockets.len()
    }

    /// Whether one may be looked at.
    pub fn has_news(&self) -> bool {
        !self.listed.is_empty()
    }

    /// Where the next one will stand.
    pub fn next_place(&self) -> usize {
        self.sockets.vacant_key()
    }

    /// One more, which has not ended at once.
    pub fn insert(&mut self, mut socket: LingeringSocket) {
        self.next_number += 1;
        socket.number = self.next_number;
        let place = self.sockets.insert(socket);
        self.ends.push_back((place, self.next_number));
    }

    /// The one that stands here has something.
    pub fn list(&mut self, place: usize) {
        if let Some(socket) = self.sockets.get_mut(place)
            && !std::mem::replace(&mut socket.is_listed, true)
        {
            self.listed.push_back(place);
        }
    }

    /// Goes on with those that have something, a turn's worth. Returns whether there was any.
    pub fn go_on(&mut self, scratch: &mut Scratch, newcomers: &mut PortNewcomers) -> bool {
        let mut left = BYTES_IN_TURN_MAX;
        let worked = self.has_news();
        for _ in 0..self.listed.len() {
            if left == 0 {
                break;
            }
            let Some(place) = self.listed.pop_front() else { break };
            let Some(socket) = self.sockets.get_mut(place) else { continue };
            socket.is_listed = false;
            let mut of_visit = left.min(BYTES_OF_VISIT_MAX);
            let before = of_visit;
            let ends = socket.linger.go_on(&mut socket.stream, scratch, &mut of_visit);
            left -= before - of_visit;
            match ends {
                Ends::Now => self.drop(place, newcomers),
                Ends::Later => {}
                Ends::Reads => self.list(place),
            }
        }
        worked
    }

    /// Drops those whose time is over.
    pub fn end_overdue(&mut self, now_ms: u64, newcomers: &mut PortNewcomers) {
        while let Some((place, number)) = self.ends.front().copied() {
            match self.sockets.get(place).filter(|socket| socket.number == number) {
                Some(socket) if !socket.linger.is_overdue(now_ms) => return,
                Some(_) => self.drop(place, newcomers),
                None => {}
            }
            self.ends.pop_front();
        }
    }

    /// The process stops: nobody may take long.
    pub fn hurry(&mut self, now_ms: u64) {
        self.sockets.iter_mut().for_each(|(_, socket)| socket.linger.hurry(now_ms));
    }

    /// The one that stands here ends at once.
    pub fn drop(&mut self, place: usize, newcomers: &mut PortNewcomers) {
        let LingeringSocket { listener, mark, line, .. } = self.sockets.remove(place);
        newcomers.end_lingering(listener, mark, line);
    }
}
