//! Counts the connections of one door, over all its threads: in all, and of each address.
//!
//! ```text
//!   accept ─▶ enter ─┬─ Entered: counted until it is dropped
//!                    └─ Crowded: the door is full, or the address has its share
//! ```
//!
//! Why an address has a share: silent connections cost whoever opens them nothing. Without a share, one host closes a
//! door to everybody else.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::addresses::{AddressMark, Addresses};
use super::{Over, over};

/// Connections that only programs on the server's own host may have, so that its operator gets in when others have all
/// the rest; fewer where a door has few.
const KEPT_FOR_HOST: usize = 16;

/// How many connections a door may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// At once, over all threads.
    pub connections_max: usize,
    /// At once of one address (IPv6: of one /64); 0 for [`share_of_address`].
    pub connections_per_address_max: usize,
}

/// The connections of one door.
pub struct Connections {
    limits: ConnectionLimits,
    all: AtomicUsize,
    addresses: Addresses,
}

/// Why a connection is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crowded {
    /// The door has as many as it may.
    Door,
    /// The address has as many as it may.
    Address,
}

impl Crowded {
    /// In a word, for metrics.
    pub fn word(self) -> &'static str {
        match self {
            Crowded::Door => "limit",
            Crowded::Address => "address",
        }
    }
}

/// A connection that is counted, until it is dropped.
pub struct Entered {
    of: Arc<Connections>,
    mark: AddressMark,
}

/// What one address may have of so many connections, where nothing else is configured: three quarters, so that whoever
/// comes from elsewhere finds room.
pub fn share_of_address(connections_max: usize) -> usize {
    (connections_max - connections_max / 4).max(1)
}

impl Connections {
    /// None yet.
    pub fn new(limits: ConnectionLimits) -> Arc<Connections> {
        let per_address = match limits.connections_per_address_max {
            0 => share_of_address(limits.connections_max),
            most => most,
        };
        let addresses = Addresses::new(u32::try_from(per_address).unwrap_or(u32::MAX));
        Arc::new(Connections { limits, all: AtomicUsize::new(0), addresses })
    }

    /// One more, of this address.
    pub fn enter(self: &Arc<Connections>, address: IpAddr) -> Result<Entered, Crowded> {
        let mark = self.addresses.mark(address);
        // Counted first: if it may not stay, dropping this uncounts it.
        let (of_all, of_address) = (over(&self.all, self.most(address)), self.addresses.enter(mark));
        let entered = Entered { of: self.clone(), mark };
        match (of_all, of_address) {
            (Over::Not, Over::Not) => Ok(entered),
            (_, Over::Barely | Over::Far) => Err(Crowded::Address),
            (Over::Barely | Over::Far, Over::Not) => Err(Crowded::Door),
        }
    }

    /// How many there may be for somebody of this address to be let in.
    fn most(&self, address: IpAddr) -> usize {
        let all = self.limits.connections_max;
        if address.to_canonical().is_loopback() { all } else { all - KEPT_FOR_HOST.min(all / 8) }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.of.all.fetch_sub(1, Ordering::Relaxed);
        self.of.addresses.leave(self.mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, n])
    }

    fn flood(connections: &Arc<Connections>, address: IpAddr) -> (Vec<Entered>, Crowded) {
        let mut entered = Vec::new();
        loop {
            match connections.enter(address) {
                Ok(one) => entered.push(one),
                Err(crowded) => return (entered, crowded),
            }
        }
    }

    #[test]
    fn an_address_leaves_room_for_others_and_all_of_them_for_the_host() {
        let connections = Connections::new(ConnectionLimits { connections_max: 100, connections_per_address_max: 0 });
        let (first, crowded) = flood(&connections, address(1));
        assert_eq!((first.len(), crowded), (75, Crowded::Address));
        let (second, crowded) = flood(&connections, address(2));
        assert_eq!((second.len(), crowded), (13, Crowded::Door), "an eighth is kept for the host");
        let (host, crowded) = flood(&connections, "::ffff:127.0.0.1".parse().unwrap());
        assert_eq!((host.len(), crowded), (12, Crowded::Door));
        drop(first);
        assert_eq!(flood(&connections, address(3)).0.len(), 63, "who leaves makes room");
    }

    #[test]
    fn a_configured_share_holds_and_few_connections_are_some() {
        let connections = Connections::new(ConnectionLimits { connections_max: 100, connections_per_address_max: 3 });
        assert_eq!(flood(&connections, address(1)).0.len(), 3);
        let one = Connections::new(ConnectionLimits { connections_max: 1, connections_per_address_max: 0 });
        assert_eq!(flood(&one, address(1)).0.len(), 1);
    }
}
