//! Which worker owns which shard of a family: one table, made in one place.
//!
//! Why a table and not a formula at each use: a shard can then be placed anywhere without a change of the code that
//! looks it up.

use std::sync::Arc;

use tidegate_machines::ShardIndex;

/// The owners of all shards of one family. Cloning gives another handle to the same table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owners {
    /// Per shard: its worker, and its place among the shards of that worker.
    of: Arc<[(u16, u16)]>,
    workers: u16,
}

impl Owners {
    /// Spreads `shards` shards evenly over `workers` workers.
    pub fn spread(shards: u16, workers: u16) -> Owners {
        assert!(workers > 0, "a shard needs an owner");
        Owners { of: (0..shards).map(|shard| (shard % workers, shard / workers)).collect(), workers }
    }

    /// How many shards there are.
    pub fn shards(&self) -> u16 {
        self.of.len() as u16
    }

    /// How many workers share them.
    pub fn workers(&self) -> u16 {
        self.workers
    }

    /// The worker that owns `shard`.
    #[inline]
    pub fn worker_of(&self, shard: ShardIndex) -> u16 {
        self.of[usize::from(shard.0)].0
    }

    /// The place of `shard` among the shards of its worker, from zero, in ascending order of the shards.
    #[inline]
    pub fn place_of(&self, shard: ShardIndex) -> u16 {
        self.of[usize::from(shard.0)].1
    }

    /// The shards of `worker`, ascending.
    pub fn on(&self, worker: u16) -> impl Iterator<Item = ShardIndex> + '_ {
        let all = self.of.iter().enumerate();
        all.filter(move |(_, (owner, _))| *owner == worker).map(|(shard, _)| ShardIndex(shard as u16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shard_has_one_owner_and_places_count_up() {
        for (shards, workers) in [(0, 1), (1, 1), (5, 2), (7, 7), (3, 8)] {
            let owners = Owners::spread(shards, workers);
            let mut owned = 0;
            for worker in 0..workers {
                for (place, shard) in owners.on(worker).enumerate() {
                    assert_eq!((owners.worker_of(shard), owners.place_of(shard)), (worker, place as u16));
                    owned += 1;
                }
            }
            assert_eq!(owned, shards);
            assert_eq!((owners.shards(), owners.workers()), (shards, workers));
        }
    }
}
