//! The address of every shard: one table for the whole node, behind [`Placement::of`].
//!
//! ```text
//!   worker 0: ports 0..p, then its shards, family by family      LEDGER 0 ─▶ 0.2    COUNTERS 0 ─▶ 0.3
//!   worker 1: ports 0..p, then its shards                        LEDGER 1 ─▶ 1.2    COUNTERS 1 ─▶ 1.3
//! ```
//!
//! Why a table: every sender looks up the shard's address here. To move a shard (to another node, behind a member that
//! forwards), only its entry changes.

use std::sync::Arc;

use tidegate_journal::Family;
use tidegate_machines::ShardIndex;
use tidegate_shard::Owners;

use crate::address::Address;

/// How the shards of a family live on their workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// Each shard is a member of its worker, and gets parcels of its own.
    Member,
    /// The port with this number has them inside, on every worker.
    Port(u16),
}

/// The addresses of the shards of one family, by shard. Cloning gives another handle to the same.
#[derive(Clone, Debug)]
pub struct ShardAddresses(Arc<[Address]>);

impl ShardAddresses {
    /// Of these shards, in order.
    pub fn new(addresses: impl IntoIterator<Item = Address>) -> ShardAddresses {
        ShardAddresses(addresses.into_iter().collect())
    }

    /// Where `shard` lives.
    #[inline]
    pub fn of(&self, shard: ShardIndex) -> Address {
        self.0[usize::from(shard.0)]
    }

    /// How many shards there are.
    #[inline]
    pub fn count(&self) -> u16 {
        self.0.len() as u16
    }
}

/// The shards of one family.
#[derive(Clone, Debug)]
struct Placed {
    family: Family,
    owners: Owners,
    home: Home,
    addresses: ShardAddresses,
}

/// Where all shards of a node live.
#[derive(Clone, Debug)]
pub struct Placement {
    workers: u16,
    families: Vec<Placed>,
    /// Members of each worker, its ports included.
    members: Vec<u16>,
}

impl Placement {
    /// Spreads families with so many shards over `workers` workers, each of which has `ports` ports.
    pub fn spread(workers: u16, ports: u16, families: &[(Family, u16, Home)]) -> Placement {
        let mut members = vec![ports; usize::from(workers)];
        let mut placed: Vec<Placed> = Vec::new();
        for (family, shards, home) in families {
            assert!(placed.iter().all(|other| other.family.number != family.number), "a family is placed once");
            let owners = Owners::spread(*shards, workers);
            let addresses = (0..*shards).map(|shard| {
                let worker = owners.worker_of(ShardIndex(shard));
                match home {
                    Home::Port(port) => Address::new(worker, *port),
                    Home::Member => {
                        let member = &mut members[usize::from(worker)];
                        *member += 1;
                        Address::new(worker, *member - 1)
                    }
                }
            });
            let addresses = ShardAddresses::new(addresses);
            placed.push(Placed { family: *family, owners, home: *home, addresses });
        }
        Placement { workers, families: placed, members }
    }

    /// Where a shard of a family lives.
    pub fn of(&self, family: Family, shard: ShardIndex) -> Address {
        self.shards(family).of(shard)
    }

    /// Where all shards of a family live.
    pub fn shards(&self, family: Family) -> ShardAddresses {
        self.placed(family).addresses.clone()
    }

    /// Which worker owns which shard of a family.
    pub fn owners(&self, family: Family) -> Owners {
        self.placed(family).owners.clone()
    }

    /// Whether the shards of a family are members of their workers.
    pub(crate) fn are_members(&self, family: Family) -> bool {
        self.placed(family).home == Home::Member
    }

    /// How many workers there are.
    pub fn workers(&self) -> u16 {
        self.workers
    }

    /// Members of `worker`, its ports included.
    pub(crate) fn members(&self, worker: u16) -> u16 {
        self.members[usize::from(worker)]
    }

    fn placed(&self, family: Family) -> &Placed {
        let placed = self.families.iter().find(|placed| placed.family.number == family.number);
        placed.unwrap_or_else(|| panic!("no room of this node has the logs of {}", family.name))
    }
}

#[cfg(test)]
mod tests {
    use tidegate_journal::Retention;

    use super::*;

    const A: Family = Family { number: 1, name: "a", retention: Retention::Whole };
    const B: Family = Family { number: 2, name: "b", retention: Retention::Whole };
    const C: Family = Family { number: 3, name: "c", retention: Retention::Whole };

    #[test]
    fn members_stand_behind_the_ports_and_shards_in_a_port_share_its_address() {
        let placement = Placement::spread(2, 2, &[(A, 3, Home::Member), (B, 2, Home::Port(1)), (C, 2, Home::Member)]);
        let of = |family, shards: u16| -> Vec<String> {
            (0..shards).map(|shard| placement.of(family, ShardIndex(shard)).to_string()).collect()
        };
        assert_eq!(of(A, 3), ["0.2", "1.2", "0.3"]);
        assert_eq!(of(B, 2), ["0.1", "1.1"]);
        assert_eq!(of(C, 2), ["0.4", "1.3"]);
        assert_eq!((placement.members(0), placement.members(1)), (5, 4));
    }
}
