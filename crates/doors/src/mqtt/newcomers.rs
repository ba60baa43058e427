//! The connections of one worker that give way to new ones when a door is full: those whose CONNECT was not accepted,
//! and those that the server has closed and whose clients have not ended.
//!
//! ```text
//!   accepted, or from the HTTP door ─▶ newcomer ─┬─ verdict: yes ─▶ none any more
//!                                                ├─ goes to the worker of its session ─▶ a newcomer there
//!   closed by the server ─▶ newcomer until it ends
//!                                                └─ a door is full ─▶ the oldest of the address with the most is lost
//! ```
//!
//! Promise: a client that says who it is gets in within moments, however many connections say nothing, from however
//! many addresses. Memory is kept for newcomers only, so none for a client that stays.
//!
//! Those that are let in only to be told why they may not stay are none of them: they take no place of others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use tidegate_broker::ConnectionKey;

use crate::admission::{AddressMark, Admission, ListenerIndex, Newcomers, Standing};
use crate::turns::network_of;

/// One that gives way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Newcomer {
    /// Its CONNECT was not accepted yet.
    Open(ConnectionKey),
    /// It was closed, and stands at this place of [`LingeringSockets`](super::lingering::LingeringSockets).
    Lingering(usize),
}

/// Where one of them is found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    listener: ListenerIndex,
    network: IpAddr,
    number: u64,
}

/// See the [module](self).
pub(super) struct PortNewcomers {
    worker: u16,
    /// Counts them for all workers.
    admission: Arc<Admission>,
    of_listeners: Vec<Newcomers<Newcomer>>,
    /// Where those are found that are open.
    open: HashMap<ConnectionKey, Line>,
    /// The number of the next one.
    next: u64,
}

impl PortNewcomers {
    /// None, of a worker with so many listeners.
    pub fn new(worker: u16, listeners: usize, admission: Arc<Admission>) -> PortNewcomers {
        let of_listeners = (0..listeners).map(|_| Newcomers::default()).collect();
        PortNewcomers { worker, admission, of_listeners, open: HashMap::new(), next: 0 }
    }

    /// A connection has come from this address.
    pub fn join(&mut self, key: ConnectionKey, listener: ListenerIndex, address: IpAddr) {
        let line = self.join_line(listener, address, Newcomer::Open(key));
        let before = self.open.insert(key, line);
        assert!(before.is_none(), "a connection comes once");
    }

    /// A connection of this address was closed, and will stand at this place until it ends.
    pub fn join_lingering(&mut self, place: usize, listener: ListenerIndex, address: IpAddr) -> Line {
        self.join_line(listener, address, Newcomer::Lingering(place))
    }

    fn join_line(&mut self, listener: ListenerIndex, address: IpAddr, newcomer: Newcomer) -> Line {
        let line = Line { listener, network: network_of(address), number: self.next };
        self.next += 1;
        self.of_listeners[usize::from(listener.0)].join(line.network, line.number, newcomer);
        self.admission.giving_way().join(self.worker, listener);
        line
    }

    /// A connection's CONNECT was accepted, or it is here no longer; also one that is no newcomer.
    pub fn leave(&mut self, key: ConnectionKey) {
        if let Some(line) = self.open.remove(&key) {
            self.leave_line(line);
        }
    }

    /// One that was closed has ended, if it did not give way before. It is counted no longer.
    pub fn end_lingering(&mut self, listener: ListenerIndex, mark: AddressMark, line: Option<Line>) {
        let standing = line.map_or(Standing::Told, |_| Standing::Served);
        if let Some(line) = line {
            self.leave_line(line);
        }
        self.admission.leave(listener, mark, standing);
    }

    fn leave_line(&mut self, Line { listener, network, number }: Line) {
        if self.of_listeners[usize::from(listener.0)].leave(network, number).is_some() {
            self.admission.giving_way().leave(self.worker, listener);
        }
    }

    /// Whether this connection's CONNECT was not accepted yet.
    pub fn has(&self, key: ConnectionKey) -> bool {
        self.open.contains_key(&key)
    }

    /// Who gives way because it was asked of this worker: the oldest of the address that has the most.
    pub fn take_asked(&mut self) -> Vec<Newcomer> {
        let mut taken = Vec::new();
        for (listener, newcomers) in self.of_listeners.iter_mut().enumerate() {
            let listener = ListenerIndex(listener as u8);
            for _ in 0..self.admission.giving_way().take_asked(self.worker, listener) {
                let Some((_, _, newcomer)) = newcomers.take_of_most() else { break };
                self.admission.giving_way().leave(self.worker, listener);
                taken.push(newcomer);
            }
        }
        taken
    }

    /// Whether this worker is asked to end one.
    pub fn are_asked(&self) -> bool {
        (0..self.of_listeners.len())
            .any(|at| self.admission.giving_way().is_asked(self.worker, ListenerIndex(at as u8)))
    }

    /// The oldest of this address, if it has as many connections as it may: it gives way to one more.
    pub fn take_of_full(&mut self, address: IpAddr) -> Option<Newcomer> {
        if !self.admission.is_address_full(address) {
            return None;
        }
        let network = network_of(address);
        for (listener, newcomers) in self.of_listeners.iter_mut().enumerate() {
            if let Some((_, _, newcomer)) = newcomers.take_of(network) {
                self.admission.giving_way().leave(self.worker, ListenerIndex(listener as u8));
                return Some(newcomer);
            }
        }
        None
    }
}
