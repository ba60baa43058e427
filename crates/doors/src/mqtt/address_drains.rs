//! Drains of single networks: clients from there are sent away at a rate, and new ones are refused.
//!
//! ```text
//!   begin ─▶ a walk over all sockets, a slice each tick, round after round ─ from there? ─▶ sent away, as the rate is
//!   CONNECT from there ─▶ refused
//! ```
//!
//! Why a walk and no table by address: it would cost each of a million clients memory, for what is done now and then.

use std::net::IpAddr;

use tidegate_broker::ConnectionKey;
use tidegate_machines::TimeMs;

use super::sockets::{Socket, Sockets};
use crate::admission::AddressMark;
use crate::turns::network_of;

/// Networks that are drained at once.
pub(super) const ADDRESS_DRAINS_MAX: usize = 64;
/// Places of sockets that one slice of a walk looks at.
pub(super) const PLACES_PER_SLICE: u32 = 4_096;

/// A network, and how its sockets are known at a glance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Network {
    pub address: IpAddr,
    pub mark: AddressMark,
}

impl Network {
    /// Whether a socket comes from there.
    pub fn has(&self, socket: &mut Socket) -> bool {
        // Asking a socket costs a system call; its mark tells nearly all others apart.
        socket.mark == self.mark && network_of(super::port::address_of(socket)) == self.address
    }
}

/// One drain of this worker.
#[derive(Debug)]
struct AddressDrain {
    network: Network,
    /// Of all workers.
    per_second: u32,
    /// Clients that this worker may send away by now, in thousandths.
    credit: u64,
    moved_at: TimeMs,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct AddressDrains {
    all: Vec<AddressDrain>,
    /// Where the walk stands.
    at: u32,
}

impl AddressDrains {
    /// Begins a drain, or gives it another rate. False when there are too many.
    pub fn begin(&mut self, network: Network, per_second: u32, now: TimeMs) -> bool {
        if let Some(drain) = self.all.iter_mut().find(|drain| drain.network == network) {
            drain.per_second = per_second;
            return true;
        }
        if self.all.len() >= ADDRESS_DRAINS_MAX {
            return false;
        }
        self.all.push(AddressDrain { network, per_second, credit: 0, moved_at: now });
        true
    }

    /// Ends a drain. Whether there was one.
    pub fn end(&mut self, address: IpAddr) -> bool {
        let before = self.all.len();
        self.all.retain(|drain| drain.network.address != address);
        self.all.len() < before
    }

    /// All of them: networks, and clients per second.
    pub fn list(&self) -> Vec<(IpAddr, u32)> {
        self.all.iter().map(|drain| (drain.network.address, drain.per_second)).collect()
    }

    /// How fast the clients of a network are sent away.
    pub fn rate(&self, address: IpAddr) -> Option<u32> {
        self.all.iter().find(|drain| drain.network.address == address).map(|drain| drain.per_second)
    }

    /// Whether a new client is refused.
    pub fn refuse(&self, socket: &mut Socket) -> bool {
        self.all.iter().any(|drain| drain.network.has(socket))
    }

    /// Goes on with the walk: who is sent away now, with `workers` workers that all do so.
    pub fn step(&mut self, sockets: &mut Sockets, workers: u16, now: TimeMs) -> Vec<ConnectionKey> {
        let mut leaving = Vec::new();
        if self.all.is_empty() {
            return leaving;
        }
        for drain in &mut self.all {
            let passed_ms = now.0.saturating_sub(drain.moved_at.0);
            drain.moved_at = now;
            let per_second = u64::from(drain.per_second.div_ceil(u32::from(workers)));
            // No more than a second's worth comes at once.
            drain.credit = (drain.credit + passed_ms.min(1_000) * per_second).min(per_second * 1_000);
        }
        let places = sockets.places();
        for _ in 0..PLACES_PER_SLICE.min(places) {
            self.at = if self.at + 1 >= places { 0 } else { self.at + 1 };
            let Some((key, socket)) = sockets.at(self.at) else { continue };
            let drain = self.all.iter_mut().find(|drain| drain.credit >= 1_000 && drain.network.has(socket));
            if let Some(drain) = drain {
                drain.credit -= 1_000;
                leaving.push(key);
            }
        }
        leaving
    }
}

/// Counts the connections of a network, slice by slice.
#[derive(Debug)]
pub(super) struct Count {
    network: Network,
    at: u32,
    found: u64,
}

impl Count {
    pub fn new(network: Network) -> Count {
        Count { network, at: 0, found: 0 }
    }

    /// Which network.
    pub fn network(&self) -> IpAddr {
        self.network.address
    }

    /// The next slice. The count when it is over.
    pub fn step(&mut self, sockets: &mut Sockets) -> Option<u64> {
        let places = sockets.places();
        let end = places.min(self.at.saturating_add(PLACES_PER_SLICE));
        for place in self.at..end {
            if sockets.at(place).is_some_and(|(_, socket)| self.network.has(socket)) {
                self.found += 1;
            }
        }
        self.at = end;
        (self.at >= places).then_some(self.found)
    }
}
