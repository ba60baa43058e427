//! Counts the clients of each address in a fixed amount of memory, with a count-min sketch.
//!
//! ```text
//!   address ─ keyed hash ─▶ ┌ row 0: · · 3 · · · · ┐
//!                           └ row 1: · 5 · · · · · ┘   at most min(3, 5) clients
//! ```
//!
//! Why not a map: workers would share it under a lock, and it would grow with the addresses of a flood. The sketch
//! never counts too few, so a bound holds. It counts too many only for an address that shares both its cells with
//! addresses that have many clients. Which addresses share cells is unknown outside, because the hash is keyed.

use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use super::Over;
use crate::proxy::TrustedProxies;
use crate::turns::network_of;

/// Cells of a row. Two rows take half a megabyte, of which untouched pages cost nothing.
const CELLS: usize = 1 << 16;

/// Where an address is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressMark(u32);

impl AddressMark {
    /// Nowhere: all clients of a load balancer have its address until it has said theirs.
    const NOWHERE: AddressMark = AddressMark(u32::MAX);
}

/// How many clients each address has, over all threads of a door.
pub struct Addresses {
    /// Row after row; none if addresses have no bound.
    cells: Box<[AtomicU32]>,
    connections_max: u32,
    /// They are not counted.
    proxies: TrustedProxies,
    hasher: foldhash::quality::RandomState,
}

impl Addresses {
    /// At most so many of each address; 0 for no bound.
    pub fn new(connections_max: u32) -> Addresses {
        let cells = if connections_max == 0 { 0 } else { 2 * CELLS };
        Addresses {
            cells: (0..cells).map(|_| AtomicU32::new(0)).collect(),
            connections_max,
            proxies: TrustedProxies::default(),
            hasher: foldhash::quality::RandomState::default(),
        }
    }

    /// The same, but these load balancers have no bound.
    #[must_use]
    pub fn except(self, proxies: TrustedProxies) -> Addresses {
        Addresses { proxies, ..self }
    }

    /// Whether this is the address of a load balancer, of which nothing is known by its address.
    pub fn is_proxy(&self, address: IpAddr) -> bool {
        self.proxies.contains(address)
    }

    /// Where `address` is counted: with its whole network.
    pub fn mark(&self, address: IpAddr) -> AddressMark {
        if self.is_proxy(address) {
            return AddressMark::NOWHERE;
        }
        let AddressMark(nowhere) = AddressMark::NOWHERE;
        AddressMark((self.hasher.hash_one(network_of(address)) as u32).min(nowhere - 1))
    }

    /// Counts one more client.
    pub(super) fn enter(&self, mark: AddressMark) -> Over {
        let Some([a, b]) = self.cells_of(mark) else { return Over::Not };
        let count = a.fetch_add(1, Ordering::Relaxed).min(b.fetch_add(1, Ordering::Relaxed)) + 1;
        Over::of(count as usize, self.connections_max as usize)
    }

    /// Whether one more client would be one too many.
    pub(super) fn is_full(&self, mark: AddressMark) -> bool {
        let cells = self.cells_of(mark);
        cells.is_some_and(|[a, b]| a.load(Ordering::Relaxed).min(b.load(Ordering::Relaxed)) >= self.connections_max)
    }

    /// Counts one less.
    pub fn leave(&self, mark: AddressMark) {
        for cell in self.cells_of(mark).into_iter().flatten() {
            cell.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn cells_of(&self, mark: AddressMark) -> Option<[&AtomicU32; 2]> {
        let AddressMark(hash) = Some(mark).filter(|mark| *mark != AddressMark::NOWHERE)?;
        let (first, second) = (hash as usize % CELLS, hash as usize >> 16);
        Some([self.cells.get(first)?, self.cells.get(CELLS + second)?])
    }
}

const _: () = assert!(CELLS == 1 << 16, "a mark is the places in both rows, 16 bits each");
